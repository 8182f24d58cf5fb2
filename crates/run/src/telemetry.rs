//! Spans and series of a run.

use std::sync::Arc;

use base::time::UnixBase;
use clr_gc::gc::Collection;
use gc_requests::request::Request;
use gc_telemetry::anomaly::Anomaly;
use gc_telemetry::options::{MetricOptions, Temporality};
use gc_telemetry::series::Series;
use gc_telemetry::spans::{EncodedSpans, NotExported, SpanIds, Tracer};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use rule_engine::alert::{CollectionVerdict, Transition};

use crate::settings::PipelineSettings;

/// Spans and series of a run.
#[derive(Debug)]
pub(crate) struct RunTelemetry {
    /// Series of the run; `None` before the first attach.
    pub(crate) series: Option<Series>,
    /// Tracer, together with the settings that its options come from; `None` before the first collection.
    tracer: Option<(Arc<PipelineSettings>, Tracer)>,
    /// Seed of the trace ids.
    seed: [u8; 16],
}

impl RunTelemetry {
    pub(crate) fn new() -> Self {
        let mut seed = [0; 16];
        fastrand::fill(&mut seed);
        Self {
            series: None,
            tracer: None,
            seed,
        }
    }

    /// Handles the start of a session. The first session creates the series.
    pub(crate) fn begin(&mut self, options: &MetricOptions, start_unix_ns: u64) {
        if self.series.is_none() {
            self.series = Some(Series::new(options.clone(), start_unix_ns));
        }
    }

    /// Creates the spans of a collection if it is selected, and updates the series.
    pub(crate) fn collection(
        &mut self,
        collection: &Collection,
        base: UnixBase,
        anomalies: &[Anomaly<'_>],
        in_incident: bool,
        settings: &Arc<PipelineSettings>,
    ) -> (Option<SpanIds>, Result<EncodedSpans, NotExported>) {
        let tracer = self.tracer(settings);
        let traced = tracer.trace(collection, base, anomalies, in_incident);
        let ids = traced.as_ref().ok().map(|(ids, _)| *ids);
        if let Some(series) = self.series.as_mut() {
            series.observe(collection, base, ids);
            if let (Err(why), true) = (&traced, settings.spans.enabled) {
                series.observe_unexported(*why);
            }
        }
        (ids, traced.map(|(_, spans)| spans))
    }

    fn tracer(&mut self, settings: &Arc<PipelineSettings>) -> &mut Tracer {
        let (of, tracer) = self.tracer.get_or_insert_with(|| {
            let tracer = Tracer::new(settings.spans.clone(), self.seed);
            (Arc::clone(settings), tracer)
        });
        if !Arc::ptr_eq(of, settings) {
            tracer.set_options(settings.spans.clone());
            *of = Arc::clone(settings);
        }
        tracer
    }

    /// Handles a finished request: counts it and, if it is selected, creates spans for its pauses in the trace of the
    /// request.
    pub(crate) fn request(
        &mut self,
        request: &Request,
        base: UnixBase,
        settings: &Arc<PipelineSettings>,
    ) -> Result<EncodedSpans, NotExported> {
        let spans = self.tracer(settings).trace_request(request, base);
        if let Some(series) = self.series.as_mut() {
            series.observe_request(request, base);
            if let Err(NotExported::OverRate) = spans {
                series.observe_unexported_request();
            }
        }
        spans
    }

    /// Returns the metrics of the collections and the start of the totals in Unix nanoseconds; `None` before the first
    /// attach.
    pub(crate) fn metrics(&mut self, now_unix_ns: u64, temporality: Temporality) -> Option<(Vec<Metric>, u64)> {
        let series = self.series.as_mut()?;
        let metrics = match temporality {
            Temporality::Cumulative => series.cumulative(now_unix_ns),
            Temporality::Delta => series.delta(now_unix_ns),
        };
        Some((metrics, series.start_unix_ns()))
    }
}

/// Returns the rules that a collection matched, each with the summary of its alert if the collection raised one.
pub(crate) fn anomalies<'a>(
    verdict: &'a CollectionVerdict,
    collection: &Collection,
    base: UnixBase,
) -> Vec<Anomaly<'a>> {
    let at_unix_ns = base.unix_ns(collection.end.unwrap_or(collection.last_event));
    let fired = |id: &str| {
        verdict.transitions.iter().find_map(|transition| match transition {
            Transition::Fired(alert) if *alert.rule.id == *id => Some(alert),
            _ => None,
        })
    };
    let matched = verdict.matched.iter();
    matched
        .map(|rule| Anomaly {
            rule,
            severity: fired(&rule.id).map_or(rule.severity, |alert| alert.severity),
            summary: fired(&rule.id).map(|alert| &*alert.summary),
            at_unix_ns,
        })
        .collect()
}
