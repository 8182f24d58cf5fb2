//! Cost of marking in one process: divides the time of a mark between its roots and the objects behind them.
//!
//! A mark states how long one kind of root took (*t*) and how many bytes it marked (*b*). The time is `R + c b`:
//! scanning the roots, and marking the bytes that are reachable only from these roots. A single mark cannot separate
//! the two times, so the time of the roots has a range. The ends of the range follow from these facts:
//!
//! | Fact | Bound |
//! |---|---|
//! | Marking a byte takes 0.01 ns (arrays of 16 KB) to 0.5 ns (objects of 40 bytes, each a cache miss) | `t - 0.5 b <= R <= t - 0.01 b` |
//! | Planning visits each survivor once more. In 60 recordings, marking took 0.1 to 3.3 times as long as planning | `R >= t - 3 plan` |
//! | If the bytes differ between collections, a line through *b* and *t* has the slope *c* | *c* replaces 0.5, and half of *c* replaces 0.01 |
//! | A handle takes at most 200 ns (measured: 20) | `R <= 200 ns x handles` |
//! | Stacks, and handles of young collections, take about as long as recently, unless *b* cannot explain the increase | `R <= 2 x recent` |
//!
//! The last fact matters when marking is expensive for another reason: 16 MB of cold objects of 32 bytes took 3.3 ns
//! per byte, and a queue of five million objects takes 60 ms in a full collection. Stacks are as deep in a full
//! collection as in a young collection, so these milliseconds are not spent on stacks.
//!
//! The facts were measured with `tests/accounts/run`; docs/stopped-time.md lists the figures.

use crate::gc::account::cause::Cause;

/// Minimum time to mark a byte, in nanoseconds: arrays of 16 KB without references.
const MIN_BYTE_NS: f64 = 0.01;

/// Maximum time to mark a byte, in nanoseconds: objects of 40 bytes, each a cache miss.
const MAX_BYTE_NS: f64 = 0.5;

/// Maximum time to mark a byte in any recording, in nanoseconds: small objects that were not in any cache.
const COLD_BYTE_NS: f64 = 4.0;

/// Minimum of the upper bound that follows from a line through the marks of a process, in nanoseconds per byte. The
/// cheap bytes can belong to large arrays, while the bytes that each collection marks can belong to small objects.
const MIN_SLOPE_NS: f64 = 0.1;

/// Share of a slope that certainly belongs to marking, and maximum of this share in nanoseconds per byte.
const MIN_SLOPE_SHARE: f64 = 0.5;
const MAX_LEAST_NS: f64 = 0.25;

/// Maximum duration of marking, as a multiple of the duration of planning.
const PLAN_TIMES: f64 = 3.0;

/// Maximum time to scan a handle, in nanoseconds.
const HANDLE_NS: f64 = 200.0;

/// Maximum time of the roots of one collection, as a multiple of the time in recent collections.
const RECENT_TIMES: f64 = 2.0;

/// Multiple of the usual bytes above which a collection is an outlier.
const OUTLIER_TIMES: f64 = 4.0;

/// Weight of a collection after one more collection.
const DECAY: f64 = 0.95;

/// Minimum number of collections for a line, and maximum uncertainty of its slope in nanoseconds per byte.
const MIN_WEIGHT: f64 = 8.0;
const MAX_UNCERTAIN_NS: f64 = 0.25;

/// Minimum and maximum duration of a part, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) low: i64,
    pub(super) high: i64,
}

impl Range {
    /// Returns a value in the range that is nearer to the low end: the harmonic mean, which is at most twice the low
    /// end. Time that is not proven to belong to the roots is not attributed to them.
    pub(super) fn estimate(self) -> i64 {
        let (low, high) = (self.low as f64, self.high as f64);
        if low <= 0.0 {
            return 0;
        }
        ((2.0 * low * high / (low + high)) as i64).clamp(self.low, self.high)
    }
}

/// A mark of a collection, for [`MarkingCost::roots`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct MarkSample {
    pub(super) cause: Cause,
    /// Nanoseconds from the previous mark to this mark.
    pub(super) took: i64,
    pub(super) bytes: u64,
}

/// Facts about the collection of a mark.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    /// Duration of the plan phase, in nanoseconds.
    pub(super) plan: Option<i64>,
    pub(super) handles: Option<u32>,
    pub(super) is_full: bool,
}

/// Cost of marking in one process, learned from the marks of its collections.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MarkingCost {
    /// Kinds, in the order of [`Cause::ALL`].
    kinds: [Kind; Cause::RANGED],
}

impl MarkingCost {
    /// Returns the time range of the roots of a mark.
    pub(super) fn roots(&self, mark: MarkSample, of: Context) -> Range {
        let (took, bytes) = (mark.took.max(0) as f64, mark.bytes as f64);
        let kind = self.kind(mark.cause).copied().unwrap_or_default();
        let planned = of.plan.map_or(f64::INFINITY, |ns| ns.max(0) as f64 * PLAN_TIMES);
        let (least, most) = kind.byte_ns();
        let mut high = (took - least * bytes).max(0.0);
        let mut low = (took - (most * bytes).min(planned)).clamp(0.0, high);
        let is_steady = match mark.cause {
            Cause::Stacks => true,
            Cause::Handles => !of.is_full,
            _ => false,
        };
        if let (true, Some(recent)) = (is_steady, kind.recent) {
            let sure = took - COLD_BYTE_NS * bytes;
            let most = sure.max(RECENT_TIMES * recent);
            low = low.min(most);
            if of.is_full {
                high = high.min(most);
            }
        }
        if let (Cause::Handles, Some(handles)) = (mark.cause, of.handles) {
            high = high.min(HANDLE_NS * f64::from(handles));
        }
        Range {
            low: low.min(high) as i64,
            high: high as i64,
        }
    }

    /// Records the marks of a young collection.
    pub(crate) fn learn(&mut self, marks: &[MarkSample]) {
        for mark in marks {
            let place = mark.cause.ranged_place();
            if let Some(kind) = place.and_then(|place| self.kinds.get_mut(place)) {
                kind.learn(mark.took.max(0) as f64, mark.bytes as f64);
            }
        }
    }

    fn kind(&self, cause: Cause) -> Option<&Kind> {
        self.kinds.get(cause.ranged_place()?)
    }
}

/// A regression line of time over bytes for one kind of root. The weight of a collection decreases with its age.
#[derive(Debug, Clone, Copy, Default)]
struct Kind {
    weight: f64,
    /// Mean of the bytes. An outlier counts with the bound for outliers.
    usual_bytes: f64,
    mean_bytes: f64,
    mean_ns: f64,
    /// Weighted sums of products of deviations from the means.
    bytes_bytes: f64,
    bytes_ns: f64,
    ns_ns: f64,
    /// Maximum time of the roots in recent young collections.
    recent: Option<f64>,
}

impl Kind {
    fn learn(&mut self, took: f64, bytes: f64) {
        let roots = (took - MIN_BYTE_NS * bytes).max(0.0);
        self.recent = Some(self.recent.map_or(roots, |recent| roots.max(DECAY * recent)));
        // A single outlier would determine the line, so the line ignores it. After several similar collections, their
        // bytes count as usual.
        let most = OUTLIER_TIMES * self.usual_bytes;
        let is_outlier = self.weight >= MIN_WEIGHT && most > 0.0 && bytes > most;
        let usual = if is_outlier { most } else { bytes };
        self.usual_bytes += (usual - self.usual_bytes) / (self.weight + 1.0);
        if is_outlier {
            return;
        }
        self.weight = DECAY * self.weight + 1.0;
        let (bytes_off, ns_off) = (bytes - self.mean_bytes, took - self.mean_ns);
        self.mean_bytes += bytes_off / self.weight;
        self.mean_ns += ns_off / self.weight;
        self.bytes_bytes = DECAY * self.bytes_bytes + bytes_off * (bytes - self.mean_bytes);
        self.bytes_ns = DECAY * self.bytes_ns + bytes_off * (took - self.mean_ns);
        self.ns_ns = DECAY * self.ns_ns + ns_off * (took - self.mean_ns);
    }

    /// Returns the minimum and maximum time to mark a byte in this process, in nanoseconds.
    fn byte_ns(&self) -> (f64, f64) {
        if self.weight < MIN_WEIGHT || self.bytes_bytes <= 0.0 {
            return (MIN_BYTE_NS, MAX_BYTE_NS);
        }
        let slope = self.bytes_ns / self.bytes_bytes;
        let rest = (self.ns_ns - slope * self.bytes_ns).max(0.0) / (self.weight - 2.0);
        let uncertain = 2.0 * (rest / self.bytes_bytes).sqrt();
        if uncertain <= MAX_UNCERTAIN_NS && slope >= 0.0 {
            // A request in progress adds both frames and survivors, so part of the slope can belong to roots.
            let least = (slope - uncertain) * MIN_SLOPE_SHARE;
            (
                least.clamp(MIN_BYTE_NS, MAX_LEAST_NS),
                (slope + uncertain).clamp(MIN_SLOPE_NS, COLD_BYTE_NS),
            )
        } else {
            (MIN_BYTE_NS, MAX_BYTE_NS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const MB: u64 = 1_000_000;

    fn stacks(took: i64, bytes: u64) -> MarkSample {
        MarkSample {
            cause: Cause::Stacks,
            took,
            bytes,
        }
    }

    const YOUNG: Context = Context {
        plan: None,
        handles: None,
        is_full: false,
    };

    /// Scenario: in the first collection of a process, 100 threads take 2.4 ms, and 1.9 MB of small objects or 3 MB of
    /// arrays of 4 KB are reachable from one of the stacks. Then the same arrays occur with 0.2 ms of planning.
    /// Guarantee: each range contains the 2.4 ms. The ends of a range differ by at most a factor of 3, and with
    /// planning by at most a factor of 1.4.
    #[test]
    fn ranges_contain_the_roots() {
        let cost = MarkingCost::default();
        let roots = 2_400_000;
        let contains = |range: Range, times: f64| {
            assert!((range.low..=range.high).contains(&roots), "{range:?}");
            assert!(range.high as f64 <= times * range.low as f64, "{range:?}");
        };
        contains(cost.roots(stacks(roots + 800_000, 1_900_000), YOUNG), 3.0);
        let arrays = stacks(roots + 60_000, 3 * MB);
        contains(cost.roots(arrays, YOUNG), 3.0);
        let plan = Some(200_000);
        contains(cost.roots(arrays, Context { plan, ..YOUNG }), 1.4);
    }

    /// Scenario: 32 young collections mark 2 to 6 MB at 0.2 ns per byte, with stacks of 2 ms.
    /// Guarantee: the range narrows to 0.3 ns per byte, and its estimate is within 15 % of the 2 ms.
    #[test]
    fn line_through_collections_narrows_range() {
        let mut cost = MarkingCost::default();
        let mark = |number: u64| {
            let bytes = 2 * MB + number * 7919 % 41 * MB / 10;
            let noise = (number * 104_729 % 200_000) as i64 - 100_000;
            stacks(2 * MS + bytes as i64 / 5 + noise, bytes)
        };
        (0..32).for_each(|number| cost.learn(&[mark(number)]));
        let range = cost.roots(stacks(2 * MS + 920_000, 4_600_000), YOUNG);
        assert!(range.high - range.low < 4_600_000 * 3 / 10, "{range:?}");
        assert!((1_700_000..=2_300_000).contains(&range.estimate()), "{range:?}");
    }

    /// Scenario: stacks take 3 ms. Every eighth collection marks 8 MB at 0.4 ns per byte, and the other collections
    /// mark 0.5 MB. In another process the first marks have no bytes, and later marks have 1 to 5 MB.
    /// Guarantee: every range of the first process contains the roots. In the second process, the lower end is at least
    /// 2.5 ms and does not exceed the roots.
    #[test]
    fn outliers_and_empty_marks_do_not_bend_line() {
        let mut cost = MarkingCost::default();
        let mark = |bytes: u64| stacks(3 * MS + bytes as i64 * 4 / 10, bytes);
        for number in 0..80 {
            let bytes = if number % 8 == 7 {
                8 * MB
            } else {
                MB / 2 + number % 5 * 10_000
            };
            let range = cost.roots(mark(bytes), YOUNG);
            assert!(
                range.low <= 3 * MS + 1_000 && range.high >= 3 * MS - 1_000,
                "{number}: {range:?}"
            );
            cost.learn(&[mark(bytes)]);
        }
        let mut cost = MarkingCost::default();
        (0..10).for_each(|_| cost.learn(&[mark(0)]));
        (0..60).for_each(|number| cost.learn(&[mark(MB + number % 5 * MB)]));
        let range = cost.roots(mark(4 * MB), YOUNG);
        assert!(range.low >= 2_500_000 && range.low <= 3 * MS + 1_000, "{range:?}");
    }

    /// Scenario: stacks take 0.1 ms. Then one full collection marks five million small objects in 60 ms, and one young
    /// collection marks 16 MB of cold objects in 52 ms; then 300 deep threads start, and the stacks take 8 ms.
    /// Guarantee: the time of the objects is not attributed to stacks. The time of the threads is attributed to stacks
    /// in their first collection.
    #[test]
    fn expensive_marking_is_not_attributed_to_roots() {
        let mut cost = MarkingCost::default();
        (0..20).for_each(|_| cost.learn(&[stacks(100_000, 10_000)]));
        let full = Context { is_full: true, ..YOUNG };
        let queue = cost.roots(stacks(60 * MS, 200 * MB), full);
        assert!(queue.high <= 200_000, "{queue:?}");
        let cold = cost.roots(stacks(52 * MS, 16 * MB), YOUNG);
        assert!(cold.estimate() <= 400_000, "{cold:?}");
        let threads = cost.roots(stacks(8 * MS, MB / 2), YOUNG);
        assert!(threads.low >= 6 * MS, "{threads:?}");
    }

    /// Scenario: a heap of lists is reachable from one static field; marking takes 30 ms for 100 MB, and the process
    /// has 300 handles.
    /// Guarantee: handles take at most 60 µs.
    #[test]
    fn few_handles_take_little_time() {
        let mark = MarkSample {
            cause: Cause::Handles,
            took: 30 * MS,
            bytes: 100 * MB,
        };
        let range = MarkingCost::default().roots(
            mark,
            Context {
                handles: Some(300),
                ..YOUNG
            },
        );
        assert!(range.high <= 60_000, "{range:?}");
    }

    /// Scenario: marks with no time, no bytes and the largest figures are learned in any order.
    /// Guarantee: the low end does not exceed the high end, and neither end is negative or exceeds the time.
    #[test]
    fn ranges_are_in_order() {
        let mut cost = MarkingCost::default();
        let times = [0, 1, MS, i64::MAX];
        let sizes = [0, 1, 4 * MB, u64::MAX];
        for round in 0..20 {
            for took in times {
                for bytes in sizes {
                    let mark = stacks(took, bytes);
                    for context in [
                        YOUNG,
                        Context {
                            plan: Some(0),
                            handles: Some(0),
                            is_full: true,
                        },
                    ] {
                        let range = cost.roots(mark, context);
                        assert!(
                            0 <= range.low && range.low <= range.high && range.high <= took,
                            "{round} {range:?}"
                        );
                        assert!((range.low..=range.high).contains(&range.estimate()) || range.low == 0);
                    }
                    cost.learn(&[mark]);
                }
            }
        }
    }
}
