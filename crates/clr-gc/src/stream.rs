//! Reconstruction of the collections of every process from the bytes of a stream.
//!
//! ```text
//! bytes -> nettrace::Decoder -> event::decode -> gc::Machine, one per process and runtime -> outcomes
//! ```
//!
//! A [`GcStream`] owns the decoder and the machines. Feed a stream with [`GcStream::space`] and [`GcStream::filled`],
//! run the stream with [`GcStream::advance`], and take results with [`GcStream::next_outcome`]. A stream performs no
//! I/O and reads no clock.

mod process;
mod scope;

pub use process::{MAX_PROCESSES, Process, ProcessKey};
pub use scope::Scope;

use nettrace::keep::Keeper;
use nettrace::limits::Limits;
use nettrace::{Decoder, Event, Gap, Item, Options, TraceHeader};

use crate::event::{ClrEvent, Layout, PayloadError, decode};
use crate::gc::{LossIntervals, OpenOperations, Outcome, ReportTiming};
use process::{is_core_clr, process_of};

/// Progress of [`GcStream::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvanceOutcome {
    /// All available bytes are decoded.
    Drained,
    /// Too many outcomes are waiting. Take the outcomes before decoding the remaining bytes.
    Paused,
}

/// Reason why the fields of an event are not available.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UndecodedReason {
    /// The layout is unknown.
    Unknown,
    /// The payload is too short for the layout.
    Payload(PayloadError),
}

/// Limits on the memory of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Limits of the decoder.
    pub decoder: Limits,
    /// Maximum number of processes whose collections are reconstructed, at most [`MAX_PROCESSES`]. Each runtime of a
    /// process counts separately. Events of further processes are only passed to the observer.
    pub max_processes: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            decoder: Limits::for_files(),
            max_processes: MAX_PROCESSES,
        }
    }
}

impl StreamLimits {
    /// Returns limits for one of hundreds of streams, each of a single process with one runtime. Up to four runtimes
    /// are tracked, because events without the number of their runtime are assigned to an additional runtime.
    pub const fn one_live_process() -> Self {
        Self {
            decoder: Limits::for_one_live_process(),
            max_processes: 4,
        }
    }
}

/// An event, as passed to the observer of [`GcStream::advance`].
#[derive(Debug)]
pub struct Observed<'a> {
    /// The header of the stream.
    pub header: &'a TraceHeader,
    /// The event as received.
    pub event: &'a Event<'a>,
    /// Layout of the event; `None` if unknown.
    pub layout: Option<Layout>,
    /// Fields of the event, or the reason why the fields are not available.
    pub decoded: Result<ClrEvent<'a>, UndecodedReason>,
    /// Time of the event, in nanoseconds since the sync point.
    pub at: i64,
    /// Number of the collection that the event belongs to; `None` if the event belongs to no collection, or if later
    /// events are needed to identify the collection.
    pub collection: Option<u32>,
}

/// A stream that reconstructs collections while its bytes arrive.
#[derive(Debug)]
pub struct GcStream {
    decoder: Decoder,
    settling: ReportTiming,
    max_processes: usize,
    processes: Vec<Process>,
    losses: LossIntervals,
    undecodable: u64,
    runtime: Option<String>,
    header: Option<TraceHeader>,
}

impl GcStream {
    /// Creates an empty stream with the limits for files. `scope` selects the events, and `settling` selects when
    /// finished collections are reported.
    pub fn new(scope: Scope, settling: ReportTiming) -> Self {
        Self::with_limits(scope, settling, StreamLimits::default())
    }

    /// Creates an empty stream with the given limits.
    pub fn with_limits(scope: Scope, settling: ReportTiming, limits: StreamLimits) -> Self {
        Self::made(scope, settling, limits, false)
    }

    /// Like [`with_limits`](Self::with_limits), but keeps the stacks of events.
    /// [`Event::stack`](nettrace::Event::stack) is set if the stream contains the stack.
    pub fn with_stacks(scope: Scope, settling: ReportTiming, limits: StreamLimits) -> Self {
        Self::made(scope, settling, limits, true)
    }

    fn made(scope: Scope, settling: ReportTiming, limits: StreamLimits, stacks: bool) -> Self {
        let options = Options {
            interest: Box::new(move |metadata| scope.tag(metadata)),
            limits: limits.decoder,
            stacks,
            ..Options::default()
        };
        Self {
            decoder: Decoder::new(options),
            settling,
            max_processes: limits.max_processes.min(MAX_PROCESSES),
            processes: Vec::new(),
            losses: LossIntervals::default(),
            undecodable: 0,
            runtime: None,
            header: None,
        }
    }

    /// Passes the blocks of the stream to a keeper; see [`Decoder::keep`].
    pub fn keep(&mut self, keeper: Box<dyn Keeper>) {
        self.decoder.keep(keeper);
    }

    /// Returns a buffer for at least `min` more bytes of the stream. Call [`GcStream::filled`] after writing to the
    /// buffer.
    pub fn space(&mut self, min: usize) -> &mut [u8] {
        self.decoder.space(min)
    }

    /// Commits the first `n` bytes of the last buffer from [`GcStream::space`].
    pub fn filled(&mut self, n: usize) {
        self.decoder.filled(n);
    }

    /// Appends a copy of the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    /// Releases unused memory. This method is for streams that are idle most of the time. Call the method after
    /// [`GcStream::advance`].
    pub fn shrink(&mut self) {
        self.decoder.shrink();
    }

    /// Releases the events that wait for their order, because a live stream is idle; see [`Decoder::flush`]. The next
    /// [`GcStream::advance`] processes these events.
    pub fn flush(&mut self) {
        self.decoder.flush();
    }

    /// Records that a live stream has been silent for `silent_ns`, so that outcomes that have waited long enough can
    /// be reported. Call [`GcStream::flush`] and [`GcStream::advance`] first, and take the outcomes afterwards.
    pub fn quiet(&mut self, silent_ns: i64) {
        for process in &mut self.processes {
            process.machine.quiet(silent_ns);
        }
    }

    /// Returns whether any outcome would be reported after a longer silence.
    pub fn is_waiting(&self) -> bool {
        self.processes.iter().any(|process| process.machine.is_waiting())
    }

    /// Returns the operations that have started but not ended in any of the processes.
    pub fn open(&self) -> OpenOperations {
        let each = self.processes.iter().map(|process| process.machine.open());
        each.fold(OpenOperations::default(), OpenOperations::or)
    }

    /// Marks the end of the bytes. Call [`GcStream::advance`] once more, then [`GcStream::end`].
    pub fn finish(&mut self) {
        self.decoder.finish();
    }

    /// Marks the end of the events. The machines then report incomplete collections.
    pub fn end(&mut self) {
        for process in &mut self.processes {
            process.machine.finish();
        }
    }

    /// Decodes the available bytes and passes every event of the scope to `observer`.
    ///
    /// If more than [`MAX_SETTLED`](crate::gc::MAX_SETTLED) finished collections and suspensions of a live stream wait
    /// to be reported, the method returns [`AdvanceOutcome::Paused`]. In this case, take the outcomes and call the
    /// method again before adding more bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a valid stream, are damaged, or exceed a limit of the decoder. Outcomes
    /// that precede the damage are reported.
    pub fn advance(&mut self, mut observer: impl FnMut(&Observed<'_>)) -> Result<AdvanceOutcome, nettrace::Error> {
        loop {
            if self.processes.iter().any(|process| process.machine.overflows()) {
                return Ok(AdvanceOutcome::Paused);
            }
            let Some(item) = self.decoder.next_item()? else {
                return Ok(AdvanceOutcome::Drained);
            };
            match item {
                Item::Header(header) => self.header = Some(header.clone()),
                Item::Event(event) => {
                    let Some(header) = &self.header else { continue };
                    let at = header.offset_ns(event.timestamp);
                    let layout = Layout::from_tag(event.tag);
                    let decoded = layout.ok_or(UndecodedReason::Unknown).and_then(|layout| {
                        decode(layout, event.payload, header.pointer_size).map_err(UndecodedReason::Payload)
                    });
                    let collection = match &decoded {
                        Ok(clr) => {
                            if let ClrEvent::RuntimeStart(start) | ClrEvent::RuntimeDcStart(start) = clr {
                                self.runtime = self.runtime.take().or_else(|| start.version());
                            }
                            let pid = event.process.or(header.process_id.map(u64::from));
                            if let ClrEvent::ProcessInfo(_) = clr {
                                // The event does not name a runtime, so it applies to all runtimes of the process.
                                let of_process = self.processes.iter_mut().filter(|process| process.key.pid == pid);
                                of_process.for_each(|process| process.machine.session_ended(event.thread));
                            }
                            let known = (&mut self.processes, self.max_processes);
                            let new = (self.settling, &self.losses, is_core_clr(header));
                            match process_of(known, pid, clr, new) {
                                Some(process) => process.machine.observe(at, event.thread, clr),
                                None => None,
                            }
                        }
                        Err(UndecodedReason::Unknown) => None,
                        Err(UndecodedReason::Payload(_)) => {
                            self.undecodable += 1;
                            None
                        }
                    };
                    observer(&Observed {
                        header,
                        event: &event,
                        layout,
                        decoded,
                        at,
                        collection,
                    });
                }
                Item::Gap(Gap { after, before, .. }) => {
                    let Some(header) = &self.header else { continue };
                    let after = after.map(|ticks| header.offset_ns(ticks));
                    let before = header.offset_ns(before);
                    for process in &mut self.processes {
                        process.machine.lost(after, before);
                    }
                    self.losses.add(after, before);
                }
                // Sequence points contain no information beyond the reported gaps.
                _ => {}
            }
        }
    }

    /// Returns the number of heap bytes in use, for owners that limit the memory. See [`nettrace::limits`] and the
    /// [memory](crate#memory) section of this crate. The method takes as long as the processing of one or two
    /// collections, so it can be called after each [`GcStream::advance`].
    pub fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes() + self.losses.memory_bytes() + self.machines_bytes()
    }

    /// Returns the name of the largest store in [`GcStream::memory_bytes`] and its size, in bytes. The name is a noun
    /// phrase for messages.
    pub fn largest_store(&self) -> (&'static str, usize) {
        let machines = ("collections in progress or waiting", self.machines_bytes());
        let stores = self.decoder.memory().into_iter().chain([machines]);
        stores.max_by_key(|(_, bytes)| *bytes).unwrap_or(machines)
    }

    fn machines_bytes(&self) -> usize {
        let machines = self.processes.iter().map(|process| process.machine.memory_bytes());
        self.processes.capacity() * size_of::<Process>() + machines.sum::<usize>()
    }

    /// Returns the next collection or suspension that is ready, with its process, or `None` if no outcome is ready.
    pub fn next_outcome(&mut self) -> Option<(ProcessKey, Outcome)> {
        self.processes
            .iter_mut()
            .find_map(|process| Some((process.key, process.machine.next_outcome()?)))
    }

    /// Returns whether events are known to be missing between two times, in nanoseconds since the sync point.
    pub fn is_lossy(&self, from: i64, to: i64) -> bool {
        self.losses.overlap(from, to)
    }

    /// Returns the processes whose collections are reconstructed, one entry per runtime, in the order of their first
    /// event.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Returns the header of the stream, or `None` if the header has not been read yet.
    pub fn header(&self) -> Option<&TraceHeader> {
        self.decoder.header()
    }

    /// Returns the decoder, which contains the event counts and the ending of the stream.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Returns the version of the runtime, for example `10.0.14`, or `None` if the stream has not stated the version.
    /// The runtime states its version when it starts and in the rundown. In a stream of several runtimes, the first
    /// stated version counts.
    pub fn runtime(&self) -> Option<&str> {
        self.runtime.as_deref()
    }

    /// Returns the number of events of known kinds whose payload was too short.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }
}
