//! Notifications of alerts to scripted receivers.

use std::collections::BTreeSet;
use std::time::Duration;

use base::secret::Secret;
use base::time::Wall;
use config::options::Options;
use config::options::RuleSources;
use delivery::alerts::Notifier;
use delivery::alerts::settings::{AlertSettings, Alertmanager, Links, Webhook};
use delivery::alerts::stats::ReceiverStats;
use delivery::otlp::settings;
use gcwatch::daemon::Services;
use gcwatch::pipeline::{self, Clock};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rule_engine::rule::Severity;
use serde_json::Value;
use sha2::Sha256;

use test_support::golden;
use test_support::notices::{self, began, over, resource};
use test_support::receiver::{self, LONG, Receiver, Recorded, Reply};
use test_support::replay::stage;

/// An interval that is longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

fn to(receiver: &Receiver, path: &str) -> settings::Receiver {
    receiver::settings(format!("{}{path}", receiver.url()))
}

fn alertmanager(receiver: &Receiver) -> Alertmanager {
    Alertmanager {
        receiver: to(receiver, "/api/v2/alerts"),
        min_severity: Severity::Info,
    }
}

fn webhook(receiver: &Receiver) -> Webhook {
    Webhook {
        receiver: to(receiver, "/hook/secret-token"),
        secret: Some(Secret::new("Jefe")),
        min_severity: Severity::Info,
    }
}

fn only(alertmanager: Alertmanager, resend_interval: Duration) -> AlertSettings {
    AlertSettings {
        alertmanagers: vec![alertmanager],
        resend_interval,
        ..AlertSettings::default()
    }
}

fn json(request: &Recorded) -> Value {
    assert_eq!(request.header("content-type"), "application/json");
    serde_json::from_slice(&request.body).unwrap()
}

/// Returns the pids of the alerts in a request to an Alertmanager.
fn pids(request: &Recorded) -> Vec<String> {
    let alerts = json(request);
    let alerts = alerts.as_array().unwrap().iter();
    alerts
        .map(|alert| alert["labels"]["pid"].as_str().unwrap().to_owned())
        .collect()
}

fn stats(notifier: &Notifier) -> ReceiverStats {
    notifier.stats().remove(0).1
}

fn count(of: [(&'static str, u64); 4], why: &str) -> u64 {
    of.iter().find(|(name, _)| *name == why).unwrap().1
}

fn dropped(notifier: &Notifier, why: &str) -> u64 {
    let dropped = stats(notifier).dropped();
    dropped.iter().find(|(name, _)| *name == why).unwrap().1
}

/// Waits until `is` returns true for the counters of the only receiver.
async fn until(notifier: &Notifier, is: impl Fn(&ReceiverStats) -> bool) {
    let waited = tokio::time::timeout(LONG, notifier.until(|all| is(&all[0].1)));
    waited.await.expect("the counters reach the expected values");
}

/// Scenario: an alert starts, continues for several intervals and ends; the Alertmanager accepts every request.
/// Guarantee: the alert is sent repeatedly while it fires, each time with the same labels, the same start time and an
/// end time after the start. After its end, the alert is sent repeatedly with the time of its end.
#[tokio::test]
async fn firing_and_resolved_alerts_are_sent_again() {
    let mut receiver = Receiver::start().await;
    let notifier = Notifier::start(&only(alertmanager(&receiver), Duration::from_millis(20))).unwrap();
    notifier.notify(&resource(), &[began(5)], Wall::UNIX);
    let mut firing = Vec::new();
    for _ in 0..3 {
        let request = receiver.next().await;
        assert_eq!(request.path, "/api/v2/alerts");
        firing.push(json(&request)[0].clone());
    }
    let labels = &firing[0]["labels"];
    let expected = serde_json::json!({
        "alertname": "test.full",
        "severity": "error",
        "incident": labels["incident"],
        "process": "Shop.Checkout",
        "pid": "5",
        "instance": "7d0a3d3c-2f5e-5a0b-9d1e-1c2b3a4d5e6f",
        "team_name": "runtime",
        "service_name": "checkout",
        "k8s_namespace_name": "shop",
        "k8s_pod_name": "checkout-5d9",
    });
    assert_eq!(*labels, expected);
    for alert in &firing {
        assert_eq!((&alert["labels"], &alert["startsAt"]), (labels, &firing[0]["startsAt"]));
        assert_eq!(alert["startsAt"], "2026-01-02T03:04:05Z");
        assert!(alert["endsAt"].as_str() > alert["startsAt"].as_str(), "{alert}");
        assert_eq!(alert["annotations"]["summary"], "Collection 7 was a full one");
        assert_eq!(alert["annotations"]["runbook_url"], "https://runbooks.example/full");
        assert_eq!(alert["annotations"]["remedy"], "Look at what is kept.");
    }
    // The labels of an alert stay the same as at its start.
    let mut other = resource();
    other
        .attributes
        .push(notices::attribute("k8s.node.name", "learned later"));
    notifier.notify(&other, &[over(5)], Wall::UNIX);
    let mut ends = 0;
    while ends < 3 {
        let alert = json(&receiver.next().await)[0].clone();
        if alert["endsAt"] == "2026-01-02T03:05:05Z" {
            assert_eq!(&alert["labels"], labels);
            ends += 1;
        } else {
            assert_eq!(ends, 0, "no request after the end reports the alert as firing");
        }
    }
}

/// Scenario: the Alertmanager is overloaded, resets the connection, and does not answer; then it accepts the request.
/// Guarantee: the alert arrives once, and each failure is counted by its cause.
#[tokio::test]
async fn failures_are_retried() {
    let mut receiver = Receiver::start().await;
    receiver.script([
        Reply::http(503, &[("retry-after", "0")]),
        Reply::http(429, &[("retry-after", "0")]),
        Reply::Reset,
        Reply::Hang,
    ]);
    let mut to = alertmanager(&receiver);
    to.receiver.timeout = Duration::from_millis(300);
    let notifier = Notifier::start(&only(to, NEVER)).unwrap();
    notifier.notify(&resource(), &[began(5)], Wall::UNIX);
    for _ in 0..5 {
        let request = receiver.next().await;
        // The receiver did not read the body of the request whose connection it reset.
        assert!(request.body.is_empty() || pids(&request) == ["5"]);
    }
    until(&notifier, |stats| stats.sent == 1).await;
    let failures = stats(&notifier).failures();
    assert_eq!((count(failures, "unavailable"), count(failures, "timed_out")), (2, 1));
    assert_eq!((count(failures, "unreachable"), count(failures, "refused")), (1, 0));
    assert_eq!(stats(&notifier).queued, 0);
    assert_eq!(notifier.shutdown(LONG).await.0, 0);
}

/// Scenario: an Alertmanager rejects one of three alerts, and therefore every request that contains this alert.
/// Guarantee: the other alerts arrive. The rejected alert is dropped and counted, and is not sent again with the
/// others.
#[tokio::test]
async fn rejected_alert_is_found_and_dropped() {
    let mut receiver = Receiver::start().await;
    let wrong = || Reply::http(400, &[]);
    // The requests contain: all three, the first, the second and third, the second (invalid), the third.
    receiver.script([wrong(), Reply::Accept, wrong(), wrong(), Reply::Accept]);
    let notifier = Notifier::start(&only(alertmanager(&receiver), Duration::from_millis(50))).unwrap();
    notifier.notify(&resource(), &[began(1), began(2), began(3)], Wall::UNIX);
    let mut requests = Vec::new();
    for _ in 0..5 {
        requests.push(pids(&receiver.next().await));
    }
    assert_eq!(requests[0].len(), 3);
    assert_eq!([&requests[1], &requests[3], &requests[4]].map(Vec::len), [1, 1, 1]);
    let bad = requests[3][0].clone();
    assert_eq!(dropped(&notifier, "refused"), 1);
    assert_eq!(
        stats(&notifier).last_error.unwrap(),
        "HTTP status 400: as the script says"
    );
    let mut again = BTreeSet::new();
    while again.len() < 2 {
        let reported = pids(&receiver.next().await);
        assert!(!reported.contains(&bad), "{reported:?}");
        again.extend(reported);
    }
    // The end is not reported either, because no receiver knows the alert.
    notifier.notify(&resource(), &[over(bad.parse().unwrap())], Wall::UNIX);
    assert!(!pids(&receiver.next().await).contains(&bad));
}

/// Scenario: an Alertmanager rejects the first request, which has two alerts (401), then accepts all requests.
/// Guarantee: the notifier does not send the alerts one by one, and drops none. When firing alerts are due again, the
/// next request contains both alerts.
#[tokio::test]
async fn unauthorized_request_is_retried_when_alerts_are_due() {
    let mut receiver = Receiver::start().await;
    receiver.script([Reply::http(401, &[])]);
    let notifier = Notifier::start(&only(alertmanager(&receiver), Duration::from_millis(100))).unwrap();
    notifier.notify(&resource(), &[began(1), began(2)], Wall::UNIX);
    assert_eq!(pids(&receiver.next().await).len(), 2);
    assert_eq!(pids(&receiver.next().await).len(), 2);
    until(&notifier, |stats| stats.sent >= 2).await;
    let failures = stats(&notifier).failures();
    assert_eq!((count(failures, "refused"), dropped(&notifier, "refused")), (1, 0));
}

/// Scenario: there are two Alertmanagers and a webhook; one Alertmanager never answers.
/// Guarantee: the other receivers get every alert while the hanging receiver blocks. At shutdown, only the alerts for
/// the hanging receiver are lost.
#[tokio::test]
async fn hanging_receiver_does_not_delay_others() {
    let (mut deaf, mut well, mut hook) = (
        Receiver::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    deaf.then(Reply::Hang);
    let settings = AlertSettings {
        alertmanagers: vec![alertmanager(&deaf), alertmanager(&well)],
        webhooks: vec![webhook(&hook)],
        resend_interval: NEVER,
        ..AlertSettings::default()
    };
    let notifier = Notifier::start(&settings).unwrap();
    for pid in 1..=3 {
        notifier.notify(&resource(), &[began(pid)], Wall::UNIX);
        let mut reported = Vec::new();
        while !reported.contains(&pid.to_string()) {
            reported.extend(pids(&well.next().await));
        }
        assert_eq!(json(&hook.next().await)["alerts"][0]["labels"]["pid"], pid.to_string());
    }
    deaf.next().await;
    let (lost, _) = notifier.shutdown(Duration::from_millis(50)).await;
    assert_eq!(lost, 3, "only the alerts for the hanging receiver are lost");
}

/// Scenario: a reload adds an Alertmanager while an alert fires; a second reload removes the first Alertmanager; a
/// third reload adds an Alertmanager with an invalid header.
/// Guarantee: the new Alertmanager gets the firing alert, the removed Alertmanager gets no further request, and invalid
/// settings have no effect.
#[tokio::test]
async fn reload_sends_firing_alerts_to_new_alertmanager() {
    let (mut first, mut second) = (Receiver::start().await, Receiver::start().await);
    let notifier = Notifier::start(&only(alertmanager(&first), NEVER)).unwrap();
    notifier.notify(&resource(), &[began(1), began(2)], Wall::UNIX);
    notifier.notify(&resource(), &[over(2)], Wall::UNIX);
    let mut settings = only(alertmanager(&first), NEVER);
    settings.alertmanagers.push(alertmanager(&second));
    notifier.reconfigure(&settings).unwrap();
    assert_eq!(pids(&second.next().await), ["1"]);

    notifier.reconfigure(&only(alertmanager(&second), NEVER)).unwrap();
    while first.try_next().is_some() {}
    let mut wrong = only(alertmanager(&first), NEVER);
    wrong.alertmanagers[0]
        .receiver
        .headers
        .push(("a b".to_owned(), Secret::new("hunter2")));
    let error = notifier.reconfigure(&wrong).unwrap_err().to_string();
    assert!(
        error.contains("its name contains") && !error.contains("hunter2"),
        "{error}"
    );
    notifier.notify(&resource(), &[over(1)], Wall::UNIX);
    let last = json(&second.next().await);
    assert_eq!(
        (&last[0]["labels"]["pid"], &last[0]["endsAt"]),
        (&"1".into(), &"2026-01-02T03:05:05Z".into())
    );
    assert!(first.try_next().is_none(), "a removed receiver gets no request");
}

/// Scenario: a webhook fails once (502), accepts a change, rejects a change because of its content (422), then accepts
/// all changes.
/// Guarantee: the webhook gets the changes in order, signed, in the format of Alertmanager. The failed request is
/// retried; the rejected change is dropped and counted.
#[tokio::test]
async fn webhook_gets_each_change_in_order() {
    let mut receiver = Receiver::start().await;
    receiver.script([
        Reply::http(502, &[("retry-after", "0")]),
        Reply::Accept,
        Reply::http(422, &[]),
    ]);
    let settings = AlertSettings {
        webhooks: vec![webhook(&receiver)],
        links: Links {
            external_url: Some("https://gcwatch.example/".to_owned()),
            ..Links::default()
        },
        ..AlertSettings::default()
    };
    let notifier = Notifier::start(&settings).unwrap();
    notifier.notify(&resource(), &[began(1), over(1), began(2), over(2)], Wall::UNIX);
    let mut reported = Vec::new();
    for _ in 0..5 {
        let request = receiver.next().await;
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        mac.update(&request.body);
        let signature: String = mac
            .finalize()
            .into_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(request.header("x-gcwatch-signature"), format!("sha256={signature}"));
        reported.push(json(&request));
    }
    let seen: Vec<(&str, &str)> = reported
        .iter()
        .map(|body| {
            let pid = body["commonLabels"]["pid"].as_str().unwrap();
            (pid, body["status"].as_str().unwrap())
        })
        .collect();
    let expected = [
        ("1", "firing"),
        ("1", "firing"),
        ("1", "resolved"),
        ("2", "firing"),
        ("2", "resolved"),
    ];
    assert_eq!(seen, expected);
    until(&notifier, |stats| stats.sent == 3).await;
    assert_eq!(dropped(&notifier, "refused"), 1);
    golden::compare("tests/alerts/webhook.json", &format!("{:#}\n", reported[2]));
    let name = &notifier.stats()[0].0;
    assert!(
        name.starts_with("webhook 127.0.0.1:") && !name.contains("secret"),
        "{name}"
    );
}

/// Scenario: the services of a daemon export spans and logs. A rule fires on a process, and its alert ends with the
/// process. The same happens with `alerts.log` switched off.
/// Guarantee: four log records describe the alert and its incident, with the resource of the process, the event name
/// and the ids of a span that was sent. With `alerts.log` off, there are no records.
#[tokio::test]
async fn alerts_are_sent_as_log_records() {
    for log in [true, false] {
        let mut receiver = Receiver::start().await;
        let folder = tempfile::TempDir::new().unwrap();
        let rules = notices::RULES.replace(
            "    severity: error\n",
            "    severity: error\n    keep_firing_for: 1h\n",
        );
        std::fs::write(folder.path().join("rules.yaml"), rules).unwrap();
        let signal = |path: &str| Some(to(&receiver, path));
        let options = Options {
            pipeline: pipeline::PipelineSettings {
                clock: Clock::Recorded,
                ..pipeline::PipelineSettings::default()
            },
            otlp: settings::OtlpSettings {
                traces: signal("/v1/traces"),
                logs: signal("/v1/logs"),
                ..settings::OtlpSettings::default()
            },
            rules: RuleSources {
                shipped: false,
                paths: vec![folder.path().to_owned()],
            },
            alerts: AlertSettings {
                log,
                ..AlertSettings::default()
            },
            ..Options::default()
        };
        let services = Services::open(&options).await.unwrap();
        let stage = stage(&services.pipeline, "svc8-workstation", "checkout");
        stage.end();
        assert!(services.exporter.flush(LONG).await);
        services.close().await;
        let (mut spans, mut records) = (BTreeSet::new(), Vec::new());
        while let Some(request) = receiver.try_next() {
            if request.path == "/v1/traces" {
                spans.extend(request.spans().into_iter().map(|span| (span.trace_id, span.span_id)));
                continue;
            }
            for resource in request.logs().resource_logs {
                let attributes = &resource.resource.as_ref().unwrap().attributes;
                assert!(attributes.iter().any(|one| one.key == "service.name"));
                records.extend(resource.scope_logs.into_iter().flat_map(|scope| scope.log_records));
            }
        }
        assert_eq!(records.len(), if log { 4 } else { 0 });
        for record in &records {
            assert!(["gcwatch.anomaly", "gcwatch.incident"].contains(&record.event_name.as_str()));
            let is_end = record.attributes.iter().any(|one| one.key == "gcwatch.anomaly.ending")
                || record.attributes.iter().any(|one| one.key == "gcwatch.incident.ending");
            let expected = if is_end { (9, "INFO") } else { (17, "ERROR") };
            assert_eq!((record.severity_number, record.severity_text.as_str()), expected);
            assert!(spans.contains(&(record.trace_id.clone(), record.span_id.clone())));
        }
    }
}

/// Scenario: a webhook is unreachable, and there are more changes than the queue can hold. Each change belongs to
/// another tenant, so that quotas drop no change.
/// Guarantee: the oldest changes are dropped and counted; the changes that are queued at shutdown are counted, too.
#[tokio::test]
async fn queue_of_unreachable_webhook_is_bounded() {
    let receiver = Receiver::start().await;
    let settings = AlertSettings {
        webhooks: vec![webhook(&receiver)],
        ..AlertSettings::default()
    };
    drop(receiver);
    let notifier = Notifier::start(&settings).unwrap();
    for pid in 0..1500 {
        let mut notice = began(pid);
        notice.share.tenant = format!("user {pid}").into();
        notifier.notify(&resource(), &[notice], Wall::UNIX);
    }
    assert_eq!(dropped(&notifier, "queue_full"), 500);
    assert_eq!(stats(&notifier).queued, 1000);
    let (lost, unsent) = notifier.shutdown(Duration::from_millis(50)).await;
    assert_eq!((lost, unsent.len()), (1000, 1000));
}

/// Scenario: a webhook answers like a proxy without a backend (404). gcwatch exits, and the next instance has an
/// additional webhook.
/// Guarantee: no change is dropped. The next instance sends the queued changes once, in order and with the same bytes,
/// to the original webhook only.
#[tokio::test]
async fn unsent_changes_are_sent_by_next_instance() {
    let (mut receiver, mut other) = (Receiver::start().await, Receiver::start().await);
    receiver.then(Reply::http(404, &[]));
    let settings = |webhooks| AlertSettings {
        webhooks,
        ..AlertSettings::default()
    };
    let notifier = Notifier::start(&settings(vec![webhook(&receiver)])).unwrap();
    notifier.notify(&resource(), &[began(1), began(2)], Wall::UNIX);
    let refused = receiver.next().await;
    assert_eq!((notifier.unsent_mark(LONG), notifier.unsent(LONG)), (0, Vec::new()));
    assert_ne!(notifier.unsent_mark(Duration::ZERO), 0);
    assert_eq!(dropped(&notifier, "refused"), 0);
    let (lost, unsent) = notifier.shutdown(Duration::from_millis(50)).await;
    assert_eq!((lost, unsent.len()), (2, 2));

    while receiver.try_next().is_some() {}
    receiver.then(Reply::Accept);
    let notifier = Notifier::start(&settings(vec![webhook(&other), webhook(&receiver)])).unwrap();
    assert_eq!(notifier.resume_unsent(&unsent), 2);
    notifier.notify(&resource(), &[over(1)], Wall::UNIX);
    let first = receiver.next().await;
    assert_eq!(first.body, refused.body);
    let then = [json(&receiver.next().await), json(&receiver.next().await)];
    assert_eq!(then[0]["alerts"][0]["labels"]["pid"], "2");
    assert_eq!(
        (&then[1]["alerts"][0]["labels"]["pid"], &then[1]["status"]),
        (&"1".into(), &"resolved".into())
    );
    assert_eq!(json(&other.next().await)["status"], "resolved");
    assert_eq!(notifier.shutdown(LONG).await, (0, Vec::new()));
    assert!(receiver.try_next().is_none() && other.try_next().is_none());
}
