//! What collections did to requests, until somebody asks.

use std::collections::BTreeMap;

use clr_gc::gc::{RequestImpact, WorstRequest};

use crate::request::Request;
use crate::stops::Stop;

/// Collections of which impacts are kept.
pub const MAX_IMPACTS: usize = 1_024;

/// Collections by number, the newest of them.
#[derive(Debug, Default)]
pub struct Impacts(BTreeMap<u32, RequestImpact>);

impl Impacts {
    /// A request more.
    pub fn add(&mut self, request: &Request) {
        for (place, hit) in request.hits.iter().enumerate() {
            let Some(number) = hit.collection else { continue };
            let same = |other: &&Stop| other.collection == Some(number);
            if request.hits.iter().take(place).any(|other| same(&other)) {
                continue;
            }
            let stops = request.hits.iter().filter(same);
            let lost: i64 = stops.map(|hit| hit.end.saturating_sub(hit.begin)).sum();
            self.0.entry(number).or_default().add(WorstRequest {
                lost_ns: u64::try_from(lost).unwrap_or(0),
                trace_id: request.ended.trace_id,
                span_id: request.ended.span_id,
            });
        }
        while self.0.len() > MAX_IMPACTS {
            self.0.pop_first();
        }
    }

    /// What a collection did to the requests so far; `None`: it stopped none.
    pub fn take(&mut self, number: u32) -> Option<RequestImpact> {
        self.0.remove(&number)
    }
}
