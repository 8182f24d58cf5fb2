//! Exemplars: spans of a distribution's longest and newest durations.

use opentelemetry_proto::tonic::metrics::v1::{Exemplar, exemplar};

use crate::spans::SpanIds;

/// Measurement with its span.
#[derive(Debug, Clone, Copy)]
struct SpanMeasurement {
    ns: u64,
    at: u64,
    span: SpanIds,
}

/// Maximum and newest measurement of a time window.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Exemplars {
    window_start: u64,
    longest: Option<SpanMeasurement>,
    newest: Option<SpanMeasurement>,
}

impl Exemplars {
    /// Observes a measurement at the Unix time `at`; after `window` nanoseconds a new window starts. All times are
    /// times of events.
    pub(super) fn observe(&mut self, ns: u64, at: u64, span: SpanIds, window: u64) {
        if at.saturating_sub(self.window_start) >= window {
            *self = Self {
                window_start: at,
                ..Self::default()
            };
        }
        let measured = SpanMeasurement { ns, at, span };
        if self.longest.is_none_or(|longest| ns >= longest.ns) {
            self.longest = Some(measured);
        }
        if self.newest.is_none_or(|newest| at >= newest.at) {
            self.newest = Some(measured);
        }
    }

    /// Removes all measurements. The next measurement starts a new window.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(super) fn exported(&self) -> Vec<Exemplar> {
        let same = |a: &SpanMeasurement, b: &SpanMeasurement| (a.at, a.span) == (b.at, b.span);
        let newest = self
            .newest
            .filter(|newest| !self.longest.is_some_and(|longest| same(&longest, newest)));
        self.longest
            .into_iter()
            .chain(newest)
            .map(|measured| Exemplar {
                time_unix_nano: measured.at,
                value: Some(exemplar::Value::AsDouble(measured.ns as f64 / 1e9)),
                trace_id: measured.span.trace_id.to_vec(),
                span_id: measured.span.span_id.to_vec(),
                filtered_attributes: Vec::new(),
            })
            .collect()
    }
}
