//! Collections without observed events. The runtime numbers its collections without gaps, so the number of collections
//! between two sessions, and of collections whose events were all lost, is exact.
//!
//! A skipped number can belong to the background collection in progress, which is observed at its end. The number is
//! missed after two later collections started while no background collection was in progress: blocking collections
//! (foreground collections have a separate type) or later background collections. Two collections are necessary,
//! because a collection with late data can be observed after the next collection.

use std::collections::VecDeque;

use clr_gc::event::GcType;
use clr_gc::gc::Collection;

/// Maximum number of open gaps; above the maximum, the collections of the oldest gap count as missed. A gap closes
/// after two collections, so more gaps are possible only if most events of a long background collection are lost.
const MAX_GAPS: usize = 16;

/// Skipped numbers from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    first: u32,
    last: u32,
    /// Whether one of the two collections that prove the gap was observed.
    is_passed: bool,
}

impl Gap {
    fn count(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }
}

/// Gaps of one run.
#[derive(Debug, Default)]
pub(super) struct RunGaps {
    newest: Option<u32>,
    gaps: VecDeque<Gap>,
}

impl RunGaps {
    /// Observes a collection and returns the number of collections found missed since the last call.
    pub(super) fn observe(&mut self, collection: &Collection) -> u64 {
        self.number(collection.number, collection.gc_type)
    }

    fn number(&mut self, number: u32, gc_type: Option<GcType>) -> u64 {
        let mut missed = 0;
        match self.newest {
            Some(newest) if number <= newest => self.fill(number),
            Some(newest) => {
                if number - newest > 1 {
                    self.gaps.push_back(Gap {
                        first: newest + 1,
                        last: number - 1,
                        is_passed: false,
                    });
                }
                self.newest = Some(number);
            }
            None => self.newest = Some(number),
        }
        if matches!(gc_type, Some(GcType::BLOCKING | GcType::BACKGROUND)) {
            self.gaps.retain_mut(|gap| {
                if gap.last >= number {
                    return true;
                }
                if gap.is_passed {
                    missed += gap.count();
                }
                !std::mem::replace(&mut gap.is_passed, true)
            });
        }
        while self.gaps.len() > MAX_GAPS {
            missed += self.gaps.pop_front().map_or(0, Gap::count);
        }
        missed
    }

    /// Removes a skipped number that was observed late.
    fn fill(&mut self, number: u32) {
        let gap = self
            .gaps
            .iter()
            .position(|gap| (gap.first..=gap.last).contains(&number));
        let Some((place, gap)) = gap.and_then(|place| Some((place, *self.gaps.get(place)?))) else {
            return;
        };
        self.gaps.remove(place);
        for (first, last) in [
            (number.checked_add(1), Some(gap.last)),
            (Some(gap.first), number.checked_sub(1)),
        ] {
            if let (Some(first), Some(last)) = (first, last)
                && first <= last
            {
                self.gaps.insert(place, Gap { first, last, ..gap });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn missed(numbers: &[(u32, GcType)]) -> u64 {
        let mut state = RunGaps::default();
        numbers
            .iter()
            .map(|(number, gc_type)| state.number(*number, Some(*gc_type)))
            .sum()
    }

    /// Scenario: a session ends, and the next session starts 90 collections later.
    /// Guarantee: 90 collections are missed after two more collections are observed.
    #[test]
    fn collections_between_sessions_are_missed() {
        let all = [9, 10, 101, 102].map(|number| (number, GcType::BLOCKING));
        assert_eq!(missed(&all[..3]), 0);
        assert_eq!(missed(&all), 90);
    }

    /// Scenario: foreground collections run during a background collection, which ends after them.
    /// Guarantee: no collection is missed.
    #[test]
    fn late_background_collection_is_not_missed() {
        let (fore, back, blocking) = (GcType::FOREGROUND, GcType::BACKGROUND, GcType::BLOCKING);
        let all = [
            (4, blocking),
            (6, fore),
            (7, fore),
            (5, back),
            (8, blocking),
            (9, blocking),
            (10, blocking),
        ];
        assert_eq!(missed(&all), 0);
    }

    /// Scenario: a session ends during a background collection, which ends before the next session.
    /// Guarantee: the background collection is missed, with the other collections.
    #[test]
    fn unobserved_background_collection_is_missed() {
        let all = [
            (6, GcType::FOREGROUND),
            (9, GcType::FOREGROUND),
            (12, GcType::BLOCKING),
            (13, GcType::BLOCKING),
            (14, GcType::BLOCKING),
        ];
        assert_eq!(missed(&all), 2 + 2);
    }

    proptest! {
        /// Scenario: collections are observed out of order by at most one position; any collection can be unobserved,
        /// except the last three.
        /// Guarantee: exactly the unobserved collections after the first observed collection are missed; the number of
        /// gaps is bounded.
        #[test]
        fn unobserved_collections_are_missed(seen in prop::collection::vec(any::<bool>(), 1..300), swap: bool) {
            let mut numbers: Vec<u32> = (1..).zip(&seen).filter(|(_, seen)| **seen).map(|(number, _)| number).collect();
            if swap {
                for pair in numbers.chunks_mut(2) {
                    pair.reverse();
                }
            }
            // The first observed collection starts the count.
            let after = seen.len() as u32 + 1;
            let first = numbers.first().copied().unwrap_or(after);
            numbers.extend([after, after + 1, after + 2]);
            let mut state = RunGaps::default();
            let mut count = 0;
            for number in &numbers {
                count += state.number(*number, Some(GcType::BLOCKING));
                prop_assert!(state.gaps.len() <= MAX_GAPS);
            }
            let expected = (first..after).filter(|number| !numbers.contains(number)).count();
            prop_assert_eq!(count, expected as u64);
        }
    }
}
