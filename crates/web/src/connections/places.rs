//! Places of connections: number of places, and selection of the connection that a new connection replaces.
//!
//! Pure. The module tracks the place of each connection, the start of its current state (waiting for a request, or
//! writing a response), and the size of the response that the client has not received completely.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Limited number of places. `T` ends a connection.
#[derive(Debug)]
pub(super) struct ConnectionSlots<T> {
    most: usize,
    /// Minimum time in a state before a connection can be replaced.
    grace: Duration,
    taken: BTreeMap<u64, TakenPlace<T>>,
    last_id: u64,
}

#[derive(Debug)]
struct TakenPlace<T> {
    connection: Option<T>,
    since: Instant,
    /// Size of the response that is written, bytes; `None` while the connection waits for a request.
    answer: Option<usize>,
}

/// Error returned if no place is free and no connection can be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoFreeSlot;

impl<T> ConnectionSlots<T> {
    pub(super) fn new(most: usize, grace: Duration) -> Self {
        Self {
            most,
            grace,
            taken: BTreeMap::new(),
            last_id: 0,
        }
    }

    /// Returns the id of a place for a new connection. If all places are taken, the connection with the longest time in
    /// its state loses its place, provided that this time is at least the grace time. The caller must end this
    /// connection, which is also returned.
    pub(super) fn take(&mut self, now: Instant) -> Result<(u64, Option<T>), NoFreeSlot> {
        let ended = if self.taken.len() < self.most {
            None
        } else {
            let slowest = self.slowest(now, |_| true).ok_or(NoFreeSlot)?;
            self.leave(slowest)
        };
        self.last_id += 1;
        let place = TakenPlace {
            connection: None,
            since: now,
            answer: None,
        };
        self.taken.insert(self.last_id, place);
        Ok((self.last_id, ended))
    }

    /// Sets the handle that ends the connection with this place.
    pub(super) fn set(&mut self, id: u64, connection: T) {
        if let Some(place) = self.taken.get_mut(&id) {
            place.connection = Some(connection);
        }
    }

    fn slowest(&self, now: Instant, of: impl Fn(&TakenPlace<T>) -> bool) -> Option<u64> {
        let places = self.taken.iter().filter(|(_, place)| of(place));
        let (id, place) = places.min_by_key(|(_, place)| place.since)?;
        (now.saturating_duration_since(place.since) >= self.grace).then_some(*id)
    }

    /// Records that a request of the connection has arrived.
    pub(super) fn asked(&mut self, id: u64, now: Instant) {
        if let Some(place) = self.taken.get_mut(&id) {
            place.since = now;
        }
    }

    /// Records the start of a response with `bytes` bytes. All responses in progress have at most `most` bytes in
    /// total, but a single response can have any size. Returns whether the response is admitted, and the connections
    /// that the caller must end. These connections have written their responses for the longest time, at least the
    /// grace time.
    pub(super) fn answer(&mut self, id: u64, bytes: usize, most: usize, now: Instant) -> (bool, Vec<T>) {
        let mut ended = Vec::new();
        let admitted = loop {
            let waiting: usize = self.taken.values().filter_map(|place| place.answer).sum();
            if waiting == 0 || waiting.saturating_add(bytes) <= most {
                break true;
            }
            match self.slowest(now, |place| place.answer.is_some_and(|bytes| bytes > 0)) {
                Some(slowest) => ended.extend(self.leave(slowest)),
                None => break false,
            }
        };
        if let Some(place) = self.taken.get_mut(&id) {
            place.since = now;
            place.answer = Some(if admitted { bytes } else { 0 });
        }
        (admitted, ended)
    }

    /// Records that all written bytes are in the system's buffers. If a response was in progress, the response is
    /// complete.
    pub(super) fn flushed(&mut self, id: u64, now: Instant) {
        if let Some(place) = self.taken.get_mut(&id)
            && place.answer.take().is_some()
        {
            place.since = now;
        }
    }

    /// Removes a connection that has ended.
    pub(super) fn leave(&mut self, id: u64) -> Option<T> {
        self.taken.remove(&id)?.connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(1);

    fn at(began: Instant, ms: u64) -> Instant {
        began + Duration::from_millis(ms)
    }

    /// Returns two places that are taken at 0 ms and 100 ms.
    fn two() -> (Instant, ConnectionSlots<&'static str>, u64, u64) {
        let began = Instant::now();
        let mut places = ConnectionSlots::new(2, GRACE);
        let (one, none) = places.take(began).unwrap();
        assert_eq!(none, None);
        places.set(one, "one");
        let (two, _) = places.take(at(began, 100)).unwrap();
        places.set(two, "two");
        (began, places, one, two)
    }

    /// Scenario: all places are taken; another connection arrives within the grace time and after it.
    /// Guarantee: within the grace time no place is free. After the grace time, the connection with the longest time in
    /// its state is replaced.
    #[test]
    fn longest_waiting_connection_is_replaced() {
        let (began, mut places, one, two) = two();
        assert_eq!(places.take(at(began, 999)), Err(NoFreeSlot));
        places.asked(one, at(began, 900));
        assert_eq!(places.answer(one, 10, 100, at(began, 901)), (true, vec![]));
        places.flushed(one, at(began, 902));
        assert_eq!(places.take(at(began, 1101)).map(|(_, ended)| ended), Ok(Some("two")));
        assert_eq!(places.leave(two), None);
        assert_eq!(places.take(at(began, 1102)), Err(NoFreeSlot));
        assert_eq!(places.take(at(began, 1902)).map(|(_, ended)| ended), Ok(Some("one")));
    }

    /// Scenario: the response of one connection stays incomplete. The other connection has no response and is flushed
    /// later.
    /// Guarantee: a flush without a response does not start a new state, so that the flushed connection is replaced
    /// first.
    #[test]
    fn only_complete_response_starts_new_state() {
        let (began, mut places, one, two) = two();
        places.asked(one, at(began, 200));
        assert_eq!(places.answer(one, 10, 100, at(began, 200)), (true, vec![]));
        places.flushed(two, at(began, 1000));
        assert_eq!(places.take(at(began, 1150)).map(|(_, ended)| ended), Ok(Some("two")));
        assert_eq!(places.take(at(began, 1250)).map(|(_, ended)| ended), Ok(Some("one")));
    }

    /// Scenario: several responses together exceed the limit; one response alone exceeds the limit.
    /// Guarantee: slow connections are ended first. If no connection is slow, the new response is refused. A single
    /// response is always written.
    #[test]
    fn response_sizes_are_limited_in_total() {
        let (began, mut places, one, two) = two();
        assert_eq!(places.answer(one, 1000, 100, began), (true, vec![]));
        assert_eq!(places.answer(two, 10, 100, at(began, 500)), (false, vec![]));
        assert_eq!(places.answer(two, 10, 100, at(began, 1000)), (true, vec!["one"]));
        let (three, _) = places.take(at(began, 1001)).unwrap();
        assert_eq!(places.answer(three, 90, 100, at(began, 1001)), (true, vec![]));
        places.flushed(two, at(began, 1002));
        places.flushed(three, at(began, 1002));
        assert_eq!(places.answer(two, 5000, 100, at(began, 1003)), (true, vec![]));
    }
}
