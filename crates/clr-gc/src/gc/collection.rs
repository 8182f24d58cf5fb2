//! The record of one collection and the values derived from it.

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
use crate::gc::account::{Account, Cause, StopFacts};
use crate::gc::allocated::{Allocated, AllocatedUnknown};
use crate::gc::cpu_wait::CpuWait;
use crate::gc::history::GlobalHistory;
use crate::gc::impact::RequestImpact;
use crate::gc::stop::{PauseKind, StopEdges};

/// Values of CommittedUsage around a collection, in bytes. Values are `None` before .NET 8, and if they were never
/// observed or are implausible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    /// TotalCommittedInUse right after GCStart.
    pub before: Option<u64>,
    /// TotalCommittedInUse right before GCEnd; `None` for a background collection.
    pub after: Option<u64>,
    /// TotalBookkeepingCommitted: the collector's own tables, sent together with [`after`](Self::after).
    pub bookkeeping: Option<u64>,
    /// Regions without objects, either free or waiting to be decommitted (InFree, InGlobalFree, InGlobalDecommit), sent
    /// together with [`after`](Self::after).
    pub kept: Option<u64>,
    /// Like [`kept`](Self::kept), but sent together with [`before`](Self::before).
    pub kept_before: Option<u64>,
}

impl Committed {
    /// Returns the memory committed for objects right after GCStart, in use or kept, in bytes, or `None` if unknown.
    /// Bookkeeping is excluded. On .NET 8 to 11, the value equals `GCMemoryInfo.TotalCommittedBytes` to the byte.
    pub fn total_before(&self) -> Option<u64> {
        Some(self.before?.saturating_add(self.kept_before?))
    }

    /// Returns the memory committed for objects right before GCEnd, in use or kept, in bytes, or `None` if unknown.
    /// Bookkeeping is excluded.
    pub fn total_after(&self) -> Option<u64> {
        Some(self.after?.saturating_add(self.kept?))
    }
}

/// A garbage collection. Times are in nanoseconds since the sync point of the stream. Values that were never observed
/// are `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    /// Count of GCStart, or of GCEnd if GCStart was not observed.
    pub number: u32,
    /// Generation that was collected.
    pub generation: Option<u32>,
    /// Number of the runtime within its process.
    pub clr_instance: Option<u16>,
    /// Type as announced by the runtime.
    pub gc_type: Option<GcType>,
    /// Whether the collection was announced as background, but ended before the threads resumed or did no concurrent
    /// work.
    pub became_blocking: bool,
    /// Reason for the collection.
    pub reason: Option<GcReason>,
    /// Reason of the most recent GCTriggered since the previous GCStart.
    pub trigger: Option<GcReason>,
    /// Thread of the GCTriggered in [`trigger`](Self::trigger). This thread needed or requested the collection.
    pub trigger_thread: Option<u64>,
    /// Whether a tool, not the program, requested the collection over the diagnostics socket for a heap dump. Only
    /// collections with reason [`GcReason::INDUCED`] have a value; `None` if the reason differs or the origin is
    /// unknown. The reader of a live process can replace the value if it has more information.
    pub requested_by_tool: Option<bool>,
    /// Time of GCStart.
    pub start: Option<i64>,
    /// Time of GCEnd.
    pub end: Option<i64>,
    /// Thread of GCStart.
    pub start_thread: Option<u64>,
    /// Time of the last event that belongs to the collection.
    pub last_event: i64,
    /// Stops of the collection, in order.
    pub pauses: Vec<Pause>,
    /// Sum of the parts of stops that the collection owns, in nanoseconds; `None` if a stop or an edge of a stop is
    /// missing.
    pub pause_ns: Option<i64>,
    /// Sum of the times to suspend of the stops in which this collection was the first, in nanoseconds; `None` if a
    /// stop or an edge is missing.
    pub suspend_ns: Option<i64>,
    /// Values of GCHeapStats.
    pub heap_stats: Option<HeapStats>,
    /// Sizes per generation, indexed as [`HeapGeneration::ALL`].
    pub heap: [GenerationSizes; 5],
    /// Values of GCGlobalHeapHistory.
    pub global: Option<GlobalHistory>,
    /// Number of heaps that sent a history.
    pub per_heap_histories: u32,
    /// Phase times that do not exceed the duration of the collection.
    pub phases: Phases,
    /// Committed memory.
    pub committed: Committed,
    /// Surviving bytes in the heap with the most survivors; `None` while the history of any heap is missing.
    pub largest_heap_survived: Option<u64>,
    /// Cost of collecting under DATAS, in percent of the throughput (MedianThroughputCostPercent). `None` if the
    /// runtime did not send the value in this collection.
    pub throughput_cost_percent: Option<f32>,
    /// Bytes allocated since the previous measurement; see [`Allocated`].
    pub allocated: Result<Allocated, AllocatedUnknown>,
    /// Number of the background collection that was in progress at GCStart; `None` if no background collection was in
    /// progress, or if its GCStart was not observed.
    pub background: Option<u32>,
    /// Whether the runtime created the background collection thread for this collection (GCCreateConcurrentThread). The
    /// thread exits after 20 s without a background collection.
    pub thread_created: bool,
    /// Parts that were never observed.
    pub missing: MissingParts,
    /// Figures that are impossible and therefore unknown.
    pub implausible: Implausible,
    /// Whether events are missing within the time of the collection.
    pub lossy: bool,
    /// Whether a session of another tool was open in the process during the collection. No event reports this fact. The
    /// reader of a live process sets it; `None` if unknown.
    pub observed_by_others: Option<bool>,
    /// Reasons why the collecting threads had no CPU; `None` if the account shows no such time, or if the reasons are
    /// unknown. The reader of a live process sets this field.
    pub cpu: Option<CpuWait>,
    /// Effect of the collection on requests; `None` if unknown. The reader of a live process sets this field.
    pub requests: Option<RequestImpact>,
}

impl Collection {
    /// Creates a collection with a number and no other known values.
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

    /// Returns whether no part is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns the bytes allocated since the previous measurement, or `None` if unknown. Usually, the previous
    /// measurement belongs to the previous collection. A background collection is measured at its end, after the
    /// collections that ran inside it.
    pub fn allocated_since_last(&self) -> Option<u64> {
        self.allocated.ok().map(|allocated| allocated.bytes)
    }

    /// Returns whether sums over collections lack bytes that were allocated before this collection. Sums lack bytes if
    /// only a lower bound is known, or if the number is unknown and this is not the first collection.
    pub fn hides_allocation(&self) -> bool {
        match self.allocated {
            Ok(allocated) => allocated.at_least,
            Err(why) => why != AllocatedUnknown::First,
        }
    }

    /// Returns whether the collection and its trigger both have the reason of `GC.Collect` ([`GcReason::INDUCED`]), so
    /// that the trigger belongs to the request.
    pub fn is_requested(&self) -> bool {
        self.reason == Some(GcReason::INDUCED) && self.trigger == Some(GcReason::INDUCED)
    }

    /// Returns the division of the collection's stopped time by cause. The parts add up to the stops with known length.
    /// For a heap dump requested by another tool, the whole time is attributed to the dump. If there was only one stop,
    /// as in nearly all collections, the account is borrowed rather than copied because rules read each part
    /// separately.
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

    /// Returns the time from GCStart to GCEnd, in nanoseconds, or `None` if an event is missing or GCEnd precedes
    /// GCStart. A background collection spends most of this time concurrently with the program.
    pub fn duration_ns(&self) -> Option<i64> {
        // A GCEnd before its GCStart indicates damage and has no length.
        Some(self.end?.saturating_sub(self.start?)).filter(|&ns| ns >= 0)
    }

    /// Returns whether the collection was announced as background and ran concurrently with the program.
    pub fn is_concurrent(&self) -> bool {
        self.gc_type == Some(GcType::BACKGROUND) && !self.became_blocking
    }

    /// Returns whether the collection relocated objects (GlobalMechanisms bit 1), or `None` if the history is missing.
    pub fn is_compacting(&self) -> Option<bool> {
        self.global.map(|global| global.mechanisms.is_compaction())
    }

    /// Returns the sum of `size`, in bytes, over the generations with a known size, or `None` if no size is known.
    pub fn total(&self, size: impl Fn(&GenerationSizes) -> Option<u64>) -> Option<u64> {
        self.heap
            .iter()
            .filter_map(size)
            .fold(None, |sum, bytes| Some(sum.unwrap_or(0u64).saturating_add(bytes)))
    }

    /// Returns the bytes in all generations before the collection, or `None` if no size is known.
    pub fn heap_before(&self) -> Option<u64> {
        self.total(|sizes| sizes.before)
    }

    /// Returns the bytes in all generations after the collection, or `None` if no size is known.
    pub fn heap_after(&self) -> Option<u64> {
        self.total(|sizes| sizes.after)
    }

    /// Returns the bytes promoted in all generations, or `None` if unknown.
    pub fn promoted(&self) -> Option<u64> {
        self.total(|sizes| sizes.promoted)
    }
}

/// A stop for the collector (reason 1 or 6) during which no collection ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspension {
    /// Reason for the stop; `None` if SuspendEEBegin was not observed.
    pub reason: Option<SuspendReason>,
    /// Number of the runtime within its process; `None` if the events do not contain the number.
    pub clr_instance: Option<u16>,
    /// Edges of the stop.
    pub edges: StopEdges,
    /// Time from SuspendEEBegin to SuspendEEEnd, in nanoseconds; `None` if unknown.
    pub suspend_ns: Option<i64>,
    /// Time from SuspendEEBegin to RestartEEEnd, in nanoseconds; `None` if unknown.
    pub stopped_ns: Option<i64>,
    /// Whether a GCTriggered occurred during the stop: a no-GC region, or a request that led to no collection. Without
    /// a GCTriggered, the stop refreshed a memory limit.
    pub triggered: bool,
}

impl Suspension {
    /// Returns whether the stop is a separate stop of a background collection without any other observed event.
    pub fn is_for_background(&self) -> bool {
        self.reason != Some(SuspendReason::FOR_GC)
    }

    /// Returns the division of the stop by cause, or `None` if the length of the stop is unknown.
    pub fn account(&self) -> Option<Account> {
        self.stopped_ns?;
        let spans = [(self.edges.suspend_begin?, self.edges.restart_end?)];
        let stopped = StopFacts::new(self.edges, &spans, PauseKind::Final);
        Some(if self.is_for_background() {
            stopped.divide().account
        } else {
            stopped.without_collection()
        })
    }
}
