//! The account of stopped time. An account divides a stop by cause into parts that add up to the stop.
//!
//! ```text
//! edges of the stop, GCStart, marks of one heap, phase times -> divide -> Account of one stop
//!                                                   MarkingCost <-> divide
//! ```
//!
//! [`StoppedTime`](crate::gc::StoppedTime) is the sum over stops. The events that delimit each part ([`Cause`] names
//! the parts):
//!
//! | From | To | Part |
//! |---|---|---|
//! | SuspendEEBegin | SuspendEEEnd | threads slow to stop |
//! | SuspendEEEnd | start of the marking | preparation |
//! | a GCMarkWithType of a heap | the next GCMarkWithType of the same heap | the kind of root in the second event, or weak references and finalization |
//! | the last GCMarkWithType | GCGlobalHeapHistory | plan, relocation, compaction, sweep, according to their phase times |
//! | GCGlobalHeapHistory | RestartEEBegin | finishing |
//! | RestartEEBegin | RestartEEEnd | resuming threads |
//! | SuspendEEEnd | RestartEEBegin of a background collection's separate stop | marking of that collection |
//!
//! These parts are measured. Two divisions within them are estimated and have ranges. The collector scans a kind of
//! root and marks the objects behind it in the same interval; `marking_cost` divides this interval. Relocation scans
//! the same roots again, so its time is divided like the time of the marking.
//!
//! With several heaps, only the marks of the heap that was last to finish its roots count, because the other heaps
//! waited for it. Sums over heaps would exceed the stop.
//!
//! Two parts are not visible in events. The reader of a live process can measure these parts. [`Account::had_no_cpu`]
//! and [`Account::was_lengthened_by_tool`] then take them out of the other parts.
//!
//! Time that no event explains is [`Cause::Unexplained`]. Incomplete marks are not used, because the time of a missing
//! mark would be attributed to another kind.

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
