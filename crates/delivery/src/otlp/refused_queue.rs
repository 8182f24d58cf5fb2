//! Requests that were refused and are sent again once others are accepted.
//!
//! Metrics with delta temporality are changes since the export before: one that is dropped is missing in every sum that
//! a receiver makes. A refusal (401, 400, INVALID_ARGUMENT ...) is often one of the moment: a token that is replaced, a
//! gateway that is configured anew. What is refused again and again is dropped at last, and holds nothing up meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::otlp::batch::Batch;

/// Encoded bytes that are kept.
const MOST_BYTES: usize = 1 << 20;
/// How often a request is sent again.
const MOST_TRIES: u32 = 8;
/// Between two requests that were refused.
const PAUSE: Duration = Duration::from_secs(60);

/// A request that was refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) batch: Arc<Batch>,
    /// How often it was sent again.
    pub(crate) tries: u32,
}

/// Refused requests, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct RefusedQueue {
    refused: VecDeque<Refused>,
    bytes: usize,
    /// The next one is not sent before.
    not_before: Option<Instant>,
}

impl RefusedQueue {
    /// Keeps a request that was refused. Items that are given up for it: its own after too many tries, or those of the
    /// oldest ones.
    #[must_use]
    pub(crate) fn put(&mut self, refused: Refused, now: Instant) -> u64 {
        if refused.tries > 0 {
            self.not_before = Some(now + PAUSE);
        }
        if refused.tries >= MOST_TRIES {
            return refused.batch.items();
        }
        self.bytes += refused.batch.len();
        self.refused.push_back(refused);
        let mut given_up = 0;
        while self.bytes > MOST_BYTES {
            let Some(oldest) = self.pop() else { break };
            given_up += oldest.batch.items();
        }
        given_up
    }

    /// The oldest, when it is time to send one.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Refused> {
        if self.not_before.is_some_and(|at| now < at) {
            return None;
        }
        self.pop()
    }

    /// Items of all of them, which are given up.
    pub(crate) fn clear(&mut self) -> u64 {
        let mut items = 0;
        while let Some(refused) = self.pop() {
            items += refused.batch.items();
        }
        items
    }

    fn pop(&mut self) -> Option<Refused> {
        let oldest = self.refused.pop_front()?;
        self.bytes = self.bytes.saturating_sub(oldest.batch.len());
        Some(oldest)
    }
}
