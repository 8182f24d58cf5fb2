//! Values of a collection that depend on earlier collections.

use std::collections::VecDeque;

use clr_gc::gc::{Collection, Suspension};

use crate::field::GcFacts;

/// Maximum number of remembered suspensions. If more suspensions occur during a background collection, the previous
/// collection is not found, and the time since the last restart is unknown.
const MAX_STOPS: usize = 64;

/// Maximum number of background collections in progress whose foreground collections are counted. Normally there is one
/// such collection; after lost events there can be more.
const MAX_BACKGROUND: usize = 4;

/// The newest restarts, and the number of foreground collections of each background collection.
#[derive(Debug, Default)]
pub(super) struct PrecedingRestarts {
    stops: VecDeque<Restart>,
    /// Latest known end of a suspension, including removed suspensions; `None` if no end is known.
    newest_end: Option<i64>,
    foreground: VecDeque<(Identity, u32)>,
}

/// Runtime and number of a collection.
type Identity = (Option<u16>, u32);

#[derive(Debug)]
struct Restart {
    /// Collection of the suspension; `None` for a suspension without a collection.
    collection: Option<Identity>,
    /// Time of RestartEEEnd; `None` if the edge is missing.
    end: Option<i64>,
}

impl PrecedingRestarts {
    /// Returns the facts that follow from earlier collections, then records this collection.
    pub(super) fn collection<'a>(&mut self, collection: &'a Collection) -> GcFacts<'a> {
        let facts = GcFacts {
            collection,
            since_last_ns: self.since_last_ns(collection),
            foreground_within: self.foreground_within(collection),
        };
        let identity = (collection.clr_instance, collection.number);
        for pause in &collection.pauses {
            self.restarted(Some(identity), pause.edges.restart_end);
        }
        if let Some(number) = collection.background {
            self.ran_within((collection.clr_instance, number));
        }
        facts
    }

    /// Records a suspension without a collection.
    pub(super) fn suspension(&mut self, suspension: &Suspension) {
        self.restarted(None, suspension.edges.restart_end);
    }

    fn restarted(&mut self, collection: Option<Identity>, end: Option<i64>) {
        if self.stops.len() >= MAX_STOPS {
            self.stops.pop_front();
        }
        self.stops.push_back(Restart { collection, end });
        self.newest_end = self.newest_end.max(end);
    }

    fn ran_within(&mut self, background: Identity) {
        if let Some((_, count)) = self.foreground.iter_mut().find(|(known, _)| *known == background) {
            *count = count.saturating_add(1);
            return;
        }
        if self.foreground.len() >= MAX_BACKGROUND {
            self.foreground.pop_front();
        }
        self.foreground.push_back((background, 1));
    }

    /// Returns the time since the last restart before this collection, in nanoseconds. Returns `None` unless the
    /// previous collection is known with all of its restarts, because events could be missing in between.
    fn since_last_ns(&self, collection: &Collection) -> Option<i64> {
        let first = collection.pauses.first().filter(|_| !collection.lossy)?;
        let begin = first.edges.suspend_begin?;
        // The collection ran inside the suspension of another collection.
        if first.start != Some(begin) {
            return None;
        }
        let before = Some((collection.clr_instance, collection.number.checked_sub(1)?));
        // Search from the newest stop, which nearly always matches. The stops of one collection are consecutive.
        let newest = self.stops.iter().rev();
        let mut own = newest
            .skip_while(|stop| stop.collection != before)
            .take_while(|stop| stop.collection == before);
        own.next()?.end?;
        if own.any(|stop| stop.end.is_none()) {
            return None;
        }
        let restart = match self.newest_end {
            Some(end) if end <= begin => end,
            _ => self
                .stops
                .iter()
                .filter_map(|stop| stop.end.filter(|end| *end <= begin))
                .max()?,
        };
        Some(begin.saturating_sub(restart))
    }

    fn foreground_within(&mut self, collection: &Collection) -> Option<u32> {
        if !collection.is_concurrent() || collection.lossy {
            return None;
        }
        collection.start?;
        let identity = (collection.clr_instance, collection.number);
        let place = self.foreground.iter().position(|(known, _)| *known == identity);
        let ran = place.and_then(|place| self.foreground.remove(place));
        Some(ran.map_or(0, |(_, count)| count))
    }
}

#[cfg(test)]
mod tests;
