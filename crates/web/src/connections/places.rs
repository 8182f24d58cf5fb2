//! The places of connections: how many there are, and whose turn is over when another one comes.
//!
//! Pure: which connection has which place, since when it has been in its present state (waiting for a request, or
//! writing an answer), and how large the answer is that its reader has not taken.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// A number of places. `T` ends a connection.
#[derive(Debug)]
pub(super) struct Places<T> {
    most: usize,
    /// Nobody who has been in a state for less has to go.
    grace: Duration,
    taken: BTreeMap<u64, TakenPlace<T>>,
    last_id: u64,
}

#[derive(Debug)]
struct TakenPlace<T> {
    connection: Option<T>,
    since: Instant,
    /// The answer that is being written; `None`: it waits for a request.
    answer: Option<usize>,
}

/// There is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl<T> Places<T> {
    pub(super) fn new(most: usize, grace: Duration) -> Self {
        Self {
            most,
            grace,
            taken: BTreeMap::new(),
            last_id: 0,
        }
    }

    /// A place for a new connection, and the one that had it before, which must be ended: of those that have been in
    /// their state for longer than the grace, the one that has been longest.
    pub(super) fn take(&mut self, now: Instant) -> Result<(u64, Option<T>), Full> {
        let ended = if self.taken.len() < self.most {
            None
        } else {
            let slowest = self.slowest(now, |_| true).ok_or(Full)?;
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

    /// How the connection that got a place is ended.
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

    /// Its request has come.
    pub(super) fn asked(&mut self, id: u64, now: Instant) {
        if let Some(place) = self.taken.get_mut(&id) {
            place.since = now;
        }
    }

    /// Its answer of so many bytes will be written, where all that are being written may have `most` together. Whether
    /// it may, and the connections that must be ended: those that have been writing longest. An answer alone may have
    /// any size.
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

    /// Everything that was to be written is with the system.
    pub(super) fn flushed(&mut self, id: u64, now: Instant) {
        if let Some(place) = self.taken.get_mut(&id)
            && place.answer.take().is_some()
        {
            place.since = now;
        }
    }

    /// The connection is over.
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

    /// Two places that are taken at 0 ms and 100 ms.
    fn two() -> (Instant, Places<&'static str>, u64, u64) {
        let began = Instant::now();
        let mut places = Places::new(2, GRACE);
        let (one, none) = places.take(began).unwrap();
        assert_eq!(none, None);
        places.set(one, "one");
        let (two, _) = places.take(at(began, 100)).unwrap();
        places.set(two, "two");
        (began, places, one, two)
    }

    /// Scenario: all places are taken; another connection comes within the grace, and after it.
    /// Guarantee: within it there is none; after it, the one that has been in its state longest goes.
    #[test]
    fn whoever_waits_longest_goes() {
        let (began, mut places, one, two) = two();
        assert_eq!(places.take(at(began, 999)), Err(Full));
        places.asked(one, at(began, 900));
        assert_eq!(places.answer(one, 10, 100, at(began, 901)), (true, vec![]));
        places.flushed(one, at(began, 902));
        assert_eq!(places.take(at(began, 1101)).map(|(_, ended)| ended), Ok(Some("two")));
        assert_eq!(places.leave(two), None);
        assert_eq!(places.take(at(began, 1102)), Err(Full));
        assert_eq!(places.take(at(began, 1902)).map(|(_, ended)| ended), Ok(Some("one")));
    }

    /// Scenario: a reader takes its answer slowly, while the connection is flushed again and again; nothing was asked
    /// on another one that is flushed, too.
    /// Guarantee: only the end of an answer begins a new state.
    #[test]
    fn only_a_whole_answer_counts() {
        let (began, mut places, one, two) = two();
        places.asked(one, at(began, 200));
        assert_eq!(places.answer(one, 10, 100, at(began, 200)), (true, vec![]));
        places.flushed(two, at(began, 1000));
        assert_eq!(places.take(at(began, 1150)).map(|(_, ended)| ended), Ok(Some("two")));
        assert_eq!(places.take(at(began, 1250)).map(|(_, ended)| ended), Ok(Some("one")));
    }

    /// Scenario: answers that are more together than may be written at once; one that is larger than all.
    /// Guarantee: slow ones go first; where none is slow, the new one is refused; alone, any is written.
    #[test]
    fn answers_have_a_sum() {
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
