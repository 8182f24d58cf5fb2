//! What collections did to the requests of one process.

use base::time::UnixBase;
use gc_requests::request::Request;
use schemars::JsonSchema;
use serde::Serialize;

use crate::event::hex;

/// What collections did to requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportedRequests {
    /// All of them.
    pub count: u64,
    /// Of so many the time lost is known.
    pub known: u64,
    /// So many lost some.
    pub hit: u64,
    /// All that they lost.
    pub lost_ns: i64,
    /// Where their traces are shown, with `{trace_id}`: `web.trace_url`.
    pub trace_url: Option<String>,
    /// Those that lost most, most first.
    pub worst: Vec<ReportedRequest>,
}

/// A request that was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportedRequest {
    /// When it began, Unix milliseconds.
    pub start_ms: Option<u64>,
    /// How long it took.
    pub duration_ns: i64,
    /// How long it was stopped.
    pub stopped_ns: i64,
    /// Its trace, hexadecimal.
    pub trace_id: Option<String>,
    /// When it was stopped: from and to, nanoseconds since its start; the first of many.
    pub stops: Vec<[i64; 2]>,
    /// By which collections.
    pub collections: Vec<u32>,
}

/// Requests as they end: counted, and those that lost most.
#[derive(Debug, Clone)]
pub struct RequestTally {
    record: ReportedRequests,
    most: usize,
    most_stops: usize,
}

impl RequestTally {
    /// Nothing yet. `most`: how many requests are kept, `most_stops`: how many stops of each.
    pub fn new(most: usize, most_stops: usize) -> Self {
        Self {
            record: ReportedRequests::default(),
            most,
            most_stops,
        }
    }

    /// Another one ended.
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

    /// What it came to.
    pub fn record(&self) -> &ReportedRequests {
        &self.record
    }
}

impl ReportedRequests {
    /// Both together, with `most` of the requests that lost most.
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
