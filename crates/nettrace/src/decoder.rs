//! The decoder: bytes in, items out.

use crate::blob::{BlobHeader, BlobReader, HeaderLayout};
use crate::error::Error;
use crate::frame::{self, BlockHeader, BlockKind, Head, Seen, TAG_END};
use crate::header::{Format, TraceHeader};
use crate::input::Input;
use crate::intake::{Intake, Point};
use crate::item::{Ending, Event, Item, Stack};
use crate::keep::{Block, BlockContent, Keeper};
use crate::options::{Options, Order};
use crate::queue::Taken;
use crate::stats::Stats;

/// Decodes a stream as its bytes come, in pieces of any size, without doing I/O itself. See the [crate].
#[derive(Debug)]
pub struct Decoder {
    input: Input,
    place: Place,
    format: Format,
    header: Option<TraceHeader>,
    /// The header comes next.
    announce: bool,
    /// An event block at the front of the input that is being read.
    open: Option<OpenBlock>,
    intake: Intake,
    /// A sequence point that comes after what waits.
    point: Option<Point>,
    order: Order,
    stacks: bool,
    /// Takes the blocks of a V4 stream.
    keeper: Option<Box<dyn Keeper>>,
    /// The newest instant delivered.
    newest: i64,
    finished: bool,
    failed: Option<Error>,
    ending: Option<Ending>,
}

/// Where in the stream the front of the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Prolog,
    /// Before a tag of V4.
    Object,
    /// Before the end tag of an object of V4.
    EndTag(BlockKind),
    /// Before a block of V6.
    Block,
    /// So many bytes before the end of a block that is skipped.
    Skipping(BlockKind, usize),
    End,
}

/// An event block of which the events are being queued.
#[derive(Debug, Clone, Copy)]
struct OpenBlock {
    reader: BlobReader,
    /// Where in the input its content begins and ends.
    start: usize,
    end: usize,
}

/// What a step did.
enum Step {
    Done,
    /// More bytes are needed: what they are part of.
    Need(&'static str),
}

impl Decoder {
    /// A decoder before the first byte.
    pub fn new(options: Options) -> Self {
        let Options {
            order,
            stacks,
            limits,
            interest,
        } = options;
        Self {
            input: Input::default(),
            place: Place::Prolog,
            format: Format::V4,
            header: None,
            announce: false,
            open: None,
            intake: Intake::new(interest, order, limits),
            point: None,
            order,
            stacks,
            keeper: None,
            newest: i64::MIN,
            finished: false,
            failed: None,
            ending: None,
        }
    }

    /// Gives the blocks of the stream to a keeper from now on, if it is of V4. To be called before the first byte.
    pub fn keep(&mut self, keeper: Box<dyn Keeper>) {
        self.keeper = Some(keeper);
    }

    /// A place to read into, at least `min` bytes long: the decoder's own buffer. Then [`Decoder::filled`]. The buffer
    /// grows by what is put in and not yet asked out: ask for items until there is none before filling it again.
    pub fn space(&mut self, min: usize) -> &mut [u8] {
        self.input.space(min)
    }

    /// The first `n` bytes of the last [`Decoder::space`] are the next bytes of the stream.
    pub fn filled(&mut self, n: usize) {
        self.intake.stats.bytes += self.input.filled(n) as u64;
    }

    /// The next bytes of the stream, copied.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.push(bytes);
        self.intake.stats.bytes += bytes.len() as u64;
    }

    /// The next item. `None`: more bytes are needed; or, after [`Decoder::finish`] or the end tag, there are no more.
    ///
    /// # Errors
    ///
    /// When the bytes are not a readable stream, or damaged. What came before the damage is delivered before the error;
    /// every later call returns the same error.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, Error> {
        loop {
            if self.announce {
                self.announce = false;
                return Ok(self.header.as_ref().map(Item::Header));
            }
            if let Some(gap) = self.intake.gaps.pop_front() {
                return Ok(Some(Item::Gap(gap)));
            }
            if let Some(taken) = self.intake.queue.take() {
                let stats = &mut self.intake.stats;
                stats.delivered += 1;
                stats.released_early += u64::from(taken.early);
                if taken.entry.timestamp >= self.newest {
                    self.newest = taken.entry.timestamp;
                } else if self.order == Order::Time {
                    stats.late += 1;
                }
                return Ok(self.event(&taken).map(Item::Event));
            }
            if let Some(point) = self.point.take() {
                self.intake.pass(point);
                return Ok(Some(Item::SequencePoint(point.ticks)));
            }
            if let Some(error) = &self.failed {
                return Err(error.clone());
            }
            if self.place == Place::End {
                self.drop_trailing();
                return Ok(None);
            }
            match self.step() {
                Ok(Step::Done) => {}
                Ok(Step::Need(_)) if !self.finished => {
                    self.intake.queue.compact();
                    return Ok(None);
                }
                Ok(Step::Need(reading)) => self.cut(reading),
                Err(error) => {
                    self.intake.end();
                    self.failed = Some(error);
                }
            }
        }
    }

    /// A live stream is idle: all events that wait for their order may be delivered now. The runtime writes what it has
    /// about every 100 ms, so after two or three times that nothing older will come.
    pub fn flush(&mut self) {
        self.intake.queue.flush();
    }

    /// Releases unused memory. For one of many streams that are idle most of the time; a stream that is read as fast as
    /// possible should keep its buffers. Ask for items until there is none before.
    pub fn shrink(&mut self) {
        self.input.shrink();
        self.intake.queue.shrink();
    }

    /// Bytes on the heap that it holds now, those of tables by their capacity. In constant time but for the properties
    /// of a V6 header. See
    /// [`limits`](crate::limits).
    pub fn memory_bytes(&self) -> usize {
        self.memory().iter().map(|(_, bytes)| bytes).sum()
    }

    /// [`Decoder::memory_bytes`] by store, each named as in a sentence.
    pub fn memory(&self) -> [(&'static str, usize); 8] {
        let properties = self.header.iter().flat_map(|header| &header.properties);
        let properties = properties.map(|(name, value)| size_of::<(String, String)>() + name.len() + value.len());
        let [waiting, definitions, stacks, threads, labels, gaps] = self.intake.memory();
        [
            ("a block that is not whole", self.input.memory_bytes()),
            ("properties of the header", properties.sum()),
            ("events that wait for their order", waiting),
            ("definitions", definitions),
            ("stacks", stacks),
            ("threads", threads),
            ("label lists", labels),
            ("losses", gaps),
        ]
    }

    /// No more bytes will come: ask for items until there is none, then [`Decoder::ending`] is known.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The header; `None` before it was read.
    pub fn header(&self) -> Option<&TraceHeader> {
        self.header.as_ref()
    }

    /// Events, bytes and losses counted so far.
    pub fn stats(&self) -> &Stats {
        &self.intake.stats
    }

    /// How the stream ended; `None` while it has not, and after an error.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    fn event(&self, Taken { entry, content, .. }: &Taken) -> Option<Event<'_>> {
        // Every queued event has a definition.
        let (metadata, tag) = self.intake.definitions.get(entry.definition)?;
        let (activities, payload) = self.intake.queue.content(*content);
        let [activity_id, related_activity_id] = match activities {
            None => [None, None],
            Some(ids) => ids.map(|id| (id != [0; 16]).then_some(id)),
        };
        let stack = if self.stacks {
            self.intake.stacks.get(entry.stack_id)
        } else {
            None
        };
        let pointer_size = self.header.as_ref()?.pointer_size;
        Some(Event {
            tag,
            metadata,
            timestamp: entry.timestamp,
            thread: entry.thread,
            capture_thread: entry.capture_thread,
            process: entry.process,
            processor: (entry.processor != u32::MAX).then_some(entry.processor),
            sequence: entry.sequence,
            is_sorted: entry.is_sorted,
            activity_id,
            related_activity_id,
            stack: stack.map(|bytes| Stack { bytes, pointer_size }),
            payload,
        })
    }

    /// One step through the bytes that are there.
    fn step(&mut self) -> Result<Step, Error> {
        if let Some(open) = self.open {
            return self.step_open(open);
        }
        let (bytes, offset) = (self.input.bytes(), self.input.offset());
        match self.place {
            Place::Prolog => match frame::prolog(bytes)? {
                Seen::Part(reading) => return Ok(Step::Need(reading)),
                Seen::Whole(format, length) => {
                    self.format = format;
                    self.place = if format == Format::V4 {
                        Place::Object
                    } else {
                        Place::Block
                    };
                    self.input.consume(length);
                }
            },
            Place::Object => return self.step_head(frame::object(bytes, offset)?),
            Place::Block => return self.step_head(frame::block(bytes)),
            Place::EndTag(kind) => match bytes.first() {
                None => return Ok(Step::Need(kind.reading())),
                Some(&TAG_END) => {
                    self.input.consume(1);
                    self.place = Place::Object;
                }
                Some(_) => return Err(Error::corrupt(offset, kind.reading(), "its end tag is missing")),
            },
            Place::Skipping(kind, 0) => self.place = self.after(kind),
            Place::Skipping(kind, left) => {
                let there = bytes.len().min(left);
                if there == 0 {
                    return Ok(Step::Need(kind.reading()));
                }
                self.input.consume(there);
                self.place = Place::Skipping(kind, left - there);
            }
            Place::End => {}
        }
        Ok(Step::Done)
    }

    fn step_head(&mut self, head: Seen<Head>) -> Result<Step, Error> {
        let (head, length) = match head {
            Seen::Part(reading) => return Ok(Step::Need(reading)),
            Seen::Whole(head, length) => (head, length),
        };
        let offset = self.input.offset();
        let Head::Block(kind, size) = head else {
            self.input.consume(length);
            self.place = Place::End;
            self.ending = Some(Ending::Clean);
            self.intake.end();
            return Ok(Step::Done);
        };
        match (kind, &self.header) {
            (BlockKind::Trace, Some(_)) => {
                return Err(Error::corrupt(offset, kind.reading(), "there is a second one"));
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
            self.place = Place::Skipping(kind, size);
            return Ok(Step::Done);
        }
        let most = self.intake.limits.max_block_bytes;
        if size > most {
            return Err(Error::limit(offset, kind.reading(), size, most));
        }
        if self.input.bytes().len() < length + size {
            return Ok(Step::Need(kind.reading()));
        }
        self.count(kind);
        self.content(kind, length, length + size)
    }

    /// The content of a block, which is whole in the input.
    fn content(&mut self, kind: BlockKind, start: usize, end: usize) -> Result<Step, Error> {
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
                return Ok(Step::Done);
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
        Ok(Step::Done)
    }

    /// The open event block: as many events as there is place for.
    fn step_open(&mut self, mut open: OpenBlock) -> Result<Step, Error> {
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
        Ok(Step::Done)
    }

    /// A reader for the blobs of an event block, or of V4's metadata block.
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

    /// Where the input is after a block.
    fn after(&self, kind: BlockKind) -> Place {
        match self.format {
            Format::V4 => Place::EndTag(kind),
            Format::V6 { .. } => Place::Block,
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

    /// The stream ends in the middle.
    fn cut(&mut self, reading: &'static str) {
        self.intake.end();
        let offset = self.input.offset() + self.input.bytes().len() as u64;
        if offset == 0 {
            self.failed = Some(Error::Empty);
        } else {
            self.place = Place::End;
            self.ending = Some(Ending::Truncated { offset, reading });
            let left = self.input.bytes().len();
            self.input.consume(left);
        }
    }

    /// After the end tag nothing is read.
    fn drop_trailing(&mut self) {
        let left = self.input.bytes().len();
        self.input.consume(left);
        self.intake.stats.bytes -= left as u64;
        self.intake.stats.trailing_bytes += left as u64;
    }
}
