//! The alerts for an Alertmanager, and the times at which they are sent. Pure.
//!
//! An Alertmanager gets states instead of changes: firing alerts at intervals, and resolved alerts for
//! [`RESOLVED_FOR`]. Therefore, a change is lost only if the Alertmanager stays unavailable for this time after the end
//! of an alert. The number of queued messages is bounded by the number of alerts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use incidents::QuotaOwner;
use tokio::time::Instant;

use crate::alerts::labels::Labels;
use crate::alerts::message::Message;
use crate::alerts::shares::in_turns;

/// Time for which a resolved alert is sent, for an Alertmanager that was unavailable and for other members of its
/// cluster.
pub(crate) const RESOLVED_FOR: Duration = Duration::from_secs(300);

/// Maximum number of alerts for one Alertmanager.
pub(crate) const MAX_ALERTS: usize = 10_000;

#[derive(Debug)]
struct Entry {
    message: Arc<Message>,
    /// Time at which the alert got its current state.
    since: Instant,
    /// Time at which the alert was last sent or refused; `None` if the current state was neither sent nor refused.
    last: Option<Instant>,
    /// Whether the current state was sent.
    sent: bool,
    /// Whether the alert was refused because of its content. A refused alert is not sent again until it fires again.
    given_up: bool,
}

/// The alerts for one Alertmanager, by labels.
#[derive(Debug)]
pub(crate) struct FiringAlerts {
    resend: Duration,
    entries: BTreeMap<Arc<Labels>, Entry>,
}

impl FiringAlerts {
    pub(crate) fn new(resend: Duration) -> Self {
        Self {
            resend,
            entries: BTreeMap::new(),
        }
    }

    /// Sets a new state of an alert. Returns the alert that does not fit, if there is one: either this alert, or the
    /// oldest alert of the largest service of the largest tenant.
    #[must_use]
    pub(crate) fn put(&mut self, message: Arc<Message>, now: Instant) -> Option<Arc<Message>> {
        let key = Arc::clone(&message.labels);
        let known = self.entries.get(&key);
        if known.is_some_and(|entry| entry.given_up) && !message.is_firing() {
            self.entries.remove(&key);
            return None;
        }
        let mut lost = None;
        if known.is_none() && self.entries.len() >= MAX_ALERTS && !self.make_room() {
            let Some(of_other) = self.find_alert_of_greater_share(&message) else {
                return Some(message);
            };
            lost = self.entries.remove(&of_other).map(|entry| entry.message);
        }
        let entry = Entry {
            message,
            since: now,
            last: None,
            sent: false,
            given_up: false,
        };
        self.entries.insert(key, entry);
        lost
    }

    /// Returns the oldest alert of the largest service of the largest tenant. Returns `None` unless this tenant has at
    /// least two alerts more than the tenant of the message. Within the tenant of the message, the same applies to the
    /// services.
    fn find_alert_of_greater_share(&self, message: &Message) -> Option<Arc<Labels>> {
        let mut of_tenants: BTreeMap<&str, usize> = BTreeMap::new();
        let mut of_services: BTreeMap<&QuotaOwner, usize> = BTreeMap::new();
        for share in self.entries.values().map(|entry| &entry.message.share) {
            *of_tenants.entry(&share.tenant).or_default() += 1;
            *of_services.entry(share).or_default() += 1;
        }
        let of = |share: &QuotaOwner| {
            let of_tenant = of_tenants.get(&*share.tenant).copied().unwrap_or(0);
            (of_tenant, of_services.get(share).copied().unwrap_or(0))
        };
        let most = of_services.keys().copied().max_by_key(|share| of(share))?;
        let is_same_tenant = most.tenant == message.share.tenant;
        let (most_of_tenant, most_of_service) = of(most);
        let (of_tenant, of_service) = of(&message.share);
        let is_greater = if is_same_tenant {
            most_of_service > of_service + 1
        } else {
            most_of_tenant > of_tenant + 1
        };
        let of_most = self.entries.iter().filter(|(_, entry)| entry.message.share == *most);
        let oldest = of_most.min_by_key(|(_, entry)| entry.since).filter(|_| is_greater);
        oldest.map(|(key, _)| Arc::clone(key))
    }

    /// Sets newer texts of a state. The texts are sent when the alert is due, not earlier.
    pub(crate) fn refresh(&mut self, message: &Arc<Message>) {
        if let Some(entry) = self.entries.get_mut(&message.labels)
            && entry.message.is_state_of(message)
        {
            entry.message = Arc::clone(message);
        }
    }

    /// Forgets the alert that resolved first, of the alerts whose end was sent. Returns whether there was such an
    /// alert.
    fn make_room(&mut self) -> bool {
        let over = |entry: &&(&Arc<Labels>, &Entry)| entry.1.sent && !entry.1.message.is_firing();
        let all = self.entries.iter().collect::<Vec<_>>();
        let oldest = all.iter().filter(over).min_by_key(|(_, entry)| entry.since);
        let Some(key) = oldest.map(|(key, _)| Arc::clone(key)) else {
            return false;
        };
        self.entries.remove(&key);
        true
    }

    fn due_at(&self, entry: &Entry) -> Option<Instant> {
        match entry.last {
            _ if entry.given_up => None,
            None => Some(entry.since),
            Some(last) => Some(last + self.resend),
        }
    }

    /// Returns at most `most` alerts that are due now. Tenants and their services are served in turn, and the alert of
    /// a service that has waited longest is first.
    pub(crate) fn due(&self, now: Instant, most: usize) -> Vec<Arc<Message>> {
        let due = self
            .entries
            .values()
            .filter_map(|entry| Some((self.due_at(entry)?, entry)))
            .filter(|(at, _)| *at <= now)
            .map(|(at, entry)| (at, entry.message.share.clone(), &entry.message));
        let mut due = in_turns(due);
        due.truncate(most);
        due.into_iter().map(Arc::clone).collect()
    }

    /// Returns the number of alerts that are due now.
    pub(crate) fn count_due(&self, now: Instant) -> u64 {
        let due = |entry: &&Entry| self.due_at(entry).is_some_and(|at| at <= now);
        self.entries.values().filter(due).count() as u64
    }

    /// Returns the number of states that have never been sent.
    pub(crate) fn unsent(&self) -> u64 {
        let unsent = |entry: &&Entry| !entry.sent && !entry.given_up;
        self.entries.values().filter(unsent).count() as u64
    }

    /// Returns the time at which the next alert is due or can be forgotten, or `None` if there is no such alert.
    pub(crate) fn next(&self) -> Option<Instant> {
        let each = self.entries.values().flat_map(|entry| {
            let over = (!entry.message.is_firing()).then(|| entry.since + RESOLVED_FOR);
            [self.due_at(entry), over]
        });
        each.flatten().min()
    }

    /// Records that alerts were sent. Alerts that changed during the request are still due.
    pub(crate) fn sent(&mut self, messages: &[Arc<Message>], now: Instant) {
        self.each_of(messages, |entry| {
            entry.last = Some(now);
            entry.sent = true;
        });
    }

    /// Records that alerts were not accepted, for a reason outside their content. These alerts are due again after the
    /// interval.
    pub(crate) fn put_off(&mut self, messages: &[Arc<Message>], now: Instant) {
        self.each_of(messages, |entry| entry.last = Some(now));
    }

    /// Records that alerts were refused because of their content.
    pub(crate) fn give_up(&mut self, messages: &[Arc<Message>]) {
        self.each_of(messages, |entry| entry.given_up = true);
        self.entries
            .retain(|_, entry| !entry.given_up || entry.message.is_firing());
    }

    fn each_of(&mut self, messages: &[Arc<Message>], change: impl Fn(&mut Entry)) {
        for message in messages {
            if let Some(entry) = self.entries.get_mut(&message.labels)
                && entry.message.is_state_of(message)
            {
                change(entry);
            }
        }
    }

    /// Forgets alerts that resolved at least [`RESOLVED_FOR`] ago. Returns the number of ends that were never sent.
    #[must_use]
    pub(crate) fn forget(&mut self, now: Instant) -> u64 {
        let mut unsent = 0;
        self.entries.retain(|_, entry| {
            let over = !entry.message.is_firing() && now >= entry.since + RESOLVED_FOR;
            unsent += u64::from(over && !entry.sent);
            !over
        });
        unsent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::labels::fingerprint;

    const RESEND: Duration = Duration::from_secs(60);

    fn message(name: usize, ended: bool) -> Arc<Message> {
        let labels = Labels::from([("alertname".to_owned(), format!("{name:05}"))]);
        Arc::new(Message::test(fingerprint(&labels), labels, ended))
    }

    fn firing(messages: &[Arc<Message>], now: Instant) -> FiringAlerts {
        let mut firing = FiringAlerts::new(RESEND);
        for message in messages {
            assert_eq!(firing.put(Arc::clone(message), now), None);
        }
        firing
    }

    /// Scenario: an alert fires for three intervals and then ends; an hour passes.
    /// Guarantee: the alert is due at once and after each interval; its end is due at once and then for five minutes;
    /// afterwards the alert is forgotten.
    #[test]
    fn alert_is_due_at_intervals() {
        let begin = Instant::now();
        let mut now = begin;
        let mut firing = firing(&[message(1, false)], begin);
        let mut sent = Vec::new();
        let mut ended = None;
        while let Some(next) = firing.next().filter(|next| *next < begin + Duration::from_secs(3600)) {
            now = now.max(next);
            assert_eq!(firing.forget(now), 0, "its end was sent");
            let due = firing.due(now, 10);
            for message in &due {
                sent.push((now.duration_since(begin).as_secs(), message.is_firing()));
            }
            firing.sent(&due, now);
            if ended.is_none() && now >= begin + 2 * RESEND {
                now += Duration::from_secs(30);
                assert_eq!(firing.put(message(1, true), now), None);
                ended = Some(now);
            }
        }
        let expected = [
            (0, true),
            (60, true),
            (120, true),
            (150, false),
            (210, false),
            (270, false),
            (330, false),
            (390, false),
        ];
        assert_eq!(sent, expected);
        assert_eq!((firing.unsent(), firing.next()), (0, None));
    }

    /// Scenario: an alert ends while the request with its start is being sent; another alert is refused while it fires,
    /// then ends, and fires again.
    /// Guarantee: the end of the first alert is still due; the second alert is not sent until it fires again.
    #[test]
    fn change_during_request_is_still_due() {
        let now = Instant::now();
        let mut firing = firing(&[message(1, false), message(2, false)], now);
        let under_way = firing.due(now, 10);
        assert_eq!(firing.put(message(1, true), now), None);
        firing.sent(&under_way[..1], now);
        firing.give_up(&under_way[1..]);
        let due = firing.due(now, 10);
        assert!(due.len() == 1 && !due[0].is_firing(), "{due:?}");
        assert_eq!(firing.put(message(2, true), now), None);
        assert_eq!(firing.count_due(now), 1);
        // The alert can fire again, and be accepted this time.
        assert_eq!(firing.put(message(2, false), now), None);
        assert_eq!(firing.count_due(now), 2);
    }

    /// Scenario: there are more alerts than fit; the end of one alert is sent, and the end of another alert is never
    /// sent.
    /// Guarantee: further alerts are refused until a sent end makes room; ends that were never sent are counted when
    /// they are forgotten.
    #[test]
    fn firing_alerts_are_bounded() {
        let now = Instant::now();
        let all: Vec<Arc<Message>> = (0..MAX_ALERTS).map(|name| message(name, false)).collect();
        let mut firing = firing(&all, now);
        assert!(firing.put(message(MAX_ALERTS, false), now).is_some());
        assert_eq!(
            firing.put(message(7, true), now),
            None,
            "a change of a known alert fits"
        );
        assert!(
            firing.put(message(MAX_ALERTS, false), now).is_some(),
            "its end is not sent yet"
        );
        let due = firing.due(now, MAX_ALERTS);
        firing.sent(&due, now);
        assert_eq!(firing.put(message(MAX_ALERTS, false), now), None);
        assert_eq!(firing.put(message(8, true), now), None);
        assert_eq!(firing.forget(now + RESOLVED_FOR), 1);
        assert_eq!(firing.unsent(), 1);
    }
}
