//! Changes of the settings while the daemon runs, and invalid settings.

use base::secret::Secret;
use delivery::otlp::Exporter;
use delivery::otlp::error::Error;
use delivery::otlp::settings::{OtlpSettings, Protocol};
use delivery::otlp::signal::Signal;

use crate::otlp::given::{assert_sum, resource, settle, span, spans_to, start, to};
use test_support::receiver::{LONG, Receiver, Reply};

/// Scenario: a batch waits for a retry because the receiver demands a long delay, and more items are queued behind it;
/// the new settings name another receiver.
/// Guarantee: all items go to the new receiver immediately and in order; no item is lost.
#[tokio::test]
async fn reload_keeps_queued_items() {
    let mut old = Receiver::start().await;
    old.then(Reply::unavailable(Some(LONG * 10)));
    let (exporter, _running) = start(&spans_to(&old, Protocol::Grpc));
    let resource = resource("shop");
    exporter.spans(&resource, vec![span("tried")]);
    old.next().await;
    exporter.spans(&resource, vec![span("waits")]);
    let mut new = Receiver::start().await;
    exporter.reconfigure(&spans_to(&new, Protocol::HttpProtobuf)).unwrap();
    settle(&exporter).await;
    assert_eq!(new.next().await.span_names(), ["tried"]);
    assert_eq!(new.next().await.span_names(), ["waits"]);
    let stats = exporter.stats().traces;
    assert_eq!((stats.exported, stats.dropped.total()), (2, 0));
}

/// Scenario: the settings are reloaded repeatedly with the same receiver, but with other limits and headers.
/// Guarantee: the connection stays open.
#[tokio::test]
async fn unchanged_reload_keeps_connection() {
    let mut receiver = Receiver::start().await;
    let mut settings = spans_to(&receiver, Protocol::Grpc);
    let (exporter, _running) = start(&settings);
    for round in 0..3 {
        exporter.spans(&resource("shop"), vec![span("gc")]);
        settle(&exporter).await;
        receiver.next().await;
        settings.limits.batch_items = 10 + round;
        if let Some(traces) = &mut settings.traces {
            traces.headers = vec![("x-round".to_owned(), Secret::new(round.to_string()))];
        }
        exporter.reconfigure(&settings).unwrap();
    }
    assert_eq!(receiver.connections(), 1);
}

/// Scenario: a reload switches a signal off while some of its items are queued, and another reload switches it on.
/// Guarantee: the queued items are counted as dropped; items given while the signal is off are ignored; sending resumes
/// afterwards.
#[tokio::test]
async fn signal_can_be_switched_off_and_on() {
    let mut receiver = Receiver::start().await;
    receiver.script([Reply::unavailable(Some(LONG * 10))]);
    let settings = spans_to(&receiver, Protocol::Grpc);
    let (exporter, _running) = start(&settings);
    let resource = resource("shop");
    exporter.spans(&resource, vec![span("tried")]);
    receiver.next().await;
    exporter.spans(&resource, vec![span("waits")]);
    exporter.reconfigure(&OtlpSettings::default()).unwrap();
    exporter.spans(&resource, vec![span("not wanted")]);
    settle(&exporter).await;
    let stats = exporter.stats().traces;
    assert_eq!((stats.configured, stats.given, stats.dropped.disabled), (false, 2, 2));
    assert_sum(&stats);
    exporter.reconfigure(&settings).unwrap();
    exporter.spans(&resource, vec![span("wanted")]);
    settle(&exporter).await;
    assert_eq!(receiver.next().await.span_names(), ["wanted"]);
}

/// Scenario: settings can never work: no scheme or an unsupported scheme, a password in the URL, an invalid name or
/// value of a header, a client key without its certificate, a missing file, a file that is not a certificate.
/// Guarantee: the error names the cause and contains no secret; a running exporter is not affected.
#[tokio::test]
async fn unusable_settings_are_rejected() {
    let mut receiver = Receiver::start().await;
    let settings = spans_to(&receiver, Protocol::Grpc);
    let (exporter, _running) = start(&settings);
    let directory = tempfile::tempdir().unwrap();
    let rubbish = directory.path().join("rubbish.pem");
    std::fs::write(
        &rubbish,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let good = to(&receiver, Signal::Traces, protocol);
        let with = |change: &dyn Fn(&mut delivery::otlp::settings::Receiver)| {
            let mut changed = good.clone();
            change(&mut changed);
            OtlpSettings {
                traces: Some(changed),
                ..settings.clone()
            }
        };
        let secure = |receiver: &mut delivery::otlp::settings::Receiver| {
            "https://localhost:1".clone_into(&mut receiver.endpoint)
        };
        let cases = [
            (with(&|it| it.endpoint = "me:secret@host".to_owned()), "scheme"),
            (
                with(&|it| it.endpoint = "ftp://me:secret@host/?secret".to_owned()),
                "scheme",
            ),
            (
                with(&|it| it.headers = vec![("a b".to_owned(), Secret::new("secret"))]),
                "\"a b\"",
            ),
            (
                with(&|it| it.headers = vec![("x-key".to_owned(), Secret::new("secret\r\nx: y"))]),
                "\"x-key\"",
            ),
            (
                with(&|it| {
                    secure(it);
                    it.client_key = Some("/nowhere/key.pem".into());
                }),
                "only the key",
            ),
            (
                with(&|it| {
                    secure(it);
                    it.certificate = Some("/nowhere/ca.pem".into());
                }),
                "/nowhere/ca.pem",
            ),
            (
                with(&|it| {
                    secure(it);
                    it.certificate = Some(rubbish.clone());
                    it.client_certificate = Some(rubbish.clone());
                    it.client_key = Some(rubbish.clone());
                }),
                "rubbish.pem",
            ),
        ];
        for (bad, word) in cases {
            let error = exporter.reconfigure(&bad).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("secret"), "{error}");
        }
    }
    let mut with_password = settings.clone();
    if let Some(traces) = &mut with_password.traces {
        traces.endpoint = "http://me:secret@host:4317".to_owned();
    }
    let error = exporter.reconfigure(&with_password).unwrap_err().to_string();
    assert!(
        error.contains("http://host:4317") && !error.contains("secret"),
        "{error}"
    );

    exporter.spans(&resource("shop"), vec![span("gc")]);
    settle(&exporter).await;
    assert_eq!(receiver.next().await.span_names(), ["gc"]);
}

/// Scenario: an exporter is started outside a tokio runtime.
/// Guarantee: the start returns an error and does not panic.
#[test]
fn start_outside_runtime_is_error() {
    assert!(matches!(
        Exporter::start(&OtlpSettings::default()),
        Err(Error::NoRuntime)
    ));
}
