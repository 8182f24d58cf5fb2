//! The decoder: bytes in, items out.

mod step;

use crate::error::Error;
use crate::header::{Format, TraceHeader};
use crate::input::Input;
use crate::intake::{Intake, Point};
use crate::item::{Ending, Event, Item, Stack};
use crate::keep::Keeper;
use crate::options::{Options, Order};
use crate::queue::Taken;
use crate::stats::Stats;
use step::{Decoded, OpenBlock, Position};

/// Decodes a stream as its bytes come, in pieces of any size, without doing I/O itself. See the [crate].
#[derive(Debug)]
pub struct Decoder {
    input: Input,
    place: Position,
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
            place: Position::Prolog,
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
            if self.place == Position::End {
                self.drop_trailing();
                return Ok(None);
            }
            match self.step() {
                Ok(Decoded::Done) => {}
                Ok(Decoded::Need(_)) if !self.finished => {
                    self.intake.queue.compact();
                    return Ok(None);
                }
                Ok(Decoded::Need(reading)) => self.cut(reading),
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
}
