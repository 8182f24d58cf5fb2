//! The items of one signal that wait to be sent: bounded, oldest first out, every item accounted for. Pure: time is an
//! argument.

mod counts;
mod due;
mod entries;

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use self::due::Due;
use crate::otlp::batch::Entry;
use crate::otlp::settings::Limits;
use crate::otlp::stats::{Reason, SignalStats};

/// How long gcwatch's own telemetry does not ask again for a signal that the receiver does not accept.
const UNSUPPORTED_FOR: Duration = Duration::from_secs(60);

/// After that time it is taken at its word: only so much waits that there is something to ask with.
const UNSUPPORTED_PATIENCE: Duration = Duration::from_secs(600);

/// So many bytes are written to the disk at once, without waiting.
pub(crate) const SPILL_BYTES: usize = 1 << 20;

/// The smallest limit on a request that is learned from a receiver's refusals.
const SMALLEST_LEARNED: usize = 64 << 10;

/// See [`Queue::entry_bytes`].
const LARGEST_JOINED: usize = 64 << 10;

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
            unsupported_since: None,
            unsupported_until: None,
            was_accepted: false,
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
}

#[cfg(test)]
mod tests;
