//! Finds objects by address.
//!
//! The runtime walks the heap region by region. Addresses ascend within a region, but regions come in any order.
//! Objects therefore form a few runs of ascending addresses. A run ends if the next object is far away, because a
//! region that follows later can be in between. Only if runs overlap, which no runtime writes, all objects are sorted.
//!
//! A run is divided into parts of equal length, with [`IN_PART`] objects on average and a table of their starts. A
//! search through a run of millions of objects would otherwise miss the cache at each step.

/// Approximate number of objects per part.
const IN_PART: u32 = 16;

/// Minimum distance of objects in different runs, in bytes: less than any region.
const APART: u64 = 256 << 10;

/// A run of ascending addresses.
#[derive(Debug, Clone, Copy)]
struct AddressRun {
    first: u64,
    start: u32,
    end: u32,
    /// Position of the run's parts in the table, and number of parts.
    parts: (u32, u32),
    /// Length of a part as a power of two: `1 << shift` bytes.
    shift: u32,
}

#[derive(Debug)]
pub(crate) struct Index<'a> {
    addresses: &'a [u64],
    runs: Vec<AddressRun>,
    /// First index of each part of a run, followed by the end of the run.
    parts: Vec<u32>,
    /// Indices sorted by address; empty if the runs are sufficient.
    sorted: Vec<u32>,
}

impl<'a> Index<'a> {
    /// Builds the index of at most `u32::MAX` addresses.
    pub(crate) fn build(addresses: &'a [u64]) -> Self {
        let mut runs: Vec<AddressRun> = Vec::new();
        // If there are more runs than this number, they cannot be regions.
        let most = addresses.len() / 8 + 1024;
        let mut is_sortable = true;
        let mut last: Option<u64> = None;
        for (place, address) in addresses.iter().enumerate() {
            let place = place as u32;
            let is_full = runs.len() >= most;
            match runs.last_mut() {
                Some(run) if last.is_some_and(|last| last < *address && *address - last < APART) => {
                    run.end = place + 1;
                }
                _ if is_full => {
                    is_sortable = false;
                    break;
                }
                _ => runs.push(AddressRun {
                    first: *address,
                    start: place,
                    end: place + 1,
                    parts: (0, 0),
                    shift: 0,
                }),
            }
            last = Some(*address);
        }
        runs.sort_unstable_by_key(|run| (run.first, run.start));
        let last_of = |run: &AddressRun| addresses.get(run.end as usize - 1).copied().unwrap_or(u64::MAX);
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
        let mut parts = Vec::new();
        for run in &mut runs {
            divide(run, addresses, &mut parts);
        }
        Self {
            addresses,
            runs,
            parts,
            sorted,
        }
    }

    fn address(&self, place: u32) -> u64 {
        self.addresses.get(place as usize).copied().unwrap_or(u64::MAX)
    }

    /// Returns the last object that starts at or before an address, or `None` if there is no such object.
    pub(crate) fn before(&self, address: u64) -> Option<u32> {
        if !self.sorted.is_empty() {
            let behind = self.sorted.partition_point(|place| self.address(*place) <= address);
            let place = *self.sorted.get(behind.checked_sub(1)?)?;
            // Of several objects with one address, return the first in the stream.
            let same = self.address(place);
            let first = self.sorted.partition_point(|place| self.address(*place) < same);
            return self.sorted.get(first).copied();
        }
        let behind = self.runs.partition_point(|run| run.first <= address);
        let run = self.runs.get(behind.checked_sub(1)?)?;
        let (start, end) = self.part(run, address);
        let of_part = self.addresses.get(start as usize..end as usize)?;
        let behind = of_part.partition_point(|one| *one <= address);
        // If all objects of the part are after the address, return the object before the part.
        (start + behind as u32).checked_sub(1)
    }

    /// Returns the range of indices of the part of a run that contains an address.
    fn part(&self, run: &AddressRun, address: u64) -> (u32, u32) {
        let (at, count) = run.parts;
        let Some(last) = count.checked_sub(1) else {
            return (run.start, run.end);
        };
        let part = u32::try_from((address - run.first) >> run.shift)
            .unwrap_or(last)
            .min(last);
        let place = |part: u32| self.parts.get((at + part) as usize).copied();
        (place(part).unwrap_or(run.start), place(part + 1).unwrap_or(run.end))
    }

    /// Returns the object at an address, or `None` if no object starts at the address.
    pub(crate) fn at(&self, address: u64) -> Option<u32> {
        self.before(address).filter(|place| self.address(*place) == address)
    }
}

/// Adds the table of a run's parts, if the run is long enough.
fn divide(run: &mut AddressRun, addresses: &[u64], parts: &mut Vec<u32>) {
    let wanted = (run.end - run.start) / IN_PART;
    let last = addresses.get(run.end as usize - 1).copied().unwrap_or(run.first);
    if wanted < 2 {
        return;
    }
    let length = last - run.first;
    run.shift = (length / u64::from(wanted)).max(1).ilog2() + 1;
    // Reserve space for at most `wanted` parts and the end.
    let count = (length >> run.shift) as u32 + 1;
    run.parts = (parts.len() as u32, count);
    parts.reserve(count as usize + 1);
    let mut place = run.start;
    for part in 0..u64::from(count) {
        let from = run.first + (part << run.shift);
        while place < run.end && addresses.get(place as usize).is_some_and(|address| *address < from) {
            place += 1;
        }
        parts.push(place);
    }
    parts.push(run.end);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive_before(addresses: &[u64], address: u64) -> Option<u32> {
        let fitting = addresses.iter().enumerate().filter(|(_, one)| **one <= address);
        // The first of the objects with the greatest address.
        let best = fitting.max_by_key(|(place, one)| (**one, std::cmp::Reverse(*place)));
        best.map(|(place, _)| place as u32)
    }

    /// Scenario: of three regions, the middle region is walked last.
    /// Guarantee: the regions form three runs, and no sorting is needed.
    #[test]
    fn regions_in_any_order_form_runs() {
        let region = |at: u64| (0..1_000).map(move |place| (at << 22) + place * 64);
        let addresses: Vec<u64> = region(1).chain(region(3)).chain(region(2)).collect();
        let index = Index::build(&addresses);
        assert_eq!((index.runs.len(), index.sorted.len()), (3, 0));
        assert_eq!(index.at((2 << 22) + 64), Some(2_001));
        assert_eq!(index.before((3 << 22) - 1), Some(2_999));
    }

    proptest! {
        /// Scenario: two long runs have gaps of any size between objects.
        /// Guarantee: a linear search gives the same result for each object, for addresses between objects, and for
        /// addresses outside.
        #[test]
        fn long_runs_match_linear_search(
            gaps in prop::collection::vec(prop_oneof![9 => 1_u64..100, 1 => 1_u64..APART, 1 => APART..1 << 40], 32..400),
            first in 0_u64..1_000_000,
        ) {
            let mut at = first;
            let mut addresses: Vec<u64> = gaps.iter().map(|gap| { at += gap; at }).collect();
            let middle = addresses.len() / 2;
            addresses.rotate_left(middle);
            let index = Index::build(&addresses);
            prop_assert!(index.sorted.is_empty());
            let beside = addresses.iter().flat_map(|one| [one - 1, *one, one + 1]);
            for address in beside.chain([0, first, at + 1_000, u64::MAX]) {
                prop_assert_eq!(index.before(address), naive_before(&addresses, address), "{}", address);
            }
        }

        /// Scenario: addresses are in any order, with duplicates; regions ascend, in any order.
        /// Guarantee: a linear search gives the same result for each object, and an address between objects belongs to
        /// the previous object.
        #[test]
        fn addresses_are_found(mut addresses in prop::collection::vec(0_u64..200, 0..60), ascending in any::<bool>()) {
            if ascending {
                addresses.sort_unstable();
                addresses.dedup();
                let middle = addresses.len() / 2;
                addresses.rotate_left(middle);
            }
            let index = Index::build(&addresses);
            for address in 0..201 {
                prop_assert_eq!(index.before(address), naive_before(&addresses, address));
                let at = naive_before(&addresses, address).filter(|place| addresses[*place as usize] == address);
                prop_assert_eq!(index.at(address), at);
            }
        }
    }
}
