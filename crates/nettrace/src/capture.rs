//! Capture threads and their numbering: how losses are known.
//!
//! A writer numbers the events of each capture thread from 1, and the number goes up for dropped events too. So
//! between two events of a thread `sequence - last - 1` were lost; a thread never seen has lost all before its first;
//! and a sequence point has the numbers at its instant, also of threads all of whose events were lost.

use std::collections::HashMap;

use crate::definitions::table_bytes;
use crate::item::Gap;

/// A difference of more is no loss: the thread id was given to a new thread, whose numbers begin anew.
pub(crate) const LONGEST_GAP: u32 = 1 << 31;

/// A capture thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CaptureThread {
    pub(crate) id: u64,
    /// The number of its last event, or of a sequence point.
    pub(crate) last: u32,
    /// When that was.
    pub(crate) ticks: Option<i64>,
    /// When it was last looked up.
    used: u64,
    /// Its first number proves nothing: earlier ones may have been forgotten.
    unproven: bool,
}

/// The capture threads of a stream.
#[derive(Debug, Default)]
pub(crate) struct CaptureThreads {
    threads: Vec<CaptureThread>,
    places: HashMap<u64, usize>,
    /// The stream's last sequence point.
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

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.threads.capacity() * size_of::<CaptureThread>() + table_bytes::<(u64, usize)>(self.places.capacity())
    }

    /// The place of a thread, for [`CaptureThreads::get_mut`], up to the next call of this.
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

    /// A sequence point at `ticks` confirms that `id` had reached the number `sequence`.
    pub(crate) fn confirm(&mut self, id: u64, sequence: u32, ticks: i64) -> Option<Gap> {
        let place = self.place(id);
        let known = self.threads.get_mut(place)?;
        let gap = known.gap(sequence.wrapping_sub(known.last), ticks);
        known.advance(sequence, ticks);
        gap
    }

    /// As [`CaptureThreads::confirm`], and the thread is gone.
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

    /// All threads of a sequence point were confirmed.
    pub(crate) fn point(&mut self, ticks: i64) {
        self.point = Some(ticks);
    }

    /// Ids mean other threads from now on.
    pub(crate) fn forget(&mut self) {
        self.threads.clear();
        self.places.clear();
    }

    /// The last number of a thread, and whether it is known: of one that may have been forgotten it is not.
    pub(crate) fn last(&self, id: u64) -> (u32, bool) {
        let place = self.places.get(&id);
        match place.and_then(|place| self.threads.get(*place)) {
            Some(known) => (known.last, !known.unproven),
            None => (0, self.forgotten == 0),
        }
    }

    /// Threads that were forgotten because there were too many.
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
    /// An event of this thread with a number other than the next one.
    #[cold]
    pub(crate) fn jump(&mut self, sequence: u32, ticks: i64) -> Option<Gap> {
        let gap = self.gap(sequence.wrapping_sub(self.last).wrapping_sub(1), ticks);
        self.advance(sequence, ticks);
        gap
    }

    /// `sequence` was seen.
    #[inline(always)]
    pub(crate) fn advance(&mut self, sequence: u32, ticks: i64) {
        self.last = sequence;
        self.ticks = Some(ticks);
        self.unproven = false;
    }

    /// Without knowing V6's thread ids: `thread` is the capture thread.
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

    /// Scenario: losses before a thread's first event, between two, before a sequence point, and of a thread without
    /// any event.
    /// Guarantee: each is counted once, between the right instants.
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

    /// Scenario: numbers wrap; and a thread id is given to a new thread, whose numbers begin at 1 again.
    /// Guarantee: the wrap is counted through, the restart is no loss.
    #[test]
    fn wraps_are_counted_through_and_restarts_are_not_losses() {
        let mut threads = CaptureThreads::new(MAX_CAPTURE_THREADS);
        event(&mut threads, 1, u32::MAX - 1, 10);
        assert_eq!(event(&mut threads, 1, 2, 20), Some((3, None.or(Some(10)), 20)));
        event(&mut threads, 1, 500, 30);
        assert_eq!(event(&mut threads, 1, 1, 40), None);
        assert_eq!(event(&mut threads, 1, 3, 50), Some((1, Some(40), 50)));
        assert_eq!(point(&mut threads, 1, 2, 60), None);
    }

    /// Scenario: more threads than the limit.
    /// Guarantee: memory is bounded, the threads heard of last are still followed, and a forgotten one that comes back
    /// is not taken for a thread that lost all its events.
    #[test]
    fn too_many_threads_do_not_become_losses() {
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

    /// Scenario: V6 removes a thread; its index is given again.
    /// Guarantee: the loss at its end is reported; the others stay known.
    #[test]
    fn removed_threads_begin_anew() {
        let mut threads = CaptureThreads::new(MAX_CAPTURE_THREADS);
        for id in 1..4 {
            event(&mut threads, id, 1, 0);
        }
        assert_eq!(threads.remove(1, 4, 9).map(|gap| gap.lost), Some(3));
        assert_eq!(event(&mut threads, 3, 3, 10), Some((1, Some(0), 10)));
        assert_eq!(event(&mut threads, 1, 1, 10), None);
    }
}
