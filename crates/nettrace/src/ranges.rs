//! Tables whose ids occur in blocks of consecutive numbers: stacks and label lists.

/// A map from ids to indexes of a table. Ids ascend; if an id is repeated, the numbering restarts.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// The first id of each block, and its index.
    blocks: Vec<(u32, usize)>,
}

impl Ranges {
    /// Starts a block with id `first` at the end of a table of `length` entries. Returns whether the table must be
    /// cleared because its ids are being reused.
    pub(crate) fn begin(&mut self, first: u32, length: usize) -> bool {
        let Some(&(begin, place)) = self.blocks.last() else {
            self.blocks.push((first, length));
            return false;
        };
        let next = u64::from(begin) + length.saturating_sub(place) as u64;
        if u64::from(first) < next {
            self.blocks.clear();
            self.blocks.push((first, 0));
            return true;
        }
        // Consecutive blocks are merged, so that a lookup takes one step.
        if u64::from(first) > next {
            self.blocks.push((first, length));
        }
        false
    }

    /// Returns the index of an id in a table of `length` entries, or `None` if no block contains the id.
    #[inline]
    pub(crate) fn place(&self, id: u32, length: usize) -> Option<usize> {
        let block = self.blocks.partition_point(|(first, _)| *first <= id).checked_sub(1)?;
        let (first, start) = *self.blocks.get(block)?;
        let end = self.blocks.get(block + 1).map_or(length, |(_, next)| *next);
        let place = start + (id - first) as usize;
        (place < end).then_some(place)
    }

    /// Returns the number of blocks, in which consecutive blocks are merged.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the heap size, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<(u32, usize)>()
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: blocks are consecutive, then one block skips ids, then one block repeats ids.
    /// Guarantee: each id has its index, skipped ids have no index, and repeated ids invalidate the table.
    #[test]
    fn id_maps_to_index() {
        let mut ranges = Ranges::default();
        assert!(!ranges.begin(1, 0));
        assert!(!ranges.begin(3, 2));
        assert_eq!(ranges.len(), 1);
        assert!(!ranges.begin(10, 4));
        let place = |ranges: &Ranges, id| ranges.place(id, 6);
        assert_eq!(
            [1, 2, 4, 10, 11].map(|id| place(&ranges, id)),
            [Some(0), Some(1), Some(3), Some(4), Some(5)]
        );
        assert_eq!([0, 5, 9, 12, u32::MAX].map(|id| place(&ranges, id)), [None; 5]);
        assert!(ranges.begin(11, 6));
        assert_eq!([10, 11].map(|id| ranges.place(id, 1)), [None, Some(0)]);
        ranges.clear();
        assert_eq!(ranges.place(11, 1), None);
    }
}
