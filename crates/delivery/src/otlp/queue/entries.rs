//! Entries in and out: the oldest first, dropped when there is no room.

use std::collections::HashSet;

use tokio::time::Instant;

use super::{Due, Pushed, Queue, SPILL_BYTES, UNSUPPORTED_PATIENCE};
use crate::otlp::batch::Entry;
use crate::otlp::stats::Reason;

/// Most bytes that wait for a receiver that has never accepted the signal and says that it does not: perhaps it is
/// being rolled out.
const UNSUPPORTED_BYTES: usize = 4 << 20;

/// See [`UNSUPPORTED_PATIENCE`].
const UNSUPPORTED_LEAST: usize = 64 << 10;

impl Queue {
    /// Queues `new`; the oldest entries are dropped when there is no room.
    pub(crate) fn push(&mut self, now: Instant, new: Vec<Entry>) -> Pushed {
        if !self.takes() {
            self.count_dropped(new.iter().map(Entry::items).sum());
            return Pushed {
                wake: false,
                crowded: false,
                dropped: new,
            };
        }
        let due = self.due(now);
        let mut too_large = Vec::new();
        for entry in new {
            self.stats.given += entry.items();
            if entry.bytes() > self.limits.queue_bytes {
                self.stats.dropped.add(Reason::TooLarge, entry.items());
                too_large.push(entry);
                continue;
            }
            self.enter(entry);
        }
        let mut dropped = self.make_room(Some(now));
        dropped.append(&mut too_large);
        if !self.entries.is_empty() {
            self.waiting_since.get_or_insert(now);
        }
        Pushed {
            wake: due != Due::Now && due != self.due(now),
            crowded: self.is_crowded(),
            dropped,
        }
    }

    fn enter(&mut self, entry: Entry) {
        self.bytes += entry.bytes();
        self.items += entry.items();
        self.weight += entry.weight();
        self.entered += 1;
        self.entries.push_back(entry);
    }

    /// Queues entries that were in flight without having been here, also while the queue is closed. What does not fit is
    /// dropped: the caller frees it.
    #[must_use]
    pub(crate) fn take_over(&mut self, entries: Vec<Entry>, now: Instant) -> Vec<Entry> {
        let items = entries.iter().map(Entry::items).sum::<u64>();
        if self.stats.in_flight < items {
            // They were counted as lost when the queue was left.
            return entries;
        }
        self.stats.in_flight -= items;
        entries.into_iter().for_each(|entry| self.enter(entry));
        if !self.entries.is_empty() {
            self.waiting_since.get_or_insert(now);
        }
        self.make_room(Some(now))
    }

    /// The oldest entries, as many as fit in one request; they count as in flight until each is settled.
    pub(crate) fn take(&mut self) -> Vec<Entry> {
        self.sending_from = (!self.entries.is_empty()).then(|| self.oldest());
        self.take_most(self.batch_bytes(), self.limits.batch_items)
    }

    /// The oldest entries, as many as are written to the disk at once.
    pub(crate) fn take_to_store(&mut self) -> Vec<Entry> {
        self.take_most(self.batch_bytes().min(SPILL_BYTES), self.limits.batch_items)
    }

    /// The oldest entry: enough to ask whether the receiver takes anything.
    pub(crate) fn take_one(&mut self) -> Vec<Entry> {
        self.sending_from = (!self.entries.is_empty()).then(|| self.oldest());
        self.take_most(0, 0)
    }

    fn take_most(&mut self, most_bytes: usize, most_weight: usize) -> Vec<Entry> {
        let mut resources = HashSet::new();
        let mut bytes = 0;
        let (mut weight, mut count) = (0, 0);
        for entry in &self.entries {
            bytes += entry.bytes();
            weight += entry.weight();
            if resources.insert(entry.resource_key()) {
                bytes += entry.resource_bytes();
            }
            if (bytes > most_bytes || weight > most_weight) && count > 0 {
                break;
            }
            count += 1;
        }
        let taken: Vec<Entry> = self.entries.drain(..count).collect();
        let items = taken.iter().map(Entry::items).sum::<u64>();
        self.bytes -= taken.iter().map(Entry::bytes).sum::<usize>();
        self.items -= items;
        self.weight -= taken.iter().map(Entry::weight).sum::<usize>();
        self.stats.in_flight += items;
        if self.entries.is_empty() {
            self.waiting_since = None;
        }
        taken
    }

    /// The entries taken last wait again, before all others. What does not fit is dropped: the caller frees it.
    #[must_use]
    pub(crate) fn put_back(&mut self, entries: Vec<Entry>, now: Instant) -> Vec<Entry> {
        let items = entries.iter().map(Entry::items).sum::<u64>().min(self.stats.in_flight);
        self.stats.in_flight -= items;
        self.items += items;
        for entry in entries.into_iter().rev() {
            self.bytes += entry.bytes();
            self.weight += entry.weight();
            self.entries.push_front(entry);
        }
        if !self.entries.is_empty() {
            self.waiting_since.get_or_insert(now);
        }
        self.make_room(Some(now))
    }

    /// Drops the oldest until the rest fits; of a signal that the receiver does not accept, less does.
    pub(super) fn make_room(&mut self, now: Option<Instant>) -> Vec<Entry> {
        let mut most = self.limits.queue_bytes;
        let mut reason = Reason::QueueFull;
        if let Some(since) = self.unsupported_since.filter(|_| self.is_foreign()) {
            let patient = now.is_none_or(|now| now < since + UNSUPPORTED_PATIENCE);
            most = most.min(if patient { UNSUPPORTED_BYTES } else { UNSUPPORTED_LEAST });
            reason = Reason::Unsupported;
        }
        let mut dropped = Vec::new();
        while self.weight > self.limits.queue_items || self.bytes > most {
            let Some(entry) = self.entries.pop_front() else { break };
            self.bytes -= entry.bytes();
            self.items -= entry.items();
            self.weight -= entry.weight();
            self.stats.dropped.add(reason, entry.items());
            dropped.push(entry);
        }
        dropped
    }

    pub(super) fn drop_all(&mut self, reason: Reason) -> Vec<Entry> {
        self.stats.dropped.add(reason, self.items);
        self.items = 0;
        self.weight = 0;
        self.bytes = 0;
        self.waiting_since = None;
        std::mem::take(&mut self.entries).into()
    }
}
