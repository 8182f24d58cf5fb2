//! The share of each tenant in the messages to one receiver. Pure.
//!
//! A tenant can have [`MESSAGES_EACH`] messages in [`WINDOW`]. Further incidents of a service and rule that had a
//! message in that time share one message per tenant and rule. This message is a separate alert. The alert starts
//! [`SUMMED_AFTER`] after the first of these incidents, is renewed once in each window, and ends after a window without
//! further incidents.
//!
//! # Invariants
//!
//! * The first message of a service and rule in a window, a rise to critical, and the end of a sent incident are always
//!   sent.
//! * If the start of an incident was not sent, its end is not sent either.
//! * All sets in memory are bounded. A forgotten incident counts as sent, so a receiver can get an end without a start.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use incidents::QuotaOwner;
use tokio::time::Instant;

use crate::alerts::labels::{RULE, SEVERITY};
use crate::alerts::message::{Change, Key, Message, Summary};

/// Maximum number of messages of a tenant in a window. A rollout of twenty processes with two incidents each fits.
pub(crate) const MESSAGES_EACH: usize = 40;

/// Period of the shares. Recordings have the same period: one recording for each rule of a service in ten minutes.
pub(crate) const WINDOW: Duration = Duration::from_secs(600);

/// Time from the first incident beyond the share to the message that sums up such incidents.
const SUMMED_AFTER: Duration = Duration::from_secs(60);

/// Maximum number of messages, of services with their rules, and of incidents without a message that are remembered.
/// Beyond this number, the oldest entry is forgotten.
const MAX_REMEMBERED: usize = 10_000;

/// Maximum number of tenants with their rules that have a summary at a time.
const MAX_SUMS: usize = 1000;

/// Maximum number of services that a summary names.
const MAX_NAMED: usize = 5;

/// The decision about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The message is sent.
    Send,
    /// The message is sent without the previous state, which the receiver never got.
    SendAlone,
    /// The message is not sent, but counted in the summary of its tenant and rule. `is_first` is whether the summary is
    /// new.
    SumUp { is_first: bool },
    /// The message cannot be counted, because there are too many summaries.
    Drop,
}

/// The shares of all tenants in the messages to one receiver.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Times of messages, with their tenants.
    sent: VecDeque<(Instant, Arc<str>)>,
    sent_each: BTreeMap<Arc<str>, usize>,
    /// Services and rules that had a message.
    known: RecentKeys<(QuotaOwner, String)>,
    /// Incidents whose start was not sent.
    unsent: RecentKeys<Key>,
    sums: BTreeMap<SumKey, Sum>,
    /// Tenants whose drops were logged.
    logged: RecentKeys<Arc<str>>,
}

/// A tenant, a rule and a severity.
type SumKey = (Arc<str>, String, String);

/// The incidents of a summary.
#[derive(Debug)]
struct Sum {
    message: Summary,
    first: Instant,
    newest: Instant,
    sent: Option<Instant>,
    /// Whether incidents were added since the message was sent.
    is_news: bool,
}

impl Sum {
    /// Returns the time at which the message is renewed or ends.
    fn due_at(&self) -> Instant {
        match self.sent {
            None => self.first + SUMMED_AFTER,
            Some(sent) if self.is_news => sent + WINDOW,
            Some(_) => self.newest + WINDOW,
        }
    }
}

impl Shares {
    /// Decides about a message that arrives now.
    pub(crate) fn judge(&mut self, message: &Message, now: Instant) -> Verdict {
        let key = message.incident;
        match message.change {
            Change::Again => Verdict::Send,
            Change::Rose { is_critical: true } if self.unsent.remove(&key) => Verdict::SendAlone,
            Change::Rose { .. } | Change::Explained if self.unsent.has(&key) => self.sum_up(message, now),
            Change::Rose { .. } => Verdict::Send,
            Change::Ended if self.unsent.has(&key) => {
                let verdict = self.sum_up(message, now);
                self.unsent.remove(&key);
                verdict
            }
            Change::Ended => Verdict::Send,
            Change::Began | Change::Explained => {
                let rule = message.labels.get(RULE).cloned().unwrap_or_default();
                self.known.forget(now);
                let is_first = message.change == Change::Began && self.known.insert((message.share.clone(), rule), now);
                if is_first || self.has_room(&message.share.tenant, now) {
                    self.sent.push_back((now, Arc::clone(&message.share.tenant)));
                    *self.sent_each.entry(Arc::clone(&message.share.tenant)).or_default() += 1;
                    return Verdict::Send;
                }
                if message.change == Change::Began {
                    self.unsent.insert(key, now);
                }
                self.sum_up(message, now)
            }
        }
    }

    /// Records that the start of this incident was dropped after the decision to send it.
    pub(crate) fn forget_sent(&mut self, incident: Key, now: Instant) {
        self.unsent.insert(incident, now);
    }

    /// Returns whether dropped messages of a tenant must be logged, which is the case at most once per window.
    pub(crate) fn is_drop_news(&mut self, tenant: &Arc<str>, now: Instant) -> bool {
        self.logged.forget(now);
        self.logged.insert(Arc::clone(tenant), now)
    }

    fn has_room(&mut self, tenant: &Arc<str>, now: Instant) -> bool {
        while let Some((at, oldest)) = self.sent.front() {
            if now < *at + WINDOW && self.sent.len() <= MAX_REMEMBERED {
                break;
            }
            if let Some(count) = self.sent_each.get_mut(oldest) {
                *count -= 1;
                if *count == 0 {
                    self.sent_each.remove(oldest);
                }
            }
            self.sent.pop_front();
        }
        self.sent_each.get(tenant).is_none_or(|count| *count < MESSAGES_EACH)
    }

    fn sum_up(&mut self, message: &Message, now: Instant) -> Verdict {
        let label = |name: &str| message.labels.get(name).cloned().unwrap_or_default();
        let key = (Arc::clone(&message.share.tenant), label(RULE), label(SEVERITY));
        if message.change == Change::Ended {
            return Verdict::SumUp { is_first: false };
        }
        let is_first = !self.sums.contains_key(&key);
        if is_first && self.sums.len() >= MAX_SUMS {
            return Verdict::Drop;
        }
        let sum = self.sums.entry(key).or_insert_with(|| Sum {
            message: Summary::new(message),
            first: now,
            newest: now,
            sent: None,
            is_news: true,
        });
        (sum.newest, sum.is_news) = (now, true);
        sum.message.add(&message.share.service, message.change, MAX_NAMED);
        Verdict::SumUp { is_first }
    }

    /// Returns the summaries that are due. With `all`, summaries with new incidents that are due later are included.
    pub(crate) fn due(&mut self, now: Instant, now_unix_ns: u64, all: bool) -> Vec<Message> {
        let mut due = Vec::new();
        self.sums.retain(|(tenant, rule, severity), sum| {
            let is_due = now >= sum.due_at();
            if !(is_due || all && sum.is_news) {
                return true;
            }
            let stays = sum.is_news;
            let ended = (!stays).then_some(now_unix_ns);
            due.push(sum.message.message(tenant, rule, severity, ended));
            (sum.sent, sum.is_news) = (Some(now), false);
            stays
        });
        due
    }

    /// Returns the time at which the next summary is due, or `None` if there are no summaries.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.sums.values().map(Sum::due_at).min()
    }
}

/// The newest keys, at most [`MAX_REMEMBERED`].
#[derive(Debug)]
struct RecentKeys<K> {
    /// The keys, with the number of their position in `order`.
    keys: BTreeMap<K, u64>,
    order: VecDeque<(Instant, u64, K)>,
    count: u64,
}

impl<K> Default for RecentKeys<K> {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            order: VecDeque::new(),
            count: 0,
        }
    }
}

impl<K: Ord + Clone> RecentKeys<K> {
    /// Adds a key. Returns whether it is new.
    fn insert(&mut self, key: K, now: Instant) -> bool {
        if self.keys.contains_key(&key) {
            return false;
        }
        self.count += 1;
        self.keys.insert(key.clone(), self.count);
        self.order.push_back((now, self.count, key));
        if self.order.len() > MAX_REMEMBERED {
            self.forget_oldest();
        }
        true
    }

    fn has(&self, key: &K) -> bool {
        self.keys.contains_key(key)
    }

    fn remove(&mut self, key: &K) -> bool {
        self.keys.remove(key).is_some()
    }

    /// Forgets keys that are older than a window.
    fn forget(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(at, ..)| now >= *at + WINDOW) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, number, key)) = self.order.pop_front()
            && self.keys.get(&key) == Some(&number)
        {
            self.keys.remove(&key);
        }
    }
}

/// Sorts items by turns: the first item of each tenant, then the second item of each tenant. The services of a tenant
/// take turns in the same way, and the items of a service are sorted by time.
pub(crate) fn in_turns<T>(things: impl Iterator<Item = (Instant, QuotaOwner, T)>) -> Vec<T> {
    let mut things: Vec<_> = things.collect();
    things.sort_by_key(|(at, ..)| *at);
    let mut of_services: BTreeMap<QuotaOwner, usize> = BTreeMap::new();
    let mut ranked: Vec<_> = things
        .into_iter()
        .map(|(at, share, thing)| {
            let next = of_services.entry(share.clone()).or_default();
            *next += 1;
            (*next, at, share.tenant, thing)
        })
        .collect();
    ranked.sort_by_key(|(turn, at, ..)| (*turn, *at));
    let mut of_tenants: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    let mut ranked: Vec<_> = ranked
        .into_iter()
        .map(|(_, at, tenant, thing)| {
            let next = of_tenants.entry(tenant).or_default();
            *next += 1;
            (*next, at, thing)
        })
        .collect();
    ranked.sort_by_key(|(turn, at, _)| (*turn, *at));
    ranked.into_iter().map(|(.., thing)| thing).collect()
}

#[cfg(test)]
mod tests;
