//! Items that a decoder returns.

use crate::header::{PointerSize, TraceHeader};
use crate::metadata::Metadata;

/// A part of a decoded stream.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Item<'a> {
    /// The header, which is the first item and occurs once.
    Header(&'a TraceHeader),
    /// An event selected by [`Options::interest`](crate::Options::interest).
    Event(Event<'a>),
    /// A loss of events. The decoder delivers a gap as soon as it detects the loss, before events that still wait for
    /// their order.
    Gap(Gap),
    /// The time of a sequence point, in ticks. Every older event was lost or has been processed, and no later event is
    /// older.
    SequencePoint(i64),
}

/// An event, which borrows from the decoder until the next item is requested.
#[derive(Debug, Clone)]
pub struct Event<'a> {
    /// Tag that [`Options::interest`](crate::Options::interest) returned for the definition.
    pub tag: u32,
    /// Definition of the event: provider, event id, version.
    pub metadata: &'a Metadata,
    /// Time of the event, in ticks; see [`TraceHeader::offset_ns`].
    pub timestamp: i64,
    /// OS id of the thread that the event is about. V6: the thread index if the stream does not contain the id.
    pub thread: u64,
    /// Thread that wrote the event into its buffer. Order and sequence numbers are per capture thread. V4: OS thread
    /// id. V6: thread index; 0 if one-collect does not report the thread.
    pub capture_thread: u64,
    /// V6: OS id of the process of the thread; `None` if the stream does not contain the id. V4: always `None`; see
    /// [`TraceHeader::process_id`].
    pub process: Option<u64>,
    /// Processor number; `None` if unknown. Runtimes on Linux do not write the number.
    pub processor: Option<u32>,
    /// Sequence number in the capture thread, counted from 1 (wrapping) and including dropped events.
    pub sequence: u32,
    /// Whether the writer guarantees that no event later in the stream is older.
    pub is_sorted: bool,
    /// Id of the activity to which the event belongs; `None` if the event has no activity.
    pub activity_id: Option<[u8; 16]>,
    /// Id of the activity that caused the event; `None` if the event has no related activity.
    pub related_activity_id: Option<[u8; 16]>,
    /// Call stack of the event; `None` if [`Options::stacks`](crate::Options::stacks) is not set, if the stream does
    /// not contain the stack, or if the stack was dropped at a limit.
    pub stack: Option<Stack<'a>>,
    /// Fields of the event, in the layout of the provider.
    pub payload: &'a [u8],
}

/// The return addresses of an event, innermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) pointer_size: PointerSize,
}

impl<'a> Stack<'a> {
    /// Returns the addresses as stored in the stream: little-endian pointers of the traced process, 4 or 8 bytes each
    /// ([`TraceHeader::pointer_size`]).
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the addresses, innermost first.
    pub fn frames(&self) -> impl Iterator<Item = u64> + use<'a> {
        let widen = |pointer: &[u8]| {
            pointer
                .iter()
                .rev()
                .fold(0, |address, byte| address << 8 | u64::from(*byte))
        };
        self.bytes.chunks_exact(self.pointer_size.bytes()).map(widen)
    }
}

/// Events of one capture thread that the writer dropped, detected by missing sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The capture thread. V4: OS thread id. V6: thread index.
    pub capture_thread: u64,
    /// OS id of the capture thread. V6: the thread index if the stream does not contain the id.
    pub thread: u64,
    /// Number of dropped events.
    pub lost: u64,
    /// Start of the interval that contains the loss, in ticks: the thread's last event, or the last sequence point that
    /// confirmed its number. For a new thread, the last sequence point of the stream. `None` if the interval starts
    /// with the stream.
    pub after: Option<i64>,
    /// End of the interval that contains the loss, in ticks: the thread's next event, or the sequence point that
    /// revealed the loss. If a V6 thread was removed: the next sequence point, or the newest event if no sequence point
    /// follows.
    pub before: i64,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The stream ended with the end tag. No part of the stream is missing.
    Clean,
    /// The stream ended without the end tag: the process was killed, the disk was full, or the reader stopped. Every
    /// complete block was delivered.
    Truncated {
        /// Length of the stream, in bytes.
        offset: u64,
        /// The part of the stream to which the next byte would belong.
        reading: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the stacks of a 32-bit and a 64-bit process end with an incomplete address.
    /// Guarantee: a stack returns only its complete addresses, in the pointer size of the process.
    #[test]
    fn frame_has_pointer_size_of_process() {
        let bytes = [1, 0, 0, 0x80, 2, 0, 0, 0, 9, 9];
        let four = Stack {
            bytes: &bytes,
            pointer_size: PointerSize::Four,
        };
        assert_eq!(four.frames().collect::<Vec<_>>(), [0x8000_0001, 2]);
        let eight = Stack {
            bytes: &bytes,
            pointer_size: PointerSize::Eight,
        };
        assert_eq!(eight.frames().collect::<Vec<_>>(), [0x2_8000_0001]);
    }
}
