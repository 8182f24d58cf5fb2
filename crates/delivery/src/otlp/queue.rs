//! The queued items of one signal: bounded, first in, first out, every item counted. Pure: time is an argument.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::otlp::batch::Entry;
use crate::otlp::settings::Limits;
use crate::otlp::stats::{LastError, Reason, SignalStats};

/// Time for which gcwatch's own telemetry is not sent after the receiver has reported that it does not accept the
/// signal.
const UNSUPPORTED_FOR: Duration = Duration::from_secs(60);

/// Time after which the report of an unaccepted signal is believed. The queue then keeps only enough items for a probe.
const UNSUPPORTED_PATIENCE: Duration = Duration::from_secs(600);

/// Maximum number of queued bytes for a receiver that has never accepted the signal and reports that it does not accept
/// the signal. The receiver can be in the middle of a rollout.
const UNSUPPORTED_BYTES: usize = 4 << 20;

/// Maximum number of queued bytes after [`UNSUPPORTED_PATIENCE`].
const UNSUPPORTED_LEAST: usize = 64 << 10;

/// Number of bytes that are written to the disk at once, without waiting for more.
pub(crate) const SPILL_BYTES: usize = 1 << 20;

/// Minimum of the request size that is learned from a receiver's refusals.
const SMALLEST_LEARNED: usize = 64 << 10;

/// Maximum size of messages that are joined into one entry; see [`Queue::entry_bytes`].
const LARGEST_JOINED: usize = 64 << 10;

/// Time for which an item waits in memory before it is written to the disk, once the receiver does not accept it.
const SPILL_DELAY: Duration = Duration::from_secs(1);

/// Number of bytes that are sent without waiting for more. Larger requests are not cheaper, and waiting bytes cost
/// memory.
const EARLY_SEND_BYTES: usize = 256 << 10;

/// The next action of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextAction {
    /// Send a batch now.
    Now,
    /// Send a batch at this time, or earlier if more items arrive.
    At(Instant),
    /// Wait because the queue is empty.
    Never,
    /// Stop because the queue is empty and closed.
    Done,
}

/// The outcome of [`Queue::push`].
#[derive(Debug)]
pub(crate) struct PushOutcome {
    /// Whether the sender must check the queue again.
    pub(crate) wake: bool,
    /// Whether the queue is crowded; see [`Queue::is_crowded`].
    pub(crate) crowded: bool,
    /// Dropped entries, which the caller frees without holding the lock.
    pub(crate) dropped: Vec<Entry>,
}

/// The queue of one signal and its counters.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    limits: Limits,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Number of items in `entries`.
    items: u64,
    /// Weight of `entries` in the limit on items.
    weight: usize,
    /// Time at which the oldest entry arrived, or an earlier time; `None` if the queue is empty.
    waiting_since: Option<Instant>,
    /// Number of entries that were ever added. `entries` are the newest of them.
    entered: u64,
    /// Number of the first entry that can wait for more entries. Earlier entries are sent at once.
    flush_to: u64,
    /// Number of the oldest entry that is being sent; `None` if no entry is being sent.
    sending_from: Option<u64>,
    closing: bool,
    /// Time since which the receiver reports that it does not accept the signal; `None` if it does not report this.
    unsupported_since: Option<Instant>,
    /// Time before which own telemetry is not sent, because only the sender probes the receiver; `None` if the receiver
    /// accepts the signal.
    unsupported_until: Option<Instant>,
    /// Whether the receiver has ever accepted the signal.
    was_accepted: bool,
    /// Maximum request size of the receiver, learned from its refusals; `None` if unknown.
    learned_bytes: Option<usize>,
    /// Number of items held by the SDK's batch processors (see [`crate::otlp::own`]). These items are counted but not
    /// queued here.
    held: u64,
    stats: SignalStats,
}

impl Queue {
    /// Sets the limits, and whether the signal is exported. Facts learned about the receiver are kept only if the
    /// receiver stays the same. Returns the dropped entries.
    pub(crate) fn configure(&mut self, limits: Limits, configured: bool, same_receiver: bool) -> Vec<Entry> {
        self.limits = limits;
        self.stats.configured = configured;
        if !same_receiver {
            self.unsupported_since = None;
            self.unsupported_until = None;
            self.was_accepted = false;
            self.learned_bytes = None;
        }
        if configured {
            self.make_room(None)
        } else {
            self.drop_all(Reason::Disabled)
        }
    }

    /// Returns whether new entries would be queued. If not, they need not be encoded.
    pub(crate) fn takes(&self) -> bool {
        self.stats.configured && !self.closing
    }

    /// Returns whether gcwatch's own telemetry may be sent.
    pub(crate) fn takes_own(&self, now: Instant) -> bool {
        self.takes() && self.unsupported_until.is_none_or(|until| until <= now)
    }

    /// Returns the size up to which messages are joined into one entry. The size is small enough that a batch can
    /// always be halved.
    pub(crate) fn entry_bytes(&self) -> usize {
        LARGEST_JOINED.min(self.batch_bytes() / 4)
    }

    /// Returns whether the receiver has never accepted the signal and reports that it does not accept it.
    pub(crate) fn is_foreign(&self) -> bool {
        self.unsupported_since.is_some() && !self.was_accepted
    }

    /// Marks the batch that was taken last as finished.
    pub(crate) fn finish(&mut self) {
        self.sending_from = None;
    }

    /// Lowers the limit after the receiver has refused a request of `bytes` as too large.
    pub(crate) fn learn_limit(&mut self, bytes: usize) {
        self.learned_bytes = Some((bytes / 2).max(SMALLEST_LEARNED));
    }

    /// Records that the receiver does not accept this signal. Returns whether this is new.
    pub(crate) fn unsupported(&mut self, now: Instant) -> bool {
        let news = self.unsupported_since.is_none();
        self.unsupported_since.get_or_insert(now);
        self.unsupported_until = Some(now + UNSUPPORTED_FOR);
        news
    }

    /// Drops the items queued for a receiver that does not accept the signal. The caller frees them.
    #[must_use]
    pub(crate) fn drop_unsupported(&mut self) -> Vec<Entry> {
        self.drop_all(Reason::Unsupported)
    }

    /// Stops accepting items. Queued items are due at once.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    /// Drops all queued items, all items in flight, and all items held by the SDK. Returns the queued entries, which
    /// the caller frees.
    pub(crate) fn abandon(&mut self) -> Vec<Entry> {
        let in_flight = self.stats.in_flight;
        self.gave_up(in_flight, Reason::Shutdown);
        self.stats.dropped.add(Reason::Shutdown, std::mem::take(&mut self.held));
        self.sending_from = None;
        self.drop_all(Reason::Shutdown)
    }

    /// Returns the number of the oldest queued entry, or of the next entry if the queue is empty.
    fn oldest(&self) -> u64 {
        self.entered - self.entries.len() as u64
    }

    fn batch_bytes(&self) -> usize {
        self.learned_bytes
            .map_or(self.limits.batch_bytes, |learned| learned.min(self.limits.batch_bytes))
    }

    /// Queues `new`. If there is not enough space, the oldest entries are dropped.
    pub(crate) fn push(&mut self, now: Instant, new: Vec<Entry>) -> PushOutcome {
        if !self.takes() {
            self.count_dropped(new.iter().map(Entry::items).sum());
            return PushOutcome {
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
        PushOutcome {
            wake: due != NextAction::Now && due != self.due(now),
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

    /// Queues entries that were in flight without having been queued here, even if the queue is closed. Returns the
    /// entries that do not fit, which the caller frees.
    #[must_use]
    pub(crate) fn take_over(&mut self, entries: Vec<Entry>, now: Instant) -> Vec<Entry> {
        let items = entries.iter().map(Entry::items).sum::<u64>();
        if self.stats.in_flight < items {
            // The items were counted as lost when the queue was abandoned.
            return entries;
        }
        self.stats.in_flight -= items;
        entries.into_iter().for_each(|entry| self.enter(entry));
        if !self.entries.is_empty() {
            self.waiting_since.get_or_insert(now);
        }
        self.make_room(Some(now))
    }

    /// Takes the oldest entries that fit in one request. The entries count as in flight until they are settled.
    pub(crate) fn take(&mut self) -> Vec<Entry> {
        self.sending_from = (!self.entries.is_empty()).then(|| self.oldest());
        self.take_most(self.batch_bytes(), self.limits.batch_items)
    }

    /// Takes the oldest entries that are written to the disk at once.
    pub(crate) fn take_to_store(&mut self) -> Vec<Entry> {
        self.take_most(self.batch_bytes().min(SPILL_BYTES), self.limits.batch_items)
    }

    /// Takes the oldest entry, which is enough to probe the receiver.
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

    /// Inserts the entries that were taken last at the front of the queue again. Returns the entries that do not fit,
    /// which the caller frees.
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

    /// Drops the oldest entries until the rest fits. The limit is lower for a signal that the receiver does not accept.
    /// If `now` is `None`, [`UNSUPPORTED_PATIENCE`] counts as not yet passed.
    fn make_room(&mut self, now: Option<Instant>) -> Vec<Entry> {
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

    fn drop_all(&mut self, reason: Reason) -> Vec<Entry> {
        self.stats.dropped.add(reason, self.items);
        self.items = 0;
        self.weight = 0;
        self.bytes = 0;
        self.waiting_since = None;
        std::mem::take(&mut self.entries).into()
    }

    /// Returns the time at which the next batch must be sent.
    pub(crate) fn due(&self, now: Instant) -> NextAction {
        let Some(since) = self.waiting_since.filter(|_| !self.entries.is_empty()) else {
            return if self.closing {
                NextAction::Done
            } else {
                NextAction::Never
            };
        };
        let at = since + self.limits.batch_delay;
        let full = self.weight >= self.limits.batch_items || self.bytes >= self.batch_bytes().min(EARLY_SEND_BYTES);
        if full || self.closing || self.is_flushing() || at <= now {
            NextAction::Now
        } else {
            NextAction::At(at)
        }
    }

    /// Returns whether half of the queue is full. While the receiver is slow or unavailable, entries must then be
    /// written to the disk.
    pub(crate) fn is_crowded(&self) -> bool {
        self.weight > self.limits.queue_items / 2 || self.bytes > self.limits.queue_bytes / 2
    }

    /// Returns the time at which queued entries must be written to the disk while the receiver does not accept them.
    pub(crate) fn spill_due(&self, now: Instant) -> NextAction {
        let Some(since) = self.waiting_since.filter(|_| !self.entries.is_empty()) else {
            return NextAction::Never;
        };
        let much = self.bytes >= self.batch_bytes().min(SPILL_BYTES) || self.is_crowded();
        if much || self.closing || self.is_flushing() || since + SPILL_DELAY <= now {
            NextAction::Now
        } else {
            NextAction::At(since + SPILL_DELAY)
        }
    }

    /// Returns whether a caller waits until everything is sent.
    pub(crate) fn is_flushing(&self) -> bool {
        self.oldest() < self.flush_to
    }

    /// Marks all queued entries as due at once. Returns a mark for [`is_settled`](Self::is_settled).
    pub(crate) fn mark_flush(&mut self) -> u64 {
        self.flush_to = self.entered;
        self.entered
    }

    /// Returns whether all entries added before `mark` were sent or dropped.
    pub(crate) fn is_settled(&self, mark: u64) -> bool {
        self.oldest() >= mark && self.sending_from.is_none_or(|from| from >= mark)
    }

    /// Counts items that [`takes`](Self::takes) refused.
    pub(crate) fn count_dropped(&mut self, items: u64) {
        if !self.stats.configured {
            return;
        }
        self.stats.given += items;
        let reason = if self.closing {
            Reason::Shutdown
        } else {
            // Only gcwatch's own telemetry gets here.
            Reason::Unsupported
        };
        self.stats.dropped.add(reason, items);
    }

    /// Counts the items that were on disk when gcwatch started.
    pub(crate) fn found(&mut self, items: u64) {
        self.stats.given += items;
        self.stats.stored += items;
        // Assume that the receiver has accepted the signal before. Otherwise, there would be few items.
        self.was_accepted |= items > 0;
    }

    /// Records that `items` in flight were written to the disk.
    pub(crate) fn stored(&mut self, items: u64) {
        let items = items.min(self.stats.in_flight);
        self.stats.in_flight -= items;
        self.stats.stored += items;
    }

    /// Marks `items` on disk as in flight, and returns their number.
    pub(crate) fn take_stored(&mut self, items: u64) -> u64 {
        let items = items.min(self.stats.stored);
        self.stats.stored -= items;
        self.stats.in_flight += items;
        items
    }

    /// Records that `items` on disk were dropped.
    pub(crate) fn dropped_stored(&mut self, items: u64, reason: Reason) {
        let items = items.min(self.stats.stored);
        self.stats.stored -= items;
        self.stats.dropped.add(reason, items);
    }

    /// Returns the number of items on disk.
    pub(crate) fn on_disk(&self) -> u64 {
        self.stats.stored
    }

    /// Counts an item for a batch processor of the SDK. Returns `false` if the item must be dropped, because there is
    /// no space or no receiver, or because the receiver does not accept the signal.
    #[must_use]
    pub(crate) fn hold(&mut self, now: Instant, most: u64) -> bool {
        if !self.takes_own(now) {
            self.count_dropped(1);
            return false;
        }
        self.stats.given += 1;
        if self.held >= most {
            self.stats.dropped.add(Reason::QueueFull, 1);
            return false;
        }
        self.held += 1;
        true
    }

    /// Marks `items` held by the SDK as in flight until they are settled. Returns the number that is still counted,
    /// which is 0 after [`abandon`](Self::abandon).
    pub(crate) fn take_held(&mut self, items: u64) -> u64 {
        let items = items.min(self.held);
        self.held -= items;
        self.stats.in_flight += items;
        items
    }

    /// Records that `items` in flight were accepted, except `rejected` of them. `bytes` was the size of the request.
    pub(crate) fn accepted(&mut self, items: u64, rejected: u64, bytes: usize) {
        let items = items.min(self.stats.in_flight);
        let rejected = rejected.min(items);
        self.stats.in_flight -= items;
        self.stats.exported += items - rejected;
        self.stats.rejected += rejected;
        self.stats.exported_bytes += bytes as u64;
        self.unsupported_since = None;
        self.unsupported_until = None;
        self.was_accepted = true;
    }

    /// Records that `items` in flight were dropped.
    pub(crate) fn gave_up(&mut self, items: u64, reason: Reason) {
        let items = items.min(self.stats.in_flight);
        self.stats.in_flight -= items;
        self.stats.dropped.add(reason, items);
    }

    /// Returns the counters. The caller may change only counters that do not affect the queue.
    pub(crate) fn stats_mut(&mut self) -> &mut SignalStats {
        &mut self.stats
    }

    /// Stores the last error.
    pub(crate) fn failed(&mut self, text: &str, at: SystemTime) {
        self.stats.last_error = Some(LastError {
            text: text.to_owned(),
            at,
        });
    }

    /// Returns the current counters.
    pub(crate) fn stats(&self) -> SignalStats {
        SignalStats {
            queued: self.items + self.held,
            queued_bytes: self.bytes as u64,
            unsupported: self.unsupported_since.is_some(),
            ..self.stats.clone()
        }
    }
}

#[cfg(test)]
mod tests;
