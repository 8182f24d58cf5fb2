//! The collector's own report about a finished collection (GCGlobalHeapHistory).

use crate::event::{
    CondemnReasons0, CondemnReasons1, GcReason, GlobalHeapHistory, GlobalMechanisms, PauseMode, Phases,
};

/// The contents of GCGlobalHeapHistory without the borrowed phase times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalHistory {
    /// Number of heaps that took part. DATAS changes it at run time.
    pub heap_count: u32,
    /// Budget of generation 0 until its next collection, in bytes per heap.
    pub gen0_budget: u64,
    /// Generation that was condemned.
    pub condemned_generation: u32,
    /// Reason for the collection, according to this event.
    pub reason: GcReason,
    /// Mechanisms that the collection used.
    pub mechanisms: GlobalMechanisms,
    /// Latency mode of the process.
    pub pause_mode: PauseMode,
    /// Load of the physical memory or of the container's limit, in percent.
    pub memory_load_percent: u32,
    /// Generations that were considered; `None` on 3.x.
    pub condemn_reasons0: Option<CondemnReasons0>,
    /// Reasons for the choice of the generation; `None` on 3.x.
    pub condemn_reasons1: Option<CondemnReasons1>,
    /// Phase times as sent.
    pub phases: Phases,
}

impl GlobalHistory {
    pub(crate) fn from_event(event: &GlobalHeapHistory<'_>) -> Self {
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
            phases: event.phases(),
        }
    }
}
