//! Open incidents across restarts of gcwatch, as a webhook sees them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::options::Options;
use config::options::RuleSources;
use delivery::alerts::settings::{AlertSettings, Webhook};
use gcwatch::daemon::Services;
use gcwatch::pipeline::{Clock, PipelineSettings, Records};
use rule_engine::rule::Severity;
use serde_json::Value;
use targets::clocks;
use targets::sink::Sink as _;
use tempfile::TempDir;
use web::Views as _;

use test_support::receiver::{self, Receiver, Reply};
use test_support::replay::{FULL, play, process};

const MINUTE: u64 = 60_000_000_000;

/// The folder in which successive daemons run, and the webhook that they notify.
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

    /// Runs a daemon until an incident starts, then stops the daemon. Returns the message about the incident.
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

/// Asserts that a message ends the incident of `began`, with the same labels and start time.
fn is_end_of(message: &Value, began: &Value, ending: &str) {
    let ended = &message["alerts"][0];
    assert_eq!(message["status"], "resolved", "{message}");
    assert_eq!(ended["annotations"]["ending"], ending, "{message}");
    for same in ["labels", "startsAt", "fingerprint"] {
        assert_eq!(ended[same], began[same], "{same}");
    }
    assert_eq!(ended["annotations"]["incident"], began["annotations"]["incident"]);
}

/// Scenario: gcwatch is stopped during an incident and started again; the rule holds again; then the rule is removed.
/// Guarantee: the webhook gets one message about the start and one about the end of the same incident.
#[tokio::test]
async fn incident_survives_restart() {
    let mut host = Host::new(true).await;
    let first = host.incident().await;
    let services = host.start().await;
    let waiting = Records::new(&services.pipeline).incidents();
    assert_eq!(
        waiting.len(),
        1,
        "the incident is listed before its process is attached"
    );
    let mut feed = process(&services.pipeline);
    play(&mut feed);
    let open = Records::new(&services.pipeline).incidents();
    assert_eq!((open.len(), &open[0].id), (1, &waiting[0].id));
    assert!(open[0].members[0].count > waiting[0].members[0].count);
    services.pipeline.set_rules(Arc::default(), clocks().moment());
    is_end_of(&host.message().await, began(&first), "rule-changed");
    services.close().await;
    assert!(host.webhook.try_next().is_none());
}

/// Scenario: gcwatch is stopped during an incident, and before it starts again, the process exits; or the process still
/// runs, but the rule no longer holds.
/// Guarantee: the webhook gets the end after the usual 15 minutes, as `process-ended` if the process has exited, and as
/// `unknown` if the rule no longer holds.
#[tokio::test]
async fn end_during_downtime_is_reported() {
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

/// Scenario: the webhook is unavailable when an incident starts and until gcwatch has exited; then it is available
/// again.
/// Guarantee: the next gcwatch instance sends the start with the same bytes, and the end after it; a third instance
/// sends nothing.
#[tokio::test]
async fn unavailable_webhook_gets_start_later() {
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

/// Scenario: gcwatch is stopped during an incident and has no state directory.
/// Guarantee: the webhook is notified that the process is no longer monitored.
#[tokio::test]
async fn incidents_without_state_directory_end_with_daemon() {
    let mut host = Host::new(false).await;
    let first = host.incident().await;
    is_end_of(&host.message().await, began(&first), "unwatched");
    assert!(host.webhook.try_next().is_none());
}

/// Scenario: the file of the open incidents is damaged, has another version, or is from the previous boot.
/// Guarantee: gcwatch starts and ignores a damaged file and other versions. If the file is from another boot, the
/// webhook gets the end of each incident.
#[tokio::test]
async fn unusable_incident_file_is_ignored() {
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
        assert_eq!(Records::new(&services.pipeline).incidents().len(), 0);
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
