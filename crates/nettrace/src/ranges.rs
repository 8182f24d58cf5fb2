//! Tables whose ids come in blocks of consecutive numbers: stacks and label lists.

/// Which place of a table an id has. Ids ascend; when they do not, they begin anew.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// The first id of each block, and its place.
    blocks: Vec<(u32, usize)>,
}

impl Ranges {
    /// A block begins with the id `first`, at the end of a table that has `length` places. Gives whether all that the
    /// table holds is void, so that it must be cleared: the ids are given again.
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
        // Blocks that go on where the last ended are one, so that a lookup is one step.
        if u64::from(first) > next {
            self.blocks.push((first, length));
        }
        false
    }

    /// The place of an id, in a table that has `length` places.
    #[inline]
    pub(crate) fn place(&self, id: u32, length: usize) -> Option<usize> {
        let block = self.blocks.partition_point(|(first, _)| *first <= id).checked_sub(1)?;
        let (first, start) = *self.blocks.get(block)?;
        let end = self.blocks.get(block + 1).map_or(length, |(_, next)| *next);
        let place = start + (id - first) as usize;
        (place < end).then_some(place)
    }

    /// Blocks of ids that do not follow each other.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes on the heap.
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

    /// Scenario: blocks that go on, one that leaves ids out, then one whose ids were given before.
    /// Guarantee: each id has its place, ids left out have none, and ids given again void the table.
    #[test]
    fn ids_have_places() {
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
