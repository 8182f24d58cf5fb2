//! Tests of tenants that cause many messages.

use base::run_key::RunKey;

use super::*;
use crate::alerts::labels::Labels;

fn share(tenant: &str, service: &str) -> QuotaOwner {
    QuotaOwner {
        tenant: tenant.into(),
        service: service.into(),
    }
}

/// Returns a message about a change of an incident. `rule` is the rule of the incident, and `incident` its number.
fn message(share: &QuotaOwner, rule: &str, incident: u64, change: Change) -> Message {
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

/// Returns shares after one tenant has used up its share, and the first incident number that is still free.
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

/// Scenario: a tenant has used up its share. Then further incidents of the same rule start, the first incidents of
/// another service and of another rule start, and another tenant has an incident. Causes become known, severities rise,
/// and incidents end.
/// Guarantee: further incidents and their changes are counted in the summary, except for a rise to critical and the end
/// after the rise. The first messages of a service and rule, the messages of the other tenant, and all changes of sent
/// incidents except for newly known causes are sent.
#[test]
fn messages_beyond_share_are_summed_up() {
    let now = Instant::now();
    let (mut shares, free) = used_up(now);
    let (of, other) = (share("user 1", "loop"), share("user 2", "loop"));
    let mut judge =
        |share: &QuotaOwner, rule, incident, change| shares.judge(&message(share, rule, incident, change), now);
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
    // Changes of incidents whose start was not sent.
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
    // Changes of an incident whose start was sent.
    assert_eq!(
        judge(&of, "a", 0, Change::Explained),
        Verdict::SumUp { is_first: false }
    );
    for change in [ROSE, CRITICAL, Change::Ended, Change::Again] {
        assert_eq!(judge(&of, "a", 0, change), Verdict::Send);
    }
}

/// Scenario: a tenant has a crash loop with eight deaths per second for an hour. Half of the deaths have a new service
/// name each. Another tenant has one incident per minute.
/// Guarantee: for the crash loop, a receiver gets the tenant's share, one message for each new service, and one summary
/// per ten minutes with the number of all other incidents. Each incident of the other tenant is sent. The memory is
/// bounded.
#[test]
fn crash_loop_causes_few_messages() {
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
            assert!(death < 4 || verdict == Verdict::Send, "the first messages are sent");
        }
        if second % 60 == 0 {
            let incident = message(&honest, "slow", second, Change::Began);
            of_honest += u64::from(shares.judge(&incident, now) == Verdict::Send);
        }
        sums.extend(shares.due(now, second, false));
    }
    assert_eq!(of_honest, 60);
    // The new services use the other half of the share in the first window. In each of the other five windows, the
    // service `loop` has only its first message.
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

/// Scenario: a tenant has three incidents beyond its share within a minute, a fourth incident five minutes after the
/// summary was sent, and none afterwards.
/// Guarantee: the summary is sent a minute after the first incident and again ten minutes later with all incidents, and
/// the alert ends ten minutes after the fourth incident. The three messages have the same labels, none of which a
/// process can choose.
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

/// Scenario: a process of one tenant has the service name of another tenant, claims to be in the namespace of that
/// tenant and on another node, and has many incidents.
/// Guarantee: the process uses none of the other tenant's share. A summary does not contain the service name of the
/// process, and has the namespace only if the namespace is the tenant.
#[test]
fn process_cannot_use_share_of_other_tenant() {
    let now = Instant::now();
    let mut shares = Shares::default();
    let (hostile, victim) = (share("user 1", "shop"), share("namespace shop", "shop"));
    let claims = |share: &QuotaOwner, incident| {
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
    let mut begin = |share: &QuotaOwner, first: u64| {
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

/// Scenario: gcwatch exits before the summary of an incident is due.
/// Guarantee: the summary is sent at once, and only once.
#[test]
fn summary_is_sent_at_exit() {
    let now = Instant::now();
    let (mut shares, free) = used_up(now);
    let of = share("user 1", "loop");
    let _summed = shares.judge(&message(&of, "a", free, Change::Began), now);
    assert_eq!(shares.due(now, 1, true).len(), 1);
    assert!(shares.due(now, 1, true).is_empty());
}

/// Scenario: more tenants have incidents beyond their share than there can be summaries.
/// Guarantee: no summary is added beyond the maximum, and the caller is requested to drop the message.
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

/// Scenario: a tenant has a service with three items and a service with one item; another tenant has a single item, the
/// newest.
/// Guarantee: tenants alternate, the services of a tenant alternate, and the items of a service stay sorted by time.
#[test]
fn tenants_and_services_take_turns() {
    let now = Instant::now();
    let things = [("a", "x"), ("a", "x"), ("a", "x"), ("a", "y"), ("b", "z")];
    let things = things.into_iter().enumerate();
    let things = things
        .map(|(place, (tenant, service))| (now + Duration::from_secs(place as u64), share(tenant, service), place));
    assert_eq!(in_turns(things), [0, 4, 3, 1, 2]);
}
