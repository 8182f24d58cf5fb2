//! Events, threads and labels that the encoder accepts.

use crate::cursor::put_varu64;
use crate::item::Event;
use crate::labels::kinds;
use crate::metadata::put_utf8;

/// An event to write. The default has no thread, no stack, no activity and an empty payload.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventRecord<'a> {
    /// Id of the definition, see [`Metadata::id`](crate::Metadata::id).
    pub metadata_id: u32,
    /// Sequence number in the capture thread, counted from 1 and including dropped events.
    pub sequence: u32,
    /// V4: OS thread id. V6: thread index; 0 if there is no thread, in which case the event is not numbered.
    pub capture_thread: u64,
    /// V4: OS thread id. V6: thread index.
    pub thread: u64,
    /// Processor number; `None` if unknown.
    pub processor: Option<u32>,
    /// Id of a stack written by [`Encoder::stack_block`](super::Encoder::stack_block); 0 if there is no stack.
    pub stack_id: u32,
    /// Time of the event, in ticks of the header's clock.
    pub timestamp: i64,
    /// Id of the activity to which the event belongs; `None` if the event has no activity.
    pub activity_id: Option<[u8; 16]>,
    /// Id of the activity that caused the event; `None` if the event has no related activity.
    pub related_activity_id: Option<[u8; 16]>,
    /// Whether no later event of the stream is older than this event.
    pub is_sorted: bool,
    /// V6: labels in addition to the activities.
    pub labels: &'a [Label],
    /// Fields of the event, in the layout of the provider.
    pub payload: &'a [u8],
}

impl<'a> EventRecord<'a> {
    /// Creates a record from a decoded event. The record has no stack, because stack ids are local to a stream, and no
    /// labels.
    pub fn from_event(event: &Event<'a>) -> Self {
        Self {
            metadata_id: event.metadata.id,
            sequence: event.sequence,
            capture_thread: event.capture_thread,
            thread: event.thread,
            processor: event.processor,
            stack_id: 0,
            timestamp: event.timestamp,
            activity_id: event.activity_id,
            related_activity_id: event.related_activity_id,
            is_sorted: event.is_sorted,
            labels: &[],
            payload: event.payload,
        }
    }
}

/// V6: a property that several events share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// Trace id of distributed tracing.
    Trace([u8; 16]),
    /// Span id of distributed tracing.
    Span(u64),
    /// A named string.
    Text(String, String),
    /// A named number.
    Number(String, i64),
    /// Opcode that overrides the definition.
    Opcode(u8),
    /// Keywords that override the definition.
    Keywords(u64),
    /// Level that overrides the definition.
    Level(u8),
    /// Version that overrides the definition.
    Version(u8),
}

/// V6: the thread to which an index refers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadRecord<'a> {
    /// The index in events.
    pub index: u64,
    /// OS thread id; `None` if unknown.
    pub thread: Option<u64>,
    /// OS process id; `None` if unknown.
    pub process: Option<u64>,
    /// Name of the thread; `None` if the thread has no name.
    pub name: Option<&'a str>,
}

impl ThreadRecord<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_varu64(out, self.index);
        if let Some(name) = self.name {
            out.push(1);
            put_utf8(out, name);
        }
        for (kind, id) in [(2, self.process), (3, self.thread)] {
            if let Some(id) = id {
                out.push(kind);
                put_varu64(out, id);
            }
        }
    }
}

/// V6: the kinds of ids that are reused after a sequence point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forget {
    /// Thread indexes.
    pub threads: bool,
    /// Metadata ids.
    pub metadata: bool,
}

/// Encodes the labels of an event as a list. The list is empty if the event has no labels.
pub(super) fn label_list(event: &EventRecord<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut last = None;
    let mut begin = |out: &mut Vec<u8>, kind: u8| {
        last = Some(out.len());
        out.push(kind);
    };
    for (kind, id) in [
        (kinds::ACTIVITY, event.activity_id),
        (kinds::RELATED_ACTIVITY, event.related_activity_id),
    ] {
        if let Some(id) = id {
            begin(&mut out, kind);
            out.extend(id);
        }
    }
    for label in event.labels {
        begin(&mut out, label.kind());
        match label {
            Label::Trace(id) => out.extend(id),
            Label::Span(id) | Label::Keywords(id) => out.extend(id.to_le_bytes()),
            Label::Text(key, value) => {
                put_utf8(&mut out, key);
                put_utf8(&mut out, value);
            }
            Label::Number(key, value) => {
                put_utf8(&mut out, key);
                put_varu64(&mut out, (value << 1 ^ value >> 63) as u64);
            }
            Label::Opcode(value) | Label::Level(value) | Label::Version(value) => out.push(*value),
        }
    }
    if let Some(kind) = last.and_then(|last| out.get_mut(last)) {
        *kind |= kinds::LAST;
    }
    out
}

impl Label {
    fn kind(&self) -> u8 {
        match self {
            Self::Trace(_) => kinds::TRACE,
            Self::Span(_) => kinds::SPAN,
            Self::Text(..) => kinds::TEXT,
            Self::Number(..) => kinds::NUMBER,
            Self::Opcode(_) => kinds::OPCODE,
            Self::Keywords(_) => kinds::KEYWORDS,
            Self::Level(_) => kinds::LEVEL,
            Self::Version(_) => kinds::VERSION,
        }
    }
}

/// Error returned if an item cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The item does not fit into its length field or its block, or exceeds a limit of the decoder.
    #[error("{what} is too long to write")]
    TooLong {
        /// The part of the stream.
        what: &'static str,
    },
    /// The item exists only in V6.
    #[error("{what} cannot be written in V4")]
    NotInV4 {
        /// The part of the stream.
        what: &'static str,
    },
}
