//! What must still be sent to a webhook: bounded, the oldest first, each change once. Pure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::alerts::message::Message;

/// Most changes that wait.
pub(crate) const MOST: usize = 1000;

/// How long a change is retried before it is dropped.
pub(crate) const RETRY_FOR: Duration = Duration::from_secs(3600);

/// The changes that wait.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<(Instant, Arc<Message>)>,
}

impl Outbox {
    /// Queues a change that waits since then. False: the oldest was dropped for it.
    #[must_use]
    pub(crate) fn put(&mut self, message: Arc<Message>, since: Instant) -> bool {
        let has_room = self.waiting.len() < MOST;
        if !has_room {
            self.waiting.pop_front();
        }
        self.waiting.push_back((since, message));
        has_room
    }

    /// The oldest change, which stays until it is [taken](Self::take).
    pub(crate) fn first(&self) -> Option<Arc<Message>> {
        self.waiting.front().map(|(_, message)| Arc::clone(message))
    }

    /// Removes that change, unless it was dropped already.
    pub(crate) fn take(&mut self, message: &Arc<Message>) {
        if self.first().is_some_and(|first| Arc::ptr_eq(&first, message)) {
            self.waiting.pop_front();
        }
    }

    /// Each change that waits, and since when.
    pub(crate) fn each(&self) -> impl Iterator<Item = &(Instant, Arc<Message>)> {
        self.waiting.iter()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Drops what was retried for too long. Returns how many that were.
    #[must_use]
    pub(crate) fn forget(&mut self, now: Instant) -> u64 {
        let before = self.waiting.len();
        self.waiting.retain(|(since, _)| now < *since + RETRY_FOR);
        (before - self.waiting.len()) as u64
    }
}
