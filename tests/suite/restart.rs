//! Open incidents over restarts of gcwatch: what a webhook learns of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::options::Options;
use config::options::RuleSources;
use delivery::alerts::settings::{AlertSettings, Webhook};
use gc_rules::rule::Severity;
use gcwatch::daemon::Services;
use gcwatch::pipeline::{Clock, PipelineSettings, Records};
use serde_json::Value;
use targets::clocks;
use targets::sink::Sink as _;
use tempfile::TempDir;
use web::Views as _;

use test_support::receiver::{self, Receiver, Reply};
use test_support::replay::{FULL, play, process};

const MINUTE: u64 = 60_000_000_000;

/// Where one daemon after the other runs, and the webhook that they notify.
struct Host {
    webhook: Receiver,
    folder: TempDir,
    with_state: bool,
}

impl Host {
    async fn new(with_state: bool) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("rules.yaml"), FULL).unwrap();
        Self {
            webhook: Receiver::start().await,
            folder,
            with_state,
        }
    }

    async fn start(&self) -> Services {
        let options = Options {
            pipeline: PipelineSettings {
                clock: Clock::Live,
                ..PipelineSettings::default()
            },
            rules: RuleSources {
                shipped: false,
                paths: vec![self.folder.path().join("rules.yaml")],
            },
            alerts: AlertSettings {
                webhooks: vec![Webhook {
                    receiver: receiver::settings(self.webhook.url()),
                    secret: None,
                    min_severity: Severity::Info,
                }],
                ..AlertSettings::default()
            },
            state_directory: self.with_state.then(|| self.folder.path().join("state")),
            ..Options::default()
        };
        Services::open(&options).await.unwrap()
    }

    /// The message of an incident that begins; then the daemon ends.
    async fn incident(&mut self) -> Value {
        let services = self.start().await;
        let mut feed = process(&services.pipeline);
        play(&mut feed);
        let message = self.message().await;
        drop(feed);
        services.close().await;
        message
    }

    async fn message(&mut self) -> Value {
        serde_json::from_slice(&self.webhook.next().await.body).unwrap()
    }
}

fn began(message: &Value) -> &Value {
    assert_eq!(message["status"], "firing", "{message}");
    &message["alerts"][0]
}

/// The end of an incident with the labels and the beginning of `began`.
fn is_end_of(message: &Value, began: &Value, ending: &str) {
    let ended = &message["alerts"][0];
    assert_eq!(message["status"], "resolved", "{message}");
    assert_eq!(ended["annotations"]["ending"], ending, "{message}");
    for same in ["labels", "startsAt", "fingerprint"] {
        assert_eq!(ended[same], began[same], "{same}");
    }
    assert_eq!(ended["annotations"]["incident"], began["annotations"]["incident"]);
}

/// Scenario: gcwatch is stopped during an incident and started again; the rule holds again; then it is removed.
/// Guarantee: the webhook gets one message at the beginning and one at the end, of the same incident.
#[tokio::test]
async fn an_incident_goes_on_over_a_restart() {
    let mut host = Host::new(true).await;
    let first = host.incident().await;
    let services = host.start().await;
    let waiting = Records::of(&services.pipeline).incidents();
    assert_eq!(waiting.len(), 1, "it is shown before its process is attached to");
    let mut feed = process(&services.pipeline);
    play(&mut feed);
    let open = Records::of(&services.pipeline).incidents();
    assert_eq!((open.len(), &open[0].id), (1, &waiting[0].id));
    assert!(open[0].members[0].count > waiting[0].members[0].count);
    services.pipeline.set_rules(Arc::default(), clocks().moment());
    is_end_of(&host.message().await, began(&first), "rule-changed");
    services.close().await;
    assert!(host.webhook.try_next().is_none());
}

/// Scenario: gcwatch is stopped during an incident, and its process exits before it is started again; or the process
/// is there, and the rule does not hold again.
/// Guarantee: the webhook gets the end: of the process a quarter of an hour later, as ever; of the rule as unknown.
#[tokio::test]
async fn what_ends_meanwhile_is_reported() {
    for (is_there, ending) in [(false, "process-ended"), (true, "unknown")] {
        let mut host = Host::new(true).await;
        let first = host.incident().await;
        let services = host.start().await;
        let _feed = is_there.then(|| process(&services.pipeline));
        services.pipeline.scanned();
        let now = clocks();
        services.pipeline.tick(now, Duration::ZERO);
        services.pipeline.tick(now.after(14 * MINUTE), Duration::ZERO);
        assert_eq!(services.pipeline.open_incidents().len(), 1);
        for minute in 15..=17 {
            services.pipeline.tick(now.after(minute * MINUTE), Duration::ZERO);
        }
        is_end_of(&host.message().await, began(&first), ending);
        assert_eq!(services.pipeline.open_incidents().len(), 0);
        services.close().await;
        assert!(host.webhook.try_next().is_none());
    }
}

/// Scenario: the webhook is unavailable when an incident begins and until gcwatch has ended; then it is back.
/// Guarantee: it gets the beginning from the next gcwatch, the same bytes, and the end after it; a third one sends
/// nothing.
#[tokio::test]
async fn a_webhook_that_was_down_gets_the_beginning_later() {
    let mut host = Host::new(true).await;
    host.webhook.then(Reply::http(503, &[]));
    let refused = host.incident().await;
    while host.webhook.try_next().is_some() {}
    host.webhook.then(Reply::Accept);
    let services = host.start().await;
    let first = host.message().await;
    assert_eq!(first, refused);
    let mut feed = process(&services.pipeline);
    play(&mut feed);
    services.pipeline.set_rules(Arc::default(), clocks().moment());
    is_end_of(&host.message().await, began(&first), "rule-changed");
    services.close().await;
    host.start().await.close().await;
    assert!(host.webhook.try_next().is_none());
}

/// Scenario: gcwatch is stopped during an incident and has no place for what outlives it.
/// Guarantee: the webhook learns that nobody watches any more.
#[tokio::test]
async fn without_a_place_incidents_end_with_the_daemon() {
    let mut host = Host::new(false).await;
    let first = host.incident().await;
    is_end_of(&host.message().await, began(&first), "unwatched");
    assert!(host.webhook.try_next().is_none());
}

/// Scenario: the file of the open incidents is damaged, of another version, and of the boot before.
/// Guarantee: gcwatch starts; of another boot, all incidents ended.
#[tokio::test]
async fn a_file_that_cannot_be_used_is_none() {
    let mut host = Host::new(true).await;
    let first = host.incident().await;
    let path = host.folder.path().join("state/incidents.json");
    let stored = std::fs::read_to_string(&path).unwrap();
    let private = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(private & 0o777, 0o600);
    for damaged in [
        stored[..stored.len() / 2].to_owned(),
        stored.replacen("\"version\":1", "\"version\":2", 1),
    ] {
        std::fs::write(&path, damaged).unwrap();
        let services = host.start().await;
        assert_eq!(Records::of(&services.pipeline).incidents().len(), 0);
        drop(services);
    }
    let mut other: Value = serde_json::from_str(&stored).unwrap();
    other["boot_id"] = "another".into();
    std::fs::write(&path, other.to_string()).unwrap();
    let services = host.start().await;
    is_end_of(&host.message().await, began(&first), "process-ended");
    services.close().await;
    assert!(!Path::new(&path).with_extension("json.new").exists());
}
