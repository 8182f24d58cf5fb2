//! Steps through the framing of a stream: reads tags and blocks, dispatches the content of blocks, and handles the end
//! of the input. The decoder decides which items are delivered, and when.

use super::Decoder;
use crate::blob::{BlobHeader, BlobReader, HeaderLayout};
use crate::error::Error;
use crate::frame::{self, BlockHeader, BlockKind, FrameProgress, Head, TAG_END};
use crate::header::{Format, TraceHeader};
use crate::item::Ending;
use crate::keep::{Block, BlockContent};

/// Position of the front of the input in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Prolog,
    /// A V4 tag is next.
    Object,
    /// The end tag of a V4 object is next.
    EndTag(BlockKind),
    /// A V6 block is next.
    Block,
    /// A block is being skipped; contains the number of bytes left.
    Skipping(BlockKind, usize),
    End,
}

/// An event block whose events are being queued.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenBlock {
    reader: BlobReader,
    /// Start and end of the content in the input.
    start: usize,
    end: usize,
}

/// The outcome of a step.
pub(super) enum StepOutcome {
    Done,
    /// More bytes are needed. Contains the part of the stream that is incomplete.
    Need(&'static str),
}

impl Decoder {
    /// Performs one step with the available bytes.
    pub(super) fn step(&mut self) -> Result<StepOutcome, Error> {
        if let Some(open) = self.open {
            return self.step_open(open);
        }
        let (bytes, offset) = (self.input.bytes(), self.input.offset());
        match self.place {
            Position::Prolog => match frame::prolog(bytes)? {
                FrameProgress::Part(reading) => return Ok(StepOutcome::Need(reading)),
                FrameProgress::Whole(format, length) => {
                    self.format = format;
                    self.place = if format == Format::V4 {
                        Position::Object
                    } else {
                        Position::Block
                    };
                    self.input.consume(length);
                }
            },
            Position::Object => return self.step_head(frame::object(bytes, offset)?),
            Position::Block => return self.step_head(frame::block(bytes)),
            Position::EndTag(kind) => match bytes.first() {
                None => return Ok(StepOutcome::Need(kind.reading())),
                Some(&TAG_END) => {
                    self.input.consume(1);
                    self.place = Position::Object;
                }
                Some(_) => return Err(Error::corrupt(offset, kind.reading(), "its end tag is missing")),
            },
            Position::Skipping(kind, 0) => self.place = self.after(kind),
            Position::Skipping(kind, left) => {
                let there = bytes.len().min(left);
                if there == 0 {
                    return Ok(StepOutcome::Need(kind.reading()));
                }
                self.input.consume(there);
                self.place = Position::Skipping(kind, left - there);
            }
            Position::End => {}
        }
        Ok(StepOutcome::Done)
    }

    fn step_head(&mut self, head: FrameProgress<Head>) -> Result<StepOutcome, Error> {
        let (head, length) = match head {
            FrameProgress::Part(reading) => return Ok(StepOutcome::Need(reading)),
            FrameProgress::Whole(head, length) => (head, length),
        };
        let offset = self.input.offset();
        let Head::Block(kind, size) = head else {
            self.input.consume(length);
            self.place = Position::End;
            self.ending = Some(Ending::Clean);
            self.intake.end();
            return Ok(StepOutcome::Done);
        };
        match (kind, &self.header) {
            (BlockKind::Trace, Some(_)) => {
                return Err(Error::corrupt(offset, kind.reading(), "it is a duplicate"));
            }
            (BlockKind::Trace, None) | (BlockKind::Unknown, _) | (_, Some(_)) => {}
            (_, None) => {
                return Err(Error::corrupt(
                    offset,
                    kind.reading(),
                    "it comes before the Trace object",
                ));
            }
        }
        if kind == BlockKind::Unknown || (kind == BlockKind::Stack && !self.stacks) {
            self.count(kind);
            self.input.consume(length);
            self.place = Position::Skipping(kind, size);
            return Ok(StepOutcome::Done);
        }
        let most = self.intake.limits.max_block_bytes;
        if size > most {
            return Err(Error::limit(offset, kind.reading(), size, most));
        }
        if self.input.bytes().len() < length + size {
            return Ok(StepOutcome::Need(kind.reading()));
        }
        self.count(kind);
        self.content(kind, length, length + size)
    }

    /// Processes the content of a complete block.
    fn content(&mut self, kind: BlockKind, start: usize, end: usize) -> Result<StepOutcome, Error> {
        let base = self.input.offset() + start as u64;
        let content = self.input.bytes().get(start..end).unwrap_or_default();
        if let (Some(keeper), Format::V4) = (&mut self.keeper, self.format) {
            let is = match kind {
                BlockKind::Metadata => Some(BlockContent::Definitions),
                BlockKind::Event => Some(BlockContent::Events),
                BlockKind::SequencePoint => Some(BlockContent::SequencePoint),
                _ => None,
            };
            let threads = self.intake.capture_threads();
            if let Some(is) = is {
                keeper.block(&Block { is, content, threads });
            }
        }
        match (kind, self.format) {
            (BlockKind::Trace, format) => {
                let header = match format {
                    Format::V4 => TraceHeader::read_v4(content, base)?,
                    Format::V6 { minor } => TraceHeader::read_v6(content, base, minor)?,
                };
                if format == Format::V4 {
                    self.intake.numbered();
                    if let Some(keeper) = &mut self.keeper {
                        keeper.begin(&header);
                    }
                }
                self.header = Some(header);
                self.announce = true;
            }
            (BlockKind::Event, _) => {
                let reader = self.reader(content, base)?;
                self.open = Some(OpenBlock { reader, start, end });
                return Ok(StepOutcome::Done);
            }
            (BlockKind::Metadata, Format::V4) => {
                let reader = self.reader(content, base)?;
                self.intake.metadata_v4(reader, content, base)?;
            }
            (BlockKind::Metadata, Format::V6 { .. }) => self.intake.metadata_v6(content, base)?,
            (BlockKind::SequencePoint, Format::V4) => {
                self.point = Some(self.intake.sequence_point::<false>(content, base)?);
            }
            (BlockKind::SequencePoint, Format::V6 { .. }) => {
                self.point = Some(self.intake.sequence_point::<true>(content, base)?);
            }
            (BlockKind::Stack, _) => self.intake.stack_block(content, base)?,
            (BlockKind::Thread, _) => self.intake.thread_block(content, base)?,
            (BlockKind::RemoveThread, _) => self.intake.remove_threads(content, base)?,
            (BlockKind::LabelList, _) => self.intake.label_block(content, base)?,
            (BlockKind::Unknown, _) => {}
        }
        self.input.consume(end);
        self.place = self.after(kind);
        Ok(StepOutcome::Done)
    }

    /// Queues events of the open event block until the end of the block, or until the queue is full.
    fn step_open(&mut self, mut open: OpenBlock) -> Result<StepOutcome, Error> {
        let base = self.input.offset() + open.start as u64;
        let content = self.input.bytes().get(open.start..open.end).unwrap_or_default();
        let reader = &mut open.reader;
        self.intake.queue.compact();
        let done = match reader.layout {
            HeaderLayout::V4Compressed => self.intake.events::<false>(reader, content, base, true)?,
            HeaderLayout::V4Whole => self.intake.events::<false>(reader, content, base, false)?,
            HeaderLayout::V6Compressed => self.intake.events::<true>(reader, content, base, true)?,
            HeaderLayout::V6Whole => self.intake.events::<true>(reader, content, base, false)?,
        };
        self.open = (!done).then_some(open);
        if done {
            self.input.consume(open.end);
            self.place = self.after(BlockKind::Event);
        }
        Ok(StepOutcome::Done)
    }

    /// Creates a reader for the blobs of an event block or a V4 metadata block.
    fn reader(&self, content: &[u8], base: u64) -> Result<BlobReader, Error> {
        let block = BlockHeader::read(content, base)?;
        let layout = match (self.format, block.compressed) {
            (Format::V4, true) => HeaderLayout::V4Compressed,
            (Format::V4, false) => HeaderLayout::V4Whole,
            (Format::V6 { .. }, true) => HeaderLayout::V6Compressed,
            (Format::V6 { .. }, false) => HeaderLayout::V6Whole,
        };
        let at = match layout {
            HeaderLayout::V4Whole => block.bytes.next_multiple_of(4),
            _ => block.bytes,
        };
        Ok(BlobReader {
            layout,
            header: BlobHeader::default(),
            at,
        })
    }

    /// Returns the position after a block.
    fn after(&self, kind: BlockKind) -> Position {
        match self.format {
            Format::V4 => Position::EndTag(kind),
            Format::V6 { .. } => Position::Block,
        }
    }

    fn count(&mut self, kind: BlockKind) {
        let blocks = &mut self.intake.stats.blocks;
        let count = match kind {
            BlockKind::Trace => return,
            BlockKind::Metadata => &mut blocks.metadata,
            BlockKind::Event => &mut blocks.event,
            BlockKind::Stack => &mut blocks.stack,
            BlockKind::SequencePoint => &mut blocks.sequence_point,
            BlockKind::Thread => &mut blocks.thread,
            BlockKind::RemoveThread => &mut blocks.remove_thread,
            BlockKind::LabelList => &mut blocks.label_list,
            BlockKind::Unknown => &mut blocks.unknown,
        };
        *count += 1;
    }

    /// Closes a stream whose input ends in the middle: releases all waiting events and sets the ending, or an error if
    /// the stream is empty.
    pub(super) fn cut(&mut self, reading: &'static str) {
        self.intake.end();
        let offset = self.input.offset() + self.input.bytes().len() as u64;
        if offset == 0 {
            self.failed = Some(Error::Empty);
        } else {
            self.place = Position::End;
            self.ending = Some(Ending::Truncated { offset, reading });
            let left = self.input.bytes().len();
            self.input.consume(left);
        }
    }

    /// Drops and counts bytes after the end tag.
    pub(super) fn drop_trailing(&mut self) {
        let left = self.input.bytes().len();
        self.input.consume(left);
        self.intake.stats.bytes -= left as u64;
        self.intake.stats.trailing_bytes += left as u64;
    }
}
