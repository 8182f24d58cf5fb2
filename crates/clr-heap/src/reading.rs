//! Reads the bytes of a stream and returns a dump.
//!
//! # Selection of the collection
//!
//! The dump is the first walk of the heap in a blocking collection of generation 2, whatever its reason. Usually, the
//! session has requested this collection (reason 1). The runtime walks the heap at the end of every blocking
//! collection while a session waits for its collection. If a full collection of the program is running at that time,
//! because memory is short or the program called `GC.Collect`, the runtime starts no collection for the session
//! (`GarbageCollectGeneration` in `gc.cpp`), and the walk of the running collection is the only one.
//!
//! One thread writes the bulk events and the end of the collection. With server GC, another thread writes the start,
//! and the start can come later in the stream. A dump therefore consists of the events of one thread up to an end. The
//! start with the same number shows the generation. A walk after a collection of a younger generation contains dead
//! objects: before the dump it is discarded, and every walk after the dump is skipped.
//!
//! # Completeness
//!
//! The runtime drops events that do not fit into its buffer. No single condition detects every loss, so a dump is
//! complete only if all conditions hold:
//!
//! * The start and the end of the collection exist.
//! * The numbers of the bulk events of each numbered kind have no gap.
//! * The number of edges equals the number that the nodes announce. A histogram can also have no edges.
//! * No sequence number is missing among the events of the thread that wrote the dump.
//! * Every event of the dump can be decoded.
//! * Every type that has objects is described.

use std::collections::{HashMap, HashSet};

use clr_evidence::method::{METHOD_DC_END_VERBOSE, METHOD_LOAD_VERBOSE, Method, RUNDOWN_PROVIDER};
use clr_evidence::module::{self, MODULE_DC_END};
use clr_gc::event::{ClrEvent, GcType, Kind, Layout, PointerSize, RUNTIME_PROVIDER, RootKind, Utf16, decode};
use nettrace::limits::Limits;
use nettrace::{Decoder, Event, Item, Options, Order};

use crate::{cost, metadata, statics};

/// Maximum number of types. A large service has about 20,000.
const MAX_TYPES: usize = 1 << 17;
/// Maximum length of all names together, in bytes.
const MAX_NAME_BYTES: usize = 16 << 20;
/// Maximum length of a name, in characters. Longer names are truncated.
const MAX_NAME_CHARS: usize = 1024;
/// Maximum numbers of suspensions, starts of collections and threads that are kept.
const MAX_STOPS: usize = 64;
const MAX_STARTS: usize = 1024;
const MAX_THREADS: usize = 8192;
/// Maximum number of stack roots whose methods are named.
const MAX_METHODS: usize = 1 << 16;
/// Maximum number of static fields of all modules.
const MAX_FIELDS: usize = 1 << 16;
/// Maximum number of static fields that receive a class.
const MAX_NAMED_VARIABLES: usize = 1 << 16;
/// Maximum number of modules, and maximum length of a path, in bytes.
const MAX_MODULES: usize = 4096;
const MAX_PATH: usize = 4096;
/// Maximum length of all paths together, in bytes.
const MAX_PATH_BYTES: usize = 1 << 20;
/// Number of entries in the cache of recent types.
const RECENT: usize = 1 << 10;
/// Number of edges in one allocation.
const PIECE: usize = 1 << 16;
/// Maximum size of a bulk event in the runtime, in bytes.
const BULK_BYTES: u64 = 64 << 10;

const WEAK: u32 = 2;
const PINNED: u32 = 1;

const TAG_OTHER: u32 = 0;
const TAG_METHOD: u32 = 1;
const TAG_MODULE: u32 = 2;
/// Offset of the tags of layouts.
const TAG_LAYOUT: u32 = 3;

/// Content of a requested dump.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DumpDetail {
    /// Objects and bytes by type. A histogram usually takes a few megabytes, regardless of the number of objects.
    #[default]
    Histogram,
    /// A histogram and the references, if the graph takes at most `most` bytes ([`cost::graph_bytes`]). A larger dump
    /// yields only a histogram.
    Graph {
        /// Maximum size of the graph and of all derived results, in bytes.
        most: u64,
    },
}

/// Error returned if a stream contains no complete dump.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The stream is not nettrace, is damaged, or exceeds a limit of the decoder.
    #[error("cannot read the stream: {0}")]
    Stream(#[from] nettrace::Error),
    /// The stream is from a 32-bit process. The layouts of 32-bit events are known, but such events were never
    /// observed.
    #[error("heap dumps of 32-bit processes are not supported")]
    NotSixtyFour,
    /// The stream contains no forced collection with objects. NativeAOT and Mono do not perform forced collections.
    #[error("the stream contains no heap dump: the runtime performed no collection for it, like NativeAOT and Mono")]
    NoDump,
    /// Events were lost or cannot be decoded.
    #[error(
        "the dump is incomplete ({reason}) and not representative; it needs a buffer of about \
         {needed_mb} MB"
    )]
    Incomplete {
        /// The conditions that do not hold.
        reason: String,
        /// Approximate buffer size that the session needs, in MiB.
        needed_mb: u64,
    },
    /// The stream has more types, or more bytes in their names, than a real process.
    #[error("the stream has more than {most} {what}, which no runtime writes")]
    TooMany {
        /// Kind of the items.
        what: &'static str,
        /// Maximum number.
        most: usize,
    },
}

/// A type and its live objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Type {
    /// Id of the type in the runtime. The id stays the same for the life of the process unless the type is unloaded.
    pub(crate) id: u64,
    /// Id of the type's module in the runtime.
    pub(crate) module: u64,
    /// Token of the type's definition in the module's metadata.
    pub(crate) token: u32,
    /// Name in the runtime. In a complete dump, a type without a name has a substitute name.
    pub(crate) name: String,
    pub(crate) is_described: bool,
    pub(crate) objects: u64,
    /// Bytes of the objects. The size of each object is rounded up to 8 bytes, as on the heap.
    pub(crate) bytes: u64,
}

/// Kind of root that holds an object, in the order in which paths to the object are preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// A static field.
    Static,
    /// A thread-static field. Before .NET 9, handles hold these fields; since .NET 9, the fields have no name.
    ThreadStatic,
    /// A strong handle.
    Handle,
    /// A pinned handle.
    Pinned,
    /// The queue of objects whose finalizer must run.
    Finalizer,
    /// Any other root of the runtime.
    Other,
    /// A method's frame on a thread's stack.
    Stack,
    /// No root. These objects are literals and types, which are on a separate heap.
    Unrooted,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RootEdge {
    pub(crate) object: u64,
    pub(crate) holder: Holder,
    /// Id of the method if the holder is a stack; otherwise, the runtime's id of the root.
    pub(crate) id: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) address: u64,
    pub(crate) object: u64,
    pub(crate) is_of_thread: bool,
    pub(crate) name: String,
}

/// Objects and references in the order of the stream.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub(crate) addresses: Vec<u64>,
    /// Sizes in units of eight bytes.
    pub(crate) sizes: Vec<u32>,
    pub(crate) types: Vec<u32>,
    pub(crate) edge_counts: Vec<u32>,
    pub(crate) edges: Vec<Vec<u64>>,
    pub(crate) roots: Vec<RootEdge>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) dependents: Vec<(u64, u64)>,
    pub(crate) name_bytes: usize,
}

impl Raw {
    fn bytes(&self, objects: u64, edges: u64) -> u64 {
        let roots = self.roots.len() * size_of::<RootEdge>()
            + self.variables.len() * size_of::<Variable>()
            + self.dependents.len() * size_of::<(u64, u64)>()
            + self.name_bytes;
        cost::graph_bytes(objects, edges).saturating_add(2 * roots as u64)
    }
}

/// A complete dump.
#[derive(Debug)]
pub struct Dump {
    pub(crate) types: Vec<Type>,
    pub(crate) raw: Option<Raw>,
    pub(crate) methods: HashMap<u64, String>,
    modules: Modules,
    /// Number of types of live objects without a name in the stream. The runtime does not repeat names that another
    /// session has received.
    pub unnamed_types: u64,
    /// Number of objects.
    pub objects: u64,
    /// Number of references in the stream; 0 if the session for a histogram did not request references.
    pub edges: u64,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Size of a requested graph in bytes when the graph exceeded its limit; `None` if the graph fits or was not
    /// requested. The complete graph can be larger.
    pub graph_needs: Option<u64>,
    /// Durations of the suspensions of all threads in which a collection started, in nanoseconds, in the order of the
    /// stream. The suspension of the dump is included. Suspensions without an observed start or end are not included.
    pub stopped_ns: Vec<i64>,
    /// Start of the collection, in Unix nanoseconds; `None` if the stream's clock is invalid.
    pub at_unix_ns: Option<i64>,
    /// Size of the stream, in bytes.
    pub stream_bytes: u64,
}

/// The modules of the process, according to the rundown.
#[derive(Debug, Default)]
struct Modules {
    paths: Vec<String>,
    bytes: usize,
    /// Whether the list lacks a module, because the module has no valid path or exceeds the limits.
    are_missing: bool,
}

impl Modules {
    fn observe(&mut self, payload: &[u8]) {
        let path = module::path(payload).filter(|path| path.starts_with('/') && path.len() <= MAX_PATH);
        match path {
            Some(path) if self.paths.len() < MAX_MODULES && self.bytes + path.len() <= MAX_PATH_BYTES => {
                self.bytes += path.len();
                self.paths.push(path);
            }
            _ => self.are_missing = true,
        }
    }
}

/// A function that reads a file. The parameters are an offset and a number of bytes. The function returns these bytes,
/// fewer bytes at the end of the file, or `None` if the file cannot be read.
pub type ReadAt = Box<dyn FnMut(u64, u32) -> Option<Vec<u8>>>;

impl Dump {
    /// Adds the class to the name of each static field whose class is known from the metadata of the process's
    /// assemblies, for example `Cache.entries` instead of `entries`. `open` opens an assembly by its path in the
    /// process, or returns `None` if the assembly cannot be opened. A histogram is not changed. The stream lists the
    /// assemblies only if the session has a rundown.
    pub fn name_classes(&mut self, open: &mut dyn FnMut(&str) -> Option<ReadAt>) {
        let Some(raw) = &mut self.raw else { return };
        let variables = raw.variables.iter().take(MAX_NAMED_VARIABLES);
        let names: Vec<&str> = variables.map(|variable| variable.name.as_str()).collect();
        let wanted: HashSet<&str> = names.iter().copied().collect();
        let mut is_whole = !self.modules.are_missing && !self.modules.paths.is_empty();
        let mut modules = Vec::new();
        let mut fields = 0;
        self.modules.paths.sort_unstable();
        self.modules.paths.dedup();
        for path in &self.modules.paths {
            let read = open(path).and_then(|mut read| metadata::statics(&mut read, &wanted).ok());
            // A module whose fields would exceed the limit is treated as unreadable.
            let read = read.filter(|read| fields + read.len() <= MAX_FIELDS);
            is_whole &= read.is_some();
            fields += read.as_ref().map_or(0, Vec::len);
            modules.extend(read);
        }
        let classes: Vec<Option<String>> = statics::classes(&names, &modules, is_whole)
            .into_iter()
            .map(|class| class.map(str::to_owned))
            .collect();
        let mut bytes = 0;
        for (variable, class) in raw.variables.iter_mut().zip(classes) {
            if let Some(class) = class {
                bytes += class.len() + 1;
                if bytes > MAX_PATH_BYTES {
                    break;
                }
                variable.name = format!("{class}.{}", variable.name);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Before,
    /// This thread writes events that can belong to the dump.
    In { thread: u64 },
    /// The dump of this collection has ended.
    After { count: u32 },
}

/// The sequence numbers of a thread that writes events.
#[derive(Debug, Clone, Copy)]
struct Numbering {
    /// Sequence number of the last event.
    sequence: u32,
    /// Number of missing sequence numbers since the end of the thread's last collection.
    lost: u64,
}

/// The start of a collection.
#[derive(Debug, Clone, Copy)]
struct Start {
    /// Whether the collection is blocking and of generation 2, so that a walk at its end contains only live objects.
    is_full: bool,
    at: i64,
}

/// A reader of one dump.
#[derive(Debug)]
pub struct DumpReading {
    decoder: Decoder,
    state: ReadingState,
}

#[derive(Debug, Default)]
struct ReadingState {
    want: DumpDetail,
    phase: Phase,
    types: Vec<Type>,
    by_id: HashMap<u64, u32>,
    /// Cache of the types of recent objects, by id. Most lookups hit the cache.
    recent: Vec<Option<(u64, u32)>>,
    type_name_bytes: usize,
    raw: Option<Raw>,
    methods: HashMap<u64, String>,
    wanted_methods: HashSet<u64>,
    modules: Modules,
    objects: u64,
    bytes: u64,
    announced_edges: u64,
    edges: u64,
    /// Next expected index of events 16, 17, 18 and 19.
    next: [u32; 4],
    bulk_bytes: u64,
    lost: u64,
    has_index_gap: bool,
    undecodable: u64,
    graph_needs: Option<u64>,
    starts: HashMap<u32, Start>,
    threads: HashMap<u64, Numbering>,
    /// Start of each current suspension, in ticks, by the id of the thread that suspends the other threads.
    suspended: HashMap<u64, i64>,
    stops: Vec<(i64, i64)>,
    refusal: Option<Refusal>,
}

impl DumpReading {
    /// Creates a reader. `want` determines whether references are retained.
    pub fn new(want: DumpDetail) -> Self {
        let interest = |metadata: &nettrace::Metadata| {
            let is_method = (metadata.provider == RUNDOWN_PROVIDER && metadata.event_id == METHOD_DC_END_VERBOSE)
                || (metadata.provider == RUNTIME_PROVIDER && metadata.event_id == METHOD_LOAD_VERBOSE);
            if is_method {
                return Some(TAG_METHOD);
            }
            if metadata.provider == RUNDOWN_PROVIDER && metadata.event_id == MODULE_DC_END {
                return Some(TAG_MODULE);
            }
            let layout = Layout::find(&metadata.provider, metadata.event_id, metadata.version);
            let layout = layout.filter(|_| metadata.provider == RUNTIME_PROVIDER);
            Some(layout.map_or(TAG_OTHER, |layout| layout.to_tag().saturating_add(TAG_LAYOUT)))
        };
        let raw = match want {
            DumpDetail::Histogram => None,
            DumpDetail::Graph { .. } => Some(Raw::default()),
        };
        Self {
            decoder: Decoder::new(Options {
                order: Order::File,
                stacks: false,
                limits: Limits {
                    max_block_bytes: 2 << 20,
                    ..Limits::for_one_live_process()
                },
                interest: Box::new(interest),
            }),
            state: ReadingState {
                want,
                recent: vec![None; RECENT],
                raw,
                ..ReadingState::default()
            },
        }
    }

    /// Consumes the next bytes of the stream.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a valid stream, come from an unsupported process, or describe too many
    /// types.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.decoder.push(bytes);
        self.run()
    }

    fn run(&mut self) -> Result<(), Refusal> {
        let mut is_other_size = false;
        while let Some(item) = self.decoder.next_item()? {
            match item {
                Item::Header(header) => is_other_size = header.pointer_size != PointerSize::Eight,
                Item::Event(event) => self.state.event(&event),
                _ => {}
            }
            if is_other_size {
                return Err(Refusal::NotSixtyFour);
            }
        }
        match self.state.refusal.clone() {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

    /// Finishes the stream and returns the complete dump.
    ///
    /// # Errors
    /// Returns the reason why the stream contains no complete dump. A truncated stream can contain a complete dump.
    pub fn finish(mut self) -> Result<Dump, Refusal> {
        self.decoder.finish();
        // A truncated stream can still contain a complete dump.
        self.run()?;
        let header = self.decoder.header();
        let mut state = self.state;
        let started = state.check()?;
        let at = header.and_then(|header| header.unix_ns(started));
        let ns = |(begin, end): (i64, i64)| {
            header.map_or(0, |header| {
                header.offset_ns(end).saturating_sub(header.offset_ns(begin))
            })
        };
        let mut unnamed_types = 0;
        for one in state.types.iter_mut().filter(|one| one.name.is_empty()) {
            unnamed_types += u64::from(one.objects > 0);
            one.name = format!("[type 0x{:08X} of module 0x{:X}]", one.token, one.module);
        }
        Ok(Dump {
            unnamed_types,
            stopped_ns: state.collecting_stops().map(ns).collect(),
            at_unix_ns: at.and_then(|at| i64::try_from(at).ok()),
            stream_bytes: self.decoder.stats().bytes,
            types: state.types,
            raw: state.raw,
            methods: state.methods,
            modules: state.modules,
            objects: state.objects,
            edges: state.edges,
            bytes: state.bytes,
            graph_needs: state.graph_needs,
        })
    }
}

impl ReadingState {
    /// Returns the suspensions in which collections started.
    fn collecting_stops(&self) -> impl Iterator<Item = (i64, i64)> {
        let collects = |(begin, end): &(i64, i64)| {
            let mut starts = self.starts.values();
            starts.any(|start| (*begin..=*end).contains(&start.at))
        };
        self.stops.iter().copied().filter(collects)
    }

    /// Returns the start of the dump's collection, in ticks, or the reason why the stream contains no complete dump.
    fn check(&self) -> Result<i64, Refusal> {
        let mut reasons = Vec::new();
        let mut started = 0;
        match self.phase {
            Phase::Before => return Err(Refusal::NoDump),
            Phase::In { .. } => reasons.push("the end is missing".to_owned()),
            Phase::After { count } => match self.starts.get(&count) {
                Some(start) if start.is_full => started = start.at,
                Some(_) => return Err(Refusal::NoDump),
                None => reasons.push("the start is missing".to_owned()),
            },
        }
        let lost = match self.phase {
            Phase::In { thread } => self.threads.get(&thread).map_or(0, |numbering| numbering.lost),
            _ => self.lost,
        };
        if lost > 0 {
            reasons.push(format!("{lost} events were dropped"));
        }
        if self.has_index_gap {
            reasons.push("numbers of events are missing".to_owned());
        }
        if self.undecodable > 0 {
            reasons.push(format!("{} events cannot be decoded", self.undecodable));
        }
        // On .NET 10, the session for a histogram does not request edges.
        let has_no_edges = self.want == DumpDetail::Histogram && self.edges == 0;
        if self.edges != self.announced_edges && !has_no_edges {
            reasons.push(format!(
                "only {} of {} references were received",
                self.edges, self.announced_edges
            ));
        }
        let unknown = self.types.iter().filter(|one| one.objects > 0 && !one.is_described);
        let unknown = unknown.count();
        if unknown > 0 {
            reasons.push(format!("{unknown} types are not described"));
        }
        if reasons.is_empty() {
            return Ok(started);
        }
        let missing_edges = self.announced_edges.saturating_sub(self.edges).saturating_mul(12);
        let bytes = self
            .bulk_bytes
            .saturating_add(lost.saturating_mul(BULK_BYTES).max(missing_edges));
        Err(Refusal::Incomplete {
            reason: reasons.join(", "),
            needed_mb: cost::buffer_mb(bytes),
        })
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of event")]
    fn event(&mut self, event: &Event<'_>) {
        self.follow(event.capture_thread, event.sequence);
        if event.tag == TAG_METHOD {
            self.method(event.payload);
            return;
        }
        if event.tag == TAG_MODULE {
            self.modules.observe(event.payload);
            return;
        }
        let Some(layout) = event.tag.checked_sub(TAG_LAYOUT).and_then(Layout::from_tag) else {
            return;
        };
        let is_bulk = matches!(
            layout.kind,
            Kind::BulkNode
                | Kind::BulkEdge
                | Kind::BulkRootEdge
                | Kind::BulkRootConditionalWeakTableElementEdge
                | Kind::BulkRootStaticVar
        );
        if is_bulk && self.phase == Phase::Before {
            self.phase = Phase::In {
                thread: event.capture_thread,
            };
        }
        let is_of_dump = self.phase
            == Phase::In {
                thread: event.capture_thread,
            };
        if is_bulk && !is_of_dump {
            return;
        }
        let decoded = match decode(layout, event.payload, PointerSize::Eight) {
            Ok(decoded) => decoded,
            Err(_) => {
                self.undecodable += u64::from(is_of_dump);
                return;
            }
        };
        if is_of_dump && (is_bulk || layout.kind == Kind::BulkType) {
            self.bulk_bytes += event.payload.len() as u64;
        }
        match decoded {
            ClrEvent::GcStart(start) => {
                let is_full = start.depth == Some(2) && start.gc_type == Some(GcType::BLOCKING);
                if self.starts.len() < MAX_STARTS {
                    let at = event.timestamp;
                    self.starts.insert(start.count, Start { is_full, at });
                }
            }
            ClrEvent::GcEnd(end) => {
                let lost = self.threads.get_mut(&event.capture_thread);
                let lost = lost.map_or(0, |numbering| std::mem::take(&mut numbering.lost));
                if is_of_dump {
                    self.end(end.count, lost);
                }
            }
            ClrEvent::SuspendEeBegin(_) if self.suspended.len() < MAX_THREADS => {
                self.suspended.insert(event.capture_thread, event.timestamp);
            }
            ClrEvent::RestartEeEnd(_) => {
                if let Some(begin) = self.suspended.remove(&event.capture_thread)
                    && self.stops.len() < MAX_STOPS
                {
                    self.stops.push((begin, event.timestamp));
                }
            }
            ClrEvent::BulkType(bulk) => {
                for row in bulk.values {
                    self.describe(row.type_id, row.module_id, row.type_name_id, row.name);
                }
            }
            ClrEvent::BulkRootEdge(bulk) => {
                self.number(0, bulk.index);
                for row in bulk.values {
                    self.root(
                        row.rooted_node_address,
                        row.gc_root_kind,
                        row.gc_root_flag.0,
                        row.gc_root_id,
                    );
                }
            }
            ClrEvent::BulkRootConditionalWeakTableElementEdge(bulk) => {
                self.number(1, bulk.index);
                if let Some(raw) = &mut self.raw {
                    let rows = bulk.values.iter();
                    raw.dependents
                        .extend(rows.map(|row| (row.gc_key_node_id, row.gc_value_node_id)));
                }
            }
            ClrEvent::BulkNode(bulk) => {
                self.number(2, bulk.index);
                for row in bulk.values {
                    self.node(row.address, row.size, row.type_id, row.edge_count);
                }
            }
            ClrEvent::BulkEdge(bulk) => {
                self.number(3, bulk.index);
                self.edges += bulk.values.len() as u64;
                if let Some(raw) = &mut self.raw {
                    for row in bulk.values {
                        match raw.edges.last_mut() {
                            Some(piece) if piece.len() < PIECE => piece.push(row.value),
                            _ => {
                                let mut piece = Vec::with_capacity(PIECE);
                                piece.push(row.value);
                                raw.edges.push(piece);
                            }
                        }
                    }
                }
            }
            ClrEvent::BulkRootStaticVar(bulk) => {
                if let Some(raw) = &mut self.raw {
                    for row in bulk.values {
                        let name: String = row.field_name.chars().take(MAX_NAME_CHARS).collect();
                        raw.name_bytes += name.len() + 16;
                        raw.variables.push(Variable {
                            address: row.gc_root_id,
                            object: row.object_id,
                            is_of_thread: row.flags & 1 != 0,
                            name,
                        });
                    }
                }
            }
            _ => {}
        }
        if is_bulk {
            self.bound();
        }
    }

    /// Counts missing sequence numbers of a thread's events.
    fn follow(&mut self, thread: u64, sequence: u32) {
        let is_full = self.threads.len() >= MAX_THREADS;
        match self.threads.get_mut(&thread) {
            Some(numbering) => {
                let missing = sequence.wrapping_sub(numbering.sequence).wrapping_sub(1);
                numbering.sequence = sequence;
                // A decreasing number belongs to another thread with the same id.
                if missing < u32::MAX >> 1 {
                    numbering.lost += u64::from(missing);
                }
            }
            None if is_full => {}
            None => {
                self.threads.insert(thread, Numbering { sequence, lost: 0 });
            }
        }
    }

    /// Completes the dump at the end of a collection on the thread of the dump. Discards the walk if the start of the
    /// collection is known, and the collection is not full.
    fn end(&mut self, count: u32, lost: u64) {
        if self.starts.get(&count).is_some_and(|start| !start.is_full) {
            self.discard();
            return;
        }
        self.phase = Phase::After { count };
        self.lost = lost;
        if let Some(raw) = &self.raw {
            let stacks = raw.roots.iter().filter(|root| root.holder == Holder::Stack);
            self.wanted_methods = stacks.take(MAX_METHODS).map(|root| root.id).collect();
        }
    }

    /// Discards the walk of a collection that is not the dump.
    fn discard(&mut self) {
        self.phase = Phase::Before;
        for one in &mut self.types {
            (one.objects, one.bytes) = (0, 0);
        }
        if let DumpDetail::Graph { .. } = self.want {
            self.raw = Some(Raw::default());
        }
        self.graph_needs = None;
        (self.objects, self.bytes, self.announced_edges, self.edges) = (0, 0, 0, 0);
        self.next = [0; 4];
        (self.has_index_gap, self.undecodable, self.bulk_bytes) = (false, 0, 0);
    }

    fn number(&mut self, kind: usize, index: u32) {
        if let Some(next) = self.next.get_mut(kind) {
            self.has_index_gap |= *next != index;
            *next = index.wrapping_add(1);
        }
    }

    /// Drops the graph if it would exceed its memory limit, or if it has 2^31 - 1 or more objects or references.
    fn bound(&mut self) {
        let (Some(raw), DumpDetail::Graph { most }) = (&self.raw, self.want) else {
            return;
        };
        let needs = raw.bytes(self.objects, self.edges.max(self.announced_edges));
        let is_numbered = self.objects < u64::from(u32::MAX >> 1) && self.edges < u64::from(u32::MAX >> 1);
        if needs > most || !is_numbered {
            self.raw = None;
            self.graph_needs = Some(needs);
        }
    }

    fn type_place(&mut self, id: u64) -> Option<u32> {
        let recent = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % RECENT;
        if let Some(Some((known, place))) = self.recent.get(recent)
            && *known == id
        {
            return Some(*place);
        }
        let place = match self.by_id.get(&id) {
            Some(place) => *place,
            None if self.types.len() >= MAX_TYPES => {
                self.refusal.get_or_insert(Refusal::TooMany {
                    what: "types",
                    most: MAX_TYPES,
                });
                return None;
            }
            None => {
                let place = self.types.len() as u32;
                self.types.push(Type { id, ..Type::default() });
                self.by_id.insert(id, place);
                place
            }
        };
        if let Some(recent) = self.recent.get_mut(recent) {
            *recent = Some((id, place));
        }
        Some(place)
    }

    fn describe(&mut self, id: u64, module: u64, token: u32, name: Utf16<'_>) {
        let Some(place) = self.type_place(id) else { return };
        let Some(one) = self.types.get_mut(place as usize) else {
            return;
        };
        (one.module, one.token, one.is_described) = (module, token, true);
        // A later description can lack the name.
        if one.name.is_empty() && !name.is_empty() {
            let name: String = name.chars().take(MAX_NAME_CHARS).collect();
            self.type_name_bytes += name.len();
            if self.type_name_bytes > MAX_NAME_BYTES {
                self.refusal.get_or_insert(Refusal::TooMany {
                    what: "bytes in names",
                    most: MAX_NAME_BYTES,
                });
                return;
            }
            one.name = name;
        }
    }

    fn node(&mut self, address: u64, size: u64, type_id: u64, edges: u64) {
        let Some(place) = self.type_place(type_id) else { return };
        let steps = u32::try_from(size.div_ceil(8)).unwrap_or(u32::MAX);
        let bytes = u64::from(steps) * 8;
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.announced_edges = self.announced_edges.saturating_add(edges);
        if let Some(one) = self.types.get_mut(place as usize) {
            one.objects += 1;
            one.bytes = one.bytes.saturating_add(bytes);
        }
        if let Some(raw) = &mut self.raw {
            if raw.addresses.len() == raw.addresses.capacity() {
                // The vectors grow by a quarter, because doubling would temporarily take twice the memory.
                let more = (raw.addresses.len() / 4).max(1 << 12);
                raw.addresses.reserve_exact(more);
                raw.sizes.reserve_exact(more);
                raw.types.reserve_exact(more);
                raw.edge_counts.reserve_exact(more);
            }
            raw.addresses.push(address);
            raw.sizes.push(steps);
            raw.types.push(place);
            raw.edge_counts.push(u32::try_from(edges).unwrap_or(u32::MAX));
        }
    }

    fn root(&mut self, object: u64, kind: RootKind, flags: u32, id: u64) {
        let Some(raw) = &mut self.raw else { return };
        if object == 0 || flags & WEAK != 0 {
            return;
        }
        let holder = match kind {
            // .NET 9 and later report thread statics among the stacks, without a method.
            RootKind::STACK if id == 0 => Holder::ThreadStatic,
            RootKind::STACK => Holder::Stack,
            RootKind::FINALIZER => Holder::Finalizer,
            RootKind::HANDLE if flags & PINNED != 0 => Holder::Pinned,
            RootKind::HANDLE => Holder::Handle,
            _ => Holder::Other,
        };
        raw.roots.push(RootEdge { object, holder, id });
    }

    /// Keeps the name of a method whose stack frame holds an object.
    fn method(&mut self, payload: &[u8]) {
        if self.wanted_methods.is_empty() {
            return;
        }
        let Some(id) = payload.first_chunk::<8>().map(|id| u64::from_le_bytes(*id)) else {
            return;
        };
        if self.wanted_methods.contains(&id)
            && let Ok(method) = Method::decode(payload)
        {
            let name = clr_evidence::name::method(&method.namespace, &method.name);
            self.methods.insert(id, name);
        }
    }
}
