//! The state machine that converts events of one runtime to collections and suspensions.

mod facts;
mod finalizers;
mod memory;
mod open;
mod settling;
mod stops;
mod tools;

use std::collections::{BTreeMap, VecDeque};

use crate::event::{ClrEvent, DynamicData, GcReason, Kind, SuspendReason};
use crate::gc::account::{MarkingCost, Marks};
use crate::gc::allocated::AllocatedBytes;
use crate::gc::collection::{Collection, Suspension};
use crate::gc::forming::FormingCollection;
use crate::gc::loss::LossIntervals;
use crate::gc::stop::{Stop, StopId};
use crate::gc::trail::Trails;
use finalizers::FinalizerThread;
use tools::ToolThread;

pub use finalizers::Finalizers;
pub use open::OpenOperations;

/// Maximum delay between two consecutive facts of one collection, in nanoseconds of stream time. The histories of a
/// server background collection follow its GCEnd. After this delay, the collection is reported as incomplete.
pub const MAX_DELAY_NS: i64 = 2_000_000_000;

/// Time for which a live machine holds back a whole collection, in nanoseconds. Losses become visible after up to two
/// passes of the runtime's streaming thread, of 100 ms each.
pub const LIVE_SETTLE_NS: i64 = 200_000_000;

/// Maximum distance of a time from the sync point in nanoseconds: 36 years. A damaged time beyond this distance is
/// clamped. Differences between two such times fit into 64 bits.
pub const MAX_OFFSET_NS: i64 = i64::MAX / 8;

/// Maximum number of collections that share one stop. No recording has more than two collections in one stop.
pub const MAX_RUNS: usize = 16;

/// Maximum number of stops of one collection. A background collection has two stops.
pub const MAX_STOPS: usize = 64;

/// Maximum number of collections in progress at once. The runtime has two slots; additional collections remain only if
/// their ends were lost.
pub const MAX_FORMING: usize = 64;

/// Maximum number of suspensions that are open at once, one per thread.
pub const MAX_OPEN_STOPS: usize = 64;

/// Maximum number of finished collections and suspensions that wait to be reported, over all live machines of a stream.
/// A runtime that performs ten thousand collections per second produces this number of items within [`LIVE_SETTLE_NS`].
/// If more items wait, the time of the stream does not advance or is forged, and the oldest items are reported
/// immediately, as lossy.
pub const MAX_SETTLED: usize = 2048;

/// Maximum number of closed stops that wait for collections not yet reported, over all live machines of a stream: one
/// for each of [`MAX_SETTLED`] collections, plus stops of background collections in progress. Beyond the maximum, the
/// oldest stop is dropped and is missing from its collection.
pub const MAX_CLOSED: usize = MAX_SETTLED / 2 * 3;

/// Maximum number of reasons of stops outside the collector; the runtime has seven.
const MAX_OTHER_REASONS: usize = 64;

/// Time at which a finished collection is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportTiming {
    /// The end of the stream, when every loss is known (files).
    AtTheEnd,
    /// The given number of nanoseconds of stream time after the last fact of the collection (live), see
    /// [`LIVE_SETTLE_NS`].
    After(i64),
}

/// Attribution of events that do not change the record of their collection.
enum Share {
    /// The collection that runs while the threads are suspended.
    Running,
    /// The background collection.
    Background,
    /// No collection.
    None,
}

impl Share {
    fn for_kind(kind: Kind) -> Self {
        match kind {
            Kind::MarkStackRoots
            | Kind::MarkFinalizeQueueRoots
            | Kind::MarkHandles
            | Kind::MarkOlderGenerationRoots
            | Kind::Join
            | Kind::LohCompact
            | Kind::FitBucketInfo
            | Kind::PinObjectAtGcTime
            | Kind::PinPlugAtGcTime
            | Kind::BulkSurvivingObjectRanges
            | Kind::BulkMovedObjectRanges
            | Kind::GenerationRange
            | Kind::GenAwareBegin
            | Kind::GenAwareEnd => Self::Running,
            Kind::BgcBegin
            | Kind::Bgc1stNonConEnd
            | Kind::Bgc1stConEnd
            | Kind::Bgc2ndNonConBegin
            | Kind::Bgc2ndNonConEnd
            | Kind::Bgc2ndConBegin
            | Kind::Bgc2ndConEnd
            | Kind::BgcPlanEnd
            | Kind::BgcSweepEnd
            | Kind::BgcDrainMark
            | Kind::BgcRevisit
            | Kind::BgcOverflow
            | Kind::BgcAllocWaitBegin
            | Kind::BgcAllocWaitEnd
            | Kind::Bgc1stSweepEnd => Self::Background,
            _ => Self::None,
        }
    }
}

/// An item that the machine reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A collection, either whole or with a list of its missing parts.
    Collection(Box<Collection>),
    /// A stop in which no collection ran.
    Suspension(Suspension),
}

/// Stops outside the collector (reasons other than 1 and 6), for example by a sampling profiler or a debugger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherStops {
    /// Reason of SuspendEEBegin.
    pub reason: SuspendReason,
    /// Number of stops observed from begin to end.
    pub count: u64,
    /// Sum of the time from SuspendEEBegin to RestartEEEnd, in nanoseconds. The stops can overlap stops of collections,
    /// because the time includes the wait for the lock.
    pub stopped_ns: i64,
}

/// A finished item that waits until it can be reported.
#[derive(Debug)]
enum FinishedItem {
    Collection(Box<FormingCollection>),
    Suspension(Box<Stop>),
}

/// A closed stop.
#[derive(Debug)]
struct ClosedStop {
    stop: Stop,
    /// Number of unreported collections that the stop belongs to.
    waiting: usize,
}

/// A state machine that reconstructs the collections of one runtime. See the [module](crate::gc).
#[derive(Debug)]
pub struct Machine {
    settling: ReportTiming,
    is_finished: bool,
    clr_instance: Option<u16>,
    newest: Option<i64>,
    /// Time up to which no event followed the newest event; `None` if unknown.
    quiet_until: Option<i64>,
    next_stop: StopId,
    open: Vec<Stop>,
    /// Closed stops that belong to collections not yet reported. The map usually has at most a few stops. The stops are
    /// boxed because a node of the map reserves space for eleven entries.
    closed: BTreeMap<StopId, Box<ClosedStop>>,
    /// Final stops (reason 6) of a background collection whose GCStart was never observed.
    orphan_finals: Vec<Stop>,
    #[expect(
        clippy::vec_box,
        reason = "large and usually empty, while the vector keeps its capacity"
    )]
    forming: Vec<Box<FormingCollection>>,
    settled: VecDeque<(i64, FinishedItem)>,
    /// Histories of a collection whose GCStart was never observed because the session started during it. The GCEnd in
    /// the same stop provides the number of the collection.
    unnumbered: Option<(u64, Box<FormingCollection>)>,
    trails: Trails,
    losses: LossIntervals,
    /// Reason of the newest GCTriggered since the previous GCStart.
    trigger: Option<GcReason>,
    /// Thread of the GCTriggered in `trigger`.
    trigger_thread: Option<u64>,
    tools: ToolThread,
    /// Whether a GCTriggered has arrived since the last stop closed. Under server GC, GCTriggered precedes the
    /// suspension.
    triggered_outside: bool,
    /// Whether a triggered stop without a collection has occurred since the last GCStart. In that case the runtime
    /// increments the count without events.
    count_may_skip: bool,
    last_number: Option<u32>,
    last_start: Option<i64>,
    last_ended: Option<u32>,
    /// Number of the background collection in progress, or of the last background collection; `None` if none was
    /// observed.
    background: Option<u32>,
    /// Whether a final stop has started since the last background collection ended, which means that another background
    /// collection is in progress.
    final_since_end: bool,
    allocated: AllocatedBytes,
    /// Marks of the running collection.
    marks: Marks,
    marking_cost: MarkingCost,
    others: Vec<OtherStops>,
    finalizer_thread: FinalizerThread,
    /// Whether too many items wait to be reported. The oldest items are reported immediately until a quarter of the
    /// items has been removed.
    relieving: bool,
    /// Number of machines that share [`MAX_SETTLED`] and [`MAX_CLOSED`].
    shared_by: usize,
}

impl Machine {
    /// Creates a machine that has observed no events. `clr_instance` is the number of the runtime in its process;
    /// `None` if the events do not contain the number. `settling` selects when finished collections are reported.
    pub fn new(clr_instance: Option<u16>, settling: ReportTiming) -> Self {
        Self {
            settling,
            is_finished: false,
            clr_instance,
            newest: None,
            quiet_until: None,
            next_stop: 0,
            open: Vec::new(),
            closed: BTreeMap::new(),
            orphan_finals: Vec::new(),
            forming: Vec::new(),
            settled: VecDeque::new(),
            unnumbered: None,
            trails: Trails::default(),
            losses: LossIntervals::default(),
            trigger: None,
            trigger_thread: None,
            tools: ToolThread::default(),
            triggered_outside: false,
            count_may_skip: false,
            last_number: None,
            last_start: None,
            last_ended: None,
            background: None,
            final_since_end: false,
            allocated: AllocatedBytes::default(),
            marks: Marks::default(),
            marking_cost: MarkingCost::default(),
            others: Vec::new(),
            finalizer_thread: FinalizerThread::default(),
            relieving: false,
            shared_by: 1,
        }
    }

    /// Creates a machine for a process that appears after these losses were recorded.
    pub(crate) fn after(clr_instance: Option<u16>, settling: ReportTiming, losses: LossIntervals) -> Self {
        Self {
            losses,
            ..Self::new(clr_instance, settling)
        }
    }

    /// Processes one event. `at` is in nanoseconds since the sync point, and `thread` is the thread that sent the
    /// event. Returns the number of the collection that the event belongs to, or `None` if the event belongs to no
    /// collection, or if later events are needed to identify the collection.
    ///
    /// Events should arrive in time order. An event that arrives late is processed, and the period from its time to the
    /// newest event counts as a loss, because conclusions drawn before its arrival can be wrong.
    pub fn observe(&mut self, at: i64, thread: u64, event: &ClrEvent<'_>) -> Option<u32> {
        let at = at.clamp(-MAX_OFFSET_NS, MAX_OFFSET_NS);
        match event {
            ClrEvent::SuspendEeBegin(event) => self.in_order(at).suspend_begin(at, thread, event.reason, event.count),
            ClrEvent::SuspendEeEnd(_) => self.in_order(at).suspend_end(at, thread),
            ClrEvent::GcTriggered(event) => self.in_order(at).triggered(thread, event.reason),
            ClrEvent::GcStart(event) => return self.in_order(at).start(at, thread, event),
            ClrEvent::GcEnd(event) => return self.in_order(at).end(at, thread, event.count, event.depth),
            ClrEvent::HeapStats(event) => {
                // These statistics can complete the collection, which is then removed, so look up the collection first.
                let of = self.trails.get_or_insert(thread).ended;
                let of = of.and_then(|number| self.forming.iter().find(|forming| forming.number == number));
                let by_background = of.is_some_and(|forming| forming.announced_background());
                self.finalizable_found(at, event.finalization_promoted_count, by_background);
                return self.in_order(at).heap_stats(at, thread, event);
            }
            ClrEvent::FinalizersBegin(_) => self.finalizers_begin(at),
            ClrEvent::FinalizersEnd(event) => self.finalizers_end(at, event.count),
            ClrEvent::CreateConcurrentThread(_) => {
                let number = self.running().or_else(|| self.background_under_way())?;
                if let Some(forming) = self.forming_mut(number) {
                    forming.thread_created = true;
                }
                return Some(number);
            }
            ClrEvent::GlobalHeapHistory(event) => return self.in_order(at).global(at, thread, event),
            ClrEvent::PerHeapHistory(event) => return self.in_order(at).per_heap(at, thread, event),
            ClrEvent::RestartEeBegin(_) => {
                self.in_order(at).trails.get_or_insert(thread).ended = None;
                let stop = self.open_stop(thread)?;
                if stop.restarting != Some(at) {
                    stop.restart_begin(at);
                }
                return stop.runs.last().map(|run| run.number).or(stop.final_of);
            }
            ClrEvent::RestartEeEnd(_) => return self.in_order(at).restart_end(at, thread),
            ClrEvent::DynamicEvent(event) => {
                let number = self.running()?;
                let data = event.dynamic();
                if matches!(
                    data,
                    DynamicData::CommittedUsage(_) | DynamicData::SizeAdaptationTuning(_)
                ) {
                    self.in_order(at).dynamic(number, at, &data);
                }
                return Some(number);
            }
            ClrEvent::BulkRootEdge(_) => {
                let number = self.running()?;
                if let Some(forming) = self.forming_mut(number) {
                    forming.dumped = true;
                }
                return Some(number);
            }
            ClrEvent::MarkWithType(event) => {
                let number = self.running().or_else(|| self.background_under_way())?;
                self.marks.mark(number, at, event);
                return Some(number);
            }
            event => match Share::for_kind(event.kind()) {
                Share::Running => return self.running().or_else(|| self.background_under_way()),
                Share::Background => return self.background_under_way(),
                Share::None => {}
            },
        }
        None
    }

    /// Records that a session of the process has ended: this thread wrote ProcessInfo.
    pub(crate) fn session_ended(&mut self, thread: u64) {
        self.tools.session_ended(thread);
    }

    /// Records that events are missing between `after` and `before`, both in nanoseconds since the sync point. `after`
    /// is `None` for the start of the stream.
    pub fn lost(&mut self, after: Option<i64>, before: i64) {
        self.losses.add(after, before);
        self.allocated.lost();
        self.finalizers_lost(before);
    }

    /// Advances the time of a live stream without events to `now`, in nanoseconds since the sync point, so that items
    /// that have waited long enough are reported.
    pub fn tick(&mut self, now: i64) {
        self.newest = Some(self.newest.map_or(now, |newest| newest.max(now)));
        self.expire(now);
    }

    /// Records that a live stream has been silent for `silent_ns`. Items that have waited long enough are reported as
    /// if this time had passed since the newest event. Unlike after [`Machine::tick`], events of this period can still
    /// arrive and are not treated as lost.
    pub fn quiet(&mut self, silent_ns: i64) {
        self.quiet_until = self.newest.map(|newest| newest.saturating_add(silent_ns.max(0)));
        if let Some(until) = self.quiet_until {
            self.expire(until);
        }
    }

    /// Returns whether any item will be reported when enough time has passed: a finished collection, or a collection
    /// whose remaining facts do not arrive.
    pub fn is_waiting(&self) -> bool {
        let in_flight = |forming: &FormingCollection| forming.announced_background() && forming.end.is_none();
        !self.settled.is_empty() || self.forming.iter().any(|forming| !in_flight(forming))
    }

    /// Marks the end of the events, so that incomplete collections are reported.
    pub fn finish(&mut self) {
        for stop in std::mem::take(&mut self.open) {
            self.close(stop);
        }
        self.orphans_are_suspensions();
        for forming in std::mem::take(&mut self.forming) {
            self.settle(forming);
        }
        self.is_finished = true;
    }

    /// Returns the next collection or suspension that is ready, or `None` if no item is ready. The items are returned
    /// in the order in which they finished.
    ///
    /// If more than [`MAX_SETTLED`] items wait, the oldest quarter is ready regardless of the time. Losses in the
    /// period of these items are not necessarily known yet, so these collections are [lossy](Collection::lossy), and
    /// these suspensions have no durations.
    pub fn next_outcome(&mut self) -> Option<Outcome> {
        let (since, _) = self.settled.front()?;
        let ready = match self.settling {
            _ if self.is_finished => true,
            ReportTiming::AtTheEnd => false,
            ReportTiming::After(ns) => self
                .newest
                .max(self.quiet_until)
                .is_some_and(|newest| newest >= since.saturating_add(ns)),
        };
        if ready {
            self.relieving = false;
        } else if !self.relieves() {
            return None;
        }
        let (_, settled) = self.settled.pop_front()?;
        Some(match settled {
            FinishedItem::Collection(forming) => {
                let mut collection = self.report(*forming);
                collection.lossy |= !ready;
                Outcome::Collection(Box::new(collection))
            }
            FinishedItem::Suspension(mut stop) => {
                stop.void |= !ready;
                Outcome::Suspension(self.finished_suspension(*stop))
            }
        })
    }

    /// Returns whether the oldest item must be reported regardless of the time. Once these early reports have started,
    /// they continue for a quarter of the items, because each query of the machine's contents scans the waiting items.
    fn relieves(&mut self) -> bool {
        let enough = MAX_SETTLED / self.shared_by / 4 * 3;
        self.relieving = self.overflows() || (self.relieving && self.settled.len() > enough);
        self.relieving
    }

    /// Sets the number of machines that share the limits of the stream.
    pub(crate) fn share(&mut self, machines: usize) {
        self.shared_by = machines.max(1);
    }

    /// Returns whether more items of a live machine wait to be reported than its share of [`MAX_SETTLED`]. If so, the
    /// caller must take all outcomes.
    pub fn overflows(&self) -> bool {
        self.settling != ReportTiming::AtTheEnd && self.settled.len() > MAX_SETTLED / self.shared_by
    }

    /// Returns the stops for reasons other than a collection, by reason.
    pub fn other_stops(&self) -> &[OtherStops] {
        &self.others
    }

    /// Records the time of an event that the machine's conclusions depend on. If the event is older than the newest
    /// event, records a loss between both events.
    fn in_order(&mut self, at: i64) -> &mut Self {
        match self.newest {
            Some(newest) if at < newest => self.lost(Some(at - 1), newest + 1),
            _ => self.newest = Some(at),
        }
        self.quiet_until = None;
        self
    }
}
