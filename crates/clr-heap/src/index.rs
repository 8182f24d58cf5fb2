//! Objects by their address.
//!
//! The runtime walks its heap region by region, each in ascending order: the objects are runs of ascending addresses,
//! and those are few. Only where runs overlap, which no runtime writes, all objects are sorted.

/// A run of ascending addresses.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u64,
    start: u32,
    end: u32,
}

#[derive(Debug)]
pub(crate) struct Index<'a> {
    addresses: &'a [u64],
    runs: Vec<Run>,
    /// Places by address; empty where the runs are enough.
    sorted: Vec<u32>,
}

impl<'a> Index<'a> {
    /// Of at most `u32::MAX` addresses.
    pub(crate) fn of(addresses: &'a [u64]) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        // More runs than this are no regions.
        let most = addresses.len() / 8 + 1024;
        let mut is_sortable = true;
        let mut last = None;
        for (place, address) in addresses.iter().enumerate() {
            let place = place as u32;
            let is_full = runs.len() >= most;
            match runs.last_mut() {
                Some(run) if last < Some(*address) => run.end = place + 1,
                _ if is_full => {
                    is_sortable = false;
                    break;
                }
                _ => runs.push(Run {
                    first: *address,
                    start: place,
                    end: place + 1,
                }),
            }
            last = Some(*address);
        }
        runs.sort_unstable_by_key(|run| (run.first, run.start));
        let last_of = |run: &Run| addresses.get(run.end as usize - 1).copied().unwrap_or(u64::MAX);
        let overlap = runs.windows(2).any(|pair| match pair {
            [one, next] => last_of(one) >= next.first,
            _ => false,
        });
        let mut sorted = Vec::new();
        if overlap || !is_sortable {
            sorted = (0..addresses.len() as u32).collect();
            sorted.sort_unstable_by_key(|place| (addresses.get(*place as usize).copied(), *place));
            runs = Vec::new();
        }
        Self {
            addresses,
            runs,
            sorted,
        }
    }

    fn address(&self, place: u32) -> u64 {
        self.addresses.get(place as usize).copied().unwrap_or(u64::MAX)
    }

    /// The last object that begins at this address or before it.
    pub(crate) fn before(&self, address: u64) -> Option<u32> {
        if !self.sorted.is_empty() {
            let behind = self.sorted.partition_point(|place| self.address(*place) <= address);
            let place = *self.sorted.get(behind.checked_sub(1)?)?;
            // Of those with one address, the first in the stream.
            let same = self.address(place);
            let first = self.sorted.partition_point(|place| self.address(*place) < same);
            return self.sorted.get(first).copied();
        }
        let behind = self.runs.partition_point(|run| run.first <= address);
        let run = self.runs.get(behind.checked_sub(1)?)?;
        let of_run = self.addresses.get(run.start as usize..run.end as usize)?;
        let behind = of_run.partition_point(|one| *one <= address);
        Some(run.start + behind.checked_sub(1)? as u32)
    }

    /// The object at this address.
    pub(crate) fn at(&self, address: u64) -> Option<u32> {
        self.before(address).filter(|place| self.address(*place) == address)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive_before(addresses: &[u64], address: u64) -> Option<u32> {
        let fitting = addresses.iter().enumerate().filter(|(_, one)| **one <= address);
        // The first of those with the greatest address.
        let best = fitting.max_by_key(|(place, one)| (**one, std::cmp::Reverse(*place)));
        best.map(|(place, _)| place as u32)
    }

    proptest! {
        /// Scenario: addresses in any order, also many times the same; regions that ascend, in any order.
        /// Guarantee: each is found where a search through all finds it, and what lies between belongs to the one
        /// before.
        #[test]
        fn addresses_are_found(mut addresses in prop::collection::vec(0_u64..200, 0..60), ascending in any::<bool>()) {
            if ascending {
                addresses.sort_unstable();
                addresses.dedup();
                let middle = addresses.len() / 2;
                addresses.rotate_left(middle);
            }
            let index = Index::of(&addresses);
            for address in 0..201 {
                prop_assert_eq!(index.before(address), naive_before(&addresses, address));
                let at = naive_before(&addresses, address).filter(|place| addresses[*place as usize] == address);
                prop_assert_eq!(index.at(address), at);
            }
        }
    }
}
