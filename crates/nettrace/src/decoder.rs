//! The decoder, which turns bytes into items.

mod step;

use crate::error::Error;
use crate::header::{Format, TraceHeader};
use crate::input::Input;
use crate::intake::{Intake, Point};
use crate::item::{Ending, Event, Item, Stack};
use crate::keep::Keeper;
use crate::options::{Options, Order};
use crate::queue::DequeuedEntry;
use crate::stats::Stats;
use step::{OpenBlock, Position, StepOutcome};

/// A decoder for streams that arrive in chunks of any size. The decoder performs no I/O. See the [crate
/// documentation](crate).
#[derive(Debug)]
pub struct Decoder {
    input: Input,
    place: Position,
    format: Format,
    header: Option<TraceHeader>,
    /// Whether the header is the next item.
    announce: bool,
    /// The event block that is being decoded, at the front of the input; `None` between event blocks.
    open: Option<OpenBlock>,
    intake: Intake,
    /// A sequence point to deliver after the waiting events; `None` if no sequence point waits.
    point: Option<Point>,
    order: Order,
    stacks: bool,
    /// Receiver of the blocks of a V4 stream; `None` if [`Decoder::keep`] was not called.
    keeper: Option<Box<dyn Keeper>>,
    /// Timestamp of the newest delivered event, in ticks.
    newest: i64,
    finished: bool,
    failed: Option<Error>,
    ending: Option<Ending>,
}

impl Decoder {
    /// Creates a decoder.
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

    /// Passes the blocks of the stream to a keeper if the stream is V4; the blocks of V6 streams are not passed. Call
    /// this method before the first byte, because the keeper does not receive earlier blocks.
    pub fn keep(&mut self, keeper: Box<dyn Keeper>) {
        self.keeper = Some(keeper);
    }

    /// Returns a buffer of at least `min` bytes to read into, which belongs to the decoder. Call [`Decoder::filled`]
    /// afterwards. The buffer grows with bytes that have not been consumed, so call [`Decoder::next_item`] until it
    /// returns `None` before filling it again.
    pub fn space(&mut self, min: usize) -> &mut [u8] {
        self.input.space(min)
    }

    /// Declares that the first `n` bytes of the last [`Decoder::space`] are the next bytes of the stream. A number that
    /// exceeds the length of this buffer is reduced to the length.
    pub fn filled(&mut self, n: usize) {
        self.intake.stats.bytes += self.input.filled(n) as u64;
    }

    /// Appends a copy of the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.push(bytes);
        self.intake.stats.bytes += bytes.len() as u64;
    }

    /// Returns the next item, or `None` if more bytes are needed. After [`Decoder::finish`] or the end tag, `None`
    /// means that there are no more items.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a supported stream, are damaged, or exceed a [limit](crate::limits). Items
    /// before the damage are delivered before the error. Every later call returns the same error.
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
                Ok(StepOutcome::Done) => {}
                Ok(StepOutcome::Need(_)) if !self.finished => {
                    self.intake.queue.compact();
                    return Ok(None);
                }
                Ok(StepOutcome::Need(reading)) => self.cut(reading),
                Err(error) => {
                    self.intake.end();
                    self.failed = Some(error);
                }
            }
        }
    }

    /// Releases all events that wait for their order. Call this method if a live stream is idle. The runtime writes its
    /// buffers about every 100 ms, so no older event arrives after 200 to 300 ms without data.
    pub fn flush(&mut self) {
        self.intake.queue.flush();
    }

    /// Releases unused memory. Before calling this method, call [`Decoder::next_item`] until it returns `None`. This
    /// method is for streams that are idle most of the time; a stream that is read at full speed should keep its
    /// buffers.
    pub fn shrink(&mut self) {
        self.input.shrink();
        self.intake.queue.shrink();
    }

    /// Returns the current heap size, in bytes, with tables counted by capacity. Runs in constant time, except for the
    /// properties of a V6 header. See [`limits`](crate::limits).
    pub fn memory_bytes(&self) -> usize {
        self.memory().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the name of each store in [`Decoder::memory_bytes`] and its size, in bytes. The names are noun phrases
    /// for messages.
    pub fn memory(&self) -> [(&'static str, usize); 8] {
        let properties = self.header.iter().flat_map(|header| &header.properties);
        let properties = properties.map(|(name, value)| size_of::<(String, String)>() + name.len() + value.len());
        let [waiting, definitions, stacks, threads, labels, gaps] = self.intake.memory();
        [
            ("an incomplete block", self.input.memory_bytes()),
            ("properties of the header", properties.sum()),
            ("events that wait for their order", waiting),
            ("definitions", definitions),
            ("stacks", stacks),
            ("threads", threads),
            ("label lists", labels),
            ("losses", gaps),
        ]
    }

    /// Declares the end of the input. Call [`Decoder::next_item`] until it returns `None`; afterwards
    /// [`Decoder::ending`] is available.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Returns the header, or `None` if it has not been read yet.
    pub fn header(&self) -> Option<&TraceHeader> {
        self.header.as_ref()
    }

    /// Returns the counters of the stream so far.
    pub fn stats(&self) -> &Stats {
        &self.intake.stats
    }

    /// Returns how the stream ended, or `None` if the stream has not ended or the decoder has failed.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    fn event(&self, DequeuedEntry { entry, content, .. }: &DequeuedEntry) -> Option<Event<'_>> {
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
