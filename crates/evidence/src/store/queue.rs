//! The order and the retries of objects. Pure: time and chance are arguments.
//!
//! One object is sent at a time. After a failure, every object waits, and the pause grows with each further failure.
//! The failed object goes to the end of the queue, so that an object that the store refuses delays other objects only
//! briefly. If there are too many files or bytes, the oldest waiting object is dropped.

use std::collections::VecDeque;
use std::time::Duration;

use base::backoff::Backoff;

/// Pauses after failures.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// Bounds of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Maximum number of files.
    pub(super) files: usize,
    /// Maximum size of all files, in bytes.
    pub(super) bytes: u64,
}

/// A file that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Number in the order of arrival; the name of the file starts with it.
    pub(super) number: u64,
    /// Name of the object below the host.
    pub(super) key: String,
    /// Size of the file, in bytes.
    pub(super) bytes: u64,
}

/// An event for the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// A file is in the folder.
    Arrived(Entry),
    /// The store has accepted the object that is being sent.
    Stored,
    /// The object that is being sent was not accepted.
    Failed,
    /// The file of the object that is being sent no longer exists.
    Missing,
    /// Time has passed.
    Elapsed,
}

/// An action for the uploader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    /// Send this object.
    Send(Entry),
    /// Delete the file of an object that the store has.
    Delete(Entry),
    /// Delete the file of an object that a newer object with the same key replaces.
    Replace(Entry),
    /// Delete the file of an object that the store does not have: to make room, or because the file is missing.
    Drop(Entry),
}

/// The objects that wait, and the object that is being sent.
#[derive(Debug)]
pub(super) struct Queue {
    limits: Limits,
    waiting: VecDeque<Entry>,
    sending: Option<Entry>,
    bytes: u64,
    backoff: Backoff,
    /// No object is sent before this time.
    not_before: Duration,
}

impl Queue {
    /// Creates an empty queue.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: VecDeque::new(),
            sending: None,
            bytes: 0,
            backoff: BACKOFF,
            not_before: Duration::ZERO,
        }
    }

    /// Applies an input. `now` is the time since any fixed instant; `chance` is uniform in 0..1.
    pub(super) fn step(&mut self, input: Input, now: Duration, chance: f64) -> Vec<Output> {
        let mut outputs = Vec::new();
        match input {
            Input::Arrived(entry) => self.arrived(entry, &mut outputs),
            Input::Stored => {
                self.backoff.reset();
                self.not_before = Duration::ZERO;
                outputs.extend(self.take_sending().map(Output::Delete));
            }
            Input::Failed => {
                self.not_before = now.saturating_add(self.backoff.next(chance));
                if let Some(entry) = self.sending.take() {
                    // A newer object with this key can have arrived since the attempt started.
                    if self.waiting.iter().any(|newer| newer.key == entry.key) {
                        self.bytes = self.bytes.saturating_sub(entry.bytes);
                        outputs.push(Output::Replace(entry));
                    } else {
                        self.waiting.push_back(entry);
                    }
                }
            }
            Input::Missing => outputs.extend(self.take_sending().map(Output::Drop)),
            Input::Elapsed => {}
        }
        if self.sending.is_none()
            && now >= self.not_before
            && let Some(next) = self.waiting.pop_front()
        {
            self.sending = Some(next.clone());
            outputs.push(Output::Send(next));
        }
        outputs
    }

    fn take_sending(&mut self) -> Option<Entry> {
        let entry = self.sending.take()?;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        Some(entry)
    }

    fn arrived(&mut self, entry: Entry, outputs: &mut Vec<Output>) {
        if let Some(place) = self.waiting.iter().position(|older| older.key == entry.key)
            && let Some(older) = self.waiting.remove(place)
        {
            self.bytes = self.bytes.saturating_sub(older.bytes);
            outputs.push(Output::Replace(older));
        }
        self.bytes = self.bytes.saturating_add(entry.bytes);
        self.waiting.push_back(entry);
        while self.count() > self.limits.files || self.bytes > self.limits.bytes {
            let oldest = (0..self.waiting.len()).min_by_key(|place| self.waiting.get(*place).map(|entry| entry.number));
            let Some(oldest) = oldest.and_then(|place| self.waiting.remove(place)) else {
                // The object that is being sent keeps its file.
                break;
            };
            self.bytes = self.bytes.saturating_sub(oldest.bytes);
            outputs.push(Output::Drop(oldest));
        }
    }

    /// Returns the time at which [`Input::Elapsed`] is due, or `None` if an object is being sent or no object waits.
    pub(super) fn due(&self) -> Option<Duration> {
        (self.sending.is_none() && !self.waiting.is_empty()).then_some(self.not_before)
    }

    /// Returns the number of objects that the store does not have.
    pub(super) fn count(&self) -> usize {
        self.waiting.len() + usize::from(self.sending.is_some())
    }

    /// Returns the size of all files, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { files: 3, bytes: 100 };

    fn entry(number: u64, key: &str, bytes: u64) -> Entry {
        Entry {
            number,
            key: key.to_owned(),
            bytes,
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Scenario: three objects arrive; the first object fails twice, and later all objects succeed.
    /// Guarantee: one object is sent at a time; after a failure, no object is sent during the pause, which doubles each
    /// time; the failed object is sent last; each file is deleted once, after its object was accepted.
    #[test]
    fn failed_object_is_sent_last_after_a_pause() {
        let mut queue = Queue::new(LIMITS);
        let (a, b, c) = (entry(1, "a", 10), entry(2, "b", 10), entry(3, "c", 10));
        assert_eq!(
            queue.step(Input::Arrived(a.clone()), at(0), 1.0),
            [Output::Send(a.clone())]
        );
        assert_eq!(queue.step(Input::Arrived(b.clone()), at(0), 1.0), []);
        assert_eq!(queue.step(Input::Arrived(c.clone()), at(0), 1.0), []);
        assert_eq!(queue.step(Input::Failed, at(10), 1.0), []);
        assert_eq!(queue.due(), Some(at(11)));
        assert_eq!(queue.step(Input::Elapsed, at(11), 1.0), [Output::Send(b.clone())]);
        assert_eq!(queue.step(Input::Failed, at(20), 1.0), []);
        assert_eq!(queue.due(), Some(at(22)));
        assert_eq!(queue.step(Input::Elapsed, at(21), 1.0), []);
        assert_eq!(queue.step(Input::Elapsed, at(22), 1.0), [Output::Send(c.clone())]);
        let outputs = queue.step(Input::Stored, at(23), 1.0);
        assert_eq!(outputs, [Output::Delete(c), Output::Send(a.clone())]);
        assert_eq!(
            queue.step(Input::Stored, at(24), 1.0),
            [Output::Delete(a), Output::Send(b.clone())]
        );
        assert_eq!(queue.step(Input::Stored, at(25), 1.0), [Output::Delete(b)]);
        assert_eq!((queue.count(), queue.bytes(), queue.due()), (0, 0, None));
    }

    /// Scenario: an object arrives with the key of a waiting object; another object arrives with the key of the object
    /// that is being sent and then fails.
    /// Guarantee: only the newest object of a key stays.
    #[test]
    fn newest_object_of_key_stays() {
        let mut queue = Queue::new(LIMITS);
        let (old, newer, newest) = (entry(1, "a", 10), entry(2, "a", 20), entry(3, "a", 30));
        queue.step(Input::Arrived(old.clone()), at(0), 1.0);
        assert_eq!(queue.step(Input::Arrived(newer.clone()), at(0), 1.0), []);
        assert_eq!(
            queue.step(Input::Arrived(newest.clone()), at(0), 1.0),
            [Output::Replace(newer)]
        );
        assert_eq!(queue.step(Input::Failed, at(0), 1.0), [Output::Replace(old)]);
        assert_eq!((queue.count(), queue.bytes()), (1, 30));
        assert_eq!(queue.step(Input::Elapsed, at(1), 1.0), [Output::Send(newest)]);
    }

    /// Scenario: more objects arrive than fit, by number and by bytes, while an object that has failed before is being
    /// sent.
    /// Guarantee: the oldest waiting object is dropped, and the object that is being sent stays.
    #[test]
    fn oldest_object_makes_room() {
        let mut queue = Queue::new(LIMITS);
        let all: Vec<Entry> = (1..=4).map(|number| entry(number, &number.to_string(), 10)).collect();
        for each in &all[..3] {
            queue.step(Input::Arrived(each.clone()), at(0), 1.0);
        }
        // The first object is now at the end, and the second object is being sent.
        queue.step(Input::Failed, at(0), 1.0);
        queue.step(Input::Elapsed, at(1), 1.0);
        let dropped = queue.step(Input::Arrived(all[3].clone()), at(2), 1.0);
        assert_eq!(dropped, [Output::Drop(all[0].clone())]);
        let large = entry(5, "5", 95);
        let dropped = queue.step(Input::Arrived(large.clone()), at(2), 1.0);
        let oldest = [&all[2], &all[3], &large].map(|entry| Output::Drop(entry.clone()));
        assert_eq!(
            dropped, oldest,
            "the large object does not fit with the one that is being sent"
        );
        assert_eq!((queue.count(), queue.bytes()), (1, 10));
    }

    proptest! {
        /// Scenario: arrivals, successes, failures, missing files and times occur in any order.
        /// Guarantee: at most one object is being sent; the limits hold except for that object; every object that
        /// arrived is deleted, replaced or dropped once, or still counted.
        #[test]
        fn every_object_is_accounted_for(inputs in proptest::collection::vec((0_u8..6, 0_u64..60, 0_u64..4), 0..200)) {
            let mut queue = Queue::new(LIMITS);
            let (mut number, mut now, mut is_sending, mut arrived, mut gone) = (0, 0, false, 0_usize, 0_usize);
            for (kind, bytes, key) in inputs {
                now += bytes;
                let input = match kind {
                    0 | 1 => {
                        (number, arrived) = (number + 1, arrived + 1);
                        Input::Arrived(entry(number, &key.to_string(), bytes))
                    }
                    2 if is_sending => Input::Stored,
                    3 if is_sending => Input::Failed,
                    4 if is_sending => Input::Missing,
                    _ => Input::Elapsed,
                };
                is_sending &= !matches!(input, Input::Stored | Input::Failed | Input::Missing);
                for output in queue.step(input, at(now), 0.5) {
                    match output {
                        Output::Send(_) => {
                            prop_assert!(!is_sending);
                            is_sending = true;
                        }
                        Output::Delete(_) | Output::Replace(_) | Output::Drop(_) => gone += 1,
                    }
                }
                prop_assert_eq!(queue.count(), arrived - gone);
                prop_assert!(queue.count() <= LIMITS.files);
                prop_assert!(queue.bytes() <= LIMITS.bytes + 60);
            }
        }
    }
}
