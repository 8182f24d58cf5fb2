//! The share of each tenant in the messages to one receiver: pure.
//!
//! A tenant has [`MESSAGES_EACH`] messages in [`WINDOW`]. Further incidents of a service and rule that had a message in
//! that time become one message per tenant and rule, which is a separate alert: it begins [`SUMMED_AFTER`] the first of
//! them, is renewed once in each window, and ends after a window without further incidents.
//!
//! # Invariants
//!
//! * The first message of a service and rule in a window, a rise to critical, and the end of an incident that was sent
//!   are never summed up.
//! * If the beginning of an incident was not sent, neither is its end.
//! * All collections are bounded. An incident that is forgotten counts as sent: a receiver can get an end too many.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gc_rules::incident::Share;
use tokio::time::Instant;

use crate::alerts::labels::{RULE, SEVERITY};
use crate::alerts::message::{Change, Key, Message, Summary};

/// Messages of a tenant in a window. A rollout of twenty processes with two incidents each fits.
pub(crate) const MESSAGES_EACH: usize = 40;

/// The time that shares are of. It is the one of recordings: one for each rule of a service in ten minutes.
pub(crate) const WINDOW: Duration = Duration::from_secs(600);

/// Time from the first incident that is summed up to the message about them.
const SUMMED_AFTER: Duration = Duration::from_secs(60);

/// Maximum number of messages, services with their rules, and incidents without a message that are remembered. Of more,
/// the oldest is forgotten.
const MAX_REMEMBERED: usize = 10_000;

/// Maximum number of tenants with their rules that have a message about several incidents at a time.
const MAX_SUMS: usize = 1000;

/// Maximum number of services that such a message names.
const MAX_NAMED: usize = 5;

/// The decision about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The message is sent.
    Send,
    /// The message is sent without the state before it, which the receiver never got.
    SendAlone,
    /// The message is not sent, but counted in the message of its tenant and rule. `is_first`: no other one was.
    SumUp { is_first: bool },
    /// There is no room to count the message.
    Drop,
}

/// The shares in the messages to one receiver.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Times of messages, with their tenants.
    sent: VecDeque<(Instant, Arc<str>)>,
    sent_each: BTreeMap<Arc<str>, usize>,
    /// Services and rules that had a message.
    known: Recent<(Share, String)>,
    /// Incidents whose beginning was not sent.
    unsent: Recent<Key>,
    sums: BTreeMap<SumKey, Sum>,
    /// Tenants whose drops were logged.
    logged: Recent<Arc<str>>,
}

/// A tenant, a rule and a severity.
type SumKey = (Arc<str>, String, String);

/// The incidents that are one message.
#[derive(Debug)]
struct Sum {
    message: Summary,
    first: Instant,
    newest: Instant,
    sent: Option<Instant>,
    /// Whether incidents came since the message was sent.
    is_news: bool,
}

impl Sum {
    /// Returns when the message is renewed or ends.
    fn due_at(&self) -> Instant {
        match self.sent {
            None => self.first + SUMMED_AFTER,
            Some(sent) if self.is_news => sent + WINDOW,
            Some(_) => self.newest + WINDOW,
        }
    }
}

impl Shares {
    /// Decides about a message that comes now.
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

    /// The beginning of this incident was dropped after it was judged.
    pub(crate) fn forget_sent(&mut self, incident: Key, now: Instant) {
        self.unsent.insert(incident, now);
    }

    /// Returns whether the log must name the drops of a tenant: once in a window.
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
            message: Summary::of(message),
            first: now,
            newest: now,
            sent: None,
            is_news: true,
        });
        (sum.newest, sum.is_news) = (now, true);
        sum.message.add(&message.share.service, message.change, MAX_NAMED);
        Verdict::SumUp { is_first }
    }

    /// Returns the messages about several incidents that are due. `all`: also those that are due later.
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

    /// Returns when a message about several incidents is due next.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.sums.values().map(Sum::due_at).min()
    }
}

/// The newest keys, at most [`MAX_REMEMBERED`].
#[derive(Debug)]
struct Recent<K> {
    /// The keys, with the number of their place in `order`.
    keys: BTreeMap<K, u64>,
    order: VecDeque<(Instant, u64, K)>,
    count: u64,
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            order: VecDeque::new(),
            count: 0,
        }
    }
}

impl<K: Ord + Clone> Recent<K> {
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

    /// Forgets the keys that are older than a window.
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

/// Puts the things of tenants into turns: the first of each tenant, then the second. Within a tenant its services have
/// turns likewise, and within a service the earlier thing comes first.
pub(crate) fn in_turns<T>(things: impl Iterator<Item = (Instant, Share, T)>) -> Vec<T> {
    let mut things: Vec<_> = things.collect();
    things.sort_by_key(|(at, ..)| *at);
    let mut of_services: BTreeMap<Share, usize> = BTreeMap::new();
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
