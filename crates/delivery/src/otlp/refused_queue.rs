//! Refused requests that are sent again once other requests are accepted.
//!
//! Metrics with delta temporality are changes since the previous export: a dropped change is missing in every sum that
//! a receiver computes. A refusal (401, 400, INVALID_ARGUMENT ...) is often temporary, for example while a token is
//! replaced or a gateway is reconfigured. A request that is refused repeatedly is finally dropped, and does not delay
//! other requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::otlp::batch::Batch;

/// Maximum number of encoded bytes that are kept.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of times that a request is sent again.
const MAX_TRIES: u32 = 8;
/// Time for which no refused request is sent again after another refusal of such a request.
const PAUSE: Duration = Duration::from_secs(60);

/// A refused request.
#[derive(Debug)]
pub(crate) struct RejectedRequest {
    pub(crate) batch: Arc<Batch>,
    /// Number of times that the request was sent again.
    pub(crate) tries: u32,
}

/// Refused requests, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RefusedQueue {
    refused: VecDeque<RejectedRequest>,
    bytes: usize,
    /// Time before which the next request is not sent; `None` if there is no such time.
    not_before: Option<Instant>,
}

impl RefusedQueue {
    /// Keeps a refused request. Returns the number of items that are dropped as a result: the items of this request
    /// after [`MAX_TRIES`] tries, or the items of the oldest requests beyond [`MAX_BYTES`].
    #[must_use]
    pub(crate) fn put(&mut self, refused: RejectedRequest, now: Instant) -> u64 {
        if refused.tries > 0 {
            self.not_before = Some(now + PAUSE);
        }
        if refused.tries >= MAX_TRIES {
            return refused.batch.items();
        }
        self.bytes += refused.batch.len();
        self.refused.push_back(refused);
        let mut given_up = 0;
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.pop() else { break };
            given_up += oldest.batch.items();
        }
        given_up
    }

    /// Removes and returns the oldest request, or returns `None` if there is no request or it is too early to send one.
    pub(crate) fn take(&mut self, now: Instant) -> Option<RejectedRequest> {
        if self.not_before.is_some_and(|at| now < at) {
            return None;
        }
        self.pop()
    }

    /// Drops all requests and returns the number of their items.
    pub(crate) fn clear(&mut self) -> u64 {
        let mut items = 0;
        while let Some(refused) = self.pop() {
            items += refused.batch.items();
        }
        items
    }

    fn pop(&mut self) -> Option<RejectedRequest> {
        let oldest = self.refused.pop_front()?;
        self.bytes = self.bytes.saturating_sub(oldest.batch.len());
        Some(oldest)
    }
}
