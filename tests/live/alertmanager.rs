//! Delivery of alerts through a real Alertmanager, which notifies a webhook.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use config::options::Options;
use config::options::RuleSources;
use delivery::alerts::settings::{AlertSettings as Alerts, Alertmanager as AlertmanagerSettings, Links, Webhook};
use gcwatch::daemon::Services;
use gcwatch::pipeline::{Clock, PipelineSettings};
use rule_engine::rule::Severity;
use serde_json::Value;
use tempfile::TempDir;

use test_support::add_tests;
use test_support::harness::{Missing, Tests, unless_skipped};
use test_support::program::{gcwatch, written};
use test_support::receiver::{self, LONG, Receiver};
use test_support::replay::{FULL, play, process};
use test_support::target::RunningProcess;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(
        tests, || Alertmanager::program().map(drop);
        alert_fires_once_and_resolves,
        receiver_test_reaches_webhook_of_alertmanager,
    );
}

/// Interval between two requests with the same alert. The Alertmanager resolves an alert that is not updated for four
/// intervals.
const RESEND: Duration = Duration::from_secs(1);

struct Alertmanager {
    _child: RunningProcess,
    url: String,
    _folder: TempDir,
}

impl Alertmanager {
    /// Fetches the Alertmanager unless it is already in the cache. Returns the folder of the program.
    fn program() -> Result<PathBuf, Missing> {
        unless_skipped("alertmanager")?;
        let fetched = Command::new(test_support::repository("tests/alertmanager/fetch"))
            .output()
            .unwrap();
        if !fetched.status.success() {
            let said = String::from_utf8_lossy(&fetched.stderr);
            return Err(Missing::Ignored(said.trim().to_owned()));
        }
        Ok(PathBuf::from(String::from_utf8(fetched.stdout).unwrap().trim()))
    }

    /// Starts an Alertmanager on a free port. The Alertmanager notifies `webhook`.
    fn start(webhook: &str) -> Self {
        Self::start_with(webhook, "50ms")
    }

    /// Like [`start`](Self::start), but the Alertmanager waits for `group_wait` before it sends its first notification
    /// about an alert.
    fn start_with(webhook: &str, group_wait: &str) -> Self {
        let program = Self::program().unwrap();
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("alertmanager.yml");
        let text = format!(
            "route: {{receiver: test, group_by: [alertname, incident], group_wait: {group_wait}, group_interval: 200ms, repeat_interval: 4h}}\n\
             receivers: [{{name: test, webhook_configs: [{{url: '{webhook}', send_resolved: true}}]}}]\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut child = Command::new("./alertmanager")
            // The Alertmanager looks for its templates in the working directory (see `tests/alertmanager/fetch`).
            .current_dir(program)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.path={}", folder.path().join("state").display()))
            .args(["--web.listen-address=127.0.0.1:0", "--cluster.listen-address="])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let mut all = String::new();
        let address = said.by_ref().find_map(|line| {
            let address = line
                .split("address=")
                .nth(1)
                .map(|rest| rest.split(' ').next().unwrap().to_owned());
            all.push_str(&line);
            all.push('\n');
            address.filter(|address| address.starts_with("127.0.0.1:"))
        });
        let address = address.unwrap_or_else(|| panic!("the Alertmanager listens:\n{all}"));
        // The thread reads the output continuously, because a full pipe would block the Alertmanager.
        std::thread::spawn(move || said.for_each(drop));
        Self {
            _child: RunningProcess(child),
            url: format!("http://{address}"),
            _folder: folder,
        }
    }
}

fn keys(value: &Value) -> BTreeSet<&String> {
    value.as_object().unwrap().keys().collect()
}

/// Scenario: `gcwatch alerts test` sends a test alert to a webhook and to an Alertmanager, which waits 1 s before it
/// sends a notification.
/// Guarantee: both receivers accept the test alert. The webhook gets the start and the end of the alert. The
/// Alertmanager notifies its own webhook that the alert fires, and later that the alert is resolved.
#[tokio::main(flavor = "current_thread")]
async fn receiver_test_reaches_webhook_of_alertmanager() {
    let (mut by_alertmanager, mut by_gcwatch) = (Receiver::start().await, Receiver::start().await);
    let alertmanager = Alertmanager::start_with(&format!("{}/person", by_alertmanager.url()), "1s");
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("gcwatch.yaml");
    let text = format!(
        "alerts:\n  alertmanagers: [{{url: '{}'}}]\n  webhooks: [{{url: '{}'}}]\n  resend_interval: 1s\n",
        alertmanager.url,
        by_gcwatch.url()
    );
    std::fs::write(&config, text).unwrap();
    let arguments = ["alerts", "test", "--config", config.to_str().unwrap()].map(str::to_owned);
    let run = tokio::task::spawn_blocking(move || gcwatch(arguments));
    let bodies = async |receiver: &mut Receiver| {
        let mut statuses = Vec::new();
        for _ in 0..2 {
            let body: Value = serde_json::from_slice(&receiver.next().await.body).unwrap();
            assert_eq!(body["alerts"][0]["labels"]["alertname"], "gcwatch.test");
            statuses.push(body["status"].as_str().unwrap().to_owned());
        }
        statuses
    };
    assert_eq!(bodies(&mut by_gcwatch).await, ["firing", "resolved"]);
    assert_eq!(bodies(&mut by_alertmanager).await, ["firing", "resolved"]);
    let said = written(run.await.unwrap());
    assert_eq!(said.matches("\"accepted\":true").count(), 2, "{said}");
}

/// Scenario: a rule fires on a process in the daemon's pipeline. gcwatch sends the alert repeatedly, until the rules
/// are removed. The Alertmanager notifies one webhook, and gcwatch notifies another webhook.
/// Guarantee: the Alertmanager sends exactly one notification that the alert fires, and one that the alert is resolved.
/// The two webhooks receive the same keys, labels, annotations, start time, fingerprint and links of the alert.
#[tokio::main(flavor = "current_thread")]
async fn alert_fires_once_and_resolves() {
    let (mut by_alertmanager, mut by_gcwatch) = (Receiver::start().await, Receiver::start().await);
    let alertmanager = Alertmanager::start(&format!("{}/by-alertmanager", by_alertmanager.url()));
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("rules.yaml"), FULL).unwrap();
    let options = Options {
        pipeline: PipelineSettings {
            clock: Clock::Live,
            ..PipelineSettings::default()
        },
        rules: RuleSources {
            shipped: false,
            paths: vec![folder.path().to_owned()],
        },
        alerts: Alerts {
            alertmanagers: vec![AlertmanagerSettings {
                receiver: receiver::settings(format!("{}/api/v2/alerts", alertmanager.url)),
                min_severity: Severity::Info,
            }],
            webhooks: vec![Webhook {
                receiver: receiver::settings(by_gcwatch.url()),
                secret: None,
                min_severity: Severity::Info,
            }],
            resend_interval: RESEND,
            links: Links {
                external_url: Some("http://gcwatch.example:9464".to_owned()),
                ..Links::default()
            },
            ..Alerts::default()
        },
        ..Options::default()
    };
    let services = Services::open(&options).await.unwrap();
    let mut feed = process(&services.pipeline);
    play(&mut feed);
    let fired: Value = serde_json::from_slice(&by_alertmanager.next().await.body).unwrap();
    let own: Value = serde_json::from_slice(&by_gcwatch.next().await.body).unwrap();
    assert_eq!((&fired["status"], &own["status"]), (&"firing".into(), &"firing".into()));
    let (theirs, ours) = (&fired["alerts"][0], &own["alerts"][0]);
    for same in [
        "status",
        "labels",
        "annotations",
        "startsAt",
        "fingerprint",
        "generatorURL",
    ] {
        assert_eq!(theirs[same], ours[same], "{same}");
    }
    assert_eq!(theirs["labels"]["team_name"], "runtime");
    assert_eq!(theirs["labels"]["alertname"], "test.full");
    assert_eq!((keys(&fired), keys(theirs)), (keys(&own), keys(ours)));
    assert_eq!(fired["version"], own["version"]);
    assert_eq!(theirs["endsAt"], ours["endsAt"], "neither alert has an end");
    assert_eq!(fired["groupLabels"], own["groupLabels"]);
    assert_eq!(fired["groupKey"], own["groupKey"]);

    // The test waits until gcwatch has sent six requests. The end time in the first request has then passed, so the
    // Alertmanager would have resolved the alert without the later requests.
    let sent = async |count: u64| {
        let waited = tokio::time::timeout(LONG, services.notifier.until(|all| all[0].1.sent >= count));
        waited.await.expect("the alert is sent again");
    };
    sent(6).await;
    assert!(by_alertmanager.try_next().is_none(), "one firing notification");
    let rules = std::sync::Arc::default();
    services.pipeline.set_rules(rules, targets::clocks().moment());
    let resolved: Value = serde_json::from_slice(&by_alertmanager.next().await.body).unwrap();
    let own: Value = serde_json::from_slice(&by_gcwatch.next().await.body).unwrap();
    assert_eq!(
        (&resolved["status"], &own["status"]),
        (&"resolved".into(), &"resolved".into())
    );
    assert_eq!(resolved["alerts"][0]["labels"], theirs["labels"]);
    assert_eq!(resolved["alerts"][0]["endsAt"], own["alerts"][0]["endsAt"]);
    sent(services.notifier.stats()[0].1.sent + 2).await;
    assert!(by_alertmanager.try_next().is_none(), "one resolved notification");
    let failures: u64 = services.notifier.stats()[0]
        .1
        .failures()
        .iter()
        .map(|(_, count)| count)
        .sum();
    assert_eq!(failures, 0);
    assert!(by_gcwatch.try_next().is_none());
    services.close().await;
}
