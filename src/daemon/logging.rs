//! The daemon's log: lines on standard error, and the same events as log records and spans over OTLP.
//!
//! ```text
//! tracing --+-> fmt layer        (filter: log.level, changed by a reload)     -> standard error
//!           +-> appender bridge  (filter: self_telemetry.log_level, own only) -> opentelemetry-otlp: log records
//!           '-> span layer       (INFO, own only)                             -> opentelemetry-otlp: spans
//! ```
//!
//! Log records and spans pass through the SDK's batch processors and `opentelemetry-otlp`. They use the connections for
//! the data of processes (`delivery::otlp`), with the same endpoint, protocol, TLS, headers and proxy, including their
//! reloads. The daemon's own metrics do not pass through the SDK: the client for the data of processes sends the
//! metrics of `/metrics`.
//!
//! * **No feedback.** Only targets below `gcwatch` are exported, and never `gcwatch::export`: neither a receiver that
//!   is down nor the libraries that send (h2, hyper, tonic, reqwest, opentelemetry) may cause telemetry about
//!   themselves. Incidents are not exported either, because each incident is already a log record of its process.
//! * **No waiting for a reader.** The daemon's lines, including panic messages, pass through a bounded queue to a
//!   thread that writes them ([`queue`]). Commands that end by themselves write directly.
//! * **No hanging.** Batch processors block only their own threads. The exporter shuts them down within its own
//!   deadline.
//! * **Cost.** One thread for log records (on by default) and one for spans (off by default). A debug build without
//!   processes takes 24.0 MB (VmRSS) and 2 threads without own telemetry, 24.6 MB and 3 threads with log records, and
//!   24.5 MB and 4 threads with log records and spans.

pub mod queue;

use std::io::IsTerminal as _;
use std::sync::Arc;

use gc_telemetry::origin::Origin;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use tracing::level_filters::LevelFilter;
use tracing::{Subscriber, error};
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use self::queue::LogQueue;
use super::incident_log::TARGET as INCIDENTS;
use config::options::{LogFormat, LogOptions, SelfTelemetryOptions};
use delivery::otlp::Exporter;

/// Prefix of the targets whose events belong to the daemon.
const OWN: &str = "gcwatch";

/// Target of all events about receivers.
const EXPORT: &str = "gcwatch::export";

/// Handle that changes the level of the lines on standard error during a reload.
#[derive(Debug, Clone)]
pub struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Replaces the filter.
    pub fn set_filter(&self, options: &LogOptions) {
        // The call fails only if logging has already ended.
        let _nothing_logs = self.0.reload(filter(options));
    }
}

/// Returns the filter for lines on standard error.
fn filter(options: &LogOptions) -> EnvFilter {
    let incidents = if options.incidents { "info" } else { "off" };
    // The SDK of `/mcp` logs a warning for each invalid request, so a client could fill the log.
    EnvFilter::new(format!("rmcp=off,{},{INCIDENTS}={incidents}", options.filter))
}

/// Starts logging to standard error, for a command that ends by itself.
///
/// # Errors
///
/// Returns an error if the process already has a logger.
pub fn begin(options: &LogOptions, own: &SelfTelemetryOptions) -> anyhow::Result<()> {
    let (subscriber, _level) = subscriber(options, own, BoxMakeWriter::new(std::io::stderr), None)?;
    Ok(subscriber.try_init()?)
}

/// Starts logging through a queue, including panic messages, and exports the log records and spans that `own` selects.
///
/// # Errors
///
/// Returns an error if the process already has a logger, or no tokio runtime is active.
pub fn begin_queued(
    options: &LogOptions,
    own: &SelfTelemetryOptions,
    queue: LogQueue,
    exporter: Exporter,
    resource: Arc<Origin>,
) -> anyhow::Result<LogLevel> {
    let lines = BoxMakeWriter::new(queue);
    let (subscriber, level) = subscriber(options, own, lines, Some((exporter, resource)))?;
    subscriber.try_init()?;
    std::panic::set_hook(Box::new(|panic| error!("{}", panic.to_string().replace('\n', " "))));
    Ok(level)
}

/// Builds the layers. Spans that no layer wants must cost nothing, because the libraries that send create a span for
/// each frame.
fn subscriber(
    options: &LogOptions,
    own: &SelfTelemetryOptions,
    writer: BoxMakeWriter,
    exporter: Option<(Exporter, Arc<Origin>)>,
) -> anyhow::Result<(impl Subscriber + Send + Sync + 'static, LogLevel)> {
    let lines = fmt::layer().with_writer(writer).with_target(false);
    let lines = match options.format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let (filter, handle) = reload::Layer::new(filter(options));
    let registry = Registry::default().with(lines.with_filter(filter));
    let exported = || {
        let is_own = |target: &str| target.starts_with(OWN) && !target.starts_with(EXPORT) && target != INCIDENTS;
        filter_fn(move |metadata| is_own(metadata.target()))
            // Without a hint, every level counts as wanted, and a span is created for each frame that is sent.
            .with_max_level_hint(LevelFilter::TRACE)
    };
    let (mut logs, mut spans) = (None, None);
    if let Some((exporter, resource)) = exporter {
        if let Some(filter) = &own.logs {
            let provider = exporter.own_logs(&resource)?;
            logs = Some(OpenTelemetryTracingBridge::new(&provider).with_filter(EnvFilter::new(filter).and(exported())));
        }
        if own.traces {
            let layer = tracing_opentelemetry::layer().with_tracer(exporter.own_spans(&resource)?);
            spans = Some(layer.with_filter(LevelFilter::INFO.and(exported())));
        }
    }
    Ok((registry.with(logs).with(spans), LogLevel(handle)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delivery::otlp::settings::OtlpSettings;

    /// Scenario: the daemon's own logs and spans are exported, or not; a library creates a span for each frame that it
    /// sends.
    /// Guarantee: the span of the library is disabled, a span of the daemon at level INFO is enabled, and INFO is the
    /// most detailed level in use.
    #[test]
    fn spans_of_libraries_are_disabled() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        let lines = LogOptions {
            filter: "info".to_owned(),
            format: LogFormat::Text,
            incidents: true,
        };
        let own = SelfTelemetryOptions {
            traces: true,
            metrics: true,
            logs: Some("info".to_owned()),
            service_name: OWN.to_owned(),
            attributes: Vec::new(),
        };
        let nowhere = OtlpSettings::default();
        for exported in [false, true] {
            let exporter = exported.then(|| {
                let (exporter, _running) = Exporter::start(&nowhere).unwrap();
                (exporter, Arc::new(Origin::new(Vec::new())))
            });
            let (subscriber, _level) = subscriber(&lines, &own, BoxMakeWriter::new(std::io::stderr), exporter).unwrap();
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
