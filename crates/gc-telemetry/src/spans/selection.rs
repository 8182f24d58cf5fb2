//! Selection of collections for spans.

use std::time::Duration;

use base::time::Moment;
use clr_gc::gc::Collection;

use crate::ids::SpanIds;
use crate::options::SpanOptions;

/// 2^56: largest randomness of a trace id, plus one.
const RANDOMNESS_END: u64 = 1 << 56;

const SECOND_NS: u64 = 1_000_000_000;

/// Maximum number of short collections of one process that become spans per second because an incident is open. A few
/// spans show the user what the short collections are like; not all collections are necessary.
const IN_INCIDENT: u32 = 1;

/// Reason why the spans of a collection, or of a request's pauses, were not exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotExported {
    /// The options exclude the collection (generation, pause or share) or the request.
    NotSelected,
    /// The limit of collections or requests per second was reached.
    OverRate,
}

/// Selection with its rate limit.
#[derive(Debug)]
pub(super) struct Selection {
    min_generation: u32,
    min_pause: Duration,
    /// Minimum randomness of sampled trace ids.
    threshold: u64,
    trace_state: String,
    bucket: TokenBucket,
    in_incident: TokenBucket,
}

impl Selection {
    pub(super) fn new(options: &SpanOptions) -> Self {
        let threshold = threshold(options.ratio);
        Self {
            min_generation: options.min_generation,
            min_pause: options.min_pause,
            threshold,
            trace_state: trace_state(threshold),
            bucket: TokenBucket::new(options.max_per_second),
            in_incident: TokenBucket::new(IN_INCIDENT),
        }
    }

    pub(super) fn set_options(&mut self, options: &SpanOptions) {
        let before = std::mem::replace(self, Self::new(options));
        if before.bucket.max_per_second == options.max_per_second {
            self.bucket = before.bucket;
        }
        self.in_incident = before.in_incident;
    }

    /// Selects a collection for spans. `at` is the time of its last event; `in_incident` is `true` while an incident of
    /// the process is open.
    pub(super) fn decide(
        &mut self,
        collection: &Collection,
        ids: SpanIds,
        at: Moment,
        in_incident: bool,
    ) -> Result<(), NotExported> {
        let too_young = collection
            .generation
            .is_some_and(|generation| generation < self.min_generation);
        let is_sampled = ids.randomness() >= self.threshold;
        if too_young || !is_sampled {
            return Err(NotExported::NotSelected);
        }
        let is_wanted = self.is_long(collection) || is_looked_for(collection);
        let is_exported = is_wanted || (in_incident && self.in_incident.take(at));
        if !is_exported {
            return Err(NotExported::NotSelected);
        }
        self.bucket.take(at).then_some(()).ok_or(NotExported::OverRate)
    }

    /// Returns whether the pause is at least the minimum pause, or unknown.
    fn is_long(&self, collection: &Collection) -> bool {
        let pause = collection.pause_ns.and_then(|ns| u64::try_from(ns).ok());
        pause.is_none_or(|ns| Duration::from_nanos(ns) >= self.min_pause)
    }

    /// Returns the W3C trace state with the sampling threshold; empty if all collections are sampled.
    pub(super) fn trace_state(&self) -> &str {
        &self.trace_state
    }
}

/// Returns whether a collection is a nonconcurrent full collection or stopped a request. Users can look for such
/// collections even if the pause was short.
fn is_looked_for(collection: &Collection) -> bool {
    let is_full = collection.generation == Some(2) && !collection.is_concurrent();
    is_full || collection.requests.is_some_and(|impact| impact.hit > 0)
}

/// Returns the threshold of OpenTelemetry's consistent probability sampling: a trace is sampled if its randomness is at
/// least the threshold.
fn threshold(ratio: f64) -> u64 {
    if ratio.is_nan() {
        return 0;
    }
    ((1.0 - ratio.clamp(0.0, 1.0)) * RANDOMNESS_END as f64).round() as u64
}

/// Returns the trace state, such as `ot=th:8` for a half: the 14 hexadecimal digits of the threshold without trailing
/// zeros.
fn trace_state(threshold: u64) -> String {
    if threshold == 0 || threshold >= RANDOMNESS_END {
        return String::new();
    }
    let digits = format!("{threshold:014x}");
    format!("ot=th:{}", digits.trim_end_matches('0'))
}

/// Rate limit in the time of the events, with bursts of at most the tokens of one second.
#[derive(Debug)]
pub(super) struct TokenBucket {
    max_per_second: u32,
    /// Unused tokens, as the nanoseconds that were necessary to earn them; at most one second.
    earned_ns: u64,
    newest: Moment,
}

impl TokenBucket {
    pub(super) fn new(max_per_second: u32) -> Self {
        Self {
            max_per_second,
            earned_ns: SECOND_NS,
            newest: Moment::FIRST,
        }
    }

    pub(super) fn take(&mut self, at: Moment) -> bool {
        // Collections are not strictly in order: a background collection follows the collections that ran during it.
        let passed = at.since(self.newest);
        self.newest = self.newest.max(at);
        self.earned_ns = self.earned_ns.saturating_add(passed).min(SECOND_NS);
        let Some(price) = SECOND_NS.checked_div(u64::from(self.max_per_second)) else {
            return false;
        };
        match self.earned_ns.checked_sub(price) {
            Some(rest) => {
                self.earned_ns = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Ids;

    /// Scenario: the limit is 50 per second. 200 collections occur in one millisecond, then one collection every 10 ms
    /// for 10 s.
    /// Guarantee: 50 collections of the burst are exported, then 50 per second.
    #[test]
    fn rate_is_bounded_in_event_time() {
        let mut bucket = TokenBucket::new(50);
        let start = 1_700_000_000 * SECOND_NS;
        let burst = (0..200)
            .filter(|step| bucket.take(Moment::from_ns(start + step * 5_000)))
            .count();
        assert_eq!(burst, 50);
        let steady = (1..=1000)
            .filter(|step| bucket.take(Moment::from_ns(start + step * 10_000_000)))
            .count();
        assert!((499..=501).contains(&steady), "{steady}");
    }

    /// Scenario: times go back, as the times of background collections do; another limit is 0.
    /// Guarantee: backward times earn no tokens; with a limit of 0 no collection is exported.
    #[test]
    fn backward_time_earns_no_tokens() {
        let mut bucket = TokenBucket::new(1);
        assert!(bucket.take(Moment::from_ns(10 * SECOND_NS)));
        assert!(!bucket.take(Moment::from_ns(5 * SECOND_NS)));
        assert!(!bucket.take(Moment::from_ns(10 * SECOND_NS)));
        assert!(bucket.take(Moment::from_ns(11 * SECOND_NS)));
        assert!(!TokenBucket::new(0).take(Moment::from_ns(SECOND_NS)));
    }

    /// Scenario: the shares are all, none, a half and a tenth of 20,000 traces.
    /// Guarantee: about this share is exported, and the trace state contains the threshold.
    #[test]
    fn configured_share_is_exported() {
        let mut ids = Vec::new();
        for run in 0u128..20_000 {
            ids.push(Ids::new((run << 64 | 77).to_le_bytes()).linked(None, 5));
        }
        let exported = |ratio: f64| ids.iter().filter(|ids| ids.randomness() >= threshold(ratio)).count();
        assert_eq!((exported(1.0), exported(0.0)), (20_000, 0));
        assert!((9_700..10_300).contains(&exported(0.5)), "{}", exported(0.5));
        assert!((1_850..2_150).contains(&exported(0.1)), "{}", exported(0.1));
        assert_eq!(trace_state(threshold(1.0)), "");
        assert_eq!(trace_state(threshold(0.5)), "ot=th:8");
        assert_eq!(trace_state(threshold(0.25)), "ot=th:c");
        assert_eq!(threshold(f64::NAN), 0);
    }
}
