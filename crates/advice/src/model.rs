//! Predictions from the facts of a window.
//!
//! The figures were measured on real runtimes (.NET 8 and 10, two cores; docs/advice.md). Sizes are in bytes, times in
//! nanoseconds, rates per second.

use clr_gc::gc::Asker;

use crate::observation::{Observation, WALK_NS_PER_BYTE, Young, median, quantile};

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

    /// Creates a range around a value.
    pub fn around(value: f64, share: f64) -> Self {
        Self::new(value * (1.0 - share), value * (1.0 + share))
    }

    /// Returns both ends after a function.
    #[must_use]
    pub fn map(self, function: impl Fn(f64) -> f64) -> Self {
        Self::new(function(self.low), function(self.high))
    }

    /// Returns whether the range contains a value.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Fixed part of a pause, as a share.
const FIXED_SHARE: f64 = 0.15;
/// Maximum cost of survivors, in nanoseconds per byte. Measured: 0.5 to 1.2.
const MAX_SURVIVOR_COST: f64 = 1.2;
/// Maximum budget of generation 1 on workstation GC.
const MAX_GEN1_BUDGET: f64 = 6e6;
/// Survivors above which the plan phase walks dead objects, if the window does not show it. Measured: 1.7 to 3.3 MB.
pub const WALK_THRESHOLD: f64 = 1.7e6;

/// Bytes that survive of the last bytes that were allocated, as a function of their number.
///
/// Two points are measured: the survivors of one budget, at collections of generation 0, and the survivors of several
/// budgets, at collections of generation 1. The curve between them is `limit * (1 - exp(-x / scale))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Survivors {
    /// Budget and survivors of generation 0.
    first: (f64, f64),
    /// Allocated bytes and survivors of generation 1.
    second: (f64, f64),
    scale: f64,
}

impl Survivors {
    /// Creates the curve through two points; the second one is at least twice as far. Returns `None` if no such curve
    /// exists.
    pub fn new(first: (f64, f64), second: (f64, f64)) -> Option<Self> {
        let is_positive = first.0 > 0.0 && first.1 >= 0.0 && second.0 >= first.0 * 2.0 && second.1 >= 0.0;
        if !is_positive || ![first.1, second.1].iter().all(|bytes| bytes.is_finite()) {
            return None;
        }
        // Survivors do not decrease with the allocated bytes. The measurement of fewer is noise.
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

    /// Returns the survivors of the last `bytes` allocated, as a range. The range is one value up to the second point.
    /// Beyond it, the range extends from the curve to a straight line.
    pub fn of(&self, bytes: f64) -> Range {
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

/// The young collections of a window as a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct YoungModel {
    /// Allocated bytes of generation 0 per second.
    pub allocation: f64,
    /// Budget of generation 0.
    pub budget: f64,
    /// Collections of generation 0 per collection of generation 1.
    pub per_gen1: f64,
    /// Survivors.
    pub survivors: Survivors,
    /// Fixed part of a pause.
    pub fixed: f64,
    /// Cost of survivors, per byte.
    pub cost: f64,
    /// Cost of the walk, per byte of generations 0 and 1.
    pub walk: f64,
    /// Share of young collections that walked.
    pub walked: f64,
    /// Survivors above which a collection walks.
    pub threshold: f64,
    /// Share of the time during which young collections suspended the program.
    pub share: f64,
}

/// The figures of young collections after a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct YoungPrediction {
    /// Young collections per second.
    pub rate: f64,
    /// Share of the time during which they suspend the program.
    pub share: f64,
    /// Median pause.
    pub pause: f64,
    /// Largest expected survivors, generation 1 included.
    pub survivors: f64,
}

impl YoungModel {
    /// Creates the model of a window. Returns `None` if a part is unknown.
    pub fn of(observation: &Observation) -> Option<Self> {
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

    fn pause(&self, survivors: f64, before: f64, walks: bool) -> f64 {
        self.fixed + self.cost * survivors + if walks { self.walk * before } else { 0.0 }
    }

    /// Predicts young collections of workstation GC with another budget of generation 0.
    pub fn with_budget(&self, budget: f64) -> YoungPrediction {
        let rate = self.allocation / budget;
        let of_gen0 = self.survivors.of(budget).high;
        let gen1_budget = (self.per_gen1 * self.survivors.of(self.budget).high).min(MAX_GEN1_BUDGET);
        let per_gen1 = (gen1_budget / of_gen0.max(1.0)).max(1.0);
        let of_gen1 = self.survivors.of((per_gen1 + 1.0) * budget).high;
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

    /// Predicts young collections of server GC without an adapting number of heaps: the bytes per collection, and the
    /// figures at both ends of these bytes.
    pub fn with_server(&self, heaps: f64, is_concurrent: bool) -> (Range, [YoungPrediction; 2]) {
        let (factor, most) = if is_concurrent { (40.0, 200e6) } else { (20.0, 128e6) };
        let mut per_heap: f64 = 16e6;
        // The budget follows the survivors, which follow the budget.
        for _ in 0..20 {
            let survivors = self.survivors.of(per_heap * heaps).high / heaps;
            per_heap = (factor * survivors).clamp(16e6, most);
        }
        let all = per_heap * heaps;
        // With several heaps, the first heap that is full triggers the collection.
        let total = Range::new(if heaps > 1.0 { all / 2.0 } else { all }, all);
        let predict = |bytes: f64, parallel: f64, spread: f64| {
            let rate = self.allocation / bytes;
            let of_gen0 = self.survivors.of(bytes).high;
            let of_gen1 = self.survivors.of(6.0 * bytes).high;
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

/// Factors of the measured rate of full collections to the predicted rate, in containers: 1.0 to 2.2 in seven cells.
const FULL_RATE: Range = Range { low: 1.0, high: 2.2 };
/// The geometric middle of [`FULL_RATE`].
const FULL_RATE_MIDDLE: f64 = 1.5;
/// Minimum headroom, as a share of the heap limit. A smaller positive headroom was no proof of life.
pub const MIN_HEADROOM: f64 = 0.1;
/// Duration of a blocking full collection, as factors of the duration of a background collection.
const BLOCKING_OF_BACKGROUND: Range = Range { low: 1.1, high: 1.9 };
/// Duration of a blocking full collection per live byte.
const BLOCKING_PER_BYTE: Range = Range { low: 0.4, high: 1.0 };
/// Uncertainty of the duration of a blocking full collection that was observed.
const BLOCKING_SPREAD: f64 = 0.25;

/// The need of memory of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryModel {
    /// Largest live size after a full collection.
    pub live: f64,
    /// Bytes per second that survive generation 1.
    pub promotion: f64,
    /// Allocated bytes of large objects per second; 0 if unknown.
    pub large: f64,
    /// Bytes in generations 0 and 1 before young collections, median.
    pub young: f64,
    /// Bytes in generations 0 and 1 before young collections, 95th percentile.
    pub young_high: f64,
    /// Duration of a blocking full collection.
    pub full_ns: Range,
    /// Whether that duration was observed.
    pub full_is_observed: bool,
    /// Share of the time during which the program was suspended, without full collections because memory was short.
    pub share: f64,
    /// Full collections per minute in the window, without those because memory was short: any limit has them.
    pub full_per_minute: f64,
}

/// A point of the price curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Heap limit minus live size and young generations; negative if they do not fit.
    pub headroom: f64,
    /// Full collections per minute: range and middle; `None` without headroom.
    pub full_per_minute: Option<(Range, f64)>,
    /// Share of the time during which the program is suspended; `None` without headroom.
    pub stopped_share: Option<Range>,
    /// Increase of the stopped share for the next MiB less, by the middle of the ranges; `None` without headroom.
    pub per_mebibyte: Option<f64>,
}

impl MemoryModel {
    /// Creates the model of a window. Returns the missing fact if a part is unknown.
    ///
    /// # Errors
    ///
    /// Returns a sentence if the window lacks a fact.
    pub fn of(observation: &Observation) -> Result<Self, String> {
        let missing = |what: &str| format!("the window has no {what}");
        let live = observation.live().fold(None, |most: Option<f64>, live| {
            Some(most.map_or(live, |most| most.max(live)))
        });
        let live = live.ok_or_else(|| missing("full collection with known sizes"))?;
        let promotion = observation
            .promotion()
            .ok_or_else(|| missing("collection of generation 1"))?;
        let before = observation.young.iter().map(|young| young.before);
        let young = median(before.clone()).ok_or_else(|| missing("young collection"))?;
        let share = observation
            .stopped_share()
            .ok_or_else(|| "the length of a suspension is unknown".to_owned())?;
        // A higher limit has no collections that the present limit forces, and a lower one has those of the price.
        let forced = observation.full.iter().filter(|full| full.asker == Asker::Limit);
        let forced_ns: f64 = forced.clone().filter_map(|full| full.pause_ns).sum();
        let unforced = observation.full.len() - forced.count();
        let blocking = observation.full.iter().filter(|full| !full.concurrent);
        let observed = median(blocking.filter_map(|full| full.pause_ns));
        let background = observation.full.iter().filter(|full| full.concurrent);
        let background = median(background.filter_map(|full| full.duration_ns));
        let full_ns = match (observed, background) {
            (Some(ns), _) => Range::around(ns, BLOCKING_SPREAD),
            (None, Some(ns)) => BLOCKING_OF_BACKGROUND.map(|factor| factor * ns),
            (None, None) => BLOCKING_PER_BYTE.map(|cost| cost * live),
        };
        Ok(Self {
            live,
            promotion,
            large: observation.large_allocation.unwrap_or(0.0),
            young,
            young_high: quantile(before, 0.95).unwrap_or(young),
            full_ns,
            full_is_observed: observed.is_some(),
            share: (share - forced_ns / observation.window_ns.max(1.0)).max(0.0),
            full_per_minute: unforced as f64 / (observation.seconds() / 60.0).max(f64::MIN_POSITIVE),
        })
    }

    /// Returns the smallest heap limit that leaves the minimum headroom beyond the largest live size and the young
    /// generations.
    pub fn needed(&self) -> f64 {
        ((self.live + self.young_high) / (1.0 - MIN_HEADROOM)).ceil()
    }

    /// Returns the price of a heap limit.
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
            // Full collections of the window are priced as they were. Only further ones cost a blocking pause.
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
    use crate::observation::Full;
    use proptest::prelude::*;

    proptest! {
        /// Scenario: any two points of survivors, and any number of allocated bytes.
        /// Guarantee: the curve passes through both points if it can; survivors never decrease, and the range beyond
        /// the second point contains its lower end.
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
            prop_assert!((curve.of(budget).low / survived - 1.0).abs() < 1e-6);
            // A straight line is the limit of the curve.
            prop_assert!((curve.of(second.0).low / second.1 - 1.0).abs() < 0.03);
            let x = budget * factor * at;
            let (one, more) = (curve.of(x), curve.of(x * 1.1 + 1.0));
            prop_assert!(one.low <= one.high && one.low <= more.low * 1.000_001 && one.high <= more.high * 1.05);
        }

        /// Scenario: the price curve of any model at two limits.
        /// Guarantee: a smaller limit never costs less; without headroom there is no price; the range contains the
        /// middle.
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

    /// Scenario: no second point, a point without survivors, and a second point below the first.
    /// Guarantee: without two usable points there is no curve; noise does not make survivors decrease.
    #[test]
    fn unusable_points_have_no_curve() {
        assert_eq!(Survivors::new((0.0, 1.0), (10.0, 2.0)), None);
        assert_eq!(Survivors::new((10.0, 1.0), (11.0, 2.0)), None);
        assert_eq!(Survivors::new((10.0, f64::NAN), (30.0, 2.0)), None);
        let flat = Survivors::new((10.0, 5.0), (30.0, 4.0)).unwrap();
        assert!(flat.of(30.0).low >= 4.99);
        let none = Survivors::new((10.0, 0.0), (30.0, 0.0)).unwrap();
        assert_eq!(none.of(100.0), Range::new(0.0, 0.0));
    }

    /// The measured trial of limits in containers, in MiB: live size, promotion per second, young generations, limit of
    /// the container. Then the measured full collections per minute; `None` if the process ended or thrashed.
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

    /// Scenario: the model predicts the cells of the trial that its constants come from.
    /// Guarantee: each measured rate of up to 6 per minute is within a factor of two of the middle; a limit that ended
    /// or crippled a process is below the needed limit, and no limit that worked is more than 5 % below it.
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
            full: vec![Full {
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

    /// Scenario: the budget of a service with few survivors is raised to four times; none of its collections walks, or
    /// all of them do.
    /// Guarantee: the rate falls to a quarter. Without the walk, the stopped share falls. With it, the share stays about
    /// the same and each pause becomes longer, because the walk costs the same for any budget.
    #[test]
    fn walk_costs_the_same_for_any_budget() {
        let plain = YoungModel::of(&window(false)).unwrap();
        assert!((plain.allocation - 480e6).abs() < 1.0 && plain.walked == 0.0);
        let raised = plain.with_budget(64e6);
        assert!((raised.rate - 7.5).abs() < 1e-9);
        assert!(raised.share < plain.share * 0.6, "{raised:?}");

        let walked = YoungModel::of(&window(true)).unwrap();
        assert!(walked.walked == 1.0 && walked.walk > 0.05);
        let raised = walked.with_budget(64e6);
        assert!(raised.share > walked.share * 0.6 && raised.pause > 3e6, "{raised:?}");
        let (bytes, [best, worst]) = walked.with_server(2.0, true);
        assert!(bytes.low >= 16e6 && bytes.high <= 400e6 && best.share <= worst.share);
        assert!(worst.share < walked.share * 0.7, "{worst:?} {walked:?}");
    }

    /// Scenario: full collections of 100 ms run twice per second because memory is short, for a fifth of the time.
    /// Guarantee: a high limit has neither their rate nor their share; a limit with little headroom has more of both.
    #[test]
    fn collections_at_the_limit_are_not_part_of_every_limit() {
        let mut observation = window(false);
        let forced = Full {
            concurrent: false,
            asker: Asker::Limit,
            pause_ns: Some(100e6),
            ..observation.full[0]
        };
        observation.full.extend([forced; 40]);
        observation.stopped_ns = observation.stopped_ns.map(|ns| ns + 4e9);
        let model = MemoryModel::of(&observation).unwrap();
        assert!(model.full_is_observed && (model.share - 0.03).abs() < 1e-9, "{model:?}");
        let (high, low) = (model.price(1e9), model.price(68e6));
        assert!(high.full_per_minute.unwrap().1 < 5.0 && high.stopped_share.unwrap().high < 0.05);
        assert!(low.full_per_minute.unwrap().1 > 100.0 && low.stopped_share.unwrap().high > 0.2);
    }

    /// Scenario: a window lacks a full collection, a collection of generation 1, or the length of a suspension.
    /// Guarantee: the model of memory states the missing fact.
    #[test]
    fn model_states_missing_fact() {
        let reason = |change: &dyn Fn(&mut Observation)| {
            let mut observation = window(false);
            change(&mut observation);
            MemoryModel::of(&observation).err().unwrap_or_default()
        };
        assert_eq!(reason(&|_| ()), "");
        assert!(reason(&|one| one.full.clear()).contains("full collection"));
        assert!(reason(&|one| one.young.retain(|young| young.generation == 0)).contains("generation 1"));
        assert!(reason(&|one| one.stopped_ns = None).contains("suspension"));
    }
}
