//! Tracks the sequence numbers of capture threads to detect losses.
//!
//! A writer numbers the events of each capture thread from 1, and dropped events also get a number. Between two events
//! of a thread, `sequence - last - 1` events were lost. If a thread is new, all events before its first event were
//! lost. A sequence point contains the current numbers of all threads, including threads whose events were all lost.

use std::collections::HashMap;

use crate::definitions::table_bytes;
use crate::item::Gap;

/// Number of lost events from which a difference is not a loss. Such a difference means that the thread id was assigned
/// to a new thread, whose numbers restart at 1.
pub(crate) const LONGEST_GAP: u32 = 1 << 31;

/// A capture thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CaptureThread {
    pub(crate) id: u64,
    /// Number of the last event, or of the last sequence point.
    pub(crate) last: u32,
    /// Time of the last event or sequence point, in ticks.
    pub(crate) ticks: Option<i64>,
    /// Logical time of the last lookup.
    used: u64,
    /// Whether the first number proves no loss, because the thread was possibly known before and forgotten.
    unproven: bool,
}

/// The capture threads of a stream.
#[derive(Debug, Default)]
pub(crate) struct CaptureThreads {
    threads: Vec<CaptureThread>,
    places: HashMap<u64, usize>,
    /// Time of the last sequence point of the stream, in ticks.
    point: Option<i64>,
    clock: u64,
    forgotten: u64,
    most: usize,
}

impl CaptureThreads {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most: most.max(2),
            ..Self::default()
        }
    }

    /// Returns the heap size, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.threads.capacity() * size_of::<CaptureThread>() + table_bytes::<(u64, usize)>(self.places.capacity())
    }

    /// Returns the index of a thread for [`CaptureThreads::get_mut`]. The index is valid until the next call of this
    /// method.
    pub(crate) fn place(&mut self, id: u64) -> usize {
        self.clock += 1;
        if let Some(&place) = self.places.get(&id)
            && let Some(known) = self.threads.get_mut(place)
        {
            known.used = self.clock;
            return place;
        }
        if self.threads.len() >= self.most {
            self.forget_older_half();
        }
        let place = self.threads.len();
        self.threads.push(CaptureThread {
            id,
            last: 0,
            ticks: self.point,
            used: self.clock,
            unproven: self.forgotten > 0,
        });
        self.places.insert(id, place);
        place
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut CaptureThread> {
        self.threads.get_mut(place)
    }

    /// Records that a sequence point at `ticks` confirms the number `sequence` for thread `id`. Returns the gap before
    /// the sequence point, or `None` if no event was lost.
    pub(crate) fn confirm(&mut self, id: u64, sequence: u32, ticks: i64) -> Option<Gap> {
        let place = self.place(id);
        let known = self.threads.get_mut(place)?;
        let gap = known.gap(sequence.wrapping_sub(known.last), ticks);
        known.advance(sequence, ticks);
        gap
    }

    /// Like [`CaptureThreads::confirm`], but also removes the thread.
    pub(crate) fn remove(&mut self, id: u64, sequence: u32, ticks: i64) -> Option<Gap> {
        let gap = self.confirm(id, sequence, ticks);
        if let Some(place) = self.places.remove(&id) {
            self.threads.swap_remove(place);
            if let Some(moved) = self.threads.get(place) {
                self.places.insert(moved.id, place);
            }
        }
        gap
    }

    /// Records a sequence point after all its threads have been confirmed.
    pub(crate) fn point(&mut self, ticks: i64) {
        self.point = Some(ticks);
    }

    /// Removes all threads, because their ids will be reused.
    pub(crate) fn forget(&mut self) {
        self.threads.clear();
        self.places.clear();
    }

    /// Returns the last number of a thread, and whether this number is known. The number is unknown if the thread was
    /// possibly forgotten.
    pub(crate) fn last(&self, id: u64) -> (u32, bool) {
        let place = self.places.get(&id);
        match place.and_then(|place| self.threads.get(*place)) {
            Some(known) => (known.last, !known.unproven),
            None => (0, self.forgotten == 0),
        }
    }

    /// Returns the number of threads that were forgotten because the limit was reached.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    #[cold]
    fn forget_older_half(&mut self) {
        let middle = self.threads.len() / 2;
        self.threads
            .select_nth_unstable_by_key(middle, |thread| std::cmp::Reverse(thread.used));
        self.forgotten += (self.threads.len() - middle) as u64;
        self.threads.truncate(middle);
        self.places = self
            .threads
            .iter()
            .enumerate()
            .map(|(place, thread)| (thread.id, place))
            .collect();
    }
}

impl CaptureThread {
    /// Records an event whose number is not the expected number. Returns the gap before the event, or `None` if no
    /// event was lost.
    #[cold]
    pub(crate) fn jump(&mut self, sequence: u32, ticks: i64) -> Option<Gap> {
        let gap = self.gap(sequence.wrapping_sub(self.last).wrapping_sub(1), ticks);
        self.advance(sequence, ticks);
        gap
    }

    /// Records that `sequence` was seen at `ticks`.
    #[inline(always)]
    pub(crate) fn advance(&mut self, sequence: u32, ticks: i64) {
        self.last = sequence;
        self.ticks = Some(ticks);
        self.unproven = false;
    }

    /// Returns the gap of `lost` events, or `None` if the difference is not a loss. V6 thread ids are unknown here, so
    /// `thread` is the capture thread.
    fn gap(&self, lost: u32, before: i64) -> Option<Gap> {
        let is_gap = lost > 0 && lost < LONGEST_GAP && !self.unproven;
        is_gap.then_some(Gap {
            capture_thread: self.id,
            thread: self.id,
            lost: u64::from(lost),
            after: self.ticks,
            before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_CAPTURE_THREADS;

    fn event(threads: &mut CaptureThreads, id: u64, sequence: u32, ticks: i64) -> Option<(u64, Option<i64>, i64)> {
        let place = threads.place(id);
        let gap = threads.get_mut(place).unwrap().jump(sequence, ticks);
        gap.map(|gap| (gap.lost, gap.after, gap.before))
    }

    fn point(threads: &mut CaptureThreads, id: u64, sequence: u32, ticks: i64) -> Option<(u64, Option<i64>, i64)> {
        let gap = threads.confirm(id, sequence, ticks);
        threads.point(ticks);
        gap.map(|gap| (gap.lost, gap.after, gap.before))
    }

    /// Scenario: events are lost before a thread's first event, between two events, before a sequence point, and in a
    /// thread without any event.
    /// Guarantee: each loss is counted once, with the right interval.
    #[test]
    fn each_loss_is_counted_once() {
        let mut threads = CaptureThreads::new(MAX_CAPTURE_THREADS);
        assert_eq!(event(&mut threads, 1, 3, 10), Some((2, None, 10)));
        assert_eq!(event(&mut threads, 1, 4, 11), None);
        assert_eq!(event(&mut threads, 1, 7, 20), Some((2, Some(11), 20)));
        assert_eq!(point(&mut threads, 1, 9, 30), Some((2, Some(20), 30)));
        assert_eq!(point(&mut threads, 1, 9, 40), None);
        assert_eq!(event(&mut threads, 1, 11, 50), Some((1, Some(40), 50)));
        assert_eq!(point(&mut threads, 2, 5, 60), Some((5, Some(40), 60)));
        assert_eq!(event(&mut threads, 3, 2, 70), Some((1, Some(60), 70)));
    }

    /// Scenario: sequence numbers wrap; a thread id is assigned to a new thread, whose numbers restart at 1.
    /// Guarantee: losses across the wrap are counted, and the restart is not a loss.
    #[test]
    fn wrapped_number_is_counted_and_restart_is_not_a_loss() {
        let mut threads = CaptureThreads::new(MAX_CAPTURE_THREADS);
        event(&mut threads, 1, u32::MAX - 1, 10);
        assert_eq!(event(&mut threads, 1, 2, 20), Some((3, None.or(Some(10)), 20)));
        event(&mut threads, 1, 500, 30);
        assert_eq!(event(&mut threads, 1, 1, 40), None);
        assert_eq!(event(&mut threads, 1, 3, 50), Some((1, Some(40), 50)));
        assert_eq!(point(&mut threads, 1, 2, 60), None);
    }

    /// Scenario: a stream has more threads than the limit.
    /// Guarantee: memory is bounded, the most recently used threads are still tracked, and a forgotten thread that
    /// returns does not count as a thread that lost all its events.
    #[test]
    fn forgotten_thread_does_not_become_a_loss() {
        let mut threads = CaptureThreads::new(MAX_CAPTURE_THREADS);
        for id in 0..MAX_CAPTURE_THREADS as u64 + 1 {
            event(&mut threads, id, 1, 0);
        }
        assert!(threads.threads.len() <= MAX_CAPTURE_THREADS);
        assert!(threads.forgotten() > 0);
        assert_eq!(event(&mut threads, 0, 1000, 1), None);
        assert_eq!(event(&mut threads, 0, 1002, 2), Some((1, Some(1), 2)));
        let newest = MAX_CAPTURE_THREADS as u64;
        assert_eq!(event(&mut threads, newest, 3, 2), Some((1, Some(0), 2)));
    }

    /// Scenario: V6 removes a thread, and its index is reused.
    /// Guarantee: the loss at the end of the thread is reported, and the other threads are still tracked.
    #[test]
    fn removed_thread_restarts_numbering() {
        let mut threads = CaptureThreads::new(MAX_CAPTURE_THREADS);
        for id in 1..4 {
            event(&mut threads, id, 1, 0);
        }
        assert_eq!(threads.remove(1, 4, 9).map(|gap| gap.lost), Some(3));
        assert_eq!(event(&mut threads, 3, 3, 10), Some((1, Some(0), 10)));
        assert_eq!(event(&mut threads, 1, 1, 10), None);
    }
}
