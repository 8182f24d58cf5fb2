//! Writes streams that the decoder of this crate and other tools can read: retained live events, and streams for tests.
//!
//! The caller provides the values that only the caller knows: sequence numbers that start at 1 per capture thread,
//! timestamps that increase per capture thread, and `is_sorted` only for events that no older event follows. The
//! encoder creates blocks of about 100 KiB, writes definitions and stacks before the events that refer to them,
//! delta-encodes headers, aligns blocks, and writes a sequence point before the end.
//!
//! ```
//! use nettrace::encode::{Encoder, EventRecord};
//! use nettrace::{Decoder, Format, Item, Metadata, Options, SystemTime, TraceHeader};
//!
//! let header = TraceHeader {
//!     system_time: SystemTime { year: 2025, month: 3, day_of_week: 6, day: 1, ..SystemTime::default() },
//!     sync_ticks: 1000,
//!     process_id: Some(1),
//!     processors: Some(2),
//!     ..TraceHeader::default()
//! };
//! let mut encoder = Encoder::new(Format::V4, &header)?;
//! encoder.metadata(&Metadata { id: 1, provider: "My-Provider".into(), event_id: 7, ..Metadata::default() })?;
//! encoder.event(&EventRecord {
//!     metadata_id: 1,
//!     sequence: 1,
//!     capture_thread: 42,
//!     thread: 42,
//!     timestamp: 1500,
//!     payload: b"hello",
//!     ..EventRecord::default()
//! })?;
//! let stream = encoder.finish()?;
//!
//! let mut decoder = Decoder::new(Options::default());
//! decoder.push(&stream);
//! assert!(matches!(decoder.next_item()?, Some(Item::Header(_))));
//! let Some(Item::Event(event)) = decoder.next_item()? else { panic!() };
//! assert_eq!((event.metadata.event_id, event.payload), (7, &b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blobs;
mod block;
mod record;
mod thread;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use self::record::{EncodeError, EventRecord, Forget, Label, ThreadRecord};

use self::blobs::Blobs;
use self::block::length;
use crate::blob::BlobHeader;
use crate::frame::{BlockKind, MAGIC, MAJOR_VERSION, SERIALIZATION, TAG_NULL};
use crate::header::{Format, TraceHeader};
use crate::limits::MAX_LABEL_LISTS;
use crate::metadata::Metadata;

/// Maximum size of the blobs in a block, in bytes, as in the runtime. The next blob starts a new block.
pub const BLOCK_BYTES: usize = 100 << 10;

/// An encoder that writes a stream into memory. Call [`Encoder::take`] to remove the bytes written so far, or
/// [`Encoder::finish`] to finish the stream and get the remaining bytes.
#[derive(Debug)]
pub struct Encoder {
    format: Format,
    out: Vec<u8>,
    /// Number of bytes that were taken before the bytes in `out`. Alignment is relative to the start of the stream.
    taken: u64,
    metadata: Blobs,
    /// V6: rows of the next metadata block.
    rows: Vec<u8>,
    stack_blocks: Vec<Vec<u8>>,
    thread_rows: Vec<u8>,
    /// V6: label lists that have not been written yet, their number, and the ids of all lists since the last sequence
    /// point.
    lists: Vec<u8>,
    lists_count: u32,
    list_ids: HashMap<Vec<u8>, u32>,
    events: Blobs,
    defined: BTreeSet<u32>,
    /// Last sequence number of each capture thread, for the final sequence point.
    sequences: BTreeMap<u64, u32>,
    newest: i64,
    /// Whether events were written after the last sequence point.
    unconfirmed: bool,
}

impl Encoder {
    /// Creates an encoder. `format` takes precedence over the format in the header. Headers of events are compressed.
    ///
    /// V4 has no value for unknown: an unknown process id, number of processors or sampling interval is written as 0,
    /// and [`TraceHeader::properties`] are not written.
    ///
    /// # Errors
    ///
    /// Returns an error if the properties of the header are too long.
    pub fn new(format: Format, header: &TraceHeader) -> Result<Self, EncodeError> {
        let mut encoder = Self {
            format,
            out: MAGIC.to_vec(),
            taken: 0,
            metadata: Blobs::new(format),
            rows: Vec::new(),
            stack_blocks: Vec::new(),
            thread_rows: Vec::new(),
            lists: Vec::new(),
            lists_count: 0,
            list_ids: HashMap::new(),
            events: Blobs::new(format),
            defined: BTreeSet::new(),
            sequences: BTreeMap::new(),
            newest: header.sync_ticks,
            unconfirmed: false,
        };
        let mut content = Vec::new();
        header.write_clock(&mut content);
        match format {
            Format::V4 => {
                encoder.out.extend((SERIALIZATION.len() as u32).to_le_bytes());
                encoder.out.extend(SERIALIZATION);
                for number in [header.process_id, header.processors, header.sampling_rate_ns] {
                    content.extend(number.unwrap_or_default().to_le_bytes());
                }
            }
            Format::V6 { minor } => {
                for number in [0, MAJOR_VERSION, minor] {
                    encoder.out.extend(number.to_le_bytes());
                }
                header.write_properties(&mut content);
            }
        }
        encoder.block(BlockKind::Trace, &content)?;
        Ok(encoder)
    }

    /// Sets whether the headers of events are delta-encoded. The default is `true`.
    pub fn compressed(mut self, compressed: bool) -> Self {
        self.metadata.compressed = compressed;
        self.events.compressed = compressed;
        self
    }

    /// Defines a kind of event. A definition with the id of an earlier definition replaces this definition for later
    /// events.
    ///
    /// # Errors
    ///
    /// Returns an error if a part of the definition is too long for the format.
    pub fn metadata(&mut self, metadata: &Metadata) -> Result<(), EncodeError> {
        if !self.defined.insert(metadata.id) {
            // Earlier events refer to the old definition.
            self.flush()?;
        }
        match self.format {
            Format::V4 => {
                let mut payload = Vec::new();
                metadata.write_v4(&mut payload);
                self.definition_v4(&payload)?;
            }
            Format::V6 { .. } => {
                let row = metadata
                    .write_v6()
                    .ok_or(EncodeError::TooLong { what: "a definition" })?;
                if self.rows.len() + row.len() > BLOCK_BYTES {
                    self.flush()?;
                }
                // `write_v6` returns `None` for a row that does not fit into its length field.
                self.rows.extend((row.len() as u16).to_le_bytes());
                self.rows.extend(row);
            }
        }
        Ok(())
    }

    /// Writes the definition of a new kind of event (V4) from the payload of the definition.
    pub(crate) fn definition_v4(&mut self, payload: &[u8]) -> Result<(), EncodeError> {
        let header = BlobHeader {
            processor: u32::MAX,
            timestamp: self.newest,
            is_sorted: true,
            payload_size: length(payload.len(), "a definition")?,
            ..BlobHeader::default()
        };
        if self.metadata.is_full(payload.len()) {
            self.flush()?;
        }
        self.metadata.push(&header, payload);
        Ok(())
    }

    /// Writes an event. The encoder does not check whether the event has a definition
    /// ([`EventRecord::metadata_id`]).
    ///
    /// # Errors
    ///
    /// Returns an error if a part of the event is too long for the format, if a V4 event has labels, or if the events
    /// since the last sequence point have more than [`MAX_LABEL_LISTS`] different label lists.
    pub fn event(&mut self, event: &EventRecord<'_>) -> Result<(), EncodeError> {
        let payload_size = length(event.payload.len(), "a payload")?;
        let label_list = self.label_list(event)?;
        let v4 = self.format == Format::V4;
        let activity = |id: Option<[u8; 16]>| if v4 { id.unwrap_or_default() } else { [0; 16] };
        let header = BlobHeader {
            metadata_id: event.metadata_id,
            sequence: event.sequence,
            capture_thread: event.capture_thread,
            processor: event.processor.unwrap_or(u32::MAX),
            thread: event.thread,
            stack_id: event.stack_id,
            timestamp: event.timestamp,
            label_list,
            activity_id: activity(event.activity_id),
            related_activity_id: activity(event.related_activity_id),
            is_sorted: event.is_sorted,
            payload_size,
        };
        if self.events.is_full(event.payload.len()) {
            self.flush()?;
        }
        self.events.push(&header, event.payload);
        self.newest = self.newest.max(event.timestamp);
        self.unconfirmed = true;
        if v4 || event.capture_thread != 0 {
            self.sequences.insert(event.capture_thread, event.sequence);
        }
        Ok(())
    }

    /// Returns the id of an event's labels, or 0 if the event has no labels. The labels are written with the next event
    /// block.
    fn label_list(&mut self, event: &EventRecord<'_>) -> Result<u32, EncodeError> {
        if self.format == Format::V4 {
            return if event.labels.is_empty() {
                Ok(0)
            } else {
                Err(EncodeError::NotInV4 { what: "a label" })
            };
        }
        let list = record::label_list(event);
        if list.is_empty() {
            return Ok(0);
        }
        let next = length(self.list_ids.len() + 1, "the label lists between two sequence points")?;
        let id = *self.list_ids.entry(list).or_insert_with_key(|list| {
            self.lists.extend(list);
            self.lists_count += 1;
            next
        });
        if id as usize > MAX_LABEL_LISTS {
            return Err(EncodeError::TooLong {
                what: "the label lists between two sequence points",
            });
        }
        Ok(id)
    }

    /// Defines stacks with consecutive ids, starting with `first_id`, for events before the next sequence point. Each
    /// stack is a list of little-endian pointers of the traced process, innermost first.
    ///
    /// # Errors
    ///
    /// Returns an error if the stacks do not fit into a block.
    pub fn stack_block(&mut self, first_id: u32, stacks: &[&[u8]]) -> Result<(), EncodeError> {
        let mut content = first_id.to_le_bytes().to_vec();
        content.extend(length(stacks.len(), "a stack block")?.to_le_bytes());
        for stack in stacks {
            content.extend(length(stack.len(), "a stack")?.to_le_bytes());
            content.extend(*stack);
        }
        length(content.len(), "a stack block")?;
        self.stack_blocks.push(content);
        Ok(())
    }

    /// Completes open blocks, so that [`Encoder::take`] returns all events written so far.
    ///
    /// # Errors
    ///
    /// Returns an error if a block is too long for the format. The methods of this type do not create such blocks.
    pub fn flush(&mut self) -> Result<(), EncodeError> {
        let newest = self.newest;
        if !self.metadata.is_empty() {
            let content = self.metadata.take(newest);
            self.block(BlockKind::Metadata, &content)?;
        }
        if !self.rows.is_empty() {
            // The block has an empty header.
            let content = [&[0, 0], &self.rows[..]].concat();
            self.rows.clear();
            self.block(BlockKind::Metadata, &content)?;
        }
        for content in std::mem::take(&mut self.stack_blocks) {
            self.block(BlockKind::Stack, &content)?;
        }
        if !self.thread_rows.is_empty() {
            let content = std::mem::take(&mut self.thread_rows);
            self.block(BlockKind::Thread, &content)?;
        }
        if self.lists_count > 0 {
            let first = length(self.list_ids.len() + 1, "a label list block")?.saturating_sub(self.lists_count);
            let head = [first.to_le_bytes(), self.lists_count.to_le_bytes()].concat();
            let content = [head, std::mem::take(&mut self.lists)].concat();
            self.lists_count = 0;
            self.block(BlockKind::LabelList, &content)?;
        }
        if !self.events.is_empty() {
            let content = self.events.take(newest);
            self.block(BlockKind::Event, &content)?;
        }
        Ok(())
    }

    /// Removes and returns the bytes written so far. Open blocks are not included.
    pub fn take(&mut self) -> Vec<u8> {
        self.taken += self.out.len() as u64;
        std::mem::take(&mut self.out)
    }

    /// Finishes the stream and returns the bytes that were not taken. Writes a sequence point if events follow the last
    /// sequence point.
    ///
    /// # Errors
    ///
    /// See [`Encoder::sequence_point`].
    pub fn finish(mut self) -> Result<Vec<u8>, EncodeError> {
        self.flush()?;
        if self.unconfirmed {
            let threads: Vec<_> = self
                .sequences
                .iter()
                .map(|(thread, sequence)| (*thread, *sequence))
                .collect();
            self.sequence_point(self.newest, &threads)?;
        }
        match self.format {
            Format::V4 => self.out.push(TAG_NULL),
            Format::V6 { .. } => self.out.extend([0; 4]),
        }
        Ok(self.out)
    }
}
