//! Predictions from the facts of a window.
//!
//! Most constants were measured on real runtimes (.NET 8 and 10, two cores). docs/advice.md lists each constant as
//! measured or as judgement. Sizes are in bytes, times in nanoseconds, and rates per second, unless a name states
//! another unit.

use crate::basis::SizingBasis;
use crate::observation::{Observation, WALK_NS_PER_BYTE, Young, median};

/// A range of a prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Range {
    /// Creates a range from two ends in any order.
    pub fn new(one: f64, other: f64) -> Self {
        Self {
            low: one.min(other),
            high: one.max(other),
        }
    }

    /// Creates the range from `value * (1 - share)` to `value * (1 + share)`.
    pub fn around(value: f64, share: f64) -> Self {
        Self::new(value * (1.0 - share), value * (1.0 + share))
    }

    /// Returns the range whose ends are the results of a function for both ends.
    #[must_use]
    pub fn map(self, function: impl Fn(f64) -> f64) -> Self {
        Self::new(function(self.low), function(self.high))
    }

    /// Returns whether the range contains a value.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Part of a pause that does not depend on survivors, as a share of the pause without the walk. Judgement: a regression
/// over the narrow range of survivors in one window is misleading.
const FIXED_SHARE: f64 = 0.15;
/// Maximum cost of survivors, in nanoseconds per byte. Measured: 0.5 to 1.2.
const MAX_SURVIVOR_COST: f64 = 1.2;
/// Maximum budget of generation 1 on workstation GC, in bytes. Measured.
const MAX_GEN1_BUDGET: f64 = 6e6;
/// Survivors above which the plan phase walks dead objects, unless walks in the window show a lower threshold.
/// Measured: 1.7 to 3.3 MB.
pub const WALK_THRESHOLD: f64 = 1.7e6;

/// Survivors among the last allocated bytes, as a function of the number of these bytes.
///
/// The function passes through two measured points: the survivors of one budget, at collections of generation 0, and
/// the survivors of several budgets, at collections of generation 1. Its form is `limit * (1 - exp(-x / scale))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Survivors {
    /// Budget of generation 0, and survivors of collections of generation 0.
    first: (f64, f64),
    /// Bytes allocated between two collections of generation 1, and survivors of these collections.
    second: (f64, f64),
    scale: f64,
}

impl Survivors {
    /// Creates the curve through two points of allocated bytes and survivors. Returns `None` if the first point has no
    /// allocated bytes, if the second point has fewer than twice as many, or if survivors are negative or not finite.
    pub fn new(first: (f64, f64), second: (f64, f64)) -> Option<Self> {
        let is_positive = first.0 > 0.0 && first.1 >= 0.0 && second.0 >= first.0 * 2.0 && second.1 >= 0.0;
        if !is_positive || ![first.1, second.1].iter().all(|bytes| bytes.is_finite()) {
            return None;
        }
        // Survivors cannot decrease if more bytes are allocated. A lower measured value at the second point is noise.
        let second = (second.0, second.1.max(first.1));
        let ratio = second.1 / first.1.max(1.0);
        // The ratio falls from the ratio of the distances (a straight line) to 1 as the scale falls.
        let of = |scale: f64| (-(-second.0 / scale).exp_m1()) / (-(-first.0 / scale).exp_m1());
        let (mut low, mut high) = (first.0 * 0.01, second.0 * 100.0);
        for _ in 0..80 {
            let middle = (low * high).sqrt();
            if of(middle) < ratio {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(Self {
            first,
            second,
            scale: high,
        })
    }

    /// Returns the survivors among the last `bytes` allocated bytes. Up to the second point, the range is a single
    /// value. Beyond the second point, the range extends from the curve to the straight line through both points.
    pub fn survivors(&self, bytes: f64) -> Range {
        let bytes = bytes.max(0.0);
        let at_first = -(-self.first.0 / self.scale).exp_m1();
        let curve = self.first.1 * -(-bytes / self.scale).exp_m1() / at_first;
        if bytes <= self.second.0 {
            return Range::new(curve, curve);
        }
        let slope = (self.second.1 - self.first.1) / (self.second.0 - self.first.0);
        Range::new(curve, self.second.1 + slope * (bytes - self.second.0))
    }
}

/// A model of the young collections of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct YoungModel {
    /// Bytes allocated in generation 0 per second.
    pub allocation: f64,
    /// Budget of generation 0, in bytes.
    pub budget: f64,
    /// Collections of generation 0 per collection of generation 1.
    pub per_gen1: f64,
    /// Survivors as a function of the allocated bytes.
    pub survivors: Survivors,
    /// Part of a pause that does not depend on survivors, in nanoseconds.
    pub fixed: f64,
    /// Cost of survivors, in nanoseconds per byte.
    pub cost: f64,
    /// Cost of the walk, in nanoseconds per byte of generations 0 and 1 before the collection.
    pub walk: f64,
    /// Share of young collections that walked dead objects.
    pub walked: f64,
    /// Survivors above which a collection walks dead objects, in bytes.
    pub threshold: f64,
    /// Share of the time during which young collections suspended the program.
    pub share: f64,
}

/// Predicted figures of young collections after a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct YoungPrediction {
    /// Young collections per second.
    pub rate: f64,
    /// Share of the time during which young collections suspend the program.
    pub share: f64,
    /// Median pause, in nanoseconds.
    pub pause: f64,
    /// Maximum expected survivors of a collection, including generation 1, in bytes.
    pub survivors: f64,
}

impl YoungModel {
    /// Creates the model of a window. Returns `None` if the window has no collection of generation 0 or none of
    /// generation 1, or if the budget, the survivors, a pause, or the time of every plan phase is unknown.
    pub fn from_observation(observation: &Observation) -> Option<Self> {
        let seconds = observation.seconds();
        let young = &observation.young;
        let gen1 = observation.gen1();
        let gen0 = young.len().checked_sub(gen1)?;
        if gen1 == 0 || gen0 == 0 || seconds <= 0.0 {
            return None;
        }
        let budget = median(observation.by_budget().map(|young| young.gen0_before))?;
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let values: Vec<f64> = values.collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let survived = |generation: u32| {
            let of = young.iter().filter(move |young| young.generation == generation);
            mean(&mut of.map(|young| young.survived))
        };
        let per_gen1 = gen0 as f64 / gen1 as f64;
        let survivors = Survivors::new((budget, survived(0)?), ((per_gen1 + 1.0) * budget, survived(1)?))?;
        let (walked, _) = observation.walked()?;
        let plain = median(
            young
                .iter()
                .filter(|young| young.walked() == Some(false))
                .filter_map(|one| one.plan_ns),
        );
        let excess = |young: &Young| Some((young.plan_ns? - plain.unwrap_or(0.0)).max(0.0) / young.before.max(1.0));
        let walks = young.iter().filter(|young| young.walked() == Some(true));
        let walk = median(walks.clone().filter_map(excess)).unwrap_or(WALK_NS_PER_BYTE);
        let threshold = walks.map(|young| young.survived).fold(f64::INFINITY, f64::min);
        let walk_of = |young: &Young| {
            if young.walked() == Some(true) {
                walk * young.before
            } else {
                0.0
            }
        };
        let rest = mean(
            &mut young
                .iter()
                .filter_map(|one| Some((one.pause_ns? - walk_of(one)).max(0.0))),
        )?;
        let all = mean(&mut young.iter().map(|young| young.survived))?;
        let cost = ((1.0 - FIXED_SHARE) * rest / all.max(1.0)).min(MAX_SURVIVOR_COST);
        Some(Self {
            allocation: young.iter().map(|young| young.gen0_before).sum::<f64>() / seconds,
            budget,
            per_gen1,
            survivors,
            fixed: (rest - cost * all).max(0.0),
            cost,
            walk,
            walked,
            threshold: threshold.min(WALK_THRESHOLD),
            share: observation.young_stopped_ns()? / observation.window_ns,
        })
    }

    /// Returns the pause of a collection with these survivors, which found `before` bytes in generations 0 and 1.
    fn pause(&self, survivors: f64, before: f64, walks: bool) -> f64 {
        self.fixed + self.cost * survivors + if walks { self.walk * before } else { 0.0 }
    }

    /// Predicts young collections of workstation GC with another budget of generation 0. If more than 90 % of the
    /// collections walk dead objects (judgement), all collections do so with the other budget.
    pub fn with_budget(&self, budget: f64) -> YoungPrediction {
        let rate = self.allocation / budget;
        let of_gen0 = self.survivors.survivors(budget).high;
        let gen1_budget = (self.per_gen1 * self.survivors.survivors(self.budget).high).min(MAX_GEN1_BUDGET);
        let per_gen1 = (gen1_budget / of_gen0.max(1.0)).max(1.0);
        let of_gen1 = self.survivors.survivors((per_gen1 + 1.0) * budget).high;
        let walks = |survivors: f64| survivors > self.threshold || self.walked > 0.9;
        let gen0_pause = self.pause(of_gen0, budget, walks(of_gen0));
        let gen1_pause = self.pause(of_gen1, budget + gen1_budget, walks(of_gen1));
        let mean = (per_gen1 * gen0_pause + gen1_pause) / (per_gen1 + 1.0);
        YoungPrediction {
            rate,
            share: rate * mean / 1e9,
            pause: gen0_pause,
            survivors: of_gen1.max(of_gen0),
        }
    }

    /// Predicts young collections of server GC with a fixed number of heaps. Returns the range of the bytes that are
    /// allocated between two collections. Also returns the best case, at the upper end of this range, and the worst
    /// case, at the lower end.
    ///
    /// The factors and limits of the budget are measured. The share of a pause that each case assumes (0.7 and 1.5) and
    /// the five collections of generation 0 per collection of generation 1 are judgement.
    pub fn with_server(&self, heaps: f64, is_concurrent: bool) -> (Range, [YoungPrediction; 2]) {
        let (factor, most) = if is_concurrent { (40.0, 200e6) } else { (20.0, 128e6) };
        let mut per_heap: f64 = 16e6;
        // The budget depends on the survivors, and the survivors depend on the budget, so the value is iterated.
        for _ in 0..20 {
            let survivors = self.survivors.survivors(per_heap * heaps).high / heaps;
            per_heap = (factor * survivors).clamp(16e6, most);
        }
        let all = per_heap * heaps;
        // With several heaps, the first full heap triggers the collection, so that other heaps can be almost empty.
        let total = Range::new(if heaps > 1.0 { all / 2.0 } else { all }, all);
        let predict = |bytes: f64, parallel: f64, spread: f64| {
            let rate = self.allocation / bytes;
            let of_gen0 = self.survivors.survivors(bytes).high;
            let of_gen1 = self.survivors.survivors(6.0 * bytes).high;
            let survivors = (5.0 * of_gen0 + of_gen1) / 6.0;
            let pause = (self.fixed + self.cost * survivors / parallel) * spread;
            YoungPrediction {
                rate,
                share: rate * pause / 1e9,
                pause: (self.fixed + self.cost * of_gen0 / parallel) * spread,
                survivors: of_gen1,
            }
        };
        (total, [predict(total.high, heaps, 0.7), predict(total.low, 1.0, 1.5)])
    }
}

/// Ratio of the rate of full collections to the bytes promoted per second divided by the headroom. Measured in
/// containers: 1.0 to 2.2 in six cells, and 0.9 in a seventh.
const FULL_RATE: Range = Range { low: 1.0, high: 2.2 };
/// Geometric mean of the ends of [`FULL_RATE`], rounded.
const FULL_RATE_MIDDLE: f64 = 1.5;
/// Minimum headroom, as a share of the heap limit. Judgement: with a smaller positive headroom, two measured services
/// ran, and one ended.
pub const MIN_HEADROOM: f64 = 0.1;
/// Ratio of the duration of a blocking full collection to the duration of a background collection. Measured.
const BLOCKING_OF_BACKGROUND: Range = Range { low: 1.1, high: 1.9 };
/// Duration of a blocking full collection, in nanoseconds per live byte. Measured: 0.4 to 0.5 for background
/// collections, and 0.65 to 1.0 for compacting ones.
const BLOCKING_PER_BYTE: Range = Range { low: 0.4, high: 1.0 };
/// Uncertainty of the observed duration of blocking full collections, as a share. Judgement, not measured.
const BLOCKING_SPREAD: f64 = 0.25;

/// A model of the memory that a process needs, from the facts of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryModel {
    /// Maximum live size after a full collection, in bytes.
    pub live: f64,
    /// Bytes per second that survive generation 1.
    pub promotion: f64,
    /// Allocated bytes of large objects per second; 0 if unknown.
    pub large: f64,
    /// Bytes in generations 0 and 1 before young collections, median.
    pub young: f64,
    /// Bytes in generations 0 and 1 before young collections, 95th percentile.
    pub young_high: f64,
    /// Duration of a blocking full collection, in nanoseconds.
    pub full_ns: Range,
    /// Whether the duration comes from blocking full collections in the window.
    pub full_is_observed: bool,
    /// Share of the time during which the program was suspended, without full collections that ran because memory was
    /// short.
    pub share: f64,
    /// Full collections per minute in the window, without those that ran because memory was short. These collections
    /// run at any limit.
    pub full_per_minute: f64,
}

/// Predicted effects of a heap limit: a point of the price curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Heap limit minus live size and young generations, in bytes; negative if these do not fit into the limit.
    pub headroom: f64,
    /// Range and middle of the full collections per minute; `None` without headroom.
    pub full_per_minute: Option<(Range, f64)>,
    /// Share of the time during which the program is suspended; `None` without headroom.
    pub stopped_share: Option<Range>,
    /// Increase of the stopped share if the heap limit is lowered by another MiB, computed from the middles of the
    /// ranges; `None` without headroom.
    pub per_mebibyte: Option<f64>,
}

impl MemoryModel {
    /// Creates the model of a window.
    ///
    /// # Errors
    ///
    /// Returns the missing fact as a sentence without a period if the window has no full collection with known sizes,
    /// no young collection, no collection of generation 1, or a suspension of unknown length.
    pub fn new(basis: &SizingBasis) -> Result<Self, String> {
        let missing = |what: &str| format!("the window has no {what}");
        let live = basis.live.ok_or_else(|| missing("full collection with known sizes"))?;
        let promotion = basis.promotion.ok_or_else(|| missing("collection of generation 1"))?;
        let young = basis.young.ok_or_else(|| missing("young collection"))?;
        let share = basis
            .stopped_share
            .ok_or_else(|| "the length of a suspension is unknown".to_owned())?;
        let full_ns = match (basis.blocking_ns, basis.background_ns) {
            (Some(ns), _) => Range::around(ns, BLOCKING_SPREAD),
            (None, Some(ns)) => BLOCKING_OF_BACKGROUND.map(|factor| factor * ns),
            (None, None) => BLOCKING_PER_BYTE.map(|cost| cost * live),
        };
        Ok(Self {
            live,
            promotion,
            large: basis.large.unwrap_or(0.0),
            young,
            young_high: basis.young_high.unwrap_or(young),
            full_ns,
            full_is_observed: basis.blocking_ns.is_some(),
            // Collections that the present limit forces are left out: a higher limit does not cause them, and the price
            // of a lower limit adds its own.
            share: (share - basis.stopped_at_limit).max(0.0),
            full_per_minute: basis.full_below_limit.unwrap_or(0.0),
        })
    }

    /// Returns the smallest heap limit that leaves the minimum headroom in addition to the largest live size and the
    /// young generations, in bytes.
    pub fn needed(&self) -> f64 {
        ((self.live + self.young_high) / (1.0 - MIN_HEADROOM)).ceil()
    }

    /// Returns the predicted effects of a heap limit, in bytes.
    pub fn price(&self, heap_limit: f64) -> Price {
        let headroom = heap_limit - self.live - self.young;
        if headroom <= 0.0 {
            return Price {
                headroom,
                full_per_minute: None,
                stopped_share: None,
                per_mebibyte: None,
            };
        }
        let rate = |promotion: f64, factor: f64| (factor * 60.0 * promotion / headroom).max(self.full_per_minute);
        let low = rate(self.promotion, FULL_RATE.low);
        let high = rate(self.promotion + self.large, FULL_RATE.high);
        let middle = rate(self.promotion, FULL_RATE_MIDDLE).clamp(low, high);
        let share = |rate: f64, ns: f64| {
            // The measured share already contains the full collections of the window. Only additional collections cost
            // a blocking pause.
            let more = (rate - self.full_per_minute).max(0.0);
            (self.share + more / 60.0 * ns / 1e9).min(1.0)
        };
        let cost = f64::midpoint(self.full_ns.low, self.full_ns.high);
        let slope = FULL_RATE_MIDDLE * self.promotion / headroom.powi(2) * cost / 1e9 * f64::from(1 << 20);
        Price {
            headroom,
            full_per_minute: Some((Range::new(low, high), middle)),
            stopped_share: Some(Range::new(share(low, self.full_ns.low), share(high, self.full_ns.high))),
            per_mebibyte: Some(slope),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::FullCollection;
    use clr_gc::gc::Asker;
    use proptest::prelude::*;

    proptest! {
        /// Scenario: a curve is created through any two points whose survivors grow at most in proportion to the
        /// allocated bytes, and is evaluated at any number of bytes.
        /// Guarantee: the curve passes through the first point, and within 3 % of the second; both ends of the range
        /// grow with the bytes, and the ends are ordered.
        #[test]
        fn survivors_pass_through_both_points(
            budget in 1e6..1e9_f64,
            survived in 1e3..1e7_f64,
            factor in 2.0..40.0_f64,
            growth in 0.0..1.0_f64,
            at in 0.0..4.0_f64,
        ) {
            let second = (budget * factor, survived * (1.0 + growth * (factor - 1.0)));
            let curve = Survivors::new((budget, survived), second).unwrap();
            prop_assert!((curve.survivors(budget).low / survived - 1.0).abs() < 1e-6);
            // The curve approaches a straight line, but cannot become one.
            prop_assert!((curve.survivors(second.0).low / second.1 - 1.0).abs() < 0.03);
            let x = budget * factor * at;
            let (one, more) = (curve.survivors(x), curve.survivors(x * 1.1 + 1.0));
            prop_assert!(one.low <= one.high && one.low <= more.low * 1.000_001 && one.high <= more.high * 1.05);
        }

        /// Scenario: any model predicts the effects of two limits, and of the needed limit.
        /// Guarantee: the smaller limit never has a lower stopped share, which is between the present share and 1; only
        /// limits with headroom have a price; the range of the rate contains its middle; the needed limit has headroom.
        #[test]
        fn smaller_limit_never_costs_less(
            live in 1e6..2e9_f64,
            promotion in 0.0..5e7_f64,
            young in 1e6..2e8_f64,
            full_ns in 1e6..1e9_f64,
            limit in 1e6..4e9_f64,
        ) {
            let model = MemoryModel {
                live,
                promotion,
                large: 0.0,
                young,
                young_high: young,
                full_ns: Range::around(full_ns, 0.25),
                full_is_observed: true,
                share: 0.02,
                full_per_minute: 1.0,
            };
            let (more, less) = (model.price(limit), model.price(limit * 0.9));
            prop_assert_eq!(more.headroom > 0.0, more.stopped_share.is_some());
            if let (Some(more), Some(less)) = (more.stopped_share, less.stopped_share) {
                prop_assert!(more.low <= less.low && more.high <= less.high && more.low >= 0.02 && less.high <= 1.0);
            }
            if let Some((range, middle)) = more.full_per_minute {
                prop_assert!(range.contains(middle));
            }
            prop_assert!(model.price(model.needed()).headroom > 0.0);
        }
    }

    /// Scenario: a point has no allocated bytes, is too close to the other point, or has unknown survivors. In two
    /// further cases, the second point has fewer survivors than the first point, or neither point has survivors.
    /// Guarantee: the unusable points have no curve; fewer survivors at the second point do not make the curve fall;
    /// the curve without survivors is 0.
    #[test]
    fn unusable_points_have_no_curve() {
        assert_eq!(Survivors::new((0.0, 1.0), (10.0, 2.0)), None);
        assert_eq!(Survivors::new((10.0, 1.0), (11.0, 2.0)), None);
        assert_eq!(Survivors::new((10.0, f64::NAN), (30.0, 2.0)), None);
        let flat = Survivors::new((10.0, 5.0), (30.0, 4.0)).unwrap();
        assert!(flat.survivors(30.0).low >= 4.99);
        let none = Survivors::new((10.0, 0.0), (30.0, 0.0)).unwrap();
        assert_eq!(none.survivors(100.0), Range::new(0.0, 0.0));
    }

    /// Cells of the measured trial of limits in containers. The first four columns are in MiB: live size, promotion per
    /// second, young generations, limit of the container. The last column is the measured number of full collections
    /// per minute; `None` if the process ended or thrashed.
    const TRIAL: [(f64, f64, f64, f64, Option<f64>); 13] = [
        (53.0, 0.45, 17.0, 103.0, Some(8.0)),
        (53.0, 0.45, 17.0, 84.0, None),
        (53.0, 0.45, 17.0, 67.0, None),
        (496.0, 4.7, 21.0, 743.0, Some(9.0)),
        (496.0, 4.7, 21.0, 609.0, None),
        (93.0, 22.6, 24.0, 228.0, Some(25.0)),
        (93.0, 22.6, 24.0, 186.0, Some(54.0)),
        (93.0, 22.6, 24.0, 150.0, None),
        (298.0, 2.3, 69.0, 590.0, Some(2.6)),
        (298.0, 2.3, 69.0, 483.0, None),
        (298.0, 2.3, 69.0, 389.0, None),
        (124.0, 2.4, 20.0, 297.0, Some(4.0)),
        (124.0, 2.4, 20.0, 196.0, None),
    ];

    /// Scenario: the model predicts cells of the trial from which its constants come.
    /// Guarantee: each middle of up to 6 per minute is within a factor of two of the measured rate; each limit at which
    /// the process ended or thrashed is below the needed limit; no limit that worked is more than 5 % below the needed
    /// limit.
    #[test]
    fn trial_of_limits_is_reproduced() {
        for (live, promotion, young, limit, measured) in TRIAL {
            let mega = f64::from(1 << 20);
            let model = MemoryModel {
                live: live * mega,
                promotion: promotion * mega,
                large: 0.0,
                young: young * mega,
                young_high: young * mega,
                full_ns: Range::around(live * 0.5 * mega, 0.25),
                full_is_observed: true,
                share: 0.01,
                full_per_minute: 0.0,
            };
            let heap = 0.75 * limit * mega;
            let price = model.price(heap);
            match measured {
                None => assert!(heap < model.needed(), "{live} MiB at {limit} MiB"),
                Some(measured) => {
                    assert!(heap > 0.95 * model.needed(), "{live} MiB at {limit} MiB");
                    let (_, middle) = price.full_per_minute.unwrap();
                    let factor = middle / measured;
                    assert!(
                        middle > 6.0 || (0.5..2.0).contains(&factor),
                        "{live} MiB at {limit} MiB: {factor}"
                    );
                }
            }
        }
    }

    fn young(generation: u32, walks: bool) -> Young {
        let survived = if generation == 0 { 0.4e6 } else { 1.0e6 };
        Young {
            generation,
            pause_ns: Some(if walks { 2.4e6 } else { 0.8e6 }),
            plan_ns: Some(if walks { 1.9e6 } else { 0.3e6 }),
            before: 17e6,
            gen0_before: 16e6,
            survived,
            gen1_survived: if generation == 0 { 0.0 } else { 0.6e6 },
            by_budget: true,
        }
    }

    fn window(walks: bool) -> Observation {
        let young: Vec<Young> = (0..600).map(|n| young(u32::from(n % 10 == 9), walks)).collect();
        Observation {
            window_ns: 20e9,
            lost_events: Some(0),
            young,
            full: vec![FullCollection {
                concurrent: true,
                asker: Asker::SmallObjects,
                by_large: false,
                pause_ns: Some(1e6),
                duration_ns: Some(20e6),
                live: Some(50e6),
                free: Some(2e6),
            }],
            stopped_ns: Some(0.6e9),
            ..Observation::default()
        }
    }

    /// Scenario: the budget of a service with few survivors is raised to four times its size; none or all of its
    /// collections walk dead objects; then server GC is predicted for the service with walks.
    /// Guarantee: the rate falls to a quarter; without walks, the stopped share falls below 60 %; with walks, the
    /// stopped share stays above 60 %, and each pause becomes longer; server GC has a lower stopped share.
    #[test]
    fn walk_costs_the_same_for_any_budget() {
        let plain = YoungModel::from_observation(&window(false)).unwrap();
        assert!((plain.allocation - 480e6).abs() < 1.0 && plain.walked == 0.0);
        let raised = plain.with_budget(64e6);
        assert!((raised.rate - 7.5).abs() < 1e-9);
        assert!(raised.share < plain.share * 0.6, "{raised:?}");

        let walked = YoungModel::from_observation(&window(true)).unwrap();
        assert!(walked.walked == 1.0 && walked.walk > 0.05);
        let raised = walked.with_budget(64e6);
        assert!(raised.share > walked.share * 0.6 && raised.pause > 3e6, "{raised:?}");
        let (bytes, [best, worst]) = walked.with_server(2.0, true);
        assert!(bytes.low >= 16e6 && bytes.high <= 400e6 && best.share <= worst.share);
        assert!(worst.share < walked.share * 0.7, "{worst:?} {walked:?}");
    }

    /// Scenario: full collections of 100 ms run twice per second because memory is short, and take a fifth of the time.
    /// Guarantee: the price of a high limit contains neither the rate nor the stopped share of these collections; a
    /// limit with little headroom has a high rate and a high share.
    #[test]
    fn collections_at_the_limit_are_not_part_of_every_limit() {
        let mut observation = window(false);
        let forced = FullCollection {
            concurrent: false,
            asker: Asker::Limit,
            pause_ns: Some(100e6),
            ..observation.full[0]
        };
        observation.full.extend([forced; 40]);
        observation.stopped_ns = observation.stopped_ns.map(|ns| ns + 4e9);
        let model = MemoryModel::new(&SizingBasis::from_observation(&observation)).unwrap();
        assert!(model.full_is_observed && (model.share - 0.03).abs() < 1e-9, "{model:?}");
        let (high, low) = (model.price(1e9), model.price(68e6));
        assert!(high.full_per_minute.unwrap().1 < 5.0 && high.stopped_share.unwrap().high < 0.05);
        assert!(low.full_per_minute.unwrap().1 > 100.0 && low.stopped_share.unwrap().high > 0.2);
    }

    /// Scenario: a window has no full collection, no collection of generation 1, or a suspension of unknown length.
    /// Guarantee: the error of the memory model names the missing fact.
    #[test]
    fn model_states_missing_fact() {
        let reason = |change: &dyn Fn(&mut Observation)| {
            let mut observation = window(false);
            change(&mut observation);
            MemoryModel::new(&SizingBasis::from_observation(&observation))
                .err()
                .unwrap_or_default()
        };
        assert_eq!(reason(&|_| ()), "");
        assert!(reason(&|one| one.full.clear()).contains("full collection"));
        assert!(reason(&|one| one.young.retain(|young| young.generation == 0)).contains("generation 1"));
        assert!(reason(&|one| one.stopped_ns = None).contains("suspension"));
    }
}
