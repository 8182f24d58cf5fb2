//! Effect of collections on the requests of one process.

use base::time::UnixBase;
use gc_requests::request::Request;
use schemars::JsonSchema;
use serde::Serialize;

use crate::event::hex;

/// Effect of collections on requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportedRequests {
    /// Number of requests.
    pub count: u64,
    /// Number of requests whose lost time is known.
    pub known: u64,
    /// Number of requests that lost time.
    pub hit: u64,
    /// Total time that the requests lost.
    pub lost_ns: i64,
    /// URL template of a page that shows traces, with the placeholder `{trace_id}` (`web.trace_url`); null if it is not
    /// configured.
    pub trace_url: Option<String>,
    /// Requests that lost the most time, in descending order.
    pub worst: Vec<ReportedRequest>,
}

/// A request that was stopped. Unknown values are null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportedRequest {
    /// Start of the request, in Unix milliseconds.
    pub start_ms: Option<u64>,
    /// Duration of the request.
    pub duration_ns: i64,
    /// Time for which the request was stopped.
    pub stopped_ns: i64,
    /// Trace id, hexadecimal.
    pub trace_id: Option<String>,
    /// Start and end of each stop, in nanoseconds since the start of the request. If there are many stops, only the
    /// first stops are listed.
    pub stops: Vec<[i64; 2]>,
    /// Numbers of the collections that stopped the request.
    pub collections: Vec<u32>,
}

/// A sum of finished requests: counts, and the requests that lost the most time.
#[derive(Debug, Clone)]
pub struct RequestTally {
    record: ReportedRequests,
    most: usize,
    most_stops: usize,
}

impl RequestTally {
    /// Creates an empty tally. `most` is the maximum number of requests kept, `most_stops` the maximum number of stops
    /// per request.
    pub fn new(most: usize, most_stops: usize) -> Self {
        Self {
            record: ReportedRequests::default(),
            most,
            most_stops,
        }
    }

    /// Adds a finished request.
    pub fn observe(&mut self, request: &Request, base: UnixBase) {
        let record = &mut self.record;
        record.count += 1;
        let Some(stopped_ns) = request.stopped_ns else { return };
        record.known += 1;
        if stopped_ns <= 0 {
            return;
        }
        record.hit += 1;
        record.lost_ns = record.lost_ns.saturating_add(stopped_ns);
        let place = record.worst.partition_point(|kept| kept.stopped_ns >= stopped_ns);
        if place >= self.most {
            return;
        }
        if let Some(request) = reported(request, stopped_ns, self.most_stops, base) {
            record.worst.truncate(self.most - 1);
            record.worst.insert(place, request);
        }
    }

    /// Returns the accumulated record.
    pub fn record(&self) -> &ReportedRequests {
        &self.record
    }
}

impl ReportedRequests {
    /// Adds another record, and keeps `most` of the requests that lost the most time.
    pub fn add(&mut self, other: &Self, most: usize) {
        self.count += other.count;
        self.known += other.known;
        self.hit += other.hit;
        self.lost_ns = self.lost_ns.saturating_add(other.lost_ns);
        self.worst.extend(other.worst.iter().cloned());
        self.worst.sort_by_key(|request| std::cmp::Reverse(request.stopped_ns));
        self.worst.truncate(most);
    }
}

fn reported(request: &Request, stopped_ns: i64, most_stops: usize, base: UnixBase) -> Option<ReportedRequest> {
    let start = request.start?;
    let hits = request.hits.iter().take(most_stops);
    let mut collections: Vec<u32> = hits.clone().filter_map(|stop| stop.collection).collect();
    collections.dedup();
    Some(ReportedRequest {
        start_ms: Some(base.unix_ns(start) / 1_000_000),
        duration_ns: request.duration_ns()?,
        stopped_ns,
        trace_id: request.ended.trace_id.map(|id| hex(&id)),
        stops: hits.map(|stop| [stop.begin - start, stop.end - start]).collect(),
        collections,
    })
}
