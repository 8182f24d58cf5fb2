//! What a collection has of a stop of the managed threads.

use crate::gc::account::Account;
use crate::gc::stop::{PauseKind, StopEdges};

/// One stop of the managed threads, from the view of one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// When this collection's part begins, ns since the sync point: the stop's SuspendEEBegin for the first collection
    /// in it, its own GCStart for a later one.
    pub start: Option<i64>,
    /// SuspendEEBegin to SuspendEEEnd if it was the first to start in the stop, 0 for an inner one.
    pub suspend_ns: Option<i64>,
    /// This collection's part of the stop. The parts of a stop add up to it.
    pub pause_ns: Option<i64>,
    /// From when to when the stop was this collection's, ns since the sync point; empty when its part is not known.
    pub spans: Vec<(i64, i64)>,
    /// The whole stop, SuspendEEBegin to RestartEEEnd.
    pub stopped_ns: Option<i64>,
    /// Numbers of the other collections of the stop.
    pub shared_with: Vec<u32>,
    /// What it was for.
    pub kind: PauseKind,
    /// The edges as they were seen.
    pub edges: StopEdges,
    /// What this collection's part was spent on: parts that add up to [`pause_ns`](Self::pause_ns). `None` where that
    /// is not known.
    pub account: Option<Account>,
    /// How long GC handles were looked through in it, whatever [`account`](Self::account) counts that time as: without
    /// what marking their bytes takes, and without relocation. `None`: not known.
    pub handles_ns: Option<i64>,
}

impl Pause {
    /// A stop that one collection had for itself, `length` ns from SuspendEEBegin to RestartEEEnd, by a thread that is
    /// not known.
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

    /// This collection's part of the stop as `GC.GetTotalPauseDuration` counts it: to RestartEEBegin. That the threads
    /// run again, which RestartEEEnd says, takes a little longer: [`pause_ns`](Self::pause_ns) has that, too. `None`
    /// where either edge was not seen.
    pub fn runtime_pause_ns(&self) -> Option<i64> {
        let (part, restarting) = (self.pause_ns?, self.edges.restart_begin?);
        let after = self
            .spans
            .iter()
            .map(|(from, to)| to.saturating_sub(*from.max(&restarting)).max(0));
        Some(after.fold(part, i64::saturating_sub).max(0))
    }
}
