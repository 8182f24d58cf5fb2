//! Reconstruction of collections from events.
//!
//! ```text
//! (time, thread, event) -> Machine -> Collection | Suspension
//!                            |  open stops, one per thread           (stop)
//!                            |  last event of each thread            (trail)
//!                            |  collections that receive facts       (forming)
//!                            |  bytes allocated between them         (allocated)
//!                            |  causes of stopped time               (account)
//!                            '  intervals in which events are lost   (loss)
//! ```
//!
//! A [`Machine`] reconstructs the collections of one runtime. The machine has no clock and no I/O: its inputs are
//! events, losses and the passing of time, and its outputs are [`Outcome`]s. A live session, a file and a test run the
//! same code. A *stop* is a suspension of the managed threads, from SuspendEEBegin to RestartEEEnd.
//!
//! # Assignment of facts to collections
//!
//! | Fact | Belongs to |
//! |---|---|
//! | GCStart, GCEnd | the collection with their Count |
//! | GCHeapStats | the collection whose GCEnd is the previous event on the same thread |
//! | GCGlobalHeapHistory | with the concurrent bit: the background collection in progress, or the last one; otherwise the collection that runs while the threads are suspended |
//! | GCPerHeapHistory | the collection of the previous global history on the same thread |
//! | CommittedUsage, marks, joins, LOH compaction | the collection that runs while the threads are suspended |
//! | CreateConcurrentThread | the collection that runs while the threads are suspended, or otherwise the background collection in progress |
//! | a stop | the collections whose GCStart falls into it; without a GCStart and with reason 6, the background collection in progress |
//!
//! A collection is complete when all its facts have arrived, in any order. Facts that do not arrive within
//! [`MAX_DELAY_NS`] of stream time are listed in [`Collection::missing`], and values that depend on them are absent.
//!
//! # Invariants
//!
//! * The parts of a stop that collections own add up to the stop, to the nanosecond.
//! * A collection that is complete and not lossy is correct in every field.
//! * No value is invented: if an edge was not observed, the duration is absent.
//! * Memory is bounded; see the constants of this module.

mod account;
mod allocated;
mod collection;
mod compact;
mod cpu_wait;
mod forming;
mod history;
mod impact;
mod loss;
mod machine;
mod named;
mod stop;
mod totals;
mod trail;

pub use crate::event::Phases;
pub use account::{Account, AccountPart, Cause, MAX_MARKED_HEAPS, PartKind};
pub use allocated::{Allocated, AllocatedUnknown};
pub use collection::{
    Asker, Collection, Committed, FIGURES, Figure, GenerationSizes, HeapGeneration, Implausible, Missing, MissingParts,
    Pause, Suspension,
};
pub use compact::CompactCollection;
pub use cpu_wait::CpuWait;
pub use forming::MAX_HEAPS;
pub use history::GlobalHistory;
pub use impact::{RequestImpact, WorstRequest};
pub(crate) use loss::LossIntervals;
pub use loss::MAX_LOSS_INTERVALS;
pub use machine::{
    Finalizers, LIVE_SETTLE_NS, MAX_CLOSED, MAX_DELAY_NS, MAX_FORMING, MAX_OFFSET_NS, MAX_OPEN_STOPS, MAX_RUNS,
    MAX_SETTLED, MAX_STOPS, Machine, OpenOperations, OtherStops, Outcome, ReportTiming,
};
pub use stop::{PauseKind, StopEdges};
pub use totals::{Group, PauseQuantiles, StoppedTime, Totals};
pub use trail::MAX_THREADS;
