//! What of a stream was counted, and what is known of the stream as a whole.

use serde::Serialize;

/// What is counted: events from `start` to `end`, nanoseconds of the stream's clock (Linux: `CLOCK_MONOTONIC`).
/// `None`: without bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// From this instant on.
    #[serde(rename = "start_ns")]
    pub start: Option<i64>,
    /// Up to this instant.
    #[serde(rename = "end_ns")]
    pub end: Option<i64>,
}

impl Window {
    /// Whether it is inside.
    pub fn contains(self, at: i64) -> bool {
        self.start.is_none_or(|start| start <= at) && self.end.is_none_or(|end| at <= end)
    }

    /// How long it is, nanoseconds; `None`: an end is unknown, or the ends of a damaged stream are the wrong way round.
    pub fn length(self) -> Option<u64> {
        u64::try_from(self.end?.saturating_sub(self.start?)).ok()
    }
}

/// The facts of a stream that hold for all its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BurstFacts {
    /// What was counted, its ends filled in where the stream has times.
    #[serde(flatten)]
    pub window: Window,
    /// Events that the runtime dropped; `None`: the writer does not number them.
    pub lost_events: Option<u64>,
    /// Bytes of the stream, the rundown included.
    pub bytes: u64,
    /// Methods that the rundown named.
    pub methods: u64,
    /// Distinct frames without a name.
    pub unknown_frames: u64,
    /// Events whose stack had no place.
    pub stacks_dropped: u64,
    /// Events of other processes (recordings of a whole machine): not counted in anything else.
    pub other_processes: u64,
    /// The stream has its end tag.
    pub clean_end: bool,
    /// From StopTracing to the end, as far as the stream shows it: first to last rundown event.
    pub rundown_ns: Option<i64>,
}
