//! The time window of a burst, and facts about the whole stream.

use serde::Serialize;

/// The time window of the events that count, in nanoseconds of the stream's clock (Linux: `CLOCK_MONOTONIC`). A limit
/// of `None` means unbounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Start of the window, inclusive.
    #[serde(rename = "start_ns")]
    pub start: Option<i64>,
    /// End of the window, inclusive.
    #[serde(rename = "end_ns")]
    pub end: Option<i64>,
}

impl Window {
    /// Returns whether a time is in the window.
    pub fn contains(self, at: i64) -> bool {
        self.start.is_none_or(|start| start <= at) && self.end.is_none_or(|end| at <= end)
    }

    /// Returns the length of the window, in nanoseconds, or `None` if a limit is unknown, or if the limits of a damaged
    /// stream are reversed.
    pub fn length(self) -> Option<u64> {
        u64::try_from(self.end?.saturating_sub(self.start?)).ok()
    }
}

/// Facts about a stream that apply to all its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BurstFacts {
    /// Window of the events that count. Missing limits are set to the times in the stream if it has any.
    #[serde(flatten)]
    pub window: Window,
    /// Events that the runtime dropped; `None` if the writer does not number events.
    pub lost_events: Option<u64>,
    /// Size of the stream including the rundown, in bytes.
    pub bytes: u64,
    /// Number of methods in the rundown.
    pub methods: u64,
    /// Number of distinct frames without a name.
    pub unknown_frames: u64,
    /// Number of events without a stack because of the memory limit.
    pub stacks_dropped: u64,
    /// Number of events of other processes (recordings of a whole machine). They do not count in any other value.
    pub other_processes: u64,
    /// Whether the stream has its end tag.
    pub clean_end: bool,
    /// Time from the first to the last rundown event, in nanoseconds: an estimate of the time from StopTracing to the
    /// end of the stream. `None` if the stream has no rundown.
    pub rundown_ns: Option<i64>,
}
