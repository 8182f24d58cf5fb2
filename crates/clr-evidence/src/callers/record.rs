//! The records of callers, and their sums.

use serde::Serialize;

use crate::name::Name;
use crate::site::{Stack, are_said};

/// The callers that trigger collections in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callers {
    /// One record per caller, ordered by stopped time, longest first.
    pub callers: Vec<Caller>,
    /// Number of triggers.
    pub triggers: u64,
    /// Number of collections.
    pub collections: u64,
    /// Time for which the process was stopped, in nanoseconds: the sum over the collections with a known time. `None`
    /// if this time is unknown for all collections.
    pub stopped_ns: Option<i64>,
    /// Number of stops without a trigger. The runtime does not report their origin.
    pub unasked_stops: u64,
    /// Duration of the stops without a trigger, in nanoseconds: the sum over the stops with a known duration. `None` if
    /// no duration is known.
    pub unasked_stopped_ns: Option<i64>,
}

/// Evidence for the called method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// The runtime's reason and the presence of a collection: for allocations, and for calls that were inlined.
    Reason,
    /// A frame on the stack.
    Frame,
}

/// The record of one caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caller {
    pub(super) kind: &'static str,
    /// Called method, for example `GC.Collect`, `AddMemoryPressure` or `TryStartNoGCRegion`, or `allocation`; `None` if
    /// neither a frame nor the reason identifies the method.
    pub api: Option<&'static str>,
    /// Evidence for the called method; `None` if the method is unknown.
    pub api_from: Option<Evidence>,
    /// Nearest frame outside the framework, or the nearest frame with a name if there is no such frame; `None` if no
    /// frame has a name.
    pub site: Option<Name>,
    /// Nearest frame of the program itself, if the site belongs to a library; `None` if there is no such frame.
    pub called_by: Option<Name>,
    /// Reason that the runtime reports for the collection.
    pub reason: &'static str,
    /// Readable names, from the triggering method outwards. If the site has several stacks, these are the names of the
    /// most frequent stack.
    pub frames: Vec<Name>,
    /// Names of the same frames in the runtime, or addresses of frames without a name.
    pub raw_frames: Vec<Name>,
    /// Most frequent call paths to the site, at most 8, with the triggers of each. Serialization omits a single path,
    /// because `frames` contains the same names.
    #[serde(skip_serializing_if = "are_said")]
    pub stacks: Vec<Stack>,
    /// Number of triggers.
    pub triggers: u64,
    /// Number of collections that followed the triggers.
    pub collections: u64,
    /// Number of triggers without a collection.
    pub without_collection: u64,
    /// Time for which the process was stopped, in nanoseconds: the sum over the collections and stops with a known
    /// time. `None` if no time is known.
    pub stopped_ns: Option<i64>,
    /// Start of the observation, in nanoseconds of the stream's clock; `None` if unknown.
    pub start_ns: Option<i64>,
    /// End of the observation, in nanoseconds of the stream's clock; `None` if unknown.
    pub end_ns: Option<i64>,
}
