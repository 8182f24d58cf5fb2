//! Outcomes that wait for the requests that they hit: pure.

use std::collections::VecDeque;
use std::time::Duration;

use clr_gc::gc::Outcome;
use gc_requests::impact::Impacts;
use tokio::time::Instant;

use crate::requests::Batch;

/// Outcomes that wait at most: those of a process that collects five hundred times a second. More are given out early.
const MAX_HELD: usize = 1_024;
/// What one takes, with what it has on the heap (measured: 1.4 KB).
const OUTCOME_BYTES: usize = 1_400;

/// Outcomes in their order, with the time at which each is given out.
#[derive(Debug)]
pub(crate) struct HeldBack {
    wait: Duration,
    outcomes: VecDeque<(Instant, Outcome)>,
    impacts: Impacts,
    /// From this tick on, every request was seen.
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

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.outcomes.len() * OUTCOME_BYTES
    }

    /// When the next one is given out.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.outcomes.front().map(|(at, _)| *at)
    }

    /// The next one whose time has come (`now` of `None`: any), with what it did to requests. `sync_ticks`: of the
    /// stream that the outcomes are of.
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
            // One that stopped none is known to have, where all requests were seen.
            let impact = self.impacts.take(collection.number);
            collection.requests = impact.or_else(|| is_known.then(Default::default));
        }
        Some(outcome)
    }
}
