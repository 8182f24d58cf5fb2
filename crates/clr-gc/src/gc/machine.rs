//! The state machine: events of one runtime in, collections and suspensions out.

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
use crate::gc::forming::Forming;
use crate::gc::loss::LossIntervals;
use crate::gc::stop::{Stop, StopId};
use crate::gc::trail::Trails;
use finalizers::FinalizerThread;
use tools::ToolThread;

pub use finalizers::Finalizers;
pub use open::Open;

/// How long facts that belong to a collection may come after its last one, in stream time: a server background
/// collection's histories follow its GCEnd. Afterwards it is reported as incomplete.
pub const PATIENCE_NS: i64 = 2_000_000_000;

/// How long a live machine keeps a whole collection back: losses show up to two passes of the runtime's streaming
/// thread (100 ms each) later.
pub const LIVE_SETTLE_NS: i64 = 200_000_000;

/// Farthest from the sync point that a time may be, 36 years; a damaged one beyond counts as this. Differences of such
/// times have room in 64 bits.
pub const MAX_OFFSET_NS: i64 = i64::MAX / 8;

/// Collections that one stop is divided among. No recording has more than two.
pub const MAX_RUNS: usize = 16;

/// Stops that one collection has. A background collection has two.
pub const MAX_STOPS: usize = 64;

/// Collections under way at once. There are two slots in the runtime; more are the leavings of lost events.
pub const MAX_FORMING: usize = 64;

/// Suspensions open at once, one per thread.
pub const MAX_OPEN_STOPS: usize = 64;

/// Collections and suspensions that are finished and wait to be reported, in the live machines of a stream together. It
/// is what a runtime makes within [`LIVE_SETTLE_NS`] that does nothing but collect, ten thousand times a second. When
/// there are more, the time of the stream does not advance, or is made up; the oldest are reported at once, as lossy.
pub const MAX_SETTLED: usize = 2048;

/// Stops that are over and wait for collections that are not reported yet, in the live machines of a stream together:
/// one for each of [`MAX_SETTLED`] collections, and those of background collections under way. Beyond it the oldest is
/// forgotten, and its collection lacks it.
pub const MAX_CLOSED: usize = MAX_SETTLED / 2 * 3;

/// Reasons of stops that are not the collector's; the runtime knows seven.
const MAX_OTHER_REASONS: usize = 64;

/// When a finished collection is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    /// At the end: every loss of the stream is known by then (files).
    AtTheEnd,
    /// This many nanoseconds of stream time after its last fact (live).
    After(i64),
}

/// Events of a collection that do not change its record.
enum Share {
    /// Of the collection that runs while the threads are suspended.
    Running,
    /// Of the background collection.
    Background,
    /// Of none.
    None,
}

impl Share {
    fn of(kind: Kind) -> Self {
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

/// What the machine reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A collection, whole or with what is missing named.
    Collection(Box<Collection>),
    /// A stop in which no collection ran.
    Suspension(Suspension),
}

/// Stops that are none of the collector's (reasons other than 1 and 6): a sampling profiler, a debugger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherStops {
    /// The reason of its SuspendEEBegin.
    pub reason: SuspendReason,
    /// How many were seen from begin to end.
    pub count: u64,
    /// SuspendEEBegin to RestartEEEnd, summed. They can overlap collections' stops: the wait for the lock is in it.
    pub stopped_ns: i64,
}

/// Something finished that waits for its time to be reported.
#[derive(Debug)]
enum Settled {
    Collection(Box<Forming>),
    Suspension(Box<Stop>),
}

/// A stop that is over.
#[derive(Debug)]
struct ClosedStop {
    stop: Stop,
    /// How many collections that are not reported yet it belongs to.
    waiting: usize,
}

/// The reconstruction of one runtime's collections. See the [module](crate::gc).
#[derive(Debug)]
pub struct Machine {
    settling: Settling,
    is_finished: bool,
    clr_instance: Option<u16>,
    newest: Option<i64>,
    /// How far time has come without events, since the newest one.
    quiet_until: Option<i64>,
    next_stop: StopId,
    open: Vec<Stop>,
    /// Stops that are over and belong to collections not yet reported. Most of the time there are none or a few: boxed, as
    /// a node of the map has space for eleven.
    closed: BTreeMap<StopId, Box<ClosedStop>>,
    /// Final stops (reason 6) of a background collection whose GCStart was never seen.
    orphan_finals: Vec<Stop>,
    #[expect(
        clippy::vec_box,
        reason = "large, and mostly there is none: the vector keeps its space"
    )]
    forming: Vec<Box<Forming>>,
    settled: VecDeque<(i64, Settled)>,
    /// Histories of a collection whose GCStart was never seen (a session that begins in it): its GCEnd, on the same
    /// stop, will number it.
    unnumbered: Option<(u64, Box<Forming>)>,
    trails: Trails,
    losses: LossIntervals,
    /// Newest GCTriggered since the previous GCStart.
    trigger: Option<GcReason>,
    /// The thread of it.
    trigger_thread: Option<u64>,
    tools: ToolThread,
    /// A GCTriggered since the last stop ended: on server GC it comes before the suspension.
    triggered_outside: bool,
    /// A triggered stop without collection since the last GCStart: the runtime counts one on without events.
    count_may_skip: bool,
    last_number: Option<u32>,
    last_start: Option<i64>,
    last_ended: Option<u32>,
    /// The background collection under way, or the last one.
    background: Option<u32>,
    /// A final stop began since the last background collection ended: another one is under way.
    final_since_end: bool,
    allocated: AllocatedBytes,
    /// Those of the collection that runs.
    marks: Marks,
    marking_cost: MarkingCost,
    others: Vec<OtherStops>,
    finalizer_thread: FinalizerThread,
    /// Too many waited to be reported: the oldest are reported at once, until a quarter of them is gone.
    relieving: bool,
    /// By how many machines [`MAX_SETTLED`] and [`MAX_CLOSED`] are shared.
    shared_by: usize,
}

impl Machine {
    /// A machine that has seen nothing.
    pub fn new(clr_instance: Option<u16>, settling: Settling) -> Self {
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

    /// A machine of a process that appears when these events are already known to be lost.
    pub(crate) fn after(clr_instance: Option<u16>, settling: Settling, losses: LossIntervals) -> Self {
        Self {
            losses,
            ..Self::new(clr_instance, settling)
        }
    }

    /// Takes one event; `at` is nanoseconds since the sync point, `thread` the thread that sent it. Returns the number
    /// of the collection that it belongs to, as far as is known by now.
    ///
    /// Events are expected in time order. One that comes late is taken, and the time it was late by counts as a loss:
    /// what was concluded meanwhile may be incorrect.
    pub fn observe(&mut self, at: i64, thread: u64, event: &ClrEvent<'_>) -> Option<u32> {
        let at = at.clamp(-MAX_OFFSET_NS, MAX_OFFSET_NS);
        match event {
            ClrEvent::SuspendEeBegin(event) => self.in_order(at).suspend_begin(at, thread, event.reason, event.count),
            ClrEvent::SuspendEeEnd(_) => self.in_order(at).suspend_end(at, thread),
            ClrEvent::GcTriggered(event) => self.in_order(at).triggered(thread, event.reason),
            ClrEvent::GcStart(event) => return self.in_order(at).start(at, thread, event),
            ClrEvent::GcEnd(event) => return self.in_order(at).end(at, thread, event.count, event.depth),
            ClrEvent::HeapStats(event) => {
                // A collection that is whole with these is looked at no more.
                let of = self.trails.of(thread).ended;
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
                self.in_order(at).trails.of(thread).ended = None;
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
            event => match Share::of(event.kind()) {
                Share::Running => return self.running().or_else(|| self.background_under_way()),
                Share::Background => return self.background_under_way(),
                Share::None => {}
            },
        }
        None
    }

    /// A session of the process ended: this thread wrote ProcessInfo.
    pub(crate) fn session_ended(&mut self, thread: u64) {
        self.tools.session_ended(thread);
    }

    /// Events are missing between `after` (`None`: since the beginning) and `before`, nanoseconds since the sync point.
    pub fn lost(&mut self, after: Option<i64>, before: i64) {
        self.losses.add(after, before);
        self.allocated.lost();
        self.finalizers_lost(before);
    }

    /// Time passes without events (live): what waited long enough is reported.
    pub fn tick(&mut self, now: i64) {
        self.newest = Some(self.newest.map_or(now, |newest| newest.max(now)));
        self.expire(now);
    }

    /// The stream has been silent for `silent_ns` (live): what waited long enough is reported, as if that much time had
    /// passed since the newest event. Other than after [`Machine::tick`], events of that time may still come: nothing
    /// is taken for lost.
    pub fn quiet(&mut self, silent_ns: i64) {
        self.quiet_until = self.newest.map(|newest| newest.saturating_add(silent_ns.max(0)));
        if let Some(until) = self.quiet_until {
            self.expire(until);
        }
    }

    /// Whether something waits that time alone brings: a finished collection, or one whose facts do not come.
    pub fn is_waiting(&self) -> bool {
        let in_flight = |forming: &Forming| forming.announced_background() && forming.end.is_none();
        !self.settled.is_empty() || self.forming.iter().any(|forming| !in_flight(forming))
    }

    /// No more events will come: what is half seen is reported as incomplete.
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

    /// The next collection or suspension that is ready, in the order in which they finished.
    ///
    /// Where more than [`MAX_SETTLED`] wait, the oldest quarter is ready whatever the time is. Losses that concern it
    /// may not be known yet, so a collection is [lossy](Collection::lossy), and a suspension has no durations.
    pub fn next_outcome(&mut self) -> Option<Outcome> {
        let (since, _) = self.settled.front()?;
        let ready = match self.settling {
            _ if self.is_finished => true,
            Settling::AtTheEnd => false,
            Settling::After(ns) => self
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
            Settled::Collection(forming) => {
                let mut collection = self.report(*forming);
                collection.lossy |= !ready;
                Outcome::Collection(Box::new(collection))
            }
            Settled::Suspension(mut stop) => {
                stop.void |= !ready;
                Outcome::Suspension(self.finished_suspension(*stop))
            }
        })
    }

    /// Whether the oldest is reported whatever the time is. A few at a time: each look at what the machine holds goes
    /// through what waits.
    fn relieves(&mut self) -> bool {
        let enough = MAX_SETTLED / self.shared_by / 4 * 3;
        self.relieving = self.overflows() || (self.relieving && self.settled.len() > enough);
        self.relieving
    }

    /// The limits of its stream are shared by so many machines.
    pub(crate) fn share(&mut self, machines: usize) {
        self.shared_by = machines.max(1);
    }

    /// More wait to be reported than a live machine keeps: take outcomes until there is none.
    pub fn overflows(&self) -> bool {
        self.settling != Settling::AtTheEnd && self.settled.len() > MAX_SETTLED / self.shared_by
    }

    /// The stops for other reasons than a collection, by reason.
    pub fn other_stops(&self) -> &[OtherStops] {
        &self.others
    }

    /// Notes the time of an event that the machine's conclusions depend on.
    fn in_order(&mut self, at: i64) -> &mut Self {
        match self.newest {
            Some(newest) if at < newest => self.lost(Some(at - 1), newest + 1),
            _ => self.newest = Some(at),
        }
        self.quiet_until = None;
        self
    }
}
