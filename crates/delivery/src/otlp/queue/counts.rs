//! Where items are and what became of them: in flight, on disk, held by the SDK, exported, dropped.

use std::time::SystemTime;

use tokio::time::Instant;

use super::Queue;
use crate::otlp::stats::{LastError, Reason, SignalStats};

impl Queue {
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
