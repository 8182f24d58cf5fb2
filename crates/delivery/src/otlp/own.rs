//! gcwatch's own log records and spans: the SDK's batch processors over `opentelemetry-otlp`, to the same receivers as
//! the data of targets.
//!
//! ```text
//! tracing -> SDK provider -> Counted (bounded) -> batch processor (a thread) -> FollowingExporter -> the receiver
//! ```
//!
//! * **The same receiver.** The exporters use the receiver of their signal: its endpoint, protocol, headers,
//!   compression, timeout, and even its connection, so that proxies, TLS and renewed certificates need no second setup.
//!   Environment variables that `opentelemetry-otlp` itself reads (headers, compression) have no effect on the
//!   requests. A reload takes effect with the next request.
//! * **The same queue.** Items that the receiver does not accept at the first attempt are queued with the other items
//!   of their signal, in memory or on disk. No request is retried here.
//! * **The same counters.** Items count in the statistics of their signal from their creation. Dropped items are
//!   counted by reason.
//! * **No call hangs.** A batch processor blocks its own thread on the export. The future of the export is polled
//!   inside the daemon's runtime, each attempt has the receiver's timeout, and a shutdown runs on a blocking thread
//!   with a deadline: see [`OwnTelemetry::shutdown`]. At most [`MAX_HELD`] items of a signal wait.
//! * **No feedback.** Log messages of these exporters have the target `gcwatch::export`, which is never exported.
//!
//! Cost: one thread for each provider, and about 0.5 MB of resident memory for one or both (debug build, VmRSS of
//! `gcwatch run`).

mod build;
mod exporter;
mod http;

use std::sync::Arc;
use std::time::Duration;

use gc_telemetry::origin::Origin;
use opentelemetry::logs::LogRecord as _;
use opentelemetry::{Array, Context, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder as LogBatchConfig, BatchLogProcessor, LogProcessor, SdkLogRecord, SdkLoggerProvider,
};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder as SpanBatchConfig, BatchSpanProcessor, SdkTracerProvider, Span, SpanData, SpanProcessor,
};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::otlp::batch::{SCHEMA_URL, SCOPE_NAME, SCOPE_VERSION};
use crate::otlp::outgoing::Outgoing;
use crate::otlp::own::exporter::FollowingExporter;

/// Maximum number of items of one signal that wait in a batch processor, in addition to the items that are being sent.
const MAX_HELD: usize = 512;

/// Maximum number of items in one request.
const BATCH: usize = 256;

/// Time for which an item waits for further items.
const DELAY: Duration = Duration::from_secs(1);

/// A provider of the SDK that must be shut down.
#[derive(Debug)]
pub(crate) enum OwnTelemetry {
    Logs(SdkLoggerProvider),
    Spans(SdkTracerProvider),
}

impl OwnTelemetry {
    /// Sends waiting items for at most `within`. Blocks the calling thread. Never call this method on a thread that
    /// drives the runtime, because the exports need the runtime.
    pub(crate) fn shutdown(&self, within: Duration) {
        // Unsent items are in the counters of the signal.
        let _counted = match self {
            Self::Logs(provider) => provider.shutdown_with_timeout(within),
            Self::Spans(provider) => provider.shutdown_with_timeout(within),
        };
    }
}

/// Creates a provider of log records with the resource of the daemon, which sends to `outgoing`.
pub(crate) fn logs(outgoing: &Arc<Outgoing>, origin: &Arc<Origin>, runtime: Handle) -> SdkLoggerProvider {
    let resource = sdk_resource(origin);
    let exporter = FollowingExporter::new(Arc::clone(outgoing), Arc::clone(origin), resource.clone(), runtime);
    let config = LogBatchConfig::default()
        .with_max_queue_size(MAX_HELD)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let next = BatchLogProcessor::builder(exporter).with_batch_config(config).build();
    let counted = CountingProcessor {
        outgoing: Arc::clone(outgoing),
        scope: scope(),
        next,
    };
    SdkLoggerProvider::builder()
        .with_resource(resource)
        .with_log_processor(counted)
        .build()
}

/// Creates a provider of spans with the resource of the daemon, which sends to `outgoing`.
pub(crate) fn spans(outgoing: &Arc<Outgoing>, origin: &Arc<Origin>, runtime: Handle) -> SdkTracerProvider {
    let resource = sdk_resource(origin);
    let exporter = FollowingExporter::new(Arc::clone(outgoing), Arc::clone(origin), resource.clone(), runtime);
    let config = SpanBatchConfig::default()
        .with_max_queue_size(MAX_HELD)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let next = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    let counted = CountingProcessor {
        outgoing: Arc::clone(outgoing),
        scope: scope(),
        next,
    };
    SdkTracerProvider::builder()
        .with_resource(resource)
        .with_span_processor(counted)
        .build()
}

/// Returns the scope of everything that gcwatch exports.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(SCOPE_NAME)
        .with_version(SCOPE_VERSION)
        .with_schema_url(SCHEMA_URL)
        .build()
}

/// A processor that passes items to a batch processor only if it has space, and counts all items in the counters of the
/// signal.
#[derive(Debug)]
struct CountingProcessor<P> {
    outgoing: Arc<Outgoing>,
    scope: InstrumentationScope,
    next: P,
}

impl<P> CountingProcessor<P> {
    fn has_room(&self) -> bool {
        self.outgoing.queue().hold(Instant::now(), MAX_HELD as u64)
    }
}

impl<P: LogProcessor> LogProcessor for CountingProcessor<P> {
    fn emit(&self, record: &mut SdkLogRecord, _scope: &InstrumentationScope) {
        if self.has_room() {
            // The exporter uses the target as the name of the scope.
            record.set_target(SCOPE_NAME);
            // The bridge sets the line of the source as the event name, which is not a meaningful name.
            record.set_event_name("");
            self.next.emit(record, &self.scope);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.next.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.next.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.next.set_resource(resource);
    }
}

impl<P: SpanProcessor> SpanProcessor for CountingProcessor<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.next.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        // The batch processor ignores unsampled spans.
        if span.span_context.is_sampled() && self.has_room() {
            self.next.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.next.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.next.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.next.set_resource(resource);
    }
}

/// Converts the resource to the type of the SDK, without the attributes that the SDK adds.
fn sdk_resource(origin: &Origin) -> Resource {
    let attributes = origin.attributes.iter().filter_map(|attribute| {
        let value = value(attribute.value.as_ref()?)?;
        Some(KeyValue::new(attribute.key.clone(), value))
    });
    Resource::builder_empty()
        .with_schema_url(attributes.collect::<Vec<_>>(), SCHEMA_URL)
        .build()
}

/// Converts a value; returns `None` for a kind of value that resources do not have.
fn value(value: &AnyValue) -> Option<Value> {
    Some(match value.value.as_ref()? {
        any_value::Value::StringValue(text) => Value::String(text.clone().into()),
        any_value::Value::BoolValue(truth) => Value::Bool(*truth),
        any_value::Value::IntValue(number) => Value::I64(*number),
        any_value::Value::DoubleValue(number) => Value::F64(*number),
        any_value::Value::ArrayValue(array) => {
            let texts = array.values.iter().filter_map(|one| match one.value.as_ref()? {
                any_value::Value::StringValue(text) => Some(StringValue::from(text.clone())),
                _ => None,
            });
            Value::Array(Array::String(texts.collect()))
        }
        _ => return None,
    })
}
