//! The account of stopped time, which divides each stop by cause into parts that add up to it.
//!
//! ```text
//! edges of the stop, GCStart, marks of one heap, phase times -> divide -> Account of one stop
//!                                                   MarkingCost <-> divide
//! ```
//!
//! [`StoppedTime`](crate::gc::StoppedTime) is the sum over stops. Sources of the parts ([`Cause`] names them):
//!
//! | From | To | Part |
//! |---|---|---|
//! | SuspendEEBegin | SuspendEEEnd | threads slow to stop |
//! | SuspendEEEnd | start of the marking | preparation |
//! | a GCMarkWithType of a heap | the next one of that heap | the kind of root that it names, or weak references and finalization |
//! | the last GCMarkWithType | GCGlobalHeapHistory | plan, relocation, compaction, sweep, according to their phase times |
//! | GCGlobalHeapHistory | RestartEEBegin | finishing |
//! | RestartEEBegin | RestartEEEnd | resuming threads |
//! | SuspendEEEnd | RestartEEBegin of a background collection's separate stop | marking of that collection |
//!
//! These parts are measured. Two divisions within them are estimated and have ranges. The collector scans a kind of
//! root and marks the objects behind it in the same interval, which `marking_cost` divides. Relocation scans the same
//! roots again, and its time is divided like the marking.
//!
//! With several heaps, only the marks of the heap that was last to finish its roots count, because the other heaps
//! waited for it. Sums over heaps would exceed the stop.
//!
//! Two parts are not visible in events. [`Account::had_no_cpu`] and [`Account::was_lengthened_by_tool`] take them out
//! of the other parts; the reader of a live process knows them.
//!
//! Time that no event explains is [`Cause::Unexplained`]. Incomplete marks are not used, because a missing mark would
//! attribute its time to another kind.

mod cause;
mod divide;
mod marking_cost;
mod marks;
mod parts;

pub use cause::Cause;
pub(crate) use divide::{DividedStop, StopFacts};
pub(crate) use marking_cost::MarkingCost;
pub use marks::MAX_MARKED_HEAPS;
pub(crate) use marks::{MarkTimes, Marks};
pub(crate) use parts::RawAccount;
pub use parts::{Account, AccountPart, PartKind};
