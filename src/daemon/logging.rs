//! What the daemon says of itself: lines on standard error, and the same as log records and spans over OTLP.
//!
//! The records of the SDK go into the one OTLP client that the targets' data takes too: it never blocks, retries, knows the
//! operator's certificates, and needs no thread of its own. What that client itself says stays on standard error, or a receiver
//! that is down would be told of it.

use std::future::{Ready, ready};
use std::io::IsTerminal as _;
use std::sync::Arc;

use gc_telemetry::origin::Origin;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter, SdkLoggerProvider};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::options::{LogFormat, LogOptions, SelfTelemetryOptions};
use delivery::otlp::Exporter;

/// Targets whose events are the daemon's own; libraries speak from warnings on.
const OWN: &str = "gcwatch";

/// The OTLP client speaks under this target.
const EXPORT: &str = "gcwatch::export";

/// The lines on standard error, of which the level can be changed.
#[derive(Debug, Clone)]
pub struct Lines(reload::Handle<EnvFilter, Registry>);

impl Lines {
    /// Other levels from now on.
    pub fn set_filter(&self, filter: &str) {
        // It only fails when nothing logs any more.
        let _nothing_logs = self.0.reload(EnvFilter::new(filter));
    }
}

/// Begins to log: to standard error, and with an exporter what `own` says as log records and spans too.
///
/// # Errors
///
/// When something else of the process logs already.
pub fn begin(
    options: &LogOptions,
    own: &SelfTelemetryOptions,
    exporter: Option<(Exporter, Arc<Origin>)>,
) -> Result<Lines, TryInitError> {
    let (subscriber, lines) = subscriber(options, own, exporter);
    subscriber.try_init()?;
    Ok(lines)
}

/// What hears of events and spans. What none of its layers wants must cost nothing: the libraries that send requests have a span for each frame.
fn subscriber(
    options: &LogOptions,
    own: &SelfTelemetryOptions,
    exporter: Option<(Exporter, Arc<Origin>)>,
) -> (impl Subscriber + Send + Sync + 'static, Lines) {
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = match options.format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let (filter, handle) = reload::Layer::new(EnvFilter::new(&options.filter));
    let handle = Lines(handle);
    let registry = Registry::default().with(lines.with_filter(filter));
    let to_exporter = exporter.map(|(exporter, resource)| ToExporter { exporter, resource });
    // What the client says of its own troubles would come back to it.
    let but_export = || {
        filter_fn(|metadata| metadata.target().starts_with(OWN) && !metadata.target().starts_with(EXPORT))
            // Without this nothing is known of the levels, and a span of each frame that is sent is made and thrown away.
            .with_max_level_hint(LevelFilter::TRACE)
    };
    let logs = own.logs.as_ref().zip(to_exporter.clone()).map(|(filter, to_exporter)| {
        let provider = SdkLoggerProvider::builder().with_simple_exporter(to_exporter).build();
        OpenTelemetryTracingBridge::new(&provider).with_filter(EnvFilter::new(filter).and(but_export()))
    });
    let spans = to_exporter.filter(|_| own.traces).map(|to_exporter| {
        let provider = SdkTracerProvider::builder().with_simple_exporter(to_exporter).build();
        let tracer = provider.tracer(OWN);
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_filter(LevelFilter::INFO.and(but_export()))
    });
    (registry.with(logs).with(spans), handle)
}

/// The SDK's way into the OTLP client.
#[derive(Debug, Clone)]
struct ToExporter {
    exporter: Exporter,
    resource: Arc<Origin>,
}

impl LogExporter for ToExporter {
    fn export(&self, batch: LogBatch<'_>) -> impl Future<Output = OTelSdkResult> + Send {
        let records: Vec<LogRecord> = batch.iter().map(|(record, _scope)| record.into()).collect();
        self.exporter.logs(&self.resource, records);
        ready(Ok(()))
    }
}

impl SpanExporter for ToExporter {
    fn export(&self, batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        let spans: Vec<Span> = batch.into_iter().map(Span::from).collect();
        self.exporter.spans(&self.resource, spans);
        let done: Ready<OTelSdkResult> = ready(Ok(()));
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delivery::otlp::settings::{Limits, Settings};

    /// Scenario: logs and spans of the daemon's own are exported, or not; a library makes a span for each frame that it sends.
    /// Guarantee: that span is none, and its level is known to be of no interest before anything is asked.
    #[test]
    fn spans_that_nobody_wants_are_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        let lines = LogOptions {
            filter: "info".to_owned(),
            format: LogFormat::Text,
        };
        let own = SelfTelemetryOptions {
            traces: true,
            metrics: true,
            logs: Some("info".to_owned()),
            service_name: OWN.to_owned(),
            attributes: Vec::new(),
        };
        let nowhere = Settings {
            traces: None,
            metrics: None,
            logs: None,
            limits: Limits::default(),
        };
        for exported in [false, true] {
            let exporter = exported.then(|| {
                let (exporter, _running) = Exporter::start(&nowhere).unwrap();
                (exporter, Arc::new(Origin::new(Vec::new())))
            });
            let (subscriber, _lines) = subscriber(&lines, &own, exporter);
            tracing::subscriber::with_default(subscriber, || {
                assert!(tracing::trace_span!(target: "h2", "frame").is_disabled(), "{exported}");
                assert!(
                    !tracing::info_span!(target: "gcwatch::targets", "attach").is_disabled(),
                    "{exported}"
                );
                assert_eq!(LevelFilter::current(), LevelFilter::INFO, "{exported}");
            });
        }
    }
}
