//! Empty values, into which the parts of a packed collection are read.

use crate::event::{GcReason, GlobalMechanisms, HeapStats, PauseMode, Phases};
use crate::gc::allocated::Allocated;
use crate::gc::collection::Pause;
use crate::gc::history::GlobalHistory;
use crate::gc::stop::{PauseKind, StopEdges};

pub(super) fn no_pause() -> Pause {
    Pause {
        start: None,
        suspend_ns: None,
        pause_ns: None,
        spans: Vec::new(),
        stopped_ns: None,
        shared_with: Vec::new(),
        kind: PauseKind::Blocking,
        edges: StopEdges::default(),
        account: None,
        handles_ns: None,
    }
}

pub(crate) const NO_HEAP_STATS: HeapStats = HeapStats {
    generation_size0: 0,
    total_promoted_size0: 0,
    generation_size1: 0,
    total_promoted_size1: 0,
    generation_size2: 0,
    total_promoted_size2: 0,
    generation_size3: 0,
    total_promoted_size3: 0,
    finalization_promoted_size: 0,
    finalization_promoted_count: 0,
    pinned_object_count: 0,
    sink_block_count: 0,
    gc_handle_count: 0,
    clr_instance: None,
    generation_size4: None,
    total_promoted_size4: None,
};

pub(super) const NO_ALLOCATED: Allocated = Allocated {
    since: 0,
    until: 0,
    bytes: 0,
    at_least: false,
};

pub(super) fn no_global_history() -> GlobalHistory {
    GlobalHistory {
        heap_count: 0,
        gen0_budget: 0,
        condemned_generation: 0,
        reason: GcReason(0),
        mechanisms: GlobalMechanisms(0),
        pause_mode: PauseMode(0),
        memory_load_percent: 0,
        condemn_reasons0: None,
        condemn_reasons1: None,
        phases: Phases::default(),
    }
}
