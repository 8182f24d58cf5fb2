//! The stream of one session: reads it in the rounds of all sessions, decodes requests, and returns them in batches
//! with the time since which they are complete. The stream reports why it must end. The caller stops or restarts the
//! session.

use std::sync::Arc;
use std::time::Duration;

use base::time::TimeBase;
use clr_gc::gc::{LIVE_SETTLE_NS, ReportTiming};
use clr_gc::stream::{AdvanceOutcome, GcStream, Scope, StreamLimits};
use dotnet_diagnostics::Session;
use gc_requests::request::Request;
use gc_requests::requests::Requests;
use gc_requests::session;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::clock::Source;
use crate::host::{clocks, now};
use crate::memory::Share;
use crate::options::RequestOptions;
use crate::pending::or_pending;
use crate::requests::rate::{Rate, SECONDS_ABOVE};
use crate::requests::{Batch, End, RequestMessage};
use crate::rounds::{Pace, Rounds};
use crate::shared::Shared;
use crate::sink::Sink;

/// Interval between batches, and between checks for a silent stream.
const TICK: Duration = Duration::from_millis(200);
/// Silence after which a stream has no more bytes for now. A runtime writes every 100 ms.
const QUIET: Duration = Duration::from_millis(390);
/// Interval between readings of the difference between the clocks.
const BASE_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct RequestStream {
    stream: GcStream,
    requests: Requests,
    memory: Share,
    ahead_ns: Option<i64>,
    source: Option<Source>,
    base: Option<TimeBase>,
    based_at: Instant,
    last_bytes: Instant,
    /// Pace of the reads. A thousand requests are 0.5 MB, which is more than a socket can hold between two rounds.
    pace: Pace,
    /// Number of lost events at the last check.
    lost: u64,
    /// Time since which no event was lost, in nanoseconds since the sync point.
    whole_since: i64,
    /// Value of [`Batch::since_ticks`] in the last batch.
    said: Option<i64>,
    rate: Rate,
    /// Whether the loss of the filter was reported.
    reported_taken: bool,
    /// Whether the session restarts when a request shows an SDK.
    pub(super) waits_for_sdk: bool,
}

impl RequestStream {
    /// Creates a stream without bytes.
    pub(super) fn new(options: &RequestOptions, ahead_ns: Option<i64>, memory: Share, rounds: Arc<Rounds>) -> Self {
        let now = Instant::now();
        let keep = i64::try_from(options.longest.as_nanos()).unwrap_or(i64::MAX);
        Self {
            stream: GcStream::with_limits(
                Scope::CollectionsAnd(session::PROVIDER),
                ReportTiming::After(LIVE_SETTLE_NS),
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

    /// Reads the stream until it ends or must end.
    pub(super) async fn read<S: Sink>(
        &mut self,
        session: &mut Session,
        shared: &Shared<S>,
        news: &mpsc::Sender<RequestMessage>,
        options: &RequestOptions,
    ) -> End {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let pause = or_pending(self.pace.next().map(sleep_until));
            tokio::select! {
                () = pause => self.pace.pass(Instant::now()),
                read = shared.buffer.read(session, &mut self.stream), if self.pace.until.is_none() => match read {
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
                            "more than {} requests per second for {SECONDS_ABOVE} s (requests.max_per_second)",
                            options.max_per_second
                        ));
                    }
                    if self.waits_for_sdk && self.requests.shows_sdk() {
                        return End::Anew;
                    }
                    if self.requests.taken().is_some()
                        && !std::mem::replace(&mut self.reported_taken, true)
                        && news.send(RequestMessage::Taken).await.is_err()
                    {
                        return End::Over;
                    }
                    if let Some(batch) = self.batch()
                        && news.send(RequestMessage::Batch(batch)).await.is_err()
                    {
                        return End::Over;
                    }
                }
            }
        }
    }

    /// Decodes the available bytes.
    fn advance(&mut self) -> Result<(), End> {
        loop {
            let Self { stream, requests, .. } = self;
            let advanced = stream.advance(|observed| {
                // Ignore the result: if too many requests wait, the rate limit ends the session soon.
                requests.observe(observed);
            });
            // Outcomes are not needed here. Only the edges of suspensions are.
            while stream.next_outcome().is_some() {}
            let held = stream.memory_bytes() + requests.memory_bytes();
            self.stream.shrink();
            self.set_base();
            let largest = || self.stream.largest_store();
            if let Err(over) = self.memory.set(held, largest) {
                return Err(End::Refused(over.to_string()));
            }
            match advanced {
                Ok(AdvanceOutcome::Drained) => return Ok(()),
                Ok(AdvanceOutcome::Paused) => {}
                Err(error) => return Err(End::Failed(format!("the request stream is damaged: {error}"))),
            }
        }
    }

    fn set_base(&mut self) {
        let Some(header) = self.stream.header() else { return };
        let now = Instant::now();
        if self.base.is_some() && now < self.based_at + BASE_INTERVAL {
            return;
        }
        let clocks = clocks();
        let source = *self
            .source
            .get_or_insert_with(|| Source::select(header, clocks, self.ahead_ns));
        self.based_at = now;
        if let Some(base) = source.base(header, clocks) {
            self.base = Some(base);
            if let Ok(unix_ns) = i64::try_from(base.unix(clocks.wall()).unix_ns(0)) {
                self.requests.set_base(unix_ns);
            }
        }
    }

    /// Returns the requests that can be evaluated now, or `None` if no request is ready and the time of completeness
    /// has not changed.
    fn batch(&mut self) -> Option<Batch> {
        let (header, base) = (self.stream.header()?, self.base?);
        let now = i64::try_from(now().since(base.moment(0))).unwrap_or(i64::MAX);
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
