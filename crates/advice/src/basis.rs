//! Facts from which the memory that a service needs follows.
//!
//! ```text
//! Observation: every collection of a window ---+
//!                                              +--> SizingBasis --> model, sizing
//! Profile: minutes or blocks of a service -----+
//! ```
//!
//! # From a profile
//!
//! A profile has sums, means and maxima of minutes instead of collections. The facts therefore differ from those of an
//! observation of the same time:
//!
//! | Fact | From a profile |
//! |---|---|
//! | live size, committed memory | the same maximum |
//! | promoted bytes, large objects, stopped share, rates of full collections | the same per time, without minutes in which the figure is unknown; means per process if several processes ran |
//! | bytes before young collections, 95th percentile | the percentile of the highest minute, which is not below the percentile of the window except for the precision of a minute (4.5 %) |
//! | bytes before young collections, median | the mean of the minutes' medians |
//! | duration of full collections | the mean instead of the median |
//! | stopped share in collections because memory was short | their number times the mean pause of blocking full collections |
//! | memory outside the heap | the highest value of a block |
//!
//! Minutes of the warm-up count for the maxima, because a limit must also have room for the start of a process. They
//! do not count for rates. A profile keeps the warm-up of the newest starts in its configuration for as long as it
//! exists, so the start can be older than the rest of the window: the memory at the start is known as long as the
//! configuration stays the same. A live size requires a full collection after the warm-up.

use base::words;
use clr_gc::gc::Asker;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::observation::{Observation, median, quantile};
use crate::profile::sampler::MINUTE_NS;
use crate::profile::{Minute, Profile};

/// Minimum length of a window that is certain to contain the peak hour of a day, in nanoseconds.
const DAY_NS: f64 = 86_400e9;
/// Relative growth of the live size in a window above which the live size has not settled. Judgement, not measured.
const MAX_GROWTH: f64 = 0.1;
/// Maximum allocation of large objects for which the price curve is valid, in bytes per second. The model was measured
/// without large objects; the value is judgement.
const MAX_LARGE: f64 = 1e6;

words! {
    /// A fact that the window does not contain, or that makes the sizing less certain.
    pub enum Gap {
        /// The window has no deployment, so the memory at the start of a process is unknown.
        NoDeployment = "no_deployment",
        /// The window is shorter than a day, so it can lack the peak hour.
        NoPeakHour = "no_peak_hour",
        /// The window has no blocking full collection, so the duration of one is an estimate.
        NoBlockingFullCollection = "no_blocking_full_collection",
        /// The memory outside the heap is unknown.
        NativeUnknown = "native_unknown",
        /// The present limit is unknown.
        LimitUnknown = "limit_unknown",
        /// Large objects are allocated, or their allocation is unknown. The model was measured without large objects.
        LargeObjects = "large_objects",
        /// The live size grew in the window.
        Growing = "growing",
        /// Events or values of collections were lost, or losses are unknown.
        LostEvents = "lost_events",
        /// Parts of the window were left out: restarts, lost events, heap dumps.
        MissingMinutes = "missing_minutes",
    }
}

impl Gap {
    /// Returns the text for display.
    pub const fn title(self) -> &'static str {
        match self {
            Self::NoDeployment => "no deployment",
            Self::NoPeakHour => "no whole day, so possibly no peak hour",
            Self::NoBlockingFullCollection => "no blocking full collection (its duration is an estimate)",
            Self::NativeUnknown => "memory outside the heap",
            Self::LimitUnknown => "the present limit",
            Self::LargeObjects => "large objects are allocated, and the model was measured without them",
            Self::Growing => "the live size still grew",
            Self::LostEvents => "events were lost",
            Self::MissingMinutes => "minutes with restarts, lost events or heap dumps",
        }
    }
}

/// Length of the window of a record, and numbers of its collections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Length, in nanoseconds.
    pub observed_ns: u64,
    /// Number of young collections.
    pub young: u64,
    /// Number of young collections that collected generation 1.
    pub gen1: u64,
    /// Number of full collections.
    pub full: u64,
    /// Number of full collections that were blocking.
    pub full_blocking: u64,
}

impl Window {
    /// Returns the window of an observation.
    pub fn from_observation(observation: &Observation) -> Self {
        Self {
            observed_ns: observation.window_ns.max(0.0) as u64,
            young: observation.young.len() as u64,
            gen1: observation.gen1() as u64,
            full: observation.full.len() as u64,
            full_blocking: observation.full.iter().filter(|full| !full.concurrent).count() as u64,
        }
    }
}

/// The facts of a window about memory. Sizes are in bytes, and times in nanoseconds. Unknown values are `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SizingBasis {
    /// Length of the window, and numbers of its collections.
    pub window: Window,
    /// Maximum live size after a full collection.
    pub live: Option<f64>,
    /// Bytes in generations 0 and 1 before young collections, median.
    pub young: Option<f64>,
    /// Bytes in generations 0 and 1 before young collections, 95th percentile.
    pub young_high: Option<f64>,
    /// Bytes per second that survive generation 1.
    pub promotion: Option<f64>,
    /// Allocated bytes of large objects per second.
    pub large: Option<f64>,
    /// Maximum committed memory of the heap.
    pub committed: Option<f64>,
    /// Memory outside the heap.
    pub native: Option<f64>,
    /// Share of the time during which the program was suspended.
    pub stopped_share: Option<f64>,
    /// The part of the stopped share in full collections that ran because memory was short.
    pub stopped_at_limit: f64,
    /// Full collections per minute.
    pub full_per_minute: Option<f64>,
    /// Full collections per minute, without those that ran because memory was short.
    pub full_below_limit: Option<f64>,
    /// Typical pause of blocking full collections.
    pub blocking_ns: Option<f64>,
    /// Typical duration of background collections.
    pub background_ns: Option<f64>,
    /// Facts that the window does not contain, except for the limit, which belongs to the configuration.
    pub gaps: Vec<Gap>,
}

/// Returns the gaps among pairs of a condition and a gap.
fn missing<const N: usize>(all: [(bool, Gap); N]) -> Vec<Gap> {
    all.into_iter()
        .filter_map(|(is_missing, gap)| is_missing.then_some(gap))
        .collect()
}

/// Returns whether the last live size is larger than the first one beyond [`MAX_GROWTH`].
fn grows(mut live: impl Iterator<Item = f64>) -> bool {
    let first = live.next();
    first
        .zip(live.last())
        .is_some_and(|(first, last)| last > first * (1.0 + MAX_GROWTH))
}

/// Returns the largest value.
fn highest(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

/// The entries of a profile that count: the usable minutes or blocks, and the minutes of the warm-up.
struct Entries<'p> {
    usable: Vec<&'p Minute>,
    start: Option<Minute>,
}

impl Entries<'_> {
    /// Returns the highest value of a maximum, including the warm-up. A maximum is unknown without a known value after
    /// the warm-up.
    fn highest(&self, figure: fn(&Minute) -> Option<u64>) -> Option<f64> {
        let of = self.usable.iter().filter_map(|minute| figure(minute)).max()?;
        Some(self.start.as_ref().and_then(figure).map_or(of, |start| of.max(start)) as f64)
    }

    fn count(&self, figure: fn(&Minute) -> u64) -> u64 {
        self.usable
            .iter()
            .fold(0, |sum, minute| sum.saturating_add(figure(minute)))
    }

    /// Returns a sum divided by another sum, over the minutes in which both are known. Returns `None` if the divisor is
    /// 0.
    fn ratio(&self, figure: fn(&Minute) -> Option<u64>, of: fn(&Minute) -> u64) -> Option<f64> {
        let known = self
            .usable
            .iter()
            .filter_map(|minute| Some((figure(minute)? as f64, of(minute) as f64)));
        let (sum, divisor) = known.fold((0.0, 0.0), |(sum, all), (value, of)| (sum + value, all + of));
        (divisor > 0.0).then(|| sum / divisor)
    }

    /// Returns a sum per nanosecond of a process.
    fn rate(&self, figure: fn(&Minute) -> Option<u64>) -> Option<f64> {
        self.ratio(figure, |minute| minute.observed_ns)
    }

    fn mean(&self, figure: fn(&Minute) -> Option<u64>) -> Option<f64> {
        let known: Vec<f64> = self
            .usable
            .iter()
            .filter_map(|minute| Some(figure(minute)? as f64))
            .collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }
}

impl SizingBasis {
    /// Collects the facts of an observation.
    pub fn from_observation(observation: &Observation) -> Self {
        let before = observation.young.iter().map(|young| young.before);
        let at_limit = observation.full.iter().filter(|full| full.asker == Asker::Limit);
        let at_limit_ns: f64 = at_limit.clone().filter_map(|full| full.pause_ns).sum();
        let below_limit = observation.full.len() - at_limit.count();
        let blocking = observation.full.iter().filter(|full| !full.concurrent);
        let background = observation.full.iter().filter(|full| full.concurrent);
        let resident = observation.surroundings.resident;
        Self {
            window: Window::from_observation(observation),
            live: highest(observation.live()),
            young: median(before.clone()),
            young_high: quantile(before, 0.95),
            promotion: observation.promotion(),
            large: observation.large_allocation,
            committed: observation.committed,
            native: resident
                .zip(observation.committed)
                .map(|(resident, committed)| (resident - committed).max(0.0)),
            stopped_share: observation.stopped_share(),
            stopped_at_limit: at_limit_ns / observation.window_ns.max(1.0),
            full_per_minute: observation.full_per_minute(),
            full_below_limit: observation
                .full_per_minute()
                .map(|_| below_limit as f64 / (observation.seconds() / 60.0)),
            blocking_ns: median(blocking.clone().filter_map(|full| full.pause_ns)),
            background_ns: median(background.filter_map(|full| full.duration_ns)),
            gaps: missing([
                // The window of a single process never contains a deployment.
                (true, Gap::NoDeployment),
                (observation.window_ns < DAY_NS, Gap::NoPeakHour),
                (blocking.count() == 0, Gap::NoBlockingFullCollection),
                (resident.is_none(), Gap::NativeUnknown),
                (
                    observation.large_allocation.is_none_or(|large| large > MAX_LARGE),
                    Gap::LargeObjects,
                ),
                (grows(observation.live()), Gap::Growing),
                (
                    observation.lost_events != Some(0) || observation.damaged > 0,
                    Gap::LostEvents,
                ),
            ]),
        }
    }

    /// Collects the facts of a profile. The module describes the differences to an observation.
    pub fn from_profile(profile: &Profile) -> Self {
        let entries = Entries {
            usable: profile.minutes().filter(|minute| minute.is_usable()).collect(),
            start: profile.start(),
        };
        let usable = &entries.usable;
        let (full, full_blocking) = (
            entries.count(|minute| minute.full),
            entries.count(|minute| minute.full_blocking),
        );
        let gen1 = entries.count(|minute| minute.gen1);
        let collections = entries.count(|minute| minute.collections);
        let at_limit = entries.count(|minute| minute.full_at_limit);
        // A sum of no pauses is 0, and has no mean.
        let blocking_ns = entries.ratio(|minute| minute.blocking_ns, |minute| minute.full_blocking);
        let background_ns = entries.ratio(
            |minute| minute.background_ns,
            |minute| minute.full.saturating_sub(minute.full_blocking),
        );
        let process_ns = entries.count(|minute| minute.observed_ns) as f64;
        let per_minute = |number: u64| (process_ns > 0.0).then(|| number as f64 / (process_ns / 60e9));
        let large = entries.rate(|minute| match minute.collections {
            0 => Some(0),
            _ => minute.large_allocated,
        });
        let committed = entries.highest(|minute| minute.committed);
        let resident = entries.highest(|minute| minute.resident);
        let native = entries.highest(|minute| minute.native).or_else(|| {
            let (resident, committed) = resident.zip(committed)?;
            Some((resident - committed).max(0.0))
        });
        // Several processes have their minutes at the same time, so the length follows from the entries.
        let length = profile.entry_minutes();
        let minutes = length * usable.len() as u64;
        let ends = usable.first().zip(usable.last());
        let all_minutes = ends.map_or(0, |(first, last)| {
            last.at.saturating_sub(first.at).saturating_add(length)
        });
        let observed_ns = minutes.saturating_mul(MINUTE_NS);
        Self {
            window: Window {
                observed_ns,
                young: collections.saturating_sub(full),
                gen1,
                full,
                full_blocking,
            },
            live: entries.highest(|minute| minute.live_high),
            young: entries.mean(|minute| minute.young_before),
            young_high: entries.highest(|minute| minute.young_high),
            promotion: entries
                .rate(|minute| minute.promoted)
                .map(|per_ns| per_ns * 1e9)
                .filter(|_| gen1 > 0),
            large: large.map(|per_ns| per_ns * 1e9),
            committed,
            native,
            stopped_share: entries.rate(|minute| minute.stopped_ns).map(|share| share.min(1.0)),
            stopped_at_limit: blocking_ns.map_or(0.0, |ns| ns * at_limit as f64 / process_ns.max(1.0)),
            full_per_minute: per_minute(full),
            full_below_limit: per_minute(full.saturating_sub(at_limit)),
            blocking_ns,
            background_ns,
            gaps: missing([
                (
                    entries
                        .start
                        .is_none_or(|start| start.lossy || start.age_s.is_some_and(|age| age >= 60)),
                    Gap::NoDeployment,
                ),
                ((observed_ns as f64) < DAY_NS, Gap::NoPeakHour),
                (full_blocking == 0, Gap::NoBlockingFullCollection),
                (native.is_none(), Gap::NativeUnknown),
                (large.is_none_or(|per_ns| per_ns * 1e9 > MAX_LARGE), Gap::LargeObjects),
                (
                    grows(usable.iter().filter_map(|minute| Some(minute.live? as f64))),
                    Gap::Growing,
                ),
                (all_minutes > minutes, Gap::MissingMinutes),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Configuration;
    use crate::profile::{LeftOut, combine, minutes};
    use clr_gc::event::{GcReason, GcType};
    use clr_gc::gc::{Collection, GenerationSizes};
    use proptest::prelude::*;

    const MEGA: u64 = 1_000_000;
    /// Minutes of a recording: two blocks.
    const MINUTES: u64 = 10;

    /// A collection of a recording: its time within its minute in milliseconds, its kind, and a factor of its sizes.
    type Part = (i64, u32, u64);

    /// Returns a collection of generation 0 (kinds 0 and 1), of generation 1 (2), a blocking full collection (3), one
    /// because memory was short (4), or a background collection (5).
    fn collection(at_ns: i64, kind: u32, factor: u64) -> Collection {
        let mut found = Collection::unknown(1);
        found.start = Some(at_ns);
        found.end = Some(at_ns + 5 * factor as i64);
        found.generation = Some([0, 0, 1, 2, 2, 2][kind as usize]);
        found.reason = Some(if kind == 4 {
            GcReason::LOW_MEMORY
        } else {
            GcReason::ALLOC_SMALL
        });
        found.gc_type = (kind == 5).then_some(GcType::BACKGROUND);
        found.pause_ns = Some(1_000 * factor as i64);
        let sizes = |before: u64, after: u64| GenerationSizes {
            before: Some(before),
            after: Some(after),
            fragmentation: Some(MEGA),
            survived: Some(after),
            ..GenerationSizes::default()
        };
        found.heap = [
            sizes(16 * MEGA + 1_000 * factor, 0),
            sizes(2_000 * factor, 300 * factor),
            sizes(50 * MEGA, 50 * MEGA + 5_000 * factor),
            sizes(3 * MEGA + 100 * factor, 3 * MEGA),
            sizes(0, MEGA),
        ];
        found.committed.after = Some(90 * MEGA + 7_000 * factor);
        found.committed.kept = Some(0);
        found
    }

    /// Returns the collections of a recording: the parts of each minute, after two young collections.
    fn recording(parts: &[Vec<Part>]) -> Vec<Collection> {
        let mut all = Vec::new();
        for (minute, parts) in parts.iter().enumerate() {
            let regular = [(1, 0, 500), (2, 2, 500)];
            for (ms, kind, factor) in regular.iter().chain(parts) {
                all.push(collection(
                    minute as i64 * 60_000_000_000 + ms * 1_000_000,
                    *kind,
                    *factor,
                ));
            }
        }
        all.sort_by_key(|collection| collection.start);
        all
    }

    fn is_close(one: Option<f64>, other: Option<f64>) -> bool {
        match (one, other) {
            (Some(one), Some(other)) => (one - other).abs() <= 1e-6 * one.abs().max(1.0),
            (one, other) => one == other,
        }
    }

    proptest! {
        /// Scenario: the collections of a recording of 10 minutes are an observation, a profile of minutes, and a
        /// profile of two blocks.
        /// Guarantee: both profiles have the numbers, maxima and rates of the observation. The 95th percentile of the
        /// bytes before young collections is at most 4.5 % lower, and at most the highest value. The median is between
        /// the ends.
        #[test]
        fn profile_has_facts_of_observation(
            parts in prop::collection::vec(
                prop::collection::vec((3_i64..59_000, 0_u32..6, 1_u64..2_000), 0..40),
                MINUTES as usize,
            ),
        ) {
            let collections = recording(&parts);
            let length = MINUTES as i64 * 60_000_000_000;
            let observed = Observation::from_collections(&collections, &[], length, Some(0));
            let exact = SizingBasis::from_observation(&observed);
            let all = minutes(&collections, &[], length, 1_000, Some(3_600));
            let mut profile = Profile::new("shop", Configuration::default());
            all.iter().for_each(|minute| profile.push(*minute).unwrap());
            let blocks = all.chunks(5).filter_map(combine);
            let blocks = Profile::from_blocks("shop", Configuration::default(), blocks, (LeftOut::default(), None));
            for found in [&profile, &blocks].map(SizingBasis::from_profile) {
                prop_assert_eq!(found.window, exact.window);
                prop_assert_eq!((found.live, found.committed), (exact.live, exact.committed));
                prop_assert!(is_close(found.promotion, exact.promotion), "{:?} {:?}", found, exact);
                prop_assert!(is_close(found.large, exact.large), "{:?} {:?}", found, exact);
                prop_assert!(is_close(found.stopped_share, exact.stopped_share));
                prop_assert!(is_close(found.full_per_minute, exact.full_per_minute));
                prop_assert!(is_close(found.full_below_limit, exact.full_below_limit));
                let most = observed.young.iter().map(|young| young.before).fold(0.0, f64::max);
                let high = found.young_high.unwrap();
                prop_assert!(high >= 0.955 * exact.young_high.unwrap() && high <= most, "{} {}", high, most);
                prop_assert!(found.young.unwrap() >= 16e6 && found.young.unwrap() <= most);
                let pauses = observed.full.iter().filter(|full| !full.concurrent).filter_map(|full| full.pause_ns);
                let is_known = |ns: f64| pauses.clone().any(|one| one <= ns) && pauses.clone().any(|one| one >= ns);
                prop_assert!(found.blocking_ns.is_none_or(is_known));
                prop_assert_eq!(found.blocking_ns.is_some(), exact.blocking_ns.is_some());
                prop_assert_eq!(found.background_ns.is_some(), exact.background_ns.is_some());
                // A profile of a day cannot exist, and the minutes have no start of a process.
                prop_assert!(found.gaps.starts_with(&[Gap::NoDeployment, Gap::NoPeakHour]));
                prop_assert!(!found.gaps.contains(&Gap::MissingMinutes));
            }
        }
    }

    /// Scenario: a process starts in the first minute of a profile and commits most memory there; a later minute has
    /// lost events, and another has an unknown suspension. Then the first minutes of the process are missing.
    /// Guarantee: the start counts for the maximum and not for the rates, and the profile lacks no deployment. The
    /// damaged minute is missing, and the stopped share comes from the other minutes. Without its first minutes, the
    /// start is not seen.
    #[test]
    fn start_counts_for_bound_only() {
        let minute = |at: u64| Minute {
            at,
            observed_ns: MINUTE_NS,
            age_s: Some(60 * at),
            collections: 10,
            gen1: 1,
            promoted: Some(60 * MEGA),
            stopped_ns: Some(MINUTE_NS / 100),
            committed: Some(100 * MEGA),
            native: Some(5 * MEGA),
            ..Minute::default()
        };
        let mut all: Vec<Minute> = (0..15).map(minute).collect();
        all[1] = Minute {
            committed: Some(300 * MEGA),
            promoted: Some(9_000 * MEGA),
            ..all[1]
        };
        all[8].lossy = true;
        all[9].stopped_ns = None;
        let basis = |minutes: &[Minute]| {
            let mut profile = Profile::new("shop", Configuration::default());
            minutes.iter().for_each(|minute| profile.push(*minute).unwrap());
            SizingBasis::from_profile(&profile)
        };
        let whole = basis(&all);
        assert_eq!((whole.committed, whole.promotion), (Some(300e6), Some(1e6)));
        assert!(is_close(whole.stopped_share, Some(0.01)));
        assert_eq!(whole.window.observed_ns, 9 * MINUTE_NS);
        assert!(whole.gaps.contains(&Gap::MissingMinutes) && !whole.gaps.contains(&Gap::NoDeployment));
        assert!(!whole.gaps.contains(&Gap::NativeUnknown) && whole.gaps.contains(&Gap::LargeObjects));
        assert!(basis(&all[1..]).gaps.contains(&Gap::NoDeployment));
        let late = basis(&all[5..]);
        assert_eq!(late.committed, Some(100e6));
    }
}
