//! The queue on disk during outages of the receiver, and across exits and kills of the exporting process.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use delivery::otlp::Exporter;
use delivery::otlp::settings::{DiskQueue, OtlpSettings, Protocol};
use delivery::otlp::stats::Stats;

use crate::otlp::given::{PROTOCOLS, all_to, assert_sum, gauge, large_span, record, resource, span, spans_to, start};
use test_support::receiver::{LONG, Receiver, Reply};

/// Number of kills in the normal suite; `GCWATCH_KILLS` sets another number (1,000 in the full mode).
const KILLS: u64 = 12;

/// Environment variable of the child process that is killed: its directory and its first span number.
const CHILD: &str = "GCWATCH_TEST_KILLED_CHILD";

pub(crate) fn with_disk(mut settings: OtlpSettings, directory: &Path) -> OtlpSettings {
    settings.disk = Some(DiskQueue {
        directory: directory.to_owned(),
        max_bytes: 1 << 30,
        max_age: Duration::from_secs(3600),
    });
    settings
}

/// Returns how many times each span name arrived.
fn names(receiver: &mut Receiver) -> BTreeMap<String, u64> {
    let mut names = BTreeMap::new();
    while let Some(request) = receiver.try_next() {
        for name in request.span_names() {
            *names.entry(name).or_default() += 1;
        }
    }
    names
}

/// Waits until `is` returns true for the counters.
pub(crate) async fn until(exporter: &Exporter, is: impl Fn(&Stats) -> bool) {
    let reached = tokio::time::timeout(LONG, exporter.until(is)).await;
    assert!(reached.is_ok(), "{:?}", exporter.stats());
}

/// Scenario: a receiver accepts a first span, then answers that it is unavailable for 2 s, while far more spans arrive
/// than fit in memory; then it accepts requests again. All three protocols are tested.
/// Guarantee: the receiver gets a request within 2.5 s after it is available again. Every span arrives, and no span is
/// dropped.
#[tokio::test]
async fn outage_loses_no_items() {
    for protocol in PROTOCOLS {
        let folder = tempfile::tempdir().unwrap();
        let mut receiver = Receiver::start().await;
        let address = receiver.address;
        let mut settings = with_disk(spans_to(&receiver, protocol), folder.path());
        // The disk can be slow, so the queue in memory has half the size of the spans.
        settings.limits.queue_bytes = 1 << 20;
        let (exporter, running) = start(&settings);
        let shop = resource("shop");
        exporter.spans(&shop, vec![span("first")]);
        assert_eq!(receiver.next().await.span_names(), ["first"]);
        until(&exporter, |stats| stats.traces.exported == 1).await;
        receiver.then(match protocol {
            Protocol::Grpc => Reply::unavailable(None),
            Protocol::HttpProtobuf | Protocol::HttpJson => Reply::http(503, &[]),
        });
        for number in 0..200 {
            exporter.spans(&shop, vec![large_span(&format!("{number:04}"), 10 << 10)]);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        until(&exporter, |stats| stats.traces.stored > 100).await;
        let stats = exporter.stats().traces;
        assert_sum(&stats);
        let refused = names(&mut receiver);
        assert!(!refused.is_empty());
        receiver.then(Reply::Accept);
        let back = Instant::now();
        let again = receiver.next().await;
        assert!(back.elapsed() < Duration::from_millis(2500), "{:?}", back.elapsed());
        until(&exporter, |stats| stats.traces.exported == 201).await;
        let mut arrived = names(&mut receiver);
        for name in again.span_names() {
            *arrived.entry(name).or_default() += 1;
        }
        // Spans can arrive twice, because a request in progress when the receiver returned can have been refused.
        let missing: Vec<_> = (0..200)
            .filter(|number| !arrived.contains_key(&format!("{number:04}")))
            .collect();
        assert_eq!(missing, Vec::<i32>::new());
        let stats = exporter.stats().traces;
        assert_eq!((stats.dropped.total(), stats.stored, stats.queued), (0, 0, 0));
        assert_sum(&stats);
        assert_eq!(receiver.address, address);
        assert!(running.shutdown(LONG).await.is_nothing());
    }
}

/// Scenario: the daemon shuts down gracefully while the receiver holds a request without an answer; another daemon
/// starts with the same directory and a working receiver. Spans, metrics and log records are tested.
/// Guarantee: the first daemon reports no loss. The second daemon sends every item, and repeats the unanswered requests
/// with the same bytes.
#[tokio::test]
async fn shutdown_keeps_unanswered_items() {
    let folder = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start().await;
    receiver.then(Reply::Held);
    let settings = with_disk(all_to(&receiver, Protocol::HttpProtobuf), folder.path());
    let (exporter, running) = start(&settings);
    let shop = resource("shop");
    exporter.spans(&shop, vec![span("one"), span("two")]);
    exporter.metrics(&shop, vec![gauge("heap", 3)]);
    exporter.logs(&shop, vec![record("anomaly")]);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(receiver.next().await);
    }
    exporter.spans(&shop, vec![span("three")]);
    let lost = running.shutdown(Duration::from_secs(2)).await;
    assert!(lost.is_nothing(), "{lost:?}");
    let stats = exporter.stats();
    assert_eq!(
        (stats.traces.stored, stats.metrics.stored, stats.logs.stored),
        (3, 3, 1)
    );
    drop(exporter);

    let mut receiver = Receiver::start().await;
    let settings = with_disk(all_to(&receiver, Protocol::HttpProtobuf), folder.path());
    let (exporter, running) = start(&settings);
    until(&exporter, |stats| {
        (stats.traces.exported, stats.metrics.exported, stats.logs.exported) == (3, 3, 1)
    })
    .await;
    let mut spans = Vec::new();
    let mut same = 0;
    while let Some(request) = receiver.try_next() {
        same += usize::from(
            held.iter()
                .any(|held| held.path == request.path && held.body == request.body),
        );
        if request.path.ends_with("traces") {
            spans.extend(request.span_names());
        }
    }
    spans.sort();
    assert_eq!((spans, same), (vec!["one".into(), "three".into(), "two".into()], 3));
    assert!(running.shutdown(LONG).await.is_nothing());
    assert_eq!(
        std::fs::read_dir(folder.path().join("traces")).unwrap().count(),
        1,
        "only the read position remains"
    );
}

/// The child process that the test below kills. This function is not a test itself: it exports numbered spans and
/// prints the number of spans on disk.
#[test]
#[ignore = "the child process of kill_loses_no_stored_items"]
fn killed_child() {
    let Ok(child) = env::var(CHILD) else { return };
    let (directory, first) = child.split_once(' ').unwrap();
    let first: u64 = first.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let nobody = Receiver::start().await;
        let mut settings = with_disk(spans_to(&nobody, Protocol::Grpc), Path::new(directory));
        // No receiver listens at this address.
        "http://127.0.0.1:1".clone_into(&mut settings.traces.as_mut().unwrap().endpoint);
        let (exporter, _running) = start(&settings);
        let before = exporter.stats().traces.stored;
        let shop = resource("shop");
        for number in first.. {
            exporter.spans(&shop, vec![large_span(&format!("{number:010}"), 1 << 10)]);
            tokio::time::sleep(Duration::from_micros(200)).await;
            let stats = exporter.stats().traces;
            assert_eq!(stats.dropped.total(), 0);
            // The oldest spans are stored first, so the count determines which spans are on disk. One span of an
            // earlier child can be in flight.
            println!("stored {}", stats.stored.saturating_sub(before));
        }
    });
}

/// Scenario: a process that exports to a receiver that is down is repeatedly killed (SIGKILL) under load. All children
/// use the same directory.
/// Guarantee: every stored span survives each kill, and finally arrives exactly once.
#[tokio::test]
async fn kill_loses_no_stored_items() {
    let kills = env::var("GCWATCH_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let mut written = Vec::new();
    for round in 0..kills {
        let first = round * 1_000_000;
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["otlp::outage::killed_child", "--exact", "--ignored", "--nocapture"])
            .env(CHILD, format!("{} {first}", folder.path().display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let enough = 40 + 7 * (round % 13);
        let mut stored = 0;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            if let Some(count) = line.strip_prefix("stored ") {
                stored = count.parse().unwrap();
            }
            if stored >= enough {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(stored >= enough, "round {round}: the child runs until it is killed");
        written.extend((first..first + stored).map(|number| format!("{number:010}")));
    }
    let mut receiver = Receiver::start().await;
    let (exporter, running) = start(&with_disk(spans_to(&receiver, Protocol::Grpc), folder.path()));
    until(&exporter, |stats| stats.traces.stored + stats.traces.in_flight == 0).await;
    let arrived = names(&mut receiver);
    for name in &written {
        assert_eq!(arrived.get(name), Some(&1), "{name}");
    }
    assert!(arrived.values().all(|times| *times == 1));
    assert_eq!(exporter.stats().traces.dropped.total(), 0);
    assert!(running.shutdown(LONG).await.is_nothing());
}
