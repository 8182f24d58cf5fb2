//! An exporter of `opentelemetry-otlp` that follows the settings, makes one attempt, and never hangs. Items that the
//! receiver does not accept are queued with the data of targets: in memory, and on disk if there is such a queue.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use gc_telemetry::origin::Origin;
use opentelemetry::InstrumentationScope;
use opentelemetry_otlp::{LogExporter, SpanExporter};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _, SdkLogRecord};
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::otlp::answer::{Answer, RetryCause};
use crate::otlp::answer_counts::{AfterAnswer, AnswerCounts};
use crate::otlp::batch::Entry;
use crate::otlp::outgoing::{Control, DownCause, Outgoing, Rejection};
use crate::otlp::own::build::Exporter;
use crate::otlp::own::http::{LastAnswer, TargetClient};
use crate::otlp::stats::Reason;
use crate::otlp::target::Target;
use crate::transport::connection::Link;
use crate::transport::receiver::Compression;

/// The items of one request.
pub(crate) trait Items<E>: Send + Sync {
    fn count(&self) -> u64;

    fn send(&self, exporter: &E) -> impl Future<Output = OTelSdkResult> + Send;

    /// Converts the items to entries, to queue them with the data of targets.
    fn into_entries(self, origin: &Arc<Origin>) -> Vec<Entry>;
}

/// An exporter that was built for a target.
struct Built<E> {
    target: Arc<Target>,
    /// Generation of the connection. Another generation has another channel.
    generation: u64,
    compression: Compression,
    exporter: E,
    last: LastAnswer,
}

/// An exporter that sends to the current receiver of its signal.
pub(crate) struct FollowingExporter<E> {
    outgoing: Arc<Outgoing>,
    origin: Arc<Origin>,
    resource: Resource,
    runtime: Handle,
    built: Mutex<Option<Arc<Built<E>>>>,
    counts: Mutex<AnswerCounts>,
}

impl<E> fmt::Debug for FollowingExporter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowingExporter").finish_non_exhaustive()
    }
}

impl<E: Exporter> FollowingExporter<E> {
    /// Creates an exporter. `resource` is the SDK's form of `origin`.
    pub(crate) fn new(outgoing: Arc<Outgoing>, origin: Arc<Origin>, resource: Resource, runtime: Handle) -> Self {
        Self {
            counts: Mutex::new(AnswerCounts::new(Arc::clone(&outgoing))),
            outgoing,
            origin,
            resource,
            runtime,
            built: Mutex::new(None),
        }
    }

    /// Sends items to the current receiver. Items that the receiver does not accept for now are queued with the data of
    /// targets.
    async fn deliver(&self, items: impl Items<E>) -> OTelSdkResult {
        let count = self.outgoing.queue().take_held(items.count());
        if count < items.count() {
            // The items were counted when the queue was abandoned.
            self.outgoing.queue().gave_up(count, Reason::Shutdown);
            return Err(failed());
        }
        let mut control = self.outgoing.control.subscribe();
        let not_taken = loop {
            let (target, closing) = {
                let control = control.borrow_and_update();
                (control.target.clone(), control.closing)
            };
            let Some(target) = target else {
                self.outgoing.queue().gave_up(count, Reason::Disabled);
                return Err(failed());
            };
            if !closing && !self.outgoing.queue().takes_own(Instant::now()) {
                break None;
            }
            let built = match self.built(&target) {
                Ok(built) => built,
                Err(message) => {
                    self.judge(count, &target, Answer::Refused { message });
                    return Err(failed());
                }
            };
            let result = tokio::select! {
                result = items.send(&built.exporter) => result,
                // An attempt to a replaced receiver is not aborted, because the request can have arrived.
                () = until(&mut control, |control| control.target.is_none()) => continue,
            };
            let answer = answer_of(&built, result);
            if let (Answer::Unsupported { message }, Link::Grpc(_)) = (&answer, target.connection().link())
                && built.compression != Compression::None
            {
                // gRPC has the same code for an unknown compression. The next attempt shows the actual reason.
                target.stop_compressing(message);
                continue;
            }
            // The size of such a small request does not show the limit for the signal's batches.
            let answer = match answer {
                Answer::TooLarge { message, .. } => Answer::Refused { message },
                answer => answer,
            };
            let (cause, after) = match self.judge(count, &target, answer) {
                AfterAnswer::Settled | AfterAnswer::Halve => return Ok(()),
                // Only metrics are kept, and these items are not metrics.
                AfterAnswer::Refused => {
                    self.outgoing.queue().gave_up(count, Reason::Refused);
                    return Err(failed());
                }
                AfterAnswer::Unsupported => (DownCause::Unsupported, None),
                AfterAnswer::Exhausted => (DownCause::Retry(RetryCause::Unavailable), None),
                AfterAnswer::Retry(cause, after) => (DownCause::Retry(cause), after),
            };
            let by = target;
            break Some(Rejection { by, cause, after });
        };
        self.outgoing
            .take_over(items.into_entries(&self.origin), not_taken, Instant::now());
        Ok(())
    }

    fn judge(&self, items: u64, target: &Target, answer: Answer) -> AfterAnswer {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.judge(items, 0, target, answer, Instant::now())
    }

    /// Returns the exporter for this target: a new one if the target, its certificates or its compression have changed.
    fn built(&self, target: &Arc<Target>) -> Result<Arc<Built<E>>, String> {
        let (link, generation) = target.connection().current();
        let compression = target.compression();
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*built
            && Arc::ptr_eq(&known.target, target)
            && (known.generation, known.compression) == (generation, compression)
        {
            return Ok(Arc::clone(known));
        }
        let last = LastAnswer::default();
        let exporter = match link {
            Link::Grpc(channel) => E::grpc(target, channel, compression)?,
            Link::Http(_) => {
                let client = TargetClient {
                    target: Arc::clone(target),
                    last: Arc::clone(&last),
                };
                E::http(target, client)?
            }
        };
        let new = Arc::new(Built {
            target: Arc::clone(target),
            generation,
            compression,
            exporter: exporter.with_resource(&self.resource),
            last,
        });
        *built = Some(Arc::clone(&new));
        Ok(new)
    }

    /// Wraps a future so that it is polled inside the runtime, whichever thread polls it.
    fn inside_runtime<F: Future>(&self, future: F) -> RuntimeFuture<F> {
        RuntimeFuture {
            runtime: self.runtime.clone(),
            future: Box::pin(future),
        }
    }
}

/// Returns an error for the SDK, whose own logging is disabled. The reason was already counted and logged.
fn failed() -> OTelSdkError {
    OTelSdkError::InternalFailure("not exported".to_owned())
}

/// Waits until `is` holds. No reference to the value is kept.
async fn until(control: &mut watch::Receiver<Control>, is: impl FnMut(&Control) -> bool) {
    // The signal owns the sender and outlives this function.
    let _holds = control.wait_for(is).await.is_ok();
}

/// Returns the outcome of an export. For HTTP, the answer itself is known. For gRPC, the library returns the code and,
/// if the receiver was not reached, the causes.
fn answer_of<E>(built: &Built<E>, result: OTelSdkResult) -> Answer {
    let last = built.last.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (last, result) {
        (Some(answer), _) => answer,
        (None, Ok(())) => Answer::Accepted {
            rejected: 0,
            message: String::new(),
        },
        (None, Err(error)) => parse_grpc_error(&error.to_string()),
    }
}

/// Parses `... export failed with gRPC code: Unavailable: transport error: ...`.
fn parse_grpc_error(text: &str) -> Answer {
    let Some((_, text)) = text.split_once("gRPC code: ") else {
        return Answer::Refused {
            message: text.to_owned(),
        };
    };
    let (name, causes) = text.split_once(": ").unwrap_or((text, ""));
    if !causes.is_empty() {
        return Answer::unreachable(causes.to_owned());
    }
    let mut codes = (1..=16).map(Code::from);
    let code = codes.find(|code| format!("{code:?}") == name).unwrap_or(Code::Unknown);
    Answer::from_status(&Status::new(code, ""))
}

/// A future that is polled inside a runtime. The SDK polls it on its own thread.
struct RuntimeFuture<F> {
    runtime: Handle,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for RuntimeFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let runtime = self.runtime.clone();
        let _entered = runtime.enter();
        self.future.as_mut().poll(context)
    }
}

impl opentelemetry_sdk::logs::LogExporter for FollowingExporter<LogExporter> {
    fn export(&self, batch: LogBatch<'_>) -> impl Future<Output = OTelSdkResult> + Send {
        self.inside_runtime(async move { self.deliver(Records(batch.iter().collect())).await })
    }
}

impl opentelemetry_sdk::trace::SpanExporter for FollowingExporter<SpanExporter> {
    fn export(&self, batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        self.inside_runtime(self.deliver(Spans(batch)))
    }
}

struct Records<'a>(Vec<(&'a SdkLogRecord, &'a InstrumentationScope)>);

impl Items<LogExporter> for Records<'_> {
    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    async fn send(&self, exporter: &LogExporter) -> OTelSdkResult {
        exporter.export(LogBatch::new(&self.0)).await
    }

    fn into_entries(self, origin: &Arc<Origin>) -> Vec<Entry> {
        let entry = |record: &SdkLogRecord| Entry::new(origin, &[LogRecord::from(record)], 1);
        self.0.into_iter().map(|(record, _)| entry(record)).collect()
    }
}

struct Spans(Vec<SpanData>);

impl Items<SpanExporter> for Spans {
    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    async fn send(&self, exporter: &SpanExporter) -> OTelSdkResult {
        exporter.export(self.0.clone()).await
    }

    fn into_entries(self, origin: &Arc<Origin>) -> Vec<Entry> {
        let entry = |span: SpanData| Entry::new(origin, &[Span::from(span)], 1);
        self.0.into_iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: `opentelemetry-otlp` reports failures over gRPC as text.
    /// Guarantee: the code is parsed; a text with causes means that the receiver was not reached; any other text is
    /// final.
    #[test]
    fn library_errors_are_parsed() {
        let of = |text: &str| {
            parse_grpc_error(&format!(
                "Operation failed: TonicLogsClient export failed with gRPC code: {text}"
            ))
        };
        assert!(matches!(of("Unimplemented"), Answer::Unsupported { .. }));
        assert!(matches!(of("PermissionDenied"), Answer::Refused { .. }));
        let unavailable = matches!(
            of("Unavailable"),
            Answer::Retry {
                cause: RetryCause::Unavailable,
                ..
            }
        );
        assert!(unavailable);
        let unreachable = of("Unavailable: transport error: connection refused");
        assert_eq!(
            unreachable,
            Answer::unreachable("transport error: connection refused".to_owned())
        );
        assert!(matches!(parse_grpc_error("no channel"), Answer::Refused { .. }));
    }
}
