//! Requests as an external observer sees them, with a web service that keeps its own log (`known/shop` in the folder of
//! packs).

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::message::{Provider, SessionConfig};
use dotnet_diagnostics::{Client, Endpoint};
use gc_requests::session;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::Value;

use test_support::add_tests_on;
use test_support::daemon::{Daemon, await_that, until};
use test_support::harness::Tests;
use test_support::program::{self, records, select_kind, stderr};
use test_support::receiver::Receiver;
use test_support::runtimes::{ASP, KNOWN, Runtime};
use test_support::service::{Clients, Service, from};
use test_support::target::{RunningProcess, TIMEOUT};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests_on!(
        tests, runtimes();
        lost_time_of_requests_matches_service_log, lost_time_with_server_gc_matches_service_log,
        pause_is_in_trace_of_its_request,
        tracing_of_service_is_unchanged, kills_lose_no_request_and_change_no_sampling,
        last_session_owns_filter, sources_are_counted_only_with_sdk, jobs_of_hosted_worker_are_counted,
        too_many_requests_end_their_observation
    );
}

/// Returns the runtimes with ASP.NET Core if the service is available.
pub(crate) fn runtimes() -> impl Iterator<Item = Runtime> {
    ASP.into_iter().filter(|_| KNOWN.is_there())
}

/// Pause between two requests of a client that only provides load.
const PAUSE: Duration = Duration::from_millis(10);
/// Pause between requests if a few requests per second are enough.
const LONG_PAUSE: Duration = Duration::from_millis(50);

/// Requests the service's figures until `is` returns true.
fn ask_until(shop: &Service, mut is: impl FnMut() -> bool) {
    while !is() {
        shop.get("/stats");
        std::thread::sleep(LONG_PAUSE);
    }
}

/// Starts a recording of the requests of the service for `seconds`.
fn record(shop: &Service, file: &str, seconds: u32) -> Child {
    let (pid, file) = (shop.pid.to_string(), shop.scene.path(file));
    program::command()
        .args(["record", &pid, "--profile", "requests", "--output", &file])
        .args(["--duration", &format!("{seconds}s")])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Scenario: under load, a service logs `GC.GetTotalPauseDuration()` before and after each request.
/// Guarantee: the lost time matches the log within 0.25 ms for 999 of 1,000 requests, and no request that ended during
/// the recording is missing.
fn lost_time_of_requests_matches_service_log(runtime: Runtime) {
    let paths = ["/json", "/alloc?kb=2000", "/cache", "/loh?mb=1", "/slow?ms=20", "/json"];
    lost_as_logged(runtime, &[], &paths, PAUSE, 250_000, 1000);
}

/// Scenario: the same service runs with the server collector, two heaps and a small budget.
/// Guarantee: the lost time matches the log within 1 ms for 99 of 100 requests, because the runtime counts the pauses
/// of this collector less precisely.
fn lost_time_with_server_gc_matches_service_log(runtime: Runtime) {
    let knobs = [
        ("DOTNET_gcServer", "1"),
        ("DOTNET_GCHeapCount", "2"),
        ("DOTNET_GCgen0MaxBudget", "400000"),
    ];
    // The budget is larger, so smaller requests would not cause collections; the same number of collections is induced.
    let paths = [
        "/json",
        "/alloc?kb=60000",
        "/gc?generation=0",
        "/loh?mb=1",
        "/slow?ms=20",
        "/gc?generation=0",
    ];
    lost_as_logged(runtime, &knobs, &paths, PAUSE / 5, 1_000_000, 100);
}

/// Records the service up to four times, and compares each recording with the log of the service. One recording is not
/// enough: the log itself deviates, few requests are hit, and a stop can be missing if another program has the CPU
/// between two reads of a clock. In each recording, at most 5 % of the requests deviate, and the lost time of at most 5
/// % is unknown. In at least one recording, at most one in `of` requests deviates, and the lost time of less than 1 %
/// is unknown. All recordings together contain more than 100 logged requests, more than 10 of which lost time.
fn lost_as_logged(
    runtime: Runtime,
    env: &[(&str, &str)],
    paths: &[&'static str],
    pause: Duration,
    within_ns: i64,
    of: usize,
) {
    let (mut known, mut hit, mut agrees, mut recordings) = (0, 0, false, Vec::new());
    for _ in 0..4 {
        let found = held_against_log(runtime, env, paths, pause, within_ns);
        println!("{}: {found:#?}", runtime.name);
        assert!(found.apart.len() * 20 <= found.known, "{found:#?}");
        assert!(found.unknown * 20 <= found.all, "{found:#?}");
        known += found.known;
        hit += found.hit;
        agrees |= found.hit > 0 && found.apart.len() * of <= found.known && found.unknown * 100 < found.all;
        if agrees && hit > 10 && known > 100 {
            return;
        }
        recordings.push(format!(
            "{} of {} apart, {} hit, {} of {} unknown",
            found.apart.len(),
            found.known,
            found.hit,
            found.unknown,
            found.all
        ));
    }
    panic!("{}: {recordings:?}", runtime.name);
}

/// Comparison of a recording with the log of the service.
#[derive(Debug)]
struct HeldAgainstLog {
    /// Number of requests in the recording.
    all: usize,
    /// Number of requests whose lost time the recording does not contain.
    unknown: usize,
    /// Number of logged requests whose lost time the recording contains.
    known: usize,
    /// Number of logged requests that lost time.
    hit: usize,
    /// Descriptions of the requests whose recorded lost time deviates from the log.
    apart: Vec<String>,
}

/// Records a service for six seconds while its clients cause a few collections per second, and compares the recording
/// with the log of the service.
fn held_against_log(
    runtime: Runtime,
    env: &[(&str, &str)],
    paths: &[&'static str],
    pause: Duration,
    within_ns: i64,
) -> HeldAgainstLog {
    let mut shop = Service::shop(runtime, 300, env);
    // The first request compiles the code of the path before the recording.
    shop.get("/json");
    let clients = Clients::start(&shop, [0, 3].map(|first| from(paths, first)), pause);
    let recorded = record(&shop, "requests.nettrace", 6).wait_with_output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    clients.stop();
    shop.end();

    let file = shop.scene.path("requests.nettrace");
    let all = records(["analyze", "--format", "ndjson", &file]);
    let requests: BTreeMap<String, &Value> = select_kind(&all, "request")
        .into_iter()
        .map(|request| (request["span_id"].as_str().unwrap().to_owned(), request))
        .collect();
    // `GC.GetTotalPauseDuration` is updated before the threads run again, and gcwatch's pause ends with RestartEEEnd:
    // on a busy host, the two values differ by milliseconds.
    let resume_ns: BTreeMap<u64, i64> = select_kind(&all, "gc")
        .iter()
        .filter_map(|gc| {
            let part = |name: &str| gc["account"][name].as_i64();
            Some((gc["number"].as_u64()?, part("finish")? + part("resume")?))
        })
        .collect();
    let (first, last) = {
        let ends = || requests.values().map(|request| request["end_ns"].as_i64().unwrap());
        (ends().min().unwrap(), ends().max().unwrap())
    };
    let (mut known, mut hit, mut missing) = (0, 0, 0);
    let mut apart = Vec::new();
    for line in std::fs::read_to_string(shop.scene.path("log")).unwrap().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| fields[place].parse::<i64>().unwrap();
        let (begin, end) = (number(0), number(1));
        let Some(request) = requests.get(fields[5]) else {
            // The recording need not contain requests close to the first and the last recorded request.
            missing += u32::from(begin > first && end < last - 100_000_000);
            continue;
        };
        let Some(stopped) = request["stopped_ns"].as_i64() else {
            continue;
        };
        // A recorded request starts before the first and ends after the last line of the program's handler, which
        // writes the log. Pauses outside the handler are therefore not in the log.
        let at_the_edges: i64 = request["pauses"]
            .as_array()
            .unwrap()
            .iter()
            .map(|stop| {
                let (from, to) = (stop["start_ns"].as_i64().unwrap(), stop["end_ns"].as_i64().unwrap());
                (to.min(begin) - from).max(0) + (to - from.max(end)).max(0)
            })
            .sum();
        let resumed: i64 = request["pauses"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|stop| resume_ns.get(&stop["gc_number"].as_u64()?))
            .sum();
        let own = (number(3) - number(2)) * 100;
        known += 1;
        hit += usize::from(own > 0);
        let apart_ns = stopped - at_the_edges - own;
        if apart_ns < -within_ns || apart_ns > within_ns + resumed {
            apart.push(format!(
                "{apart_ns} and {resumed} of {own} from {begin} to {end}: {request}"
            ));
        }
    }
    assert_eq!(missing, 0);
    let unknown = requests
        .values()
        .filter(|request| request["stopped_ns"].is_null())
        .count();
    HeldAgainstLog {
        all: requests.len(),
        unknown,
        known,
        hit,
        apart,
    }
}

/// Scenario: a service with the OpenTelemetry SDK answers requests that collect; the daemon reads the service, and both
/// export to one receiver.
/// Guarantee: a request that lost much time has a span for the pause in its own trace, inside its own span and linked
/// to the collection's trace, which states the collection's effect on requests. The metrics count the requests of each
/// route, and the records of the page list the requests that lost most.
fn pause_is_in_trace_of_its_request(runtime: Runtime) {
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut receiver = executor.block_on(Receiver::start());
    let url = receiver.url();
    let shop = Service::shop(
        runtime,
        300,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &url),
            ("OTEL_TRACES_SAMPLER", "always_on"),
            ("OTEL_BSP_SCHEDULE_DELAY", "500"),
        ],
    );
    let config =
        "requests:\n  mode: diagnosticsource\n  routes: [{name: collecting, path: /g*}, {name: slow, path: /slow}]\n";
    let daemon = daemon(&shop, &url, config);
    let clients = Clients::start(&shop, [vec!["/gc", "/slow?ms=30"]], PAUSE);
    let mut spans: BTreeMap<Vec<u8>, Span> = BTreeMap::new();
    let found = executor.block_on(async {
        let looking = async {
            loop {
                let received = receiver.next().await;
                spans.extend(received.spans().into_iter().map(|span| (span.span_id.clone(), span)));
                if let Some(found) = whole(&spans) {
                    return found;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, looking).await
    });
    let listed = daemon.json(&format!("/api/v1/evidence/requests/{}", shop.pid));
    let record = daemon.process(shop.pid);
    let metrics = daemon.get("/metrics").1;
    for route in ["collecting", "slow"] {
        let label = format!("gcwatch_request_route=\"{route}\"");
        let counts = |line: &&str| line.starts_with("gcwatch_requests_total{") && line.contains(&label);
        let line = metrics.lines().find(counts).unwrap_or_else(|| panic!("{metrics}"));
        assert!(!line.ends_with(" 0"), "{line}");
    }
    clients.stop();
    assert!(
        record["requests"]["known"].as_u64().unwrap() > 0,
        "{}",
        record["requests"]
    );
    let worst = &listed["worst"][0];
    assert!(
        listed["hit"].as_u64().unwrap() > 0 && worst["stopped_ns"].as_i64().unwrap() > 0,
        "{listed}"
    );
    assert_eq!(worst["trace_id"].as_str().unwrap().len(), 32, "{worst}");
    assert!(!worst["collections"].as_array().unwrap().is_empty(), "{worst}");
    let names: Vec<&str> = spans.values().map(|span| span.name.as_str()).collect();
    let [pause, request, collection] = found.unwrap_or_else(|_| panic!("{names:?}"));
    assert_eq!(pause.name, "GC pause gen2 blocking");
    assert_eq!(pause.trace_id, request.trace_id);
    // The SDK uses wall-clock times in steps of 100 ns.
    assert!(
        pause.start_time_unix_nano + 1_000_000 >= request.start_time_unix_nano,
        "{pause:?} {request:?}"
    );
    assert!(
        pause.end_time_unix_nano <= request.end_time_unix_nano + 1_000_000,
        "{pause:?} {request:?}"
    );
    assert!(pause.start_time_unix_nano < pause.end_time_unix_nano);
    assert!(collection.name.starts_with("GC gen2"), "{}", collection.name);
    // The runtime reads the time of an event separately for each session, and can lose the CPU between two reads.
    assert!(collection.start_time_unix_nano <= pause.start_time_unix_nano + 50_000_000);
    let has = |key: &str| collection.attributes.iter().any(|attribute| attribute.key == key);
    assert!(
        has("gcwatch.gc.requests.hit") && has("gcwatch.gc.requests.time_lost"),
        "{collection:?}"
    );
}

/// Starts a daemon that sends spans to `url`, and waits until it has attached to the service.
fn daemon(shop: &Service, url: &str, config: &str) -> Daemon {
    let config =
        format!("otlp: {{endpoint: '{url}', metrics: {{enabled: false}}, logs: {{enabled: false}}}}\n{config}");
    let mut daemon = shop.scene.daemon(&config);
    daemon.await_line("attached");
    daemon
}

/// Returns a pause, its request, and the linked collection, or `None` until all three have arrived.
fn whole(spans: &BTreeMap<Vec<u8>, Span>) -> Option<[Span; 3]> {
    let pauses = spans.values().filter(|span| span.name == "GC pause gen2 blocking");
    pauses
        .filter_map(|pause| {
            let request = spans.get(&pause.parent_span_id)?;
            let collection = spans.get(&pause.links.first()?.span_id)?;
            (collection.trace_id == pause.links.first()?.trace_id)
                .then(|| [pause, request, collection].map(Clone::clone))
        })
        .next()
}

/// Scenario: a service calls itself without logging, with logging, and with different samplers of the SDK. Its callers
/// send a sampled parent, an unsampled parent and no parent, before, during and after the observation of its requests.
/// Guarantee: the forwarded headers have the same shape in all three phases, and the recording contains requests.
fn tracing_of_service_is_unchanged(runtime: Runtime) {
    // No receiver listens at this address, so the SDK drops its data.
    const SDK: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let variants: [&[(&str, &str)]; 5] = [
        &[("SLOGGING", "0")],
        &[],
        &[SDK, ("OTEL_TRACES_SAMPLER", "always_on")],
        &[SDK, ("OTEL_TRACES_SAMPLER", "always_off")],
        &[SDK, ("OTEL_TRACES_SAMPLER", "parentbased_always_on")],
    ];
    for env in variants {
        let shop = Service::shop(runtime, 120, &[env, &[("SLIVE", "1")]].concat());
        let sent_on = || sent_on(&shop);
        let before = sent_on();
        let reading = record(&shop, "while.nettrace", 2);
        // The requests start before the session is open, because opening the session must not change the forwarded
        // headers either.
        let mut during = Vec::new();
        let mut reading = RunningProcess(reading);
        while reading.0.try_wait().unwrap().is_none() {
            during.push(sent_on());
            std::thread::sleep(LONG_PAUSE);
        }
        assert!(during.len() > 2, "{}", during.len());
        during.push(sent_on());
        for during in during {
            assert_eq!(during, before, "{env:?}");
        }
        let all = records(["analyze", "--format", "ndjson", &shop.scene.path("while.nettrace")]);
        let requests = select_kind(&all, "request").len();
        assert!(requests > 2, "{env:?}: {requests}");
    }
}

/// Scenario: a service without an SDK answers five clients, each with up to 200 requests per second, while a daemon
/// that observes its requests is killed (SIGKILL) and restarted four times.
/// Guarantee: every request is answered. The headers that the service forwards for a sampled parent, an unsampled
/// parent and no parent are unchanged: with the daemon, immediately after each kill, and at the end.
fn kills_lose_no_request_and_change_no_sampling(runtime: Runtime) {
    let shop = Service::shop(runtime, 300, &[("SLIVE", "1")]);
    let before = sent_on(&shop);
    let clients = Clients::start(&shop, (0..5).map(|_| vec!["/json?n=2"]), Duration::from_millis(5));
    for _ in 0..4 {
        let daemon = daemon(&shop, "http://127.0.0.1:9", "requests:\n  mode: diagnosticsource\n");
        for _ in 0..10 {
            assert_eq!(sent_on(&shop), before, "forwarded headers are unchanged with gcwatch");
            assert!(shop.get("/json?n=2").contains("customer-1"));
        }
        drop(daemon);
        for _ in 0..10 {
            assert_eq!(sent_on(&shop), before, "forwarded headers are unchanged after a kill");
            assert!(shop.get("/json?n=2").contains("customer-1"));
        }
    }
    let answered = clients.stop();
    assert!(answered > 500, "{answered}");
    // There are 81 checks of the headers: one before the first daemon, and 20 in each of 4 rounds. Each check sends one
    // request for each of 3 parents, and each such request causes two more. In the rounds, one further request follows
    // each check.
    let looks = 3 * 3 * (1 + 80) + 80;
    // The service counts a request after it has answered.
    let since = Instant::now();
    let counted = || -> u64 {
        let stats = shop.get("/stats");
        let counted = stats.split("requests ").nth(1).unwrap().split(' ').next().unwrap();
        counted.parse().unwrap()
    };
    // Reading the counters is itself a request.
    let mut asked = 0;
    while counted() < answered + looks + asked {
        asked += 1;
        assert!(since.elapsed() < TIMEOUT, "{answered} were answered");
    }
    assert_eq!(counted(), answered + looks + asked + 1);
}

/// A session of a tool that requests the paths of requests from the provider. A thread reads the session until the
/// session is stopped.
struct Owner {
    stop: tokio::sync::oneshot::Sender<()>,
    reading: JoinHandle<Vec<u8>>,
}

impl Owner {
    /// Starts the session and waits until the first bytes of its stream arrive.
    fn begin(shop: &Service) -> Self {
        let process = Scan::host().inspect(shop.pid).unwrap();
        let client = Client::new(Endpoint::for_process(&process).unwrap());
        let mut provider = Provider::new(session::PROVIDER, session::KEYWORDS, session::LEVEL);
        provider.arguments = Some(format!(
            "FilterAndPayloadSpecs=\"{}/{}:-Path=httpContext.Request.Path.Value\"",
            session::SOURCE,
            session::END_REQUEST
        ));
        let config = SessionConfig {
            providers: vec![provider],
            ..SessionConfig::default()
        };
        let (begun, has_begun) = mpsc::channel();
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let reading = std::thread::spawn(move || {
            let executor = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            executor.block_on(async {
                let mut session = client.collect_tracing(&config).await.unwrap();
                let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
                loop {
                    tokio::select! {
                        _ = &mut stopped => break,
                        count = session.read(&mut buffer) => {
                            bytes.extend_from_slice(&buffer[..count.unwrap()]);
                            let _once = begun.send(());
                        }
                    }
                }
                session.drain(|piece| bytes.extend_from_slice(piece)).await.unwrap();
                bytes
            })
        });
        has_begun.recv_timeout(TIMEOUT).unwrap();
        Self { stop, reading }
    }

    /// Stops the session and returns its stream.
    fn end(self) -> Vec<u8> {
        self.stop.send(()).unwrap();
        self.reading.join().unwrap()
    }
}

/// Returns the number of occurrences of a text, encoded as UTF-16, in a stream.
fn times(stream: &[u8], text: &str) -> usize {
    let wanted: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    stream.windows(wanted.len()).filter(|bytes| *bytes == wanted).count()
}

/// Scenario: a tool requests the paths of requests from the provider. gcwatch starts to record requests while the tool
/// reads, and stops before the tool. Later, the daemon observes requests, and the tool starts another session.
/// Guarantee: the provider's single filter behaves as documented: the tool gets its paths until gcwatch starts, no
/// paths while gcwatch records, and no paths afterwards. If the tool starts after the daemon, the tool gets all paths,
/// and the daemon reports that another tool uses the filter.
fn last_session_owns_filter(runtime: Runtime) {
    let shop = Service::shop(runtime, 300, &[("SLIVE", "1")]);
    let twenty = |path: &str| (0..20).for_each(|_| drop(shop.get(path)));
    let owner = Owner::begin(&shop);
    // The provider reads a filter shortly after the session has started.
    let since = Instant::now();
    ask_until(&shop, || since.elapsed() > Duration::from_secs(1));
    twenty("/seen");
    let recorded = record(&shop, "beside.nettrace", 4);
    ask_until(&shop, || {
        std::fs::metadata(shop.scene.path("beside.nettrace.partial")).is_ok_and(|file| file.len() > 0)
    });
    ask_until(&shop, || since.elapsed() > Duration::from_secs(3));
    twenty("/json?n=1");
    assert!(recorded.wait_with_output().unwrap().status.success());
    twenty("/slow?ms=1");
    let stream = owner.end();
    let counts = ["/seen", "/json", "/slow"].map(|path| times(&stream, path));
    assert_eq!(counts, [20, 0, 0]);
    let all = records(["analyze", "--format", "ndjson", &shop.scene.path("beside.nettrace")]);
    let requests = select_kind(&all, "request").len();
    assert!(requests >= 20, "{requests}");

    let daemon = daemon(&shop, "http://127.0.0.1:9", "requests: {mode: diagnosticsource}\n");
    // During the first two seconds of a session, the provider reports about this session's own filter.
    let since = Instant::now();
    ask_until(&shop, || since.elapsed() > Duration::from_secs(4));
    let owner = Owner::begin(&shop);
    await_that("the daemon reports the other tool", || {
        twenty("/seen");
        daemon.said().contains("another tool uses")
    });
    assert!(unread(&shop, &daemon).unwrap().contains("another tool uses"));
    twenty("/hop?n=0");
    let stream = owner.end();
    assert_eq!(times(&stream, "/hop"), 20);
}

/// Returns the reason why the requests of a service are not observed, from the page's record, or `None` if they are
/// observed.
fn unread(shop: &Service, daemon: &Daemon) -> Option<String> {
    let record = daemon.process(shop.pid);
    let unseen = record["unseen"].as_array().unwrap().iter();
    let requests = unseen.filter(|unseen| unseen["what"] == "the requests that pauses delayed");
    let why = requests.map(|unseen| unseen["why"].as_str().unwrap().to_owned()).next();
    assert!(why.is_none() || record["requests"].is_null(), "{record}");
    why
}

/// Scenario: a service answers more requests per second than the configuration allows.
/// Guarantee: the daemon stops observing the requests, and the log and the page state the reason. The daemon still
/// reads the collections of the service.
fn too_many_requests_end_their_observation(runtime: Runtime) {
    let shop = Service::shop(runtime, 300, &[("SLIVE", "1")]);
    let config = "requests: {mode: diagnosticsource, max_per_second: 5}\n";
    let daemon = daemon(&shop, "http://127.0.0.1:9", config);
    assert_eq!(unread(&shop, &daemon), None);
    let since = Instant::now();
    while !daemon.said().contains("requests.max_per_second") {
        shop.get("/json?n=1");
        std::thread::sleep(LONG_PAUSE);
        assert!(since.elapsed() < TIMEOUT, "the daemon reports the limit");
    }
    assert!(
        unread(&shop, &daemon)
            .unwrap()
            .contains("more than 5 requests per second")
    );
    let collections = || -> u64 {
        let record = daemon.process(shop.pid);
        record["newest"][0]["number"].as_u64().unwrap_or(0)
    };
    let before = collections();
    await_that("its collections are read", || {
        shop.get("/gc");
        collections() != before
    });
}

/// Returns the number of requests of a class in the daemon's metrics.
fn count_class(daemon: &Daemon, class: &str) -> u64 {
    let label = format!("gcwatch_request_route=\"{class}\"");
    let metrics = daemon.get("/metrics").1;
    let is = |line: &&str| line.starts_with("gcwatch_requests_total{") && line.contains(&label);
    let counts = metrics.lines().filter(is);
    counts
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64)
        .sum()
}

/// Scenario: the daemon also observes outgoing calls of services with the SDK and three samplers, and of a service
/// without the SDK. Each service calls itself twice per request.
/// Guarantee: with the SDK, each call counts in a separate class in addition to the request; without the SDK, the
/// source is not enabled. The forwarded headers are unchanged in all cases.
fn sources_are_counted_only_with_sdk(runtime: Runtime) {
    const SDK: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let config = "requests: {mode: diagnosticsource, sources: [System.Net.Http], routes: [{name: hop, path: /hop}]}\n";
    let variants: [&[(&str, &str)]; 4] = [
        &[SDK, ("OTEL_TRACES_SAMPLER", "always_on")],
        &[SDK, ("OTEL_TRACES_SAMPLER", "always_off")],
        &[SDK, ("OTEL_TRACES_SAMPLER", "parentbased_always_on")],
        &[],
    ];
    for env in variants {
        let shop = Service::shop(runtime, 300, &[env, &[("SLIVE", "1")]].concat());
        let before = sent_on(&shop);
        let daemon = daemon(&shop, "http://127.0.0.1:9", config);
        let has_sdk = !env.is_empty();
        let [requests, calls] = until("requests and calls", || {
            assert_eq!(sent_on(&shop), before, "{env:?}");
            let counts = ["hop", "System.Net.Http"].map(|class| count_class(&daemon, class));
            (counts[0] > 12 && (counts[1] > 12 || !has_sdk)).then_some(counts)
        });
        assert_eq!(calls > 0, has_sdk, "{env:?}: {requests} requests, {calls} calls");
        let facts = daemon.process(shop.pid);
        assert!(facts["requests"]["known"].as_u64().unwrap() > 0, "{facts}");
    }
}

/// Scenario: a hosted worker runs in a service with the SDK, which does not listen to the worker's source; each of its
/// jobs causes one collection. The daemon is configured to observe this source.
/// Guarantee: the jobs count in a separate class, with the time that collections took from each job.
fn jobs_of_hosted_worker_are_counted(runtime: Runtime) {
    let worker = test_support::repository("tests/workload/known/jobs.dll");
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
        ("DOTNET_STARTUP_HOOKS", worker.to_str().unwrap()),
        ("SLIVE", "1"),
    ];
    let shop = Service::shop(runtime, 300, &env);
    let config = "requests: {mode: diagnosticsource, sources: [Acme.Jobs]}\n";
    let daemon = daemon(&shop, "http://127.0.0.1:9", config);
    await_that("jobs", || {
        shop.get("/json?n=1");
        count_class(&daemon, "Acme.Jobs") > 20
    });
    let metrics = daemon.get("/metrics").1;
    let [jobs, lost_s] = ["count", "sum"].map(|part| {
        let name = format!("gcwatch_request_gc_pause_duration_seconds_{part}{{");
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.starts_with(&name) && line.contains("Acme.Jobs"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("{metrics}"))
    });
    assert!(jobs > 15.0 && lost_s > 0.0, "{jobs} {lost_s}");
}

/// Returns the headers that the service forwards for a sampled parent, an unsampled parent and no parent.
fn sent_on(shop: &Service) -> [Vec<(bool, String)>; 3] {
    let parents = [
        Some("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"),
        Some("00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"),
        None,
    ];
    parents.map(|parent| shape(shop, parent))
}

/// Returns the parts of the forwarded headers that are the same for all requests: whether a header is present and
/// continues the caller's trace, and its flags.
fn shape(shop: &Service, parent: Option<&str>) -> Vec<(bool, String)> {
    let header = parent.map(|parent| ("traceparent", parent));
    let (_, answer) = shop.ask("/hop?n=2", header);
    let mut shapes: Vec<(bool, String)> = answer
        .split('\n')
        .map(|line| {
            let goes_on = line.contains("0123456789abcdef0123456789abcdef");
            let flags = line.trim().rsplit('-').next().unwrap_or_default();
            (goes_on, flags.to_owned())
        })
        .filter(|(_, flags)| flags.len() <= 2)
        .collect();
    shapes.sort();
    shapes
}
