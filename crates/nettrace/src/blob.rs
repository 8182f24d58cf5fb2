//! Blobs: the events (and definitions) in a block. Each blob has a header and a payload.
//!
//! Headers in a block are delta-encoded: flags state which fields differ from the previous blob. The state is zero at
//! the start of each block, so a block can only be read from the front. Uncompressed headers contain every field. The
//! format allows uncompressed headers, but no runtime writes such headers.

mod read;
mod write;

pub use read::Blobs;
pub(crate) use read::{BlobReader, malformed};

/// Bits in the first byte of a compressed header, which state the fields that follow.
pub mod flags {
    /// The metadata id follows.
    pub const METADATA_ID: u8 = 0x01;
    /// Sequence delta, capture thread and processor follow.
    pub const CAPTURE: u8 = 0x02;
    /// The thread follows.
    pub const THREAD: u8 = 0x04;
    /// The stack id follows.
    pub const STACK_ID: u8 = 0x08;
    /// V4: the activity id follows. V6: the id of the label list follows.
    pub const ACTIVITY_OR_LABELS: u8 = 0x10;
    /// V4: the related activity id follows.
    pub const RELATED_ACTIVITY: u8 = 0x20;
    /// The event is sorted. No field follows.
    pub const SORTED: u8 = 0x40;
    /// The payload size follows.
    pub const PAYLOAD_SIZE: u8 = 0x80;
}

/// Bit in the metadata id of an uncompressed header: the event is not sorted. The V5 document states the opposite, but
/// the runtime and TraceEvent agree on this meaning.
const UNSORTED: u32 = 1 << 31;

/// The layout of the headers in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderLayout {
    /// V4, delta-encoded headers. Runtimes write this layout.
    V4Compressed,
    /// V4, complete headers of 80 bytes; blobs are aligned to 4 bytes.
    V4Whole,
    /// V6, delta-encoded headers. One-collect writes this layout.
    V6Compressed,
    /// V6, complete headers of 52 bytes.
    V6Whole,
}

/// The header of a blob. The default is the state at the start of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobHeader {
    /// Id of the event's definition; 0 in blobs that are definitions.
    pub metadata_id: u32,
    /// Sequence number of the event in its capture thread.
    pub sequence: u32,
    /// Thread that wrote the event into its buffer. V4: OS thread id. V6: thread index.
    pub capture_thread: u64,
    /// Processor number; all bits are set if unknown.
    pub processor: u32,
    /// Thread that the event is about. V4: OS thread id. V6: thread index.
    pub thread: u64,
    /// Id of the stack; 0 if the event has no stack. See [`Stack`](crate::Stack).
    pub stack_id: u32,
    /// Time of the event, in ticks ([`TraceHeader::offset_ns`](crate::TraceHeader::offset_ns)).
    pub timestamp: i64,
    /// V6: id of the label list; 0 is the empty list.
    pub label_list: u32,
    /// V4: activity id; zero if absent.
    pub activity_id: [u8; 16],
    /// V4: related activity id; zero if absent.
    pub related_activity_id: [u8; 16],
    /// Whether no later event in the stream is older than this event.
    pub is_sorted: bool,
    /// Payload size, in bytes.
    pub payload_size: u32,
}

#[cfg(test)]
mod tests;
