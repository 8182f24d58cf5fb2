//! Messages of incidents have shares: a crash loop delays and pushes out only its own.

use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::await_that;
use test_support::harness::Tests;
use test_support::receiver::{Receiver, Reply};
use test_support::scene::Scene;

use crate::flooded::{self, Runtime};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); a_crash_loop_does_not_delay_messages_of_others);
}

/// Processes of the loop that have an incident each: more than a tenant has messages in ten minutes.
const LIVES: usize = 50;

/// Messages that a tenant has in ten minutes (docs/alerts.md).
const SHARE: usize = 40;

/// The service of the alert that a webhook got.
fn service(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    body["alerts"][0]["labels"]["service_name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Scenario: many processes of one service have an incident of the same rule each, while a webhook does not answer;
/// then a process of another service of the same user has one, and the webhook answers.
/// Guarantee: the message of the other service is among the first three; the crash loop has its share of messages, and
/// what is beyond it is counted as summed up; the log names the tenant.
fn a_crash_loop_does_not_delay_messages_of_others() {
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
    await_that("the share of the loop", || waiting(&daemon) == Some(SHARE as f64));
    let summed = (LIVES - SHARE) as f64;
    await_that("what is beyond the share", || {
        daemon.metric("gcwatch_notifications_summed_up_total") == Some(summed)
    });
    assert!(daemon.await_line("has used its share of messages").contains("tenant"));
    let other = Runtime::start_as(&scene, "well-behaved", "other");
    await_that("the message of the other service", || {
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
