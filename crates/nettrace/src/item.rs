//! What a decoder delivers.

use crate::header::{PointerSize, TraceHeader};
use crate::metadata::Metadata;

/// The next part of the stream.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Item<'a> {
    /// The header: once, before everything else.
    Header(&'a TraceHeader),
    /// An event that [`Options::interest`](crate::Options::interest) chose.
    Event(Event<'a>),
    /// Events were lost. Delivered as soon as it is known: before the events that are still waiting for their order.
    Gap(Gap),
    /// A sequence point, in ticks: every older event was delivered (or lost), no later one is older.
    SequencePoint(i64),
}

/// An event. It borrows from the decoder until the next item is asked for.
#[derive(Debug, Clone)]
pub struct Event<'a> {
    /// The tag that [`Options::interest`](crate::Options::interest) gave its definition.
    pub tag: u32,
    /// Its definition: provider, event id, version.
    pub metadata: &'a Metadata,
    /// When, in ticks; see [`TraceHeader::offset_ns`].
    pub timestamp: i64,
    /// OS id of the thread that it is about. V6: the thread index where the stream does not have the id.
    pub thread: u64,
    /// Thread that wrote it into its buffer; order and sequence numbers are per capture thread. V4: OS id, V6: thread
    /// index (0: one-collect does not say).
    pub capture_thread: u64,
    /// V6: OS id of the thread's process. V4: `None`, [`TraceHeader::process_id`] has it.
    pub process: Option<u64>,
    /// Processor; runtimes on Linux do not write it.
    pub processor: Option<u32>,
    /// Number among the events of the capture thread, dropped ones included, from 1 (wrapping).
    pub sequence: u32,
    /// Whether the writer promised that no event later in the stream is older.
    pub is_sorted: bool,
    /// The activity that it belongs to.
    pub activity_id: Option<[u8; 16]>,
    /// The activity that caused it.
    pub related_activity_id: Option<[u8; 16]>,
    /// Where in the program it was written; only with [`Options::stacks`](crate::Options::stacks).
    pub stack: Option<Stack<'a>>,
    /// Its fields, as the provider laid them out.
    pub payload: &'a [u8],
}

/// The return addresses of an event, innermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) pointer_size: PointerSize,
}

impl<'a> Stack<'a> {
    /// The addresses as they are in the stream, pointers of the traced process.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The addresses, innermost first.
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

/// Events of one capture thread that the writer dropped: sequence numbers are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The capture thread. V4: OS thread id, V6: thread index.
    pub capture_thread: u64,
    /// OS id of that thread. V6: the index where the stream does not have the id.
    pub thread: u64,
    /// How many events were dropped.
    pub lost: u64,
    /// Ticks: they lie after this, the thread's last event or the last sequence point that confirmed its number; for a
    /// thread never seen the last sequence point of the stream. `None`: from the beginning of the stream.
    pub after: Option<i64>,
    /// Ticks: and before this, the thread's next event or the sequence point that showed the loss. (When a V6 thread
    /// was removed: the next sequence point, or the newest event where there is none.)
    pub before: i64,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With the end tag: nothing is missing.
    Clean,
    /// Without it: the process was killed, the disk was full, the reader stopped. All that was whole was delivered.
    Truncated {
        /// Bytes that there were.
        offset: u64,
        /// What the next byte would have been part of.
        reading: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a stack of a 32-bit process with half an address at its end.
    /// Guarantee: whole addresses only.
    #[test]
    fn frames_have_the_width_of_the_process() {
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
