//! Real collections, cut out of a recording, to be replayed with other times and numbers.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use clr_gc::gc::{Outcome, ReportTiming};
use clr_gc::stream::{GcStream, Scope};
use flate2::read::GzDecoder;
use nettrace::encode::{Encoder, EventRecord};
use nettrace::{Decoder, Format, Item, Metadata, Options, TraceHeader};

const PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";
const GC_START: u32 = 1;
const GC_END: u32 = 2;
const RESTART_END: u32 = 3;
const SUSPEND_BEGIN: u32 = 9;
const FINALIZERS_END: u32 = 13;
const FINALIZERS_BEGIN: u32 = 14;
const GC_TRIGGERED: u32 = 35;
/// Maximum time between a collection and the end of its finalizer run, in nanoseconds.
const LATEST: i64 = 20_000_000;

/// An event of a collection.
#[derive(Debug, Clone)]
struct Part {
    event_id: u32,
    metadata_id: u32,
    capture_thread: u64,
    thread: u64,
    /// Nanoseconds before the threads were resumed; negative for later events.
    before_end: i64,
    payload: Vec<u8>,
}

/// One blocking collection, from its request to the restart of the threads, with its finalizer run.
#[derive(Debug, Clone)]
struct Unit {
    parts: Vec<Part>,
    /// Time in the recording at which the threads were resumed.
    end: i64,
}

/// An event with its place in a new stream, before it has a number.
#[derive(Debug, Clone)]
pub(crate) struct TimedEvent {
    pub(crate) metadata_id: u32,
    pub(crate) capture_thread: u64,
    pub(crate) thread: u64,
    /// Time in ticks.
    pub(crate) at: i64,
    pub(crate) payload: Vec<u8>,
}

/// The collections of a recording that can be replayed separately, with the definitions of their events.
#[derive(Debug)]
pub(crate) struct Template {
    header: TraceHeader,
    definitions: Vec<Metadata>,
    units: Vec<Unit>,
}

impl Template {
    /// Reads a recording and keeps the collections that gcwatch reconstructs completely if they are replayed
    /// separately.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let packed = std::fs::read(path).with_context(|| format!("cannot read the recording {}", path.display()))?;
        let mut bytes = Vec::new();
        if packed.starts_with(&[0x1f, 0x8b]) {
            GzDecoder::new(&packed[..]).read_to_end(&mut bytes)?;
        } else {
            bytes = packed;
        }
        let mut decoder = Decoder::new(Options {
            interest: Box::new(|metadata| (metadata.provider == PROVIDER).then_some(metadata.event_id)),
            ..Options::default()
        });
        decoder.push(&bytes);
        decoder.finish();
        let mut header = None;
        let mut definitions: Vec<Metadata> = Vec::new();
        let mut trigger: Option<Part> = None;
        // The thread that suspends the other threads, and the events since the start of the suspension.
        let mut open: Option<(u64, Vec<Part>)> = None;
        let mut units: Vec<Unit> = Vec::new();
        while let Some(item) = decoder.next_item()? {
            let event = match item {
                Item::Header(read) => {
                    header = Some(read.clone());
                    continue;
                }
                Item::Event(event) => event,
                _ => continue,
            };
            if !definitions.iter().any(|known| known.id == event.metadata.id) {
                definitions.push(event.metadata.clone());
            }
            let part = Part {
                event_id: event.tag,
                metadata_id: event.metadata.id,
                capture_thread: event.capture_thread,
                thread: event.thread,
                before_end: event.timestamp,
                payload: event.payload.to_vec(),
            };
            match part.event_id {
                // Without the finalizer run, finalizers would seem to hang. The finalizer run often starts or ends
                // after the threads were resumed.
                FINALIZERS_BEGIN | FINALIZERS_END if open.is_none() => {
                    if let Some(unit) = units.last_mut() {
                        unit.parts.push(Part {
                            before_end: (unit.end - part.before_end).max(-LATEST),
                            ..part
                        });
                    }
                }
                GC_TRIGGERED if open.is_none() => trigger = Some(part),
                SUSPEND_BEGIN if open.is_none() => {
                    let thread = part.thread;
                    open = Some((thread, trigger.take().into_iter().chain([part]).collect()));
                }
                id => {
                    let Some((thread, parts)) = &mut open else { continue };
                    let closes = id == RESTART_END && *thread == part.thread;
                    let end = part.before_end;
                    parts.push(part);
                    if closes && let Some((_, mut parts)) = open.take() {
                        for part in &mut parts {
                            part.before_end = end - part.before_end;
                        }
                        units.push(Unit { parts, end });
                    }
                }
            }
        }
        let header = header.context("the recording has no header")?;
        if header.format != Format::V4 || header.frequency != 1_000_000_000 {
            bail!("{}: a recording of format 4 with nanoseconds is needed", path.display());
        }
        let mut template = Self {
            header,
            definitions,
            units: Vec::new(),
        };
        for unit in units {
            template.units.push(unit);
            if !template.last_is_whole()? {
                template.units.pop();
            }
        }
        if template.units.is_empty() {
            bail!("{}: no blocking collection in it is complete by itself", path.display());
        }
        Ok(template)
    }

    /// Returns the number of different collections.
    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }

    /// Returns the header of a new stream of this process: `sync_ticks` (CLOCK_MONOTONIC) is the instant `system_time`.
    pub(crate) fn header(&self, pid: u32, sync_ticks: i64, system_time: nettrace::SystemTime) -> TraceHeader {
        TraceHeader {
            process_id: Some(pid),
            sync_ticks,
            system_time,
            ..self.header.clone()
        }
    }

    /// Returns the definitions that the events refer to.
    pub(crate) fn definitions(&self) -> &[Metadata] {
        &self.definitions
    }

    /// Returns the collection with the given number, which ends at `end` ticks and takes at most `longest` nanoseconds.
    pub(crate) fn collection(&self, number: u32, end: i64, longest: i64) -> Vec<TimedEvent> {
        let index = number as usize % self.units.len();
        let Some(unit) = self.units.get(index) else {
            return Vec::new();
        };
        let length = unit.parts.first().map_or(0, |first| first.before_end).max(1);
        let shorten = |before: i64| {
            if length <= longest {
                before
            } else {
                (i128::from(before) * i128::from(longest) / i128::from(length)) as i64
            }
        };
        let events = unit.parts.iter().map(|part| {
            let mut payload = part.payload.clone();
            // Count is the first field of GCStart and GCEnd. The second field of SuspendEEBegin is the number of the
            // previous collection.
            match part.event_id {
                GC_START | GC_END => put(&mut payload, 0, number),
                SUSPEND_BEGIN => put(&mut payload, 4, number.wrapping_sub(1)),
                _ => {}
            }
            TimedEvent {
                metadata_id: part.metadata_id,
                capture_thread: part.capture_thread,
                thread: part.thread,
                at: end - shorten(part.before_end),
                payload,
            }
        });
        events.collect()
    }

    fn last_is_whole(&self) -> anyhow::Result<bool> {
        let header = self.header(1, 0, self.header.system_time);
        let mut encoder = Encoder::new(Format::V4, &header)?;
        for definition in &self.definitions {
            encoder.metadata(definition)?;
        }
        let mut numbers = std::collections::HashMap::<u64, u32>::new();
        // A number that selects the last unit.
        let number = (self.units.len() * 2 - 1) as u32;
        for event in self.collection(number, 1_000_000_000_000, i64::MAX) {
            let sequence = numbers.entry(event.capture_thread).or_default();
            *sequence += 1;
            encoder.event(&event.record(*sequence, true))?;
        }
        let bytes = encoder.finish()?;
        let mut stream = GcStream::new(Scope::Collections, ReportTiming::AtTheEnd);
        stream.space(bytes.len())[..bytes.len()].copy_from_slice(&bytes);
        stream.filled(bytes.len());
        stream.finish();
        stream.advance(|_| ())?;
        stream.end();
        let outcomes: Vec<_> = std::iter::from_fn(|| stream.next_outcome())
            .map(|(_, outcome)| outcome)
            .collect();
        Ok(match outcomes.as_slice() {
            [Outcome::Collection(gc)] => {
                gc.missing.is_empty() && !gc.lossy && gc.number == number && gc.pauses.len() == 1
            }
            _ => false,
        })
    }
}

impl TimedEvent {
    /// Returns the event with its number among the events of its capture thread.
    pub(crate) fn record(&self, sequence: u32, is_sorted: bool) -> EventRecord<'_> {
        EventRecord {
            metadata_id: self.metadata_id,
            sequence,
            capture_thread: self.capture_thread,
            thread: self.thread,
            timestamp: self.at,
            is_sorted,
            payload: &self.payload,
            ..EventRecord::default()
        }
    }
}

fn put(payload: &mut [u8], at: usize, number: u32) {
    if let Some(place) = payload.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}
