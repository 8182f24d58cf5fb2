//! The collector's stops, built from their start and end events and retained while a request can need them.
//!
//! The events of a stop are paired per thread, as in `clr_gc::gc`. The collections of `clr_gc` are not used, because
//! the first stop of a background collection is reported only after the whole collection. By then, a request that was
//! stopped has long ended.

use std::collections::VecDeque;

use clr_gc::event::{ClrEvent, GcType, SuspendReason};

/// Maximum number of retained stops of a live process: about one minute at 250 stops per second.
pub const MAX_STOPS: usize = 16_384;
/// Maximum number of concurrent open stops, one per thread.
const MAX_OPEN: usize = 64;

/// A stop of the collector, in nanoseconds since the sync point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// Time of SuspendEEBegin.
    pub begin: i64,
    /// Time of RestartEEBegin, at which the collector releases the threads. The pauses of collections use RestartEEEnd,
    /// but the thread that wakes the other threads is often overtaken by them. On a busy machine, it writes
    /// RestartEEEnd milliseconds later, while requests already run.
    pub end: i64,
    /// Number of the collection that caused the stop; `None` if no collection ran in the stop.
    pub collection: Option<u32>,
    /// Generation of the collection; `None` if the stop did not contain GCStart.
    pub generation: Option<u32>,
    /// Whether the stop is one of the two stops of a background collection.
    pub background: bool,
}

#[derive(Debug)]
struct OpenStop {
    thread: u64,
    reason: SuspendReason,
    has_collection: bool,
    restarting: Option<i64>,
    /// Number of stops that started later and have already ended.
    overtaken: u8,
    stop: Stop,
}

/// The stops of one process.
#[derive(Debug)]
pub struct Stops {
    open: Vec<OpenStop>,
    closed: VecDeque<Stop>,
    keep_ns: i64,
    most: usize,
    /// Time since which all stops are known; `None` before the session has started.
    since: Option<i64>,
    /// Time of the newest event of a stop or a collection start; `i64::MIN` before the first event.
    newest: i64,
}

impl Stops {
    /// Creates a store that retains stops for `keep_ns` nanoseconds, and at most `most` stops.
    pub fn new(keep_ns: i64, most: usize) -> Self {
        Self {
            open: Vec::new(),
            closed: VecDeque::new(),
            keep_ns,
            most,
            since: None,
            newest: i64::MIN,
        }
    }

    /// Records the start of the session. Earlier stops were not seen.
    pub fn begin(&mut self, at: i64) {
        self.since.get_or_insert(at);
    }

    /// Returns the heap size, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.closed.capacity() * size_of::<Stop>() + self.open.capacity() * size_of::<OpenStop>()
    }

    /// Returns whether every stop since `from` is known.
    pub fn knows(&self, from: i64) -> bool {
        self.since.is_some_and(|since| since <= from)
    }

    /// Processes an event.
    pub fn observe(&mut self, event: &ClrEvent<'_>, thread: u64, at: i64) {
        match event {
            ClrEvent::SuspendEeBegin(begin) => {
                if self.open.len() >= MAX_OPEN {
                    self.open.remove(0);
                }
                // The new stop is the newest of its thread. If an earlier stop is still open, its end was lost.
                self.open.retain(|open| open.thread != thread);
                let is_final = begin.reason == SuspendReason::FOR_GC_PREP;
                self.open.push(OpenStop {
                    thread,
                    reason: begin.reason,
                    has_collection: false,
                    restarting: None,
                    overtaken: 0,
                    stop: Stop {
                        begin: at,
                        end: at,
                        collection: begin.count.filter(|count| is_final && *count != u32::MAX),
                        generation: None,
                        background: is_final,
                    },
                });
            }
            ClrEvent::GcStart(start) => {
                // Server collections start on a thread that did not suspend the other threads, so the newest open stop
                // is used.
                let own = self.open.iter().rposition(|open| open.thread == thread);
                let Some(place) = own.or(self.open.len().checked_sub(1)) else {
                    return;
                };
                let Some(open) = self.open.get_mut(place) else { return };
                // A stop with several collections belongs to the first collection, which caused it.
                if !open.has_collection {
                    open.has_collection = true;
                    open.stop.collection = Some(start.count);
                    open.stop.generation = start.depth;
                    open.stop.background = start.gc_type == Some(GcType::BACKGROUND);
                }
            }
            ClrEvent::RestartEeBegin(_) => {
                if let Some(open) = self.open.iter_mut().rfind(|open| open.thread == thread) {
                    open.restarting = Some(at);
                }
            }
            ClrEvent::RestartEeEnd(_) => {
                let Some(place) = self.open.iter().rposition(|open| open.thread == thread) else {
                    return;
                };
                let OpenStop {
                    reason,
                    stop,
                    restarting,
                    ..
                } = self.open.remove(place);
                // A thread announces its stop before it waits for the end of another stop, so one stop can be overtaken
                // once. If it is overtaken twice, its end was lost.
                self.open.retain_mut(|open| {
                    open.overtaken += u8::from(open.stop.begin < stop.begin);
                    open.overtaken < 2
                });
                if reason.is_gc() || stop.collection.is_some() {
                    self.close(Stop {
                        end: restarting.unwrap_or(at),
                        ..stop
                    });
                }
            }
            _ => return,
        }
        self.newest = self.newest.max(at);
    }

    fn close(&mut self, stop: Stop) {
        if stop.begin > stop.end {
            return;
        }
        // Stops are ordered by their ends. Two stops overlap only if a debugger or profiler also suspends threads.
        self.closed.push_back(stop);
        while self.closed.len() > self.most
            || self
                .closed
                .front()
                .is_some_and(|oldest| oldest.end < stop.end.saturating_sub(self.keep_ns))
        {
            let Some(gone) = self.closed.pop_front() else { break };
            self.since = self.since.map(|since| since.max(gone.end));
        }
    }

    /// Returns the stops that overlap an interval, oldest first, clipped to the interval.
    pub fn within(&self, from: i64, to: i64) -> impl Iterator<Item = Stop> {
        let first = self.closed.partition_point(|stop| stop.end <= from);
        let closed = self.closed.range(first..).copied().filter(move |stop| stop.begin < to);
        let open = self
            .open
            .iter()
            .filter(|open| open.reason.is_gc())
            .map(move |open| Stop {
                // The stop lasts at least until `to`.
                end: open.restarting.unwrap_or(to.max(open.stop.begin)),
                ..open.stop
            });
        closed
            .chain(open)
            .map(move |stop| Stop {
                begin: stop.begin.max(from),
                end: stop.end.min(to),
                ..stop
            })
            .filter(|stop| stop.begin < stop.end)
    }
}

#[cfg(test)]
mod tests {
    use clr_gc::event::{GcReason, GcStart, NoUserData, SuspendEeBegin};
    use proptest::prelude::*;

    use super::*;

    const MINUTE: i64 = 60_000_000_000;
    const EDGE: NoUserData = NoUserData { clr_instance: Some(0) };

    fn suspend(reason: SuspendReason, count: u32) -> ClrEvent<'static> {
        ClrEvent::SuspendEeBegin(SuspendEeBegin {
            reason,
            count: Some(count),
            clr_instance: Some(0),
        })
    }

    fn start(count: u32, gc_type: GcType) -> ClrEvent<'static> {
        ClrEvent::GcStart(GcStart {
            count,
            depth: Some(2),
            reason: GcReason(0),
            gc_type: Some(gc_type),
            clr_instance: Some(0),
            client_sequence_number: None,
        })
    }

    /// Adds a stop with one collection.
    fn stop(stops: &mut Stops, (begin, end): (i64, i64), count: u32) {
        stops.observe(&suspend(SuspendReason::FOR_GC, count - 1), 7, begin);
        stops.observe(&start(count, GcType::BLOCKING), 7, begin);
        stops.observe(&ClrEvent::RestartEeBegin(EDGE), 7, end);
        stops.observe(&ClrEvent::RestartEeEnd(EDGE), 7, end);
    }

    fn lost(stops: &Stops, from: i64, to: i64) -> i64 {
        stops.within(from, to).map(|stop| stop.end - stop.begin).sum()
    }

    /// Scenario: a background collection has two stops, with a foreground collection between them, and a profiler also
    /// suspends the threads.
    /// Guarantee: each stop belongs to its collection; the concurrent part and the profiler's stop do not count. A stop
    /// ends with the start of the restart.
    #[test]
    fn background_collection_counts_only_its_stops() {
        let mut stops = Stops::new(MINUTE, MAX_STOPS);
        stops.observe(&suspend(SuspendReason::FOR_GC, 4), 7, 100);
        stops.observe(&start(5, GcType::BACKGROUND), 9, 110);
        stops.observe(&ClrEvent::RestartEeBegin(EDGE), 7, 150);
        stops.observe(&ClrEvent::RestartEeEnd(EDGE), 7, 190);
        stop(&mut stops, (300, 320), 6);
        stops.observe(&suspend(SuspendReason(2), 6), 8, 330);
        stops.observe(&ClrEvent::RestartEeEnd(EDGE), 8, 340);
        stops.observe(&suspend(SuspendReason::FOR_GC_PREP, 5), 9, 400);
        let collections: Vec<_> = stops.within(0, 430).collect();
        let facts = collections
            .iter()
            .map(|stop| (stop.begin, stop.end, stop.collection, stop.background));
        assert_eq!(
            facts.collect::<Vec<_>>(),
            [
                (100, 150, Some(5), true),
                (300, 320, Some(6), false),
                (400, 430, Some(5), true)
            ],
            "the last stop is still open"
        );
        assert_eq!((lost(&stops, 120, 310), lost(&stops, 160, 290)), (40, 0));
    }

    /// Scenario: the end of a stop was lost, and two stops follow.
    /// Guarantee: the stop is discarded, and a later interval loses no time.
    #[test]
    fn stop_without_end_is_discarded() {
        let mut stops = Stops::new(MINUTE, MAX_STOPS);
        stops.observe(&suspend(SuspendReason::FOR_GC, 1), 3, 50);
        stop(&mut stops, (100, 110), 3);
        stop(&mut stops, (200, 210), 4);
        assert_eq!(lost(&stops, 300, 400), 0);
    }

    /// Scenario: there are more stops than the limit, and stops older than the retention time.
    /// Guarantee: all stops are known since the end of the newest dropped stop, and not before.
    #[test]
    fn time_of_oldest_known_stop_is_updated() {
        let mut stops = Stops::new(1_000, 3);
        stops.begin(0);
        for number in 1..6 {
            stop(
                &mut stops,
                (i64::from(number) * 100, i64::from(number) * 100 + 10),
                number,
            );
        }
        assert!(stops.knows(210) && !stops.knows(209));
        stop(&mut stops, (5_000, 5_010), 9);
        assert!(stops.knows(510) && !stops.knows(509));
        assert_eq!(stops.within(0, 6_000).count(), 1);
    }

    proptest! {
        /// Scenario: any sequence of stops is compared with any interval.
        /// Guarantee: the clipped stops cover exactly the nanoseconds that the stops and the interval have in common.
        #[test]
        fn interval_loses_time_covered_by_stops(
            lengths in prop::collection::vec((0_i64..40, 0_i64..40), 0..20),
            from in 0_i64..800,
            length in 0_i64..800,
        ) {
            let mut stops = Stops::new(MINUTE, MAX_STOPS);
            let (mut at, mut is_stopped) = (0, vec![false; 3_000]);
            for (place, (gap, length)) in lengths.into_iter().enumerate() {
                let begin = at + gap;
                at = begin + length;
                stop(&mut stops, (begin, at), place as u32 + 1);
                is_stopped[begin as usize..at as usize].fill(true);
            }
            let common = is_stopped[from as usize..(from + length) as usize].iter().filter(|is| **is).count();
            prop_assert_eq!(lost(&stops, from, from + length), common as i64);
        }
    }
}
