//! Effect of a collection on requests.

/// Effect of one collection on the requests that ended soon after it. No event of the collector reports this effect;
/// the reader of the process's requests sets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestImpact {
    /// Number of requests that the collection stopped.
    pub hit: u64,
    /// Total time that these requests lost, in nanoseconds.
    pub lost_ns: u64,
    /// The request that lost the most time; `None` if the collection stopped no request.
    pub worst: Option<WorstRequest>,
}

/// The request that lost the most time in a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorstRequest {
    /// Time lost in this collection, in nanoseconds.
    pub lost_ns: u64,
    /// Trace id of the request, if it has one.
    pub trace_id: Option<[u8; 16]>,
    /// Span id of the request, if it has one.
    pub span_id: Option<[u8; 8]>,
}

impl RequestImpact {
    /// Adds a request that lost time in this collection.
    pub fn add(&mut self, request: WorstRequest) {
        self.hit += 1;
        self.lost_ns = self.lost_ns.saturating_add(request.lost_ns);
        if self.worst.is_none_or(|worst| worst.lost_ns < request.lost_ns) {
            self.worst = Some(request);
        }
    }
}
