//! Every bound of the decoder, with its reason. A hostile stream reaches an error or a counted loss here, never more
//! memory.
//!
//! # Memory
//!
//! What grows with the stream is bounded by the [`Limits`] of [`Options`](crate::Options); the constants are the same
//! for all. [`Decoder::memory_bytes`](crate::Decoder::memory_bytes) says what a decoder holds now, in constant time.
//! The table has the most that each store can take, in 10^6 bytes, beside bytes that the owner puts in without asking
//! for items.
//!
//! | Store | Limit | [files](Limits::for_files) | [one live process](Limits::for_one_live_process) |
//! |---|---|---|---|
//! | a block that is not whole yet, in a buffer of up to twice that | `max_block_bytes` | 33.6 | 2.2 |
//! | events that wait: up to eight times the limit (what waits, as much that is delivered and not cleared, the same again to move it together, and room to grow) | `max_pending_bytes` | 268.4 | 4.2 |
//! | definitions | `max_metadata_bytes` | 33.6 | 1.0 |
//! | the index of definitions | `max_definitions` | 3.0 | 0.3 |
//! | capture threads | `max_capture_threads` | 5.4 | 1.4 |
//! | gaps of one sequence point | `max_sequence_point_threads` | 12.6 | 1.6 |
//! | V6: thread indexes | `max_thread_indexes` | 21.5 | 0.7 |
//! | V6: label lists | `max_label_lists` | 16.8 | 0.3 |
//! | stacks, when asked for (twice while growing) | `max_stack_bytes` | 134.2 | 0.5 |
//! | V6: the properties of the header | `max_block_bytes` | 16.8 | 1.0 |
//! | together | | 545.9 | 13.2 |
//!
//! Real streams need a few megabytes as files, and 5 to 60 KB live.

/// Longest unsigned LEB128 number of 32 bits.
pub const MAX_VARU32_BYTES: usize = 5;

/// Longest unsigned LEB128 number of 64 bits: a backward step in time takes all ten bytes.
pub const MAX_VARU64_BYTES: usize = 10;

/// Longest block that is decoded. V6 has 24 bits for it; V4 has 32, but runtimes write about 100 KiB of events (and 12
/// bytes per thread in a sequence point), so a longer one is damage.
pub const MAX_BLOCK_BYTES: usize = 1 << 24;

/// Longest type name of an object in V4; the longest known one has 13 bytes (`MetadataBlock`).
pub const MAX_TYPE_NAME_BYTES: usize = 64;

/// Key-value pairs in a V6 `Trace` block that are read; writers know four keys.
pub const MAX_HEADER_PROPERTIES: usize = 1024;

/// Longest string in a definition, in bytes on the wire. Names of providers, events and fields are identifiers.
pub const MAX_STRING_BYTES: usize = 64 << 10;

/// Fields of one definition, nested ones included. .NET methods have at most a few dozen parameters.
pub const MAX_FIELDS: usize = 4096;

/// How deep the fields of a definition may be nested: the reader recurses.
pub const MAX_FIELD_DEPTH: usize = 16;

/// Definitions of one stream that are kept (V6 may forget them at a sequence point). A runtime has some hundred native
/// events and each EventSource some dozen.
pub const MAX_DEFINITIONS: usize = 1 << 16;

/// Memory of all definitions together, in bytes.
pub const MAX_METADATA_BYTES: usize = 32 << 20;

/// Metadata ids below this are found by indexing, others by hashing. Writers number from 1.
pub const DENSE_METADATA_IDS: u32 = 1 << 14;

/// Capture threads whose numbering is followed. When there are more, the ones not heard of for longest are forgotten
/// (and from then on an unknown thread's first number proves no loss). Linux allows 32,768 threads by default.
pub const MAX_CAPTURE_THREADS: usize = 1 << 16;

/// Thread indexes of V6 whose process and thread ids are known. One-collect redefines them with every block of events.
/// Those of more threads stay unresolved and are counted.
pub const MAX_THREAD_INDEXES: usize = 1 << 18;

/// Label lists between two sequence points of V6. One-collect writes a sequence point with every 1 MiB of events.
pub const MAX_LABEL_LISTS: usize = 1 << 18;

/// Memory for the stacks between two sequence points, in bytes. Runtimes write a sequence point each few megabytes of
/// stream. Stacks beyond it are dropped and counted.
pub const MAX_STACK_BYTES: usize = 64 << 20;

/// Threads in one sequence point. Each may report a loss, and those wait together.
pub const MAX_SEQUENCE_POINT_THREADS: usize = 1 << 18;

/// Gaps that wait for delivery; decoding pauses in the middle of a block until they are taken.
pub const MAX_QUEUED_GAPS: usize = 1024;

/// Bytes of events that may wait for their order. A runtime passes over its buffers every 100 ms, and what waits is
/// what it wrote in one pass: this is some 150,000 events. Only a reader that stopped while large buffers filled up,
/// and then wants every event, needs more.
pub const DEFAULT_MAX_PENDING_BYTES: usize = 32 << 20;

/// The limits of what grows with a stream. A stream that meets one is either an error that names it
/// ([`Error::LimitExceeded`](crate::Error::LimitExceeded)), or a count in [`Stats`](crate::Stats) where something less
/// is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one block; at most [`MAX_BLOCK_BYTES`]. Beyond: an error.
    pub max_block_bytes: usize,
    /// Bytes of events that may wait for their order, over which the oldest are delivered early and counted
    /// ([`Stats::released_early`](crate::Stats::released_early)).
    pub max_pending_bytes: usize,
    /// Definitions that are kept. Beyond: an error.
    pub max_definitions: usize,
    /// Bytes of all definitions together. Beyond: an error.
    pub max_metadata_bytes: usize,
    /// Capture threads whose numbering is followed. Beyond: those not heard of for longest are forgotten and counted
    /// ([`Stats::threads_forgotten`](crate::Stats::threads_forgotten)).
    pub max_capture_threads: usize,
    /// Threads in one sequence point. Beyond: an error.
    pub max_sequence_point_threads: usize,
    /// V6: thread indexes that are known. Beyond: unresolved and counted
    /// ([`Stats::threads_unresolved`](crate::Stats::threads_unresolved)).
    pub max_thread_indexes: usize,
    /// V6: label lists between two sequence points. Beyond: an error.
    pub max_label_lists: usize,
    /// Bytes of the stacks between two sequence points. Beyond: dropped and counted
    /// ([`Stats::stacks_dropped`](crate::Stats::stacks_dropped)).
    pub max_stack_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self::for_files()
    }
}

impl Limits {
    /// For files, which may be of whole machines and of any length: the constants of this module.
    pub const fn for_files() -> Self {
        Self {
            max_block_bytes: MAX_BLOCK_BYTES,
            max_pending_bytes: DEFAULT_MAX_PENDING_BYTES,
            max_definitions: MAX_DEFINITIONS,
            max_metadata_bytes: MAX_METADATA_BYTES,
            max_capture_threads: MAX_CAPTURE_THREADS,
            max_sequence_point_threads: MAX_SEQUENCE_POINT_THREADS,
            max_thread_indexes: MAX_THREAD_INDEXES,
            max_label_lists: MAX_LABEL_LISTS,
            max_stack_bytes: MAX_STACK_BYTES,
        }
    }

    /// For the session of one live process among hundreds, of which only some kinds of events are asked for.
    ///
    /// Runtimes write blocks of 100 KiB, a longer one only for a sequence point of more than 8,000 threads. 512 KiB of
    /// waiting events are some three thousand, more than a storm of a thousand collections a second makes in the 100 ms
    /// between two passes of the runtime. The collector has less than a hundred kinds of events. Linux maps at most
    /// 65,530 areas for a process by default, which is room for some 32,000 threads.
    pub const fn for_one_live_process() -> Self {
        Self {
            max_block_bytes: 1 << 20,
            max_pending_bytes: 512 << 10,
            max_definitions: 1 << 12,
            max_metadata_bytes: 1 << 20,
            max_capture_threads: 1 << 14,
            max_sequence_point_threads: 1 << 15,
            max_thread_indexes: 1 << 13,
            max_label_lists: 1 << 12,
            max_stack_bytes: 256 << 10,
        }
    }
}
