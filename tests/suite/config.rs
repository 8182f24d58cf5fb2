//! The configuration: errors, precedence, secrets, and the generated files.
//!
//! `tests/config/errors.txt` contains invalid files and their errors. After an intended change, run with
//! `GCWATCH_UPDATE_GOLDEN=1` and read the difference; the same run writes `docs/configuration.md` and
//! `docs/gcwatch.schema.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use clap::Parser;
use config::environment::Environment;
use config::flags::ConfigFlags;
use config::options::LogFormat;
use config::problem::Problems;
use config::{Config, LoadedConfig, Sources, file, page, schema};
use delivery::otlp::settings::{Compression, Protocol, Receiver};
use gc_telemetry::options::{HistogramBuckets, Temporality};
use proptest::prelude::*;
use test_support::golden;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    flags: ConfigFlags,
}

fn flags(args: &[&str]) -> ConfigFlags {
    Command::parse_from(std::iter::once(&"gcwatch").chain(args)).flags
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    variables.iter().map(owned).collect()
}

fn read(file: &str, variables: &[(&str, &str)], args: &[&str]) -> Result<LoadedConfig, Problems> {
    Config::read(&Sources {
        file: (!file.is_empty()).then_some(("gcwatch.yaml", file)),
        environment: &environment(variables),
        flags: &flags(args),
        read_file: &|path| match path.to_str() {
            Some("/run/secrets/token") => Ok("Bearer from-file\n".to_owned()),
            Some("/run/secrets/token-url") => Ok("https://hooks.example/from-file\n".to_owned()),
            Some("/run/secrets/lines") => Ok("one\ntwo".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
    })
}

fn config(file: &str, variables: &[(&str, &str)], args: &[&str]) -> Config {
    let loaded = read(file, variables, args).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(warnings(&loaded), "", "unexpected warnings");
    loaded.config
}

fn warnings(loaded: &LoadedConfig) -> String {
    let lines: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn traces(config: &Config) -> &Receiver {
    config.options.otlp.traces.as_ref().unwrap()
}

/// Scenario: files contain every kind of error.
/// Guarantee: all errors of a file are reported at once with the committed texts, each with its position and its
/// remedy.
#[test]
fn errors_have_committed_texts() {
    let name = "tests/config/errors.txt";
    let committed = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let mut report = String::new();
    let mut cases = 0;
    for case in committed.split("=== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let (text, _) = rest.split_once("--- ").unwrap();
        let variables = [("GOOD_TOKEN", "0123456789abcdef"), ("SHORT", "s3cr3t")];
        let problems = read(text, &variables, &[])
            .err()
            .map_or_else(|| "nothing".to_owned(), |problems| problems.to_string());
        report += &format!("=== {title}\n{text}--- reports\n{problems}\n\n");
        cases += 1;
    }
    assert!(cases >= 40, "cases are missing");
    assert!(
        !report.contains("--- reports\nnothing"),
        "every invalid file is refused:\n{report}"
    );
    golden::compare(name, &report);
}

/// Scenario: the reference page, the schema, and the example in the page are generated.
/// Guarantee: the committed files match the types, and the example is accepted without a warning.
#[test]
fn page_and_schema_are_current() {
    golden::compare("docs/gcwatch.schema.json", &schema::text());
    let page = page::text();
    golden::compare("docs/configuration.md", &page);
    let example = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let example = example.replace("/run/secrets/otlp-authorization", "/run/secrets/token");
    let config = config(&example, &[], &[]);
    assert_eq!(traces(&config).endpoint, "https://collector.example:4317");
    assert_eq!(config.options.targets.exclude.len(), 2);
}

/// Scenario: nothing is configured.
/// Guarantee: all signals go to a local Collector over gRPC, and the web server listens only on this host.
#[test]
fn empty_configuration_has_defaults() {
    let config = config("", &[], &[]);
    for receiver in [
        &config.options.otlp.traces,
        &config.options.otlp.metrics,
        &config.options.otlp.logs,
    ] {
        let receiver = receiver.as_ref().unwrap();
        assert_eq!(receiver.endpoint, "http://localhost:4317");
        assert_eq!(receiver.protocol, Protocol::Grpc);
        assert_eq!(receiver.timeout, Duration::from_secs(10));
    }
    assert_eq!(config.options.listen.unwrap().to_string(), "127.0.0.1:9464");
    assert_eq!(config.options.targets, targets::options::TargetOptions::default());
    assert_eq!(
        config.options.pipeline.spans,
        gc_telemetry::options::SpanOptions::default()
    );
    assert_eq!(
        config.options.pipeline.metrics,
        gc_telemetry::options::MetricOptions::default()
    );
    assert_eq!(config.options.otlp.limits, delivery::otlp::settings::Limits::default());
    assert_eq!(config.log.filter, "info");
    let own = &config.self_telemetry;
    assert!(!own.traces && own.metrics && own.logs.as_deref() == Some("warn"));
    for empty in [
        "",
        "# nothing\n",
        "otlp:\n",
        "---\n",
        "otlp: {endpoint: , headers: ~}\n",
    ] {
        assert_eq!(config.options, self::config(empty, &[], &[]).options, "{empty}");
    }
}

/// Scenario: one key is set in one, two and three layers.
/// Guarantee: a flag overrides a variable, a variable overrides the file, and the file overrides the default.
#[test]
fn flags_override_environment_and_file() {
    let file = "listen: 127.0.0.1:1\nlog: {level: error}\notlp: {timeout: 3s}\n";
    let variables = [("GCWATCH_LISTEN", "127.0.0.1:2"), ("OTEL_LOG_LEVEL", "WARN")];
    let listen = |config: Config| config.options.listen.unwrap().port();
    assert_eq!(listen(config(file, &[], &[])), 1);
    assert_eq!(listen(config(file, &variables, &[])), 2);
    assert_eq!(listen(config(file, &variables, &["--listen", "127.0.0.1:3"])), 3);
    assert_eq!(config("", &[], &["--listen", "none"]).options.listen, None);
    let all = config(file, &variables, &["--log-format", "json"]);
    assert_eq!((all.log.filter.as_str(), all.log.format), ("warn", LogFormat::Json));
    assert_eq!(
        traces(&all).timeout,
        Duration::from_secs(3),
        "keys without an override keep their value"
    );
}

/// Scenario: the file sets a receiver for one signal, a variable sets the common receiver, and flags set the receiver
/// of all signals.
/// Guarantee: the variable does not change the receiver of the signal with its own key; the flags change it.
#[test]
fn flags_apply_to_all_signals() {
    let file = "otlp:\n  traces: {endpoint: 'http://tempo:4318/v1/traces', protocol: http/protobuf}\n";
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317")];
    let with = config(file, &variables, &[]);
    assert_eq!(traces(&with).endpoint, "http://tempo:4318/v1/traces");
    assert_eq!(
        with.options.otlp.logs.as_ref().unwrap().endpoint,
        "http://collector:4317"
    );
    let flagged = config(
        file,
        &variables,
        &["--endpoint", "http://other:9", "--protocol", "http/json", "--no-logs"],
    );
    assert_eq!(traces(&flagged).endpoint, "http://other:9/v1/traces");
    assert_eq!(traces(&flagged).protocol, Protocol::HttpJson);
    assert_eq!(flagged.options.otlp.logs, None);
}

/// Scenario: flags have invalid values.
/// Guarantee: each error names the flag.
#[test]
fn errors_name_invalid_flags() {
    let problems = read(
        "",
        &[],
        &["--listen", "9464", "--endpoint", "collector:4317", "--log-level", "inf"],
    );
    assert_eq!(
        problems.unwrap_err().to_string(),
        "--endpoint: `collector:4317` has no scheme; write http:// or https:// before it\n\
         --listen: `9464` has no address; write 127.0.0.1:9464, or 0.0.0.0:9464 to listen on all interfaces\n\
         --log-level: `inf` is not one of off, error, warn, info, debug, trace; did you mean `info`?"
    );
}

/// Scenario: each variable of the OpenTelemetry specification that applies to all signals is set.
/// Guarantee: each variable takes effect.
#[test]
fn common_variables_take_effect() {
    let set = |variables: &[(&str, &str)]| config("", variables, &[]);
    let http = set(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base/"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%20b, x=1=2,"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
    ]);
    let receiver = traces(&http);
    assert_eq!(receiver.endpoint, "http://collector:4318/base/v1/traces");
    assert_eq!(
        http.options.otlp.metrics.as_ref().unwrap().endpoint,
        "http://collector:4318/base/v1/metrics"
    );
    assert_eq!(
        http.options.otlp.logs.as_ref().unwrap().endpoint,
        "http://collector:4318/base/v1/logs"
    );
    assert_eq!(receiver.protocol, Protocol::HttpProtobuf);
    let headers: Vec<(&str, &str)> = receiver
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.reveal()))
        .collect();
    assert_eq!(headers, [("api-key", "a b"), ("x", "1=2")]);
    assert_eq!(receiver.timeout, Duration::from_millis(2500));
    assert_eq!(receiver.compression, Compression::Gzip);
    let none = [("OTEL_EXPORTER_OTLP_COMPRESSION", "none")];
    assert_eq!(
        traces(&config("otlp: {compression: zstd}", &none, &[])).compression,
        Compression::None
    );
    let protocol = set(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]);
    assert_eq!(traces(&protocol).endpoint, "http://localhost:4318/v1/traces");

    let tls = set(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4317"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/me.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/me.key"),
    ]);
    let path = |path: &str| Some(PathBuf::from(path));
    assert_eq!(traces(&tls).certificate, path("/ca.pem"));
    assert_eq!(traces(&tls).client_certificate, path("/me.pem"));
    assert_eq!(traces(&tls).client_key, path("/me.key"));

    for (insecure, scheme) in [("true", "http"), ("FALSE", "https")] {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_INSECURE", insecure),
        ];
        assert_eq!(traces(&set(&variables)).endpoint, format!("{scheme}://collector:4317"));
    }
    let limits = set(&[
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4096"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "256"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "1000"),
    ]);
    let limits = limits.options.otlp.limits;
    assert_eq!((limits.queue_items, limits.batch_items), (4096, 256));
    assert_eq!(limits.batch_delay, Duration::from_secs(1));
    assert_eq!(
        set(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " "), ("OTEL_TRACES_EXPORTER", "")])
            .options
            .otlp,
        set(&[]).options.otlp
    );
}

/// Scenario: variables of one signal are set in addition to the common variables.
/// Guarantee: the variables of the signal take precedence. The HTTP endpoint of a signal is used as is, and its headers
/// replace the common headers.
#[test]
fn signal_variables_take_precedence() {
    for (signal, number) in [("TRACES", 0), ("METRICS", 1), ("LOGS", 2)] {
        let name = |key: &str| format!("OTEL_EXPORTER_OTLP_{signal}_{key}");
        let own = [
            (name("ENDPOINT"), "https://one:4318/own/path"),
            (name("PROTOCOL"), "http/json"),
            (name("HEADERS"), "own=1"),
            (name("TIMEOUT"), "1000"),
            (name("COMPRESSION"), "gzip"),
            (name("CERTIFICATE"), "/own.pem"),
            (name("CLIENT_CERTIFICATE"), "/own-me.pem"),
            (name("CLIENT_KEY"), "/own-me.key"),
        ];
        let mut variables: Vec<(&str, &str)> = own.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        variables.extend([
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4317"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "all=1"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "9000"),
        ]);
        let config = config("", &variables, &[]);
        let otlp = &config.options.otlp;
        let receivers = [&otlp.traces, &otlp.metrics, &otlp.logs].map(|receiver| receiver.clone().unwrap());
        for (place, receiver) in receivers.iter().enumerate() {
            let header = receiver
                .headers
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>()
                .join(",");
            if place == number {
                assert_eq!(receiver.endpoint, "https://one:4318/own/path");
                assert_eq!((receiver.protocol, header.as_str()), (Protocol::HttpJson, "own"));
                assert_eq!(receiver.timeout, Duration::from_secs(1));
                assert_eq!(receiver.compression, Compression::Gzip);
                assert_eq!(receiver.certificate.as_deref(), Some(Path::new("/own.pem")));
                assert_eq!(receiver.client_certificate.as_deref(), Some(Path::new("/own-me.pem")));
                assert_eq!(receiver.client_key.as_deref(), Some(Path::new("/own-me.key")));
            } else {
                assert_eq!(receiver.endpoint, "http://all:4317");
                assert_eq!((receiver.protocol, header.as_str()), (Protocol::Grpc, "all"));
                assert_eq!(receiver.timeout, Duration::from_secs(9));
                assert_eq!(receiver.client_key, None);
            }
        }
        let exporter = format!("OTEL_{signal}_EXPORTER");
        let off = self::config("", &[(exporter.as_str(), "none")], &[]);
        let off = [
            off.options.otlp.traces.is_none(),
            off.options.otlp.metrics.is_none(),
            off.options.otlp.logs.is_none(),
        ];
        assert_eq!(off.iter().position(|off| *off), Some(number));
        assert_eq!(off.iter().filter(|off| **off).count(), 1);
        let insecure = format!("OTEL_EXPORTER_OTLP_{signal}_INSECURE");
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "all:4317"),
            ("OTEL_EXPORTER_OTLP_INSECURE", "false"),
            (insecure.as_str(), "true"),
        ];
        let otlp = self::config("", &variables, &[]).options.otlp.clone();
        let schemes =
            [&otlp.traces, &otlp.metrics, &otlp.logs].map(|one| one.as_ref().unwrap().endpoint.starts_with("http:"));
        assert_eq!(schemes.iter().position(|http| *http), Some(number));
    }
}

/// Scenario: the variables for metrics, the log and gcwatch's own resource are set.
/// Guarantee: each variable has the effect that the specification defines.
#[test]
fn other_variables_take_effect() {
    let set = |variables: &[(&str, &str)]| config("", variables, &[]);
    let metrics = set(&[
        ("OTEL_METRIC_EXPORT_INTERVAL", "15000"),
        ("OTEL_METRIC_EXPORT_TIMEOUT", "5000"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "EXPLICIT_BUCKET_HISTOGRAM",
        ),
    ]);
    assert_eq!(metrics.options.pipeline.metrics.interval, Duration::from_secs(15));
    assert_eq!(
        metrics.options.otlp.metrics.as_ref().unwrap().timeout,
        Duration::from_secs(5)
    );
    assert_eq!(traces(&metrics).timeout, Duration::from_secs(10));
    assert!(
        matches!(&metrics.options.pipeline.metrics.buckets, HistogramBuckets::Explicit(bounds) if bounds.first() == Some(&0.0005))
    );
    let both = [
        ("OTEL_METRIC_EXPORT_TIMEOUT", "5000"),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "6000"),
    ];
    assert_eq!(
        set(&both).options.otlp.metrics.as_ref().unwrap().timeout,
        Duration::from_secs(6)
    );
    let name = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION";
    let exponential = config(
        "metrics: {histogram: explicit}",
        &[(name, "base2_exponential_bucket_histogram")],
        &[],
    );
    assert_eq!(
        exponential.options.pipeline.metrics.buckets,
        HistogramBuckets::Exponential { max_buckets: 160 }
    );
    for (word, temporality) in [
        ("cumulative", Temporality::Cumulative),
        ("Delta", Temporality::Delta),
        ("lowmemory", Temporality::Delta),
    ] {
        let name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
        assert_eq!(set(&[(name, word)]).options.pipeline.metrics.temporality, temporality);
    }
    assert_eq!(set(&[("OTEL_LOG_LEVEL", "DEBUG")]).log.filter, "debug");
    assert_eq!(
        set(&[
            ("OTEL_LOG_LEVEL", "debug"),
            ("GCWATCH_LOG", "warn,gcwatch::targets=trace")
        ])
        .log
        .filter,
        "warn,gcwatch::targets=trace"
    );

    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=inner,team=a%2Cb");
    let own = set(&[attributes]);
    assert_eq!(own.self_telemetry.service_name, "inner");
    assert_eq!(own.self_telemetry.attributes, [("team".to_owned(), "a,b".to_owned())]);
    assert_eq!(
        own.options.pipeline.resource,
        [],
        "the variable does not apply to targets"
    );
    assert_eq!(
        set(&[attributes, ("OTEL_SERVICE_NAME", "outer")])
            .self_telemetry
            .service_name,
        "outer"
    );

    let disabled = read("", &[("OTEL_SDK_DISABLED", "True")], &[]).unwrap();
    assert_eq!(disabled.config.options.otlp.traces, None);
    assert_eq!(disabled.config.self_telemetry.logs, None);
    assert_eq!(
        warnings(&disabled),
        "environment OTEL_SDK_DISABLED: nothing is exported over OTLP"
    );
}

/// Scenario: variables have invalid values, contradict each other, or are unknown.
/// Guarantee: each of these variables is reported by its name and ignored. gcwatch starts, and no secret is reported.
#[test]
fn invalid_variables_are_reported_and_ignored() {
    let loaded = read(
        "otlp: {timeout: 7s}",
        &[
            ("GCWATCH_LISTEN", "everywhere"),
            ("GCWATCH_LOGS", "info"),
            ("GCWATCH_SERVICE_HOST", "10.0.0.1"),
            ("OTEL_BLRP_MAX_QUEUE_SIZE", "10"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "4000"),
            ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/me.key"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gz"),
            ("OTEL_EXPORTER_OTLP_ENDPIONT", "http://x:4317"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer hunter2"),
            ("OTEL_EXPORTER_OTLP_INSECURE", "yes"),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "ftp://x"),
            ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "content-type=hunter2"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "a=%zz hunter2"),
            ("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "http://x:4040"),
            ("OTEL_EXPORTER_OTLP_PROFILES_HEADERS", "a=hunter2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0"),
            ("OTEL_METRICS_EXPORTER", "prometheus"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team"),
            ("OTEL_SDK_DISABLED", "1"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
        ],
        &[],
    )
    .unwrap();
    let warnings = warnings(&loaded);
    assert!(!warnings.contains("hunter2"), "{warnings}");
    golden::compare("tests/config/variables.txt", &format!("{warnings}\n"));
    let receiver = traces(&loaded.config);
    assert_eq!(
        receiver.timeout,
        Duration::from_secs(7),
        "the file's value applies if the variable is ignored"
    );
    assert_eq!(receiver.endpoint, "https://collector:4317", "as the specification says");
    assert!(receiver.headers.is_empty() && receiver.client_key.is_none());
    assert_eq!(loaded.config.options.listen.unwrap().port(), 9464);
    assert_eq!(loaded.config.options.otlp.limits.queue_items, 4000);
}

/// Scenario: headers with secrets come from the configuration file, from a separate file, from a named variable, and
/// from the environment.
/// Guarantee: the headers are sent, and the higher layer wins for the same name. Neither printed configurations nor
/// debug output contain the secrets.
#[test]
fn secrets_are_sent_but_never_printed() {
    let file = "otlp:\n  headers: {X-One: hunter2, x-two: hunter2}\n  headers_from:\n    authorization: {file: /run/secrets/token}\n    x-three: {env: TOKEN}\n";
    let variables = [
        ("TOKEN", "hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-one=hunter2-over,x-four=hunter2"),
    ];
    let loaded = read(file, &variables, &[]).unwrap();
    assert_eq!(loaded.files, [PathBuf::from("/run/secrets/token")]);
    let config = loaded.config;
    let headers: BTreeMap<&str, &str> = traces(&config)
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.reveal()))
        .collect();
    assert_eq!(headers["x-one"], "hunter2-over");
    assert_eq!(headers["authorization"], "Bearer from-file");
    assert_eq!(
        (headers["x-two"], headers["x-three"], headers["x-four"]),
        ("hunter2", "hunter2", "hunter2")
    );
    assert_eq!(headers.len(), 5);
    let shown = format!("{}\n{config:?}", config.print());
    assert!(!shown.contains("hunter2") && !shown.contains("from-file"), "{shown}");
    assert!(config.print().contains("x-two: <redacted>  # from gcwatch.yaml:2:"));
    assert!(
        config
            .print()
            .contains("x-one: <redacted>  # from environment OTEL_EXPORTER_OTLP_HEADERS")
    );

    let changed = self::config(&file.replace("x-two: hunter2", "x-two: hunter3"), &variables, &[]);
    assert_ne!(
        config.options.otlp, changed.options.otlp,
        "a changed secret counts as a change"
    );
}

/// Scenario: the URL and the key of a webhook are secrets, and an Alertmanager has a header from a file.
/// Guarantee: the secrets are used, and neither printed configurations nor debug output contain them. The files of the
/// secrets are watched, and a changed secret counts as a change of `alerts`.
#[test]
fn receivers_of_alerts_keep_their_secrets() {
    let file = "alerts:\n  alertmanagers:\n    - url: http://am:9093/prefix/\n      headers_from: {authorization: {file: /run/secrets/token}}\n  \
                webhooks:\n    - {url: 'https://hooks.example/hunter2', secret_from: {env: KEY}}\n    - {url_from: {file: /run/secrets/token-url}}\n";
    let loaded = read(file, &[("KEY", "hunter2-key")], &[]).unwrap();
    let paths = ["/run/secrets/token", "/run/secrets/token-url"].map(PathBuf::from);
    assert_eq!(loaded.files, paths);
    let alerts = &loaded.config.options.alerts;
    let first = &alerts.alertmanagers[0];
    assert_eq!(first.receiver.endpoint, "http://am:9093/prefix/api/v2/alerts");
    assert_eq!(first.receiver.headers[0].1.reveal(), "Bearer from-file");
    let [one, two] = alerts.webhooks.as_slice() else {
        panic!("{alerts:?}")
    };
    assert_eq!(one.receiver.endpoint, "https://hooks.example/hunter2");
    assert_eq!(one.secret.as_ref().map(|secret| secret.reveal()), Some("hunter2-key"));
    assert_eq!(
        (two.receiver.endpoint.as_str(), &two.secret),
        ("https://hooks.example/from-file", &None)
    );
    let shown = format!("{}\n{:?}", loaded.config.print(), loaded.config);
    for secret in ["hunter2", "from-file"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    let changed = read(file, &[("KEY", "another")], &[]).unwrap().config;
    assert_ne!(loaded.config.options.alerts, changed.options.alerts);
}

/// Scenario: in each file, a secret is in a place where it can cause an error.
/// Guarantee: no error contains the secret.
#[test]
fn errors_do_not_contain_secrets() {
    for text in [
        "otlp: {headers: hunter2}",
        "otlp: {headers: [hunter2]}",
        "otlp: {headers: {a: [hunter2]}}",
        "otlp: {headers: {a: {b: hunter2}}}",
        "otlp: {headers: {a: \"hunter2\\n\"}}",
        "otlp: {headers: {a: \"${hunter2}\"}}",
        "otlp: {headers: {host: hunter2}}",
        "otlp: {headers: {a: hunter2, A: hunter2}}",
        "otlp: {headers: {a: !x hunter2}}",
        "otlp: {headers: {a: &x hunter2}}",
        "otlp: {headers: {a: \"hunter2}}",
        "otlp: {headers: {a: hunter2: b}}",
        "otlp: {header: {a: hunter2}}",
        "otlp: {endpoint: 'http://me:hunter2@host:4317'}",
        "otlp: {endpoint: 'me:hunter2@host:4317'}",
        "otlp: {traces: {headers: hunter2}}",
        "otlp: {headers_from: {a: {file: /run/secrets/lines}}}",
        "otlp: {headers_from: {a: hunter2}}",
        "otlp: {headers: {a: !hunter2}}",
        "alerts: {webhooks: [{url: 'hunter2'}]}",
        "alerts: {webhooks: [{url: 'ftp://hunter2'}]}",
        "alerts: {webhooks: [{url: [hunter2]}]}",
        "alerts: {webhooks: [{url: 'https://a/${hunter2}'}]}",
        "alerts: {webhooks: [{url: 'https://a/hunter2', url_from: {env: A}}]}",
        "alerts: {alertmanagers: [{url: 'http://me:hunter2@host:9093'}]}",
        "alerts: {alertmanagers: [{url: 'me:hunter2@host:9093'}]}",
    ] {
        let problems = read(text, &[], &[]).unwrap_err().to_string();
        assert!(
            !problems.contains("hunter2") && !problems.contains("two"),
            "{text}\n{problems}"
        );
    }
}

/// Scenario: files have values without effect, and endpoints that look like errors.
/// Guarantee: the files are accepted with warnings, each with its position.
#[test]
fn questionable_configurations_are_accepted_with_warnings() {
    let file = include_str!("../config/warnings.yaml");
    let one_https = file.replace(
        "http/protobuf}",
        "http/protobuf}\n  metrics: {endpoint: 'https://x:4317'}",
    );
    let reported = |file: &str| warnings(&read(file, &[], &[]).unwrap());
    golden::compare("tests/config/warnings.txt", &format!("{}\n", reported(file)));
    assert!(
        reported(file).contains("otlp.certificate: has no effect")
            && !reported(&one_https).contains("otlp.certificate")
    );
}

/// Scenario: a configuration with all keys is printed and read again.
/// Guarantee: the printed text has the same meaning, also for another YAML reader, and states the origin of each value.
#[test]
fn printed_configuration_can_be_read_again() {
    let file = include_str!("../config/full.yaml");
    let first = config(file, &[("OTEL_METRIC_EXPORT_INTERVAL", "10000")], &["--no-metrics"]);
    let printed = first.print();
    let second = config(&printed, &[], &[]);
    assert_eq!(first.options, second.options, "{printed}");
    assert_eq!(first.restart(&second), [], "{printed}");
    let read: serde_yaml::Value = serde_yaml::from_str(&printed).unwrap();
    assert_eq!(read["resource"]["attributes"]["yes"], "true");
    assert_eq!(read["otlp"]["metrics"]["enabled"], false);
    golden::compare("tests/config/printed.txt", &printed);
}

/// Scenario: two configurations differ in keys that can change while gcwatch runs, and in keys that cannot.
/// Guarantee: only the changed options differ, and the keys that require a restart are named.
#[test]
fn changes_apply_or_require_named_restart() {
    let old = config("", &[], &[]);
    let new = config(
        "listen: none\nlog: {level: debug, format: json}\nspans: {min_pause: 1ms}\ntargets: {lease_folder: /tmp/leases, max_targets: 5}\nself_telemetry: {traces: true}\n",
        &[],
        &[],
    );
    let (before, after) = (&old.options, &new.options);
    assert_ne!(before.targets, after.targets);
    assert_ne!(before.pipeline.spans, after.pipeline.spans);
    assert_eq!(before.pipeline.metrics, after.pipeline.metrics);
    assert_eq!((before.listen.is_some(), after.listen), (true, None));
    assert_eq!(after.otlp, before.otlp);
    let restart: Vec<String> = old.restart(&new).iter().map(ToString::to_string).collect();
    assert_eq!(
        restart,
        ["targets.lease_folder", "listen", "log.format", "self_telemetry"]
    );
    assert_eq!(old.restart(&old.clone()), []);
}

/// Scenario: gcwatch reads files that make careless parsers slow or large: nesting, aliases, long lines, many keys.
/// Guarantee: each file is refused with a bounded number and size of errors, and does not crash the process. The time
/// is not asserted, because developers notice a hanging test anyway.
#[test]
fn hostile_files_are_refused_within_bounds() {
    const MANY: usize = 1 << 18;
    let mut laughs = "a0: &a0 x\n".to_owned();
    for level in 1..30 {
        laughs += &format!("a{level}: &a{level} [*a{0}, *a{0}, *a{0}]\n", level - 1);
    }
    let keys: String = (0..60_000).map(|key| format!("k{key}: 1\n")).collect();
    let deep: String = (0..2_000)
        .map(|depth| format!("{}a:\n", " ".repeat(depth.min(400))))
        .collect();
    for text in [
        laughs,
        keys,
        deep,
        "[".repeat(MANY),
        "{".repeat(MANY),
        "{a: ".repeat(MANY / 4),
        "- ".repeat(MANY / 2),
        "? ".repeat(MANY / 2),
        "a: ".repeat(MANY / 3),
        "&a ".repeat(MANY / 3),
        "!a ".repeat(MANY / 3),
        "\"".repeat(MANY),
        "\"\\u0041".repeat(MANY / 8),
        "'\n".repeat(MANY / 2),
        "%a\n".repeat(MANY / 3),
        "---\n".repeat(MANY / 4),
        "otlp: {timeout: [".repeat(MANY / 20),
        format!("otlp: {{timeout: {}}}", "9".repeat(MANY)),
        format!("{}: 1", "k".repeat(MANY)),
        format!("metrics: {{bounds: [{}]}}", "1ms, ".repeat(MANY / 8)),
        "x".repeat(2 << 20),
        "a: |\n".to_owned() + &" x\n".repeat(MANY / 4),
    ] {
        let began = Instant::now();
        let problems = read(&text, &[], &[]).unwrap_err();
        let shown = problems.to_string();
        assert!(
            problems.0.len() <= 202 && shown.len() < 200_000,
            "{} problems, {} bytes",
            problems.0.len(),
            shown.len()
        );
        eprintln!(
            "{:>8} {:?} {}",
            text.len(),
            began.elapsed(),
            text.chars().take(20).collect::<String>().escape_debug()
        );
    }
}

proptest! {
    /// Scenario: the file is an arbitrary text, or a random sequence of YAML pieces.
    /// Guarantee: the file is accepted, or refused with at least one problem; nothing panics.
    #[test]
    fn any_text_is_read_or_refused(text in prop_oneof![
        ".{0,200}",
        proptest::collection::vec(proptest::sample::select(vec![
            "otlp", "headers", "targets", "include", "metrics", "bounds", "listen", "log", "level", "endpoint", ":", ": ", "\n", "\n  ",
            "\n    ", "- ", "[", "]", "{", "}", ", ", "'", "\"", "|\n", ">\n", "#", "&a", "*a", "!x", "? ", "%", "---\n", "...\n",
            "1ms", "http://x", "true", "1e9", "0x1f", "~", "\t", "\u{feff}", "ä", "\0", "<<", "none", "0", "-1",
        ]), 0..40).prop_map(|pieces| pieces.concat()),
    ]) {
        match read(&text, &[], &[]) {
            Ok(loaded) => { let _ = loaded.config.print(); }
            Err(problems) => {
                prop_assert!(!problems.0.is_empty());
                // Files that pass the check are also accepted by the types.
                prop_assert!(!problems.to_string().contains("is inconsistent"), "{}", problems);
            }
        }
    }

    /// Scenario: each variable contains an arbitrary text.
    /// Guarantee: gcwatch starts in any case.
    #[test]
    fn arbitrary_variables_do_not_prevent_start(text in "[ -~]{0,30}", which in 0..12_usize) {
        let names = [
            "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_INSECURE",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_RESOURCE_ATTRIBUTES",
            "OTEL_EXPORTER_OTLP_PROTOCOL", "GCWATCH_LISTEN", "GCWATCH_LOG", "OTEL_METRIC_EXPORT_INTERVAL",
        ];
        prop_assert!(read("", &[(names[which], text.as_str())], &[]).is_ok());
    }
}

/// Timeout for an expected change, far longer than the notification takes.
const LONG: Duration = Duration::from_secs(30);

/// Scenario: a file is written in place, replaced by a rename, deleted and created again.
/// Guarantee: each change is reported once; writing the same contents, or another file in the folder, does not count as
/// a change; a change after a cancelled call is reported.
#[tokio::test]
async fn changes_of_a_file_are_awaited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gcwatch.yaml");
    fs::write(&path, "listen: none\n").unwrap();
    let mut watch = file::Watch::new(vec![path.clone()]);
    assert!(watch.degraded().is_none(), "{:?}", watch.degraded());

    fs::write(&path, "listen: 127.0.0.1:1\n").unwrap();
    tokio::time::timeout(LONG, watch.changed())
        .await
        .expect("a write in place is reported");
    let new = folder.path().join("new");
    fs::write(&new, "listen: 127.0.0.1:2\n").unwrap();
    fs::rename(&new, &path).unwrap();
    tokio::time::timeout(LONG, watch.changed()).await.expect("renamed");
    fs::remove_file(&path).unwrap();
    tokio::time::timeout(LONG, watch.changed())
        .await
        .expect("the deletion is reported");
    fs::write(&path, "listen: 127.0.0.1:3\n").unwrap();
    tokio::time::timeout(LONG, watch.changed())
        .await
        .expect("a new file is reported");

    // Writing the same contents or another file in the folder is not a change. Only the next change is reported.
    fs::write(&path, "listen: 127.0.0.1:3\n").unwrap();
    fs::write(folder.path().join("other"), "x").unwrap();
    let early = tokio::time::timeout(Duration::from_secs(1), watch.changed()).await;
    assert!(early.is_err(), "nothing changed");
    fs::write(&path, "listen: 127.0.0.1:4\n").unwrap();
    tokio::time::timeout(LONG, watch.changed())
        .await
        .expect("a change after a cancelled call is reported");
}

/// Scenario: a folder is mounted like a Kubernetes ConfigMap: the file is a link through `..data`, which is then
/// switched to another directory.
/// Guarantee: each switch is reported although the old directory is deleted.
#[tokio::test]
async fn switched_config_map_is_noticed() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let version = |number: u32| {
        let name = format!("..2026_{number}");
        fs::create_dir(root.join(&name)).unwrap();
        fs::write(
            root.join(&name).join("gcwatch.yaml"),
            format!("listen: 127.0.0.1:{number}\n"),
        )
        .unwrap();
        symlink(&name, root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        root.join(name)
    };
    let mut old = version(1);
    symlink("..data/gcwatch.yaml", root.join("gcwatch.yaml")).unwrap();
    let mut watch = file::Watch::new(vec![root.join("gcwatch.yaml")]);
    for number in 2..5 {
        let new = version(number);
        fs::remove_dir_all(&old).unwrap();
        old = new;
        tokio::time::timeout(LONG, watch.changed()).await.expect("swapped");
        let text = fs::read_to_string(root.join("gcwatch.yaml")).unwrap();
        assert_eq!(text, format!("listen: 127.0.0.1:{number}\n"));
    }
}

/// Scenario: another thread continuously writes to a second file in the same folder; the tokio runtime has one thread.
/// Guarantee: the thread of the runtime continues with other work, and the change of the watched file is reported.
#[tokio::test]
async fn writer_to_second_file_does_not_block() {
    use std::io::Write as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gcwatch.yaml");
    fs::write(&path, "listen: none\n").unwrap();
    let mut watch = file::Watch::new(vec![path.clone()]);
    let end = Arc::new(AtomicBool::new(false));
    let (ended, beside) = (Arc::clone(&end), folder.path().join("log"));
    let writer = std::thread::spawn(move || {
        let mut log = fs::File::create(beside).unwrap();
        while !ended.load(Ordering::Relaxed) {
            log.write_all(b"x").unwrap();
            log.set_len(0).unwrap();
        }
    });
    let work = async {
        tokio::task::yield_now().await;
        fs::write(&path, "listen: 127.0.0.1:1\n").unwrap();
    };
    let (changed, ()) = tokio::join!(tokio::time::timeout(LONG, watch.changed()), work);
    end.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    changed.expect("the change is reported despite the writer");
}

/// Scenario: the file that a flag names exists, does not exist, is a folder, is not UTF-8, or is too large.
/// Guarantee: the file is read, or the error names the file and the reason.
#[test]
fn unreadable_file_is_reported_with_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let load = |name: &str| config::load(&flags(&["--config", &path(name), "--listen", "127.0.0.1:5"]));
    fs::write(path("good"), "log: {level: error}\n").unwrap();
    let good = load("good").unwrap();
    assert_eq!(good.config.options.listen.unwrap().port(), 5);
    assert_eq!(good.files, [PathBuf::from(path("good"))]);
    fs::write(path("latin"), b"a: 1\nb: \xff\n").unwrap();
    fs::write(path("large"), "#".repeat((1 << 20) + 1)).unwrap();
    let error = |name: &str| load(name).unwrap_err().to_string();
    assert_eq!(
        error("latin"),
        format!("{}:2:4: the file is not valid UTF-8 at this position", path("latin"))
    );
    assert_eq!(
        error("large"),
        format!(
            "--config: cannot read {}: it has more than 1048576 bytes",
            path("large")
        )
    );
    assert!(error("none").starts_with(&format!("--config: cannot read {}: No such file", path("none"))));
    assert_eq!(
        error("."),
        format!("--config: cannot read {}: it is not a file", path("."))
    );
}

/// Scenario: a configuration with the name of the node has a store of evidence; a second one has a store without
/// `state.directory`, and a third one an endpoint without a store; the fourth enables Kubernetes Events.
/// Guarantee: the options contain the address, the limits and the name of the node. Settings without effect cause a
/// warning. Kubernetes Events are disabled by default.
#[test]
fn store_of_evidence_is_read() {
    let file =
        "state: {directory: /var/lib/gcwatch}\nevidence: {store: {url: 's3://incidents/gcwatch', max_files: 7}}\n";
    let options = config(file, &[("NODE_NAME", "node-7")], &[]).options;
    let (store, host) = options.store.unwrap();
    assert_eq!(
        (store.url.as_str(), host.as_str()),
        ("s3://incidents/gcwatch", "node-7")
    );
    assert_eq!((store.max_files, store.max_bytes, store.endpoint), (7, 512 << 20, None));
    let without_state = read("evidence: {store: {url: 'file:///mnt/evidence'}}\n", &[], &[]).unwrap();
    assert!(warnings(&without_state).contains("has no effect without `state.directory`"));
    let without_url = read("evidence: {store: {endpoint: 'http://minio:9000'}}\n", &[], &[]).unwrap();
    assert!(warnings(&without_url).contains("has no effect without `evidence.store.url`"));
    assert!(without_url.config.options.store.is_none());
    assert!(!config("", &[], &[]).options.kubernetes.events);
    assert!(
        config("kubernetes: {events: 'on'}\n", &[], &[])
            .options
            .kubernetes
            .events
    );
}
