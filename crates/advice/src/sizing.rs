//! Memory that a service needs: a lower bound for its limit, and the price of other limits.
//!
//! `gcwatch advise` sizes a process from an observation. The daemon sizes each service from the profile of its newest
//! configuration ([`size_profile`]).

use base::time::{Moment, Wall, rfc3339};
use base::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::basis::{Gap, SizingBasis, Window};
use crate::configuration::{Configuration, DEFAULT_HEAP_SHARE};
use crate::model::{MIN_HEADROOM, MemoryModel, Price};
use crate::profile::Profile;
use crate::profile::sampler::MINUTE_NS;

/// Limits of the price curve, as shares of a reference limit.
const SHARES: [f64; 8] = [1.5, 1.25, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5];

words! {
    /// The expected outcome of a limit.
    pub enum Prospect {
        /// The headroom is at least a tenth of the heap limit, so the service works.
        Works = "works",
        /// The headroom is positive, but less than a tenth of the heap limit. A measured service ended at such a limit.
        Doubtful = "doubtful",
        /// There is no headroom: the service thrashes or ends.
        ThrashesOrEnds = "thrashes_or_ends",
    }
}

/// The lower and upper end of a range in a record.
pub type Ends = [f64; 2];

/// Lower bounds for the limits of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bound {
    /// Minimum heap limit, in bytes.
    pub heap_limit: u64,
    /// Minimum memory limit of the container, in bytes.
    pub memory_limit: u64,
}

/// A limit with its expected outcome and price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Heap limit, in bytes.
    pub heap_limit: u64,
    /// Memory limit of the container, in bytes.
    pub memory_limit: u64,
    /// Heap limit minus live size and young generations, in bytes; negative if these do not fit into the limit.
    pub headroom: i64,
    /// Expected outcome.
    pub prospect: Prospect,
    /// Range of the full collections per minute; null without headroom.
    pub full_per_minute_range: Option<Ends>,
    /// Middle of the range of full collections per minute; null without headroom.
    pub full_per_minute: Option<f64>,
    /// Range of the share of the time during which the program is suspended; null without headroom.
    pub stopped_share: Option<Ends>,
    /// Increase of the stopped share if the heap limit is lowered by another MiB; null without headroom. Processes
    /// share memory best if their values are equal (square-root rule).
    pub stopped_share_per_mib: Option<f64>,
    /// Whether the heap limit is below the maximum committed memory in the window, or this maximum is unknown.
    pub extrapolated: bool,
}

/// `kind: "sizing"`: the memory that a service needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename = "sizing")]
pub struct SizingRecord {
    /// Name of the service; absent in a record of a single process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// End of the window, RFC 3339; absent in a record of a single process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Name of the process; null if unknown, and in a record of a service.
    pub process: Option<String>,
    /// Process ID; null if unknown, and in a record of a service.
    pub pid: Option<u64>,
    /// Configuration in the window.
    pub configuration: Configuration,
    /// Window in which the facts were observed.
    pub window: Window,
    /// Facts that the window does not contain, and other reasons for uncertainty.
    pub gaps: Vec<Gap>,
    /// Lower bounds for the limits; null if unknown.
    pub not_less_than: Option<Bound>,
    /// Reason why the bounds are unknown; null if they are known.
    pub unknown_because: Option<String>,
    /// Maximum live size after a full collection, in bytes; null if the bounds are unknown.
    pub live: Option<u64>,
    /// Bytes in generations 0 and 1 before young collections, 95th percentile; null if the bounds are unknown.
    pub young: Option<u64>,
    /// Bytes per second that survive generation 1; null if the bounds are unknown.
    pub promoted_per_second: Option<u64>,
    /// Maximum committed memory of the heap, in bytes; null if unknown.
    pub committed: Option<u64>,
    /// Range of the duration of a blocking full collection, in nanoseconds; null if the bounds are unknown.
    pub full_ns: Option<[u64; 2]>,
    /// Share of the window during which the program was suspended; null if unknown.
    pub stopped_share: Option<f64>,
    /// Full collections per minute in the window; null if the window is empty.
    pub full_per_minute: Option<f64>,
    /// Prices of limits, from the highest limit to the lowest; empty if the bounds are unknown.
    pub curve: Vec<Point>,
}

/// Converts a figure to bytes, rounded down. A negative figure becomes 0.
pub(crate) fn bytes(value: f64) -> u64 {
    value.max(0.0) as u64
}

/// The relation between the heap limit of a process and the memory limit of its container.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Container {
    /// Heap limit as a share of the memory limit of the container.
    share: f64,
    /// Memory outside the heap, in bytes; `None` if unknown.
    native: Option<f64>,
}

impl Container {
    /// Returns the relation in a window. If a limit is unknown, or if their ratio is implausible, the share is
    /// [`DEFAULT_HEAP_SHARE`].
    pub(crate) fn new(configuration: &Configuration, basis: &SizingBasis) -> Self {
        let pair = configuration.heap_limit.zip(configuration.memory_limit);
        let share = pair.map(|(heap, memory)| heap as f64 / memory.max(1) as f64);
        Self {
            share: share
                .filter(|share| (0.05..=1.0).contains(share))
                .unwrap_or(DEFAULT_HEAP_SHARE),
            native: basis.native,
        }
    }

    /// Returns the smallest memory limit of the container that allows a heap limit and has room for the memory outside
    /// the heap. Unknown memory outside the heap counts as 0.
    pub(crate) fn around(self, heap_limit: f64) -> f64 {
        (heap_limit / self.share).max(heap_limit + self.native.unwrap_or(0.0))
    }

    /// Returns the heap limit in a container with a memory limit.
    fn heap_of(self, memory_limit: f64) -> f64 {
        (memory_limit * self.share)
            .min(memory_limit - self.native.unwrap_or(0.0))
            .max(0.0)
    }
}

/// Returns the point of the price curve at a limit. `observed` is the maximum committed memory of the heap.
fn point(model: &MemoryModel, heap_limit: f64, memory_limit: f64, observed: f64) -> Point {
    let Price {
        headroom,
        full_per_minute,
        stopped_share,
        per_mebibyte,
    } = model.price(heap_limit);
    Point {
        heap_limit: bytes(heap_limit),
        memory_limit: bytes(memory_limit),
        headroom: headroom as i64,
        prospect: match headroom {
            headroom if headroom <= 0.0 => Prospect::ThrashesOrEnds,
            headroom if headroom < MIN_HEADROOM * heap_limit => Prospect::Doubtful,
            _ => Prospect::Works,
        },
        full_per_minute_range: full_per_minute.map(|(range, _)| [range.low, range.high]),
        full_per_minute: full_per_minute.map(|(_, middle)| middle),
        stopped_share: stopped_share.map(|range| [range.low, range.high]),
        stopped_share_per_mib: per_mebibyte,
        extrapolated: heap_limit < observed,
    }
}

/// Returns the gaps of a window, in the order of their definition.
fn gaps(basis: &SizingBasis, configuration: &Configuration) -> Vec<Gap> {
    let knows_limit = configuration.heap_limit_known || configuration.memory_limit.is_some();
    let is_missing = |gap: &Gap| basis.gaps.contains(gap) || (*gap == Gap::LimitUnknown && !knows_limit);
    Gap::ALL.iter().copied().filter(is_missing).collect()
}

/// Sizes a process from the facts of a window. `limits` are memory limits of the container for the price curve, in
/// bytes. If `limits` is empty, the curve has the needed limit and shares of a reference limit.
///
/// The reference is the present heap limit, but at most twice the maximum committed memory. If only the heap limit or
/// only the committed memory is known, the reference is the known value. If both are unknown, the reference is twice
/// the needed limit.
pub fn size(
    (process, pid): (Option<&str>, Option<u64>),
    configuration: &Configuration,
    basis: &SizingBasis,
    limits: &[u64],
) -> SizingRecord {
    let model = MemoryModel::new(basis);
    let container = Container::new(configuration, basis);
    let known = model.as_ref().ok();
    let mut record = SizingRecord {
        service: None,
        until: None,
        process: process.map(str::to_owned),
        pid,
        configuration: configuration.clone(),
        window: basis.window,
        gaps: gaps(basis, configuration),
        not_less_than: known.map(|model| Bound {
            heap_limit: bytes(model.needed()),
            memory_limit: bytes(container.around(model.needed())),
        }),
        unknown_because: model.as_ref().err().cloned(),
        live: known.map(|model| bytes(model.live)),
        young: known.map(|model| bytes(model.young_high)),
        promoted_per_second: known.map(|model| bytes(model.promotion)),
        committed: basis.committed.map(bytes),
        full_ns: known.map(|model| [bytes(model.full_ns.low), bytes(model.full_ns.high)]),
        stopped_share: basis.stopped_share,
        full_per_minute: basis.full_per_minute,
        curve: Vec::new(),
    };
    let Ok(model) = model else { return record };
    // The process ran with its maximum committed memory. If this maximum is unknown, every limit is an extrapolation.
    let observed = basis.committed.unwrap_or(f64::INFINITY);
    let reference = match (configuration.heap_limit, basis.committed) {
        // A limit far above the peak does not indicate how much memory the service needs.
        (Some(limit), Some(peak)) => (limit as f64).min(2.0 * peak),
        (limit, peak) => peak.or(limit.map(|limit| limit as f64)).unwrap_or(2.0 * model.needed()),
    };
    let mut points: Vec<(f64, f64)> = if limits.is_empty() {
        let of_share = |share: f64| (reference * share, container.around(reference * share));
        let needed = (model.needed(), container.around(model.needed()));
        SHARES.into_iter().map(of_share).chain([needed]).collect()
    } else {
        limits
            .iter()
            .map(|limit| (container.heap_of(*limit as f64), *limit as f64))
            .collect()
    };
    points.sort_by(|one, other| other.1.total_cmp(&one.1));
    record.curve = points
        .into_iter()
        .map(|(heap_limit, memory_limit)| point(&model, heap_limit, memory_limit, observed))
        .collect();
    record
}

/// Sizes a service from the profile of its newest configuration. `end` is the minute after its last minute, and `wall`
/// dates the end of the window.
pub fn size_profile(profile: &Profile, end: u64, wall: Wall) -> SizingRecord {
    let basis = SizingBasis::from_profile(profile);
    let mut record = size((None, None), &profile.configuration, &basis, &[]);
    record.service = Some(profile.service.clone());
    if basis.window.observed_ns == 0 {
        record.unknown_because = Some("no five minutes in a row after the warm-up were observed yet".to_owned());
    }
    // Later minutes than the window are too few for a block, or damaged.
    let end = Moment::from_ns(profile.end().unwrap_or(end).saturating_mul(MINUTE_NS));
    let seconds = wall.unix_ns(end) / 1_000_000_000;
    record.until = rfc3339(seconds.saturating_mul(1_000_000_000));
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{FullCollection, Observation, Surroundings, Young};
    use crate::profile::{LeftOut, Minute};
    use clr_gc::gc::Asker;

    fn window() -> Observation {
        let young = Young {
            generation: 1,
            pause_ns: Some(1e6),
            plan_ns: Some(0.3e6),
            before: 20e6,
            gen0_before: 18e6,
            survived: 3e6,
            gen1_survived: 2e6,
            by_budget: true,
        };
        let full = FullCollection {
            concurrent: false,
            asker: Asker::SmallObjects,
            by_large: false,
            pause_ns: Some(60e6),
            duration_ns: Some(60e6),
            live: Some(100e6),
            free: Some(5e6),
        };
        Observation {
            window_ns: 60e9,
            lost_events: Some(0),
            young: vec![young; 60],
            full: vec![full; 2],
            stopped_ns: Some(180e6),
            large_allocation: Some(0.0),
            committed: Some(200e6),
            ..Observation::default()
        }
    }

    fn size_window(observation: &Observation, limits: &[u64]) -> SizingRecord {
        let basis = SizingBasis::from_observation(observation);
        size((Some("shop"), Some(7)), &Configuration::default(), &basis, limits)
    }

    /// Scenario: a process with an unknown limit is sized from one minute with two blocking full collections.
    /// Guarantee: the bound leaves a tenth of the heap limit in addition to live size and young generations. The limits
    /// of the curve are in descending order. Limits below the observed peak are extrapolated. Only limits of at least
    /// the bound work, and only limits without headroom have no price. The gaps are listed, and the JSON has the kind
    /// `sizing`.
    #[test]
    fn bound_and_curve_follow_from_window() {
        let record = size_window(&window(), &[]);
        let bound = record.not_less_than.unwrap();
        assert_eq!(bound.heap_limit, 133_333_334);
        assert_eq!(bound.memory_limit, 177_777_778);
        assert_eq!(record.promoted_per_second, Some(2_000_000));
        assert_eq!(record.curve.len(), 9);
        assert!(
            record
                .curve
                .is_sorted_by(|one, other| one.memory_limit >= other.memory_limit)
        );
        for point in &record.curve {
            assert_eq!(point.extrapolated, point.heap_limit < 200_000_000, "{point:?}");
            let is_below = point.heap_limit < bound.heap_limit;
            assert_eq!(point.prospect == Prospect::Works, !is_below, "{point:?}");
            assert_eq!(
                point.stopped_share.is_none(),
                point.prospect == Prospect::ThrashesOrEnds
            );
        }
        let missing = [
            Gap::NoDeployment,
            Gap::NoPeakHour,
            Gap::NativeUnknown,
            Gap::LimitUnknown,
        ];
        assert_eq!(record.gaps, missing);
        let text = serde_json::to_value(&record).unwrap();
        assert_eq!(
            (&text["kind"], &text["unknown_because"]),
            (&"sizing".into(), &serde_json::Value::Null)
        );
    }

    /// Scenario: the memory outside the heap is 100 MB, which is more than a quarter of the container; then a limit of
    /// 220 MB is priced.
    /// Guarantee: the bound of the container has room for the heap and the memory outside the heap; the heap limit at
    /// 220 MB is 120 MB.
    #[test]
    fn native_memory_is_part_of_the_limit() {
        let mut observation = window();
        observation.surroundings = Surroundings {
            resident: Some(300e6),
            cpu: None,
        };
        let record = size_window(&observation, &[]);
        assert_eq!(record.not_less_than.unwrap().memory_limit, 233_333_334);
        assert!(!record.gaps.contains(&Gap::NativeUnknown));
        let at = size_window(&observation, &[220_000_000]);
        assert_eq!(at.curve[0].heap_limit, 120_000_000);
        assert_eq!(at.curve[0].prospect, Prospect::ThrashesOrEnds);
    }

    /// Scenario: a service has no block yet; then it has blocks with full collections and one without young collections.
    /// Guarantee: the record of the empty profile states that blocks are missing, and ends at the newest minute; the
    /// other record has a bound and prices, and ends with its last block. Both have the name of the service.
    #[test]
    fn service_is_sized_from_profile() {
        let sized = |minutes: &[Minute]| {
            let blocks = minutes.iter().copied();
            let profile = Profile::from_blocks("shop", Configuration::default(), blocks, (LeftOut::default(), None));
            size_profile(&profile, 30_000_000, Wall::UNIX)
        };
        let empty = sized(&[]);
        assert_eq!((empty.not_less_than, empty.curve.len()), (None, 0));
        assert!(empty.unknown_because.unwrap().contains("no five minutes in a row"));
        assert_eq!(empty.until.as_deref(), Some("2027-01-15T08:00:00Z"));
        let block = |at: u64| Minute {
            at,
            observed_ns: 5 * MINUTE_NS,
            collections: 60,
            full: 2,
            gen1: 10,
            promoted: Some(600_000_000),
            young_before: Some(19_000_000),
            young_high: Some(20_000_000),
            live_high: Some(100_000_000),
            committed: Some(200_000_000),
            stopped_ns: Some(MINUTE_NS / 60),
            ..Minute::default()
        };
        let record = sized(&[block(29_999_900), block(29_999_905)]);
        assert_eq!(
            (record.service.as_deref(), record.process, record.pid),
            (Some("shop"), None, None)
        );
        assert_eq!(record.until.as_deref(), Some("2027-01-15T06:30:00Z"));
        assert_eq!(record.window.observed_ns, 10 * MINUTE_NS);
        assert_eq!(
            (record.promoted_per_second, record.full_per_minute),
            (Some(2_000_000), Some(0.4))
        );
        assert_eq!(record.not_less_than.unwrap().heap_limit, 133_333_334);
        assert_eq!(record.curve.len(), 9);
    }

    /// Scenario: a window has no full collection; then the live size in a window doubles.
    /// Guarantee: without a full collection, the bound is unknown with a reason, and the curve is empty; growth is a
    /// gap, and the record has the largest live size.
    #[test]
    fn missing_and_growing_live_size_are_reported() {
        let mut observation = window();
        observation.full.clear();
        let record = size_window(&observation, &[]);
        assert_eq!((record.not_less_than, record.curve.len()), (None, 0));
        assert!(record.unknown_because.unwrap().contains("full collection"));
        let mut observation = window();
        observation.full[1].live = Some(200e6);
        let record = size_window(&observation, &[]);
        assert!(record.gaps.contains(&Gap::Growing));
        assert_eq!(record.live, Some(200_000_000));
    }
}
