//! Large objects that trigger full collections.
//!
//! A higher threshold (`GCLOHThreshold`) allocates these objects in generation 0. In a measurement with objects that
//! outlived a young collection, the higher threshold raised the stopped share from 1.1 to 6.7 %. Events do not show how
//! long large objects live, so this kind always refuses the setting and states the counts.

use super::{PredictionResult, Subject};

/// Returns the refusal with the number of full collections that large objects triggered.
pub(super) fn predict(subject: &Subject<'_>) -> PredictionResult {
    let observation = subject.observation;
    let triggered = observation.full.iter().filter(|full| full.by_large).count();
    let full = observation.full.len();
    if triggered == 0 {
        return Err(format!("large objects triggered none of {full} full collections"));
    }
    let budget = observation
        .large_allocation
        .zip(observation.large_budget.filter(|budget| *budget > 0.0));
    let by_budget = budget.map_or_else(String::new, |(rate, budget)| {
        format!(
            " ({:.1} MB per second, and a budget of {:.1} MB, make {:.1} per minute)",
            rate / 1e6,
            budget / 1e6,
            rate / budget * 60.0
        )
    });
    let pid = subject.pid.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    Err(format!(
        "large objects triggered {triggered} of {full} full collections{by_budget}; GCLOHThreshold helps only if these \
         objects die before the next young collection, which events do not show; find their code with `gcwatch \
         allocations {pid}` and pool them"
    ))
}
