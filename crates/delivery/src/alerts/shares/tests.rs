//! A tenant that has many messages.

use base::run_key::RunKey;

use super::*;
use crate::alerts::labels::Labels;

fn share(tenant: &str, service: &str) -> Share {
    Share {
        tenant: tenant.into(),
        service: service.into(),
    }
}

/// A message about an incident of a rule; the number identifies the incident.
fn message(share: &Share, rule: &str, incident: u64, change: Change) -> Message {
    let labels = [(RULE, rule), (SEVERITY, "warning"), ("host_name", "n1"), ("pid", "7")];
    let labels: Labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut message = Message::test(incident, labels, change == Change::Ended);
    message.share = share.clone();
    message.incident = (RunKey { pid: 7, start_time: 1 }, incident);
    message.change = change;
    message
}

const CRITICAL: Change = Change::Rose { is_critical: true };
const ROSE: Change = Change::Rose { is_critical: false };

/// A tenant that has used its share, with the number of the first incident that is free.
fn used_up(now: Instant) -> (Shares, u64) {
    let mut shares = Shares::default();
    let of = share("user 1", "loop");
    for incident in 0..MESSAGES_EACH as u64 {
        assert_eq!(
            shares.judge(&message(&of, "a", incident, Change::Began), now),
            Verdict::Send
        );
    }
    (shares, MESSAGES_EACH as u64)
}

/// Scenario: a tenant has used its share; then come further incidents of the rule, the first ones of another service
/// and of another rule, incidents of another tenant; causes become known and severities rise, incidents end.
/// Guarantee: further incidents are summed up, with all that follows of them, but for a rise to critical and the end
/// after it; the first messages, other tenants and all that is of incidents that were sent have messages.
#[test]
fn messages_beyond_the_share_are_summed_up() {
    let now = Instant::now();
    let (mut shares, free) = used_up(now);
    let (of, other) = (share("user 1", "loop"), share("user 2", "loop"));
    let mut judge = |share: &Share, rule, incident, change| shares.judge(&message(share, rule, incident, change), now);
    assert_eq!(judge(&of, "a", free, Change::Began), Verdict::SumUp { is_first: true });
    assert_eq!(
        judge(&of, "a", free + 1, Change::Began),
        Verdict::SumUp { is_first: false }
    );
    assert_eq!(
        judge(&share("user 1", "honest"), "a", free + 2, Change::Began),
        Verdict::Send
    );
    assert_eq!(judge(&of, "b", free + 3, Change::Began), Verdict::Send);
    assert_eq!(judge(&other, "a", free + 4, Change::Began), Verdict::Send);
    // Of an incident that was not sent.
    assert_eq!(judge(&of, "a", free, ROSE), Verdict::SumUp { is_first: false });
    assert_eq!(
        judge(&of, "a", free, Change::Explained),
        Verdict::SumUp { is_first: false }
    );
    assert_eq!(judge(&of, "a", free, CRITICAL), Verdict::SendAlone);
    assert_eq!(judge(&of, "a", free, Change::Ended), Verdict::Send);
    assert_eq!(
        judge(&of, "a", free + 1, Change::Ended),
        Verdict::SumUp { is_first: false }
    );
    // Of one that was.
    assert_eq!(
        judge(&of, "a", 0, Change::Explained),
        Verdict::SumUp { is_first: false }
    );
    for change in [ROSE, CRITICAL, Change::Ended, Change::Again] {
        assert_eq!(judge(&of, "a", 0, change), Verdict::Send);
    }
}

/// Scenario: a tenant with a crash loop sends eight deaths a second for an hour, each with another service name in one
/// half of them; another tenant has one incident a minute.
/// Guarantee: the crash loop has its share, one message of each new service, and one in ten minutes for the rest, which
/// says how many; each incident of the other tenant has its message; what is remembered is bounded.
#[test]
fn deaths_as_spam_are_few_messages() {
    let begin = Instant::now();
    let mut shares = Shares::default();
    let (spam, honest) = (share("user 1", "loop"), share("user 2", "shop"));
    let (mut of_spam, mut of_honest, mut sums) = (0, 0, Vec::new());
    for second in 0..3600 {
        let now = begin + Duration::from_secs(second);
        for death in 0..8 {
            let incident = second * 8 + death;
            let of = if death < 4 {
                spam.clone()
            } else {
                share("user 1", &format!("s{incident}"))
            };
            let verdict = shares.judge(&message(&of, "died", incident, Change::Began), now);
            of_spam += u64::from(verdict == Verdict::Send && death < 4);
            assert!(death < 4 || verdict == Verdict::Send, "a first message");
        }
        if second % 60 == 0 {
            let incident = message(&honest, "slow", second, Change::Began);
            of_honest += u64::from(shares.judge(&incident, now) == Verdict::Send);
        }
        sums.extend(shares.due(now, second, false));
    }
    assert_eq!(of_honest, 60);
    // Of its share the first half, then a first message in each of the other five windows.
    assert_eq!((of_spam, sums.len()), (MESSAGES_EACH as u64 / 2 + 5, 6));
    let kept = (shares.sent.len(), shares.known.order.len(), shares.unsent.order.len());
    assert!(
        kept.0 <= MAX_REMEMBERED + 1 && kept.1 <= MAX_REMEMBERED && kept.2 <= MAX_REMEMBERED,
        "{kept:?}"
    );
    assert_eq!(shares.sums.len(), 1);
    let text = sums[0].webhook(&crate::alerts::settings::Links::default());
    let summary = text["alerts"][0]["annotations"]["summary"].as_str().unwrap();
    assert!(summary.ends_with("incidents of user 1: loop (244)"), "{summary}");
}

/// Scenario: three incidents beyond the share within a minute, one more after five, then none.
/// Guarantee: one message comes a minute after the first, one with all of them ten minutes later, and its end after ten
/// more; all are one alert, without a label that a process can choose.
#[test]
fn further_incidents_are_one_alert() {
    let begin = Instant::now();
    let (mut shares, free) = used_up(begin);
    let of = share("user 1", "loop");
    let at = |seconds| begin + Duration::from_secs(seconds);
    for (incident, seconds) in [(0, 0), (1, 10), (2, 50)] {
        let _summed = shares.judge(&message(&of, "a", free + incident, Change::Began), at(seconds));
    }
    assert_eq!(shares.next(), Some(at(60)));
    assert!(shares.due(at(59), 0, false).is_empty());
    let mut alerts = shares.due(at(60), 1, false);
    let _summed = shares.judge(&message(&of, "a", free + 3, Change::Began), at(360));
    assert!(shares.due(at(659), 1, false).is_empty());
    alerts.extend(shares.due(at(660), 1, false));
    assert_eq!(shares.next(), Some(at(960)));
    alerts.extend(shares.due(at(960), 1, false));
    assert_eq!(shares.next(), None);
    let is_firing: Vec<_> = alerts.iter().map(Message::is_firing).collect();
    assert_eq!(is_firing, [true, true, false]);
    for alert in &alerts {
        assert_eq!(alert.labels, alerts[0].labels);
        let names: Vec<&str> = alert.labels.keys().map(String::as_str).collect();
        assert_eq!(names, ["alertname", "host_name", "incident", "severity"]);
    }
}

/// Scenario: a user's process takes the name of another user's service, and claims to be in the other tenant's
/// namespace and on another node; it begins many incidents.
/// Guarantee: the share of the other tenant is whole; the message about the rest has no claim of the process; a
/// namespace that is the tenant is named.
#[test]
fn another_tenant_cannot_be_blamed() {
    let now = Instant::now();
    let mut shares = Shares::default();
    let (hostile, victim) = (share("user 1", "shop"), share("namespace shop", "shop"));
    let claims = |share: &Share, incident| {
        let mut message = message(share, "a", incident, Change::Began);
        let mut labels = Labels::clone(&message.labels);
        for (name, value) in [
            ("k8s_namespace_name", "shop"),
            ("k8s_node_name", "n2"),
            ("service_name", "shop"),
        ] {
            labels.insert(name.to_owned(), value.to_owned());
        }
        message.labels = Arc::new(labels);
        message
    };
    let mut begin = |share: &Share, first: u64| {
        let all = (0..MESSAGES_EACH as u64 + 1).map(|incident| claims(share, first + incident));
        all.filter(|message| shares.judge(message, now) == Verdict::Send)
            .count()
    };
    assert_eq!(
        (begin(&hostile, 0), begin(&victim, 1000)),
        (MESSAGES_EACH, MESSAGES_EACH)
    );
    let sums = shares.due(now + SUMMED_AFTER, 1, false);
    let namespaces: Vec<_> = sums.iter().map(|sum| sum.labels.get("k8s_namespace_name")).collect();
    assert_eq!(namespaces, [Some(&"shop".to_owned()), None]);
    assert!(sums.iter().all(|sum| !sum.labels.contains_key("service_name")));
}

/// Scenario: gcwatch ends while incidents are summed up.
/// Guarantee: their message comes at once.
#[test]
fn summed_up_incidents_are_sent_at_the_end() {
    let now = Instant::now();
    let (mut shares, free) = used_up(now);
    let of = share("user 1", "loop");
    let _summed = shares.judge(&message(&of, "a", free, Change::Began), now);
    assert_eq!(shares.due(now, 1, true).len(), 1);
    assert!(shares.due(now, 1, true).is_empty());
}

/// Scenario: more tenants than may have a message about several incidents.
/// Guarantee: those for which there is no room are dropped, which their caller counts.
#[test]
fn sums_are_bounded() {
    let now = Instant::now();
    let mut shares = Shares::default();
    let mut last = Verdict::Send;
    for tenant in 0..=MAX_SUMS as u64 {
        let of = share(&format!("user {tenant}"), "loop");
        shares.forget_sent((RunKey { pid: 7, start_time: 1 }, tenant), now);
        last = shares.judge(&message(&of, "a", tenant, ROSE), now);
    }
    assert_eq!((last, shares.sums.len()), (Verdict::Drop, MAX_SUMS));
}

/// Scenario: a tenant has two services with three and one things, another tenant has one thing, the newest.
/// Guarantee: tenants have turns, services have turns within them, and the older thing of a service comes first.
#[test]
fn tenants_and_services_have_turns() {
    let now = Instant::now();
    let things = [("a", "x"), ("a", "x"), ("a", "x"), ("a", "y"), ("b", "z")];
    let things = things.into_iter().enumerate();
    let things = things
        .map(|(place, (tenant, service))| (now + Duration::from_secs(place as u64), share(tenant, service), place));
    assert_eq!(in_turns(things), [0, 4, 3, 1, 2]);
}
