//! The daemon's own listener, asked over a real socket.

use std::net::SocketAddr;
use std::path::Path;

use delivery::alerts;
use delivery::otlp::settings;
use gc_rules::time::TimeBase;
use gcwatch::config::options::RuleSources;
use gcwatch::daemon::{Options, Services};
use gcwatch::pipeline::replay::{Cast, Player, Stage};
use gcwatch::pipeline::{Clock, PipelineSettings};
use gcwatch::process::{Identity, RunKey, RunState};
use gcwatch::targets::options::TargetOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn options() -> Options {
    Options {
        targets: TargetOptions::default(),
        pipeline: PipelineSettings {
            clock: Clock::Recorded,
            ..PipelineSettings::default()
        },
        otlp: settings::OtlpSettings::default(),
        rules: RuleSources {
            shipped: false,
            paths: Vec::new(),
        },
        alerts: alerts::settings::AlertSettings::default(),
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        web_hosts: Vec::new(),
        own_resource: Vec::new(),
        state_directory: None,
        kubernetes: gcwatch::kubernetes::settings::Settings::default(),
        export_own_metrics: false,
    }
}

/// The status line's code, the head and the body.
async fn get(address: SocketAddr, path: &str, accept: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

/// Services that have replayed a recording, whose process still runs.
async fn services_with(name: &str) -> (Services, SocketAddr, Stage) {
    services_of(&options(), name).await
}

async fn services_of(options: &Options, name: &str) -> (Services, SocketAddr, Stage) {
    let services = Services::open(options).await.unwrap();
    let mut player = Player::open(&Path::new("tests/recordings").join(format!("{name}.nettrace.gz"))).unwrap();
    let base = player.begin().unwrap().unwrap().unix_ns_of_offset(0).unwrap();
    let cast = Cast {
        service: "checkout".to_owned(),
        attributes: Vec::new(),
        base: TimeBase::at(base),
        start_time: 1,
    };
    let mut stage = Stage::new(services.pipeline.clone(), cast);
    while let Some((key, outcome)) = player.next_outcome().unwrap() {
        stage.observe(key, outcome).unwrap();
    }
    stage.progress(player.progress());
    let address = services.address().unwrap();
    (services, address, stage)
}

/// Scenario: a scraper asks for each format while a process is read.
/// Guarantee: the right content type, the process's counter with its real value, and the daemon's own metrics.
#[tokio::test]
async fn metrics_are_given_in_both_formats() {
    let (services, address, stage) = services_with("net10-steady").await;
    let (status, head, body) = get(address, "/metrics", "*/*").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let total: f64 = body
        .lines()
        .filter(|line| line.starts_with("dotnet_gc_collections_total{"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
        .sum();
    let reported = services.pipeline.counts().collections;
    assert_eq!(total, reported as f64, "{body}");
    assert!(body.contains("service_name=\"checkout\""), "{body}");
    assert!(body.contains("process_cpu_time_seconds_total"), "{body}");

    let (_, head, open) = get(address, "/metrics", "application/openmetrics-text;version=1.0.0").await;
    assert!(head.contains("content-type: application/openmetrics-text"), "{head}");
    assert!(open.ends_with("# EOF\n"), "{open}");
    assert!(open.contains("# {trace_id="), "no exemplar points at a span");
    stage.end();
    let (_, _, after) = get(address, "/metrics", "*/*").await;
    assert!(!after.contains("checkout"), "its series end with the process");
    services.close().await;
}

const RULES: &str = "\
apiVersion: gcwatch/v1
rules:
  - id: test.full
    title: A full <collection>
    on: gc
    when: gc.generation == 2
    severity: critical
    keep_firing_for: 1h
    summary: Full <collection> {{ gc.number }}
    description: All generations.
    remedy: None is needed.
    source: a test
";

/// Scenario: a rule of a file fires on a process; then the process ends.
/// Guarantee: the alert is in the API, on the page (as text), and in /metrics, and the rule says on which process it
/// fires; with the process it goes.
#[tokio::test]
async fn alerts_and_rules_are_shown() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.yaml"), RULES).unwrap();
    std::fs::write(folder.path().join("a.test.yaml"), "is not read").unwrap();
    let mut options = options();
    options.rules.paths = vec![folder.path().to_owned()];
    let (services, address, stage) = services_of(&options, "svc8-workstation").await;
    let alerts: serde_json::Value = serde_json::from_str(&get(address, "/api/v1/alerts", "*/*").await.2).unwrap();
    let alert = &alerts["alerts"][0];
    assert_eq!(
        (&alert["rule"], &alert["severity"]),
        (&"test.full".into(), &"critical".into())
    );
    assert_eq!(alert["service_name"], "checkout");
    assert_eq!(alert["group"], serde_json::Value::Null, "unknown is null, not left out");
    let rules: serde_json::Value = serde_json::from_str(&get(address, "/api/v1/rules", "*/*").await.2).unwrap();
    assert_eq!(
        (&rules["health"], &rules["errors"]),
        (&"ok".into(), &serde_json::json!([]))
    );
    assert_eq!(rules["files"].as_array().unwrap().len(), 1);
    let rule = &rules["rules"][0];
    assert_eq!(
        (&rule["id"], &rule["states"]["firing"]),
        (&"test.full".into(), &1.into())
    );
    assert_eq!(rule["firing"][0]["pid"], alert["pid"]);
    assert!(rule["evaluations"].as_u64() > Some(90), "{rule}");
    let (_, _, page) = get(address, "/", "*/*").await;
    assert!(
        page.contains("Full &lt;collection&gt;") && !page.contains("<collection>"),
        "{page}"
    );
    let (_, _, metrics) = get(address, "/metrics", "*/*").await;
    let has = |start: &str, end: &str| {
        metrics
            .lines()
            .any(|line| line.starts_with(start) && line.ends_with(end))
    };
    assert!(has("gcwatch_alerts_active{", " 1"), "{metrics}");
    assert!(has("gcwatch_anomalies_total{", " 1"), "{metrics}");
    assert!(has("gcwatch_rules{", " 1") || has("gcwatch_rules ", " 1"), "{metrics}");
    stage.end();
    assert_eq!(get(address, "/api/v1/alerts", "*/*").await.2, r#"{"alerts":[]}"#);
    services.close().await;
}

/// Scenario: the API is asked for the targets and for the last collections of one process.
/// Guarantee: JSON with the contract's names; newest first, no more than asked for, nothing of another process.
#[tokio::test]
async fn the_api_reports_targets_and_collections() {
    let (services, address, stage) = services_with("svc8-workstation").await;
    let (status, head, body) = get(address, "/api/v1/targets", "*/*").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    let targets: serde_json::Value = serde_json::from_str(&body).unwrap();
    let target = &targets["targets"][0];
    assert_eq!(target["state"], "attached");
    assert_eq!(target["service_name"], "checkout");
    assert_eq!(target["collections"], 93);
    assert_eq!(
        target["runtime"],
        serde_json::Value::Null,
        "unknown is null, not left out"
    );

    let pid = target["pid"].as_u64().unwrap();
    let (_, _, body) = get(address, &format!("/api/v1/gcs?pid={pid}&limit=3"), "*/*").await;
    let gcs: serde_json::Value = serde_json::from_str(&body).unwrap();
    let gcs = gcs["gcs"].as_array().unwrap();
    assert_eq!(gcs.len(), 3);
    assert!(gcs[0]["number"].as_u64() > gcs[1]["number"].as_u64());
    assert!(
        gcs.iter()
            .all(|gc| gc["kind"] == "gc" && gc["pid"] == pid && gc["ns_pid"] == pid)
    );
    let (_, _, body) = get(address, &format!("/api/v1/gcs?pid={}", pid + 1), "*/*").await;
    assert_eq!(body, r#"{"gcs":[]}"#);
    stage.end();
    services.close().await;
}

/// Scenario: a process whose name is a piece of a page and of a metric's line.
/// Guarantee: the page shows the name as text.
#[tokio::test]
async fn names_are_shown_as_text() {
    let services = Services::open(&options()).await.unwrap();
    let identity = Identity {
        key: RunKey { pid: 9, start_time: 1 },
        ns_pid: None,
        name: "<script>alert(1)</script>\n\"".to_owned(),
        runtime: None,
        resource: Vec::new(),
        provenance: gcwatch::process::Provenance::default(),
    };
    services.pipeline.note(&identity, RunState::Excluded);
    let (_, _, page) = get(services.address().unwrap(), "/", "*/*").await;
    assert!(!page.contains("<script>"), "{page}");
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;\u{fffd}&quot;"),
        "{page}"
    );
    services.close().await;
}

/// Scenario: health is asked before the daemon is ready, and when it is.
/// Guarantee: alive in both cases, ready only when it is.
#[tokio::test]
async fn alive_is_not_ready() {
    let services = Services::open(&options()).await.unwrap();
    let address = services.address().unwrap();
    assert_eq!(get(address, "/livez", "*/*").await.0, 200);
    assert_eq!(get(address, "/readyz", "*/*").await.0, 503);
    services.set_ready(true);
    assert_eq!(get(address, "/readyz", "*/*").await.0, 200);
    services.close().await;
}

/// Scenario: a second daemon is started with the same address.
/// Guarantee: it does not begin, and the sentence names the address and the way out.
#[tokio::test]
async fn a_taken_port_is_said() {
    let first = Services::open(&options()).await.unwrap();
    let taken = first.address().unwrap();
    let second = Options {
        listen: Some(taken),
        ..options()
    };
    let error = Services::open(&second).await.unwrap_err().to_string();
    assert!(
        error.contains(&taken.to_string()) && error.contains("--listen none"),
        "{error}"
    );
    first.close().await;
}
