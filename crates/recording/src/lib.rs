//! Reads a recording to its end: the collections of every process in it, and the record of its stream.
//!
//! # Layers
//!
//! 1. [`source`]: reads a file or an archive as bytes, with limits
//! 2. `program`: determines the program of a recording from its events
//! 3. this module: turns bytes into collections
//!
//! # Invariants
//!
//! * **The recording's time.** The crate does not use a clock, and the same file yields the same collections.
//! * **Complete items are reported**, even if the rest of a file is damaged. The memory per file is bounded.

// Time is passed in as a value: this crate does not use a clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

use std::cell::Cell;

use clr_gc::event::ClrEvent;
use clr_gc::gc::{Collection, Finalizers, OtherStops, Outcome, ReportTiming, Suspension, Totals};
use clr_gc::stream::{GcStream, Observed, ProcessKey, Scope};
use gc_requests::request::Request;
use gc_requests::requests::Requests;
use incidents::review::History;
use nettrace::{Ending, TraceHeader};

pub mod program;
pub mod source;

use self::program::Program;
use self::source::{Source, SourceError};
use api::gc::{StreamRecord, Subject};

/// Error returned if a recording cannot be read to its end. Everything before the error is reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be opened, read or unpacked.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The bytes are not a nettrace stream, or are damaged.
    #[error("{name}: {source}")]
    Stream {
        /// Name of the file in messages.
        name: String,
        /// Error of the decoder, with its offset.
        source: nettrace::Error,
    },
    /// The recording exceeds the limit for one recording.
    #[error(
        "{name} has more than {MAX_HELD} starts and ends of collections and stops, which is the limit for one \
         recording; everything before the limit is reported"
    )]
    TooLong {
        /// Name of the file in messages.
        name: String,
    },
}

/// Maximum number of collection starts, collection ends and stop starts in one recording: 19 hours at 10 collections
/// per second. In the worst case, each of these events is the only trace of a collection, which takes 1 KB of memory.
pub const MAX_HELD: u64 = 1 << 21;

/// The GC history of one process in a recording.
#[derive(Debug, Default)]
pub struct ProcessHistory {
    /// Collections, ordered by GCStart; collections without GCStart come first.
    pub collections: Vec<Collection>,
    /// Suspensions without a collection, by time.
    pub suspensions: Vec<Suspension>,
    /// Suspensions for other reasons than the GC, summed by reason.
    pub other_stops: Vec<OtherStops>,
    /// Activity of the finalizer thread: each change with its time, in chronological order.
    pub finalizers: Vec<(i64, Finalizers)>,
    /// Totals of the collections and suspensions.
    pub totals: Totals,
}

impl ProcessHistory {
    /// Returns the input for rules.
    pub fn history(&self) -> History<'_> {
        History {
            collections: &self.collections,
            suspensions: &self.suspensions,
            finalizers: &self.finalizers,
        }
    }
}

/// A recording that was read to its end, or up to an error.
#[derive(Debug)]
pub struct Recording {
    /// Each process with its history, in order of appearance.
    pub processes: Vec<(Subject, ProcessHistory)>,
    /// The record of the stream.
    pub stream: StreamRecord,
    /// Requests of the first process, ordered by their ends; `None` if the recording or the scope contains no requests.
    pub requests: Option<Vec<Request>>,
    /// Program of the recording.
    pub program: Program,
    /// Header of the stream; `None` if it could not be read.
    pub header: Option<TraceHeader>,
    /// Time from the sync point, which is the start of the session, to the last event, in nanoseconds; 0 if the stream
    /// has no events.
    pub observed_ns: i64,
    /// Whether the recording contains events of collections or the runtime. Without such events, either no
    /// collection ran, or the session did not enable the events.
    pub has_gc_events: bool,
    /// A sentence about the truncation; `None` if the recording is complete.
    pub cut: Option<String>,
    /// Error that stopped reading; `None` if the recording was read to its end.
    pub error: Option<RecordingError>,
}

impl Recording {
    /// Reads a source to its end. Calls `observer` with every event of the scope, in stream order.
    pub fn read(source: &mut Source, scope: Scope, mut observer: impl FnMut(&Observed<'_>)) -> Self {
        let mut stream = GcStream::new(scope, ReportTiming::AtTheEnd);
        let mut requests = Requests::recorded();
        let mut program = Program::default();
        let mut process = None;
        let held = Cell::new(0);
        let mut has_gc_events = false;
        let mut both = |observed: &Observed<'_>| {
            if matches!(
                observed.decoded,
                Ok(ClrEvent::GcStart(_) | ClrEvent::GcEnd(_) | ClrEvent::SuspendEeBegin(_))
            ) {
                held.set(held.get() + 1);
            }
            // Every session contains the name of the process and a rundown, so these events do not count.
            has_gc_events |= !matches!(
                observed.decoded,
                Err(_) | Ok(ClrEvent::ProcessInfo(_) | ClrEvent::RundownSettings(_) | ClrEvent::RuntimeDcStart(_))
            );
            // Only the requests of the first process are read, because another process can use other clocks.
            if *process.get_or_insert(observed.event.process) == observed.event.process {
                requests.observe(observed);
            }
            program.observe(observed);
            observer(observed);
        };
        let error = feed(source, &mut stream, &mut both, &held).err();
        let judged = std::iter::from_fn(|| requests.next(i64::MAX, |from, to| stream.is_lossy(from, to)));
        let judged: Vec<Request> = judged.collect();
        stream.end();
        let mut record = StreamRecord {
            file: source.name().to_owned(),
            ..StreamRecord::default()
        };
        let header = stream.header().cloned();
        let stats = stream.decoder().stats();
        record.events = stats.events;
        record.lost_events = stats.lost;
        record.bytes = stats.bytes;
        record.undecodable = stream.undecodable();
        record.clean_end = stream.decoder().ending() == Some(Ending::Clean);
        record.pointer_size = header.as_ref().map(|header| header.pointer_size.bytes() as u8);
        record.sync_ticks = header.as_ref().map(|header| header.sync_ticks);
        record.tick_frequency = header.as_ref().map(|header| header.frequency);
        record.runtime = stream.runtime().map(str::to_owned);
        let times = stats.first_event.zip(stats.last_event);
        let offsets = times
            .zip(header.as_ref())
            .map(|((first, last), header)| (header.offset_ns(first), header.offset_ns(last)));
        record.duration_ns = offsets.map(|(first, last)| last.saturating_sub(first));
        let observed_ns = offsets.map_or(0, |(first, last)| last.saturating_sub(first.min(0)));
        let cut = match stream.decoder().ending() {
            Some(Ending::Truncated { offset, reading }) => Some(format!(
                "{} is truncated: it ends at byte {offset}, in {reading}; everything complete before that is reported",
                source.name()
            )),
            _ => source.cut().map(|error| {
                format!(
                    "{} is truncated ({error}); everything complete before that is reported",
                    source.name()
                )
            }),
        };
        let mut processes = histories(&mut stream);
        if let (true, Some(pid)) = (
            processes.is_empty(),
            header.as_ref().and_then(|header| header.process_id),
        ) {
            // A process without collections is also reported.
            let subject = Subject {
                pid: Some(pid.into()),
                clr_instance: None,
            };
            processes.push((subject, ProcessHistory::default()));
        }
        record.gcs = processes.iter().map(|(_, process)| process.totals.count).sum();
        Self {
            processes,
            stream: record,
            requests: (!judged.is_empty()).then_some(judged),
            program,
            header,
            observed_ns,
            has_gc_events,
            cut,
            error,
        }
    }
}

fn feed(
    source: &mut Source,
    stream: &mut GcStream,
    observer: &mut impl FnMut(&Observed<'_>),
    held: &Cell<u64>,
) -> Result<(), RecordingError> {
    loop {
        let space = stream.space(source.read_size());
        let n = source.read(space)?;
        stream.filled(n);
        if n == 0 {
            stream.finish();
        }
        let name = || source.name().to_owned();
        stream
            .advance(&mut *observer)
            .map_err(|source| RecordingError::Stream { name: name(), source })?;
        if n == 0 || stream.decoder().ending().is_some() {
            return Ok(());
        }
        if held.get() > MAX_HELD {
            return Err(RecordingError::TooLong { name: name() });
        }
    }
}

fn histories(stream: &mut GcStream) -> Vec<(Subject, ProcessHistory)> {
    let subject = |key: ProcessKey| Subject {
        pid: key.pid,
        clr_instance: key.clr_instance,
    };
    let mut processes: Vec<(Subject, ProcessHistory)> = stream
        .processes()
        .iter()
        .map(|process| {
            let other_stops = process.machine().other_stops().to_vec();
            (
                subject(process.key),
                ProcessHistory {
                    other_stops,
                    finalizers: process.machine().finalizer_history().to_vec(),
                    ..ProcessHistory::default()
                },
            )
        })
        .collect();
    while let Some((key, outcome)) = stream.next_outcome() {
        let subject = subject(key);
        let Some((_, history)) = processes.iter_mut().find(|(other, _)| *other == subject) else {
            continue;
        };
        match outcome {
            Outcome::Collection(collection) => history.collections.push(*collection),
            Outcome::Suspension(suspension) => history.suspensions.push(suspension),
        }
    }
    for (_, history) in &mut processes {
        // Records are large. Sorting cached keys moves each record at most once.
        history.collections.sort_by_cached_key(|collection| collection.start);
        history
            .suspensions
            .sort_by_key(|suspension| suspension.edges.suspend_begin);
        for collection in &history.collections {
            history.totals.add(collection);
        }
        for suspension in &history.suspensions {
            history.totals.add_suspension(suspension);
        }
    }
    processes
}
