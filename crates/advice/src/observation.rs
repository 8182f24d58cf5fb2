//! Facts of a window of a process: figures that predictions start from, and reasons why the window cannot carry one.

use clr_gc::event::GcReason;
use clr_gc::gc::{Asker, Collection, HeapGeneration, Suspension};

/// Maximum difference of the allocation rates of the two halves of a window, as a share of their mean.
pub const MAX_DRIFT: f64 = 0.10;
/// Minimum number of young collections in a window.
pub const MIN_YOUNG: usize = 50;
/// Time of the plan phase above which a collection walked the dead objects, in nanoseconds per byte of generations 0
/// and 1. Measured: 0.085 to 0.1 with the walk, at most 0.02 without it.
const WALKED_ABOVE: f64 = 0.05;
/// Time of the walk, in nanoseconds per byte, if no collection of the window shows it. Measured: 0.085 to 0.1.
pub const WALK_NS_PER_BYTE: f64 = 0.1;
/// Maximum share of young collections that the program requests, in a window that shows the budget.
const MAX_REQUESTED: f64 = 0.1;

/// A collection of generation 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Young {
    /// Generation.
    pub generation: u32,
    /// Pause, in nanoseconds; `None` if unknown.
    pub pause_ns: Option<f64>,
    /// Time of the plan phase, in nanoseconds.
    pub plan_ns: Option<f64>,
    /// Bytes in generations 0 and 1 before the collection.
    pub before: f64,
    /// Bytes in generation 0 before the collection.
    pub gen0_before: f64,
    /// Bytes that survived in the collected generations.
    pub survived: f64,
    /// Bytes of generation 1 that survived, if generation 1 was collected: they are promoted to generation 2.
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
pub struct Full {
    /// Whether most of it ran while the program ran.
    pub concurrent: bool,
    /// Party that requested it.
    pub asker: Asker,
    /// Whether the reason is an allocation of a large object.
    pub by_large: bool,
    /// Pause, in nanoseconds.
    pub pause_ns: Option<f64>,
    /// Time from the start to the end, in nanoseconds.
    pub duration_ns: Option<f64>,
    /// Bytes of generation 2, large and pinned objects afterwards, without free space.
    pub live: Option<f64>,
    /// Free bytes in generation 2 and the large object heap afterwards.
    pub free: Option<f64>,
}

/// Memory and CPU of a process from outside of its event stream. Unknown values are `None`.
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
    /// Number of collections that overlap lost events or lack a part that predictions need.
    pub damaged: usize,
    /// Young collections, in order.
    pub young: Vec<Young>,
    /// Number of young collections that the program requested.
    pub young_requested: usize,
    /// Full collections, in order.
    pub full: Vec<Full>,
    /// Time during which the program was suspended, in nanoseconds; `None` if the length of a suspension is unknown.
    pub stopped_ns: Option<f64>,
    /// Median pause of all collections, in nanoseconds.
    pub median_pause_ns: Option<f64>,
    /// Allocated bytes per second.
    pub allocation: Option<f64>,
    /// Difference of the allocation rates of both halves of the window, as a share of their mean.
    pub drift: Option<f64>,
    /// Allocated bytes of large objects per second.
    pub large_allocation: Option<f64>,
    /// Budget of the large object heap after a full collection, in bytes.
    pub large_budget: Option<f64>,
    /// Maximum bytes that the heap had committed.
    pub committed: Option<f64>,
    /// Maximum number of heaps.
    pub heaps: Option<u32>,
    /// Whether the number of heaps adapts, if events show it.
    pub adaptive: Option<bool>,
    /// Memory and CPU of the process.
    pub surroundings: Surroundings,
}

fn bytes(value: u64) -> f64 {
    value as f64
}

/// Returns the size of a generation from a collection.
fn sizes(collection: &Collection, generation: HeapGeneration) -> clr_gc::gc::GenerationSizes {
    let place = HeapGeneration::ALL
        .iter()
        .position(|one| *one == generation)
        .unwrap_or(0);
    collection.heap.get(place).copied().unwrap_or_default()
}

/// Returns whether a collection started and ended in the window. The first and the last one can be cut.
fn is_whole(collection: &Collection) -> bool {
    collection.start.is_some() && collection.end.is_some()
}

/// Returns the median, or `None` without values.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns the quantile by nearest rank, or `None` without values.
pub fn quantile(values: impl Iterator<Item = f64>, share: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil().max(1.0) as usize - 1;
    values.get(rank.min(values.len().checked_sub(1)?)).copied()
}

impl Young {
    fn new(collection: &Collection, generation: u32) -> Option<Self> {
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

impl Full {
    /// Returns the facts of a full collection.
    pub fn of(collection: &Collection) -> Self {
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

/// Sums of the allocation in one half of a window.
#[derive(Debug, Clone, Copy, Default)]
struct Half {
    bytes: f64,
    ns: f64,
}

impl Half {
    fn rate(self) -> Option<f64> {
        (self.ns > 0.0).then(|| self.bytes / self.ns * 1e9)
    }
}

impl Observation {
    /// Collects the facts of a window. `collections` are in the order of their starts. `observed_ns` is the length of
    /// the window.
    pub fn of(
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
        let mut halves = [Half::default(); 2];
        let middle = observed_ns / 2;
        let (mut large, mut large_after): (Option<f64>, Option<f64>) = (None, None);
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
            let loh = sizes(collection, HeapGeneration::Loh);
            if let (Some(after), Some(before)) = (large_after, loh.before.filter(|_| !collection.is_concurrent())) {
                large = Some(large.unwrap_or(0.0) + (bytes(before) - after).max(0.0));
            }
            large_after = loh.after.map(bytes).or(large_after);
        }
        // The length of a suspension is unknown if the window starts or ends in it, or after a loss, which is reported.
        let known = suspensions.iter().filter_map(|suspension| suspension.stopped_ns);
        stopped = stopped.map(|sum: f64| known.fold(sum, |sum, ns| sum + ns as f64));
        found.stopped_ns = stopped;
        let pauses = collections.iter().filter_map(|one| one.pause_ns);
        found.median_pause_ns = median(pauses.map(|ns| ns as f64));
        let whole = Half {
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

    fn add(&mut self, collection: &Collection) {
        self.damaged += usize::from(collection.lossy);
        if let Some(global) = &collection.global {
            self.heaps = self.heaps.max(Some(global.heap_count));
        }
        if collection.throughput_cost_percent.is_some() {
            self.adaptive = Some(true);
        }
        let committed = &collection.committed;
        let committed = committed.total_before().max(committed.total_after()).map(bytes);
        self.committed = match (self.committed, committed) {
            (Some(most), Some(now)) => Some(most.max(now)),
            (most, now) => most.or(now),
        };
        if collection.requested_by_tool == Some(true) {
            return;
        }
        match collection.generation {
            Some(2) => self.full.push(Full::of(collection)),
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

    /// Returns the share of the window during which the program was suspended.
    pub fn stopped_share(&self) -> Option<f64> {
        let stopped = self.stopped_ns.filter(|_| self.window_ns > 0.0)?;
        Some((stopped / self.window_ns).min(1.0))
    }

    /// Returns the time that young collections suspended the program, in nanoseconds.
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

    /// Returns the share of young collections that walked dead objects, of those with a known plan phase, and their
    /// number. `None` if no plan phase is known.
    pub fn walked(&self) -> Option<(f64, usize)> {
        let known: Vec<bool> = self.young.iter().filter_map(Young::walked).collect();
        let walked = known.iter().filter(|walked| **walked).count();
        (!known.is_empty()).then(|| (walked as f64 / known.len() as f64, known.len()))
    }

    /// Returns the full collections per minute.
    pub fn full_per_minute(&self) -> Option<f64> {
        (self.window_ns > 0.0).then(|| self.full.len() as f64 / (self.seconds() / 60.0))
    }

    /// Returns the live bytes of old objects after full collections, in order.
    pub fn live(&self) -> impl Iterator<Item = f64> + Clone {
        self.full.iter().filter_map(|full| full.live)
    }

    /// Returns the bytes per second that survive generation 1.
    pub fn promotion(&self) -> Option<f64> {
        let promoted: f64 = self.young.iter().map(|young| young.gen1_survived).sum();
        (self.window_ns > 0.0 && self.gen1() > 0).then(|| promoted / self.seconds())
    }

    /// Returns the reason why no prediction can start from this window, as a sentence; `None` if one can.
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

    /// Scenario: medians and quantiles of no value, one value and several values.
    /// Guarantee: a quantile is one of the values; without values it is unknown.
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
            full: vec![Full {
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

    /// Scenario: a window that carries a prediction loses one condition after the other.
    /// Guarantee: each missing condition alone is a reason, and the reason names its figure.
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
    /// Guarantee: only the longer phase is a walk; an unknown phase is unknown.
    #[test]
    fn long_plan_phase_is_a_walk() {
        let plan = |plan_ns| Young { plan_ns, ..young(0) }.walked();
        assert_eq!(plan(Some(0.3e6)), Some(false));
        assert_eq!(plan(Some(2.0e6)), Some(true));
        assert_eq!(plan(None), None);
        assert_eq!(whole().walked(), Some((0.0, 60)));
    }
}
