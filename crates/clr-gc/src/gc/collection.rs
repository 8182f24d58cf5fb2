//! The record of one collection, and the values derived from it.

mod asker;
mod generation;
mod missing;
mod pause;
pub(crate) mod plausible;

pub use asker::Asker;
pub(crate) use generation::PerHeapSums;
pub use generation::{GenerationSizes, HeapGeneration};
pub use missing::{Missing, MissingParts};
pub use pause::Pause;
pub use plausible::{FIGURES, Figure, Implausible};

use std::borrow::Cow;

use crate::event::{GcReason, GcType, HeapStats, Phases, SuspendReason};
use crate::gc::account::{Account, Cause, Stopped};
use crate::gc::allocated::{Allocated, AllocatedUnknown};
use crate::gc::cpu_wait::CpuWait;
use crate::gc::history::GlobalHistory;
use crate::gc::impact::RequestImpact;
use crate::gc::stop::{PauseKind, StopEdges};

/// CommittedUsage around a collection, bytes (.NET 8 and later).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    /// TotalCommittedInUse, right after GCStart.
    pub before: Option<u64>,
    /// The same right before GCEnd; a background collection has none.
    pub after: Option<u64>,
    /// TotalBookkeepingCommitted: the collector's own tables, sent with [`after`](Self::after).
    pub bookkeeping: Option<u64>,
    /// Regions without objects: free ones and those that wait to be decommitted (InFree, InGlobalFree,
    /// InGlobalDecommit), sent with [`after`](Self::after).
    pub kept: Option<u64>,
    /// The same, sent with [`before`](Self::before).
    pub kept_before: Option<u64>,
}

impl Committed {
    /// All that is committed for objects right after GCStart, in use or kept: `GCMemoryInfo.TotalCommittedBytes`, which
    /// has no bookkeeping (equal to the byte on .NET 8 to 11, docs/telemetry.md).
    pub fn total_before(&self) -> Option<u64> {
        Some(self.before?.saturating_add(self.kept_before?))
    }

    /// The same right before GCEnd.
    pub fn total_after(&self) -> Option<u64> {
        Some(self.after?.saturating_add(self.kept?))
    }
}

/// One garbage collection. Times are nanoseconds since the stream's sync point. What was never seen is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    /// GCStart's Count (GCEnd's where only that was seen).
    pub number: u32,
    /// Generation that was collected.
    pub generation: Option<u32>,
    /// Which runtime of the process.
    pub clr_instance: Option<u16>,
    /// As the runtime announced it.
    pub gc_type: Option<GcType>,
    /// Announced as background, but it ran to its end before the threads were restarted.
    pub became_blocking: bool,
    /// Why it began.
    pub reason: Option<GcReason>,
    /// Reason of the newest GCTriggered since the previous GCStart.
    pub trigger: Option<GcReason>,
    /// Thread of that GCTriggered: the one that needed the collection or asked for it.
    pub trigger_thread: Option<u64>,
    /// A tool asked for it over the diagnostics socket, for a heap dump, and not the program. Only of those with the
    /// reason [`GcReason::INDUCED`]; `None`: it is another one, or that is not known. Whoever reads a live process may
    /// know more.
    pub requested_by_tool: Option<bool>,
    /// GCStart.
    pub start: Option<i64>,
    /// GCEnd.
    pub end: Option<i64>,
    /// Thread of GCStart.
    pub start_thread: Option<u64>,
    /// The last event that belongs to it.
    pub last_event: i64,
    /// Its stops, in order.
    pub pauses: Vec<Pause>,
    /// Sum of its parts of the stops; `None` when an edge of one is missing.
    pub pause_ns: Option<i64>,
    /// Sum of the times to suspend of the stops in which it was the first.
    pub suspend_ns: Option<i64>,
    /// GCHeapStats.
    pub heap_stats: Option<HeapStats>,
    /// Sizes per generation, indexed as [`HeapGeneration::ALL`].
    pub heap: [GenerationSizes; 5],
    /// GCGlobalHeapHistory.
    pub global: Option<GlobalHistory>,
    /// How many heaps sent a history.
    pub per_heap_histories: u32,
    /// Phase times no longer than the collection.
    pub phases: Phases,
    /// Committed memory.
    pub committed: Committed,
    /// Bytes that survived in the heap in which the most did; `None` as long as a heap's history is missing.
    pub largest_heap_survived: Option<u64>,
    /// DATAS: what collecting costs, percent of the throughput (MedianThroughputCostPercent); only where it was sent in
    /// this collection.
    pub throughput_cost_percent: Option<f32>,
    /// Bytes allocated since the measurement before; see [`Allocated`].
    pub allocated: Result<Allocated, AllocatedUnknown>,
    /// Number of the background collection that was under way at its GCStart, where that one's GCStart was seen.
    pub background: Option<u32>,
    /// The runtime made the thread of background collections anew for it (GCCreateConcurrentThread). That thread ends
    /// after 20 s without a background collection.
    pub thread_created: bool,
    /// What was never seen of it.
    pub missing: MissingParts,
    /// Figures that cannot be: they are unknown.
    pub implausible: Implausible,
    /// Events are missing somewhere in its time.
    pub lossy: bool,
    /// A session of another tool was open in the process meanwhile. No event says so: whoever reads a live process sets
    /// it, where it can be known.
    pub observed_by_others: Option<bool>,
    /// Why the threads that collected had no CPU, where the account says that they had none. Set by whoever reads a live
    /// process.
    pub cpu: Option<CpuWait>,
    /// What it did to requests. Set by who reads them, as well.
    pub requests: Option<RequestImpact>,
}

impl Collection {
    /// One of which nothing is known.
    pub fn unknown(number: u32) -> Self {
        Self {
            number,
            generation: None,
            clr_instance: None,
            gc_type: None,
            became_blocking: false,
            reason: None,
            trigger: None,
            trigger_thread: None,
            requested_by_tool: None,
            start: None,
            end: None,
            start_thread: None,
            last_event: 0,
            pauses: Vec::new(),
            pause_ns: None,
            suspend_ns: None,
            heap_stats: None,
            heap: [GenerationSizes::default(); 5],
            global: None,
            per_heap_histories: 0,
            phases: Phases::default(),
            committed: Committed::default(),
            largest_heap_survived: None,
            throughput_cost_percent: None,
            allocated: Err(AllocatedUnknown::First),
            background: None,
            thread_created: false,
            missing: MissingParts::default(),
            implausible: Implausible::default(),
            lossy: false,
            observed_by_others: None,
            cpu: None,
            requests: None,
        }
    }

    /// Nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Bytes allocated since the measurement before: that of the previous collection, or, for one that ran inside a
    /// background collection and for that collection itself, whichever was last.
    pub fn allocated_since_last(&self) -> Option<u64> {
        self.allocated.ok().map(|allocated| allocated.bytes)
    }

    /// Bytes were allocated before it that no sum over collections has: unknown, other than the time before the first, or
    /// at least so many.
    pub fn hides_allocation(&self) -> bool {
        match self.allocated {
            Ok(allocated) => allocated.at_least,
            Err(why) => why != AllocatedUnknown::First,
        }
    }

    /// Somebody asked for it as `GC.Collect` does, and what is known of the request is of it.
    pub fn is_requested(&self) -> bool {
        self.reason == Some(GcReason::INDUCED) && self.trigger == Some(GcReason::INDUCED)
    }

    /// What its parts of the stops were spent on: parts that add up to those of the stops whose length is known. Of a
    /// heap dump that another tool asked for, all is the dump's. Where there was one stop, as in nearly all collections,
    /// it is not copied: rules ask for each of its parts.
    pub fn account(&self) -> Cow<'_, Account> {
        let by_tool = self.requested_by_tool == Some(true);
        if let [pause] = self.pauses.as_slice()
            && let (Some(account), false) = (&pause.account, by_tool)
        {
            return Cow::Borrowed(account);
        }
        let mut account = Account::default();
        for pause in &self.pauses {
            match (&pause.account, pause.pause_ns) {
                (Some(parts), _) => account.add(parts),
                (None, Some(ns)) => account.add(&Account::unexplained(ns)),
                (None, None) => {}
            }
        }
        Cow::Owned(if by_tool {
            account.all_of(Cause::HeapDump)
        } else {
            account
        })
    }

    /// GCStart to GCEnd; for a background collection most of it ran beside the program.
    pub fn duration_ns(&self) -> Option<i64> {
        // A GCEnd that came before its GCStart is damage, not a length.
        Some(self.end?.saturating_sub(self.start?)).filter(|&ns| ns >= 0)
    }

    /// Announced as background and really concurrent.
    pub fn is_concurrent(&self) -> bool {
        self.gc_type == Some(GcType::BACKGROUND) && !self.became_blocking
    }

    /// It relocated objects (GlobalMechanisms bit 1).
    pub fn is_compacting(&self) -> Option<bool> {
        self.global.map(|global| global.mechanisms.is_compaction())
    }

    /// Sum over the generations that are known; `None` when none is.
    pub fn total(&self, size: impl Fn(&GenerationSizes) -> Option<u64>) -> Option<u64> {
        self.heap
            .iter()
            .filter_map(size)
            .fold(None, |sum, bytes| Some(sum.unwrap_or(0u64).saturating_add(bytes)))
    }

    /// Bytes in all generations before it.
    pub fn heap_before(&self) -> Option<u64> {
        self.total(|sizes| sizes.before)
    }

    /// Bytes in all generations after it.
    pub fn heap_after(&self) -> Option<u64> {
        self.total(|sizes| sizes.after)
    }

    /// Bytes promoted in all generations.
    pub fn promoted(&self) -> Option<u64> {
        self.total(|sizes| sizes.promoted)
    }
}

/// A stop for the collector (reason 1 or 6) in which no collection ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspension {
    /// Why the threads were stopped; `None` when SuspendEEBegin was not seen.
    pub reason: Option<SuspendReason>,
    /// Which runtime of the process.
    pub clr_instance: Option<u16>,
    /// Its edges.
    pub edges: StopEdges,
    /// SuspendEEBegin to SuspendEEEnd.
    pub suspend_ns: Option<i64>,
    /// SuspendEEBegin to RestartEEEnd.
    pub stopped_ns: Option<i64>,
    /// A GCTriggered came in it: a no-GC region or a request that led to no collection. Without one a memory limit was
    /// refreshed.
    pub triggered: bool,
}

impl Suspension {
    /// A background collection's own stop, of which nothing else was seen.
    pub fn is_for_background(&self) -> bool {
        self.reason != Some(SuspendReason::FOR_GC)
    }

    /// What it was spent on; `None` where its length is not known.
    pub fn account(&self) -> Option<Account> {
        self.stopped_ns?;
        let spans = [(self.edges.suspend_begin?, self.edges.restart_end?)];
        let stopped = Stopped::of(self.edges, &spans, PauseKind::Final);
        Some(if self.is_for_background() {
            stopped.divide().account
        } else {
            stopped.without_collection()
        })
    }
}
