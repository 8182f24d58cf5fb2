//! Assigns the facts in events to collections.

use crate::event::{DynamicData, GcReason, GcStart, GcType, GlobalHeapHistory, HeapStats, PerHeapHistory};
use crate::gc::allocated::{AllocatedUnknown, EnclosingCollection};
use crate::gc::forming::FormingCollection;
use crate::gc::history::GlobalHistory;
use crate::gc::machine::{FinishedItem, MAX_FORMING, MAX_RUNS, Machine};
use crate::gc::stop::{Stop, StopCollection, StopId};

impl Machine {
    pub(super) fn forming_mut(&mut self, number: u32) -> Option<&mut FormingCollection> {
        let mut forming = self.forming.iter_mut().map(|forming| &mut **forming).rev();
        forming.find(|forming| forming.number == number)
    }

    /// Returns the number of the background collection that has started but not ended.
    pub(super) fn background_under_way(&self) -> Option<u32> {
        let mut forming = self.forming.iter().rev();
        let under_way = forming.find(|forming| forming.announced_background() && forming.end.is_none());
        under_way.map(|forming| forming.number)
    }

    pub(super) fn start(&mut self, at: i64, thread: u64, event: &GcStart) -> Option<u32> {
        let number = event.count;
        let trail = self.trails.get_or_insert(thread);
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
            // Only a foreground collection can start while a background collection runs, and this collection is not a
            // foreground collection. The end of an unfinished background collection was therefore lost.
            self.background_replaced(number);
        }
        let under_way = self.background_under_way().filter(|&other| other != number);
        let mut forming = match self.forming.iter().position(|forming| forming.number == number) {
            Some(place) => self.forming.remove(place),
            None => Box::new(FormingCollection::new(number, at)),
        };
        forming.clr_instance = event.clr_instance.or(self.clr_instance);
        forming.start = Some((at, thread, *event));
        forming.background = under_way;
        forming.trigger = self.trigger.take();
        forming.trigger_thread = self.trigger_thread.take();
        forming.touch(at);
        let previous = number.wrapping_sub(1);
        if self.last_number != Some(previous) && self.last_ended != Some(previous) {
            // A collection in between was not observed, or the runtime incremented the count without sending events.
            self.allocated.forget(AllocatedUnknown::MissingHistory);
            if let (Some(last), false) = (self.last_start, self.count_may_skip) {
                self.lost(Some(last), at);
            }
        }
        self.last_start = Some(at);
        let inside = match (foreground, inside) {
            (true, _) if under_way.is_none() => EnclosingCollection::Unseen,
            (false, false) => EnclosingCollection::Nothing,
            _ => EnclosingCollection::Background,
        };
        self.allocated.started(at, number, background, inside);
        if let Some(id) = place.and_then(|place| self.start_in_stop(place, at, event, background)) {
            forming.stops.push(id);
        }
        if background {
            self.background = Some(number);
            self.final_since_end = false;
        }
        self.count_may_skip = false;
        self.last_number = Some(number);
        self.form(forming);
        Some(number)
    }

    /// Adds a collection that can still receive facts. If there are more than `MAX_FORMING` such collections, settles
    /// the oldest one as is.
    fn form(&mut self, forming: Box<FormingCollection>) {
        self.forming.push(forming);
        if self.forming.len() > MAX_FORMING {
            let oldest = self.forming.remove(0);
            self.settle(oldest);
        }
    }

    pub(super) fn is_known_start(&self, number: u32) -> bool {
        self.last_number == Some(number)
            || self
                .forming
                .iter()
                .any(|forming| forming.number == number && forming.start.is_some())
            || self.newly_settled().any(|settled| match settled {
                FinishedItem::Collection(forming) => forming.number == number && forming.start.is_some(),
                FinishedItem::Suspension(_) => false,
            })
    }

    pub(super) fn start_in_stop(&mut self, place: usize, at: i64, event: &GcStart, background: bool) -> Option<StopId> {
        let unseen = self.start_unseen_before(event, self.open.get(place)?);
        let stop = self.open.get_mut(place)?;
        if let Some(owner) = stop.final_of.take() {
            // The stop was attributed to a background collection as its final stop. This GCStart in the stop disproves
            // the attribution.
            let id = stop.id;
            if let Some(forming) = self.forming.iter_mut().find(|forming| forming.number == owner) {
                forming.stops.retain(|&other| other != id);
            }
        }
        let stop = self.open.get_mut(place)?;
        stop.broken |= unseen;
        if stop.runs.len() >= MAX_RUNS {
            return None;
        }
        stop.run(StopCollection {
            number: event.count,
            background,
            start: at,
            end: None,
        });
        Some(stop.id)
    }

    /// Returns the index of the open stop that a GCStart on `thread` belongs to: the newest fully suspended stop or, as
    /// a fallback, the thread's own stop, whose SuspendEEEnd was not observed. Returns `None` if there is no such stop.
    pub(super) fn stop_of_start(&self, thread: u64) -> Option<usize> {
        let candidates = || self.open.iter().enumerate().filter(|(_, stop)| stop.is_gc());
        let suspended = candidates()
            .filter(|(_, stop)| stop.is_suspended())
            .max_by_key(|(_, stop)| stop.suspended);
        // If SuspendEEEnd was not observed, the length of the stop is unknown, but the stop still belongs to the
        // collection.
        let own = || candidates().find(|(_, stop)| stop.thread == thread && !stop.was_suspended());
        suspended.or_else(own).map(|(place, _)| place)
    }

    /// Returns whether a collection whose GCStart was never observed must have started in this stop before `event`.
    ///
    /// The Count of SuspendEEBegin is the number of the previous collection or of the last background collection. The
    /// second collection of a stop is either inside a background collection or the full collection of provisional mode,
    /// and has the next number.
    pub(super) fn start_unseen_before(&self, event: &GcStart, stop: &Stop) -> bool {
        let previous = event.count.wrapping_sub(1);
        if let Some(last) = stop.runs.last() {
            // No recording contains a stop with three collections.
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

    /// Settles all unfinished background collections except `number`. Only one background collection can be in
    /// progress, so the ends of the others were lost.
    pub(super) fn background_replaced(&mut self, number: u32) {
        self.orphans_are_suspensions();
        while let Some(place) = self
            .forming
            .iter()
            .position(|forming| forming.announced_background() && forming.end.is_none() && forming.number != number)
        {
            let unfinished = self.forming.remove(place);
            for id in &unfinished.stops {
                // Events between the stops of the collection are missing, so one stop can include the next stop.
                if let Some(closed) = self.closed.get_mut(id) {
                    closed.stop.broken = true;
                }
            }
            self.settle(unfinished);
        }
    }

    pub(super) fn end(&mut self, at: i64, thread: u64, number: u32, generation: u32) -> Option<u32> {
        let trail = self.trails.get_or_insert(thread);
        trail.ended = Some(number);
        trail.history = trail.history.filter(|&history| history == number);
        self.last_ended = Some(number);
        if self.forming_mut(number).is_none() {
            let known = |settled: &FinishedItem| matches!(settled, FinishedItem::Collection(forming) if forming.number == number);
            if self.newly_settled().any(known) {
                return Some(number);
            }
            self.allocated.forget(AllocatedUnknown::MissingHistory);
            let mut unseen = Box::new(FormingCollection::new(number, at));
            unseen.clr_instance = self.clr_instance;
            if self.last_number.is_none_or(|last| number > last) {
                let unnumbered = self.unnumbered.take();
                if let Some(stop) = self.suspended_stop() {
                    // The collection started in this stop, but its GCStart was not observed. If the stop has no other
                    // collection, the session started during the collection, and the whole stop belongs to it.
                    let alone = stop.runs.is_empty();
                    stop.broken |= !alone;
                    if let Some(begin) = stop.first_seen().filter(|_| stop.runs.len() < MAX_RUNS) {
                        stop.run(StopCollection {
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
            self.form(unseen);
            self.measure_allocated(number, at);
            if generation == 2 {
                self.background = Some(number);
                for mut stop in std::mem::take(&mut self.orphan_finals) {
                    self.belongs(&mut stop, number);
                    self.keep_closed(stop, 1);
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
        }
        for stop in &mut self.open {
            stop.run_ended(number, at);
        }
        self.settle_if_whole(number);
        Some(number)
    }

    pub(super) fn heap_stats(&mut self, at: i64, thread: u64, event: &HeapStats) -> Option<u32> {
        let number = self.trails.get_or_insert(thread).ended.take()?;
        let forming = self.forming_mut(number)?;
        if forming.heap_stats.is_none() {
            forming.heap_stats = Some(*event);
            forming.touch(at);
            self.settle_if_whole(number);
        }
        Some(number)
    }

    /// Assigns a global history to its collection. A history with the concurrent bit belongs to the background
    /// collection in progress or, because the history arrives after GCEnd under server GC, to the last background
    /// collection. A history without the bit belongs to the collection that runs while the threads are suspended.
    pub(super) fn global(&mut self, at: i64, thread: u64, event: &GlobalHeapHistory<'_>) -> Option<u32> {
        let number = if event.global_mechanisms.is_concurrent() {
            self.background_of_history(&GlobalHistory::from_event(event))
        } else {
            self.running()
        };
        let condemned = Some(event.condemned_generation);
        let number = number.filter(|&number| {
            // A history of a different generation belongs to a collection whose GCStart was never observed.
            let start = self.forming_mut(number).and_then(|forming| forming.start);
            start.is_none_or(|(_, _, start)| start.depth.is_none() || start.depth == condemned)
        });
        let trail = self.trails.get_or_insert(thread);
        trail.ended = None;
        trail.history = number;
        if number.is_none() && self.suspended_stop().is_some_and(|stop| stop.runs.is_empty()) {
            let mut unnumbered = Box::new(FormingCollection::new(0, at));
            unnumbered.global = Some(GlobalHistory::from_event(event));
            self.unnumbered = Some((thread, unnumbered));
        }
        let number = number?;
        let marking = self.marks.take(number);
        let forming = self.forming_mut(number)?;
        forming.touch(at);
        if forming.global.is_none() {
            forming.global = Some(GlobalHistory::from_event(event));
            forming.history_at = Some(at);
            forming.marking = marking;
        }
        self.measure_allocated(number, at);
        self.settle_if_whole(number);
        Some(number)
    }

    pub(super) fn per_heap(&mut self, at: i64, thread: u64, event: &PerHeapHistory<'_>) -> Option<u32> {
        let Some(number) = self.trails.get_or_insert(thread).history else {
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
            // The histories of a blocking collection precede its GCEnd, so this history belongs to an unobserved
            // collection.
            return None;
        }
        forming.per_heap(event);
        forming.touch(at);
        self.measure_allocated(number, at);
        self.settle_if_whole(number);
        Some(number)
    }

    /// Measures the bytes allocated before a collection, once its histories are complete.
    fn measure_allocated(&mut self, number: u32, at: i64) {
        let forming = self.forming.iter().rev().find(|forming| forming.number == number);
        let Some(measured) = forming.and_then(|forming| forming.measured(at)) else {
            return;
        };
        let allocated = self.allocated.measure(&measured);
        if let Some(forming) = self.forming_mut(number) {
            forming.allocated = Some(allocated);
        }
    }

    pub(super) fn background_of_history(&self, history: &GlobalHistory) -> Option<u32> {
        self.background_under_way().or_else(|| {
            let last = self.background.filter(|_| !self.final_since_end)?;
            let mut of_last = self.forming.iter().filter(|forming| forming.number == last);
            let waits = of_last.any(|forming| forming.global.is_none_or(|global| global == *history));
            waits.then_some(last)
        })
    }

    /// Records a dynamic event of the running collection. Only a blocking collection sends a second CommittedUsage,
    /// after its history.
    pub(super) fn dynamic(&mut self, number: u32, at: i64, data: &DynamicData<'_>) {
        let Some(forming) = self.forming_mut(number) else {
            return;
        };
        match data {
            DynamicData::CommittedUsage(usage) => {
                let committed = &mut forming.committed;
                let kept = usage
                    .total_committed_in_free
                    .saturating_add(usage.total_committed_in_global_free)
                    .saturating_add(usage.total_committed_in_global_decommit);
                if forming.global.is_some() {
                    committed.after.get_or_insert(usage.total_committed_in_use);
                    committed.bookkeeping.get_or_insert(usage.total_bookkeeping_committed);
                    committed.kept.get_or_insert(kept);
                } else {
                    committed.before.get_or_insert(usage.total_committed_in_use);
                    committed.kept_before.get_or_insert(kept);
                }
            }
            DynamicData::SizeAdaptationTuning(tuning) => {
                // The runtime can send any float. NaN and infinite values count as unknown.
                forming.throughput_cost_percent = Some(tuning.median_tcp).filter(|cost| cost.is_finite());
            }
            _ => return,
        }
        forming.touch(at);
    }
}
