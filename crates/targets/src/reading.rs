//! A stream that is read, and what is reported of it, with the times at which something is due though no byte comes.

use std::sync::Arc;
use std::time::Duration;

use base::time::TimeBase;
use clr_gc::event::{ClrEvent, GcReason};
use clr_gc::gc::{LIVE_SETTLE_NS, Open, Outcome, Settling};
use clr_gc::stream::{Advanced, GcStream, Observed, Scope, StreamLimits};
use nettrace::Ending;
use tokio::time::Instant;

use crate::buffer::READ_BYTES;
use crate::clock::Source;
use crate::cpu_wait::CpuWaits;
use crate::held_back::HeldBack;
use crate::host::clocks;
use crate::memory::{OverMemory, Share};
use crate::others::Watched;
use crate::requests::Batch;
use crate::rounds::{Pace, Rounds};
use crate::settings;
use crate::sink::RunSink;
use crate::threads::Threads;
use crate::tool_cost::ToolCost;
use crate::tool_thread::ToolThread;
use processes::StreamProgress;

/// How long a runtime may take to send the stream's header: it does so before it answers to the command.
const HEADER_WITHIN: Duration = Duration::from_secs(15);
/// When a stream that is silent counts as idle: a runtime that has events writes them in passes of 100 ms. The last
/// step is beyond the time that the reconstruction waits for missing facts. Each is a little before a round.
const QUIET_STEPS: [Duration; 3] = [
    Duration::from_millis(390),
    Duration::from_millis(790),
    Duration::from_millis(2590),
];
/// How long after a collection because of scarce memory no other session is begun.
const SESSIONS_AFTER_SCARCITY: Duration = Duration::from_secs(30);
/// How often the progress is reported while bytes come.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// After so long without coming to the end of what waits, a stream counts as not read to its end.
const UNDRAINED_AFTER: Duration = Duration::from_secs(1);

/// A stream that is read, and what is reported of it.
pub(crate) struct StreamReading<T> {
    pub(crate) stream: GcStream,
    pub(crate) sink: T,
    pub(crate) since: Instant,
    /// What the stream holds, of what all may hold.
    pub(crate) memory: Share,
    ahead_ns: Option<i64>,
    bytes: u64,
    pace: Pace,
    last_bytes: Instant,
    /// Since when every reading filled the buffer; `None`: the newest came to the end of what waited.
    full_since: Option<Instant>,
    reported_undrained: bool,
    /// How many of [`QUIET_STEPS`] were made since the last bytes; `None`: nothing waits.
    quiet_steps: Option<usize>,
    source: Option<Source>,
    base: Option<TimeBase>,
    reported_bytes: u64,
    progress_at: Instant,
    /// What has begun and not ended, as it was reported last.
    reported_open: Open,
    /// When the settings are read; `None`: not.
    pub(crate) settings_at: Option<Instant>,
    /// The newest collection because of scarce memory.
    scarce_at: Option<Instant>,
    /// The number of heaps was seen to adapt.
    adapts: bool,
    /// What is known of other tools' sessions in the process; `None`: they cannot be seen.
    pub(crate) others: Option<Arc<Watched>>,
    /// Whose heap dumps are not the program's requests.
    pub(crate) tool_thread: ToolThread,
    /// What sessions of other tools lengthen.
    tool_cost: ToolCost,
    /// Whether its threads had a CPU when they collected.
    pub(crate) cpu: CpuWaits,
    /// What waits for the requests that it hit; `None`: requests are not read.
    held: Option<HeldBack>,
    /// The sink knows that requests are not read.
    requests_unread: bool,
    /// How long outcomes wait, where requests are read.
    hold: Option<Duration>,
}

impl<T: RunSink> StreamReading<T> {
    pub(crate) fn new(sink: T, ahead_ns: Option<i64>, rounds: Arc<Rounds>, memory: Share) -> Self {
        let now = Instant::now();
        Self {
            stream: empty(),
            sink,
            since: now,
            memory,
            ahead_ns,
            bytes: 0,
            pace: Pace::new(rounds, now),
            last_bytes: now,
            full_since: None,
            reported_undrained: false,
            quiet_steps: None,
            source: None,
            base: None,
            reported_bytes: 0,
            progress_at: now,
            reported_open: Open::default(),
            settings_at: None,
            scarce_at: None,
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

    /// `n` bytes were put into the stream.
    pub(crate) fn take(&mut self, n: usize) -> Result<(), StreamError> {
        let now = Instant::now();
        self.bytes += n as u64;
        self.pace.take(n, now);
        self.last_bytes = now;
        self.quiet_steps = Some(0);
        self.observe_fullness(n, now);
        let mut adapts = self.adapts;
        let advanced = self.advance(|observed| adapts = adapts || settings::adapts(observed));
        if adapts && !std::mem::replace(&mut self.adapts, true) {
            self.sink.learned(None, vec![settings::adaptive()]);
        }
        // There are hundreds of streams, and each has events for a moment in every 100 ms.
        self.stream.shrink();
        if now >= self.progress_at {
            self.report_progress(now);
        } else if !self.reported_open.is_nothing() {
            // What ended is reported at once.
            self.report_open();
        }
        advanced
    }

    fn observe_fullness(&mut self, n: usize, now: Instant) {
        self.full_since = (n >= READ_BYTES).then(|| self.full_since.unwrap_or(now));
        let undrained = self
            .full_since
            .is_some_and(|since| now.saturating_duration_since(since) >= UNDRAINED_AFTER);
        if std::mem::replace(&mut self.reported_undrained, undrained) != undrained {
            self.sink.undrained(undrained);
        }
    }

    /// Decodes what is there, and reports what comes of it.
    fn advance(&mut self, mut observer: impl FnMut(&Observed<'_>)) -> Result<(), StreamError> {
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
            self.report_outcomes();
            self.memory.set(held, || self.stream.largest_store())?;
            if advanced? == Advanced::Drained {
                return Ok(());
            }
        }
    }

    /// Gives back all that its stream holds: nothing of it is read any more.
    pub(crate) fn release(&mut self) {
        self.stream = empty();
        let _holds_nothing = self.memory.set(0, || ("nothing", 0));
    }

    /// Nothing is read now, though there may be something.
    pub(crate) fn rests(&self) -> bool {
        self.pace.until.is_some()
    }

    /// It is read to its end now, as fast as it comes.
    pub(crate) fn hurry(&mut self) {
        self.pace.hurry(Instant::now());
    }

    /// A timer of [`Self::next_timer`] has passed.
    pub(crate) fn tick(&mut self) -> Result<(), StreamError> {
        let now = Instant::now();
        self.pace.pass(now);
        if self.source.is_none() && now >= self.since + HEADER_WITHIN {
            return Err(StreamError::NoHeader);
        }
        let silent = now.saturating_duration_since(self.last_bytes);
        if let Some(step) = self.quiet_steps
            && QUIET_STEPS.get(step).is_some_and(|after| silent >= *after)
        {
            self.stream.flush();
            self.advance(|_| ())?;
            self.stream.quiet(i64::try_from(silent.as_nanos()).unwrap_or(i64::MAX));
            self.report_outcomes();
            let more = step + 1 < QUIET_STEPS.len() && self.stream.is_waiting();
            self.quiet_steps = more.then_some(step + 1);
        }
        if self.is_news() && now >= self.progress_at {
            self.report_progress(now);
        }
        self.report_held(now);
        let at = self.offset_now();
        self.cpu.tick(now, at);
        Ok(())
    }

    /// Something must be reported with the progress: bytes came, or something began or ended without them, as the
    /// decoder keeps events back for their order.
    fn is_news(&self) -> bool {
        self.bytes != self.reported_bytes || self.stream.open() != self.reported_open
    }

    /// When [`Self::tick`] has something to do next: never, for a process that does not collect.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let header = self.source.is_none().then(|| self.since + HEADER_WITHIN);
        let quiet = self
            .quiet_steps
            .and_then(|step| QUIET_STEPS.get(step))
            .map(|after| self.last_bytes + *after);
        let progress = self.is_news().then_some(self.progress_at);
        let held = self.held.as_ref().and_then(HeldBack::next);
        let times = [
            self.pace.next(),
            header,
            quiet,
            progress,
            self.settings_at,
            held,
            self.cpu.next(),
        ];
        times.into_iter().flatten().min()
    }

    /// Whether the settings must be read now; true once. Not while memory is scarce.
    pub(crate) fn settings_are_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.settings_at.is_some_and(|at| at <= now);
        if is_due {
            self.settings_at = self.is_scarce_until();
        }
        is_due && self.settings_at.is_none()
    }

    /// Until when no other session is begun, because memory was scarce.
    pub(crate) fn is_scarce_until(&self) -> Option<Instant> {
        let now = Instant::now();
        let until = self.scarce_at.map(|at| at + SESSIONS_AFTER_SCARCITY);
        until.filter(|until| *until > now)
    }

    /// The stream is over.
    pub(crate) fn finish(&mut self) -> Result<(), StreamError> {
        self.stream.finish();
        let advanced = self.advance(|_| ());
        let in_order = self.stream.decoder().ending() == Some(Ending::Clean);
        self.stream.end();
        self.report_outcomes();
        self.requests_stopped();
        self.report_progress(Instant::now());
        self.sink.closed(in_order);
        advanced
    }

    fn set_base(&mut self) {
        let Some(header) = self.stream.header().filter(|_| self.source.is_none()) else {
            return;
        };
        let clocks = clocks();
        let source = Source::of(header, clocks, self.ahead_ns);
        self.source = Some(source);
        self.base = source.base(header, clocks);
        if let Some(base) = self.base {
            self.sink.time_base(base);
        }
    }

    /// Now, in nanoseconds since the stream's sync point.
    fn offset_now(&self) -> Option<i64> {
        self.source?.offset(self.stream.header()?, clocks())
    }

    fn report_outcomes(&mut self) {
        while let Some((_, mut outcome)) = self.stream.next_outcome() {
            if let Outcome::Collection(collection) = &mut outcome {
                let now = Instant::now();
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
                    self.scarce_at = Some(now);
                }
            }
            match &mut self.held {
                Some(held) => held.push(outcome, Instant::now()),
                None => self.sink.observe(outcome),
            }
        }
    }

    /// Outcomes wait this long from now on, for the requests that they hit.
    pub(crate) fn hold_back(&mut self, wait: Duration) {
        self.hold = Some(wait);
        self.sink.held_back(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        self.held = Some(HeldBack::new(wait));
    }

    /// Requests that ended.
    pub(crate) fn take_requests(&mut self, batch: &Batch) {
        if batch.since_ticks.is_some() && std::mem::take(&mut self.requests_unread) {
            self.sink.requests_unread(None);
        }
        if let (None, Some(wait), Some(_)) = (&self.held, self.hold, batch.since_ticks) {
            // They are read again.
            self.hold_back(wait);
        }
        // The same clock as that of the collections.
        let between = batch.sync_ticks.saturating_sub(self.sync_ticks());
        if let Some(base) = self.base {
            self.sink.requests(&batch.requests, base.later(between));
        }
        if let Some(held) = &mut self.held {
            held.take(batch);
        }
    }

    /// Requests are not read from now on, and why.
    pub(crate) fn requests_unread(&mut self, why: String) {
        self.requests_unread = true;
        self.sink.requests_unread(Some(why));
        self.requests_stopped();
    }

    /// Nothing waits for requests any more.
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
        self.progress_at = now + PROGRESS_EVERY;
        let stats = self.stream.decoder().stats();
        self.sink.progress(StreamProgress {
            bytes: self.bytes,
            events: stats.events,
            lost_events: stats.lost,
            undecodable: self.stream.undecodable(),
        });
        self.report_open();
    }

    fn report_open(&mut self) {
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
            run.others().dumped(begun, Instant::now());
        }
        self.sink.open(open);
    }
}

/// A live stream of which nothing was read.
fn empty() -> GcStream {
    let settling = Settling::After(LIVE_SETTLE_NS);
    GcStream::with_limits(Scope::Collections, settling, StreamLimits::one_live_process())
}

impl StreamError {
    /// It is about what the stream would take, not about what its bytes are.
    pub(crate) fn is_over_memory(&self) -> bool {
        matches!(
            self,
            Self::OverMemory(_) | Self::Damaged(nettrace::Error::LimitExceeded { .. })
        )
    }
}

/// Why a stream is read no further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error("its event stream is damaged: {0}")]
    Damaged(#[from] nettrace::Error),
    #[error("{0}")]
    OverMemory(#[from] OverMemory),
    #[error("its event stream did not begin within {HEADER_WITHIN:?}")]
    NoHeader,
}
