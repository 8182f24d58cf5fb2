//! Events that wait for their order.
//!
//! A stream is a sequence of runs: the events of one capture thread up to a cut-off, sorted by time, then the events of
//! the next thread. The first event of a run is marked as sorted, which guarantees that no later event in the stream is
//! older. Queued events up to the timestamp of a sorted event can therefore be released, merged across runs. All events
//! can be released at a sequence point, at the end, and if the owner calls [`Decoder::flush`](crate::Decoder::flush).
//!
//! Entries are stored in order of arrival, and payloads in an arena. A run is a range of entries with ascending
//! timestamps, regardless of the thread. The heap contains the oldest entry of each run. Memory is reused when all
//! events have been delivered, and compacted when most of them have been, so nothing is allocated in steady state.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::options::Order;

/// An event without its activities and payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) timestamp: i64,
    pub(crate) thread: u64,
    pub(crate) capture_thread: u64,
    pub(crate) process: Option<u64>,
    pub(crate) sequence: u32,
    pub(crate) processor: u32,
    /// Index of the definition.
    pub(crate) definition: u32,
    pub(crate) stack_id: u32,
    pub(crate) is_sorted: bool,
}

/// A waiting event.
#[derive(Debug, Clone, Copy)]
struct WaitingEvent {
    entry: Entry,
    content: Content,
}

/// Position of an event in the arena: its activities (two of 16 bytes each, if it has any), followed by its payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content {
    at: usize,
    payload_size: u32,
    has_activities: bool,
}

impl Content {
    fn bytes(&self) -> usize {
        self.payload_size as usize + if self.has_activities { ACTIVITIES_BYTES } else { 0 }
    }
}

/// The activities of an event. Missing ids are zero.
pub(crate) type Activities = [[u8; 16]; 2];

const ACTIVITIES_BYTES: usize = 32;

/// Size of an entry without its payload, in bytes: the entry, and its run in the worst case.
const ENTRY_BYTES: usize = size_of::<WaitingEvent>() + size_of::<EntryRun>();

/// Minimum memory for compaction, in bytes. Below this size, compaction is not worth the effort.
const COMPACTION_BYTES: usize = 16 << 10;

/// Memory that remains after a shrink, in bytes, so that an almost idle stream need not allocate memory for each event.
const KEPT_BYTES: usize = 4 << 10;

/// Amount of memory, in bytes, that is moved in less time than any receive operation takes.
const CHEAP_TO_MOVE: usize = 32 << 10;

/// A run, with its oldest undelivered entry and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EntryRun {
    timestamp: i64,
    next: usize,
    end: usize,
}

impl Ord for EntryRun {
    fn cmp(&self, other: &Self) -> Ordering {
        // If the timestamps are equal, the earlier entry in the stream comes first. Runs do not overlap, so their
        // positions decide.
        (self.timestamp, self.next).cmp(&(other.timestamp, other.next))
    }
}

impl PartialOrd for EntryRun {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A queue of events that wait for their order.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    order: Order,
    entries: Vec<WaitingEvent>,
    arena: Vec<u8>,
    /// Start of the growing run at the end of `entries`. The heap does not contain this run yet.
    growing: usize,
    heap: BinaryHeap<Reverse<EntryRun>>,
    /// Size of the waiting events, in bytes.
    waiting_bytes: usize,
    waiting: usize,
    /// Timestamp up to which events can be delivered.
    released: Option<i64>,
    /// Number of further events that can be delivered because too many wait.
    early: usize,
    /// Whether all currently waiting events can be delivered.
    flushing: bool,
    /// Buffers for compaction.
    spare_entries: Vec<WaitingEvent>,
    spare_arena: Vec<u8>,
}

/// An entry removed from the queue. The payload stays in the arena until the next push.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DequeuedEntry {
    pub(crate) entry: Entry,
    pub(crate) content: Content,
    /// Whether the entry was delivered before its order was certain.
    pub(crate) early: bool,
}

impl Queue {
    pub(crate) fn new(order: Order) -> Self {
        // With `Order::File`, no event waits: there is one run, which is released completely.
        let released = (order == Order::File).then_some(i64::MAX);
        Self {
            order,
            released,
            ..Self::default()
        }
    }

    /// Appends an event.
    #[inline(always)]
    pub(crate) fn push(&mut self, entry: Entry, activities: Option<&Activities>, payload: &[u8]) {
        if self.waiting == 0 {
            self.entries.clear();
            self.arena.clear();
            self.growing = 0;
        }
        let descends = self
            .entries
            .last()
            .is_some_and(|last| last.entry.timestamp > entry.timestamp);
        if descends && self.order == Order::Time {
            self.close_run();
        }
        let content = Content {
            at: self.arena.len(),
            payload_size: payload.len() as u32,
            has_activities: activities.is_some(),
        };
        if let Some(activities) = activities {
            self.arena.extend_from_slice(activities.as_flattened());
        }
        self.arena.extend_from_slice(payload);
        self.waiting_bytes += ENTRY_BYTES + content.bytes();
        self.waiting += 1;
        self.entries.push(WaitingEvent { entry, content });
    }

    /// Allows delivery of events up to `ticks`.
    pub(crate) fn release(&mut self, ticks: i64) {
        self.released = Some(self.released.map_or(ticks, |released| released.max(ticks)));
    }

    /// Allows delivery of all events that wait now.
    pub(crate) fn flush(&mut self) {
        self.flushing = self.waiting > 0;
    }

    /// Allows delivery of the oldest half of the events if more than `limit` bytes wait.
    pub(crate) fn relieve(&mut self, limit: usize) {
        if self.waiting_bytes > limit {
            self.early = self.waiting.div_ceil(2);
        }
    }

    /// Returns the size of the waiting events, in bytes.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Returns the heap size, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let entries = self.entries.capacity() + self.spare_entries.capacity();
        entries * size_of::<WaitingEvent>()
            + self.arena.capacity()
            + self.spare_arena.capacity()
            + self.heap.capacity() * size_of::<EntryRun>()
    }

    /// Removes and returns the next event that can be delivered, or returns `None` if no event can be delivered.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<DequeuedEntry> {
        if self.waiting == 0 {
            return None;
        }
        if self.growing < self.entries.len() {
            self.close_run();
        }
        let oldest = self.heap.peek_mut()?;
        let released = self.released.is_some_and(|released| oldest.0.timestamp <= released);
        let early = !released && !self.flushing;
        if early && self.early == 0 {
            return None;
        }
        let WaitingEvent { entry, content } = *self.entries.get(oldest.0.next)?;
        step(oldest, &self.entries);
        self.early = self.early.saturating_sub(1);
        self.waiting -= 1;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(ENTRY_BYTES + content.bytes());
        if self.waiting == 0 {
            self.flushing = false;
            self.early = 0;
        }
        Some(DequeuedEntry { entry, content, early })
    }

    /// Returns the activities and the payload of a removed entry.
    #[inline]
    pub(crate) fn content(&self, content: Content) -> (Option<&Activities>, &[u8]) {
        let mut rest = self.arena.get(content.at..).unwrap_or_default();
        let mut activities = None;
        if content.has_activities
            && let Some((both, payload)) = rest.split_first_chunk::<ACTIVITIES_BYTES>()
        {
            let (ids, _) = both.as_chunks::<16>();
            activities = ids.first_chunk::<2>();
            rest = payload;
        }
        (
            activities,
            rest.get(..content.payload_size as usize).unwrap_or_default(),
        )
    }

    /// Compacts memory if delivered events use most of it. Must not be called while a removed entry is in use.
    pub(crate) fn compact(&mut self) {
        let held = self.arena.len() + self.entries.len() * size_of::<WaitingEvent>();
        if self.waiting == 0 || held < COMPACTION_BYTES || held / 2 < self.waiting_bytes {
            return;
        }
        self.move_together();
    }

    /// Releases memory beyond the waiting events and a small reserve. A large number of waiting events is moved only if
    /// half of the memory is unused, so a stream that arrives in small chunks does not cause a move for each chunk.
    /// Must not be called while a removed entry is in use.
    pub(crate) fn shrink(&mut self) {
        let held = self.arena.capacity() + self.entries.capacity() * size_of::<WaitingEvent>();
        let enough = if held <= CHEAP_TO_MOVE { 1 } else { 2 } * self.waiting_bytes;
        if held > KEPT_BYTES.max(enough) {
            let payloads = self.waiting_bytes.saturating_sub(self.waiting * ENTRY_BYTES);
            self.spare_entries = Vec::with_capacity(self.waiting);
            self.spare_arena = Vec::with_capacity(payloads);
            self.move_together();
            self.heap.shrink_to(1);
        }
        self.spare_entries = Vec::new();
        self.spare_arena = Vec::new();
    }

    fn move_together(&mut self) {
        self.close_run();
        self.spare_entries.clear();
        self.spare_arena.clear();
        // The entries are moved in order of time, so they become one run.
        while let Some(oldest) = self.heap.peek_mut() {
            let Some(mut waiting) = self.entries.get(oldest.0.next).copied() else {
                break;
            };
            step(oldest, &self.entries);
            let content = &mut waiting.content;
            let bytes = self
                .arena
                .get(content.at..)
                .and_then(|rest| rest.get(..content.bytes()));
            content.at = self.spare_arena.len();
            self.spare_arena.extend_from_slice(bytes.unwrap_or_default());
            self.spare_entries.push(waiting);
        }
        std::mem::swap(&mut self.entries, &mut self.spare_entries);
        std::mem::swap(&mut self.arena, &mut self.spare_arena);
        self.growing = 0;
    }

    fn close_run(&mut self) {
        if let Some(first) = self.entries.get(self.growing) {
            self.heap.push(Reverse(EntryRun {
                timestamp: first.entry.timestamp,
                next: self.growing,
                end: self.entries.len(),
            }));
        }
        self.growing = self.entries.len();
    }
}

/// Advances the oldest run to its next entry, or removes the run at its end.
#[inline(always)]
fn step(mut oldest: PeekMut<'_, Reverse<EntryRun>>, entries: &[WaitingEvent]) {
    oldest.0.next += 1;
    match entries.get(oldest.0.next).filter(|_| oldest.0.next < oldest.0.end) {
        Some(next) => oldest.0.timestamp = next.entry.timestamp,
        None => {
            PeekMut::pop(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(timestamp: i64, sequence: u32) -> Entry {
        Entry {
            timestamp,
            thread: 0,
            capture_thread: 0,
            process: None,
            sequence,
            processor: 0,
            definition: 0,
            stack_id: 0,
            is_sorted: false,
        }
    }

    fn drain(queue: &mut Queue) -> Vec<(i64, u32)> {
        std::iter::from_fn(|| queue.take())
            .map(|taken| (taken.entry.timestamp, taken.entry.sequence))
            .collect()
    }

    proptest! {
        /// Scenario: events are pushed in any order and released up to arbitrary timestamps in between.
        /// Guarantee: the released events are in the order of a stable sort, each with its own payload and activities;
        /// compacting and shrinking memory do not change these events.
        #[test]
        fn release_order_is_a_stable_sort(batches in prop::collection::vec((prop::collection::vec(0_i64..50, 0..80), 0_i64..60, 0..3), 1..10)) {
            let mut queue = Queue::default();
            let mut model: Vec<(i64, u32)> = Vec::new();
            let mut sequence = 0;
            let mut released = i64::MIN;
            for (timestamps, release, then) in batches {
                for timestamp in timestamps {
                    sequence += 1;
                    model.push((timestamp, sequence));
                    let activities = [[sequence as u8; 16], [7; 16]];
                    queue.push(entry(timestamp, sequence), (sequence % 3 == 0).then_some(&activities), &sequence.to_le_bytes());
                }
                queue.release(release);
                released = released.max(release);
                if then == 2 {
                    queue.shrink();
                    let held = queue.arena.capacity() + queue.entries.capacity() * size_of::<WaitingEvent>();
                    prop_assert!(held <= KEPT_BYTES.max(2 * queue.waiting_bytes()));
                }
                if then == 1 && queue.waiting > 0 {
                    // Add unused memory, so that `compact` moves the waiting events.
                    queue.spare_arena.clear();
                    queue.arena.resize(queue.arena.len() + 8 * COMPACTION_BYTES, 0);
                    queue.compact();
                    prop_assert!(queue.arena.len() < COMPACTION_BYTES);
                }
                model.sort_by_key(|(timestamp, _)| *timestamp);
                let ready = model.partition_point(|(timestamp, _)| *timestamp <= released);
                let expected: Vec<_> = model.drain(..ready).collect();
                let mut got = Vec::new();
                while let Some(taken) = queue.take() {
                    prop_assert!(!taken.early);
                    let (activities, payload) = queue.content(taken.content);
                    prop_assert_eq!(payload, taken.entry.sequence.to_le_bytes());
                    let expected = [[taken.entry.sequence as u8; 16], [7; 16]];
                    prop_assert_eq!(activities, (taken.entry.sequence % 3 == 0).then_some(&expected));
                    got.push((taken.entry.timestamp, taken.entry.sequence));
                }
                prop_assert_eq!(got, expected);
            }
            queue.flush();
            model.sort_by_key(|(timestamp, _)| *timestamp);
            prop_assert_eq!(drain(&mut queue), model);
            prop_assert_eq!(queue.waiting_bytes(), 0);
        }
    }

    /// Scenario: more events wait than the limit allows.
    /// Guarantee: the oldest half is delivered and marked as early.
    #[test]
    fn oldest_events_are_released_at_limit() {
        let mut queue = Queue::default();
        for timestamp in [5, 1, 4, 2, 3, 6] {
            queue.push(entry(timestamp, 0), None, &[]);
        }
        queue.relieve(usize::MAX);
        assert!(queue.take().is_none());
        queue.relieve(0);
        let early: Vec<_> = std::iter::from_fn(|| queue.take())
            .map(|taken| (taken.entry.timestamp, taken.early))
            .collect();
        assert_eq!(early, [(1, true), (2, true), (3, true)]);
        queue.flush();
        assert_eq!(drain(&mut queue), [(4, 0), (5, 0), (6, 0)]);
        queue.push(entry(9, 0), None, &[]);
        assert!(
            queue.take().is_none(),
            "a flush releases only events that waited at that time"
        );
    }
}
