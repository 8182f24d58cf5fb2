//! Collections of which nothing was observed: the runtime numbers its collections without gaps, so that the ones
//! between two sessions, and those whose events were all lost, are known exactly.
//!
//! A number that is skipped may be that of the background collection in progress, which is observed when it ends. It is
//! missed once two collections began after it while none was in progress: those are blocking ones (a foreground one has
//! a type of its own) and the next background ones. Two, because a collection whose last facts are late may be observed
//! after the next one.

use std::collections::VecDeque;

use clr_gc::event::GcType;
use clr_gc::gc::Collection;

/// Most gaps that are open; with more, the oldest is missed. A gap closes after two collections, so that more are
/// possible only where most events of a long background collection are lost.
const MOST_GAPS: usize = 16;

/// Numbers that were skipped, from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    first: u32,
    last: u32,
    /// One collection that shows that it is missed was observed.
    is_passed: bool,
}

impl Gap {
    fn count(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }
}

/// The gaps of one run.
#[derive(Debug, Default)]
pub(super) struct Missed {
    newest: Option<u32>,
    gaps: VecDeque<Gap>,
}

impl Missed {
    /// Observes a collection. How many are known to be missed since the last call.
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
        while self.gaps.len() > MOST_GAPS {
            missed += self.gaps.pop_front().map_or(0, Gap::count);
        }
        missed
    }

    /// A skipped number was observed after all.
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
        let mut state = Missed::default();
        numbers
            .iter()
            .map(|(number, gc_type)| state.number(*number, Some(*gc_type)))
            .sum()
    }

    /// Scenario: a session ends, 90 collections later the next one begins.
    /// Guarantee: 90 are missed, as soon as two more collections are observed.
    #[test]
    fn what_is_between_two_sessions_is_missed() {
        let all = [9, 10, 101, 102].map(|number| (number, GcType::BLOCKING));
        assert_eq!(missed(&all[..3]), 0);
        assert_eq!(missed(&all), 90);
    }

    /// Scenario: foreground collections run during a background one, which ends after them.
    /// Guarantee: none is missed.
    #[test]
    fn a_background_collection_is_late() {
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

    /// Scenario: a session ends during a background collection; it ends while nobody reads.
    /// Guarantee: it is missed, with the others.
    #[test]
    fn a_background_collection_that_was_never_seen_is_missed() {
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
        /// Scenario: any collections are observed out of order by at most one, any of them not at all.
        /// Guarantee: exactly those are missed that were not observed, up to the last few; the gaps are bounded.
        #[test]
        fn missed_are_those_that_were_not_observed(seen in prop::collection::vec(any::<bool>(), 1..300), swap: bool) {
            let mut numbers: Vec<u32> = (1..).zip(&seen).filter(|(_, seen)| **seen).map(|(number, _)| number).collect();
            if swap {
                for pair in numbers.chunks_mut(2) {
                    pair.reverse();
                }
            }
            // The first one that is observed begins the count.
            let after = seen.len() as u32 + 1;
            let first = numbers.first().copied().unwrap_or(after);
            numbers.extend([after, after + 1, after + 2]);
            let mut state = Missed::default();
            let mut count = 0;
            for number in &numbers {
                count += state.number(*number, Some(GcType::BLOCKING));
                prop_assert!(state.gaps.len() <= MOST_GAPS);
            }
            let expected = (first..after).filter(|number| !numbers.contains(number)).count();
            prop_assert_eq!(count, expected as u64);
        }
    }
}
