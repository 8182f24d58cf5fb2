//! Which collections become spans.

use std::time::Duration;

use base::time::Moment;
use clr_gc::gc::Collection;

use crate::ids::SpanIds;
use crate::options::SpanOptions;

/// 2^56: one more than the largest randomness of a trace id.
const RANDOMNESS_END: u64 = 1 << 56;

const SECOND_NS: u64 = 1_000_000_000;

/// Short collections of one process that become spans in one second because an incident is open: some of them, so that
/// whoever looks sees what they are like, and not all for as long as it lasts.
const IN_INCIDENT: u32 = 1;

/// Why a collection was not exported as a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotExported {
    /// The options exclude it: generation, pause or share.
    NotSelected,
    /// The limit of collections per second was reached.
    OverRate,
}

/// The decision which collections become spans, with its rate limit.
#[derive(Debug)]
pub(super) struct Selection {
    min_generation: u32,
    min_pause: Duration,
    /// Trace ids with less randomness are not sampled.
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

    /// Whether a collection becomes spans. `at` is the time of its last event; `in_incident`: an incident of the process
    /// is open.
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

    /// Paused for the least pause and longer; one whose pause is unknown may have.
    fn is_long(&self, collection: &Collection) -> bool {
        let pause = collection.pause_ns.and_then(|ns| u64::try_from(ns).ok());
        pause.is_none_or(|ns| Duration::from_nanos(ns) >= self.min_pause)
    }

    /// The W3C trace state with the sampling threshold; empty when all are sampled.
    pub(super) fn trace_state(&self) -> &str {
        &self.trace_state
    }
}

/// Somebody may look for it, however short its pause was: a full collection that was not concurrent, and one that
/// stopped a request.
fn is_looked_for(collection: &Collection) -> bool {
    let is_full = collection.generation == Some(2) && !collection.is_concurrent();
    is_full || collection.requests.is_some_and(|impact| impact.hit > 0)
}

/// The threshold of OpenTelemetry's consistent probability sampling: a trace is sampled when its randomness is not
/// below.
fn threshold(ratio: f64) -> u64 {
    if ratio.is_nan() {
        return 0;
    }
    ((1.0 - ratio.clamp(0.0, 1.0)) * RANDOMNESS_END as f64).round() as u64
}

/// `ot=th:8` for a half: the threshold's 14 hexadecimal digits without the zeros at their end.
fn trace_state(threshold: u64) -> String {
    if threshold == 0 || threshold >= RANDOMNESS_END {
        return String::new();
    }
    let digits = format!("{threshold:014x}");
    format!("ot=th:{}", digits.trim_end_matches('0'))
}

/// A rate limit in the time of the events, with bursts of at most one second's worth.
#[derive(Debug)]
pub(super) struct TokenBucket {
    max_per_second: u32,
    /// Tokens, in the nanoseconds that it took to earn them: at most one second.
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
        // Collections are not quite in order: a background one follows those that ran during it.
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

    /// Scenario: 50 a second; 200 collections in one millisecond, then one every 10 ms for 10 s.
    /// Guarantee: the first 50 are exported, then 50 a second.
    #[test]
    fn the_rate_is_bounded_in_the_time_of_the_events() {
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

    /// Scenario: times that go back, as those of background collections do, and a limit of 0.
    /// Guarantee: going back earns nothing; with a limit of 0 nothing is exported.
    #[test]
    fn time_that_goes_back_earns_nothing() {
        let mut bucket = TokenBucket::new(1);
        assert!(bucket.take(Moment::from_ns(10 * SECOND_NS)));
        assert!(!bucket.take(Moment::from_ns(5 * SECOND_NS)));
        assert!(!bucket.take(Moment::from_ns(10 * SECOND_NS)));
        assert!(bucket.take(Moment::from_ns(11 * SECOND_NS)));
        assert!(!TokenBucket::new(0).take(Moment::from_ns(SECOND_NS)));
    }

    /// Scenario: shares of all, none, a half, a tenth, over 20,000 traces.
    /// Guarantee: about that share is exported, a smaller share is a part of a larger one, and the trace state has the
    /// threshold.
    #[test]
    fn the_share_is_exported() {
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
