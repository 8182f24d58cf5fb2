//! All limits of the decoder, with their reasons. A hostile stream leads to an error or to a counted loss at these
//! limits, not to more memory.
//!
//! # Memory
//!
//! The [`Limits`] of [`Options`](crate::Options) bound everything that grows with the stream. The constants apply to
//! every decoder. [`Decoder::memory_bytes`](crate::Decoder::memory_bytes) returns the current memory of a decoder in
//! constant time. The table contains the maximum of each store in 10^6 bytes, excluding bytes that the owner adds
//! without requesting items.
//!
//! | Store | Limit | [files](Limits::for_files) | [one live process](Limits::for_one_live_process) |
//! |---|---|---|---|
//! | partial block, in a buffer of up to twice its size | `max_block_bytes` | 33.6 | 2.2 |
//! | waiting events: up to eight times the limit (waiting bytes, the same amount delivered and not cleared, the sum of both again for compaction, and capacity to grow) | `max_pending_bytes` | 268.4 | 4.2 |
//! | definitions | `max_metadata_bytes` | 33.6 | 1.0 |
//! | index of definitions | `max_definitions` | 3.0 | 0.3 |
//! | capture threads | `max_capture_threads` | 5.4 | 1.4 |
//! | gaps of one sequence point | `max_sequence_point_threads` | 12.6 | 1.6 |
//! | V6: thread indexes | `max_thread_indexes` | 21.5 | 0.7 |
//! | V6: label lists | `max_label_lists` | 16.8 | 0.3 |
//! | stacks, if requested (twice while growing) | `max_stack_bytes` | 134.2 | 0.5 |
//! | V6: properties of the header | `max_block_bytes` | 16.8 | 1.0 |
//! | total | | 545.9 | 13.2 |
//!
//! A decoder needs a few megabytes for a real file, and 5 to 60 KB for a live session.

/// Maximum length of an unsigned LEB128 number of 32 bits, in bytes.
pub const MAX_VARU32_BYTES: usize = 5;

/// Maximum length of an unsigned LEB128 number of 64 bits, in bytes. A backward step in time takes all ten bytes.
pub const MAX_VARU64_BYTES: usize = 10;

/// Maximum size of a decoded block, in bytes. V6 has 24 bits for the size. V4 has 32 bits, but runtimes write about 100
/// KiB of events (and 12 bytes per thread in a sequence point), so a larger block is damaged.
pub const MAX_BLOCK_BYTES: usize = 1 << 24;

/// Maximum length of an object's type name in V4, in bytes. The longest known name has 13 bytes (`MetadataBlock`).
pub const MAX_TYPE_NAME_BYTES: usize = 64;

/// Maximum number of key-value pairs in a V6 `Trace` block. Writers use four keys.
pub const MAX_HEADER_PROPERTIES: usize = 1024;

/// Maximum length of a string in a definition, in bytes of the stream. Names of providers, events and fields are
/// identifiers.
pub const MAX_STRING_BYTES: usize = 64 << 10;

/// Maximum number of fields in a definition, including nested fields. .NET methods have at most a few dozen parameters.
pub const MAX_FIELDS: usize = 4096;

/// Maximum nesting depth of the fields in a definition. The reader is recursive.
pub const MAX_FIELD_DEPTH: usize = 16;

/// Maximum number of retained definitions per stream (V6 can discard definitions at a sequence point). A runtime has
/// several hundred native events, and each EventSource has several dozen.
pub const MAX_DEFINITIONS: usize = 1 << 16;

/// Maximum memory of all definitions, in bytes: 512 bytes for each of [`MAX_DEFINITIONS`].
pub const MAX_METADATA_BYTES: usize = 32 << 20;

/// Metadata ids below this value are found by index, and all other ids by hash. Writers assign ids from 1.
pub const DENSE_METADATA_IDS: u32 = 1 << 14;

/// Maximum number of capture threads whose numbers are tracked. If there are more threads, the least recently used
/// threads are forgotten, and the first number of an unknown thread no longer proves a loss. Linux allows 32,768
/// threads by default.
pub const MAX_CAPTURE_THREADS: usize = 1 << 16;

/// Maximum number of V6 thread indexes whose process and thread ids are known. One-collect redefines the indexes with
/// every block of events. Indexes of additional threads remain unresolved and are counted.
pub const MAX_THREAD_INDEXES: usize = 1 << 18;

/// Maximum number of label lists between two V6 sequence points. One-collect writes a sequence point for every 1 MiB of
/// events.
pub const MAX_LABEL_LISTS: usize = 1 << 18;

/// Maximum memory of the stacks between two sequence points, in bytes. Runtimes write a sequence point every few
/// megabytes. Additional stacks are dropped and counted.
pub const MAX_STACK_BYTES: usize = 64 << 20;

/// Maximum number of threads in a sequence point. Each thread can report a loss, and these losses wait together.
pub const MAX_SEQUENCE_POINT_THREADS: usize = 1 << 18;

/// Maximum number of gaps that wait for delivery. Decoding pauses in the middle of a block until they are taken.
pub const MAX_QUEUED_GAPS: usize = 1024;

/// Maximum size of events that wait for their order, in bytes. A runtime scans its buffers every 100 ms, and the
/// waiting events are those of one scan. The limit corresponds to about 150,000 events. Only a reader that stopped
/// while large buffers filled up, and then wants every event, needs more.
pub const DEFAULT_MAX_PENDING_BYTES: usize = 32 << 20;

/// Limits for everything that grows with a stream. At a limit, the decoder returns an error with the name of the
/// limited part ([`Error::LimitExceeded`](crate::Error::LimitExceeded)), or counts the items that it drops in
/// [`Stats`](crate::Stats).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a block, in bytes, up to [`MAX_BLOCK_BYTES`]. A larger block is an error.
    pub max_block_bytes: usize,
    /// Maximum size of events that wait for their order, in bytes. Above it, the oldest events are delivered early and
    /// counted ([`Stats::released_early`](crate::Stats::released_early)).
    pub max_pending_bytes: usize,
    /// Maximum number of retained definitions. More definitions are an error.
    pub max_definitions: usize,
    /// Maximum memory of all definitions, in bytes. More memory is an error.
    pub max_metadata_bytes: usize,
    /// Maximum number of capture threads whose numbers are tracked. Above it, the least recently used threads are
    /// forgotten and counted ([`Stats::threads_forgotten`](crate::Stats::threads_forgotten)).
    pub max_capture_threads: usize,
    /// Maximum number of threads in a sequence point. More threads are an error.
    pub max_sequence_point_threads: usize,
    /// V6: maximum number of known thread indexes. Additional indexes are unresolved and counted
    /// ([`Stats::threads_unresolved`](crate::Stats::threads_unresolved)).
    pub max_thread_indexes: usize,
    /// V6: maximum number of label lists between two sequence points. More lists are an error.
    pub max_label_lists: usize,
    /// Maximum size of the stacks between two sequence points, in bytes. Additional stacks are dropped and counted
    /// ([`Stats::stacks_dropped`](crate::Stats::stacks_dropped)).
    pub max_stack_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self::for_files()
    }
}

impl Limits {
    /// Returns limits for files, which can cover whole machines and have any length: the constants of this module.
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

    /// Returns limits for the session of one live process among hundreds, with only some kinds of events enabled.
    ///
    /// Runtimes write blocks of 100 KiB; a block is larger only if a sequence point has more than 8,000 threads. 512
    /// KiB of waiting events are about 3,000 events. This is more than 1,000 collections per second produce in the 100
    /// ms between two scans of the runtime. The garbage collector has less than 100 kinds of events. Linux allows
    /// 65,530 memory mappings per process by default, which is enough for about 32,000 threads.
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
