//! Memory that a service needs: a lower bound for its limit, and the price of other limits.

use base::words;
use serde::{Deserialize, Serialize};

use crate::configuration::{Configuration, DEFAULT_HEAP_SHARE};
use crate::model::{MIN_HEADROOM, MemoryModel, Price};
use crate::observation::Observation;

/// Limits of the price curve, as shares of a reference limit.
const SHARES: [f64; 8] = [1.5, 1.25, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5];
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
        }
    }
}

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Minimum heap limit, in bytes.
    pub heap_limit: u64,
    /// Minimum memory limit of the container, in bytes.
    pub memory_limit: u64,
}

/// A limit with its expected outcome and price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// Length of the window of a record, and numbers of its collections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
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
            observed_ns: bytes(observation.window_ns),
            young: observation.young.len() as u64,
            gen1: observation.gen1() as u64,
            full: observation.full.len() as u64,
            full_blocking: observation.full.iter().filter(|full| !full.concurrent).count() as u64,
        }
    }
}

/// `kind: "sizing"`: the memory that a service needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "sizing")]
pub struct SizingRecord {
    /// Name of the process or service; null if unknown.
    pub process: Option<String>,
    /// Process ID; null if unknown.
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
    pub(crate) fn from_observation(configuration: &Configuration, observation: &Observation) -> Self {
        let pair = configuration.heap_limit.zip(configuration.memory_limit);
        let share = pair.map(|(heap, memory)| heap as f64 / memory.max(1) as f64);
        let native = observation
            .surroundings
            .resident
            .zip(observation.committed)
            .map(|(resident, committed)| (resident - committed).max(0.0));
        Self {
            share: share
                .filter(|share| (0.05..=1.0).contains(share))
                .unwrap_or(DEFAULT_HEAP_SHARE),
            native,
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

/// Returns the gaps of a window.
fn gaps(observation: &Observation, configuration: &Configuration) -> Vec<Gap> {
    let live: Vec<f64> = observation.live().collect();
    let grows = live
        .first()
        .zip(live.last())
        .is_some_and(|(first, last)| *last > first * (1.0 + MAX_GROWTH));
    let knows_limit = configuration.heap_limit_known || configuration.memory_limit.is_some();
    let has_blocking = observation.full.iter().any(|full| !full.concurrent);
    let of = [
        // The window of a single process never contains a deployment.
        (true, Gap::NoDeployment),
        (observation.window_ns < DAY_NS, Gap::NoPeakHour),
        (!has_blocking, Gap::NoBlockingFullCollection),
        (observation.surroundings.resident.is_none(), Gap::NativeUnknown),
        (!knows_limit, Gap::LimitUnknown),
        (
            observation.large_allocation.is_none_or(|large| large > MAX_LARGE),
            Gap::LargeObjects,
        ),
        (grows, Gap::Growing),
        (
            observation.lost_events != Some(0) || observation.damaged > 0,
            Gap::LostEvents,
        ),
    ];
    of.into_iter()
        .filter_map(|(is_missing, gap)| is_missing.then_some(gap))
        .collect()
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
    observation: &Observation,
    limits: &[u64],
) -> SizingRecord {
    let model = MemoryModel::from_observation(observation);
    let container = Container::from_observation(configuration, observation);
    let known = model.as_ref().ok();
    let mut record = SizingRecord {
        process: process.map(str::to_owned),
        pid,
        configuration: configuration.clone(),
        window: Window::from_observation(observation),
        gaps: gaps(observation, configuration),
        not_less_than: known.map(|model| Bound {
            heap_limit: bytes(model.needed()),
            memory_limit: bytes(container.around(model.needed())),
        }),
        unknown_because: model.as_ref().err().cloned(),
        live: known.map(|model| bytes(model.live)),
        young: known.map(|model| bytes(model.young_high)),
        promoted_per_second: known.map(|model| bytes(model.promotion)),
        committed: observation.committed.map(bytes),
        full_ns: known.map(|model| [bytes(model.full_ns.low), bytes(model.full_ns.high)]),
        stopped_share: observation.stopped_share(),
        full_per_minute: observation.full_per_minute(),
        curve: Vec::new(),
    };
    let Ok(model) = model else { return record };
    // The process ran with its maximum committed memory. If this maximum is unknown, every limit is an extrapolation.
    let observed = observation.committed.unwrap_or(f64::INFINITY);
    let reference = match (configuration.heap_limit, observation.committed) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{FullCollection, Surroundings, Young};
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

    /// Scenario: a process with an unknown limit is sized from one minute with two blocking full collections.
    /// Guarantee: the bound leaves a tenth of the heap limit in addition to live size and young generations. The limits
    /// of the curve are in descending order. Limits below the observed peak are extrapolated. Only limits of at least
    /// the bound work, and only limits without headroom have no price. The gaps are listed, and the JSON has the kind
    /// `sizing`.
    #[test]
    fn bound_and_curve_follow_from_window() {
        let record = size((Some("shop"), Some(7)), &Configuration::default(), &window(), &[]);
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
        let record = size((None, None), &Configuration::default(), &observation, &[]);
        assert_eq!(record.not_less_than.unwrap().memory_limit, 233_333_334);
        assert!(!record.gaps.contains(&Gap::NativeUnknown));
        let at = size((None, None), &Configuration::default(), &observation, &[220_000_000]);
        assert_eq!(at.curve[0].heap_limit, 120_000_000);
        assert_eq!(at.curve[0].prospect, Prospect::ThrashesOrEnds);
    }

    /// Scenario: a window has no full collection; then the live size in a window doubles.
    /// Guarantee: without a full collection, the bound is unknown with a reason, and the curve is empty; growth is a
    /// gap, and the record has the largest live size.
    #[test]
    fn missing_and_growing_live_size_are_reported() {
        let mut observation = window();
        observation.full.clear();
        let record = size((None, None), &Configuration::default(), &observation, &[]);
        assert_eq!((record.not_less_than, record.curve.len()), (None, 0));
        assert!(record.unknown_because.unwrap().contains("full collection"));
        let mut observation = window();
        observation.full[1].live = Some(200e6);
        let record = size((None, None), &Configuration::default(), &observation, &[]);
        assert!(record.gaps.contains(&Gap::Growing));
        assert_eq!(record.live, Some(200_000_000));
    }
}
