//! Collections and their parts without facts: what packed ones are read into.

use crate::event::{GcReason, GlobalMechanisms, HeapStats, PauseMode};
use crate::gc::allocated::Allocated;
use crate::gc::collection::Pause;
use crate::gc::history::{GlobalHistory, Phases};
use crate::gc::stop::{PauseKind, StopEdges};

pub(super) const NO_PAUSE: Pause = Pause {
    start: None,
    suspend_ns: None,
    pause_ns: None,
    spans: Vec::new(),
    stopped_ns: None,
    shared_with: Vec::new(),
    kind: PauseKind::Blocking,
    edges: StopEdges {
        suspend_begin: None,
        suspend_end: None,
        restart_begin: None,
        restart_end: None,
        thread: 0,
    },
    account: None,
    handles_ns: None,
};

pub(super) const NO_HEAP_STATS: HeapStats = HeapStats {
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

const NO_PHASES: Phases = Phases {
    mark_sized_refs: None,
    mark_roots: None,
    short_weak: None,
    scan_finalization: None,
    long_weak: None,
    plan: None,
    relocate: None,
    compact: None,
    sweep: None,
};

pub(super) const NO_GLOBAL_HISTORY: GlobalHistory = GlobalHistory {
    heap_count: 0,
    gen0_budget: 0,
    condemned_generation: 0,
    reason: GcReason(0),
    mechanisms: GlobalMechanisms(0),
    pause_mode: PauseMode(0),
    memory_load_percent: 0,
    condemn_reasons0: None,
    condemn_reasons1: None,
    phases: NO_PHASES,
};
