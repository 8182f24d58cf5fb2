//! Every bound of the decoder, with its reason. A hostile stream reaches an error or a counted loss here, never more
//! memory.
//!
//! With the default options a decoder holds less than 512 MiB whatever the stream contains, beside bytes that its owner
//! put in without asking for items: one block (at most [`MAX_BLOCK_BYTES`], in a buffer of up to twice that), the
//! queue (up to eight times [`Options::max_pending_bytes`](crate::Options::max_pending_bytes): what waits, as much that
//! is delivered but not cleared, the same again to move it together, and room to grow), definitions
//! ([`MAX_METADATA_BYTES`]), the tables of threads and labels (less than 64 MiB), and stacks when asked for
//! ([`MAX_STACK_BYTES`], twice while growing). Real streams need a few megabytes.

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

/// What [`Options::max_pending_bytes`](crate::Options::max_pending_bytes) is by default. A runtime passes over its
/// buffers every 100 ms, and what waits is what it wrote in one pass: this is some 150,000 events. Only a reader that
/// stopped while large buffers filled up, and then wants every event, needs more.
pub const DEFAULT_MAX_PENDING_BYTES: usize = 32 << 20;
