//! Stops from their edges: events are paired by thread, and stops are assigned to the collections that run in them.

use crate::event::{GcReason, SuspendReason};
use crate::gc::forming::FormingCollection;
use crate::gc::machine::{
    ClosedStop, FinishedItem, MAX_CLOSED, MAX_OPEN_STOPS, MAX_OTHER_REASONS, MAX_STOPS, Machine, OtherStops,
    ReportTiming,
};
use crate::gc::stop::{Stop, StopId};

impl Machine {
    pub(super) fn open_stop(&mut self, thread: u64) -> Option<&mut Stop> {
        self.open.iter_mut().find(|stop| stop.thread == thread)
    }

    /// Returns the newest stop for a collection in which all threads are suspended.
    pub(super) fn suspended_stop(&mut self) -> Option<&mut Stop> {
        self.open
            .iter_mut()
            .filter(|stop| stop.is_gc() && stop.is_suspended())
            .max_by_key(|stop| stop.suspended)
    }

    /// Returns the collection that runs while the threads are suspended: the last collection to start or, once that
    /// collection has ended, the collection around it. Returns `None` if the threads are not suspended or no such
    /// collection runs.
    pub(super) fn running(&mut self) -> Option<u32> {
        let stop = self.suspended_stop()?;
        stop.runs
            .iter()
            .rev()
            .find(|run| run.end.is_none())
            .map(|run| run.number)
    }

    pub(super) fn suspend_begin(&mut self, at: i64, thread: u64, reason: SuspendReason, count: Option<u32>) {
        self.trails.get_or_insert(thread).ended = None;
        self.tools.stopped();
        if let Some(place) = self.open.iter().position(|stop| stop.thread == thread) {
            if self.open[place].begin == Some(at) {
                return;
            }
            // The restart of this stop was never observed.
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
            // The runtime counted a collection that was never observed.
            self.lost(Some(last_start), at);
        }
        let mut stop = Stop::begun(self.next_stop, thread, at, reason, count);
        self.next_stop += 1;
        stop.triggered = std::mem::take(&mut self.triggered_outside);
        if reason == SuspendReason::FOR_GC_PREP {
            self.allocated.final_stop(at);
            match self.background_under_way() {
                Some(number) => self.belongs(&mut stop, number),
                None => self.final_since_end = true,
            }
        }
        self.open.push(stop);
        self.expire(at);
    }

    /// Assigns the stop to this background collection as a final stop. A later GCStart in the stop revokes the
    /// assignment. If the collection already has [`MAX_STOPS`] stops, records that a stop is missing.
    pub(super) fn belongs(&mut self, stop: &mut Stop, number: u32) {
        let Some(forming) = self.forming_mut(number) else {
            return;
        };
        if forming.stops.len() < MAX_STOPS {
            stop.final_of = Some(number);
            forming.stops.push(stop.id);
        } else {
            forming.stop_unseen = true;
        }
    }

    pub(super) fn suspend_end(&mut self, at: i64, thread: u64) {
        self.trails.get_or_insert(thread).ended = None;
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

    pub(super) fn triggered(&mut self, thread: u64, reason: GcReason) {
        self.trigger = Some(reason);
        self.trigger_thread = Some(thread);
        self.tools.triggered(thread, reason);
        let own = self.open.iter().position(|stop| stop.thread == thread && stop.is_gc());
        match own {
            Some(place) => self.open[place].triggered = true,
            None => match self.suspended_stop() {
                Some(stop) => stop.triggered = true,
                None => self.triggered_outside = true,
            },
        }
    }

    pub(super) fn restart_end(&mut self, at: i64, thread: u64) -> Option<u32> {
        let trail = self.trails.get_or_insert(thread);
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
        self.allocated.restarted(at);
        let number = stop.runs.last().map(|run| run.number).or(stop.final_of);
        self.close(stop);
        self.expire(at);
        number
    }

    /// Records a restart whose suspension was never observed: the background collection in progress had an unknown
    /// stop, unless the restart belongs to another collection that has started and has no stop.
    pub(super) fn restart_of_unseen_stop(&mut self) {
        let mut forming = self.forming.iter();
        if forming.any(|forming| forming.start.is_some() && forming.stops.is_empty()) {
            return;
        }
        if let Some(number) = self.background_under_way()
            && let Some(forming) = self.forming_mut(number)
        {
            forming.stop_unseen = true;
        }
    }

    /// Closes a stop that has ended or was abandoned.
    pub(super) fn close(&mut self, mut stop: Stop) {
        if !stop.is_gc() {
            return self.count_other(&stop);
        }
        self.triggered_outside = false;
        self.unnumbered = None;
        if stop.runs.is_empty() && stop.final_of.is_none() && stop.reason != Some(SuspendReason::FOR_GC) {
            // The stop is a final stop without a collection so far, or a stop whose SuspendEEBegin was not observed.
            self.allocated.final_stop(stop.first_seen().unwrap_or_default());
            match self.background_under_way() {
                Some(number) => self.belongs(&mut stop, number),
                // The stop was observed only in part, at the start of the stream or after a loss, so it cannot be used.
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
            self.settled.push_back((
                stop.last_seen().unwrap_or_default(),
                FinishedItem::Suspension(Box::new(stop)),
            ));
            return;
        }
        let numbers: Vec<u32> = stop.runs.iter().map(|run| run.number).chain(stop.final_of).collect();
        let waiting = numbers
            .iter()
            .filter(|&&number| self.waits_for(number, stop.id))
            .count();
        if waiting > 0 {
            self.keep_closed(stop, waiting);
        }
        for number in numbers {
            self.settle_if_whole(number);
        }
    }

    /// Keeps a closed stop for the given number of collections. For a file, all stops that collections need are kept.
    /// In a live stream, the oldest stop is dropped above the limit, which only forged collections reach.
    pub(super) fn keep_closed(&mut self, stop: Stop, waiting: usize) {
        self.closed.insert(stop.id, Box::new(ClosedStop { stop, waiting }));
        if self.settling != ReportTiming::AtTheEnd && self.closed.len() > MAX_CLOSED / self.shared_by {
            self.closed.pop_first();
        }
    }

    pub(super) fn waits_for(&self, number: u32, id: StopId) -> bool {
        let has = |forming: &FormingCollection| forming.number == number && forming.stops.contains(&id);
        self.forming.iter().any(|forming| has(forming))
            || self
                .newly_settled()
                .any(|settled| matches!(settled, FinishedItem::Collection(forming) if has(forming)))
    }

    pub(super) fn count_other(&mut self, stop: &Stop) {
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

    pub(super) fn orphans_are_suspensions(&mut self) {
        for stop in std::mem::take(&mut self.orphan_finals) {
            self.settled.push_back((
                stop.last_seen().unwrap_or_default(),
                FinishedItem::Suspension(Box::new(stop)),
            ));
        }
    }
}
