//! Other settings while the daemon runs, and settings that cannot be used.

use base::secret::Secret;
use delivery::otlp::Exporter;
use delivery::otlp::error::Error;
use delivery::otlp::settings::{OtlpSettings, Protocol};
use delivery::otlp::signal::Signal;

use crate::otlp::given::{assert_sum, resource, settle, span, spans_to, start, to};
use test_support::receiver::{LONG, Receiver, Reply};

/// Scenario: a batch waits to be tried again (the receiver demands long silence), more waits behind it; the settings
/// name another.
/// Guarantee: everything goes to the new receiver at once, in order; nothing is lost.
#[tokio::test]
async fn a_reload_keeps_what_waits() {
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

/// Scenario: a reload with the same receiver, again and again.
/// Guarantee: the connection stays.
#[tokio::test]
async fn a_reload_without_a_change_keeps_the_connection() {
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

/// Scenario: a reload switches a signal off while some of it waits, and on again.
/// Guarantee: what waited is counted, what comes meanwhile is none of our business, then it is sent again.
#[tokio::test]
async fn a_signal_can_be_switched_off_and_on() {
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

/// Scenario: settings that can never work: no URL, a foreign scheme, a header with a line break, half an identity, no
/// such file, a file that is no certificate.
/// Guarantee: an error that names the cause and no secret; a running exporter goes on as before.
#[tokio::test]
async fn settings_that_cannot_be_used_are_refused() {
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
/// Guarantee: an error, no panic.
#[test]
fn outside_a_runtime_is_an_error() {
    assert!(matches!(
        Exporter::start(&OtlpSettings::default()),
        Err(Error::NoRuntime)
    ));
}
