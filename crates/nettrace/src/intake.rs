//! Turns blobs into queued events and applies the effects of each block to the state of the stream.

use std::collections::VecDeque;

use crate::blob::{BlobHeader, BlobReader, flags, malformed};
use crate::capture::CaptureThreads;
use crate::cursor::Cursor;
use crate::definitions::{Definitions, Target};
use crate::error::Error;
use crate::item::Gap;
use crate::labels::LabelLists;
use crate::limits::{Limits, MAX_QUEUED_GAPS};
use crate::metadata::Metadata;
use crate::options::{Interest, Order};
use crate::queue::{Activities, Entry, Queue};
use crate::stacks::Stacks;
use crate::stats::Stats;
use crate::threads::{Identity, ThreadIndexes};

/// Slot of a capture thread that has not been looked up yet.
const UNKNOWN_SLOT: usize = usize::MAX;

/// A sequence point, after which ids can be reused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) ticks: i64,
    forget_threads: bool,
    forget_metadata: bool,
}

/// Flags of a V6 sequence point.
pub(crate) const FORGET_THREADS: u32 = 1;
pub(crate) const FORGET_METADATA: u32 = 2;

/// The state of a stream between its blocks.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) definitions: Definitions,
    pub(crate) queue: Queue,
    pub(crate) stacks: Stacks,
    pub(crate) gaps: VecDeque<Gap>,
    pub(crate) stats: Stats,
    pub(crate) limits: Limits,
    threads: CaptureThreads,
    indexes: ThreadIndexes,
    labels: LabelLists,
    /// Losses of removed threads whose end is still unknown.
    open_gaps: Vec<Gap>,
}

impl Intake {
    pub(crate) fn new(interest: Interest, order: Order, limits: Limits) -> Self {
        Self {
            definitions: Definitions::new(interest, &limits),
            queue: Queue::new(order),
            stacks: Stacks::new(limits.max_stack_bytes),
            gaps: VecDeque::new(),
            stats: Stats::default(),
            limits,
            threads: CaptureThreads::new(limits.max_capture_threads),
            indexes: ThreadIndexes::new(limits.max_thread_indexes),
            labels: LabelLists::new(limits.max_label_lists),
            open_gaps: Vec::new(),
        }
    }

    /// Returns the heap sizes of waiting events, definitions, stacks, threads, label lists and gaps, in bytes.
    pub(crate) fn memory(&self) -> [usize; 6] {
        let gaps = self.gaps.capacity() + self.open_gaps.capacity();
        [
            self.queue.memory_bytes(),
            self.definitions.memory_bytes(),
            self.stacks.memory_bytes(),
            self.threads.memory_bytes() + self.indexes.memory_bytes(),
            self.labels.memory_bytes(),
            gaps * size_of::<Gap>(),
        ]
    }

    /// Returns the capture threads seen so far.
    pub(crate) fn capture_threads(&self) -> &CaptureThreads {
        &self.threads
    }

    /// Queues the events of a block until the end of the block, or until too many bytes or gaps wait. Returns whether
    /// the end was reached; otherwise, waiting items must be delivered before the next call.
    pub(crate) fn events<const V6: bool>(
        &mut self,
        reader: &mut BlobReader,
        content: &[u8],
        base: u64,
        compressed: bool,
    ) -> Result<bool, Error> {
        // The loop uses a copy on the stack, so the compiler need not write back fields that the loop does not change.
        let mut blob = *reader;
        let result = self.events_from::<V6>(&mut blob, content, base, compressed);
        *reader = blob;
        result
    }

    #[inline(always)]
    fn events_from<const V6: bool>(
        &mut self,
        reader: &mut BlobReader,
        content: &[u8],
        base: u64,
        compressed: bool,
    ) -> Result<bool, Error> {
        let mut target = self.definitions.target(reader.header.metadata_id);
        let mut place = UNKNOWN_SLOT;
        let mut captured = 0;
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        let mut sorted = i64::MIN;
        let (mut events, mut uninteresting) = (0, 0);
        let mut outcome = Ok(true);
        while reader.at < content.len() {
            let blob = if compressed {
                reader.compressed::<V6>(content)
            } else {
                reader.whole::<V6>(content)
            };
            let Some((which, payload)) = blob else {
                outcome = Err(malformed(base + reader.at as u64));
                break;
            };
            let header = &reader.header;
            let ticks = header.timestamp;
            events += 1;
            first = first.min(ticks);
            last = last.max(ticks);
            if which & flags::METADATA_ID != 0 {
                target = self.definitions.target(header.metadata_id);
            }
            if which & flags::SORTED != 0 {
                sorted = sorted.max(ticks);
            }
            let mut full = false;
            // V6: index 0 is not a capture thread, and events with this index are not numbered.
            if !V6 || header.capture_thread != 0 {
                if header.capture_thread != captured || place == UNKNOWN_SLOT {
                    captured = header.capture_thread;
                    place = self.capture_thread::<V6>(captured);
                }
                if let Some(thread) = self.threads.get_mut(place) {
                    if header.sequence == thread.last.wrapping_add(1) {
                        thread.advance(header.sequence, ticks);
                    } else if let Some(gap) = thread.jump(header.sequence, ticks) {
                        full = self.queue_gap::<V6>(gap);
                    }
                }
            }
            let mut target = target;
            let labels = if V6 && header.label_list != 0 {
                self.labels.get(header.label_list).copied()
            } else {
                None
            };
            if let Some(overrides) = labels.and_then(|labels| labels.overrides) {
                target = self.definitions.overridden(target, overrides);
            }
            match target {
                Target::Uninteresting(_) => uninteresting += 1,
                Target::Unknown => self.stats.unknown_metadata += 1,
                Target::Wanted(definition) => {
                    let activities = labels.map(|labels| labels.activities);
                    self.enqueue::<V6>(header, definition, activities, payload);
                    full |= self.queue.waiting_bytes() > self.limits.max_pending_bytes;
                }
            }
            if full {
                self.queue.relieve(self.limits.max_pending_bytes);
                outcome = Ok(reader.at >= content.len());
                break;
            }
        }
        if events > 0 {
            self.stats.first_event = Some(self.stats.first_event.map_or(first, |before| before.min(first)));
            self.stats.last_event = Some(self.stats.last_event.map_or(last, |before| before.max(last)));
            self.queue.release(sorted);
        }
        self.stats.events += events;
        self.stats.uninteresting += uninteresting;
        outcome
    }

    #[cold]
    fn capture_thread<const V6: bool>(&mut self, id: u64) -> usize {
        if V6 {
            self.numbered();
        }
        let place = self.threads.place(id);
        self.stats.threads_forgotten = self.threads.forgotten();
        place
    }

    #[inline(always)]
    fn enqueue<const V6: bool>(
        &mut self,
        header: &BlobHeader,
        definition: u32,
        labels: Option<Activities>,
        payload: &[u8],
    ) {
        let (mut thread, mut process) = (header.thread, None);
        let mut activities = [header.activity_id, header.related_activity_id];
        if V6 {
            let identity = self.identity(thread);
            thread = identity.thread.unwrap_or(thread);
            process = identity.process;
            activities = labels.unwrap_or_default();
        }
        let entry = Entry {
            timestamp: header.timestamp,
            thread,
            capture_thread: header.capture_thread,
            process,
            sequence: header.sequence,
            processor: header.processor,
            definition,
            stack_id: header.stack_id,
            is_sorted: header.is_sorted,
        };
        let some = activities != Activities::default();
        self.queue.push(entry, some.then_some(&activities), payload);
    }

    fn identity(&mut self, index: u64) -> Identity {
        self.indexes.resolve(index)
    }

    /// Queues a gap. Returns whether too many gaps wait.
    #[cold]
    fn queue_gap<const V6: bool>(&mut self, mut gap: Gap) -> bool {
        if V6 {
            gap.thread = self.indexes.thread(gap.capture_thread);
        }
        self.stats.lost = Some(self.stats.lost.unwrap_or_default() + gap.lost);
        self.gaps.push_back(gap);
        self.gaps.len() >= MAX_QUEUED_GAPS
    }

    /// Records that the writer numbers events, so losses can be detected.
    pub(crate) fn numbered(&mut self) {
        self.stats.lost.get_or_insert(0);
    }

    /// Decodes a V4 metadata block, which contains blobs.
    pub(crate) fn metadata_v4(&mut self, mut reader: BlobReader, content: &[u8], base: u64) -> Result<(), Error> {
        while let Some((_, payload)) = reader.next(content, base)? {
            // Only the padding of an uncompressed blob follows a payload.
            let filling = reader.at - payload.len();
            let offset = base + filling.min(content.len()) as u64;
            let metadata = Metadata::read_v4(payload, offset)?;
            self.define(metadata, offset)?;
        }
        Ok(())
    }

    /// Decodes a V6 metadata block, which contains rows.
    pub(crate) fn metadata_v6(&mut self, content: &[u8], base: u64) -> Result<(), Error> {
        let mut cursor = Cursor::new(content, base);
        // The length of this header does not include the length field.
        let header = usize::from(cursor.u16("the header of a metadata block")?);
        cursor.take(header, "the header of a metadata block")?;
        while !cursor.is_empty() {
            let length = usize::from(cursor.u16("the length of a metadata row")?);
            let offset = cursor.offset();
            let metadata = Metadata::read_v6(cursor.take(length, "a metadata row")?, offset)?;
            self.define(metadata, offset)?;
        }
        Ok(())
    }

    fn define(&mut self, metadata: Metadata, offset: u64) -> Result<(), Error> {
        self.stats.definitions += 1;
        self.definitions.define(metadata, offset)
    }

    /// Decodes a stack block.
    pub(crate) fn stack_block(&mut self, content: &[u8], base: u64) -> Result<(), Error> {
        let result = self.stacks.define(content, base);
        self.stats.stacks_dropped = self.stacks.dropped();
        result
    }

    /// Decodes a V6 thread block.
    pub(crate) fn thread_block(&mut self, content: &[u8], base: u64) -> Result<(), Error> {
        let result = self.indexes.define(content, base);
        self.stats.threads_unresolved = self.indexes.unresolved();
        result
    }

    /// Decodes a V6 label list block.
    pub(crate) fn label_block(&mut self, content: &[u8], base: u64) -> Result<(), Error> {
        self.labels.define(content, base)
    }

    /// Decodes a V6 remove-thread block, which is like a sequence point for the threads in it, but without a time.
    pub(crate) fn remove_threads(&mut self, content: &[u8], base: u64) -> Result<(), Error> {
        const READING: &str = "a row of a RemoveThread block";
        let mut cursor = Cursor::new(content, base);
        let most = self.limits.max_sequence_point_threads;
        while !cursor.is_empty() {
            let offset = cursor.offset();
            if self.gaps.len() > most {
                return Err(Error::limit(offset, READING, self.gaps.len(), most));
            }
            let (index, sequence) = (cursor.varu64(READING)?, cursor.varu32(READING)?);
            if index != 0 {
                self.numbered();
                let newest = self.newest();
                if let Some(mut gap) = self.threads.remove(index, sequence, newest) {
                    gap.thread = self.indexes.thread(index);
                    self.stats.lost = Some(self.stats.lost.unwrap_or_default() + gap.lost);
                    if self.open_gaps.len() < MAX_QUEUED_GAPS {
                        self.open_gaps.push(gap);
                    } else {
                        self.gaps.push_back(gap);
                    }
                }
            }
            self.indexes.remove(index);
        }
        Ok(())
    }

    /// Decodes a sequence point of either version and releases all waiting events.
    pub(crate) fn sequence_point<const V6: bool>(&mut self, content: &[u8], base: u64) -> Result<Point, Error> {
        const READING: &str = "a sequence point";
        let mut cursor = Cursor::new(content, base);
        let ticks = cursor.i64(READING)?;
        let forget = if V6 { cursor.u32(READING)? } else { 0 };
        let offset = cursor.offset();
        let count = cursor.u32(READING)? as usize;
        let most = self.limits.max_sequence_point_threads;
        if count > most {
            return Err(Error::limit(offset, READING, count, most));
        }
        self.close_gaps(ticks);
        for _ in 0..count {
            let (id, sequence) = if V6 {
                (cursor.varu64(READING)?, cursor.varu32(READING)?)
            } else {
                (cursor.u64(READING)?, cursor.u32(READING)?)
            };
            if V6 && id == 0 {
                continue;
            }
            self.numbered();
            if let Some(gap) = self.threads.confirm(id, sequence, ticks) {
                self.queue_gap::<V6>(gap);
            }
        }
        self.stats.threads_forgotten = self.threads.forgotten();
        self.threads.point(ticks);
        self.queue.flush();
        Ok(Point {
            ticks,
            forget_threads: forget & FORGET_THREADS != 0,
            forget_metadata: forget & FORGET_METADATA != 0,
        })
    }

    /// Completes a sequence point after all earlier events have been delivered. Ids can be reused afterwards.
    pub(crate) fn pass(&mut self, point: Point) {
        self.stacks.forget();
        self.labels.forget();
        if point.forget_threads {
            self.threads.forget();
            self.indexes.forget();
        }
        if point.forget_metadata {
            self.definitions.forget();
        }
    }

    /// Closes open gaps and releases all waiting events at the end of the stream.
    pub(crate) fn end(&mut self) {
        let newest = self.newest();
        self.close_gaps(newest);
        self.queue.flush();
    }

    fn close_gaps(&mut self, ticks: i64) {
        for mut gap in self.open_gaps.drain(..) {
            gap.before = ticks.max(gap.after.unwrap_or(ticks));
            self.gaps.push_back(gap);
        }
    }

    /// Returns the timestamp of the newest event, in ticks, or 0 if no event was read.
    fn newest(&self) -> i64 {
        self.stats.last_event.unwrap_or_default()
    }
}
