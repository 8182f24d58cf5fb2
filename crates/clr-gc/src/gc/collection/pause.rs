//! The part of a stop of the managed threads that a collection owns.

use crate::gc::account::Account;
use crate::gc::stop::{PauseKind, StopEdges};

/// A stop of the managed threads, as seen by one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Start of this collection's part, in nanoseconds since the sync point: SuspendEEBegin for the first collection of
    /// the stop, GCStart for later collections. `None` if unknown.
    pub start: Option<i64>,
    /// Time from SuspendEEBegin to SuspendEEEnd for the first collection of the stop, in nanoseconds; 0 for later
    /// collections, and `None` if an edge is missing.
    pub suspend_ns: Option<i64>,
    /// Length of this collection's part of the stop, in nanoseconds; `None` if unknown. The parts of a stop add up to
    /// the whole stop.
    pub pause_ns: Option<i64>,
    /// Intervals of the stop that belong to this collection, as pairs of start and end in nanoseconds since the sync
    /// point; empty if its part is unknown.
    pub spans: Vec<(i64, i64)>,
    /// Length of the whole stop, from SuspendEEBegin to RestartEEEnd, in nanoseconds; `None` if unknown.
    pub stopped_ns: Option<i64>,
    /// Numbers of the other collections of the stop.
    pub shared_with: Vec<u32>,
    /// Kind of the stop for this collection.
    pub kind: PauseKind,
    /// Observed edges of the stop.
    pub edges: StopEdges,
    /// Division of this collection's part by cause. The parts add up to [`pause_ns`](Self::pause_ns). `None` if the
    /// division is unknown.
    pub account: Option<Account>,
    /// Time spent scanning GC handles, in nanoseconds, regardless of its cause in [`account`](Self::account). Excludes
    /// the time to mark the handles' bytes, and relocation. `None` if unknown.
    pub handles_ns: Option<i64>,
}

impl Pause {
    /// Creates a stop with a single collection by an unknown thread. The stop starts at `begin`, in nanoseconds since
    /// the sync point, and takes `length` nanoseconds from SuspendEEBegin to RestartEEEnd.
    pub fn alone(begin: i64, length: i64, suspend_ns: Option<i64>, kind: PauseKind) -> Self {
        let end = begin.saturating_add(length);
        Self {
            start: Some(begin),
            suspend_ns,
            pause_ns: Some(length),
            spans: vec![(begin, end)],
            stopped_ns: Some(length),
            shared_with: Vec::new(),
            kind,
            edges: StopEdges {
                suspend_begin: Some(begin),
                suspend_end: suspend_ns.map(|suspend| begin.saturating_add(suspend)),
                restart_begin: Some(end),
                restart_end: Some(end),
                thread: 0,
            },
            account: None,
            handles_ns: None,
        }
    }

    /// Returns this collection's part of the stop as `GC.GetTotalPauseDuration` counts it, in nanoseconds, or `None` if
    /// [`pause_ns`](Self::pause_ns) is unknown or RestartEEBegin was not observed. The counted part ends at
    /// RestartEEBegin. The threads resume slightly later, at RestartEEEnd, and `pause_ns` includes this time.
    pub fn runtime_pause_ns(&self) -> Option<i64> {
        let (part, restarting) = (self.pause_ns?, self.edges.restart_begin?);
        let after = self
            .spans
            .iter()
            .map(|(from, to)| to.saturating_sub(*from.max(&restarting)).max(0));
        Some(after.fold(part, i64::saturating_sub).max(0))
    }
}
