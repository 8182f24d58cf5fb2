//! gcwatch's own log records and spans: the SDK's batch processors over `opentelemetry-otlp`, to the same receivers as
//! the data of targets.
//!
//! ```text
//! tracing -> SDK provider -> Counted (bounded) -> batch processor (a thread) -> FollowingExporter -> the receiver
//! ```
//!
//! * **The same receiver.** The exporters use the receiver of their signal: its endpoint, protocol, headers,
//!   compression, timeout, and the very connection, so that proxies, TLS and renewed certificates need no second setup.
//!   Environment variables that `opentelemetry-otlp` reads by itself (headers, compression) do not change where or how
//!   it is sent. A reload is followed from the next request on.
//! * **The same queue.** What the receiver does not take at the first attempt waits in the queue of its signal, and on
//!   disk where that does: nothing is retried here.
//! * **The same counters.** Items count in the statistics of their signal from the moment they are made; what is
//!   dropped is counted by reason.
//! * **Nothing hangs.** A batch processor blocks a thread of its own on the export. Its future is polled inside the
//!   daemon's runtime, each attempt has the receiver's timeout, and a shutdown is done on a blocking thread with a
//!   deadline: see [`OwnTelemetry::shutdown`]. At most [`MOST_HELD`] items of a signal wait.
//! * **No feedback.** What these exporters log goes to the target `gcwatch::export`, which is never exported.
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

/// Items of one signal that wait in a batch processor, beside those that it sends.
const MOST_HELD: usize = 512;

/// Items in one request.
const BATCH: usize = 256;

/// How long an item waits for others.
const DELAY: Duration = Duration::from_secs(1);

/// A provider of the SDK that must be shut down.
#[derive(Debug)]
pub(crate) enum OwnTelemetry {
    Logs(SdkLoggerProvider),
    Spans(SdkTracerProvider),
}

impl OwnTelemetry {
    /// Sends what waits, for `within` at most. Blocks the thread, so never call it on one that drives the runtime: the
    /// exports need it.
    pub(crate) fn shutdown(&self, within: Duration) {
        // What was not sent is in the counters of the signal.
        let _counted = match self {
            Self::Logs(provider) => provider.shutdown_with_timeout(within),
            Self::Spans(provider) => provider.shutdown_with_timeout(within),
        };
    }
}

/// A provider of log records with the resource of the daemon, sent over `outgoing`.
pub(crate) fn logs(outgoing: &Arc<Outgoing>, origin: &Arc<Origin>, runtime: Handle) -> SdkLoggerProvider {
    let resource = sdk_resource(origin);
    let exporter = FollowingExporter::new(Arc::clone(outgoing), Arc::clone(origin), resource.clone(), runtime);
    let config = LogBatchConfig::default()
        .with_max_queue_size(MOST_HELD)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let next = BatchLogProcessor::builder(exporter).with_batch_config(config).build();
    let counted = Counted {
        outgoing: Arc::clone(outgoing),
        scope: scope(),
        next,
    };
    SdkLoggerProvider::builder()
        .with_resource(resource)
        .with_log_processor(counted)
        .build()
}

/// A provider of spans with the resource of the daemon, sent over `outgoing`.
pub(crate) fn spans(outgoing: &Arc<Outgoing>, origin: &Arc<Origin>, runtime: Handle) -> SdkTracerProvider {
    let resource = sdk_resource(origin);
    let exporter = FollowingExporter::new(Arc::clone(outgoing), Arc::clone(origin), resource.clone(), runtime);
    let config = SpanBatchConfig::default()
        .with_max_queue_size(MOST_HELD)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let next = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    let counted = Counted {
        outgoing: Arc::clone(outgoing),
        scope: scope(),
        next,
    };
    SdkTracerProvider::builder()
        .with_resource(resource)
        .with_span_processor(counted)
        .build()
}

/// The scope of everything that gcwatch exports.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(SCOPE_NAME)
        .with_version(SCOPE_VERSION)
        .with_schema_url(SCHEMA_URL)
        .build()
}

/// Lets into a batch processor only what it has room for, and counts all of it in the counters of the signal.
#[derive(Debug)]
struct Counted<P> {
    outgoing: Arc<Outgoing>,
    scope: InstrumentationScope,
    next: P,
}

impl<P> Counted<P> {
    fn has_room(&self) -> bool {
        self.outgoing.queue().hold(Instant::now(), MOST_HELD as u64)
    }
}

impl<P: LogProcessor> LogProcessor for Counted<P> {
    fn emit(&self, record: &mut SdkLogRecord, _scope: &InstrumentationScope) {
        if self.has_room() {
            // The exporter names the scope by the target.
            record.set_target(SCOPE_NAME);
            // The bridge names each by its line of the source, which is no event's name.
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

impl<P: SpanProcessor> SpanProcessor for Counted<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.next.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        // The batch processor ignores the others.
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

/// The resource as the SDK has it, without the attributes that the SDK adds.
fn sdk_resource(origin: &Origin) -> Resource {
    let attributes = origin.attributes.iter().filter_map(|attribute| {
        let value = value(attribute.value.as_ref()?)?;
        Some(KeyValue::new(attribute.key.clone(), value))
    });
    Resource::builder_empty()
        .with_schema_url(attributes.collect::<Vec<_>>(), SCHEMA_URL)
        .build()
}

/// `None`: a kind of value that resources do not have.
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
