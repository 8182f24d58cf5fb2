//! A recording read to its end: the collections of every process in it, and the record of its stream.
//!
//! # Layers
//!
//! 1. [`source`]: a file, or an archive, as bytes; bounded
//! 2. `program`: which program a recording is of, as its events have it
//! 3. this module: from bytes to collections
//!
//! # Invariants
//!
//! * **The recording's time**: nothing asks a clock, and the same file gives the same collections.
//! * **What is whole is reported**, however damaged the rest of a file is; what is held of one file is bounded.

// Time is a value: no clock is asked here (clippy.toml).
#![deny(clippy::disallowed_methods)]

use std::cell::Cell;

use clr_gc::event::ClrEvent;
use clr_gc::gc::{Collection, Finalizers, OtherStops, Outcome, Settling, Suspension, Totals};
use clr_gc::stream::{GcStream, Observed, ProcessKey, Scope};
use gc_requests::request::Request;
use gc_requests::requests::Requests;
use gc_rules::review::History;
use nettrace::{Ending, TraceHeader};

pub mod program;
pub mod source;

use self::program::Program;
use self::source::{Source, SourceError};
use api::gc::{StreamRecord, Subject};

/// Why a recording could not be read to its end. Everything before is reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be opened, read or unpacked.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The bytes are not a nettrace stream, or are damaged.
    #[error("{name}: {source}")]
    Stream {
        /// The file, as in messages.
        name: String,
        /// The decoder's error, with its offset.
        source: nettrace::Error,
    },
    /// More than is held of one recording.
    #[error(
        "{name} has more than {MOST_HELD} beginnings and ends of collections and stops, which is what is held of one \
         recording; what came before is reported"
    )]
    TooLong {
        /// The file, as in messages.
        name: String,
    },
}

/// Most beginnings and ends of collections, and beginnings of stops, of one recording: nineteen hours with ten
/// collections a second. Each is at most the only trace of a collection, which takes a kilobyte.
pub const MOST_HELD: u64 = 1 << 21;

/// The GC history of one process in a recording.
#[derive(Debug, Default)]
pub struct ProcessHistory {
    /// Its collections, by GCStart; those without one first.
    pub collections: Vec<Collection>,
    /// Its suspensions without a collection, by time.
    pub suspensions: Vec<Suspension>,
    /// Suspensions for other reasons than the GC, summed by reason.
    pub other_stops: Vec<OtherStops>,
    /// What its finalizer thread did: each change, by time.
    pub finalizers: Vec<(i64, Finalizers)>,
    /// Totals of the collections and suspensions.
    pub totals: Totals,
}

impl ProcessHistory {
    /// The input of rules.
    pub fn history(&self) -> History<'_> {
        History {
            collections: &self.collections,
            suspensions: &self.suspensions,
            finalizers: &self.finalizers,
        }
    }
}

/// A recording that was read to its end, or as far as possible.
#[derive(Debug)]
pub struct Recording {
    /// Each process with its history, in order of appearance.
    pub processes: Vec<(Subject, ProcessHistory)>,
    /// The record of the stream.
    pub stream: StreamRecord,
    /// The requests of its first process, by their ends, where it was recorded with them and the scope has them; `None`:
    /// there is none.
    pub requests: Option<Vec<Request>>,
    /// Which program it is of.
    pub program: Program,
    /// The stream's header; `None` when it could not be read.
    pub header: Option<TraceHeader>,
    /// From the sync point, which is the beginning of the session, to the last event.
    pub observed_ns: i64,
    /// It has events of collections or the runtime; without any, nothing is known of collections: there were none, or the
    /// session did not ask for them.
    pub has_gc_events: bool,
    /// A sentence when the recording is truncated.
    pub cut: Option<String>,
    /// The error that ended reading.
    pub error: Option<RecordingError>,
}

impl Recording {
    /// Reads a source to its end. `observer` is called with every event of the scope, in stream order.
    pub fn read(source: &mut Source, scope: Scope, mut observer: impl FnMut(&Observed<'_>)) -> Self {
        let mut stream = GcStream::new(scope, Settling::AtTheEnd);
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
            // The name of the process and a rundown are there whatever the session asked for.
            has_gc_events |= !matches!(
                observed.decoded,
                Err(_) | Ok(ClrEvent::ProcessInfo(_) | ClrEvent::RundownSettings(_) | ClrEvent::RuntimeDcStart(_))
            );
            // Clocks of another process may be others.
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
                "{} is cut short: it ends at byte {offset}, in {reading}; everything complete before that is reported",
                source.name()
            )),
            _ => source.cut().map(|error| {
                format!(
                    "{} is cut short ({error}); everything complete before that is reported",
                    source.name()
                )
            }),
        };
        let mut processes = histories(&mut stream);
        if let (true, Some(pid)) = (
            processes.is_empty(),
            header.as_ref().and_then(|header| header.process_id),
        ) {
            // A process without collections is reported too.
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
        if held.get() > MOST_HELD {
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
        // Records are large: their keys are sorted, and each record is moved once at most.
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
