//! Writes frames as a stream.

use std::collections::{BTreeMap, BTreeSet};

use super::{BlockContent, Frame, blobs, confirmed};
use crate::capture::LONGEST_GAP;
use crate::encode::{EncodeError, Encoder, EventRecord};
use crate::header::{Format, TraceHeader};
use crate::limits::MAX_SEQUENCE_POINT_THREADS;
use crate::metadata::Metadata;

/// A writer that creates a stream from frames; see the [module documentation](super). The bytes can be
/// [taken](Self::take) at any time, and the bytes taken so far are a readable stream.
#[derive(Debug)]
pub struct Rewriter {
    encoder: Encoder,
    defined: BTreeSet<u32>,
    threads: BTreeMap<u64, Numbers>,
    /// Timestamps of the oldest and the newest event, in ticks.
    span: Option<(i64, i64)>,
    events: u64,
    lost: u64,
    damaged: bool,
}

/// The sequence numbers of a capture thread.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    /// Newest number in the frames.
    read: u32,
    /// Newest number written.
    written: u32,
}

impl Rewriter {
    /// Creates a rewriter for a stream with this header, which is written in V4.
    ///
    /// # Errors
    ///
    /// Never fails for a header that a decoder has read.
    pub fn new(header: &TraceHeader) -> Result<Self, EncodeError> {
        Ok(Self {
            encoder: Encoder::new(Format::V4, header)?,
            defined: BTreeSet::new(),
            threads: BTreeMap::new(),
            span: None,
            events: 0,
            lost: 0,
            damaged: false,
        })
    }

    /// Adds frames. Frames with definitions must precede the events that refer to them. Damaged parts are omitted, see
    /// [`Self::is_damaged`].
    ///
    /// # Errors
    ///
    /// Returns an error if a part does not fit into the format. Blocks that a decoder has read always fit.
    pub fn frames(&mut self, frames: &[u8]) -> Result<(), EncodeError> {
        let mut frames = frames;
        while let Some((frame, rest)) = Frame::first(frames) {
            frames = rest;
            match frame.is {
                BlockContent::Definitions => self.definitions(frame.content)?,
                BlockContent::Events => self.event_block(&frame)?,
                BlockContent::SequencePoint => self.sequence_point(&frame)?,
            }
        }
        self.damaged |= !frames.is_empty();
        Ok(())
    }

    /// Removes and returns the bytes written so far, which include all frames added so far.
    ///
    /// # Errors
    ///
    /// See [`Encoder::flush`].
    pub fn take(&mut self) -> Result<Vec<u8>, EncodeError> {
        self.encoder.flush()?;
        Ok(self.encoder.take())
    }

    /// Finishes the stream and returns the bytes that were not taken.
    ///
    /// # Errors
    ///
    /// See [`Encoder::finish`].
    pub fn finish(mut self) -> Result<Vec<u8>, EncodeError> {
        if let Some((_, newest)) = self.span {
            let each = self.threads.iter().map(|(id, numbers)| (*id, numbers.written));
            let each: Vec<(u64, u32)> = each.take(MAX_SEQUENCE_POINT_THREADS).collect();
            self.encoder.sequence_point(newest, &each)?;
        }
        self.encoder.finish()
    }

    /// Returns the number of events written.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the number of lost events within the stream.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the timestamps of the oldest and the newest event, in ticks, or `None` if no event was written.
    pub fn span(&self) -> Option<(i64, i64)> {
        self.span
    }

    /// Returns whether damaged parts were omitted.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    fn definitions(&mut self, content: &[u8]) -> Result<(), EncodeError> {
        let Some(mut reader) = blobs(content) else {
            self.damaged = true;
            return Ok(());
        };
        loop {
            match reader.next(content, 0) {
                Ok(None) => return Ok(()),
                Ok(Some((_, payload))) => {
                    let Ok(metadata) = Metadata::read_v4(payload, 0) else {
                        self.damaged = true;
                        return Ok(());
                    };
                    // In V4, the meaning of an id does not change.
                    if self.defined.insert(metadata.id) {
                        self.encoder.definition_v4(payload)?;
                    }
                }
                Err(_) => {
                    self.damaged = true;
                    return Ok(());
                }
            }
        }
    }

    fn event_block(&mut self, frame: &Frame<'_>) -> Result<(), EncodeError> {
        self.meet(frame);
        let Some(mut reader) = blobs(frame.content) else {
            self.damaged = true;
            return Ok(());
        };
        loop {
            let payload = match reader.next(frame.content, 0) {
                Ok(None) => break,
                Ok(Some((_, payload))) => payload,
                Err(_) => {
                    self.damaged = true;
                    break;
                }
            };
            let header = reader.header;
            let sequence = self.renumber(header.capture_thread, header.sequence, 1);
            self.events += 1;
            let ticks = header.timestamp;
            let (oldest, newest) = self.span.unwrap_or((ticks, ticks));
            self.span = Some((oldest.min(ticks), newest.max(ticks)));
            self.encoder.event(&EventRecord {
                metadata_id: header.metadata_id,
                sequence,
                capture_thread: header.capture_thread,
                processor: Some(header.processor),
                thread: header.thread,
                timestamp: ticks,
                activity_id: Some(header.activity_id),
                related_activity_id: Some(header.related_activity_id),
                is_sorted: header.is_sorted,
                payload,
                ..EventRecord::default()
            })?;
        }
        // The original block boundaries are kept, so no event is held back.
        self.encoder.flush()
    }

    fn sequence_point(&mut self, frame: &Frame<'_>) -> Result<(), EncodeError> {
        self.meet(frame);
        let Some(ticks) = frame.content.first_chunk().map(|ticks| i64::from_le_bytes(*ticks)) else {
            self.damaged = true;
            return Ok(());
        };
        let each: Vec<(u64, u32)> = confirmed(frame.content)
            .map(|(id, sequence)| (id, self.renumber(id, sequence, 0)))
            .take(MAX_SEQUENCE_POINT_THREADS)
            .collect();
        self.encoder.sequence_point(ticks, &each)
    }

    /// Adds threads that no earlier frame contained.
    fn meet(&mut self, frame: &Frame<'_>) {
        for (id, last, known) in frame.befores() {
            // If the number is unknown, the thread is not added, so that its first number proves no loss.
            if known {
                self.threads.entry(id).or_insert(Numbers { read: last, written: 0 });
            }
        }
    }

    /// Returns the number of an event (`counts` is 1) or of a thread in a sequence point (`counts` is 0) in the written
    /// stream.
    fn renumber(&mut self, id: u64, sequence: u32, counts: u32) -> u32 {
        let unproven = Numbers {
            read: sequence.wrapping_sub(counts),
            written: 0,
        };
        let numbers = self.threads.entry(id).or_insert(unproven);
        let lost = sequence.wrapping_sub(numbers.read).wrapping_sub(counts);
        numbers.read = sequence;
        // A difference of at least `LONGEST_GAP` is not a loss: the thread id was assigned to a new thread.
        let lost = if lost < LONGEST_GAP { lost } else { 0 };
        self.lost += u64::from(lost);
        numbers.written = numbers.written.wrapping_add(lost).wrapping_add(counts);
        numbers.written
    }
}
