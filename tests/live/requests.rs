//! Requests from outside, against a web service that keeps its own account (`known/shop` of the folder of packs).

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
use test_support::program::{self, of_kind, records, stderr};
use test_support::receiver::Receiver;
use test_support::runtimes::{ASP, KNOWN, Runtime};
use test_support::service::{Clients, Service, from};
use test_support::target::{PATIENCE, Running};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests_on!(
        tests, runtimes();
        a_request_lost_what_its_own_log_says, a_request_of_server_gc_lost_what_its_own_log_says,
        a_pause_is_in_its_victims_trace,
        tracing_stays_as_it_is, kills_lose_no_request_and_change_no_sampling,
        the_last_owner_of_the_filter_has_it, sources_count_where_an_sdk_is, jobs_of_a_hosted_worker_count, more_requests_than_the_limit_end_it
    );
}

/// Runtimes with ASP.NET Core, where the service is there.
pub(crate) fn runtimes() -> impl Iterator<Item = Runtime> {
    ASP.into_iter().filter(|_| KNOWN.is_there())
}

/// Between two requests of a client that is there so that there are requests.
const PAUSE: Duration = Duration::from_millis(10);
/// The same where some a second are enough.
const LONG_PAUSE: Duration = Duration::from_millis(50);

/// Asks the service for its figures until it is so.
fn ask_until(shop: &Service, mut is: impl FnMut() -> bool) {
    while !is() {
        shop.get("/stats");
        std::thread::sleep(LONG_PAUSE);
    }
}

/// Records its requests for so long.
fn record(shop: &Service, file: &str, seconds: u32) -> Child {
    let (pid, file) = (shop.pid.to_string(), shop.scene.path(file));
    program::command()
        .args(["record", &pid, "--profile", "requests", "--output", &file])
        .args(["--duration", &format!("{seconds}s")])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Scenario: a service of which every request writes down what `GC.GetTotalPauseDuration()` was before and after it,
/// under load.
/// Guarantee: the time lost is within 0.25 ms of that for 999 of 1,000, and no request is lost that ended meanwhile.
fn a_request_lost_what_its_own_log_says(runtime: Runtime) {
    let paths = ["/json", "/alloc?kb=2000", "/cache", "/loh?mb=1", "/slow?ms=20", "/json"];
    lost_as_logged(runtime, &[], &paths, PAUSE, 250_000, 1000);
}

/// Scenario: the same with the server collector, two heaps and a small budget.
/// Guarantee: the same within 1 ms, for 99 of 100: the runtime counts the pauses of this collector more coarsely.
fn a_request_of_server_gc_lost_what_its_own_log_says(runtime: Runtime) {
    let knobs = [
        ("DOTNET_gcServer", "1"),
        ("DOTNET_GCHeapCount", "2"),
        ("DOTNET_GCgen0MaxBudget", "400000"),
    ];
    // Its budget is larger, so that less would collect nothing; as many collections are induced.
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

/// Up to four recordings: where another program has the CPU between two reads of a clock, the service's own account is
/// off, few requests are hit, and stops may be lost. None may be off by much; one has to agree but for one request of
/// `of` and to know 99 of 100; and of more than a hundred requests in all more than ten are hit.
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

/// Requests of a recording beside those of the service's own log.
#[derive(Debug)]
struct HeldAgainstLog {
    /// Requests of the recording.
    all: usize,
    /// Those of which it does not know the lost time.
    unknown: usize,
    /// Requests of the log whose lost time the recording knows.
    known: usize,
    /// Those that lost time by the log.
    hit: usize,
    /// Those of which the recording says something else.
    apart: Vec<String>,
}

/// Six seconds of a service under load, whose clients let it collect a few times a second.
fn held_against_log(
    runtime: Runtime,
    env: &[(&str, &str)],
    paths: &[&'static str],
    pause: Duration,
    within_ns: i64,
) -> HeldAgainstLog {
    let mut shop = Service::shop(runtime, 300, env);
    // Once, so that everything is compiled.
    shop.get("/json");
    let clients = Clients::start(&shop, [0, 3].map(|first| from(paths, first)), pause);
    let recorded = record(&shop, "requests.nettrace", 6).wait_with_output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    clients.stop();
    shop.end();

    let file = shop.scene.path("requests.nettrace");
    let all = records(["analyze", "--format", "ndjson", &file]);
    let requests: BTreeMap<String, &Value> = of_kind(&all, "request")
        .into_iter()
        .map(|request| (request["span_id"].as_str().unwrap().to_owned(), request))
        .collect();
    // `GC.GetTotalPauseDuration` is taken before the threads run again, ours ends with RestartEEEnd: on a busy host that
    // is milliseconds.
    let resume_ns: BTreeMap<u64, i64> = of_kind(&all, "gc")
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
            // Long after the first one that was seen ended, and long before the last one did.
            missing += u32::from(begin > first && end < last - 100_000_000);
            continue;
        };
        let Some(stopped) = request["stopped_ns"].as_i64() else {
            continue;
        };
        // The server answers before its program's first line runs, and after its last one.
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

/// Scenario: a service with the OpenTelemetry SDK answers requests that collect; the daemon reads it, and both export
/// to one receiver. Guarantee: a request that lost much has a span for the pause in its own trace, inside of its own
/// span, linked to the collection's trace, which says what the collection did to it. The page's records count it, and
/// list it among those that lost most.
fn a_pause_is_in_its_victims_trace(runtime: Runtime) {
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
        tokio::time::timeout(PATIENCE, looking).await
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
    // The SDK's times are those of the wall clock, in steps of 100 ns.
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
    // The runtime takes the time of an event for each session anew, and may lose the CPU between.
    assert!(collection.start_time_unix_nano <= pause.start_time_unix_nano + 50_000_000);
    let has = |key: &str| collection.attributes.iter().any(|attribute| attribute.key == key);
    assert!(
        has("gcwatch.gc.requests.hit") && has("gcwatch.gc.requests.time_lost"),
        "{collection:?}"
    );
}

/// A daemon that reads the service, and has attached to it; it sends spans there.
fn daemon(shop: &Service, url: &str, config: &str) -> Daemon {
    let config =
        format!("otlp: {{endpoint: '{url}', metrics: {{enabled: false}}, logs: {{enabled: false}}}}\n{config}");
    let mut daemon = shop.scene.daemon(&config);
    daemon.await_line("attached");
    daemon
}

/// A pause, the request that it is in, and the collection that it is linked to, when all three have come.
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

/// Scenario: a service without logging, with logging, and with the SDK's samplers calls itself; its callers send a
/// sampled, an unsampled and no parent; before, while and after its requests are read.
/// Guarantee: the headers that it sends on are alike.
fn tracing_stays_as_it_is(runtime: Runtime) {
    // Nothing listens there: the SDK drops what it cannot send.
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
        // Until the session is there: what is sent on meanwhile must not change either.
        let mut during = Vec::new();
        let mut reading = Running(reading);
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
        let requests = of_kind(&all, "request").len();
        assert!(requests > 2, "{env:?}: {requests}");
    }
}

/// Scenario: a service without an SDK answers five clients, each up to 200 requests a second, while a daemon that reads
/// its requests is killed (SIGKILL) and started again, four times.
/// Guarantee: every request is answered, and what the service sends on for a sampled, an unsampled and no parent is
/// what it was before: with the daemon, right after it was killed, and at the end.
fn kills_lose_no_request_and_change_no_sampling(runtime: Runtime) {
    let shop = Service::shop(runtime, 300, &[("SLIVE", "1")]);
    let before = sent_on(&shop);
    let clients = Clients::start(&shop, (0..5).map(|_| vec!["/json?n=2"]), Duration::from_millis(5));
    for _ in 0..4 {
        let daemon = daemon(&shop, "http://127.0.0.1:9", "requests:\n  mode: diagnosticsource\n");
        for _ in 0..10 {
            assert_eq!(sent_on(&shop), before, "with gcwatch");
            assert!(shop.get("/json?n=2").contains("customer-1"));
        }
        drop(daemon);
        for _ in 0..10 {
            assert_eq!(sent_on(&shop), before, "after it was killed");
            assert!(shop.get("/json?n=2").contains("customer-1"));
        }
    }
    let answered = clients.stop();
    assert!(answered > 500, "{answered}");
    // 8 looks of 10 at 3 parents, each of which asks twice, and those of before; and what each look asked for itself.
    let looks = 3 * 3 * (1 + 80) + 80;
    // It counts a request after it was answered.
    let since = Instant::now();
    let counted = || -> u64 {
        let stats = shop.get("/stats");
        let counted = stats.split("requests ").nth(1).unwrap().split(' ').next().unwrap();
        counted.parse().unwrap()
    };
    // Each look at the figures is a request, too.
    let mut asked = 0;
    while counted() < answered + looks + asked {
        asked += 1;
        assert!(since.elapsed() < PATIENCE, "{answered} were answered");
    }
    assert_eq!(counted(), answered + looks + asked + 1);
}

/// The session of a tool that asks the provider for the paths of requests, read until it is stopped.
struct Owner {
    stop: tokio::sync::oneshot::Sender<()>,
    reading: JoinHandle<Vec<u8>>,
}

impl Owner {
    /// Begins, and returns when the stream has.
    fn begin(shop: &Service) -> Self {
        let process = Scan::host().inspect(shop.pid).unwrap();
        let client = Client::new(Endpoint::of(&process).unwrap());
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
        has_begun.recv_timeout(PATIENCE).unwrap();
        Self { stop, reading }
    }

    /// The stream.
    fn end(self) -> Vec<u8> {
        self.stop.send(()).unwrap();
        self.reading.join().unwrap()
    }
}

/// How often a stream has a text.
fn times(stream: &[u8], text: &str) -> usize {
    let wanted: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    stream.windows(wanted.len()).filter(|bytes| *bytes == wanted).count()
}

/// Scenario: a tool asks the provider for the paths of requests; gcwatch records requests beside it and ends. Then
/// gcwatch's daemon reads requests, and the tool comes.
/// Guarantee: what the documentation says of the one filter: the tool has its paths until gcwatch comes, none with it,
/// none when it has gone; when the tool comes later it has them all, and the daemon says that another tool took over.
fn the_last_owner_of_the_filter_has_it(runtime: Runtime) {
    let shop = Service::shop(runtime, 300, &[("SLIVE", "1")]);
    let twenty = |path: &str| (0..20).for_each(|_| drop(shop.get(path)));
    let owner = Owner::begin(&shop);
    // The provider reads a filter a moment after the session began.
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
    let requests = of_kind(&all, "request").len();
    assert!(requests >= 20, "{requests}");

    let daemon = daemon(&shop, "http://127.0.0.1:9", "requests: {mode: diagnosticsource}\n");
    // What the provider says within two seconds of a session's beginning is about that one's own filter.
    let since = Instant::now();
    ask_until(&shop, || since.elapsed() > Duration::from_secs(4));
    let owner = Owner::begin(&shop);
    await_that("the daemon says it", || {
        twenty("/seen");
        daemon.said().contains("another tool uses")
    });
    assert!(unread(&shop, &daemon).unwrap().contains("another tool uses"));
    twenty("/hop?n=0");
    let stream = owner.end();
    assert_eq!(times(&stream, "/hop"), 20);
}

/// Why the requests of a service are not read, by the page's record of it; `None`: they are.
fn unread(shop: &Service, daemon: &Daemon) -> Option<String> {
    let record = daemon.process(shop.pid);
    let unseen = record["unseen"].as_array().unwrap().iter();
    let requests = unseen.filter(|unseen| unseen["what"] == "the requests that pauses delayed");
    let why = requests.map(|unseen| unseen["why"].as_str().unwrap().to_owned()).next();
    assert!(why.is_none() || record["requests"].is_null(), "{record}");
    why
}

/// Scenario: a service answers more requests a second than the configuration allows.
/// Guarantee: after ten seconds its requests are not read any more, and the log and the page say why; its collections
/// are read on.
fn more_requests_than_the_limit_end_it(runtime: Runtime) {
    let shop = Service::shop(runtime, 300, &[("SLIVE", "1")]);
    let config = "requests: {mode: diagnosticsource, max_per_second: 5}\n";
    let daemon = daemon(&shop, "http://127.0.0.1:9", config);
    assert_eq!(unread(&shop, &daemon), None);
    let since = Instant::now();
    while !daemon.said().contains("requests.max_per_second") {
        shop.get("/json?n=1");
        std::thread::sleep(LONG_PAUSE);
        assert!(since.elapsed() < PATIENCE, "the daemon does not say it");
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

/// Requests of a class, by the daemon's metrics.
fn of_class(daemon: &Daemon, class: &str) -> u64 {
    let label = format!("gcwatch_request_route=\"{class}\"");
    let metrics = daemon.get("/metrics").1;
    let is = |line: &&str| line.starts_with("gcwatch_requests_total{") && line.contains(&label);
    let counts = metrics.lines().filter(is);
    counts
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64)
        .sum()
}

/// Scenario: the daemon is asked for outgoing calls as well; of a service with the SDK and three samplers, and of one
/// without. Each calls itself twice in a request.
/// Guarantee: where the SDK is, each call counts in a class of its own, beside the request; where it is not, none is
/// asked for. What the service sends on is as before in each.
fn sources_count_where_an_sdk_is(runtime: Runtime) {
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
            let counts = ["hop", "System.Net.Http"].map(|class| of_class(&daemon, class));
            (counts[0] > 12 && (counts[1] > 12 || !has_sdk)).then_some(counts)
        });
        assert_eq!(calls > 0, has_sdk, "{env:?}: {requests} requests, {calls} calls");
        let facts = daemon.process(shop.pid);
        assert!(facts["requests"]["known"].as_u64().unwrap() > 0, "{facts}");
    }
}

/// Scenario: a hosted worker runs in a service with the SDK, which does not listen to its source; each of its jobs
/// collects once. The daemon is asked for that source.
/// Guarantee: its jobs count in a class of their own, with the time that collections took from each.
fn jobs_of_a_hosted_worker_count(runtime: Runtime) {
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
        of_class(&daemon, "Acme.Jobs") > 20
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

/// What the service sends on for a sampled, an unsampled and no parent.
fn sent_on(shop: &Service) -> [Vec<(bool, String)>; 3] {
    let parents = [
        Some("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"),
        Some("00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"),
        None,
    ];
    parents.map(|parent| shape(shop, parent))
}

/// What of the headers that are sent on does not differ from request to request: whether they are there, whether the
/// caller's trace goes on, the flags.
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
