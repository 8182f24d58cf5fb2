//! Facts of a window of a process: figures from which predictions start, and the reasons why a window is unsuitable for
//! predictions.

use clr_gc::event::GcReason;
use clr_gc::gc::{Asker, Collection, HeapGeneration, Suspension};

/// Maximum difference between the allocation rates of the two halves of a window, as a share of their mean. Judgement,
/// not measured.
pub const MAX_DRIFT: f64 = 0.10;
/// Minimum number of young collections in a window. Judgement, not measured.
pub const MIN_YOUNG: usize = 50;
/// Time of the plan phase above which a collection walked dead objects, in nanoseconds per byte of generations 0 and 1.
/// The value lies between the measured times: 0.085 to 0.1 with the walk, and at most 0.02 without it.
const WALKED_ABOVE: f64 = 0.05;
/// Time of the walk, in nanoseconds per byte, for windows without a walk. Measured: 0.085 to 0.1.
pub const WALK_NS_PER_BYTE: f64 = 0.1;
/// Maximum share of young collections that the program requested. Above this share, the bytes before a collection do
/// not show the budget. Judgement, not measured.
const MAX_REQUESTED: f64 = 0.1;

/// A collection of generation 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Young {
    /// Generation.
    pub generation: u32,
    /// Pause, in nanoseconds; `None` if unknown.
    pub pause_ns: Option<f64>,
    /// Time of the plan phase, in nanoseconds; `None` if unknown.
    pub plan_ns: Option<f64>,
    /// Bytes in generations 0 and 1 before the collection.
    pub before: f64,
    /// Bytes in generation 0 before the collection.
    pub gen0_before: f64,
    /// Bytes that survived in the collected generations.
    pub survived: f64,
    /// Bytes of generation 1 that survived and were promoted to generation 2; 0 if generation 1 was not collected.
    pub gen1_survived: f64,
    /// Whether the budget of generation 0 triggered the collection.
    pub by_budget: bool,
}

impl Young {
    /// Returns whether the plan phase walked dead objects, or `None` if the time of the phase is unknown.
    pub fn walked(&self) -> Option<bool> {
        Some(self.plan_ns? > WALKED_ABOVE * self.before)
    }
}

/// A full collection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FullCollection {
    /// Whether the collection ran in the background, while the program was running.
    pub concurrent: bool,
    /// Origin of the collection.
    pub asker: Asker,
    /// Whether the allocation of a large object triggered the collection.
    pub by_large: bool,
    /// Pause, in nanoseconds; `None` if unknown.
    pub pause_ns: Option<f64>,
    /// Time from the start to the end, in nanoseconds; `None` if unknown.
    pub duration_ns: Option<f64>,
    /// Bytes in generation 2 and in the heaps of large and pinned objects after the collection, without free space;
    /// `None` if unknown.
    pub live: Option<f64>,
    /// Free bytes in generation 2 and in the heaps of large and pinned objects after the collection; `None` if unknown.
    pub free: Option<f64>,
}

/// Memory and CPU of a process, from a source other than its event stream. Unknown values are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Surroundings {
    /// Resident memory, in bytes.
    pub resident: Option<f64>,
    /// CPU of the process in the window, in cores.
    pub cpu: Option<f64>,
}

/// The facts of a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Length of the window, in nanoseconds.
    pub window_ns: f64,
    /// Number of lost events; `None` if the stream does not number its events.
    pub lost_events: Option<u64>,
    /// Number of collections that overlap lost events, or that lack a value that predictions need.
    pub damaged: usize,
    /// Young collections, in order, without those that a tool requested.
    pub young: Vec<Young>,
    /// Number of young collections that the program requested.
    pub young_requested: usize,
    /// Full collections, in order, without those that a tool requested.
    pub full: Vec<FullCollection>,
    /// Time during which the program was suspended, in nanoseconds; `None` if the length of a suspension is unknown.
    pub stopped_ns: Option<f64>,
    /// Median pause of all collections, in nanoseconds.
    pub median_pause_ns: Option<f64>,
    /// Allocated bytes per second.
    pub allocation: Option<f64>,
    /// Difference between the allocation rates of the halves of the window, as a share of their mean; `None` if a rate
    /// is unknown, or if both are 0.
    pub drift: Option<f64>,
    /// Allocated bytes of large objects per second.
    pub large_allocation: Option<f64>,
    /// Median budget of the large object heap after full collections, in bytes.
    pub large_budget: Option<f64>,
    /// Maximum committed memory of the heap, in bytes.
    pub committed: Option<f64>,
    /// Maximum number of heaps.
    pub heaps: Option<u32>,
    /// `Some(true)` if an event shows that the number of heaps adapts; otherwise `None`.
    pub adaptive: Option<bool>,
    /// Memory and CPU of the process.
    pub surroundings: Surroundings,
}

fn bytes(value: u64) -> f64 {
    value as f64
}

/// Returns the sizes of a generation in a collection.
fn sizes(collection: &Collection, generation: HeapGeneration) -> clr_gc::gc::GenerationSizes {
    let place = HeapGeneration::ALL
        .iter()
        .position(|one| *one == generation)
        .unwrap_or(0);
    collection.heap.get(place).copied().unwrap_or_default()
}

/// Returns whether a collection started and ended in the window. The window can cut off its first and its last
/// collection.
pub(crate) fn is_whole(collection: &Collection) -> bool {
    collection.start.is_some() && collection.end.is_some()
}

/// Returns the maximum committed memory of the heap around a collection, in bytes, or `None` if unknown.
pub(crate) fn committed(collection: &Collection) -> Option<u64> {
    let committed = &collection.committed;
    committed.total_before().max(committed.total_after())
}

/// The allocation of large objects, from collection to collection.
#[derive(Debug, Default)]
pub(crate) struct LargeAllocation {
    /// Bytes in the large object heap after the last collection with a known size; `None` before.
    after: Option<f64>,
}

impl LargeAllocation {
    /// Adds the next collection. Returns the bytes of large objects that were allocated since the previous collection,
    /// or `None` if unknown. A background collection does not report the size at its start.
    pub(crate) fn add(&mut self, collection: &Collection) -> Option<f64> {
        let large = sizes(collection, HeapGeneration::Loh);
        let before = large.before.filter(|_| !collection.is_concurrent());
        let allocated = self
            .after
            .zip(before)
            .map(|(after, before)| (bytes(before) - after).max(0.0));
        self.after = large.after.map(bytes).or(self.after);
        allocated
    }
}

/// Returns the median of the finite values, or `None` if no value is finite.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns a quantile of the finite values by nearest rank, or `None` if no value is finite.
pub fn quantile(values: impl Iterator<Item = f64>, share: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil().max(1.0) as usize - 1;
    values.get(rank.min(values.len().checked_sub(1)?)).copied()
}

impl Young {
    /// Returns the facts of a collection of generation 0 or 1, or `None` if a size is unknown.
    pub(crate) fn new(collection: &Collection, generation: u32) -> Option<Self> {
        let (gen0, gen1) = (
            sizes(collection, HeapGeneration::Gen0),
            sizes(collection, HeapGeneration::Gen1),
        );
        let gen1_survived = match generation {
            0 => 0.0,
            _ => bytes(gen1.survived?),
        };
        Some(Self {
            generation,
            pause_ns: collection.pause_ns.map(|ns| ns as f64),
            plan_ns: collection.phases.plan.map(|ns| ns as f64),
            before: bytes(gen0.before?) + bytes(gen1.before?),
            gen0_before: bytes(gen0.before?),
            survived: bytes(gen0.survived?) + gen1_survived,
            gen1_survived,
            by_budget: collection.reason == Some(GcReason::ALLOC_SMALL),
        })
    }
}

impl FullCollection {
    /// Returns the facts of a full collection. Sizes are sums over the generations with a known size.
    pub fn from_collection(collection: &Collection) -> Self {
        let old = [HeapGeneration::Gen2, HeapGeneration::Loh, HeapGeneration::Poh].map(|one| sizes(collection, one));
        let sum = |size: fn(&clr_gc::gc::GenerationSizes) -> Option<u64>| {
            let known = old.iter().filter_map(size).map(bytes);
            known.fold(None, |sum, bytes| Some(sum.unwrap_or(0.0) + bytes))
        };
        let free = sum(|sizes| sizes.fragmentation);
        Self {
            concurrent: collection.is_concurrent(),
            asker: collection.asker(),
            by_large: matches!(collection.reason, Some(GcReason::ALLOC_LARGE)),
            pause_ns: collection.pause_ns.map(|ns| ns as f64),
            duration_ns: collection.duration_ns().map(|ns| ns as f64),
            live: sum(|sizes| sizes.after)
                .zip(free)
                .map(|(after, free)| (after - free).max(0.0)),
            free,
        }
    }
}

/// Allocated bytes in one half of a window, and the time that they cover.
#[derive(Debug, Clone, Copy, Default)]
struct HalfWindow {
    bytes: f64,
    ns: f64,
}

impl HalfWindow {
    fn rate(self) -> Option<f64> {
        (self.ns > 0.0).then(|| self.bytes / self.ns * 1e9)
    }
}

impl Observation {
    /// Collects the facts of a window. `collections` must be in the order of their starts. `observed_ns` is the length
    /// of the window, in nanoseconds. The caller sets [`Observation::surroundings`].
    pub fn from_collections(
        collections: &[Collection],
        suspensions: &[Suspension],
        observed_ns: i64,
        lost_events: Option<u64>,
    ) -> Self {
        let mut found = Self {
            window_ns: observed_ns.max(0) as f64,
            lost_events,
            ..Self::default()
        };
        let mut stopped = Some(0.0);
        let mut halves = [HalfWindow::default(); 2];
        let middle = observed_ns / 2;
        let (mut large, mut large_allocation) = (None, LargeAllocation::default());
        for collection in collections {
            found.add(collection);
            if collection.pause_ns.is_some() || is_whole(collection) {
                stopped = stopped.zip(collection.pause_ns).map(|(sum, ns)| sum + ns as f64);
            }
            if let Ok(allocated) = collection.allocated
                && allocated.until > allocated.since
            {
                let half = usize::from(allocated.until > middle);
                halves[half].bytes += bytes(allocated.bytes);
                halves[half].ns += (allocated.until - allocated.since) as f64;
            }
            if let Some(bytes) = large_allocation.add(collection) {
                large = Some(large.unwrap_or(0.0) + bytes);
            }
        }
        // Suspensions of unknown length are left out: the window starts or ends inside them, or events were lost, which
        // `lost_events` reports.
        let known = suspensions.iter().filter_map(|suspension| suspension.stopped_ns);
        stopped = stopped.map(|sum: f64| known.fold(sum, |sum, ns| sum + ns as f64));
        found.stopped_ns = stopped;
        let pauses = collections.iter().filter_map(|one| one.pause_ns);
        found.median_pause_ns = median(pauses.map(|ns| ns as f64));
        let whole = HalfWindow {
            bytes: halves.iter().map(|half| half.bytes).sum(),
            ns: halves.iter().map(|half| half.ns).sum(),
        };
        found.allocation = whole.rate();
        let rates = halves[0].rate().zip(halves[1].rate());
        found.drift = rates
            .filter(|(first, second)| first + second > 0.0)
            .map(|(first, second)| (second - first).abs() / ((first + second) / 2.0));
        found.large_allocation = large
            .filter(|_| found.window_ns > 0.0)
            .map(|large| large / found.window_ns * 1e9);
        let budgets = collections.iter().filter(|one| one.generation == Some(2));
        found.large_budget = median(
            budgets
                .filter_map(|one| sizes(one, HeapGeneration::Loh).budget)
                .map(bytes),
        );
        found
    }

    /// Adds the facts of one collection.
    fn add(&mut self, collection: &Collection) {
        self.damaged += usize::from(collection.lossy);
        if let Some(global) = &collection.global {
            self.heaps = self.heaps.max(Some(global.heap_count));
        }
        if collection.throughput_cost_percent.is_some() {
            self.adaptive = Some(true);
        }
        let committed = committed(collection).map(bytes);
        self.committed = match (self.committed, committed) {
            (Some(most), Some(now)) => Some(most.max(now)),
            (most, now) => most.or(now),
        };
        if collection.requested_by_tool == Some(true) {
            return;
        }
        match collection.generation {
            Some(2) => self.full.push(FullCollection::from_collection(collection)),
            Some(generation @ (0 | 1)) => {
                self.young_requested += usize::from(collection.asker() == Asker::Program);
                match Young::new(collection, generation) {
                    Some(young) => self.young.push(young),
                    None => self.damaged += usize::from(is_whole(collection)),
                }
            }
            _ => {}
        }
    }

    /// Returns the length of the window in seconds.
    pub fn seconds(&self) -> f64 {
        self.window_ns / 1e9
    }

    /// Returns the share of the window during which the program was suspended, or `None` if unknown.
    pub fn stopped_share(&self) -> Option<f64> {
        let stopped = self.stopped_ns.filter(|_| self.window_ns > 0.0)?;
        Some((stopped / self.window_ns).min(1.0))
    }

    /// Returns the time during which young collections suspended the program, in nanoseconds, or `None` if a pause is
    /// unknown.
    pub fn young_stopped_ns(&self) -> Option<f64> {
        self.young.iter().map(|young| young.pause_ns).sum()
    }

    /// Returns the number of collections of generation 1.
    pub fn gen1(&self) -> usize {
        self.young.iter().filter(|young| young.generation == 1).count()
    }

    /// Returns the young collections that the budget of generation 0 triggered.
    pub fn by_budget(&self) -> impl Iterator<Item = &Young> + Clone {
        self.young.iter().filter(|young| young.by_budget)
    }

    /// Returns the share of young collections that walked dead objects, and the number of collections from which the
    /// share is computed: those with a known time of the plan phase. Returns `None` if no time is known.
    pub fn walked(&self) -> Option<(f64, usize)> {
        let known: Vec<bool> = self.young.iter().filter_map(Young::walked).collect();
        let walked = known.iter().filter(|walked| **walked).count();
        (!known.is_empty()).then(|| (walked as f64 / known.len() as f64, known.len()))
    }

    /// Returns the full collections per minute, or `None` for an empty window.
    pub fn full_per_minute(&self) -> Option<f64> {
        (self.window_ns > 0.0).then(|| self.full.len() as f64 / (self.seconds() / 60.0))
    }

    /// Returns the live bytes of old objects after full collections, in order.
    pub fn live(&self) -> impl Iterator<Item = f64> + Clone {
        self.full.iter().filter_map(|full| full.live)
    }

    /// Returns the bytes per second that survive generation 1, or `None` if generation 1 was not collected.
    pub fn promotion(&self) -> Option<f64> {
        let promoted: f64 = self.young.iter().map(|young| young.gen1_survived).sum();
        (self.window_ns > 0.0 && self.gen1() > 0).then(|| promoted / self.seconds())
    }

    /// Returns the reason why the window is unsuitable for predictions, as a sentence without a period, or `None` if
    /// the window is suitable.
    pub fn disqualified(&self) -> Option<String> {
        let young = self.young.len();
        match self.lost_events {
            None => return Some("the stream does not number its events, so losses are unknown".to_owned()),
            Some(lost @ 1..) => return Some(format!("{lost} events were lost")),
            Some(0) if self.damaged > 0 => {
                return Some(format!("{} collections lack a part that the model needs", self.damaged));
            }
            Some(0) => {}
        }
        if young < MIN_YOUNG {
            return Some(format!(
                "the window has {young} young collections, and a prediction needs at least {MIN_YOUNG}"
            ));
        }
        if self.gen1() == 0 {
            return Some("the window has no collection of generation 1".to_owned());
        }
        if self.full.is_empty() {
            return Some("the window has no collection of generation 2".to_owned());
        }
        match self.drift {
            None => Some("the allocation rate is unknown".to_owned()),
            Some(drift) if drift > MAX_DRIFT => Some(format!(
                "the allocation rate of the two halves of the window differs by {:.0} %, and a prediction needs a load \
                 that differs by at most {:.0} %",
                drift * 100.0,
                MAX_DRIFT * 100.0
            )),
            Some(_) if self.young_requested as f64 > MAX_REQUESTED * young as f64 => Some(format!(
                "the program requested {} of {young} young collections, so that the budget is not visible",
                self.young_requested
            )),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: medians and quantiles are taken of no value, one value, several values, and a value that is not a
    /// number.
    /// Guarantee: the quantile is one of the finite values; without values, the quantile is unknown.
    #[test]
    fn quantile_is_a_value() {
        assert_eq!(median(std::iter::empty()), None);
        assert_eq!(median([3.0].into_iter()), Some(3.0));
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(quantile((1..=100).map(f64::from), 0.95), Some(95.0));
        assert_eq!(quantile([1.0, f64::NAN].into_iter(), 1.0), Some(1.0));
    }

    fn young(generation: u32) -> Young {
        Young {
            generation,
            pause_ns: Some(1e6),
            plan_ns: Some(0.3e6),
            before: 17e6,
            gen0_before: 16e6,
            survived: 1e6,
            gen1_survived: 0.0,
            by_budget: true,
        }
    }

    fn whole() -> Observation {
        let mut young: Vec<Young> = vec![young(0); 59];
        young.push(self::young(1));
        Observation {
            window_ns: 60e9,
            lost_events: Some(0),
            young,
            full: vec![FullCollection {
                concurrent: true,
                asker: Asker::SmallObjects,
                by_large: false,
                pause_ns: Some(1e6),
                duration_ns: Some(10e6),
                live: Some(50e6),
                free: Some(1e6),
            }],
            stopped_ns: Some(61e6),
            drift: Some(0.02),
            ..Observation::default()
        }
    }

    /// Scenario: a window that is suitable for predictions violates one condition at a time.
    /// Guarantee: each violated condition disqualifies the window, and the reason names the condition.
    #[test]
    fn window_without_a_condition_is_disqualified() {
        assert_eq!(whole().disqualified(), None);
        let reason = |change: &dyn Fn(&mut Observation)| {
            let mut observation = whole();
            change(&mut observation);
            observation.disqualified().unwrap_or_default()
        };
        assert!(reason(&|one| one.lost_events = Some(7)).contains("7 events were lost"));
        assert!(reason(&|one| one.lost_events = None).contains("losses are unknown"));
        assert!(reason(&|one| one.damaged = 1).contains("1 collections lack"));
        assert!(reason(&|one| one.young.truncate(49)).contains("49 young collections"));
        assert!(reason(&|one| one.young.truncate(59)).contains("generation 1"));
        assert!(reason(&|one| one.full.clear()).contains("generation 2"));
        assert!(reason(&|one| one.drift = Some(0.11)).contains("11 %"));
        assert!(reason(&|one| one.drift = None).contains("unknown"));
        assert!(reason(&|one| one.young_requested = 7).contains("requested 7 of 60"));
        assert_eq!(reason(&|one| one.young_requested = 6), "");
    }

    /// Scenario: the plan phase takes 0.3 ms and 2 ms for 17 MB.
    /// Guarantee: only the longer phase is a walk; for an unknown time, the walk is unknown.
    #[test]
    fn long_plan_phase_is_a_walk() {
        let plan = |plan_ns| Young { plan_ns, ..young(0) }.walked();
        assert_eq!(plan(Some(0.3e6)), Some(false));
        assert_eq!(plan(Some(2.0e6)), Some(true));
        assert_eq!(plan(None), None);
        assert_eq!(whole().walked(), Some((0.0, 60)));
    }
}
