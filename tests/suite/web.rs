//! The listener of the daemon, over a real socket.

use std::net::SocketAddr;
use std::sync::Arc;

use base::clock::now_unix_ns;
use base::run_key::RunKey;
use base::secret::Secret;
use base::time::Moment;
use config::options::Options;
use config::options::RuleSources;
use delivery::otlp::settings::Protocol;
use gc_telemetry::options::{Aggregate, MetricOptions};
use gc_telemetry::prometheus::{Format, exposition};
use gc_telemetry::value::text;
use gcwatch::daemon::Services;
use gcwatch::pipeline::replay::ReplayFeeds;
use gcwatch::pipeline::{Clock, PipelineSettings};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use processes::{Identity, RunState};
use report::top;
use serde_json::Value;
use targets::sink::Sink as _;
use test_support::program::{gcwatch, records_of, stderr};
use test_support::receiver::Receiver;
use test_support::recordings;
use test_support::replay::stage;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use web::options::{Protects, TlsFiles, WebOptions};

use crate::otlp::given::all_to;

pub(crate) fn options() -> Options {
    Options {
        pipeline: PipelineSettings {
            clock: Clock::Recorded,
            ..PipelineSettings::default()
        },
        rules: RuleSources {
            shipped: false,
            paths: Vec::new(),
        },
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..Options::default()
    }
}

/// Sends a request with additional headers. Returns the status, the head in lower case and the body of the answer.
async fn asked(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, headers: &str) -> (u16, String, Vec<u8>) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let body = answer.split_off(end + 4);
    let head = String::from_utf8(answer).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body)
}

async fn get(address: SocketAddr, path: &str, accept: &str) -> (u16, String, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (status, head, body) = asked(stream, path, &format!("Accept: {accept}\r\n")).await;
    (status, head, String::from_utf8(body).unwrap())
}

/// Returns services that have replayed a recording. The process of the recording is still running.
pub(crate) async fn services_with(name: &str) -> (Services, SocketAddr, ReplayFeeds) {
    services_of(&options(), name).await
}

pub(crate) async fn services_of(options: &Options, name: &str) -> (Services, SocketAddr, ReplayFeeds) {
    let services = Services::open(options).await.unwrap();
    let stage = stage(&services.pipeline, name, "checkout");
    let address = services.address().unwrap();
    (services, address, stage)
}

/// Scenario: a scraper requests each format while a process is read.
/// Guarantee: the answer has the right content type, the counter of the process with its real value, and the daemon's
/// own metrics.
#[tokio::test]
async fn metrics_are_served_in_both_formats() {
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
    assert!(open.contains("# {trace_id="), "an exemplar refers to a span");
    stage.end();
    let (_, _, after) = get(address, "/metrics", "*/*").await;
    assert!(!after.contains("checkout"), "its series end with the process");
    services.close().await;
}

/// Returns the lines of a metrics text that are series of the service `checkout`, sorted.
fn series_of_service(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("service_name=\"checkout\""))
        .collect();
    lines.sort_unstable();
    lines
}

/// Scenario: a service with `metrics.aggregate: service` has two processes. A scraper and an OTLP receiver get the
/// metrics; then one process exits, then the other.
/// Guarantee: the scraper and the receiver get the same series, with the service as a single instance. The exit of a
/// process changes no counter, and the series end with the last process.
#[tokio::test]
async fn scraper_and_receiver_get_same_service_series() {
    let mut receiver = Receiver::start().await;
    let metrics = MetricOptions {
        aggregate: Aggregate::Service,
        ..MetricOptions::default()
    };
    let pipeline = PipelineSettings {
        metrics,
        ..options().pipeline
    };
    let options = Options {
        otlp: all_to(&receiver, Protocol::Grpc),
        pipeline,
        ..options()
    };
    let (services, address, first) = services_of(&options, "net10-steady").await;
    let second = stage(&services.pipeline, "svc8-workstation", "checkout");
    let (_, _, scraped) = get(address, "/metrics", "*/*").await;
    services.export_metrics(now_unix_ns());
    let received = loop {
        let request = receiver.next().await;
        if !request.path.to_lowercase().contains("metrics") {
            continue;
        }
        let of_service =
            |resource: &Resource| text(&resource.attributes, "service.name").as_deref() == Some("checkout");
        let parts = request.metrics().resource_metrics.into_iter();
        let part = parts
            .map(|part| (part.resource.unwrap(), part.scope_metrics))
            .find(|(resource, _)| of_service(resource));
        if let Some((resource, scopes)) = part {
            break (
                resource,
                scopes
                    .into_iter()
                    .flat_map(|scope| scope.metrics)
                    .collect::<Vec<Metric>>(),
            );
        }
    };
    let mut text = String::new();
    exposition(Format::Text, &[(&received.0, received.1.as_slice())], &mut text);
    let (series, expected) = (series_of_service(&scraped), series_of_service(&text));
    assert!(series.len() > 50, "{scraped}");
    assert_eq!(series, expected);
    assert!(
        series
            .iter()
            .all(|line| !line.contains("process_pid") && !line.contains("duplicate")),
        "{scraped}"
    );
    let collections = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| line.starts_with("gcwatch_gc_collections_total{"));
        let values = lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap());
        values.sum::<f64>()
    };
    let before = collections(&scraped);
    assert!(before >= services.pipeline.counts().collections as f64, "{scraped}");
    let processes = |text: &str| {
        let mut lines = text
            .lines()
            .filter(|line| line.starts_with("gcwatch_service_processes{"));
        lines.next().map(|line| line.rsplit_once(' ').unwrap().1.to_owned())
    };
    assert_eq!(processes(&scraped).as_deref(), Some("2"));
    second.end();
    let (_, _, scraped) = get(address, "/metrics", "*/*").await;
    assert_eq!(processes(&scraped).as_deref(), Some("1"));
    assert!(collections(&scraped) >= before, "{scraped}");
    first.end();
    let (_, _, scraped) = get(address, "/metrics", "*/*").await;
    assert!(!scraped.contains("checkout"), "{scraped}");
    services.close().await;
}

/// Scenario: `gcwatch top` reads the records of this daemon.
/// Guarantee: the fields that `top` draws exist in the records, and `top` reads their values.
#[tokio::test]
async fn records_have_fields_of_top() {
    let (services, address, stage) = services_with("net10-steady").await;
    let overview = get(address, "/api/v1/overview", "*/*").await.2;
    let pid = serde_json::from_str::<Value>(&overview).unwrap()["processes"][0]["pid"].clone();
    let process = get(address, &format!("/api/v1/processes/{pid}"), "*/*").await.2;
    let known = format!(
        "{:?} {:?}",
        serde_json::from_str::<top::Overview>(&overview).unwrap(),
        serde_json::from_str::<top::Process>(&process).unwrap()
    );
    // These fields are known for a process that was read.
    for name in [
        "stopped_share",
        "longest_ns",
        "p99_ns",
        "allocated",
        "heap_after",
        "heap_live",
        "start_ms",
        "stopped_ns",
        "reason",
    ] {
        assert!(
            known.contains(&format!("{name}: Some")) || known.contains(&format!("{name}: [")),
            "{name}: {known}"
        );
    }
    stage.end();
    services.close().await;
}

/// Scenario: a scraper that accepts gzip requests the metrics and the health check.
/// Guarantee: the compressed metrics have less than a fifth of the bytes; small answers are not compressed.
#[tokio::test]
async fn answers_are_compressed() {
    let (services, address, stage) = services_with("net10-steady").await;
    let get = async |path: &str| {
        let stream = TcpStream::connect(address).await.unwrap();
        asked(stream, path, "Accept-Encoding: gzip;q=0.5\r\n").await
    };
    let (_, head, packed) = get("/metrics").await;
    assert!(
        head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"),
        "{head}"
    );
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed[..]), &mut text).unwrap();
    assert!(text.contains("dotnet_gc_collections_total{") && packed.len() * 5 < text.len());
    let (_, head, small) = get("/livez").await;
    assert!(!head.contains("content-encoding") && small.starts_with(b"ok"), "{head}");
    stage.end();
    services.close().await;
}

/// Scenario: a listener has a certificate, a token and a user. Clients with the token, with the user, with a wrong
/// token and without a login send requests.
/// Guarantee: over TLS, the first two clients get every answer. The other clients get status 401 with the login
/// methods, but can read the health checks. A request without TLS is not answered.
#[tokio::test]
async fn login_over_tls_grants_access() {
    let folder = tempfile::TempDir::new().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut options = options();
    options.web = WebOptions {
        token: Some(Secret::new("0123456789abcdef")),
        users: vec![("ann".to_owned(), Secret::new("correct horse"))],
        protects: Protects::All,
        tls: Some(TlsFiles { certificate, key }),
        ..WebOptions::default()
    };
    let (services, address, stage) = services_of(&options, "net10-steady").await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let ask = async |path: &str, login: &str| {
        let stream = TcpStream::connect(address).await.unwrap();
        let stream = connector.connect("localhost".try_into().unwrap(), stream).await;
        let (status, head, body) = asked(stream.unwrap(), path, login).await;
        (status, head, String::from_utf8(body).unwrap())
    };
    for known in [
        "Authorization: Bearer 0123456789abcdef\r\n",
        // The login `ann:correct horse` in base64.
        "Authorization: Basic YW5uOmNvcnJlY3QgaG9yc2U=\r\n",
    ] {
        let (status, head, body) = ask("/metrics", known).await;
        assert!(
            status == 200 && body.contains("dotnet_gc_collections_total{"),
            "{head}{body}"
        );
        assert_eq!(ask("/", known).await.0, 200);
    }
    for unknown in ["", "Authorization: Bearer 0123456789abcdeg\r\n"] {
        let (status, head, _) = ask("/metrics", unknown).await;
        assert_eq!(status, 401, "{head}");
        assert!(
            head.contains("www-authenticate: basic realm=\"gcwatch\"") && head.contains("bearer"),
            "{head}"
        );
        assert_eq!(ask("/livez", unknown).await.0, 200);
    }
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain
        .write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _reset_or_end = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    stage.end();
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

/// Scenario: a rule from a file fires on a process; then the process ends.
/// Guarantee: the alert is in the API and in /metrics, and the rule names the process on which it fires. The static
/// page does not contain texts of rules. The alert ends with the process.
#[tokio::test]
async fn alerts_and_rules_are_shown() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.yaml"), RULES).unwrap();
    std::fs::write(folder.path().join("a.test.yaml"), "is not read").unwrap();
    let mut options = options();
    options.rules.paths = vec![folder.path().to_owned()];
    let (services, address, stage) = services_of(&options, "svc8-workstation").await;
    let alerts = json(address, "/api/v1/alerts").await;
    let alert = &alerts["alerts"][0];
    assert_eq!(
        (&alert["rule"], &alert["severity"]),
        (&"test.full".into(), &"critical".into())
    );
    assert_eq!(alert["service_name"], "checkout");
    assert_eq!(alert["group"], Value::Null, "unknown values are null, not omitted");
    let rules = json(address, "/api/v1/rules").await;
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
    let overview = json(address, "/api/v1/overview").await;
    assert_eq!(overview["incidents"][0]["title"], "A full <collection>");
    let row = &overview["processes"][0];
    assert_eq!(
        (&row["severity"], &row["incidents"]),
        (&"critical".into(), &1.into()),
        "{row}"
    );
    let (_, head, page) = get(address, "/", "*/*").await;
    assert!(
        !page.contains("collection>") && head.contains("script-src 'self'"),
        "{head}"
    );
    assert!(
        head.contains("require-trusted-types-for 'script'") && !head.contains("unsafe"),
        "{head}"
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

/// Scenario: a client requests the targets and the last collections of one process from the API.
/// Guarantee: the answer is JSON with the names of the contract: newest first, at most the requested number, and no
/// data of another process.
#[tokio::test]
async fn api_reports_targets_and_collections() {
    let (services, address, stage) = services_with("svc8-workstation").await;
    let (status, head, body) = get(address, "/api/v1/targets", "*/*").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    let targets: Value = serde_json::from_str(&body).unwrap();
    let target = &targets["targets"][0];
    assert_eq!(target["state"], "attached");
    assert_eq!(target["service_name"], "checkout");
    assert_eq!(target["collections"], 93);
    assert_eq!(target["runtime"], Value::Null, "unknown values are null, not omitted");

    let pid = target["pid"].as_u64().unwrap();
    let (_, _, body) = get(address, &format!("/api/v1/gcs?pid={pid}&limit=3"), "*/*").await;
    let gcs: Value = serde_json::from_str(&body).unwrap();
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

/// Scenario: the name of a process looks like HTML and like a line of metrics.
/// Guarantee: the page, which is the same for all processes, does not contain the name; records contain it as a JSON
/// string. A test in a browser checks that the page shows it as text (`tests/page`).
#[tokio::test]
async fn names_are_shown_as_text() {
    let services = Services::open(&options()).await.unwrap();
    let name = "<script>alert(1)</script>\n\"";
    let identity = Identity::new(RunKey { pid: 9, start_time: 1 }, name);
    services.pipeline.note(&identity, RunState::Excluded);
    let address = services.address().unwrap();
    for path in ["/", "/processes/9", "/rules", "/self", "/processes/9/collections/1"] {
        let (status, head, page) = get(address, path, "text/html").await;
        assert_eq!(status, 200, "{path}");
        assert!(head.contains("content-type: text/html"), "{path}: {head}");
        assert!(
            !page.contains("alert(1)") && page.contains("/assets/app.js"),
            "{path}: {page}"
        );
    }
    let record = json(address, "/api/v1/processes/9").await;
    assert_eq!(
        (&record["process"]["name"], &record["process"]["reason"]),
        (&name.into(), &"excluded".into())
    );
    assert!(
        record["process"]["remedy"]
            .as_str()
            .unwrap()
            .contains("targets.exclude")
    );
    assert_eq!(record["process"]["minute"], Value::Null, "unknown values are null");
    services.close().await;
}

pub(crate) async fn json(address: SocketAddr, path: &str) -> Value {
    let (status, head, body) = get(address, path, "*/*").await;
    assert_eq!(status, 200, "{path}: {body}");
    assert!(head.contains("content-type: application/json"), "{path}: {head}");
    serde_json::from_str(&body).unwrap()
}

/// Closes every object of the document, so that a field that the document does not describe is an error.
fn closed(mut document: Value) -> Value {
    fn close(value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            if fields.get("properties").is_some_and(Value::is_object) {
                fields.entry("additionalProperties").or_insert(false.into());
            }
            fields.values_mut().for_each(close);
        } else if let Some(values) = value.as_array_mut() {
            values.iter_mut().for_each(close);
        }
    }
    close(&mut document);
    document
}

/// Scenario: every API path with a JSON answer is requested, with a process that replayed a recording and a rule that
/// fires on it.
/// Guarantee: each answer matches `/api/v1/openapi.json`: every field is described, has its type, and is present.
#[tokio::test]
async fn answers_match_document() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.yaml"), RULES).unwrap();
    let mut options = options();
    options.rules.paths = vec![folder.path().to_owned()];
    options.state_directory = Some(folder.path().join("state"));
    let (services, address, stage) = services_of(&options, "svc8-workstation").await;
    let document = json(address, "/api/v1/openapi.json").await;
    let pid = json(address, "/api/v1/processes").await["processes"][0]["pid"].clone();
    let newest = json(address, "/api/v1/overview").await["processes"][0]["last_collection"].clone();
    let mut compiler = boon::Compiler::new();
    let mut schemas = boon::Schemas::new();
    compiler
        .add_resource("http://localhost/api.json", closed(document.clone()))
        .unwrap();
    let mut held = 0;
    for (path, described) in document["paths"].as_object().unwrap() {
        let content = &described["get"]["responses"]["200"]["content"];
        // Skip the paths of evidence, because this test has neither recordings nor observed requests.
        if content.get("application/json").is_none() || path.starts_with("/api/v1/evidence/") {
            continue;
        }
        let place = path
            .replace('~', "~0")
            .replace('/', "~1")
            .replace('{', "%7B")
            .replace('}', "%7D");
        let schema =
            format!("http://localhost/api.json#/paths/{place}/get/responses/200/content/application~1json/schema");
        let schema = compiler.compile(&schema, &mut schemas).unwrap();
        let asked = path
            .replace("{pid}", &pid.to_string())
            .replace("{number}", &newest.to_string());
        let answer = json(address, &asked).await;
        if let Err(error) = schemas.validate(&answer, schema) {
            panic!("{path}: {error:#}");
        }
        held += 1;
    }
    assert_eq!(held, 13);
    // An answer with a wrong type is invalid, so the check can fail.
    let overview = "http://localhost/api.json#/components/schemas/ProcessRow";
    let overview = compiler.compile(overview, &mut schemas).unwrap();
    assert!(schemas.validate(&serde_json::json!({ "pid": "1" }), overview).is_err());
    drop(stage);
    services.close().await;
}

/// Scenario: a process replayed a recording of 93 collections. A client requests its row, its record, and two of its
/// collections.
/// Guarantee: the sums match `gcwatch analyze` of the same recording, and columns have the same length. A recent
/// collection is returned completely, with its predecessor; an older collection is returned as one line.
#[tokio::test]
async fn process_has_its_history() {
    let mut options = options();
    let dashboard = "https://grafana.example/d/x?var-service={service}";
    options.web.grafana_url = Some(dashboard.to_owned());
    let folder = tempfile::TempDir::new().unwrap();
    options.state_directory = Some(folder.path().join("state"));
    let (services, address, stage) = services_of(&options, "svc8-workstation").await;
    let overview = json(address, "/api/v1/overview").await;
    assert_eq!(overview["grafana_url"], dashboard);
    let row = &overview["processes"][0];
    assert_eq!((&row["name"], &row["collections"]), (&"checkout".into(), &93.into()));
    let pid = row["pid"].as_u64().unwrap();
    let record = json(address, &format!("/api/v1/processes/{pid}")).await;
    assert_eq!(record["grafana_url"], dashboard);
    let mut source = recording::source::Source::open(&recordings::path("svc8-workstation")).unwrap();
    let analyzed = recording::Recording::read(&mut source, clr_gc::stream::Scope::Collections, |_| ());
    let totals = &analyzed.processes[0].1.totals;
    let sum = |column: &Value| -> u64 { column.as_array().unwrap().iter().filter_map(Value::as_u64).sum() };
    let history = &record["history"];
    assert_eq!(sum(&history["stopped_ns"]), u64::try_from(totals.stopped_ns).unwrap());
    assert_eq!(Some(sum(&history["allocated"])), totals.allocated);
    let counted: u64 = ["gen0", "gen1", "gen2", "background", "unknown"]
        .iter()
        .map(|kind| sum(&history["collections"][kind]))
        .sum();
    assert_eq!(counted, totals.count);
    // The history on disk has longer buckets. Data that is also in memory counts only once.
    assert!(record["kept_from_ms"].is_null());
    services.pipeline.keep_history(Moment::FIRST, true);
    let long = json(address, &format!("/api/v1/processes/{pid}/history?hours=2")).await;
    assert_eq!(
        (&long["bucket_ms"], &long["span_ms"]),
        (&20_000.into(), &7_200_000.into())
    );
    assert_eq!(sum(&long["stopped_ns"]), sum(&history["stopped_ns"]));
    assert_eq!(sum(&long["allocated"]), sum(&history["allocated"]));
    let record = json(address, &format!("/api/v1/processes/{pid}")).await;
    let kept_from = record["kept_from_ms"].as_u64().unwrap();
    assert_eq!(Some(kept_from), history["start_ms"][0].as_u64());
    for (hours, status) in [("0", 400), ("25", 400), ("x", 400), ("24", 200)] {
        let path = format!("/api/v1/processes/{pid}/history?hours={hours}");
        assert_eq!(get(address, &path, "*/*").await.0, status, "{hours}");
    }
    assert_eq!(get(address, "/api/v1/processes/1/history", "*/*").await.0, 404);
    let causes = record["causes"].as_array().unwrap();
    let stopped: i64 = causes.iter().map(|cause| cause["pause_ns"].as_i64().unwrap()).sum();
    assert_eq!(stopped, totals.pause_ns());
    let with_stats = analyzed.processes[0]
        .1
        .collections
        .iter()
        .filter(|one| one.heap_stats.is_some());
    let last = with_stats.max_by_key(|one| one.end).unwrap();
    assert_eq!(record["memory"]["heap_after"].as_u64(), last.heap_after());
    for column in [
        "stopped_ns",
        "longest_ns",
        "p99_ns",
        "allocated",
        "committed",
        "container_memory",
        "lossy",
    ] {
        assert_eq!(
            history[column].as_array().unwrap().len(),
            history["start_ms"].as_array().unwrap().len(),
            "{column}"
        );
    }
    let pauses = record["pauses"]["number"].as_array().unwrap();
    assert_eq!(pauses.len(), 93);
    let newest = record["newest"][0]["number"].as_u64().unwrap();
    let whole = json(address, &format!("/api/v1/processes/{pid}/collections/{newest}")).await;
    assert_eq!(
        (&whole["gc"]["kind"], &whole["gc"]["number"]),
        (&"gc".into(), &newest.into())
    );
    assert!(whole["previous"]["number"].as_u64() < Some(newest), "{whole}");
    let brief = json(address, &format!("/api/v1/processes/{pid}/collections/{}", pauses[3])).await;
    assert!(
        brief["gc"].is_null() && brief["line"]["pause_ns"].is_i64() && brief["line"]["reason"].is_string(),
        "{brief}"
    );
    let watcher = json(address, "/api/v1/self").await;
    assert_eq!(
        (&watcher["receivers"][0]["state"], &watcher["streams"]["collections"]),
        (&"off".into(), &93.into())
    );
    stage.end();
    services.close().await;
}

/// Scenario: requests have unknown paths, pids and numbers, and parameters that are not numbers.
/// Guarantee: the status is 404 or 400, with the problem and the remedy as JSON; a browser gets the page.
#[tokio::test]
async fn refusals_contain_remedy() {
    let (services, address, stage) = services_with("net10-steady").await;
    let pid = json(address, "/api/v1/processes").await["processes"][0]["pid"].clone();
    for (path, status, word) in [
        ("/api/v1/nothing".to_owned(), 404, "paths"),
        ("/nothing".to_owned(), 404, "paths"),
        ("/assets/nothing.js".to_owned(), 404, "no file"),
        ("/api/v1/processes/4242424".to_owned(), 404, "gcwatch doctor"),
        ("/api/v1/processes/abc".to_owned(), 400, "is not a valid pid"),
        (
            format!("/api/v1/processes/{pid}/collections/4000000"),
            404,
            "is not available",
        ),
        (
            format!("/api/v1/processes/{pid}/collections/-1"),
            400,
            "number of a collection",
        ),
        ("/api/v1/gcs?pid=abc".to_owned(), 400, "pid=PID"),
        ("/api/v1/events?view=nothing".to_owned(), 400, "view=overview"),
        ("/api/v1/events?view=process&pid=x".to_owned(), 400, "view=process"),
    ] {
        let (code, head, body) = get(address, &path, "*/*").await;
        assert_eq!(code, status, "{path}: {body}");
        assert!(
            head.contains("content-type: application/json") && body.contains(word),
            "{path}: {body}"
        );
        assert!(serde_json::from_str::<Value>(&body).unwrap()["error"].is_string());
    }
    let (code, _, body) = get(address, "/nothing", "text/html").await;
    assert!(code == 404 && body.contains("/assets/app.js"));
    stage.end();
    services.close().await;
}

/// Scenario: the health checks are requested before and after the daemon is ready.
/// Guarantee: the daemon is alive in both cases, and ready only in the second.
#[tokio::test]
async fn daemon_is_alive_before_ready() {
    let services = Services::open(&options()).await.unwrap();
    let address = services.address().unwrap();
    assert_eq!(get(address, "/livez", "*/*").await.0, 200);
    assert_eq!(get(address, "/readyz", "*/*").await.0, 503);
    services.set_ready(true);
    assert_eq!(get(address, "/readyz", "*/*").await.0, 200);
    services.close().await;
}

/// Scenario: a daemon has incidents of a recorded process. `gcwatch incidents` requests all incidents, one by the start
/// of its id, the incidents of another process, and an unknown id; then the daemon is stopped.
/// Guarantee: the records match `/api/v1/incidents`; an unknown id and a missing daemon are errors.
#[tokio::test(flavor = "multi_thread")]
async fn incidents_of_daemon_are_listed() {
    let options = Options {
        rules: RuleSources {
            shipped: true,
            paths: Vec::new(),
        },
        ..options()
    };
    let (services, address, _stage) = services_of(&options, "net10-lohoos").await;
    let url = format!("http://{address}");
    let (status, _, body) = get(address, "/api/v1/incidents", "*/*").await;
    assert_eq!(status, 200);
    let served: Value = serde_json::from_str(&body).unwrap();
    let served = served["incidents"].as_array().unwrap().clone();
    assert!(!served.is_empty(), "the recording has incidents");
    let asked = |arguments: &[&str]| {
        let arguments = [&["incidents", "--connect", &url], arguments].concat();
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        tokio::task::block_in_place(|| gcwatch(arguments))
    };
    let all = asked(&[]);
    assert!(all.status.success(), "{}", stderr(&all));
    assert_eq!(records_of(&all), served);
    let id = served[0]["id"].as_str().unwrap();
    assert_eq!(records_of(&asked(&[&id[..6]])), served[..1]);
    assert!(records_of(&asked(&["--pid", "1"])).is_empty());
    let table = asked(&["--format", "table", "--state", "all"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.lines().count() > served.len() && table.contains(&id[..8]),
        "{table}"
    );
    let unknown = asked(&["0000000000000000"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("the daemon has no incident with this id"));
    services.close().await;
    let gone = asked(&[]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains("nothing listens there"), "{}", stderr(&gone));
}
