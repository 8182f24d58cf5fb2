//! The items of one signal that wait to be sent: bounded, oldest first out, every item accounted for. Pure: time is an
//! argument.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::otlp::batch::Entry;
use crate::otlp::settings::Limits;
use crate::otlp::stats::{LastError, Reason, SignalStats};

/// How long gcwatch's own telemetry does not ask again for a signal that the receiver does not accept.
const UNSUPPORTED_FOR: Duration = Duration::from_secs(60);

/// After that time it is taken at its word: only so much waits that there is something to ask with.
const UNSUPPORTED_PATIENCE: Duration = Duration::from_secs(600);

/// Most bytes that wait for a receiver that has never accepted the signal and says that it does not: perhaps it is
/// being rolled out.
const UNSUPPORTED_BYTES: usize = 4 << 20;

/// See [`UNSUPPORTED_PATIENCE`].
const UNSUPPORTED_LEAST: usize = 64 << 10;

/// So many bytes are written to the disk at once, without waiting.
pub(crate) const SPILL_BYTES: usize = 1 << 20;

/// The smallest limit on a request that is learned from a receiver's refusals.
const SMALLEST_LEARNED: usize = 64 << 10;

/// See [`Queue::entry_bytes`].
const LARGEST_JOINED: usize = 64 << 10;

/// How long an item waits in memory before it is written to the disk, once the receiver does not take it.
const SPILL_DELAY: Duration = Duration::from_secs(1);

/// So many bytes are sent without waiting for more: larger requests are not cheaper, and what waits costs memory.
const WORTH_SENDING: usize = 256 << 10;

/// What the sender must do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Send a batch.
    Now,
    /// Send one then, or earlier if more comes.
    At(Instant),
    /// Wait: the queue is empty.
    Never,
    /// End: the queue is empty and closed.
    Done,
}

/// The outcome of [`Queue::push`].
#[derive(Debug)]
pub(crate) struct Pushed {
    /// The sender must look again.
    pub(crate) wake: bool,
    /// See [`Queue::is_crowded`].
    pub(crate) crowded: bool,
    /// What was dropped; the caller frees it, without the lock.
    pub(crate) dropped: Vec<Entry>,
}

/// The queue of one signal and its counters.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    limits: Limits,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Items in `entries`.
    items: u64,
    /// What `entries` count against the limit on items.
    weight: usize,
    /// When the oldest entry came, or earlier.
    waiting_since: Option<Instant>,
    /// Entries that ever came in; `entries` are the newest of them.
    entered: u64,
    /// Entries before this one are sent without waiting for more.
    flush_to: u64,
    /// Number of the oldest entry that is being sent.
    sending_from: Option<u64>,
    closing: bool,
    /// Since when the receiver says that it does not accept the signal.
    unsupported_since: Option<Instant>,
    /// Until when nobody but the sender asks again.
    unsupported_until: Option<Instant>,
    /// The receiver accepted the signal once.
    was_accepted: bool,
    /// The receiver's limit on one request, learned from its refusals.
    learned_bytes: Option<usize>,
    /// Items that the SDK's batch processors hold (see [`crate::otlp::own`]): counted here, not queued here.
    held: u64,
    stats: SignalStats,
}

impl Queue {
    /// Sets the limits, and whether the signal is exported. What was learned about the receiver is forgotten unless it
    /// is the same.
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

    /// Whether entries given now would be queued; else they need not be encoded.
    pub(crate) fn takes(&self) -> bool {
        self.stats.configured && !self.closing
    }

    /// Whether gcwatch's own telemetry may be sent.
    pub(crate) fn takes_own(&self, now: Instant) -> bool {
        self.takes() && self.unsupported_until.is_none_or(|until| until <= now)
    }

    /// Messages are joined into one entry up to so many bytes, so that a batch can always be halved.
    pub(crate) fn entry_bytes(&self) -> usize {
        LARGEST_JOINED.min(self.batch_bytes() / 4)
    }

    /// The receiver has never accepted the signal, and says that it does not: it may never.
    pub(crate) fn is_foreign(&self) -> bool {
        self.unsupported_since.is_some() && !self.was_accepted
    }

    /// Nothing of the batch taken last is in flight any more.
    pub(crate) fn finish(&mut self) {
        self.sending_from = None;
    }

    /// The receiver refused a request of `bytes` as too large.
    pub(crate) fn learn_limit(&mut self, bytes: usize) {
        self.learned_bytes = Some((bytes / 2).max(SMALLEST_LEARNED));
    }

    /// The receiver does not accept this signal. True when that is new.
    pub(crate) fn unsupported(&mut self, now: Instant) -> bool {
        let news = self.unsupported_since.is_none();
        self.unsupported_since.get_or_insert(now);
        self.unsupported_until = Some(now + UNSUPPORTED_FOR);
        news
    }

    /// Drops what waits for a receiver that does not accept the signal; the caller frees it.
    #[must_use]
    pub(crate) fn drop_unsupported(&mut self) -> Vec<Entry> {
        self.drop_all(Reason::Unsupported)
    }

    /// Accepts no more items; what waits is due at once.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    /// Drops everything that waits or is in flight.
    pub(crate) fn abandon(&mut self) -> Vec<Entry> {
        let in_flight = self.stats.in_flight;
        self.gave_up(in_flight, Reason::Shutdown);
        self.stats.dropped.add(Reason::Shutdown, std::mem::take(&mut self.held));
        self.sending_from = None;
        self.drop_all(Reason::Shutdown)
    }

    /// The number of the oldest entry that waits, or of the next to come.
    fn oldest(&self) -> u64 {
        self.entered - self.entries.len() as u64
    }

    fn batch_bytes(&self) -> usize {
        self.learned_bytes
            .map_or(self.limits.batch_bytes, |learned| learned.min(self.limits.batch_bytes))
    }

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

    /// When the next batch must be sent.
    pub(crate) fn due(&self, now: Instant) -> Due {
        let Some(since) = self.waiting_since.filter(|_| !self.entries.is_empty()) else {
            return if self.closing { Due::Done } else { Due::Never };
        };
        let at = since + self.limits.batch_delay;
        let full = self.weight >= self.limits.batch_items || self.bytes >= self.batch_bytes().min(WORTH_SENDING);
        if full || self.closing || self.is_flushing() || at <= now {
            Due::Now
        } else {
            Due::At(at)
        }
    }

    /// Half of the queue is full, or as much waits as is written to the disk at once: while the receiver is slow or
    /// down, that is the time to write.
    pub(crate) fn is_crowded(&self) -> bool {
        self.weight > self.limits.queue_items / 2 || self.bytes > self.limits.queue_bytes / 2
    }

    /// When what waits must be written to the disk, while the receiver does not take it.
    pub(crate) fn spill_due(&self, now: Instant) -> Due {
        let Some(since) = self.waiting_since.filter(|_| !self.entries.is_empty()) else {
            return Due::Never;
        };
        let much = self.bytes >= self.batch_bytes().min(SPILL_BYTES) || self.is_crowded();
        if much || self.closing || self.is_flushing() || since + SPILL_DELAY <= now {
            Due::Now
        } else {
            Due::At(since + SPILL_DELAY)
        }
    }

    /// Somebody waits until everything is sent.
    pub(crate) fn is_flushing(&self) -> bool {
        self.oldest() < self.flush_to
    }

    /// Makes everything in the queue due at once. Returns a mark for [`is_settled`](Self::is_settled).
    pub(crate) fn mark_flush(&mut self) -> u64 {
        self.flush_to = self.entered;
        self.entered
    }

    /// Whether everything that came before `mark` was sent or dropped.
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
            // Only gcwatch's own telemetry.
            Reason::Unsupported
        };
        self.stats.dropped.add(reason, items);
    }

    /// So many items were on disk when gcwatch started.
    pub(crate) fn found(&mut self, items: u64) {
        self.stats.given += items;
        self.stats.stored += items;
        // It must have accepted some, or else they would be few.
        self.was_accepted |= items > 0;
    }

    /// `items` in flight were written to the disk.
    pub(crate) fn stored(&mut self, items: u64) {
        let items = items.min(self.stats.in_flight);
        self.stats.in_flight -= items;
        self.stats.stored += items;
    }

    /// `items` on disk are sent.
    pub(crate) fn take_stored(&mut self, items: u64) -> u64 {
        let items = items.min(self.stats.stored);
        self.stats.stored -= items;
        self.stats.in_flight += items;
        items
    }

    /// `items` on disk were dropped.
    pub(crate) fn dropped_stored(&mut self, items: u64, reason: Reason) {
        let items = items.min(self.stats.stored);
        self.stats.stored -= items;
        self.stats.dropped.add(reason, items);
    }

    /// Items on disk.
    pub(crate) fn on_disk(&self) -> u64 {
        self.stats.stored
    }

    /// Counts one item that goes to a batch processor of the SDK. False: it must be dropped, there is no room or no
    /// receiver.
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

    /// The SDK begins to send `items` that it held: they count as in flight until they are settled. How many are still
    /// counted: none after [`abandon`](Self::abandon).
    pub(crate) fn take_held(&mut self, items: u64) -> u64 {
        let items = items.min(self.held);
        self.held -= items;
        self.stats.in_flight += items;
        items
    }

    /// `items` in flight were accepted, except `rejected` of them; `bytes` was the size of the request.
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

    /// `items` in flight were dropped.
    pub(crate) fn gave_up(&mut self, items: u64, reason: Reason) {
        let items = items.min(self.stats.in_flight);
        self.stats.in_flight -= items;
        self.stats.dropped.add(reason, items);
    }

    /// The counters, for those that concern nothing else here.
    pub(crate) fn stats_mut(&mut self) -> &mut SignalStats {
        &mut self.stats
    }

    /// Keeps the newest error.
    pub(crate) fn failed(&mut self, text: &str, at: SystemTime) {
        self.stats.last_error = Some(LastError {
            text: text.to_owned(),
            at,
        });
    }

    /// The counters at this moment.
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
