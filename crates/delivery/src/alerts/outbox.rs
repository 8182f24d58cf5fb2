//! The changes that wait for a webhook: bounded, each change once, tenants in turn. Pure.
//!
//! The changes of a service are sent in order. Tenants are served in turn, and the services of a tenant are served in
//! turn, so a tenant with many changes does not delay other tenants. If the queue is full, changes of the largest
//! service of the largest tenant are dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use incidents::QuotaOwner;
use tokio::time::Instant;

use crate::alerts::message::{Change, Message};

/// Maximum number of waiting changes.
pub(crate) const MAX_CHANGES: usize = 1000;

/// Time for which a change is retried before it is dropped.
pub(crate) const RETRY_FOR: Duration = Duration::from_secs(3600);

/// The waiting changes.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// The changes of each service with changes.
    lanes: BTreeMap<QuotaOwner, Lane>,
    /// Number of the last turn of each tenant with changes.
    tenants: BTreeMap<Arc<str>, u64>,
    waiting: usize,
    /// Number of turns and changes so far.
    count: u64,
}

/// The changes of a service, oldest first.
#[derive(Debug)]
struct Lane {
    /// Number of the last turn of the service.
    turn: u64,
    changes: VecDeque<WaitingMessage>,
}

/// A waiting change.
#[derive(Debug, Clone)]
pub(crate) struct WaitingMessage {
    number: u64,
    pub(crate) since: Instant,
    pub(crate) message: Arc<Message>,
}

impl Outbox {
    /// Queues a change that has waited since `since`. Returns the changes that were dropped for it.
    #[must_use]
    pub(crate) fn put(&mut self, message: Arc<Message>, since: Instant) -> Vec<Arc<Message>> {
        self.count += 1;
        let number = self.count;
        self.tenants.entry(Arc::clone(&message.share.tenant)).or_insert(number);
        let lane = self.lanes.entry(message.share.clone()).or_insert_with(|| Lane {
            turn: number,
            changes: VecDeque::new(),
        });
        lane.changes.push_back(WaitingMessage { number, since, message });
        self.waiting += 1;
        if self.waiting > MAX_CHANGES {
            self.make_room()
        } else {
            Vec::new()
        }
    }

    /// Drops a change of the largest service of the largest tenant: the oldest change that is neither an end nor a rise
    /// of the severity, or the oldest change if there is no other. Together with the start of an incident, the later
    /// changes of this incident are dropped. Returns the dropped changes.
    fn make_room(&mut self) -> Vec<Arc<Message>> {
        let mut of_tenants: BTreeMap<&str, usize> = BTreeMap::new();
        for (share, lane) in &self.lanes {
            *of_tenants.entry(&share.tenant).or_default() += lane.changes.len();
        }
        let most = self.lanes.iter().max_by_key(|(share, lane)| {
            let of_tenant = of_tenants.get(&*share.tenant).copied();
            let oldest = lane.changes.front().map(|waiting| std::cmp::Reverse(waiting.number));
            (of_tenant, lane.changes.len(), oldest)
        });
        let Some(share) = most.map(|(share, _)| share.clone()) else {
            return Vec::new();
        };
        let Some(lane) = self.lanes.get_mut(&share) else {
            return Vec::new();
        };
        // Ends of sent incidents and rises of the severity are dropped last.
        let is_spare =
            |waiting: &WaitingMessage| !matches!(waiting.message.change, Change::Ended | Change::Rose { .. });
        let place = lane.changes.iter().position(is_spare).unwrap_or(0);
        let Some(first) = lane.changes.remove(place) else {
            return Vec::new();
        };
        let mut dropped = vec![first.message];
        // The receiver never gets the incident, so its later changes are dropped, too.
        if let Some(began) = dropped
            .first()
            .filter(|message| message.change == Change::Began)
            .cloned()
        {
            lane.changes.retain(|waiting| {
                let is_of_it = waiting.message.incident == began.incident;
                if is_of_it {
                    dropped.push(Arc::clone(&waiting.message));
                }
                !is_of_it
            });
        }
        self.waiting -= dropped.len();
        self.tidy();
        dropped
    }

    /// Removes services and tenants without changes.
    fn tidy(&mut self) {
        self.lanes.retain(|_, lane| !lane.changes.is_empty());
        let lanes = &self.lanes;
        self.tenants
            .retain(|tenant, _| lanes.keys().any(|share| share.tenant == *tenant));
    }

    /// Returns the next change, or `None` if no change waits. The change stays in the queue until [`take`](Self::take)
    /// removes it.
    pub(crate) fn first(&self) -> Option<Arc<Message>> {
        let next = self
            .lanes
            .iter()
            .min_by_key(|(share, lane)| (self.tenants.get(&share.tenant).copied(), lane.turn));
        let (_, lane) = next?;
        lane.changes.front().map(|waiting| Arc::clone(&waiting.message))
    }

    /// Removes a change, unless it was already dropped.
    pub(crate) fn take(&mut self, message: &Arc<Message>) {
        let Some(lane) = self.lanes.get_mut(&message.share) else {
            return;
        };
        let is_first = |waiting: &WaitingMessage| Arc::ptr_eq(&waiting.message, message);
        if lane.changes.front().is_some_and(is_first) {
            lane.changes.pop_front();
            self.count += 1;
            lane.turn = self.count;
            self.waiting -= 1;
            self.tenants.insert(Arc::clone(&message.share.tenant), self.count);
            self.tidy();
        }
    }

    /// Returns all waiting changes, oldest first.
    pub(crate) fn each(&self) -> Vec<&WaitingMessage> {
        let mut all: Vec<_> = self.lanes.values().flat_map(|lane| &lane.changes).collect();
        all.sort_by_key(|waiting| waiting.number);
        all
    }

    /// Returns the number of waiting changes.
    pub(crate) fn len(&self) -> u64 {
        self.waiting as u64
    }

    /// Drops changes that have waited for [`RETRY_FOR`]. Returns their number.
    #[must_use]
    pub(crate) fn forget(&mut self, now: Instant) -> u64 {
        let before = self.waiting;
        for lane in self.lanes.values_mut() {
            lane.changes.retain(|waiting| now < waiting.since + RETRY_FOR);
        }
        self.waiting = self.lanes.values().map(|lane| lane.changes.len()).sum();
        let expired = before - self.waiting;
        if expired > 0 {
            self.tidy();
        }
        expired as u64
    }
}

#[cfg(test)]
mod tests;
