//! What is reported of callers: a record for each, and what they add up to.

use serde::Serialize;

use crate::name::Name;
use crate::site::{Stack, are_said};

/// Who makes a process collect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callers {
    /// One for each caller, those that stopped the process longest first.
    pub callers: Vec<Caller>,
    /// Requests.
    pub triggers: u64,
    /// Collections.
    pub collections: u64,
    /// How long the process was stopped for them; `None`: unknown of all.
    pub stopped_ns: Option<i64>,
    /// Stops without a request: whose, the runtime does not say.
    pub unasked_stops: u64,
    /// How long those lasted.
    pub unasked_stopped_ns: Option<i64>,
}

/// How it is known what was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// By the runtime's reason, and by whether a collection came: the call itself was inlined.
    Reason,
    /// A frame says it.
    Frame,
}

/// The record of one caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caller {
    pub(super) kind: &'static str,
    /// What was called: `GC.Collect`, `AddMemoryPressure`, `TryStartNoGCRegion`, `allocation`; `None`: neither a frame
    /// nor the reason says it.
    pub api: Option<&'static str>,
    /// How that is known.
    pub api_from: Option<Evidence>,
    /// The nearest frame that is not of the framework; where there is none, the nearest that has a name. `None`: no
    /// frame has one.
    pub site: Option<Name>,
    /// Where the site is a library's: the nearest frame of the program itself behind it; `None`: there is none.
    pub called_by: Option<Name>,
    /// The runtime's reason.
    pub reason: &'static str,
    /// Readable names, from the method that asked outwards; of several stacks of a site, the most frequent one.
    pub frames: Vec<Name>,
    /// The same as the runtime writes them; an address where nothing names it.
    pub raw_frames: Vec<Name>,
    /// Where there were several ways to the site: the most frequent ones, with the requests of each.
    #[serde(skip_serializing_if = "are_said")]
    pub stacks: Vec<Stack>,
    /// Requests.
    pub triggers: u64,
    /// Collections that answered them.
    pub collections: u64,
    /// Requests that led to none.
    pub without_collection: u64,
    /// How long the process was stopped for it.
    pub stopped_ns: Option<i64>,
    /// From when on it was watched, on the stream's clock.
    pub start_ns: Option<i64>,
    /// Until when.
    pub end_ns: Option<i64>,
}
