//! The items of one signal that wait to be sent: bounded, oldest first out, every item accounted for. Pure: time is an
//! argument.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::otlp::batch::Entry;
use crate::otlp::settings::Limits;
use crate::otlp::stats::{LastError, Reason, SignalStats};

/// How long a signal that the receiver does not accept is not sent, before one request asks again.
pub(crate) const UNSUPPORTED_FOR: Duration = Duration::from_secs(600);

/// The smallest limit on a request that is learned from a receiver's refusals.
const SMALLEST_LEARNED: usize = 64 << 10;

/// So many bytes are sent without waiting for more: larger requests are not cheaper, and what waits costs memory.
const WORTH_SENDING: usize = 256 << 10;

/// See [`Queue::entry_bytes`].
const LARGEST_JOINED: usize = 64 << 10;

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
    /// What was dropped; the caller frees it, without the lock.
    pub(crate) dropped: Vec<Entry>,
}

/// The queue of one signal and its counters.
#[derive(Debug)]
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
    unsupported_until: Option<Instant>,
    /// The receiver's limit on one request, learned from its refusals.
    learned_bytes: Option<usize>,
    /// Items that the SDK's batch processors hold (see [`crate::otlp::own`]): counted here, not queued here.
    held: u64,
    stats: SignalStats,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            limits: Limits::default(),
            entries: VecDeque::new(),
            bytes: 0,
            items: 0,
            weight: 0,
            waiting_since: None,
            entered: 0,
            flush_to: 0,
            sending_from: None,
            closing: false,
            unsupported_until: None,
            learned_bytes: None,
            held: 0,
            stats: SignalStats::default(),
        }
    }

    /// Sets the limits, and whether the signal is exported. What was learned about the receiver is forgotten unless it
    /// is the same.
    pub(crate) fn configure(&mut self, limits: Limits, configured: bool, same_receiver: bool) -> Vec<Entry> {
        self.limits = limits;
        self.stats.configured = configured;
        if !same_receiver {
            self.unsupported_until = None;
            self.learned_bytes = None;
        }
        if configured {
            self.make_room()
        } else {
            self.drop_all(Reason::Disabled)
        }
    }

    /// Whether entries given now would be queued; else they need not be encoded.
    pub(crate) fn takes(&self, now: Instant) -> bool {
        self.stats.configured && !self.closing && !self.is_unsupported(now)
    }

    /// Messages are joined into one entry up to so many bytes, so that a batch can always be halved.
    pub(crate) fn entry_bytes(&self) -> usize {
        LARGEST_JOINED.min(self.batch_bytes() / 4)
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
            Reason::Unsupported
        };
        self.stats.dropped.add(reason, items);
    }

    /// Queues `new`; the oldest entries are dropped when there is no room.
    pub(crate) fn push(&mut self, now: Instant, new: Vec<Entry>) -> Pushed {
        if !self.takes(now) {
            self.count_dropped(new.iter().map(Entry::items).sum());
            return Pushed {
                wake: false,
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
            self.bytes += entry.bytes();
            self.items += entry.items();
            self.weight += entry.weight();
            self.entered += 1;
            self.entries.push_back(entry);
        }
        let mut dropped = self.make_room();
        dropped.append(&mut too_large);
        if !self.entries.is_empty() {
            self.waiting_since.get_or_insert(now);
        }
        Pushed {
            wake: due != Due::Now && due != self.due(now),
            dropped,
        }
    }

    /// When the next batch must be sent.
    pub(crate) fn due(&self, now: Instant) -> Due {
        let Some(since) = self.waiting_since.filter(|_| !self.entries.is_empty()) else {
            return if self.closing { Due::Done } else { Due::Never };
        };
        let at = since + self.limits.batch_delay;
        let full = self.weight >= self.limits.batch_items || self.bytes >= self.batch_bytes().min(WORTH_SENDING);
        if full || self.closing || self.oldest() < self.flush_to || at <= now {
            Due::Now
        } else {
            Due::At(at)
        }
    }

    /// The oldest entries, as many as fit in one request; they count as in flight until each is settled.
    pub(crate) fn take(&mut self) -> Vec<Entry> {
        let mut resources = HashSet::new();
        let mut bytes = 0;
        let (mut weight, mut count) = (0, 0);
        for entry in &self.entries {
            bytes += entry.bytes();
            weight += entry.weight();
            if resources.insert(entry.resource_key()) {
                bytes += entry.resource_bytes();
            }
            if (bytes > self.batch_bytes() || weight > self.limits.batch_items) && count > 0 {
                break;
            }
            count += 1;
        }
        self.sending_from = (count > 0).then(|| self.oldest());
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

    /// Counts one item that goes to a batch processor of the SDK. False: it must be dropped, there is no room or no
    /// receiver.
    #[must_use]
    pub(crate) fn hold(&mut self, now: Instant, most: u64) -> bool {
        if !self.takes(now) {
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
        self.unsupported_until = None;
    }

    /// `items` in flight were dropped.
    pub(crate) fn gave_up(&mut self, items: u64, reason: Reason) {
        let items = items.min(self.stats.in_flight);
        self.stats.in_flight -= items;
        self.stats.dropped.add(reason, items);
    }

    /// Nothing of the batch taken last is in flight any more.
    pub(crate) fn finish(&mut self) {
        self.sending_from = None;
    }

    /// The receiver refused a request of `bytes` as too large.
    pub(crate) fn learn_limit(&mut self, bytes: usize) {
        self.learned_bytes = Some((bytes / 2).max(SMALLEST_LEARNED));
    }

    /// The receiver does not accept this signal: what waits is dropped, and what comes for a while. True when that is
    /// new.
    pub(crate) fn unsupported(&mut self, now: Instant) -> (bool, Vec<Entry>) {
        let news = self.unsupported_until.is_none();
        self.unsupported_until = Some(now + UNSUPPORTED_FOR);
        (news, self.drop_all(Reason::Unsupported))
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

    /// Makes everything in the queue due at once. Returns a mark for [`is_settled`](Self::is_settled).
    pub(crate) fn mark_flush(&mut self) -> u64 {
        self.flush_to = self.entered;
        self.entered
    }

    /// Whether everything that came before `mark` was sent or dropped.
    pub(crate) fn is_settled(&self, mark: u64) -> bool {
        self.oldest() >= mark && self.sending_from.is_none_or(|from| from >= mark)
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
            unsupported: self.unsupported_until.is_some(),
            ..self.stats.clone()
        }
    }

    /// The number of the oldest entry that waits, or of the next to come.
    fn oldest(&self) -> u64 {
        self.entered - self.entries.len() as u64
    }

    fn batch_bytes(&self) -> usize {
        self.learned_bytes
            .map_or(self.limits.batch_bytes, |learned| learned.min(self.limits.batch_bytes))
    }

    /// While it is, nothing is queued; after that the next batch asks again.
    fn is_unsupported(&self, now: Instant) -> bool {
        self.unsupported_until.is_some_and(|until| now < until)
    }

    fn make_room(&mut self) -> Vec<Entry> {
        let mut dropped = Vec::new();
        while self.weight > self.limits.queue_items || self.bytes > self.limits.queue_bytes {
            let Some(entry) = self.entries.pop_front() else { break };
            self.bytes -= entry.bytes();
            self.items -= entry.items();
            self.weight -= entry.weight();
            self.stats.dropped.add(Reason::QueueFull, entry.items());
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
}

#[cfg(test)]
mod tests;
