//! The account of stopped time: what each stop was spent on, in parts that add up to it.
//!
//! ```text
//! edges of the stop, GCStart, marks of one heap, phase times -> divide -> Account of one stop
//!                                                   MarkingCost <-> divide
//! ```
//!
//! [`StoppedTime`](crate::gc::StoppedTime) is their sum over stops. Where each part comes from ([`Cause`] names them):
//!
//! | From | To | Part |
//! |---|---|---|
//! | SuspendEEBegin | SuspendEEEnd | threads that are slow to stop |
//! | SuspendEEEnd | the marking begins | preparation |
//! | one GCMarkWithType of a heap | its next one | the kind of root that it names, or weak references and finalization |
//! | the last of them | GCGlobalHeapHistory | plan, relocation, compaction, sweep: as long as their phase times say |
//! | GCGlobalHeapHistory | RestartEEBegin | what follows |
//! | RestartEEBegin | RestartEEEnd | threads resume |
//! | SuspendEEEnd | RestartEEBegin of a background collection's own stop | its marking |
//!
//! All of these are measured. Two parts are estimated, and have ranges. The collector scans a kind of root and marks
//! the objects behind it in the same interval, which `marking_cost` divides. Relocation scans the same roots again.
//!
//! With several heaps the marks of the heap that was last to finish its roots count: the others waited for it. Sums
//! over heaps would be longer than the stop.
//!
//! No event shows two parts. [`Account::had_no_cpu`] and [`Account::was_lengthened_by_tool`] take them out of the
//! others: whoever reads a live process knows them.
//!
//! What no event says is [`Cause::Unexplained`]. Marks that are not complete are not used: a mark that is missing would
//! give its time to another kind.

mod cause;
mod divide;
mod marking_cost;
mod marks;
mod parts;

pub use cause::Cause;
pub(crate) use divide::{Divided, Stopped};
pub(crate) use marking_cost::MarkingCost;
pub use marks::MAX_MARKED_HEAPS;
pub(crate) use marks::{Marking, Marks};
pub(crate) use parts::RawAccount;
pub use parts::{Account, AccountPart, PartKind};
