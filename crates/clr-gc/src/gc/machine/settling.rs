//! Settling of collections: when a collection is reported as whole, when it is abandoned, and when losses are known.

use crate::gc::collection::{Collection, Suspension};
use crate::gc::forming::FormingCollection;
use crate::gc::machine::{FinishedItem, MAX_DELAY_NS, MAX_FORMING, Machine, ReportTiming};
use crate::gc::stop::{Stop, StopEdges, StopId};

impl Machine {
    pub(super) fn newly_settled(&self) -> impl Iterator<Item = &FinishedItem> {
        self.settled.iter().rev().take(MAX_FORMING).map(|(_, settled)| settled)
    }

    /// Settles a collection if all its facts have arrived and none of its stops is open.
    pub(super) fn settle_if_whole(&mut self, number: u32) {
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

    /// Settles collections that have waited too long for the rest of their facts. A background collection in progress
    /// is not settled, because it can take any time to end.
    pub(super) fn expire(&mut self, now: i64) {
        while let Some(place) = self.forming.iter().position(|forming| {
            let in_flight = forming.announced_background() && forming.end.is_none();
            let waited = forming.last_event.saturating_add(MAX_DELAY_NS) < now;
            let in_stop = || {
                forming
                    .stops
                    .iter()
                    .any(|id| self.open.iter().any(|stop| stop.id == *id))
            };
            waited && !in_flight && !in_stop()
        }) {
            let partial = self.forming.remove(place);
            self.settle(partial);
        }
    }

    pub(super) fn settle(&mut self, forming: Box<FormingCollection>) {
        let since = forming.last_event.max(self.newest.unwrap_or(forming.last_event));
        self.settled.push_back((since, FinishedItem::Collection(forming)));
    }

    pub(super) fn report(&mut self, forming: FormingCollection) -> Collection {
        let mut stops: Vec<Stop> = Vec::with_capacity(forming.stops.len());
        for id in &forming.stops {
            if let Some(closed) = self.closed.get_mut(id) {
                stops.push(closed.stop.clone());
                closed.waiting = closed.waiting.saturating_sub(1);
                if closed.waiting == 0 {
                    self.closed.remove(id);
                }
            } else if let Some(stop) = self.open.iter().find(|stop| stop.id == *id) {
                stops.push(stop.clone());
            }
        }
        for stop in &mut stops {
            stop.void |= self.lossy(stop);
        }
        let stops: Vec<&Stop> = stops.iter().collect();
        let mut collection = forming.into_collection(&stops, &self.losses, &mut self.marking_cost);
        if collection.is_requested() {
            let known = collection.trigger_thread.and_then(|thread| self.tools.is(thread));
            collection.requested_by_tool = known.or(collection.requested_by_tool);
        }
        if self.settling != ReportTiming::AtTheEnd && !self.is_finished && !self.losses.is_empty() {
            self.forget_losses();
        }
        collection
    }

    pub(super) fn finished_suspension(&self, mut stop: Stop) -> Suspension {
        stop.void |= self.lossy(&stop);
        Suspension {
            reason: stop.reason,
            clr_instance: self.clr_instance,
            edges: StopEdges::from_stop(&stop),
            suspend_ns: stop.suspend_ns(),
            stopped_ns: stop.stopped_ns(),
            triggered: stop.triggered,
        }
    }

    pub(super) fn lossy(&self, stop: &Stop) -> bool {
        stop.first_seen()
            .zip(stop.last_seen())
            .is_some_and(|(first, last)| self.losses.overlap(first, last))
    }

    /// Drops losses of a live stream that are older than everything not yet reported.
    pub(super) fn forget_losses(&mut self) {
        let forming = self
            .forming
            .iter()
            .filter_map(|forming| forming.start.as_ref().map(|start| start.0));
        let settled = self.settled.iter().map(|(since, _)| *since);
        let stops = self
            .closed
            .values()
            .map(|closed| &closed.stop)
            .chain(&self.open)
            .filter_map(Stop::first_seen);
        let compared = self.allocated.compared_with().into_iter();
        let allocated = self
            .forming
            .iter()
            .chain(self.settled.iter().filter_map(|(_, settled)| match settled {
                FinishedItem::Collection(forming) => Some(forming),
                FinishedItem::Suspension(_) => None,
            }));
        let since = allocated.filter_map(|forming| Some(forming.allocated?.ok()?.since));
        if let Some(oldest) = forming.chain(settled).chain(stops).chain(compared).chain(since).min() {
            self.losses.forget_before(oldest.saturating_sub(MAX_DELAY_NS));
        }
    }
}
