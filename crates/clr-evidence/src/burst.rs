//! Analyzes the event stream of a burst.
//!
//! The session must collect stacks, and its rundown must contain modules and methods (keyword 0x38), which name the
//! frames. The other settings depend on the result:
//!
//! | Result | Provider, keyword and level |
//! |---|---|
//! | [`Burst::callers`] | `Microsoft-Windows-DotNETRuntime`, 0x1, 4 (informational) |
//! | [`Burst::allocations`], .NET 10 and later | `Microsoft-Windows-DotNETRuntime`, 0x80000000000, 4 |
//! | [`Burst::allocations`], older runtimes | `Microsoft-Windows-DotNETRuntime`, 0x1, 5 (verbose) |
//! | [`Burst::threads`] | [`SAMPLE_PROVIDER`]; rundown keyword [`THREADING`](crate::threads::THREADING) for the finalizer thread |
//!
//! ```
//! use clr_evidence::burst::{Burst, Origin};
//!
//! /// Returns the bytes that the program allocated during a recording.
//! fn allocated(recording: &[u8]) -> Result<u64, nettrace::Error> {
//!     let mut burst = Burst::new(Origin::File);
//!     burst.push(recording)?;
//!     burst.finish()?;
//!     Ok(burst.allocations().total.estimate)
//! }
//! # assert!(allocated(b"not a recording").is_err());
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};

use clr_gc::event::{ClrEvent, RUNTIME_PROVIDER};
use clr_gc::gc::{LIVE_SETTLE_NS, ReportTiming};
use clr_gc::stream::{AdvanceOutcome, GcStream, Observed, Scope, StreamLimits};
use nettrace::limits::Limits;
use nettrace::{Ending, TraceHeader};

use crate::allocations::{Allocations, Samples, allocated};
use crate::budget::{BURST_BYTES, Budget};
pub use crate::burst_facts::{BurstFacts, Window};
use crate::callers::{Callers, Triggers};
use crate::method::{METHOD_DC_END_VERBOSE, METHOD_LOAD_VERBOSE, Methods, RUNDOWN_PROVIDER};
use crate::module::{MODULE_DC_END, MODULE_LOAD, Modules, Owner, PROCESS_INFO_PROVIDER};
use crate::name::Frame;
use crate::pprof::SampleStack;
use crate::stacks::{StackId, Stacks};
use crate::threads::{SAMPLE_PROVIDER, THREAD_DC, ThreadStacks, Threads};

/// The origin of the bytes, which determines the memory limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A live session. The decoder is included in [`BURST_BYTES`].
    Live,
    /// A file, which can have any length. The decoder has separate limits.
    File,
}

/// The analysis of one burst. In a recording of a whole machine, only the process of the first event is analyzed; see
/// [`BurstFacts::other_processes`].
#[derive(Debug)]
pub struct Burst {
    stream: GcStream,
    origin: Origin,
    state: BurstState,
    /// Frames at the addresses of all stacks. Available after [`Burst::finish`].
    frames: HashMap<u64, Frame>,
}

#[derive(Debug, Default)]
struct BurstState {
    window: Window,
    triggers: Triggers,
    samples: Samples,
    threads: Threads,
    stacks: Stacks,
    methods: Methods,
    modules: Modules,
    budget: Budget,
    /// Whether the burst is closed: further events do not count, and only names are read.
    is_closed: bool,
    /// Maximum number of samples that count; `None` if unlimited.
    most_samples: Option<u64>,
    /// Process of the first event; `None` before the first event, and `Some(None)` if the stream does not report
    /// processes.
    process: Option<Option<u64>>,
    other_processes: u64,
    first: Option<i64>,
    last: Option<i64>,
    rundown: Option<(i64, i64)>,
    pinned_objects: Option<u32>,
    sync: i64,
}

impl Burst {
    /// Creates an analysis.
    pub fn new(origin: Origin) -> Self {
        let (settling, limits) = match origin {
            Origin::File => (
                ReportTiming::AtTheEnd,
                StreamLimits {
                    decoder: Limits {
                        // A file is read as fast as possible. Only few events wait, even if the file covers a whole
                        // machine.
                        max_pending_bytes: 4 << 20,
                        max_stack_bytes: 8 << 20,
                        ..Limits::for_files()
                    },
                    ..StreamLimits::default()
                },
            ),
            Origin::Live => (
                ReportTiming::After(LIVE_SETTLE_NS),
                StreamLimits {
                    decoder: Limits {
                        // This limit holds the bytes that 2,500 collections per second write in 0.2 s, with their
                        // stacks and marks, because the runtime scans its buffers less often on a loaded host. Above
                        // the limit, events are out of order.
                        max_pending_bytes: 1536 << 10,
                        // This limit holds the stacks of several thousand events between two sequence points.
                        max_stack_bytes: 2 << 20,
                        ..Limits::for_one_live_process()
                    },
                    ..StreamLimits::one_live_process()
                },
            ),
        };
        Self {
            stream: GcStream::with_stacks(Scope::Everything, settling, limits),
            origin,
            state: BurstState::default(),
            frames: HashMap::new(),
        }
    }

    /// Sets the maximum number of allocation samples that count. Samples after this number are ignored, and the burst
    /// ends with the last counted sample. Call this method before [`Burst::push`].
    pub fn set_most_samples(&mut self, samples: u64) {
        self.state.most_samples = Some(samples);
    }

    /// Closes the analysis after a stop of the session was requested. Later events do not count, except names, because
    /// the process can write any number of events with any timestamps after the request.
    pub fn close(&mut self) {
        self.state.is_closed = true;
    }

    /// Ignores events before the time `at`, in nanoseconds of the stream's clock. Call this method before
    /// [`Burst::push`].
    pub fn set_start(&mut self, at: i64) {
        self.state.window.start = Some(at);
    }

    /// Ignores events after the time `at`, in nanoseconds of the stream's clock. The earliest of several ends applies.
    /// Events that have already been processed still count.
    pub fn set_end(&mut self, at: i64) {
        let end = &mut self.state.window.end;
        *end = Some(end.map_or(at, |known| known.min(at)));
    }

    /// Consumes the next bytes of the stream.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a valid stream, if the bytes exceed a limit of the decoder, or if the
    /// decoder of a live session needs more than [`BURST_BYTES`]. The events before the error can be reported.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), nettrace::Error> {
        self.stream.push(bytes);
        self.run()?;
        if self.origin == Origin::Live {
            let holds = self.stream.memory_bytes();
            self.state.budget.set_decoder(holds);
            if holds > BURST_BYTES {
                return Err(nettrace::Error::LimitExceeded {
                    offset: self.stream.decoder().stats().bytes,
                    reading: "the memory of the decoder",
                    value: holds as u64,
                    limit: BURST_BYTES as u64,
                });
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), nettrace::Error> {
        let Self { stream, state, .. } = self;
        loop {
            let advanced = stream.advance(|observed| state.observe(observed))?;
            while let Some((_, outcome)) = stream.next_outcome() {
                let (sync, window) = (state.sync, state.window);
                state.triggers.outcome(&outcome, sync, window, &mut state.budget);
            }
            if advanced == AdvanceOutcome::Drained {
                return Ok(());
            }
        }
    }

    /// Returns the number of allocation samples so far, including ticks of older runtimes.
    pub fn samples(&self) -> u64 {
        self.state.samples.count()
    }

    /// Returns the number of pinned objects in the newest collection, or `None` if no collection has reported the
    /// number.
    pub fn pinned_objects(&self) -> Option<u32> {
        self.state.pinned_objects
    }

    /// Finishes reading. Call this method at the end of the stream, or to stop early.
    ///
    /// # Errors
    /// Returns an error if the last bytes are damaged. The events before the error can be reported.
    pub fn finish(&mut self) -> Result<(), nettrace::Error> {
        self.stream.finish();
        let run = self.run();
        self.stream.end();
        while let Some((_, outcome)) = self.stream.next_outcome() {
            let state = &mut self.state;
            let (sync, window) = (state.sync, state.window);
            state.triggers.outcome(&outcome, sync, window, &mut state.budget);
        }
        self.state.modules.decide();
        self.name_frames();
        run
    }

    /// Creates one frame per method, regardless of the number of its addresses and stacks.
    fn name_frames(&mut self) {
        let state = &self.state;
        let mut of_method: HashMap<u64, Frame> = HashMap::new();
        for address in state.stacks.all() {
            self.frames
                .entry(address)
                .or_insert_with(|| match state.methods.at(address) {
                    Some(method) => {
                        let module = state.modules.owner(method.module);
                        let made = || Frame::in_module(&method.namespace, &method.name, module);
                        of_method.entry(method.address).or_insert_with(made).clone()
                    }
                    None => Frame::unknown(address),
                });
        }
    }

    /// Returns the triggers of collections. Call this method after [`Burst::finish`].
    pub fn callers(&self) -> Callers {
        self.state.triggers.report(|stack| self.frames(stack), self.window())
    }

    /// Returns the allocations. Call this method after [`Burst::finish`].
    pub fn allocations(&self) -> Allocations {
        self.state.samples.report(|stack| self.frames(stack))
    }

    /// Returns the activity of every managed thread. Call this method after [`Burst::finish`].
    pub fn threads(&self) -> ThreadStacks {
        self.state.threads.report(|stack| self.frames(stack))
    }

    /// Returns the stacks of the allocation samples, for a profile in [`pprof`](crate::pprof) format. Call this method
    /// after [`Burst::finish`].
    pub fn stacked(&self) -> Vec<SampleStack<'_>> {
        let addresses = |stack: Option<StackId>| stack.map(|stack| self.state.stacks.frames(stack)).unwrap_or_default();
        let groups = self.state.samples.by_stack();
        groups
            .map(|(stack, type_name, sum)| SampleStack {
                frames: addresses(stack).iter().copied().zip(self.frames(stack)).collect(),
                type_name: allocated(type_name, &self.frames(stack)).map(|names| names.raw),
                samples: sum.samples,
                bytes: sum.bytes,
            })
            .collect()
    }

    fn frames(&self, stack: Option<StackId>) -> Vec<&Frame> {
        let Some(stack) = stack else { return Vec::new() };
        let addresses = self.state.stacks.frames(stack).iter();
        addresses.filter_map(|address| self.frames.get(address)).collect()
    }

    fn window(&self) -> Window {
        let header = self.stream.header().map(ticks_ns);
        Window {
            start: self.state.window.start.or(header),
            end: self.state.window.end.or(self.state.last),
        }
    }

    /// Returns the facts of the stream. Call this method after [`Burst::finish`].
    pub fn facts(&self) -> BurstFacts {
        let decoder = self.stream.decoder();
        let stats = decoder.stats();
        let methods = &self.state.methods;
        BurstFacts {
            window: self.window(),
            lost_events: stats.lost,
            bytes: stats.bytes,
            methods: methods.seen(),
            unknown_frames: self.frames.values().filter(|frame| frame.is_unknown()).count() as u64,
            stacks_dropped: self.state.stacks.without_place(),
            other_processes: self.state.other_processes,
            clean_end: decoder.ending() == Some(Ending::Clean),
            rundown_ns: self.state.rundown.map(|(first, last)| last.saturating_sub(first)),
        }
    }

    /// Returns the weight of each stack, outermost frame first, for folded stacks and flame graphs. The last name in a
    /// stack is the called method or, for allocations, the allocated type. The unit is nanoseconds for stopped time and
    /// bytes for allocations. Call this method after [`Burst::finish`].
    pub fn weighted_stacks(&self, of: Weight) -> BTreeMap<Vec<&str>, u64> {
        let mut weighted: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
        match of {
            Weight::Allocated => {
                for (stack, type_name, sum) in self.state.samples.by_stack() {
                    let frames = self.frames(stack);
                    let names = allocated(type_name, &frames);
                    let mut frames: Vec<&str> = frames.into_iter().rev().map(|frame| &*frame.name).collect();
                    frames.push(names.map_or("[unknown type]", |names| names.shown));
                    *weighted.entry(frames).or_default() += sum.bytes.round() as u64;
                }
            }
            Weight::Stopped => {
                for (frames, called, stopped_ns) in self.state.triggers.by_stack(|stack| self.frames(stack)) {
                    let mut frames: Vec<&str> = frames.into_iter().rev().map(|frame| &*frame.name).collect();
                    frames.push(called);
                    *weighted.entry(frames).or_default() += stopped_ns;
                }
            }
        }
        weighted
    }

    /// Returns the names in [`Self::weighted_stacks`] that belong to the framework. Call this method after
    /// [`Burst::finish`].
    pub fn framework(&self) -> BTreeSet<&str> {
        let frames = self.frames.values();
        let framework = frames.filter(|frame| frame.owner == Some(Owner::Framework));
        framework.map(|frame| &*frame.name).collect()
    }
}

/// The weight of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Estimated bytes.
    Allocated,
    /// Time for which the process was stopped, in nanoseconds.
    Stopped,
}

/// Returns the start of the stream, in nanoseconds of its clock.
fn ticks_ns(header: &TraceHeader) -> i64 {
    // The offset of tick 0 is the negative start.
    header.offset_ns(0).saturating_neg()
}

impl BurstState {
    /// Sets the end of the burst to `at`, the time of the last sample that counts, once the maximum number of samples
    /// is reached. No sample represents later allocations.
    fn end_with_the_last_sample(&mut self, at: i64) {
        if self.most_samples.is_some_and(|most| self.samples.count() >= most) {
            self.window.end = Some(self.window.end.map_or(at, |end| end.min(at)));
        }
    }

    fn observe(&mut self, observed: &Observed<'_>) {
        let event = observed.event;
        let process = *self.process.get_or_insert(event.process);
        if process != event.process {
            self.other_processes += 1;
            return;
        }
        self.sync = ticks_ns(observed.header);
        let at = self.sync.saturating_add(observed.at);
        let metadata = event.metadata;
        if metadata.provider == RUNDOWN_PROVIDER {
            let (first, _) = self.rundown.unwrap_or((at, at));
            self.rundown = Some((first, at));
            if matches!(metadata.event_id, METHOD_DC_END_VERBOSE | METHOD_LOAD_VERBOSE) {
                self.methods
                    .observe(event.payload, Some(self.stacks.addresses()), &mut self.budget);
            } else if metadata.event_id == MODULE_DC_END {
                self.modules.observe(event.payload, &mut self.budget);
            } else if metadata.event_id == THREAD_DC {
                self.threads.lives(event.payload, &mut self.budget);
            }
            return;
        }
        if metadata.provider == PROCESS_INFO_PROVIDER {
            self.modules.observe_process(event.payload);
            return;
        }
        if metadata.provider == SAMPLE_PROVIDER {
            if !self.is_closed && self.window.contains(at) {
                let stack = self.intern(observed);
                self.threads
                    .sampled(event.thread, stack, event.payload, &mut self.budget);
            }
            return;
        }
        if metadata.provider != RUNTIME_PROVIDER {
            return;
        }
        self.first.get_or_insert(at);
        self.last = Some(self.last.map_or(at, |last| last.max(at)));
        if metadata.event_id == METHOD_LOAD_VERBOSE {
            self.methods.observe(event.payload, None, &mut self.budget);
            return;
        }
        if metadata.event_id == MODULE_LOAD {
            self.modules.observe(event.payload, &mut self.budget);
            return;
        }
        let Ok(clr) = &observed.decoded else { return };
        let counts = !self.is_closed && self.window.contains(at);
        let samples = counts && self.most_samples.is_none_or(|most| self.samples.count() < most);
        match clr {
            ClrEvent::AllocationSampled(sampled) if samples => {
                let stack = self.intern(observed);
                let type_name = sampled.type_name.to_text();
                self.samples
                    .sampled(&type_name, sampled.object_size, stack, &mut self.budget);
                self.end_with_the_last_sample(at);
            }
            ClrEvent::AllocationTick(tick) if samples => {
                let stack = self.intern(observed);
                let amount = tick.allocation_amount64.filter(|amount| *amount > 0);
                let amount = amount.unwrap_or(tick.allocation_amount.into());
                let type_name = tick.type_name.map(|name| name.to_text()).unwrap_or_default();
                self.samples.ticked(&type_name, amount, stack, &mut self.budget);
                self.end_with_the_last_sample(at);
            }
            ClrEvent::GcTriggered(_) => {
                let stack = counts.then(|| self.intern(observed)).flatten();
                self.triggers
                    .observe(clr, (event.thread, at), counts, stack, &mut self.budget);
            }
            ClrEvent::HeapStats(stats) => {
                self.pinned_objects = Some(stats.pinned_object_count);
            }
            _ => self
                .triggers
                .observe(clr, (event.thread, at), counts, None, &mut self.budget),
        }
    }

    fn intern(&mut self, observed: &Observed<'_>) -> Option<StackId> {
        self.stacks.intern(observed.event.stack?.frames(), &mut self.budget)
    }
}
