//! Effects of collections on requests, retained until the caller takes them.

use std::collections::BTreeMap;

use clr_gc::gc::{RequestImpact, WorstRequest};

use crate::request::Request;
use crate::stops::Stop;

/// Maximum number of collections whose impacts are retained.
pub const MAX_IMPACTS: usize = 1_024;

/// Impacts of the newest collections, by collection number.
#[derive(Debug, Default)]
pub struct Impacts(BTreeMap<u32, RequestImpact>);

impl Impacts {
    /// Adds a request to the impact of each collection that stopped it. If there are more than [`MAX_IMPACTS`] impacts,
    /// the impacts with the lowest numbers are dropped.
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

    /// Removes and returns the impact of a collection, or `None` if the collection stopped no request or its impact was
    /// dropped.
    pub fn take(&mut self, number: u32) -> Option<RequestImpact> {
        self.0.remove(&number)
    }
}
