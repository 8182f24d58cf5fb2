//! The state machine: events of one runtime in, collections and suspensions out.

use std::collections::{BTreeMap, VecDeque};

use crate::event::{
    ClrEvent, DynamicData, GcReason, GcStart, GcType, GlobalHeapHistory, HeapStats, Kind, PerHeapHistory, SuspendReason,
};
use crate::gc::StopEdges;
use crate::gc::collection::{Collection, GlobalHistory, Suspension};
use crate::gc::forming::{Forming, SizesAfter};
use crate::gc::loss::LossIntervals;
use crate::gc::stop::{Run, Stop, StopId};
use crate::gc::trail::Trails;

/// How long facts that belong to a collection may come after its last one, in stream time: a server background
/// collection's histories follow its GCEnd. Afterwards it is told with what is missing.
pub const PATIENCE_NS: i64 = 2_000_000_000;

/// How long a live machine keeps a whole collection back: losses show up to two passes of the runtime's streaming thread (100 ms
/// each) later.
pub const LIVE_SETTLE_NS: i64 = 200_000_000;

/// Collections under way at once. There are two slots in the runtime; more are the leavings of lost events.
pub const MAX_FORMING: usize = 64;

/// Suspensions open at once, one per thread.
pub const MAX_OPEN_STOPS: usize = 64;

/// Reasons of stops that are not the collector's; the runtime knows seven.
const MAX_OTHER_REASONS: usize = 64;

/// When a finished collection is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    /// At the end: every loss of the stream is known by then (files).
    AtTheEnd,
    /// This many nanoseconds of stream time after its last fact (live).
    After(i64),
}

/// Events of a collection that do not change what is told of it.
enum Share {
    /// Of the collection that runs while the threads stand still.
    Running,
    /// Of the background collection.
    Background,
    /// Of none.
    None,
}

impl Share {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::MarkWithType
            | Kind::MarkStackRoots
            | Kind::MarkFinalizeQueueRoots
            | Kind::MarkHandles
            | Kind::MarkOlderGenerationRoots
            | Kind::Join
            | Kind::LohCompact
            | Kind::FitBucketInfo
            | Kind::PinObjectAtGcTime
            | Kind::PinPlugAtGcTime
            | Kind::CreateConcurrentThread
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

/// What the machine tells.
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
    /// Why.
    pub reason: SuspendReason,
    /// How many were seen from begin to end.
    pub count: u64,
    /// SuspendEEBegin to RestartEEEnd, summed. They can overlap collections' stops: the wait for the lock is in it.
    pub stopped_ns: i64,
}

/// Something finished that waits for its time to be told.
#[derive(Debug)]
enum Settled {
    Collection(Box<Forming>),
    Suspension(Stop),
}

/// The reconstruction of one runtime's collections. See the [module](crate::gc).
#[derive(Debug)]
pub struct Machine {
    settling: Settling,
    is_finished: bool,
    clr_instance: Option<u16>,
    newest: Option<i64>,
    next_stop: StopId,
    open: Vec<Stop>,
    /// Stops that are over and belong to collections not yet told, with how many of them.
    closed: BTreeMap<StopId, (Stop, usize)>,
    /// Final stops (reason 6) of a background collection whose GCStart was never seen.
    orphan_finals: Vec<Stop>,
    forming: Vec<Forming>,
    settled: VecDeque<(i64, Settled)>,
    /// Histories of a collection whose GCStart was never seen (a session that begins in it): its GCEnd, on the same stop, will number it.
    unnumbered: Option<(u64, Box<Forming>)>,
    trails: Trails,
    losses: LossIntervals,
    /// Newest GCTriggered since the previous GCStart.
    trigger: Option<GcReason>,
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
    gen0_after: Option<(i64, u64)>,
    uoh_after: Option<(i64, u64)>,
    others: Vec<OtherStops>,
}

impl Machine {
    /// A machine that has seen nothing.
    pub fn new(clr_instance: Option<u16>, settling: Settling) -> Self {
        Self {
            settling,
            is_finished: false,
            clr_instance,
            newest: None,
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
            triggered_outside: false,
            count_may_skip: false,
            last_number: None,
            last_start: None,
            last_ended: None,
            background: None,
            final_since_end: false,
            gen0_after: None,
            uoh_after: None,
            others: Vec::new(),
        }
    }

    /// Takes one event; `at` is nanoseconds since the sync point, `thread` the thread that sent it. Returns the number
    /// of the collection that it belongs to, as far as is known by now.
    ///
    /// Events are expected in time order. One that comes late is taken, and the time it was late by counts as a loss:
    /// what was concluded meanwhile may be wrong.
    pub fn observe(&mut self, at: i64, thread: u64, event: &ClrEvent<'_>) -> Option<u32> {
        match event {
            ClrEvent::SuspendEeBegin(event) => self.in_order(at).suspend_begin(at, thread, event.reason, event.count),
            ClrEvent::SuspendEeEnd(_) => self.in_order(at).suspend_end(at, thread),
            ClrEvent::GcTriggered(event) => self.in_order(at).triggered(thread, event.reason),
            ClrEvent::GcStart(event) => return self.in_order(at).start(at, thread, event),
            ClrEvent::GcEnd(event) => return self.in_order(at).end(at, thread, event.count, event.depth),
            ClrEvent::HeapStats(event) => return self.in_order(at).heap_stats(at, thread, event),
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
                if let DynamicData::CommittedUsage(usage) = event.dynamic() {
                    self.in_order(at).committed(number, at, usage.total_committed_in_use);
                }
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

    /// Events are missing between `after` (`None`: since the beginning) and `before`, nanoseconds since the sync point.
    pub fn lost(&mut self, after: Option<i64>, before: i64) {
        self.losses.add(after, before);
    }

    /// Time passes without events (live): what waited long enough is told.
    pub fn tick(&mut self, now: i64) {
        self.newest = Some(self.newest.map_or(now, |newest| newest.max(now)));
        self.expire(now);
    }

    /// No more events will come: what is half seen is told as that.
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

    /// The next collection or suspension that is ready to be told, in the order in which they finished.
    pub fn next_outcome(&mut self) -> Option<Outcome> {
        let (since, _) = self.settled.front()?;
        let ready = match self.settling {
            _ if self.is_finished => true,
            Settling::AtTheEnd => false,
            Settling::After(ns) => self.newest.is_some_and(|newest| newest >= since.saturating_add(ns)),
        };
        if !ready {
            return None;
        }
        let (_, settled) = self.settled.pop_front()?;
        Some(match settled {
            Settled::Collection(forming) => Outcome::Collection(Box::new(self.tell(*forming))),
            Settled::Suspension(stop) => Outcome::Suspension(self.tell_suspension(stop)),
        })
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
        self
    }

    fn forming_mut(&mut self, number: u32) -> Option<&mut Forming> {
        self.forming.iter_mut().rev().find(|forming| forming.number == number)
    }

    fn open_stop(&mut self, thread: u64) -> Option<&mut Stop> {
        self.open.iter_mut().find(|stop| stop.thread == thread)
    }

    /// The newest stop for a collection in which all threads stand still.
    fn suspended_stop(&mut self) -> Option<&mut Stop> {
        self.open
            .iter_mut()
            .filter(|stop| stop.is_gc() && stop.is_suspended())
            .max_by_key(|stop| stop.suspended)
    }

    /// The collection that runs while the threads stand still: the last to start, or the one around it when that ended.
    fn running(&mut self) -> Option<u32> {
        let stop = self.suspended_stop()?;
        stop.runs
            .iter()
            .rev()
            .find(|run| run.end.is_none())
            .map(|run| run.number)
    }

    fn newly_settled(&self) -> impl Iterator<Item = &Settled> {
        self.settled.iter().rev().take(MAX_FORMING).map(|(_, settled)| settled)
    }

    /// The background collection that has started and not ended.
    fn background_under_way(&self) -> Option<u32> {
        let under_way = |forming: &&Forming| forming.announced_background() && forming.end.is_none();
        self.forming.iter().rev().find(under_way).map(|forming| forming.number)
    }

    fn suspend_begin(&mut self, at: i64, thread: u64, reason: SuspendReason, count: Option<u32>) {
        self.trails.of(thread).ended = None;
        if let Some(place) = self.open.iter().position(|stop| stop.thread == thread) {
            if self.open[place].begin == Some(at) {
                return;
            }
            // Its restart was never seen.
            let mut unfinished = self.open.swap_remove(place);
            unfinished.broken = true;
            self.close(unfinished);
        }
        if self.open.len() >= MAX_OPEN_STOPS {
            let mut unfinished = self.open.swap_remove(0);
            unfinished.broken = true;
            self.close(unfinished);
        }
        if let (true, Some(count), Some(last), Some(last_start)) =
            (reason.is_gc(), count, self.last_number, self.last_start)
            && count > last
            && count != u32::MAX
            && self.last_ended != Some(count)
            && !self.count_may_skip
        {
            // The runtime counted a collection that was never seen.
            self.lost(Some(last_start), at);
        }
        let mut stop = Stop::begun(self.next_stop, thread, at, reason, count);
        self.next_stop += 1;
        stop.triggered = std::mem::take(&mut self.triggered_outside);
        if reason == SuspendReason::FOR_GC_PREP {
            match self.background_under_way() {
                Some(number) => self.belongs(&mut stop, number),
                None => self.final_since_end = true,
            }
        }
        self.open.push(stop);
        self.expire(at);
    }

    /// A final stop of this background collection, unless a GCStart comes in it.
    fn belongs(&mut self, stop: &mut Stop, number: u32) {
        stop.final_of = Some(number);
        if let Some(forming) = self.forming_mut(number) {
            forming.stops.push(stop.id);
        }
    }

    fn suspend_end(&mut self, at: i64, thread: u64) {
        self.trails.of(thread).ended = None;
        let id = self.next_stop;
        if let Some(stop) = self.open_stop(thread) {
            if stop.suspended != Some(at) {
                stop.suspend_end(at);
            }
        } else if self.open.len() < MAX_OPEN_STOPS {
            self.next_stop += 1;
            self.open.push(Stop::suspended_unseen(id, thread, at));
        }
    }

    fn triggered(&mut self, thread: u64, reason: GcReason) {
        self.trigger = Some(reason);
        let own = self.open.iter().position(|stop| stop.thread == thread && stop.is_gc());
        match own {
            Some(place) => self.open[place].triggered = true,
            None => match self.suspended_stop() {
                Some(stop) => stop.triggered = true,
                None => self.triggered_outside = true,
            },
        }
    }

    fn start(&mut self, at: i64, thread: u64, event: &GcStart) -> Option<u32> {
        let number = event.count;
        let trail = self.trails.of(thread);
        (trail.ended, trail.history) = (None, None);
        self.unnumbered = None;
        if self.is_known_start(number) {
            return Some(number);
        }
        let background = event.gc_type == Some(GcType::BACKGROUND);
        let foreground = event.gc_type == Some(GcType::FOREGROUND);
        let place = self.stop_of_start(thread);
        let inside = place
            .and_then(|place| self.open.get(place))
            .is_some_and(|stop| !stop.runs.is_empty());
        if background || !(foreground || inside) {
            // Only foreground collections start beside a background one: its end was lost.
            self.background_replaced(number);
        }
        let mut forming = match self.forming.iter().position(|forming| forming.number == number) {
            Some(place) => self.forming.remove(place),
            None => Forming::new(number, at),
        };
        forming.clr_instance = event.clr_instance.or(self.clr_instance);
        forming.start = Some((at, thread, *event));
        forming.trigger = self.trigger.take();
        forming.touch(at);
        let previous = number.wrapping_sub(1);
        if self.last_number != Some(previous) && self.last_ended != Some(previous) {
            // A collection between was never seen, or the runtime counted one on without events.
            (self.gen0_after, self.uoh_after) = (None, None);
            if let (Some(last), false) = (self.last_start, self.count_may_skip) {
                self.lost(Some(last), at);
            }
        }
        self.last_start = Some(at);
        let (gen0, uoh) = (self.gen0_after, self.uoh_after);
        forming.previous = gen0.zip(uoh).map(|((at, gen0), (uoh_at, uoh))| SizesAfter {
            at: at.min(uoh_at),
            gen0,
            uoh,
        });
        if let Some(id) = place.and_then(|place| self.start_in_stop(place, at, event, background)) {
            forming.stops.push(id);
        }
        if background {
            self.background = Some(number);
            self.final_since_end = false;
        } else {
            // What it leaves, its own GCHeapStats will tell.
            (self.gen0_after, self.uoh_after) = (None, None);
        }
        self.count_may_skip = false;
        self.last_number = Some(number);
        self.forming.push(forming);
        if self.forming.len() > MAX_FORMING {
            let oldest = self.forming.remove(0);
            self.settle(oldest);
        }
        Some(number)
    }

    fn is_known_start(&self, number: u32) -> bool {
        self.last_number == Some(number)
            || self
                .forming
                .iter()
                .any(|forming| forming.number == number && forming.start.is_some())
            || self.newly_settled().any(|settled| match settled {
                Settled::Collection(forming) => forming.number == number && forming.start.is_some(),
                Settled::Suspension(_) => false,
            })
    }

    fn start_in_stop(&mut self, place: usize, at: i64, event: &GcStart, background: bool) -> Option<StopId> {
        let unseen = self.start_unseen_before(event, self.open.get(place)?);
        let stop = self.open.get_mut(place)?;
        if let Some(owner) = stop.final_of.take() {
            // It was taken for a background collection's final stop.
            let id = stop.id;
            if let Some(forming) = self.forming.iter_mut().find(|forming| forming.number == owner) {
                forming.stops.retain(|&other| other != id);
            }
        }
        let stop = self.open.get_mut(place)?;
        stop.broken |= unseen;
        stop.run(Run {
            number: event.count,
            background,
            start: at,
            end: None,
        });
        Some(stop.id)
    }

    /// The stop that a GCStart belongs to: the newest that is open and fully suspended.
    fn stop_of_start(&self, thread: u64) -> Option<usize> {
        let candidates = || self.open.iter().enumerate().filter(|(_, stop)| stop.is_gc());
        let suspended = candidates()
            .filter(|(_, stop)| stop.is_suspended())
            .max_by_key(|(_, stop)| stop.suspended);
        // Where SuspendEEEnd was never seen the stop has no length anyway; it still is the collection's own.
        let own = || candidates().find(|(_, stop)| stop.thread == thread && !stop.was_suspended());
        suspended.or_else(own).map(|(place, _)| place)
    }

    /// A collection must have started in this stop before `event`, and its GCStart was never seen.
    ///
    /// SuspendEEBegin's Count is the number of the previous collection, or of the last background collection; a second
    /// collection of a stop is the one inside a background collection, or provisional mode's full one, and its number is the next.
    fn start_unseen_before(&self, event: &GcStart, stop: &Stop) -> bool {
        let previous = event.count.wrapping_sub(1);
        if let Some(last) = stop.runs.last() {
            // No recording has a third.
            let inside = last.background && last.end.is_none();
            let second = stop.runs.len() == 1 && (inside || event.reason == GcReason::PM_FULL_GC);
            return last.number != previous || !second;
        }
        let Some(count) = stop.count else { return false };
        let seen = self.last_number == Some(previous) || self.last_ended == Some(previous);
        let foreground = event.gc_type == Some(GcType::FOREGROUND);
        let session_began = self.last_number.is_none() && self.background == Some(count);
        !seen && count != previous && !session_began && !foreground && !self.count_may_skip
    }

    /// There is one background collection at a time: others that have no end yet lost it.
    fn background_replaced(&mut self, number: u32) {
        self.orphans_are_suspensions();
        while let Some(place) = self
            .forming
            .iter()
            .position(|forming| forming.announced_background() && forming.end.is_none() && forming.number != number)
        {
            let unfinished = self.forming.remove(place);
            for id in &unfinished.stops {
                // What lies between its stops is missing: one may have swallowed the next.
                if let Some((stop, _)) = self.closed.get_mut(id) {
                    stop.broken = true;
                }
            }
            self.settle(unfinished);
            self.uoh_after = None;
        }
    }

    fn end(&mut self, at: i64, thread: u64, number: u32, generation: u32) -> Option<u32> {
        let trail = self.trails.of(thread);
        trail.ended = Some(number);
        trail.history = trail.history.filter(|&history| history == number);
        self.last_ended = Some(number);
        if self.forming_mut(number).is_none() {
            let known = |settled: &Settled| matches!(settled, Settled::Collection(forming) if forming.number == number);
            if self.newly_settled().any(known) {
                return Some(number);
            }
            (self.gen0_after, self.uoh_after) = (None, None);
            let mut unseen = Forming::new(number, at);
            unseen.clr_instance = self.clr_instance;
            if self.last_number.is_none_or(|last| number > last) {
                let unnumbered = self.unnumbered.take();
                if let Some(stop) = self.suspended_stop() {
                    // It started in this stop, unseen: alone (the session began then) the stop is its own.
                    let alone = stop.runs.is_empty();
                    stop.broken |= !alone;
                    if let Some(begin) = stop.first_seen() {
                        stop.run(Run {
                            number,
                            background: false,
                            start: begin,
                            end: None,
                        });
                        unseen.stops.push(stop.id);
                    }
                    if let (true, Some((_, unnumbered))) = (alone, unnumbered) {
                        unseen.adopt(*unnumbered, generation);
                    }
                } else if let Some(last) = self.last_start {
                    self.lost(Some(last), at);
                }
                let previous = Some(number.wrapping_sub(1));
                if let Some(last) = self
                    .last_start
                    .filter(|_| self.last_number != previous && !self.count_may_skip)
                {
                    self.lost(Some(last), at);
                }
            }
            self.forming.push(unseen);
            if generation == 2 {
                self.background = Some(number);
                for mut stop in std::mem::take(&mut self.orphan_finals) {
                    self.belongs(&mut stop, number);
                    self.closed.insert(stop.id, (stop, 1));
                }
            }
        }
        let forming = self.forming_mut(number)?;
        forming.touch(at);
        if forming.end.is_some() {
            return Some(number);
        }
        forming.end = Some((at, generation));
        if forming.announced_background() {
            self.final_since_end = false;
            // It swept the large objects; how much is left its GCHeapStats will tell.
            self.uoh_after = None;
        }
        for stop in &mut self.open {
            stop.run_ended(number, at);
        }
        self.settle_if_whole(number);
        Some(number)
    }

    fn heap_stats(&mut self, at: i64, thread: u64, event: &HeapStats) -> Option<u32> {
        let Some(number) = self.trails.of(thread).ended.take() else {
            // The GCEnd before it was never seen: some collection left sizes that are not known.
            (self.gen0_after, self.uoh_after) = (None, None);
            return None;
        };
        let forming = self.forming_mut(number)?;
        if forming.heap_stats.is_none() {
            forming.heap_stats = Some(*event);
            forming.touch(at);
            let (announced, seen) = (forming.announced_background(), forming.start.is_some());
            // A background collection leaves generation 0 alone. One that became blocking does not: its history says so
            // before its GCEnd, and it has no final stop.
            let concurrent = match forming.global {
                Some(global) => global.mechanisms.is_concurrent(),
                None => forming.stops.len() > 1,
            };
            let known = seen && (!announced || forming.global.is_some());
            self.uoh_after = Some((
                at,
                event
                    .generation_size3
                    .saturating_add(event.generation_size4.unwrap_or(0)),
            ));
            if !(announced && concurrent) {
                self.gen0_after = known.then_some((at, event.generation_size0));
            }
            self.settle_if_whole(number);
        }
        Some(number)
    }

    /// With the concurrent bit it belongs to the background collection under way, or the last one (a server one's comes
    /// after its GCEnd); without, to the collection that runs while the threads stand still.
    fn global(&mut self, at: i64, thread: u64, event: &GlobalHeapHistory<'_>) -> Option<u32> {
        let number = if event.global_mechanisms.is_concurrent() {
            self.background_of_history(&GlobalHistory::of(event))
        } else {
            self.running()
        };
        let condemned = Some(event.condemned_generation);
        let number = number.filter(|&number| {
            // Of another generation it is a history of a collection whose start was never seen.
            let start = self.forming_mut(number).and_then(|forming| forming.start);
            start.is_none_or(|(_, _, start)| start.depth.is_none() || start.depth == condemned)
        });
        let trail = self.trails.of(thread);
        trail.ended = None;
        trail.history = number;
        if number.is_none() && self.suspended_stop().is_some_and(|stop| stop.runs.is_empty()) {
            let mut unnumbered = Box::new(Forming::new(0, at));
            unnumbered.global = Some(GlobalHistory::of(event));
            self.unnumbered = Some((thread, unnumbered));
        }
        let number = number?;
        let forming = self.forming_mut(number)?;
        forming.touch(at);
        forming.global.get_or_insert_with(|| GlobalHistory::of(event));
        self.settle_if_whole(number);
        Some(number)
    }

    fn per_heap(&mut self, at: i64, thread: u64, event: &PerHeapHistory<'_>) -> Option<u32> {
        let Some(number) = self.trails.of(thread).history else {
            if let Some((owner, unnumbered)) = &mut self.unnumbered
                && *owner == thread
            {
                unnumbered.per_heap(event);
            }
            return None;
        };
        let forming = self.forming_mut(number)?;
        let concurrent = forming.global.is_some_and(|global| global.mechanisms.is_concurrent());
        if forming.end.is_some() && !concurrent {
            // A blocking collection's histories come before its GCEnd: this is one of a collection that was not seen.
            return None;
        }
        forming.per_heap(event);
        forming.touch(at);
        self.settle_if_whole(number);
        Some(number)
    }

    fn background_of_history(&self, history: &GlobalHistory) -> Option<u32> {
        self.background_under_way().or_else(|| {
            let last = self.background.filter(|_| !self.final_since_end)?;
            let waits =
                |forming: &&Forming| forming.number == last && forming.global.is_none_or(|global| global == *history);
            self.forming.iter().find(waits).map(|forming| forming.number)
        })
    }

    /// Only a blocking collection sends a second one, after its history.
    fn committed(&mut self, number: u32, at: i64, bytes: u64) {
        if let Some(forming) = self.forming_mut(number) {
            let committed = &mut forming.committed;
            let place = if forming.global.is_some() {
                &mut committed.after
            } else {
                &mut committed.before
            };
            place.get_or_insert(bytes);
            forming.touch(at);
        }
    }

    fn restart_end(&mut self, at: i64, thread: u64) -> Option<u32> {
        let trail = self.trails.of(thread);
        trail.ended = None;
        let again = trail.restarted == Some(at);
        trail.restarted = Some(at);
        let Some(place) = self.open.iter().position(|stop| stop.thread == thread) else {
            if !again {
                self.restart_of_unseen_stop();
            }
            return None;
        };
        let mut stop = self.open.swap_remove(place);
        stop.restart_end(at);
        let number = stop.runs.last().map(|run| run.number).or(stop.final_of);
        self.close(stop);
        self.expire(at);
        number
    }

    /// A restart whose suspension was never seen: some collection under way had a stop that is not known.
    fn restart_of_unseen_stop(&mut self) {
        let without_stop = |forming: &Forming| forming.start.is_some() && forming.stops.is_empty();
        if self.forming.iter().any(without_stop) {
            return;
        }
        if let Some(number) = self.background_under_way()
            && let Some(forming) = self.forming_mut(number)
        {
            forming.stop_unseen = true;
        }
    }

    /// A stop is over, or given up.
    fn close(&mut self, mut stop: Stop) {
        if !stop.is_gc() {
            return self.count_other(&stop);
        }
        self.triggered_outside = false;
        self.unnumbered = None;
        if stop.runs.is_empty() && stop.final_of.is_none() && stop.reason != Some(SuspendReason::FOR_GC) {
            match self.background_under_way() {
                Some(number) => self.belongs(&mut stop, number),
                // Half seen, at the beginning or after a loss: nothing can be said of it.
                None if stop.reason.is_none() => return,
                None => {
                    if self.orphan_finals.len() < MAX_OPEN_STOPS {
                        self.orphan_finals.push(stop);
                    }
                    return;
                }
            }
        }
        if stop.runs.is_empty() && stop.final_of.is_none() {
            self.count_may_skip |= stop.triggered;
            self.settled
                .push_back((stop.last_seen().unwrap_or_default(), Settled::Suspension(stop)));
            return;
        }
        let numbers: Vec<u32> = stop.runs.iter().map(|run| run.number).chain(stop.final_of).collect();
        let waiting = numbers
            .iter()
            .filter(|&&number| self.waits_for(number, stop.id))
            .count();
        if waiting > 0 {
            self.closed.insert(stop.id, (stop, waiting));
        }
        for number in numbers {
            self.settle_if_whole(number);
        }
    }

    fn waits_for(&self, number: u32, id: StopId) -> bool {
        let has = |forming: &Forming| forming.number == number && forming.stops.contains(&id);
        self.forming.iter().any(has)
            || self
                .newly_settled()
                .any(|settled| matches!(settled, Settled::Collection(forming) if has(forming)))
    }

    fn count_other(&mut self, stop: &Stop) {
        let (Some(reason), Some(ns)) = (stop.reason, stop.stopped_ns()) else {
            return;
        };
        if let Some(other) = self.others.iter_mut().find(|other| other.reason == reason) {
            other.count += 1;
            other.stopped_ns = other.stopped_ns.saturating_add(ns);
        } else if self.others.len() < MAX_OTHER_REASONS {
            self.others.push(OtherStops {
                reason,
                count: 1,
                stopped_ns: ns,
            });
        }
    }

    fn orphans_are_suspensions(&mut self) {
        for stop in std::mem::take(&mut self.orphan_finals) {
            self.settled
                .push_back((stop.last_seen().unwrap_or_default(), Settled::Suspension(stop)));
        }
    }

    /// All facts are there and no stop of it is open.
    fn settle_if_whole(&mut self, number: u32) {
        let Some(place) = self.forming.iter().position(|forming| forming.number == number) else {
            return;
        };
        let forming = &self.forming[place];
        let over = |id: &StopId| self.closed.contains_key(id);
        if forming.has_all_facts() && !forming.stops.is_empty() && forming.stops.iter().all(over) {
            let whole = self.forming.remove(place);
            self.settle(whole);
        }
    }

    /// Tells what waited too long for the rest of its facts. A background collection may take any time to end.
    fn expire(&mut self, now: i64) {
        while let Some(place) = self.forming.iter().position(|forming| {
            let in_flight = forming.announced_background() && forming.end.is_none();
            let in_stop = forming
                .stops
                .iter()
                .any(|id| self.open.iter().any(|stop| stop.id == *id));
            !in_flight && !in_stop && forming.last_event.saturating_add(PATIENCE_NS) < now
        }) {
            let partial = self.forming.remove(place);
            self.settle(partial);
        }
    }

    fn settle(&mut self, forming: Forming) {
        let since = forming.last_event.max(self.newest.unwrap_or(forming.last_event));
        self.settled.push_back((since, Settled::Collection(Box::new(forming))));
    }

    fn tell(&mut self, forming: Forming) -> Collection {
        let mut stops: Vec<Stop> = Vec::with_capacity(forming.stops.len());
        for id in &forming.stops {
            if let Some((stop, waiting)) = self.closed.get_mut(id) {
                stops.push(stop.clone());
                *waiting = waiting.saturating_sub(1);
                if *waiting == 0 {
                    self.closed.remove(id);
                }
            } else if let Some(stop) = self.open.iter().find(|stop| stop.id == *id) {
                stops.push(stop.clone());
            }
        }
        for stop in &mut stops {
            stop.void |= self.lossy(stop);
        }
        let collection = forming.into_collection(&stops.iter().collect::<Vec<_>>(), &self.losses);
        if self.settling != Settling::AtTheEnd && !self.is_finished && !self.losses.is_empty() {
            self.forget_losses();
        }
        collection
    }

    fn tell_suspension(&self, mut stop: Stop) -> Suspension {
        stop.void |= self.lossy(&stop);
        Suspension {
            reason: stop.reason,
            clr_instance: self.clr_instance,
            edges: StopEdges::of(&stop),
            suspend_ns: stop.suspend_ns(),
            stopped_ns: stop.stopped_ns(),
            triggered: stop.triggered,
        }
    }

    fn lossy(&self, stop: &Stop) -> bool {
        stop.first_seen()
            .zip(stop.last_seen())
            .is_some_and(|(first, last)| self.losses.overlap(first, last))
    }

    /// Live: losses older than everything that is still to be told.
    fn forget_losses(&mut self) {
        let forming = self
            .forming
            .iter()
            .filter_map(|forming| forming.start.as_ref().map(|start| start.0));
        let settled = self.settled.iter().map(|(since, _)| *since);
        let stops = self
            .closed
            .values()
            .map(|(stop, _)| stop)
            .chain(&self.open)
            .filter_map(Stop::first_seen);
        let sizes = self.gen0_after.iter().chain(&self.uoh_after).map(|(at, _)| *at);
        if let Some(oldest) = forming.chain(settled).chain(stops).chain(sizes).min() {
            self.losses.forget_before(oldest.saturating_sub(PATIENCE_NS));
        }
    }
}
