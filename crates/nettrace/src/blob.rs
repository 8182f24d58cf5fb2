//! Blobs: the events (and definitions) inside a block, one header and one payload each.
//!
//! Headers of one block build on each other: a flag says which fields differ from the blob before, so the state begins
//! at zero with each block and a block can only be read from its front. Uncompressed headers are whole each time; no
//! runtime writes them, but the format allows them.

mod read;
mod write;

pub use read::Blobs;
pub(crate) use read::{BlobReader, malformed};

/// Bits of a compressed header's first byte: which fields follow.
pub mod flags {
    /// The metadata id follows.
    pub const METADATA_ID: u8 = 0x01;
    /// Sequence delta, capture thread and processor follow.
    pub const CAPTURE: u8 = 0x02;
    /// The thread follows.
    pub const THREAD: u8 = 0x04;
    /// The stack id follows.
    pub const STACK_ID: u8 = 0x08;
    /// V4: the activity id follows; V6: the label list id.
    pub const ACTIVITY_OR_LABELS: u8 = 0x10;
    /// V4: the related activity id follows.
    pub const RELATED_ACTIVITY: u8 = 0x20;
    /// The event is sorted. Nothing follows.
    pub const SORTED: u8 = 0x40;
    /// The payload's size follows.
    pub const PAYLOAD_SIZE: u8 = 0x80;
}

/// Bit of an uncompressed header's metadata id: the event is not sorted. (The V5 document says the opposite; the
/// runtime and TraceEvent agree on this.)
const UNSORTED: u32 = 1 << 31;

/// How the headers of a block are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderLayout {
    /// V4, each header on the one before. What runtimes send.
    V4Compressed,
    /// V4, whole headers of 80 bytes, blobs aligned to 4.
    V4Whole,
    /// V6, each header on the one before. What one-collect writes.
    V6Compressed,
    /// V6, whole headers of 52 bytes.
    V6Whole,
}

/// The header of a blob. The default is the state at the beginning of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobHeader {
    /// Which definition the event has; 0 in blobs that are definitions.
    pub metadata_id: u32,
    /// Number of the event among those of its capture thread.
    pub sequence: u32,
    /// The thread that wrote the event into its buffer. V4: OS thread id, V6: thread index.
    pub capture_thread: u64,
    /// Processor; all bits set when unknown.
    pub processor: u32,
    /// The thread that the event is about. V4: OS thread id, V6: thread index.
    pub thread: u64,
    /// Which stack, see [`Stack`](crate::Stack).
    pub stack_id: u32,
    /// Ticks.
    pub timestamp: i64,
    /// V6: which label list; 0 is the empty one.
    pub label_list: u32,
    /// V4: zero when there is none.
    pub activity_id: [u8; 16],
    /// V4: zero when there is none.
    pub related_activity_id: [u8; 16],
    /// No event later in the stream is older than this one.
    pub is_sorted: bool,
    /// Bytes of payload.
    pub payload_size: u32,
}

#[cfg(test)]
mod tests;
