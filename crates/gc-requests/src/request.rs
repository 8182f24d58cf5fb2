//! A request with the time that collections took from it.

use crate::payload::CompletedRequest;
use crate::stops::Stop;

/// Maximum number of stops listed for a request. Further stops count for the request, but not for the
/// [`Impacts`](crate::impact::Impacts) of their collections.
pub const MAX_NAMED_STOPS: usize = 64;

/// A completed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Data of the event.
    pub ended: CompletedRequest,
    /// Start of the request, in nanoseconds since the sync point; `None` if the request had no activity, if the offset
    /// between the clocks is unknown, or if the start would be after the end.
    pub start: Option<i64>,
    pub end: i64,
    /// Duration for which the collector stopped the request, in nanoseconds; `None` if the start is unknown, if events
    /// were lost during the request, if not all stops since its start are known, or if too many requests waited
    /// ([`MAX_WAITING`](crate::requests::MAX_WAITING)).
    pub stopped_ns: Option<i64>,
    /// Number of stops during the request; 0 if `stopped_ns` is unknown.
    pub stops: u32,
    /// The first stops, at most [`MAX_NAMED_STOPS`], each clipped to the request.
    pub hits: Vec<Stop>,
}

impl Request {
    /// Returns the duration of the request, in nanoseconds, or `None` if the start is unknown.
    pub fn duration_ns(&self) -> Option<i64> {
        Some(self.end.saturating_sub(self.start?))
    }

    /// Returns the fraction of the request that was stopped, from 0 to 1, or `None` if the stopped time is unknown or
    /// the duration is 0.
    pub fn share(&self) -> Option<f64> {
        let (stopped, duration) = (self.stopped_ns?, self.duration_ns().filter(|ns| *ns > 0)?);
        Some(stopped as f64 / duration as f64)
    }
}
