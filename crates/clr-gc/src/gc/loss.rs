//! Intervals in which events are known to be missing.

/// Maximum number of separate intervals per process. If there are more intervals, the two nearest intervals are merged.
/// The merge can mark more collections as lossy, but never fewer.
pub const MAX_LOSS_INTERVALS: usize = 4096;

/// Disjoint, sorted intervals in nanoseconds since the sync point. The ends are exclusive: missing events lie strictly
/// between two observed events.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossIntervals {
    intervals: Vec<(i64, i64)>,
}

impl LossIntervals {
    /// Records that events are missing between `after` and `before`. `after` is `None` for the start of the stream.
    pub(crate) fn add(&mut self, after: Option<i64>, before: i64) {
        let (mut from, mut to) = (after.unwrap_or(i64::MIN), before);
        if from >= to {
            return;
        }
        let first = self.intervals.partition_point(|&(_, end)| end < from);
        let last = self.intervals.partition_point(|&(start, _)| start <= to);
        for &(start, end) in self.intervals.get(first..last).unwrap_or_default() {
            from = from.min(start);
            to = to.max(end);
        }
        self.intervals.splice(first..last.max(first), [(from, to)]);
        if self.intervals.len() > MAX_LOSS_INTERVALS {
            self.join_nearest();
        }
    }

    /// Returns the number of bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.intervals.capacity() * size_of::<(i64, i64)>()
    }

    /// Returns whether no events are missing.
    pub(crate) fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Returns whether events are missing strictly between `from` and `to`.
    pub(crate) fn overlap(&self, from: i64, to: i64) -> bool {
        let first = self.intervals.partition_point(|&(_, end)| end <= from);
        self.intervals.get(first).is_some_and(|&(start, _)| start < to)
    }

    /// Drops intervals before `time`, which no open operation reaches back to.
    pub(crate) fn forget_before(&mut self, time: i64) {
        let gone = self.intervals.partition_point(|&(_, end)| end <= time);
        self.intervals.drain(..gone);
    }

    fn join_nearest(&mut self) {
        let distance = |pair: &[(i64, i64)]| match pair {
            [(_, end), (start, _)] => start.saturating_sub(*end),
            _ => i64::MAX,
        };
        let nearest = self
            .intervals
            .windows(2)
            .enumerate()
            .min_by_key(|(_, pair)| distance(pair))
            .map(|(index, _)| index);
        if let Some(index) = nearest
            && let (Some(&(from, _)), Some(&(_, to))) = (self.intervals.get(index), self.intervals.get(index + 1))
        {
            self.intervals.splice(index..index + 2, [(from, to)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(intervals: &[(i64, i64)]) -> LossIntervals {
        let mut losses = LossIntervals::default();
        for &(after, before) in intervals {
            losses.add(Some(after), before);
        }
        losses
    }

    /// Scenario: intervals arrive in any order and overlap.
    /// Guarantee: the intervals are kept sorted and merged.
    #[test]
    fn intervals_are_merged() {
        assert_eq!(
            losses(&[(50, 60), (10, 20), (15, 30), (60, 70), (5, 6)]).intervals,
            [(5, 6), (10, 30), (50, 70)]
        );
        assert_eq!(losses(&[(10, 10), (9, 3)]).intervals, []);
    }

    /// Scenario: some times touch an interval, and others reach into it.
    /// Guarantee: only times that reach into the interval overlap, because its ends are observed events.
    #[test]
    fn ends_of_interval_are_exclusive() {
        let losses = losses(&[(10, 20), (40, 50)]);
        assert!(!losses.overlap(0, 10) && !losses.overlap(20, 40) && !losses.overlap(50, 90));
        assert!(losses.overlap(0, 11) && losses.overlap(19, 40) && losses.overlap(12, 13) && losses.overlap(0, 90));
        let mut unbounded = LossIntervals::default();
        unbounded.add(None, 5);
        assert!(unbounded.overlap(i64::MIN, 3));
    }

    /// Scenario: more intervals are added than are kept.
    /// Guarantee: no lost time is forgotten, and the number of intervals is bounded.
    #[test]
    fn nearest_intervals_are_merged_beyond_limit() {
        let mut losses = LossIntervals::default();
        for index in 0..2 * MAX_LOSS_INTERVALS as i64 {
            losses.add(Some(index * 10), index * 10 + 1);
        }
        assert_eq!(losses.intervals.len(), MAX_LOSS_INTERVALS);
        assert!((0..2 * MAX_LOSS_INTERVALS as i64).all(|index| losses.overlap(index * 10, index * 10 + 1)));
    }
}
