//! The reconstruction of collections from events.
//!
//! ```text
//! (time, thread, event) -> Machine -> Collection | Suspension
//!                            |  open stops, one per thread           (stop)
//!                            |  what each thread did last            (trail)
//!                            |  collections whose facts come in      (forming)
//!                            |  bytes allocated between them         (allocated)
//!                            |  what stops were spent on             (account)
//!                            '  intervals in which events are lost   (loss)
//! ```
//!
//! A [`Machine`] is the reconstruction of one runtime. It has no clock and no I/O: events, losses and the passing of
//! time go in, [`Outcome`]s come out. A live session, a file and a test drive the same code.
//!
//! # How facts find their collection
//!
//! | Fact | Belongs to |
//! |---|---|
//! | GCStart, GCEnd | the collection of their Count |
//! | GCHeapStats | the collection whose GCEnd is the event before it on its thread |
//! | GCGlobalHeapHistory | with the concurrent bit: the background collection under way, or the last one; else the one that runs while the threads are suspended |
//! | GCPerHeapHistory | the collection of the global history before it on its thread |
//! | CommittedUsage, marks, joins, LOH compaction | the collection that runs while the threads are suspended |
//! | CreateConcurrentThread | the collection that runs while the threads are suspended, else the background collection under way |
//! | a stop | the collections whose GCStart comes in it; without one, reason 6: the background collection under way |
//!
//! A collection is complete when its set of facts is, in whatever order they came. What never comes within
//! [`PATIENCE_NS`] of stream time is named in [`Collection::missing`], and values that need it are absent.
//!
//! # Invariants
//!
//! * The parts that collections have of a stop add up to the stop, to the nanosecond.
//! * A collection that is complete and not lossy is right in every field.
//! * No value is made up: an edge that was not seen makes a duration absent.
//! * Memory is bounded: see the constants of this module.

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
    Finalizers, LIVE_SETTLE_NS, MAX_CLOSED, MAX_FORMING, MAX_OFFSET_NS, MAX_OPEN_STOPS, MAX_RUNS, MAX_SETTLED,
    MAX_STOPS, Machine, Open, OtherStops, Outcome, PATIENCE_NS, Settling,
};
pub use stop::{PauseKind, StopEdges};
pub use totals::{Group, PauseQuantiles, StoppedTime, Totals};
pub use trail::MAX_THREADS;
