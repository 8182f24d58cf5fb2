//! Events, threads and labels as the encoder takes them.

use crate::cursor::put_varu64;
use crate::item::Event;
use crate::labels::kinds;
use crate::metadata::put_utf8;

/// An event to be written. The default has nothing: no thread, no stack, no activity, an empty payload.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventRecord<'a> {
    /// Id of its definition, see [`Metadata::id`](crate::Metadata::id).
    pub metadata_id: u32,
    /// Number among the events of its capture thread, dropped ones included, from 1.
    pub sequence: u32,
    /// V4: OS thread id; V6: thread index, 0 for none (then the event is not numbered).
    pub capture_thread: u64,
    /// V4: OS thread id; V6: thread index.
    pub thread: u64,
    /// Processor, if known.
    pub processor: Option<u32>,
    /// A stack of [`Encoder::stack_block`](super::Encoder::stack_block).
    pub stack_id: u32,
    /// Ticks.
    pub timestamp: i64,
    /// The activity that it belongs to.
    pub activity_id: Option<[u8; 16]>,
    /// The activity that caused it.
    pub related_activity_id: Option<[u8; 16]>,
    /// Whether no later event of the stream is older.
    pub is_sorted: bool,
    /// V6: labels beside the activities.
    pub labels: &'a [Label],
    /// Its fields, as the provider laid them out.
    pub payload: &'a [u8],
}

impl<'a> EventRecord<'a> {
    /// A decoded event, without its stack: ids of stacks are the stream's own.
    pub fn of(event: &Event<'a>) -> Self {
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

/// V6: a property that events have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// The trace of distributed tracing.
    Trace([u8; 16]),
    /// The span of distributed tracing.
    Span(u64),
    /// A string with a name.
    Text(String, String),
    /// A number with a name.
    Number(String, i64),
    /// Instead of the definition's.
    Opcode(u8),
    /// Instead of the definition's.
    Keywords(u64),
    /// Instead of the definition's.
    Level(u8),
    /// Instead of the definition's.
    Version(u8),
}

/// V6: the thread that an index stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadRecord<'a> {
    /// The index that events have.
    pub index: u64,
    /// OS thread id.
    pub thread: Option<u64>,
    /// OS process id.
    pub process: Option<u64>,
    /// Its name.
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

/// V6: which ids are reused after a sequence point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forget {
    /// Thread indexes.
    pub threads: bool,
    /// Metadata ids.
    pub metadata: bool,
}

/// The labels of an event, as a list is written; empty when it has none.
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

/// Why something cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// It does not fit into its length field, or is beyond what the decoder reads.
    #[error("{what} is too long to be written")]
    TooLong {
        /// The part of the stream.
        what: &'static str,
    },
    /// Only V6 has it.
    #[error("{what} cannot be written in V4")]
    NotInV4 {
        /// The part of the stream.
        what: &'static str,
    },
}
