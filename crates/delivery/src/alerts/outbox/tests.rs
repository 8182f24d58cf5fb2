//! Tests of a tenant with many changes next to a tenant with few.

use base::run_key::RunKey;

use super::*;
use crate::alerts::labels::Labels;

fn message(tenant: &str, service: &str, incident: u64, change: Change) -> Arc<Message> {
    let mut message = Message::test(incident, Labels::new(), change == Change::Ended);
    message.share = QuotaOwner {
        tenant: tenant.into(),
        service: service.into(),
    };
    message.incident = (RunKey { pid: 7, start_time: 1 }, incident);
    message.change = change;
    Arc::new(message)
}

fn begin(outbox: &mut Outbox, tenant: &str, service: &str, incident: u64) -> Vec<Arc<Message>> {
    outbox.put(message(tenant, service, incident, Change::Began), Instant::now())
}

/// Takes at most `most` changes. Returns their tenants and services.
fn sent(outbox: &mut Outbox, most: usize) -> Vec<String> {
    let mut sent = Vec::new();
    while let Some(first) = outbox.first().filter(|_| sent.len() < most) {
        sent.push(format!("{} {}", first.share.tenant, first.share.service));
        outbox.take(&first);
    }
    sent
}

/// Scenario: 507 changes of one service wait (a crash loop with a slow webhook); then one change of another service of
/// the same tenant and one change of another tenant arrive, while the crash loop continues.
/// Guarantee: the two changes are sent after at most one further change of the crash loop, which always has a change.
#[test]
fn crash_loop_does_not_delay_others() {
    let mut outbox = Outbox::default();
    for incident in 0..507 {
        assert!(begin(&mut outbox, "user 1", "loop", incident).is_empty());
    }
    assert_eq!(sent(&mut outbox, 1), ["user 1 loop"]);
    let _fits = begin(&mut outbox, "user 1", "shop", 1000);
    let _fits = begin(&mut outbox, "user 2", "shop", 1001);
    let mut order = Vec::new();
    for incident in 2000..2004 {
        let _fits = begin(&mut outbox, "user 1", "loop", incident);
        order.extend(sent(&mut outbox, 1));
    }
    assert_eq!(order, ["user 1 loop", "user 2 shop", "user 1 shop", "user 1 loop"]);
}

/// Scenario: two tenants always have a change, and one of them never has more than one at a time.
/// Guarantee: changes of both are sent in turn, so a tenant whose queue was empty is not first again.
#[test]
fn empty_queue_does_not_save_turns() {
    let mut outbox = Outbox::default();
    for incident in 0..8 {
        let _fits = begin(&mut outbox, "user 1", "loop", incident);
    }
    let mut order = Vec::new();
    for incident in 0..6 {
        if order.last().is_none_or(|last| last != "user 1 loop") {
            let _fits = begin(&mut outbox, "user 2", "shop", 100 + incident);
        }
        order.extend(sent(&mut outbox, 1));
    }
    assert_eq!(order.iter().filter(|one| *one == "user 2 shop").count(), 3, "{order:?}");
}

/// Scenario: a webhook is down while a tenant has 2,720 changes, which are starts and ends and more than fit; another
/// tenant has three changes.
/// Guarantee: the three changes are kept; the largest tenant loses changes, and each end is dropped together with its
/// start; the queue is bounded, and all dropped changes are returned.
#[test]
fn largest_tenant_loses_changes() {
    let mut outbox = Outbox::default();
    let mut dropped = Vec::new();
    for incident in 0..3 {
        dropped.extend(begin(&mut outbox, "user 2", "shop", 5000 + incident));
    }
    for incident in 0..1360 {
        dropped.extend(begin(&mut outbox, "user 1", "loop", incident));
        dropped.extend(outbox.put(message("user 1", "loop", incident, Change::Ended), Instant::now()));
    }
    assert!(outbox.len() <= MAX_CHANGES as u64);
    assert_eq!(dropped.len() as u64 + outbox.len(), 2723);
    assert!(dropped.iter().all(|message| &*message.share.tenant == "user 1"));
    let ends = |change| dropped.iter().filter(|message| message.change == change).count();
    assert_eq!(ends(Change::Began), ends(Change::Ended));
    assert_eq!(
        sent(&mut outbox, MAX_CHANGES + 1)
            .iter()
            .filter(|one| *one == "user 2 shop")
            .count(),
        3
    );
    assert!(outbox.first().is_none() && outbox.tenants.is_empty() && outbox.lanes.is_empty());
}

/// Scenario: the largest tenant has only starts, and ends of incidents that were sent.
/// Guarantee: starts are dropped before ends.
#[test]
fn ends_of_sent_incidents_are_dropped_last() {
    let mut outbox = Outbox::default();
    for incident in 0..MAX_CHANGES as u64 / 2 {
        let end = message("user 1", "loop", incident, Change::Ended);
        assert!(outbox.put(end, Instant::now()).is_empty());
    }
    let mut dropped = Vec::new();
    for incident in 0..MAX_CHANGES as u64 {
        dropped.extend(begin(&mut outbox, "user 1", "loop", 10_000 + incident));
    }
    assert_eq!(dropped.len(), MAX_CHANGES / 2);
    assert!(dropped.iter().all(|message| message.change == Change::Began));
}

/// Scenario: the changes of two services wait for an hour, and a change of a third service waits for less.
/// Guarantee: the two old changes are dropped and counted, and the third change is kept.
#[test]
fn old_changes_are_forgotten() {
    let mut outbox = Outbox::default();
    let now = Instant::now();
    for (service, since) in [("a", now), ("b", now), ("c", now + Duration::from_secs(1))] {
        let _fits = outbox.put(message("user 1", service, 1, Change::Began), since);
    }
    assert_eq!(outbox.forget(now + RETRY_FOR), 2);
    assert_eq!((outbox.len(), sent(&mut outbox, 3)), (1, vec!["user 1 c".to_owned()]));
}
