//! Feeds a recording into the pipeline like a live process.
//!
//! A recording passes through the same decoder, state machine, timeouts and [`Feed`] as a stream from a socket.
//! `replay` therefore exports the data that the daemon would have exported.

use std::path::Path;

use clr_gc::gc::{LIVE_SETTLE_NS, Outcome, ReportTiming};
use clr_gc::stream::{AdvanceOutcome, GcStream, ProcessKey, Scope};
use nettrace::{Ending, TraceHeader};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use crate::pipeline::{Feed, Pipeline};
use base::run_key::RunKey;
use base::time::TimeBase;
use gc_telemetry::definition::resource as row;
use gc_telemetry::value::key_value;
use processes::{Identity, RunState, StreamProgress};
use recording::RecordingError;
use recording::source::Source;
use targets::sink::{RunSink as _, Sink as _, TargetLimitError};

/// An iterator over the outcomes of a recording.
#[derive(Debug)]
pub struct Player {
    source: Source,
    stream: GcStream,
    /// Whether all bytes read so far are decoded.
    drained: bool,
    /// Whether the source has no more bytes.
    finished: bool,
    ended: bool,
}

impl Player {
    /// Opens a recording.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording cannot be opened.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Ok(Self::new(Source::open(path)?))
    }

    /// Creates a player for a source.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            stream: GcStream::new(Scope::Collections, ReportTiming::After(LIVE_SETTLE_NS)),
            drained: true,
            finished: false,
            ended: false,
        }
    }

    /// Reads up to the header of the stream. Returns `None` if the recording is cut short before its header.
    ///
    /// # Errors
    ///
    /// See [`next_outcome`](Self::next_outcome).
    pub fn begin(&mut self) -> Result<Option<&TraceHeader>, RecordingError> {
        while self.stream.header().is_none() && !self.ended {
            self.read()?;
        }
        Ok(self.stream.header())
    }

    /// Returns the next outcome, or `None` at the end. Outcomes are in the order in which the pipeline would have
    /// received them from a live process. A recording that is cut short ends where it is cut.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a stream, are damaged, or cannot be read. All earlier outcomes have been
    /// returned.
    pub fn next_outcome(&mut self) -> Result<Option<(ProcessKey, Outcome)>, RecordingError> {
        loop {
            if let Some(outcome) = self.stream.next_outcome() {
                return Ok(Some(outcome));
            }
            if self.ended {
                return Ok(None);
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Result<(), RecordingError> {
        if !self.drained {
            return self.advance();
        }
        let n = self.source.read(self.stream.space(self.source.read_size()))?;
        self.stream.filled(n);
        if n == 0 {
            self.stream.finish();
        }
        self.finished |= n == 0;
        self.advance()
    }

    /// Decodes the bytes read so far, up to the space available for outcomes.
    fn advance(&mut self) -> Result<(), RecordingError> {
        let advanced = self.stream.advance(|_| {});
        self.drained = !matches!(advanced, Ok(AdvanceOutcome::Paused));
        if self.drained && (advanced.is_err() || self.finished || self.stream.decoder().ending().is_some()) {
            self.ended = true;
            self.stream.end();
        }
        advanced.map(drop).map_err(|source| RecordingError::Stream {
            name: self.source.name().to_owned(),
            source,
        })
    }

    /// Returns the reading progress.
    pub fn progress(&self) -> StreamProgress {
        let stats = self.stream.decoder().stats();
        StreamProgress {
            bytes: stats.bytes,
            events: stats.events,
            lost_events: stats.lost,
            undecodable: self.stream.undecodable(),
        }
    }

    /// Returns a sentence about the position at which the recording is cut short, or `None` if the recording is
    /// complete.
    pub fn cut(&self) -> Option<String> {
        match self.stream.decoder().ending() {
            Some(Ending::Truncated { offset, reading }) => Some(format!(
                "{} is cut short: it ends at byte {offset}, in {reading}; everything complete before that is reported",
                self.source.name()
            )),
            _ => None,
        }
    }
}

/// Returns the time at which an outcome was complete, in nanoseconds after the sync point, or `None` if this time was
/// not observed.
pub fn complete_at(outcome: &Outcome) -> Option<i64> {
    match outcome {
        Outcome::Collection(collection) => Some(collection.last_event),
        Outcome::Suspension(suspension) => suspension.edges.restart_end.or(suspension.edges.suspend_begin),
    }
}

/// Identity of the processes of a recording.
#[derive(Debug, Clone)]
pub struct ReplayIdentity {
    /// `service.name`.
    pub service: String,
    /// Additional resource attributes.
    pub attributes: Vec<KeyValue>,
    /// Unix time of the recording's sync point.
    pub base: TimeBase,
    /// Distinguishes this replay from other replays of the same recording.
    pub start_time: u64,
}

/// The feeds of a recording's processes, created when a process first appears.
#[derive(Debug)]
pub struct ReplayFeeds {
    pipeline: Pipeline,
    cast: ReplayIdentity,
    feeds: Vec<(ProcessKey, Feed)>,
}

impl ReplayFeeds {
    /// Creates the feeds of a recording of which no process has appeared yet.
    pub fn new(pipeline: Pipeline, cast: ReplayIdentity) -> Self {
        Self {
            pipeline,
            cast,
            feeds: Vec::new(),
        }
    }

    /// Sets the time base of the following outcomes, because the recording is played again.
    pub fn set_base(&mut self, base: TimeBase) {
        self.cast.base = base;
        for (_, feed) in &mut self.feeds {
            feed.time_base(base);
        }
    }

    /// Observes one outcome.
    ///
    /// # Errors
    ///
    /// Returns an error if the limit of runs is reached.
    pub fn observe(&mut self, key: ProcessKey, outcome: Outcome) -> Result<(), TargetLimitError> {
        let place = self.feeds.iter().position(|(known, _)| *known == key);
        let place = match place {
            Some(place) => place,
            None => {
                let mut feed = self.pipeline.open(self.identity(key))?;
                feed.time_base(self.cast.base);
                feed.state(RunState::Attached);
                self.feeds.push((key, feed));
                self.feeds.len() - 1
            }
        };
        if let Some((_, feed)) = self.feeds.get_mut(place) {
            feed.observe(outcome);
        }
        Ok(())
    }

    /// Reports the reading progress. The progress counts for the first process, because the losses of a stream do not
    /// belong to any one process.
    pub fn progress(&mut self, progress: StreamProgress) {
        if let Some((_, feed)) = self.feeds.first_mut() {
            feed.progress(progress);
        }
    }

    /// Finishes the replay: the metrics of its processes are exported one last time.
    pub fn end(self) {
        for (_, feed) in self.feeds {
            feed.end();
        }
    }

    fn identity(&self, key: ProcessKey) -> Identity {
        // A pid of more than 32 bits is not a Linux pid. The low bits still distinguish such processes.
        let pid = key.pid.map_or(0, |pid| pid as u32);
        let mut resource = vec![
            key_value(row::SERVICE_NAME.name, Value::StringValue(self.cast.service.clone())),
            key_value(row::PROCESS_PID.name, Value::IntValue(pid.into())),
        ];
        resource.extend(self.cast.attributes.iter().cloned());
        let instance = key.clr_instance.filter(|instance| *instance != 0);
        if let Some(instance) = instance {
            resource.push(key_value(row::CLR_INSTANCE.name, Value::IntValue(instance.into())));
        }
        let start_time = self.cast.start_time.wrapping_add(instance.unwrap_or(0).into());
        Identity {
            ns_pid: Some(pid),
            resource,
            ..Identity::new(RunKey { pid, start_time }, &self.cast.service)
        }
    }
}
