//! Profiles of services: a bounded series of minute samples for one configuration.
//!
//! ```text
//! recording: all collections ---> minutes --> Profile
//! live: Sampler, step by step --> Minute ---> services: five minutes -> packed block --> Profile
//! ```

mod classes;
pub mod sampler;

use std::collections::VecDeque;

use clr_gc::gc::{Collection, Suspension};
use serde::{Deserialize, Serialize};

use crate::configuration::Configuration;
use crate::observation::LargeAllocation;
use crate::profile::sampler::Sums;

/// Maximum number of minutes in a profile: one day.
pub const MAX_MINUTES: usize = 1_440;
/// Duration of the warm-up after the start of a process, in seconds, during which methods are compiled and caches fill.
pub const WARM_UP_S: u64 = 300;
/// Number of consecutive minutes in a block.
pub const BLOCK_MINUTES: usize = 5;
/// Minimum observed part of a minute that is compared, in nanoseconds.
const MIN_OBSERVED_NS: u64 = 55_000_000_000;

const MINUTE_NS: i64 = 60_000_000_000;

/// Returns the minute that combines several minutes: consecutive minutes of one process, or the same minute of several
/// processes. Counts, times and bytes of allocation are added, and unknown if a part is unknown. Levels and quantiles
/// are the means of their known values, and maxima are the maxima of their known values. The result starts at the first
/// minute, and is `lossy` if a part is. Returns `None` without minutes.
pub fn combine(minutes: &[Minute]) -> Option<Minute> {
    let sum = |figure: fn(&Minute) -> Option<u64>| {
        let mut figures = minutes.iter().map(figure);
        figures.try_fold(0_u64, |sum, value| Some(sum.saturating_add(value?)))
    };
    let mean = |figure: fn(&Minute) -> Option<u64>| {
        let known = || minutes.iter().filter_map(figure);
        let sum: f64 = known().map(|value| value as f64).sum();
        let count = known().count();
        (count > 0).then(|| (sum / count as f64).round() as u64)
    };
    let most = |figure: fn(&Minute) -> Option<u64>| minutes.iter().filter_map(figure).max();
    // A collection reports the bytes since the previous collection, so minutes without collections add nothing.
    let since_last = |figure: fn(&Minute) -> Option<u64>| {
        let mut with = minutes.iter().filter(|minute| minute.collections > 0).peekable();
        with.peek()?;
        with.try_fold(0_u64, |sum, minute| Some(sum.saturating_add(figure(minute)?)))
    };
    let all = |figure: fn(&Minute) -> u64| minutes.iter().fold(0_u64, |sum, one| sum.saturating_add(figure(one)));
    Some(Minute {
        at: minutes.iter().map(|minute| minute.at).min()?,
        observed_ns: all(|minute| minute.observed_ns),
        age_s: minutes.iter().filter_map(|minute| minute.age_s).min(),
        lossy: minutes.iter().any(|minute| minute.lossy),
        collections: all(|minute| minute.collections),
        allocated: since_last(|minute| minute.allocated),
        requests: sum(|minute| minute.requests),
        stopped_ns: sum(|minute| minute.stopped_ns),
        young_pause_ns: mean(|minute| minute.young_pause_ns),
        median_pause_ns: mean(|minute| minute.median_pause_ns),
        p95_pause_ns: mean(|minute| minute.p95_pause_ns),
        full: all(|minute| minute.full),
        full_stopped_ns: sum(|minute| {
            if minute.full == 0 {
                Some(0)
            } else {
                minute.full_stopped_ns
            }
        }),
        live: mean(|minute| minute.live),
        young_budget: mean(|minute| minute.young_budget),
        free: mean(|minute| minute.free),
        committed_unused: mean(|minute| minute.committed_unused),
        native: mean(|minute| minute.native),
        resident: mean(|minute| minute.resident),
        container_peak: mean(|minute| minute.container_peak),
        cpu_ns: sum(|minute| minute.cpu_ns),
        gen1: all(|minute| minute.gen1),
        promoted: sum(|minute| minute.promoted),
        large_allocated: since_last(|minute| minute.large_allocated),
        young_before: mean(|minute| minute.young_before),
        young_high: most(|minute| minute.young_high),
        live_high: most(|minute| minute.live_high),
        committed: most(|minute| minute.committed),
        full_blocking: all(|minute| minute.full_blocking),
        full_at_limit: all(|minute| minute.full_at_limit),
        blocking_ns: sum(|minute| minute.blocking_ns),
        background_ns: sum(|minute| minute.background_ns),
    })
}

/// The measures of one minute. Unknown values are `None`. Sizes are in bytes, and durations in nanoseconds unless the
/// name of the field states another unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Minute {
    /// Number of the minute, counted from 1970 or from the start of the recording.
    pub at: u64,
    /// Observed part of the minute.
    pub observed_ns: u64,
    /// Age of the process at the start of the minute.
    pub age_s: Option<u64>,
    /// Whether the minute is damaged: events were lost or not read in time, or a tool requested a collection.
    pub lossy: bool,
    /// Number of collections.
    pub collections: u64,
    /// Allocated bytes.
    pub allocated: Option<u64>,
    /// Number of requests.
    pub requests: Option<u64>,
    /// Time during which the program was suspended.
    pub stopped_ns: Option<u64>,
    /// Median pause of young collections.
    pub young_pause_ns: Option<u64>,
    /// Median pause of all collections.
    pub median_pause_ns: Option<u64>,
    /// 95th percentile of the pauses of all collections.
    pub p95_pause_ns: Option<u64>,
    /// Number of full collections.
    pub full: u64,
    /// Sum of the pauses of full collections.
    pub full_stopped_ns: Option<u64>,
    /// Live bytes of old objects after the last full collection of the minute.
    pub live: Option<u64>,
    /// Median of the bytes in generation 0 before young collections.
    pub young_budget: Option<u64>,
    /// Free bytes between objects.
    pub free: Option<u64>,
    /// Committed but unused bytes of the heap.
    pub committed_unused: Option<u64>,
    /// Memory of the process outside the heap.
    pub native: Option<u64>,
    /// Resident memory of the process.
    pub resident: Option<u64>,
    /// Maximum memory of the container.
    pub container_peak: Option<u64>,
    /// CPU time of the process during the minute.
    pub cpu_ns: Option<u64>,
    /// Number of collections of generation 1.
    pub gen1: u64,
    /// Bytes that survived generation 1.
    pub promoted: Option<u64>,
    /// Allocated bytes of large objects.
    pub large_allocated: Option<u64>,
    /// Median of the bytes in generations 0 and 1 before young collections.
    pub young_before: Option<u64>,
    /// 95th percentile of the bytes in generations 0 and 1 before young collections. Several minutes have the maximum,
    /// which is an upper bound of the percentile of all of their collections.
    pub young_high: Option<u64>,
    /// Maximum live bytes of old objects after a full collection.
    pub live_high: Option<u64>,
    /// Maximum committed memory of the heap.
    pub committed: Option<u64>,
    /// Number of full collections that were blocking.
    pub full_blocking: u64,
    /// Number of full collections that ran because memory was short.
    pub full_at_limit: u64,
    /// Sum of the pauses of blocking full collections.
    pub blocking_ns: Option<u64>,
    /// Sum of the durations of background collections.
    pub background_ns: Option<u64>,
}

impl Minute {
    /// Returns whether the process was warming up. Returns `false` if the age of the process is unknown.
    pub fn is_warm_up(&self) -> bool {
        self.age_s.is_some_and(|age| age < WARM_UP_S)
    }

    /// Returns whether the minute is used in a comparison.
    pub fn is_usable(&self) -> bool {
        !self.lossy && !self.is_warm_up() && self.observed_ns >= MIN_OBSERVED_NS
    }
}

/// Error returned if a minute is not later than the last minute of its profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfOrder;

/// The minutes of a service in one configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Name of the service.
    pub service: String,
    /// Configuration of the service.
    pub configuration: Configuration,
    minutes: VecDeque<Minute>,
    /// Number of minutes that were evicted because the profile was full.
    evicted: u64,
    /// Minutes that are not in `minutes` if each entry of `minutes` is a block; `None` if each entry is a minute.
    blocks: Option<LeftOut>,
    /// Warm-up minutes of the newest starts of processes, combined, if each entry of `minutes` is a block.
    start: Option<Minute>,
}

/// Numbers of minutes that belong to no block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Minutes of the warm-up.
    pub warm_up: u64,
    /// Minutes in which events were lost, or of which too little was observed.
    pub damaged: u64,
}

impl Profile {
    /// Creates a profile without minutes.
    pub fn new(service: impl Into<String>, configuration: Configuration) -> Self {
        Self {
            service: service.into(),
            configuration,
            ..Self::default()
        }
    }

    /// Creates a profile from blocks. Each block is one entry that combines consecutive usable minutes. `left_out` has
    /// the minutes that belong to no block, and `start` combines the warm-up minutes of the newest starts of processes.
    pub fn from_blocks(
        service: impl Into<String>,
        configuration: Configuration,
        blocks: impl IntoIterator<Item = Minute>,
        (left_out, start): (LeftOut, Option<Minute>),
    ) -> Self {
        Self {
            minutes: blocks.into_iter().collect(),
            blocks: Some(left_out),
            start,
            ..Self::new(service, configuration)
        }
    }

    /// Returns the minutes that belong to no block, or `None` if the entries of the profile are minutes.
    pub fn left_out(&self) -> Option<LeftOut> {
        self.blocks
    }

    /// Returns the combined minutes of the warm-up, or `None` if no start of a process was observed.
    pub fn start(&self) -> Option<Minute> {
        if self.blocks.is_some() {
            return self.start;
        }
        let warm_up: Vec<Minute> = self.minutes().filter(|minute| minute.is_warm_up()).copied().collect();
        combine(&warm_up)
    }

    /// Adds a minute. If the profile is full, its oldest minute is evicted and counted.
    ///
    /// # Errors
    ///
    /// Returns an error if the minute is not later than the last minute of the profile.
    pub fn push(&mut self, minute: Minute) -> Result<(), OutOfOrder> {
        if self.minutes.back().is_some_and(|last| last.at >= minute.at) {
            return Err(OutOfOrder);
        }
        self.minutes.push_back(minute);
        // A profile read from storage can have more than the maximum number of minutes.
        while self.minutes.len() > MAX_MINUTES {
            self.minutes.pop_front();
            self.evicted += 1;
        }
        Ok(())
    }

    /// Returns the minutes in chronological order.
    pub fn minutes(&self) -> impl Iterator<Item = &Minute> + Clone {
        self.minutes.iter()
    }

    /// Returns the number of minutes that each entry combines.
    pub fn entry_minutes(&self) -> u64 {
        if self.blocks.is_some() { BLOCK_MINUTES as u64 } else { 1 }
    }

    /// Returns the first minute after the last entry, or `None` if the profile is empty.
    pub fn end(&self) -> Option<u64> {
        Some(self.minutes.back()?.at.saturating_add(self.entry_minutes()))
    }

    /// Returns the number of minutes that were evicted because the profile was full.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

/// Divides a recording into minutes, of which the last [`MAX_MINUTES`] are returned. `observed_ns` is the length of the
/// recording, `started` is the number of its first minute, and `age_s` is the age of the process at its start. Facts
/// that the stream does not contain, such as resident memory, are unknown.
pub fn minutes(
    collections: &[Collection],
    suspensions: &[Suspension],
    observed_ns: i64,
    started: u64,
    age_s: Option<u64>,
) -> Vec<Minute> {
    let count = usize::try_from(observed_ns.max(0) / MINUTE_NS + i64::from(observed_ns % MINUTE_NS > 0)).unwrap_or(0);
    let skipped = count.saturating_sub(MAX_MINUTES);
    let mut all: Vec<Sums> = (skipped..count)
        .map(|index| {
            let from = index as i64 * MINUTE_NS;
            Sums::new(Minute {
                at: started.saturating_add(index as u64),
                observed_ns: observed_ns.saturating_sub(from).clamp(0, MINUTE_NS).cast_unsigned(),
                age_s: age_s.map(|age| age.saturating_add(60 * index as u64)),
                ..Minute::default()
            })
        })
        .collect();
    let place = |at: i64| usize::try_from(at / MINUTE_NS).ok()?.checked_sub(skipped);
    let mut large = LargeAllocation::default();
    for collection in collections {
        let at = collection.start.unwrap_or(collection.last_event);
        let large = large.add(collection);
        if let Some(sums) = place(at).and_then(|place| all.get_mut(place)) {
            sums.add(collection, large);
        }
    }
    for suspension in suspensions {
        let at = suspension.edges.suspend_begin.and_then(place);
        if let Some(sums) = at.and_then(|place| all.get_mut(place)) {
            sums.add_suspension(suspension);
        }
    }
    all.into_iter().map(Sums::finish).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the minutes of a day and three more are added to a profile, and then an older minute.
    /// Guarantee: the profile keeps the newest minutes of one day and counts the evicted minutes; the older minute is
    /// rejected.
    #[test]
    fn profile_keeps_one_day() {
        let mut profile = Profile::new("shop", Configuration::default());
        for at in 0..MAX_MINUTES as u64 + 3 {
            let minute = Minute {
                at,
                ..Minute::default()
            };
            profile.push(minute).unwrap();
        }
        assert_eq!(profile.minutes().count(), MAX_MINUTES);
        assert_eq!((profile.evicted(), profile.minutes().next().unwrap().at), (3, 3));
        assert_eq!(profile.push(Minute::default()), Err(OutOfOrder));
    }

    /// Scenario: a profile is written as JSON and read again; a minute is read from JSON without measures.
    /// Guarantee: the profile is unchanged; the missing measures have their default values.
    #[test]
    fn profile_survives_storage() {
        let mut profile = Profile::new("shop", Configuration::default());
        let minute = Minute {
            at: 7,
            live: Some(1),
            ..Minute::default()
        };
        profile.push(minute).unwrap();
        let text = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
        assert_eq!(serde_json::from_str::<Minute>("{}").unwrap(), Minute::default());
    }

    fn collection(at_s: i64, generation: u32, pause_ms: i64) -> Collection {
        let mut collection = Collection::unknown(1);
        collection.start = Some(at_s * 1_000_000_000);
        collection.generation = Some(generation);
        collection.pause_ns = Some(pause_ms * 1_000_000);
        collection
    }

    /// Scenario: a recording of 150 s has a young and a full collection in its first minute, and a young one in its
    /// last minute; the process is new.
    /// Guarantee: each minute has its own collections; half of the last minute is observed, so it is not usable; the
    /// minute without collections has a stopped time of 0 and an unknown allocation; the first minute is warm-up.
    #[test]
    fn recording_is_divided_into_minutes() {
        let collections = [collection(1, 0, 2), collection(59, 2, 8), collection(121, 1, 4)];
        let found = minutes(&collections, &[], 150_000_000_000, 100, Some(0));
        let [first, second, third] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((first.at, first.collections, first.full), (100, 2, 1));
        assert_eq!(first.stopped_ns, Some(10_000_000));
        assert_eq!(
            (second.collections, second.stopped_ns, second.allocated),
            (0, Some(0), None)
        );
        assert_eq!(
            (third.observed_ns, third.median_pause_ns),
            (30_000_000_000, Some(4_000_000))
        );
        assert!(first.is_warm_up() && !third.is_usable());
    }

    /// Scenario: a minute is complete; then the minute has lost events, is observed for 40 s, or is part of the
    /// warm-up.
    /// Guarantee: only the complete minute is usable.
    #[test]
    fn incomplete_minutes_do_not_count() {
        let good = Minute {
            observed_ns: 60_000_000_000,
            age_s: Some(WARM_UP_S),
            ..Minute::default()
        };
        assert!(good.is_usable());
        assert!(!Minute { lossy: true, ..good }.is_usable());
        assert!(
            !Minute {
                observed_ns: 40_000_000_000,
                ..good
            }
            .is_usable()
        );
        assert!(
            !Minute {
                age_s: Some(WARM_UP_S - 1),
                ..good
            }
            .is_usable()
        );
    }
}
