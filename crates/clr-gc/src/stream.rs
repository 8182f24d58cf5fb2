//! From the bytes of a stream to the collections of every process in it.
//!
//! ```text
//! bytes -> nettrace::Decoder -> event::decode -> gc::Machine, one per process and runtime -> outcomes
//! ```
//!
//! A [`GcStream`] owns the decoder and the machines. Feed it with [`GcStream::space`] and [`GcStream::filled`], run it
//! with [`GcStream::advance`], take what is ready with [`GcStream::next_outcome`]. Like its parts it has no I/O and no
//! clock.

mod process;
mod scope;

pub use process::{MAX_PROCESSES, Process, ProcessKey};
pub use scope::Scope;

use nettrace::keep::Keeper;
use nettrace::limits::Limits;
use nettrace::{Decoder, Event, Gap, Item, Options, TraceHeader};

use crate::event::{ClrEvent, Layout, PayloadError, decode};
use crate::gc::{LossIntervals, Open, Outcome, Settling};
use process::{is_core_clr, process_of};

/// How far [`GcStream::advance`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advanced {
    /// All that is there is decoded.
    Drained,
    /// Too many outcomes wait: there may be more to decode when they are taken.
    Paused,
}

/// Why an event has no fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undecoded {
    /// Its layout is not known.
    Unknown,
    /// Its payload is too short for its layout.
    Payload(PayloadError),
}

/// Limits on the memory of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Those of the decoder.
    pub decoder: Limits,
    /// Processes that are kept apart, at most [`MAX_PROCESSES`]. Events of more are counted, not decoded.
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
    /// For the stream of one process among hundreds: it names one process, and of that one runtime. Events of another
    /// version without the runtime's number count as another one.
    pub const fn one_live_process() -> Self {
        Self {
            decoder: Limits::for_one_live_process(),
            max_processes: 4,
        }
    }
}

/// An event as offered to the observer of [`GcStream::advance`].
#[derive(Debug)]
pub struct Observed<'a> {
    /// The stream's header.
    pub header: &'a TraceHeader,
    /// The event as it came.
    pub event: &'a Event<'a>,
    /// What it is, where that is known.
    pub layout: Option<Layout>,
    /// Its fields, or why there are none.
    pub decoded: Result<ClrEvent<'a>, Undecoded>,
    /// When, nanoseconds since the sync point.
    pub at: i64,
    /// The collection that it belongs to, as far as is known when it comes.
    pub collection: Option<u32>,
}

/// The collections of a stream, as its bytes come.
#[derive(Debug)]
pub struct GcStream {
    decoder: Decoder,
    settling: Settling,
    max_processes: usize,
    processes: Vec<Process>,
    losses: LossIntervals,
    undecodable: u64,
    runtime: Option<String>,
    header: Option<TraceHeader>,
}

impl GcStream {
    /// A stream of which nothing was read.
    pub fn new(scope: Scope, settling: Settling) -> Self {
        Self::with_limits(scope, settling, StreamLimits::default())
    }

    /// A stream with limits other than the default ones.
    pub fn with_limits(scope: Scope, settling: Settling, limits: StreamLimits) -> Self {
        Self::made(scope, settling, limits, false)
    }

    /// The same, with the stacks of events: [`Event::stack`](nettrace::Event::stack) is there where the stream has it.
    pub fn with_stacks(scope: Scope, settling: Settling, limits: StreamLimits) -> Self {
        Self::made(scope, settling, limits, true)
    }

    fn made(scope: Scope, settling: Settling, limits: StreamLimits, stacks: bool) -> Self {
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

    /// Gives the blocks of the stream to a keeper: see [`Decoder::keep`].
    pub fn keep(&mut self, keeper: Box<dyn Keeper>) {
        self.decoder.keep(keeper);
    }

    /// A place for at least `min` more bytes of the stream; then [`GcStream::filled`].
    pub fn space(&mut self, min: usize) -> &mut [u8] {
        self.decoder.space(min)
    }

    /// `n` bytes were put into the last [`GcStream::space`].
    pub fn filled(&mut self, n: usize) {
        self.decoder.filled(n);
    }

    /// The next bytes of the stream, copied.
    pub fn push(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    /// Releases unused memory: for one of many streams that are idle most of the time. Call it after
    /// [`GcStream::advance`].
    pub fn shrink(&mut self) {
        self.decoder.shrink();
    }

    /// A live stream is idle: what is queued may be delivered.
    pub fn flush(&mut self) {
        self.decoder.flush();
    }

    /// A live stream has been silent for `silent_ns`: what waited long enough may be reported. Call [`GcStream::flush`]
    /// and [`GcStream::advance`] before, take the outcomes after.
    pub fn quiet(&mut self, silent_ns: i64) {
        for process in &mut self.processes {
            process.machine.quiet(silent_ns);
        }
    }

    /// Whether something waits that would be reported after more silence.
    pub fn is_waiting(&self) -> bool {
        self.processes.iter().any(|process| process.machine.is_waiting())
    }

    /// What has begun and not ended in any of the processes.
    pub fn open(&self) -> Open {
        let each = self.processes.iter().map(|process| process.machine.open());
        each.fold(Open::default(), Open::or)
    }

    /// No more bytes will come. Call [`GcStream::advance`] once more, then [`GcStream::end`].
    pub fn finish(&mut self) {
        self.decoder.finish();
    }

    /// There are no more events: the machines report what is incomplete.
    pub fn end(&mut self) {
        for process in &mut self.processes {
            process.machine.finish();
        }
    }

    /// Decodes what is there; `observer` sees every event of the scope.
    ///
    /// A live stream that finishes more than [`MAX_SETTLED`](crate::gc::MAX_SETTLED) collections between two calls is
    /// [`Advanced::Paused`]: take the outcomes, and call again before more bytes are put in.
    ///
    /// # Errors
    ///
    /// When the bytes are not a stream, or damaged. What came before the damage is reported.
    pub fn advance(&mut self, mut observer: impl FnMut(&Observed<'_>)) -> Result<Advanced, nettrace::Error> {
        loop {
            if self.processes.iter().any(|process| process.machine.overflows()) {
                return Ok(Advanced::Paused);
            }
            let Some(item) = self.decoder.next_item()? else {
                return Ok(Advanced::Drained);
            };
            match item {
                Item::Header(header) => self.header = Some(header.clone()),
                Item::Event(event) => {
                    let Some(header) = &self.header else { continue };
                    let at = header.offset_ns(event.timestamp);
                    let layout = Layout::from_tag(event.tag);
                    let decoded = layout.ok_or(Undecoded::Unknown).and_then(|layout| {
                        decode(layout, event.payload, header.pointer_size).map_err(Undecoded::Payload)
                    });
                    let collection = match &decoded {
                        Ok(clr) => {
                            if let ClrEvent::RuntimeStart(start) | ClrEvent::RuntimeDcStart(start) = clr {
                                self.runtime = self.runtime.take().or_else(|| start.version());
                            }
                            let pid = event.process.or(header.process_id.map(u64::from));
                            if let ClrEvent::ProcessInfo(_) = clr {
                                // It does not say of which runtime it is.
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
                        Err(Undecoded::Unknown) => None,
                        Err(Undecoded::Payload(_)) => {
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
                // Sequence points bring nothing that gaps did not show.
                _ => {}
            }
        }
    }

    /// Bytes on the heap that it holds now, for an owner that limits them: see [`nettrace::limits`] and the
    /// [memory](crate#memory) of this crate. It costs as much as a collection or two; call it after each
    /// [`GcStream::advance`].
    pub fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes() + self.losses.memory_bytes() + self.machines_bytes()
    }

    /// The store that holds most of [`GcStream::memory_bytes`], named as in a sentence, and how much.
    pub fn largest_store(&self) -> (&'static str, usize) {
        let machines = ("collections that form or wait", self.machines_bytes());
        let stores = self.decoder.memory().into_iter().chain([machines]);
        stores.max_by_key(|(_, bytes)| *bytes).unwrap_or(machines)
    }

    fn machines_bytes(&self) -> usize {
        let machines = self.processes.iter().map(|process| process.machine.memory_bytes());
        self.processes.capacity() * size_of::<Process>() + machines.sum::<usize>()
    }

    /// The next collection or suspension that is ready.
    pub fn next_outcome(&mut self) -> Option<(ProcessKey, Outcome)> {
        self.processes
            .iter_mut()
            .find_map(|process| Some((process.key, process.machine.next_outcome()?)))
    }

    /// Whether events are known to be missing between two instants.
    pub fn is_lossy(&self, from: i64, to: i64) -> bool {
        self.losses.overlap(from, to)
    }

    /// The processes seen so far.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The stream's header; `None` before it was read.
    pub fn header(&self) -> Option<&TraceHeader> {
        self.decoder.header()
    }

    /// The decoder: its counts, and how the stream ended.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Version of the runtime, when the stream has it (rundown).
    pub fn runtime(&self) -> Option<&str> {
        self.runtime.as_deref()
    }

    /// Events of known kinds whose payload was too short.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }
}
