//! Decodes a stream and reports its contents. The caller passes the time, and decides when the stream is read
//! (`session`).

use std::sync::Arc;
use std::time::Duration;

use base::time::TimeBase;
use clr_gc::event::{ClrEvent, GcReason};
use clr_gc::gc::{LIVE_SETTLE_NS, OpenOperations, Outcome, ReportTiming};
use clr_gc::stream::{AdvanceOutcome, GcStream, Observed, Scope, StreamLimits};
use nettrace::Ending;
use tokio::time::Instant;

use crate::clock::Source;
use crate::cpu_wait::CpuWaits;
use crate::held_back::HeldBack;
use crate::host::clocks;
use crate::memory::Share;
use crate::others::WatchedProcess;
use crate::requests::Batch;
use crate::session::{Decoded, StreamError};
use crate::settings;
use crate::sink::RunSink;
use crate::threads::Threads;
use crate::tool_cost::ToolCost;
use crate::tool_thread::ToolThread;
use processes::StreamProgress;

/// Interval between progress reports while bytes arrive.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// A stream that is being read, and the receiver of its contents.
pub(crate) struct StreamReading<T> {
    pub(crate) stream: GcStream,
    pub(crate) sink: T,
    /// Memory held by the stream, as a share of the total for all streams.
    pub(crate) memory: Share,
    ahead_ns: Option<i64>,
    bytes: u64,
    source: Option<Source>,
    base: Option<TimeBase>,
    reported_bytes: u64,
    progress_at: Instant,
    /// Unfinished operations as last reported.
    reported_open: OpenOperations,
    /// Whether a collection due to scarce memory was observed since the last results.
    is_scarce: bool,
    /// Whether the collector was observed to adapt the number of heaps.
    adapts: bool,
    /// Sessions of other tools in the process; `None` if these sessions are not visible.
    pub(crate) others: Option<Arc<WatchedProcess>>,
    /// Identifies the thread whose collections are requested by tools and not by the program.
    pub(crate) tool_thread: ToolThread,
    /// Detects slower collections caused by sessions of other tools.
    tool_cost: ToolCost,
    /// Determines whether the threads of the process had a CPU during collections.
    pub(crate) cpu: CpuWaits,
    /// Outcomes that wait for the requests that they affected; `None` if requests are not read.
    held: Option<HeldBack>,
    /// Whether the sink was notified that requests are not read.
    requests_unread: bool,
    /// Time for which outcomes wait if requests are read; `None` if requests were never read.
    hold: Option<Duration>,
}

impl<T: RunSink> StreamReading<T> {
    pub(crate) fn new(sink: T, ahead_ns: Option<i64>, memory: Share, now: Instant) -> Self {
        Self {
            stream: empty(),
            sink,
            memory,
            ahead_ns,
            bytes: 0,
            source: None,
            base: None,
            reported_bytes: 0,
            progress_at: now,
            reported_open: OpenOperations::default(),
            is_scarce: false,
            adapts: false,
            others: None,
            tool_thread: ToolThread::new(None),
            tool_cost: ToolCost::default(),
            cpu: CpuWaits::new(None, Threads::default()),
            held: None,
            requests_unread: false,
            hold: None,
        }
    }

    /// Decodes `n` bytes that were appended to the stream.
    pub(crate) fn take(&mut self, n: usize, now: Instant) -> Result<Decoded, StreamError> {
        self.bytes += n as u64;
        let mut adapts = self.adapts;
        let advanced = self.advance(now, |observed| adapts = adapts || settings::adapts(observed));
        if adapts && !std::mem::replace(&mut self.adapts, true) {
            self.sink.learned(None, vec![settings::adaptive()]);
        }
        // Return the memory: there are hundreds of streams, and each has events for only a moment in every 100 ms.
        self.stream.shrink();
        if now >= self.progress_at {
            self.report_progress(now);
        } else if !self.reported_open.is_nothing() {
            // Report the end of an operation immediately.
            self.report_open(now);
        }
        advanced.map(|()| self.decoded())
    }

    /// Returns the results of the decoder since the last call.
    fn decoded(&mut self) -> Decoded {
        Decoded {
            has_header: self.source.is_some(),
            is_scarce: std::mem::take(&mut self.is_scarce),
        }
    }

    /// Decodes the available bytes and reports the results.
    fn advance(&mut self, now: Instant, mut observer: impl FnMut(&Observed<'_>)) -> Result<(), StreamError> {
        loop {
            let Self { stream, others, .. } = self;
            let advanced = stream.advance(|observed| {
                observer(observed);
                if let (Ok(ClrEvent::ProcessInfo(_)), Some(run)) = (&observed.decoded, &others) {
                    run.others().session_ended(observed.at);
                }
            });
            self.set_base();
            let waiting = self.held.as_ref().map_or(0, HeldBack::memory_bytes);
            let held = self.stream.memory_bytes() + waiting;
            self.report_outcomes(now);
            self.memory.set(held, || self.stream.largest_store())?;
            if advanced? == AdvanceOutcome::Drained {
                return Ok(());
            }
        }
    }

    /// Releases all memory held by the stream, which is no longer read.
    pub(crate) fn release(&mut self) {
        self.stream = empty();
        let _holds_nothing = self.memory.set(0, || ("nothing", 0));
    }

    /// Releases the events that the decoder has held back, after a silence of this duration. Also returns whether the
    /// decoder would report more after a longer silence.
    pub(crate) fn flush(&mut self, silent: Duration, now: Instant) -> Result<(Decoded, bool), StreamError> {
        self.stream.flush();
        self.advance(now, |_| ())?;
        self.stream.quiet(i64::try_from(silent.as_nanos()).unwrap_or(i64::MAX));
        self.report_outcomes(now);
        Ok((self.decoded(), self.stream.is_waiting()))
    }

    /// Reports progress and released outcomes, and reads threads, if they are due. See [`Self::next_timer`].
    pub(crate) fn report(&mut self, now: Instant) {
        if self.is_news() && now >= self.progress_at {
            self.report_progress(now);
        }
        self.report_held(now);
        let at = self.offset_now();
        self.cpu.tick(now, at);
    }

    /// Returns whether the next progress report has content. Operations can start and end without new bytes, because
    /// the decoder holds back events to keep their order.
    fn is_news(&self) -> bool {
        self.bytes != self.reported_bytes || self.stream.open() != self.reported_open
    }

    /// Returns the next time at which [`Self::report`] has work, or `None` if only new bytes cause work.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let progress = self.is_news().then_some(self.progress_at);
        let held = self.held.as_ref().and_then(HeldBack::next);
        [progress, held, self.cpu.next()].into_iter().flatten().min()
    }

    /// Handles the end of the stream.
    pub(crate) fn finish(&mut self, now: Instant) -> Result<(), StreamError> {
        self.stream.finish();
        let advanced = self.advance(now, |_| ());
        let in_order = self.stream.decoder().ending() == Some(Ending::Clean);
        self.stream.end();
        self.report_outcomes(now);
        self.requests_stopped();
        self.report_progress(now);
        self.sink.closed(in_order);
        advanced
    }

    fn set_base(&mut self) {
        let Some(header) = self.stream.header().filter(|_| self.source.is_none()) else {
            return;
        };
        let clocks = clocks();
        let source = Source::select(header, clocks, self.ahead_ns);
        self.source = Some(source);
        self.base = source.base(header, clocks);
        if let Some(base) = self.base {
            self.sink.time_base(base);
        }
    }

    /// Returns the current time in nanoseconds since the stream's sync point, or `None` if the stream's clock is
    /// unknown.
    fn offset_now(&self) -> Option<i64> {
        self.source?.offset(self.stream.header()?, clocks())
    }

    fn report_outcomes(&mut self, now: Instant) {
        while let Some((_, mut outcome)) = self.stream.next_outcome() {
            if let Outcome::Collection(collection) = &mut outcome {
                let (observed, looks) = self.others.as_ref().map_or((None, 0), |run| {
                    let others = run.others();
                    (others.observes(now), others.found_nobody())
                });
                collection.observed_by_others = observed;
                if collection.is_requested() && collection.requested_by_tool.is_none() {
                    let thread = collection.trigger_thread;
                    collection.requested_by_tool = thread.and_then(|thread| self.tool_thread.is(thread));
                }
                if let (Some(true), Some(run)) = (collection.requested_by_tool, &self.others) {
                    run.others().dumped(collection.last_event, now);
                }
                self.tool_cost.judge(collection, looks);
                let at = self.offset_now();
                self.cpu.judge(collection, now, at);
                if matches!(
                    collection.reason,
                    Some(GcReason::OUT_OF_SPACE_SOH | GcReason::OUT_OF_SPACE_LOH)
                ) {
                    self.is_scarce = true;
                }
            }
            match &mut self.held {
                Some(held) => held.push(outcome, now),
                None => self.sink.observe(outcome),
            }
        }
    }

    /// Holds back outcomes for `wait`, until the requests that they affected are known.
    pub(crate) fn hold_back(&mut self, wait: Duration) {
        self.hold = Some(wait);
        self.sink.held_back(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        self.held = Some(HeldBack::new(wait));
    }

    /// Handles finished requests.
    pub(crate) fn take_requests(&mut self, batch: &Batch) {
        if batch.since_ticks.is_some() && std::mem::take(&mut self.requests_unread) {
            self.sink.requests_unread(None);
        }
        if let (None, Some(wait), Some(_)) = (&self.held, self.hold, batch.since_ticks) {
            // Requests are read again.
            self.hold_back(wait);
        }
        // The stream of requests and this stream use the same clock.
        let between = batch.sync_ticks.saturating_sub(self.sync_ticks());
        if let Some(base) = self.base {
            self.sink.requests(&batch.requests, base.later(between));
        }
        if let Some(held) = &mut self.held {
            held.take(batch);
        }
    }

    /// Reports why requests are no longer read, and reports all outcomes that wait for requests.
    pub(crate) fn requests_unread(&mut self, why: String) {
        self.requests_unread = true;
        self.sink.requests_unread(Some(why));
        self.requests_stopped();
    }

    /// Reports all outcomes that wait for requests, and stops holding outcomes back.
    pub(crate) fn requests_stopped(&mut self) {
        let Some(mut held) = self.held.take() else { return };
        while let Some(outcome) = held.pop(None, self.sync_ticks()) {
            self.sink.observe(outcome);
        }
        self.sink.held_back(0);
    }

    fn sync_ticks(&self) -> i64 {
        self.stream.header().map_or(0, |header| header.sync_ticks)
    }

    fn report_held(&mut self, now: Instant) {
        let sync_ticks = self.sync_ticks();
        while let Some(outcome) = self.held.as_mut().and_then(|held| held.pop(Some(now), sync_ticks)) {
            self.sink.observe(outcome);
        }
    }

    fn report_progress(&mut self, now: Instant) {
        self.reported_bytes = self.bytes;
        self.progress_at = now + PROGRESS_INTERVAL;
        let stats = self.stream.decoder().stats();
        self.sink.progress(StreamProgress {
            bytes: self.bytes,
            events: stats.events,
            lost_events: stats.lost,
            undecodable: self.stream.undecodable(),
        });
        self.report_open(now);
    }

    fn report_open(&mut self, now: Instant) {
        let open = self.stream.open();
        if open == self.reported_open {
            return;
        }
        self.reported_open = open;
        let mut open = open;
        if open.requested_by_tool.is_none() {
            open.requested_by_tool = open.requester.and_then(|thread| self.tool_thread.is(thread));
        }
        if let (Some(true), Some(begun), Some(run)) =
            (open.requested_by_tool, open.stop.or(open.collection), &self.others)
        {
            run.others().dumped(begun, now);
        }
        self.sink.open(open);
    }
}

/// Returns a live stream that has not read any bytes.
fn empty() -> GcStream {
    let settling = ReportTiming::After(LIVE_SETTLE_NS);
    GcStream::with_limits(Scope::Collections, settling, StreamLimits::one_live_process())
}
