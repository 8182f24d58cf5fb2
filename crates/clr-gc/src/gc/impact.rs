//! What a collection did to requests.

/// What one collection did to the requests that ended soon after it. No event of the collector says so: whoever also
/// reads the requests of a process sets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestImpact {
    /// Requests that it stopped.
    pub hit: u64,
    /// What they lost by it in all, nanoseconds.
    pub lost_ns: u64,
    /// The one that lost most; `None`: it stopped none.
    pub worst: Option<WorstRequest>,
}

/// The request that a collection cost most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorstRequest {
    /// What it lost by this collection, nanoseconds.
    pub lost_ns: u64,
    /// Its trace, where it has one.
    pub trace_id: Option<[u8; 16]>,
    /// Its span, where it has one.
    pub span_id: Option<[u8; 8]>,
}

impl RequestImpact {
    /// One more request, which lost so much by this collection.
    pub fn add(&mut self, request: WorstRequest) {
        self.hit += 1;
        self.lost_ns = self.lost_ns.saturating_add(request.lost_ns);
        if self.worst.is_none_or(|worst| worst.lost_ns < request.lost_ns) {
            self.worst = Some(request);
        }
    }
}
