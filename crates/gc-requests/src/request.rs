//! A request, with what collections took of it.

use crate::payload::Ended;
use crate::stops::Stop;

/// Stops that a request names. More are counted, and are no collection's [`Impacts`](crate::impact::Impacts).
pub const MAX_NAMED_STOPS: usize = 64;

/// A request that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What its event says.
    pub ended: Ended,
    /// Its start, nanoseconds since the sync point; `None`: it had no activity, or the clocks' distance is not known.
    pub start: Option<i64>,
    pub end: i64,
    /// How long the collector stopped it; `None`: unknown, as its start is, or as events were lost in it, or as it began
    /// before the oldest stop that is known.
    pub stopped_ns: Option<i64>,
    /// Stops that hit it; 0 where `stopped_ns` is unknown.
    pub stops: u32,
    /// The first of them, each clipped to it.
    pub hits: Vec<Stop>,
}

impl Request {
    /// How long it took.
    pub fn duration_ns(&self) -> Option<i64> {
        Some(self.end.saturating_sub(self.start?))
    }

    /// The part of it that was stopped, 0 to 1.
    pub fn share(&self) -> Option<f64> {
        let (stopped, duration) = (self.stopped_ns?, self.duration_ns().filter(|ns| *ns > 0)?);
        Some(stopped as f64 / duration as f64)
    }
}
