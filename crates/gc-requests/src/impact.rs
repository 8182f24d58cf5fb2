//! What a collection did to requests.

use std::collections::BTreeMap;

use crate::request::Request;

/// What one collection did to the requests that ended soon after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Impact {
    /// Requests that it stopped.
    pub hit: u64,
    /// What they lost by it in all.
    pub lost_ns: i64,
    /// The one that lost most.
    pub worst: Option<Worst>,
}

/// The request that a collection cost most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worst {
    /// What it lost by this collection.
    pub lost_ns: i64,
    /// Its trace, where it has one.
    pub trace_id: Option<[u8; 16]>,
    /// Its span, where it has one.
    pub span_id: Option<[u8; 8]>,
}

impl Impact {
    fn add(&mut self, lost_ns: i64, request: &Request) {
        self.hit += 1;
        self.lost_ns = self.lost_ns.saturating_add(lost_ns);
        if self.worst.is_none_or(|worst| worst.lost_ns < lost_ns) {
            self.worst = Some(Worst {
                lost_ns,
                trace_id: request.ended.trace_id,
                span_id: request.ended.span_id,
            });
        }
    }
}

/// Collections by number, the newest of them.
#[derive(Debug, Default)]
pub(crate) struct Impacts(BTreeMap<u32, Impact>);

impl Impacts {
    /// A request lost so much by each of these collections; `most` are kept.
    pub(crate) fn add(&mut self, request: &Request, by_collection: &[(u32, i64)], most: usize) {
        for (number, lost_ns) in by_collection {
            self.0.entry(*number).or_default().add(*lost_ns, request);
        }
        while self.0.len() > most {
            self.0.pop_first();
        }
    }

    pub(crate) fn take(&mut self, number: u32) -> Option<Impact> {
        self.0.remove(&number)
    }
}
