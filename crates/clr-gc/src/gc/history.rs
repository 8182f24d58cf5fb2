//! What the collector itself says of a collection afterwards (GCGlobalHeapHistory), and which of its phase times can be
//! believed.

use crate::event::{CondemnReasons0, CondemnReasons1, GcReason, GlobalHeapHistory, GlobalMechanisms, PauseMode};

/// GCGlobalHeapHistory without the borrowed phase times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalHistory {
    /// Number of heaps that took part (it changes at run time with DATAS).
    pub heap_count: u32,
    /// Budget of generation 0 until its next collection, of each heap, bytes.
    pub gen0_budget: u64,
    /// Generation that was condemned.
    pub condemned_generation: u32,
    /// Why it began, by this event.
    pub reason: GcReason,
    /// Bits of what was done.
    pub mechanisms: GlobalMechanisms,
    /// The process's latency mode.
    pub pause_mode: PauseMode,
    /// Load of the physical memory or of the container's limit, percent.
    pub memory_load_percent: u32,
    /// Generations that were considered; `None` on 3.x.
    pub condemn_reasons0: Option<CondemnReasons0>,
    /// Why that generation; `None` on 3.x.
    pub condemn_reasons1: Option<CondemnReasons1>,
    /// Phase times as they came.
    pub phases: Phases,
}

/// Times of the phases, nanoseconds. `None`: not sent, or implausible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phases {
    /// Marking from sized references.
    pub mark_sized_refs: Option<i64>,
    /// Marking from roots.
    pub mark_roots: Option<i64>,
    /// Clearing short weak references.
    pub short_weak: Option<i64>,
    /// Scanning for finalization.
    pub scan_finalization: Option<i64>,
    /// Clearing long weak references.
    pub long_weak: Option<i64>,
    /// Planning.
    pub plan: Option<i64>,
    /// Relocating references (compacting only).
    pub relocate: Option<i64>,
    /// Moving objects (compacting only).
    pub compact: Option<i64>,
    /// Sweeping (not compacting).
    pub sweep: Option<i64>,
}

impl Phases {
    /// Each phase with its name, in the order in which they run.
    pub fn named(&self) -> [(&'static str, Option<i64>); 9] {
        [
            ("mark_sized_refs", self.mark_sized_refs),
            ("mark_roots", self.mark_roots),
            ("short_weak", self.short_weak),
            ("scan_finalization", self.scan_finalization),
            ("long_weak", self.long_weak),
            ("plan", self.plan),
            ("relocate", self.relocate),
            ("compact", self.compact),
            ("sweep", self.sweep),
        ]
    }

    /// All of marking: its phases, summed; `None` as long as one is unknown.
    pub fn marking(&self) -> Option<i64> {
        let marks = [
            self.mark_sized_refs,
            self.mark_roots,
            self.short_weak,
            self.scan_finalization,
            self.long_weak,
        ];
        marks.iter().try_fold(0i64, |sum, ns| Some(sum.saturating_add((*ns)?)))
    }

    /// Without those longer than the collection. .NET 8 sends the time of day of its compact phase, not the length, and
    /// a background collection that ran before the session began has no start stamps.
    pub(crate) fn within(self, duration_ns: Option<i64>) -> Self {
        let keep = |phase: Option<i64>| phase.filter(|&ns| duration_ns.is_some_and(|duration| ns <= duration));
        Self {
            mark_sized_refs: keep(self.mark_sized_refs),
            mark_roots: keep(self.mark_roots),
            short_weak: keep(self.short_weak),
            scan_finalization: keep(self.scan_finalization),
            long_weak: keep(self.long_weak),
            plan: keep(self.plan),
            relocate: keep(self.relocate),
            compact: keep(self.compact),
            sweep: keep(self.sweep),
        }
    }
}

impl GlobalHistory {
    pub(crate) fn of(event: &GlobalHeapHistory<'_>) -> Self {
        let ns = |micros: Option<u32>| micros.map(|micros| i64::from(micros) * 1000);
        let phases = event.phases();
        Self {
            heap_count: u32::try_from(event.num_heaps).unwrap_or(0),
            gen0_budget: event.final_youngest_desired,
            condemned_generation: event.condemned_generation,
            reason: event.reason,
            mechanisms: event.global_mechanisms,
            pause_mode: event.pause_mode,
            memory_load_percent: event.memory_pressure,
            condemn_reasons0: event.condemn_reasons0,
            condemn_reasons1: event.condemn_reasons1,
            phases: Phases {
                mark_sized_refs: ns(phases.mark_sized_refs),
                mark_roots: ns(phases.mark_roots),
                short_weak: ns(phases.short_weak),
                scan_finalization: ns(phases.scan_finalization),
                long_weak: ns(phases.long_weak),
                plan: ns(phases.plan),
                relocate: ns(phases.relocate),
                compact: ns(phases.compact),
                sweep: ns(phases.sweep),
            },
        }
    }
}
