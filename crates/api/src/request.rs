//! The record of a request.

use gc_requests::request::Request;
use gc_requests::stops::Stop;
use nettrace::TraceHeader;
use serde::Serialize;

use crate::event::hex;

/// `kind: "request"`: a request of a web service, and the effect of collections on it. Times are in nanoseconds of the
/// stream's clock (on Linux `CLOCK_MONOTONIC`).
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "request")]
pub struct RequestRecord {
    trace_id: Option<String>,
    span_id: Option<String>,
    parent_span_id: Option<String>,
    sampled: Option<bool>,
    start_ns: Option<i64>,
    end_ns: i64,
    duration_ns: Option<i64>,
    /// Stopped time in nanoseconds; `None` if it could not be determined, for example because events were lost during
    /// the request.
    stopped_ns: Option<i64>,
    /// Number of stops during the request; `None` if the stopped time is unknown. `pauses` contains the first stops.
    stops: Option<u32>,
    pauses: Vec<PauseRecord>,
    status: Option<u16>,
    failed: bool,
}

#[derive(Debug, Serialize)]
struct PauseRecord {
    start_ns: i64,
    end_ns: i64,
    gc_number: Option<u32>,
    generation: Option<u32>,
    background: bool,
}

impl RequestRecord {
    /// Creates the record of a request. `header` is the header of its stream; without a header, times are relative to
    /// the sync point.
    pub fn new(request: &Request, header: Option<&TraceHeader>) -> Self {
        let sync = header.map_or(0, |header| header.offset_ns(0).saturating_neg());
        let at = |offset: i64| sync.saturating_add(offset);
        let ended = &request.ended;
        Self {
            trace_id: ended.trace_id.map(|id| hex(&id)),
            span_id: ended.span_id.map(|id| hex(&id)),
            parent_span_id: ended.parent_span_id.map(|id| hex(&id)),
            sampled: ended.sampled,
            start_ns: request.start.map(at),
            end_ns: at(request.end),
            duration_ns: request.duration_ns(),
            stopped_ns: request.stopped_ns,
            stops: request.stopped_ns.map(|_| request.stops),
            pauses: request.hits.iter().map(|hit| pause(hit, at)).collect(),
            status: ended.status,
            failed: ended.failed,
        }
    }
}

fn pause(hit: &Stop, at: impl Fn(i64) -> i64) -> PauseRecord {
    PauseRecord {
        start_ns: at(hit.begin),
        end_ns: at(hit.end),
        gc_number: hit.collection,
        generation: hit.generation,
        background: hit.background,
    }
}
