//! Quotas for messages of incidents: a crash loop delays and displaces only its own messages.

use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::await_that;
use test_support::harness::Tests;
use test_support::receiver::{Receiver, Reply};
use test_support::scene::Scene;

use crate::flooded::{self, Runtime};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); crash_loop_does_not_delay_other_messages);
}

/// Number of processes in the loop. Each process has one incident, so the incidents exceed the ten-minute quota of a
/// tenant.
const LIVES: usize = 50;

/// Quota of messages per tenant in ten minutes (docs/alerts.md).
const SHARE: usize = 40;

/// Returns the service of the alert in a webhook message.
fn service(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    body["alerts"][0]["labels"]["service_name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Scenario: many processes of one service each have an incident of the same rule while a webhook does not answer. Then
/// a process of another service of the same user has an incident, and the webhook answers.
/// Guarantee: the message of the other service is among the first three. The crash loop gets its quota of messages, and
/// further messages count as summarized. No message is dropped. The log states that the tenant has used its quota.
fn crash_loop_does_not_delay_other_messages() {
    let executor = tokio::runtime::Runtime::new().unwrap();
    let mut webhook = executor.block_on(Receiver::start());
    webhook.then(Reply::Held);
    let scene = Scene::begin();
    let rule = scene.any(false, "severity: warning");
    let alerts = format!("alerts: {{webhooks: [{{url: '{}'}}]}}\n", webhook.url());
    let mut daemon = flooded::daemon(&scene, &format!("{rule}{alerts}"));
    let loops: Vec<Runtime> = (0..LIVES)
        .map(|_| Runtime::start_as(&scene, "well-behaved", "loop"))
        .collect();
    let waiting = |daemon: &test_support::daemon::Daemon| daemon.metric("gcwatch_notifications_queue");
    await_that("the quota of the loop is used", || {
        waiting(&daemon) == Some(SHARE as f64)
    });
    let summed = (LIVES - SHARE) as f64;
    await_that("messages beyond the quota are counted", || {
        daemon.metric("gcwatch_notifications_summed_up_total") == Some(summed)
    });
    assert!(daemon.await_line("has used its share of messages").contains("tenant"));
    let other = Runtime::start_as(&scene, "well-behaved", "other");
    await_that("the message of the other service arrives", || {
        waiting(&daemon) == Some(SHARE as f64 + 1.0)
    });
    let services: Vec<String> = executor.block_on(async {
        let mut services = Vec::new();
        for _ in 0..3 {
            services.push(service(&webhook.next().await.body));
            webhook.release();
        }
        services
    });
    assert_eq!(services[0], "loop", "{services:?}");
    assert!(services.contains(&"other".to_owned()), "{services:?}");
    assert_eq!(daemon.metric("gcwatch_notifications_dropped_total").unwrap_or(0.0), 0.0);
    webhook.then(Reply::Accept);
    webhook.release();
    drop((loops, other));
    daemon.end();
}
