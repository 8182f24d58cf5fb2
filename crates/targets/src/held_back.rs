//! Outcomes that wait for the requests that their collections stopped. Pure: the caller passes the time.

use std::collections::VecDeque;
use std::time::Duration;

use clr_gc::gc::Outcome;
use gc_requests::impact::Impacts;
use tokio::time::Instant;

use crate::requests::Batch;

/// Maximum number of waiting outcomes, sufficient for a process that collects 500 times per second. If more outcomes
/// wait, the oldest outcomes are released early.
const MAX_HELD: usize = 1_024;
/// Measured memory of an outcome including its heap allocations, in bytes.
const OUTCOME_BYTES: usize = 1_400;

/// The waiting outcomes in order of arrival, each with the time of its release.
#[derive(Debug)]
pub(crate) struct HeldBack {
    wait: Duration,
    outcomes: VecDeque<(Instant, Outcome)>,
    impacts: Impacts,
    /// Tick of the stream since which every request has been observed; `None` if unknown.
    since_ticks: Option<i64>,
}

impl HeldBack {
    pub(crate) fn new(wait: Duration) -> Self {
        Self {
            wait,
            outcomes: VecDeque::new(),
            impacts: Impacts::default(),
            since_ticks: None,
        }
    }

    pub(crate) fn push(&mut self, outcome: Outcome, now: Instant) {
        self.outcomes.push_back((now + self.wait, outcome));
    }

    pub(crate) fn take(&mut self, batch: &Batch) {
        self.since_ticks = batch.since_ticks;
        for request in batch.requests.iter().filter(|request| !request.ended.is_part) {
            self.impacts.add(request);
        }
    }

    /// Returns the estimated heap memory of the waiting outcomes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.outcomes.len() * OUTCOME_BYTES
    }

    /// Returns the time at which the next outcome is released, or `None` if no outcome waits.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.outcomes.front().map(|(at, _)| *at)
    }

    /// Returns the next outcome with its impact on requests, or `None` if no outcome waits or the next outcome is not
    /// due yet. Every outcome is due if `now` is `None`, and the next outcome is due if more than [`MAX_HELD`] outcomes
    /// wait. `sync_ticks` is the tick of the sync point in the stream of the outcomes.
    pub(crate) fn pop(&mut self, now: Option<Instant>, sync_ticks: i64) -> Option<Outcome> {
        let is_over = self.outcomes.len() > MAX_HELD;
        let (at, _) = self.outcomes.front()?;
        if !is_over && now.is_some_and(|now| now < *at) {
            return None;
        }
        let (_, mut outcome) = self.outcomes.pop_front()?;
        if let Outcome::Collection(collection) = &mut outcome {
            let begin = collection.start.map(|start| sync_ticks.saturating_add(start));
            let is_known = self.since_ticks.zip(begin).is_some_and(|(since, begin)| since <= begin);
            // If every request since the start of the collection was observed, a collection without an entry stopped no
            // request.
            let impact = self.impacts.take(collection.number);
            collection.requests = impact.or_else(|| is_known.then(Default::default));
        }
        Some(outcome)
    }
}
