//! The second session of a process: the requests that end in it.
//!
//! It has its own connection, buffer and bounds, so that neither its load nor its loss touches the session of the
//! collections. It has the edges of the collector's stops too: what a request lost is known from this one stream alone.
//! Its events are Informational, so that its end leaves nothing in the process.
//!
//! One set of filters is all that `Microsoft-Diagnostics-DiagnosticSource` has: the last session's, and none when that
//! one ends. Where another tool (dotnet-monitor's triggers, for one) asks the provider for something, our events stop,
//! then or when it ends. The provider's messages show that; from then on requests are unknown, which is logged. The
//! filter is not taken back by force, and this session stays: its end would end the tool's events.
//!
//! Activities of further sources (`requests.sources`) are asked for only where an SDK is at work in the process:
//! alone, a listener changes what the process sends on. It is seen by the thread of its exporter, or by a request
//! that is sampled although nobody called with a parent; its assembly is there also where it is switched off. It may
//! come after the session began, which then begins anew.

use std::fs::read_dir;
use std::sync::Arc;
use std::time::Duration;

use clr_gc::gc::{LIVE_SETTLE_NS, Settling};
use clr_gc::stream::{Advanced, GcStream, Scope, StreamLimits};
use dotnet_diagnostics::message::{Provider, SessionConfig};
use dotnet_diagnostics::{Client, Session};
use gc_requests::request::Request;
use gc_requests::requests::Requests;
use gc_requests::session;
use gc_rules::time::TimeBase;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use crate::targets::attempt::{Order, STOP_WITHIN, Shared, ordered_to_stop};
use crate::targets::clock::Source;
use crate::targets::host::clocks;
use crate::targets::memory::Share;
use crate::targets::options::{Filter, RequestOptions, RequestSource};
use crate::targets::rounds::{Pace, Rounds};
use crate::targets::session::read_shared;
use crate::targets::sink::Sink;

/// Batches that wait for the task of the process.
const BATCHES: usize = 16;
/// How often requests are given out, and a silent stream is looked at.
const TICK: Duration = Duration::from_millis(200);
/// A stream that is silent for longer has nothing more for now: a runtime writes every 100 ms.
const QUIET: Duration = Duration::from_millis(390);
/// How often the distance of the clocks is read again.
const BASE_EVERY: Duration = Duration::from_secs(10);
/// After so many seconds above the limit of requests, the process is asked no more.
const SECONDS_ABOVE: u32 = 10;
/// How often a process is looked at for an SDK, until there is one.
const LOOK_FOR_SDK_EVERY: Duration = Duration::from_secs(10);
/// Threads that are looked at.
const MAX_THREADS: usize = 4096;
/// `OpenTelemetry-BatchExportProcessor-...` of the SDK, as far as the kernel keeps a name.
const EXPORTER: &[u8] = b"OpenTelemetry-B";
/// Between a session that failed and the next one.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Requests that ended, and how far they are known.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) requests: Vec<Request>,
    /// The tick that the session's offsets are from.
    pub(crate) sync_ticks: i64,
    /// From this tick of the stream's clock on, every request and stop was seen; `None`: no request was ever seen, or
    /// events were lost just now.
    pub(crate) since_ticks: Option<i64>,
}

/// What the task of the requests has to say.
#[derive(Debug)]
pub(crate) enum News {
    Batch(Batch),
    /// Another tool has set the filter: requests may be missing from now on.
    Taken,
    /// Requests are not read for now: a sentence.
    Paused(String),
    /// Requests of this process are not read any more: a sentence.
    Off(String),
}

/// Whether the requests of a process are asked for.
pub(crate) fn are_wanted(options: &RequestOptions, is_meant: impl Fn(&Filter) -> bool) -> bool {
    options.source != RequestSource::None
        && (options.include.is_empty() || options.include.iter().any(&is_meant))
        && !options.exclude.iter().any(&is_meant)
}

/// Reads the requests of a process, in a task of its own, until it is ordered to stop or the receiver is gone. `pid`:
/// in our `/proc`, if it is there.
pub(crate) fn begin<S: Sink>(
    shared: &Arc<Shared<S>>,
    client: Arc<Client>,
    pid: Option<u32>,
    options: RequestOptions,
    ahead_ns: Option<i64>,
    orders: watch::Receiver<Order>,
) -> mpsc::Receiver<News> {
    let (sender, news) = mpsc::channel(BATCHES);
    let reader = Reader {
        shared: Arc::clone(shared),
        client,
        pid,
        options,
        has_sdk: false,
        ahead_ns,
        orders,
        news: sender,
    };
    // Where all streams are read, in their rounds. From another thread, each batch would wake that one up in the middle of
    // its rest: see `commands::run`.
    shared.readers.executor.spawn(reader.run());
    news
}

struct Reader<S: Sink> {
    shared: Arc<Shared<S>>,
    client: Arc<Client>,
    pid: Option<u32>,
    options: RequestOptions,
    /// An SDK was seen in the process: sources are asked for.
    has_sdk: bool,
    ahead_ns: Option<i64>,
    orders: watch::Receiver<Order>,
    news: mpsc::Sender<News>,
}

/// How a session ended.
enum End {
    /// The process, or who asked, is gone.
    Over,
    /// An SDK was seen: it begins anew, with the sources.
    Anew,
    /// It may be tried again: a sentence.
    Failed(String),
    /// Not again: a sentence.
    Refused(String),
}

impl<S: Sink> Reader<S> {
    async fn run(mut self) {
        loop {
            if self.looks_for_sdk() && self.sees_sdk().await {
                self.sdk_was_seen();
            }
            let fields = session::Fields {
                path: self.options.routes.need_paths(),
            };
            let sources = self.options.routes.sources().filter(|_| self.has_sdk);
            let config = SessionConfig {
                buffer_mb: self.options.buffer_mb,
                providers: vec![
                    Provider {
                        arguments: Some(session::arguments(fields, sources)),
                        ..Provider::new(session::PROVIDER, session::KEYWORDS, session::LEVEL)
                    },
                    Provider::new(clr_gc::event::RUNTIME_PROVIDER, 0x1, 4),
                ],
                ..SessionConfig::default()
            };
            let client = Arc::clone(&self.client);
            // Its answer does not wait for rounds.
            let beginning = async move { client.collect_tracing(&config).await };
            let end = match self.shared.commands.spawn(beginning).await {
                Ok(Ok(session)) => self.read(session).await,
                Ok(Err(error)) => End::Failed(error.to_string()),
                Err(_) => End::Over,
            };
            let problem = match end {
                End::Over => return,
                End::Anew => {
                    self.sdk_was_seen();
                    continue;
                }
                End::Refused(why) => {
                    let _gone = self.news.send(News::Off(why)).await;
                    return;
                }
                End::Failed(problem) => problem,
            };
            if self.news.send(News::Paused(problem)).await.is_err() {
                return;
            }
            tokio::select! {
                () = sleep(RETRY_AFTER) => {}
                () = ordered_to_stop(&mut self.orders) => return,
                () = self.news.closed() => return,
            }
        }
    }

    fn sdk_was_seen(&mut self) {
        self.has_sdk = true;
        tracing::info!(
            target: "gcwatch::targets", pid = self.pid,
            "an OpenTelemetry SDK was seen: the activities of requests.sources are read as well"
        );
    }

    /// Sources wait for an SDK.
    fn looks_for_sdk(&self) -> bool {
        !self.has_sdk && self.options.routes.sources().next().is_some()
    }

    /// Whether the process has the thread of an SDK.
    async fn sees_sdk(&self) -> bool {
        let Some(pid) = self.pid else { return false };
        let looking = self.shared.commands.spawn_blocking(move || has_sdk(pid));
        looking.await.unwrap_or(false)
    }

    /// Ready when the process has the thread of an SDK; never, where nothing waits for it.
    async fn sdk_comes(&self) {
        if !self.looks_for_sdk() {
            return std::future::pending().await;
        }
        loop {
            sleep(LOOK_FOR_SDK_EVERY).await;
            if self.sees_sdk().await {
                return;
            }
        }
    }

    /// Reads a session to its end, which is always awaited: it must not stay in the process.
    async fn read(&mut self, mut session: Session) -> End {
        if let Err(error) = session.move_here() {
            return End::Failed(error.to_string());
        }
        let rounds = Arc::clone(&self.shared.readers.rounds);
        let mut state = State::new(&self.options, self.ahead_ns, self.shared.memory.share(), rounds);
        state.waits_for_sdk = self.looks_for_sdk();
        let mut orders = self.orders.clone();
        let end = tokio::select! {
            end = state.read(&mut session, &self.shared, &self.news, &self.options) => end,
            () = self.sdk_comes() => End::Anew,
            () = ordered_to_stop(&mut orders) => End::Over,
            () = self.news.closed() => End::Over,
        };
        session.request_stop();
        let _late = timeout(STOP_WITHIN, session.drain(|_| ())).await;
        let _stopped = session.stopped().await;
        end
    }
}

/// One session's stream.
struct State {
    stream: GcStream,
    requests: Requests,
    memory: Share,
    ahead_ns: Option<i64>,
    source: Option<Source>,
    base: Option<TimeBase>,
    based_at: Instant,
    last_bytes: Instant,
    /// A thousand requests are half a megabyte: more than waits in a socket from one round to the next.
    pace: Pace,
    /// Events that were lost when it was looked last.
    lost: u64,
    /// From when on nothing was lost, in nanoseconds since the sync point.
    whole_since: i64,
    /// What the last batch said of that.
    said: Option<i64>,
    rate: Rate,
    /// It was reported that the filter was taken.
    reported_taken: bool,
    /// It ends when a request shows that an SDK is there.
    waits_for_sdk: bool,
}

/// Whether a thread of a process is the exporter of an OpenTelemetry SDK; blocking.
fn has_sdk(pid: u32) -> bool {
    let Ok(threads) = read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    let mut names = threads
        .take(MAX_THREADS)
        .filter_map(|thread| std::fs::read(thread.ok()?.path().join("comm")).ok());
    names.any(|name| name.starts_with(EXPORTER))
}

impl State {
    fn new(options: &RequestOptions, ahead_ns: Option<i64>, memory: Share, rounds: Arc<Rounds>) -> Self {
        let now = Instant::now();
        let keep = i64::try_from(options.longest.as_nanos()).unwrap_or(i64::MAX);
        Self {
            stream: GcStream::with_limits(
                Scope::CollectionsAnd(session::PROVIDER),
                Settling::After(LIVE_SETTLE_NS),
                StreamLimits::one_live_process(),
            ),
            requests: Requests::live(keep).with_routes(options.routes.clone()),
            memory,
            ahead_ns,
            source: None,
            base: None,
            based_at: now,
            last_bytes: now,
            pace: Pace::new(rounds, now),
            lost: 0,
            whole_since: 0,
            said: None,
            rate: Rate::new(options.max_per_second, now),
            reported_taken: false,
            waits_for_sdk: false,
        }
    }

    async fn read<S: Sink>(
        &mut self,
        session: &mut Session,
        shared: &Shared<S>,
        news: &mpsc::Sender<News>,
        options: &RequestOptions,
    ) -> End {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let pause_ends = self.pace.next();
            let pause = async {
                match pause_ends {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = pause => self.pace.pass(Instant::now()),
                read = read_shared(session, &shared.buffer, &mut self.stream), if self.pace.until.is_none() => match read {
                    Ok(0) => return End::Over,
                    Ok(n) => {
                        self.last_bytes = Instant::now();
                        self.pace.take(n, self.last_bytes);
                        if let Err(end) = self.advance() {
                            return end;
                        }
                    }
                    Err(error) => return End::Failed(error.to_string()),
                },
                _ = ticks.tick() => {
                    if self.last_bytes.elapsed() >= QUIET {
                        self.stream.flush();
                        if let Err(end) = self.advance() {
                            return end;
                        }
                    }
                    if self.rate.is_above(self.requests.seen(), Instant::now()) {
                        return End::Refused(format!(
                            "more than {} requests a second for {SECONDS_ABOVE} s (requests.max_per_second)",
                            options.max_per_second
                        ));
                    }
                    if self.waits_for_sdk && self.requests.shows_sdk() {
                        return End::Anew;
                    }
                    if self.requests.taken().is_some()
                        && !std::mem::replace(&mut self.reported_taken, true)
                        && news.send(News::Taken).await.is_err()
                    {
                        return End::Over;
                    }
                    if let Some(batch) = self.batch()
                        && news.send(News::Batch(batch)).await.is_err()
                    {
                        return End::Over;
                    }
                }
            }
        }
    }

    /// Decodes what is there.
    fn advance(&mut self) -> Result<(), End> {
        loop {
            let Self { stream, requests, .. } = self;
            let advanced = stream.advance(|observed| {
                // Beyond the limit they wait unjudged; the rate ends that.
                requests.observe(observed);
            });
            // Only their edges are needed here.
            while stream.next_outcome().is_some() {}
            let held = stream.memory_bytes() + requests.memory_bytes();
            self.stream.shrink();
            self.set_base();
            let largest = || self.stream.largest_store();
            if let Err(over) = self.memory.set(held, largest) {
                return Err(End::Refused(over.to_string()));
            }
            match advanced {
                Ok(Advanced::Drained) => return Ok(()),
                Ok(Advanced::Paused) => {}
                Err(error) => return Err(End::Failed(format!("the stream of its requests is damaged: {error}"))),
            }
        }
    }

    fn set_base(&mut self) {
        let Some(header) = self.stream.header() else { return };
        let now = Instant::now();
        if self.base.is_some() && now < self.based_at + BASE_EVERY {
            return;
        }
        let clocks = clocks();
        let source = *self
            .source
            .get_or_insert_with(|| Source::of(header, clocks, self.ahead_ns));
        self.based_at = now;
        if let Some(base) = source.base(header, clocks) {
            self.base = Some(base);
            if let Ok(unix_ns) = i64::try_from(base.unix_ns(0)) {
                self.requests.set_base(unix_ns);
            }
        }
    }

    /// The requests that can be judged now, unless there is nothing new.
    fn batch(&mut self) -> Option<Batch> {
        let (header, base) = (self.stream.header()?, self.base?);
        let now = i128::from(base.unix_ns(0));
        let now = i64::try_from(clocks().unix_ns - now).unwrap_or(i64::MAX);
        let lost = self.stream.decoder().stats().lost.unwrap_or(0);
        if std::mem::replace(&mut self.lost, lost) != lost {
            self.whole_since = now;
        }
        let until = now.saturating_sub(LIVE_SETTLE_NS);
        let next = || self.requests.next(until, |from, to| self.stream.is_lossy(from, to));
        let requests: Vec<Request> = std::iter::from_fn(next).collect();
        let is_whole = self.requests.seen() > 0 && self.requests.taken().is_none();
        let is_known = is_whole && self.requests.knows(self.whole_since);
        let since_ticks = is_known.then(|| header.sync_ticks.saturating_add(self.whole_since));
        let is_news = !requests.is_empty() || std::mem::replace(&mut self.said, since_ticks) != since_ticks;
        is_news.then_some(Batch {
            requests,
            sync_ticks: header.sync_ticks,
            since_ticks,
        })
    }
}

/// How many requests there are a second.
struct Rate {
    most: u32,
    since: Instant,
    seen: u64,
    above: u32,
}

impl Rate {
    fn new(most: u32, now: Instant) -> Self {
        Self {
            most,
            since: now,
            seen: 0,
            above: 0,
        }
    }

    /// Whether there were too many for too long.
    fn is_above(&mut self, seen: u64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        if passed < Duration::from_secs(1) {
            return false;
        }
        let rate = seen.saturating_sub(self.seen) as f64 / passed.as_secs_f64();
        (self.since, self.seen) = (now, seen);
        self.above = if rate > f64::from(self.most) { self.above + 1 } else { 0 };
        self.above >= SECONDS_ABOVE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: this process, before it has a thread with the name of an exporter, and with one.
    /// Guarantee: it is seen then.
    #[test]
    fn an_sdk_is_seen_by_its_exporter() {
        let own = std::process::id();
        assert!(!has_sdk(own));
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let exporter = std::thread::Builder::new().name("OpenTelemetry-B".to_owned());
        let exporter = exporter.spawn(move || {
            begun.send(()).unwrap();
            ended.recv().unwrap_err();
        });
        has_begun.recv().unwrap();
        assert!(has_sdk(own));
        drop(end);
        exporter.unwrap().join().unwrap();
    }

    /// Scenario: 3,000 requests in each of twelve seconds with a limit of 2,000, and a second of none among them.
    /// Guarantee: ten seconds in a row above the limit end it, not before.
    #[test]
    fn a_rate_above_the_limit_ends_it() {
        let begin = Instant::now();
        let mut rate = Rate::new(2000, begin);
        let mut ended = None;
        let mut seen = 0;
        for second in 1..=14_u64 {
            seen += if second == 3 { 0 } else { 3000 };
            if rate.is_above(seen, begin + Duration::from_secs(second)) {
                ended.get_or_insert(second);
            }
        }
        assert_eq!(ended, Some(13));
    }
}
