//! One OTLP client for the data of all targets: queue, batch, encode, send and retry. Also sends gcwatch's own
//! telemetry.
//!
//! ```text
//! spans, logs, metrics          one task per signal
//!   encoded on arrival     ->     batches by time, items and bytes    ->   gRPC | HTTP/protobuf | HTTP/JSON
//!   bounded, oldest dropped       grouped by resource                      one connection per endpoint
//!   (outgoing, queue, batch)      retried, halved, expired (sender)        (target, transport::connection)
//! own log records and spans ->  opentelemetry-otlp (own)              ->   the same receivers and connections
//! ```
//!
//! Layers, each of which uses only the previous layers: `signal`, `settings`, `stats`, `error`; `batch` with `split`,
//! `answer` and `queue`, which are pure; `target`, `store_handle` (the queue on disk), `outgoing`, `give` and
//! `answer_counts`; `sender`, `own`, [`Exporter`], and `running`, which stops the exporter.
//!
//! With a queue on disk, a request that the receiver does not accept is written to the disk, followed by new requests,
//! each after 1 s or 1 MiB. When the receiver accepts requests again, new data is sent first, with one stored request
//! after each new request. Nothing is written while the receiver is available.
//!
//! # Invariants
//!
//! * Adding items never blocks: excess items are dropped and counted by reason ([`stats`]).
//! * Every item is counted once: `given` = `exported` + `rejected` + `dropped` + `queued` + `in_flight` + `stored`.
//! * A stored item leaves the disk only when the receiver has accepted or refused the item, or when the item is too
//!   old, damaged, or displaced by newer items.
//! * Only the module `answer` determines the meaning of an answer, and only the module `answer_counts` determines its
//!   effects.

pub mod error;
pub mod settings;
pub mod signal;
pub mod stats;

mod answer;
mod answer_counts;
mod batch;
mod give;
mod outgoing;
mod own;
mod queue;
mod refused_queue;
mod running;
mod sender;
mod split;
mod store_handle;
mod target;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gc_telemetry::origin::Origin;
use gc_telemetry::snapshot::points;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracer;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::otlp::batch::Entry;
use crate::otlp::error::Error;
use crate::otlp::give::{JoinMode, give};
use crate::otlp::outgoing::Outgoing;
use crate::otlp::own::OwnTelemetry;
pub use crate::otlp::running::RunningExport;
use crate::otlp::settings::{OtlpSettings, Protocol, Receiver};
use crate::otlp::signal::Signal;
use crate::otlp::stats::Stats;
pub use crate::otlp::store_handle::Note;
use crate::otlp::store_handle::{StoreHandle, StoredItems};
use crate::otlp::target::Target;
use crate::transport::connection::Connection;

/// Factor for the size of items as JSON. Queued items are measured as protobuf. JSON is about three times as large, and
/// rarely larger.
const JSON_GROWTH: usize = 4;

/// An exporter that sends spans, metrics and log records of any number of processes. Clones are cheap, and no call
/// waits for the network.
#[derive(Clone)]
pub struct Exporter {
    signals: Arc<Signals>,
}

impl fmt::Debug for Exporter {
    /// Shows neither queued data nor endpoints, because both can be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

struct Signals {
    traces: Arc<Outgoing>,
    metrics: Arc<Outgoing>,
    logs: Arc<Outgoing>,
    /// Findings from opening the queue on disk.
    disk_notes: Vec<Note>,
    /// The connections in use.
    connections: Mutex<Vec<Arc<Connection>>>,
    /// Telemetry that must be shut down before the runtime ends.
    own: Mutex<Vec<OwnTelemetry>>,
}

impl Signals {
    fn each(&self) -> [&Arc<Outgoing>; 3] {
        [&self.traces, &self.metrics, &self.logs]
    }

    /// Counts the items of each signal that were on disk at the start.
    fn found(&self, items: [u64; 3]) {
        for (outgoing, items) in self.each().into_iter().zip(items) {
            outgoing.queue().found(items);
            outgoing.wake.notify_one();
        }
    }

    fn own(&self) -> MutexGuard<'_, Vec<OwnTelemetry>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exporter {
    /// Starts to send items. A connection is opened only when there are items to send, and an unavailable receiver is
    /// not an error.
    ///
    /// # Errors
    ///
    /// Returns an [`Error`] if the settings of a receiver are invalid, or if the caller is not inside a tokio runtime.
    pub fn start(settings: &OtlpSettings) -> Result<(Self, RunningExport), Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let (store_handle, disk_notes, found) = match &settings.disk {
            Some(disk) => {
                let (store_handle, notes, found) = StoreHandle::open(disk, Instant::now());
                (Some(store_handle), notes, found)
            }
            None => (None, Vec::new(), StoredItems::Now([0; 3])),
        };
        let settled: Arc<Notify> = Arc::default();
        let [traces, metrics, logs] = Signal::ALL.map(|signal| {
            let (store_handle, settled) = (store_handle.clone(), Arc::clone(&settled));
            Arc::new(Outgoing::new(signal, Instant::now(), store_handle, settled))
        });
        let exporter = Self {
            signals: Arc::new(Signals {
                traces,
                metrics,
                logs,
                disk_notes,
                connections: Mutex::default(),
                own: Mutex::default(),
            }),
        };
        exporter.reconfigure(settings)?;
        match found {
            StoredItems::Now(items) => exporter.signals.found(items),
            StoredItems::Later(items) => {
                let signals = Arc::clone(&exporter.signals);
                runtime.spawn(async move {
                    if let Ok(items) = items.await {
                        signals.found(items);
                    }
                });
            }
        }
        let tasks = exporter
            .signals
            .each()
            .map(|outgoing| runtime.spawn(sender::run_beating(Arc::clone(outgoing))));
        Ok((
            exporter.clone(),
            RunningExport {
                exporter,
                tasks: tasks.into(),
            },
        ))
    }

    /// Changes the settings. Queued items are sent to the new receivers. A batch that waits for a retry is sent
    /// immediately if its receiver has changed. Queued items of a signal without a receiver are dropped and counted.
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns an error and changes nothing if the settings of a receiver are invalid, or if the caller is not inside a
    /// tokio runtime.
    pub fn reconfigure(&self, settings: &OtlpSettings) -> Result<(), Error> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let mut connections = self.signals.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = connections.clone();
        let mut target = |outgoing: &Outgoing, receiver: &Option<Receiver>| {
            let Some(receiver) = receiver else { return Ok(None) };
            let old = outgoing.control.borrow().target.clone();
            match old.filter(|old| old.receiver() == receiver) {
                Some(same) => Ok(Some(same)),
                None => Target::new(outgoing.signal, receiver, &mut known).map(|target| Some(Arc::new(target))),
            }
        };
        let targets = [
            target(&self.signals.traces, &settings.traces)?,
            target(&self.signals.metrics, &settings.metrics)?,
            target(&self.signals.logs, &settings.logs)?,
        ];
        known.retain(|one| {
            targets
                .iter()
                .flatten()
                .any(|target| Arc::ptr_eq(target.connection(), one))
        });
        *connections = known;
        if let (Some(store_handle), Some(disk)) = (&self.signals.traces.store_handle, &settings.disk) {
            store_handle.set_bounds(disk);
        }
        for (outgoing, target) in self.signals.each().into_iter().zip(targets) {
            let old = outgoing.control.borrow().target.as_ref().map(Arc::as_ptr);
            let same = old == target.as_ref().map(Arc::as_ptr);
            let mut limits = settings.limits;
            if target
                .as_ref()
                .is_some_and(|target| target.receiver().protocol == Protocol::HttpJson)
            {
                limits.batch_bytes /= JSON_GROWTH;
            }
            let dropped = outgoing.queue().configure(limits, target.is_some(), same);
            drop(dropped);
            let keeps_refused = outgoing.signal == Signal::Metrics && settings.delta_metrics;
            outgoing.control.send_modify(|control| {
                control.target = target;
                control.keeps_refused = keeps_refused;
                control.retry_for = match &settings.disk {
                    Some(disk) if outgoing.store_handle.is_some() => disk.max_age,
                    _ => settings.limits.retry_for,
                };
            });
            outgoing.wake.notify_one();
            outgoing.settled.notify_waiters();
        }
        Ok(())
    }

    /// Queues spans of one process.
    pub fn spans(&self, resource: &Arc<Origin>, spans: Vec<Span>) {
        give(&self.signals.traces, resource, &spans, |_| 1, JoinMode::Never);
    }

    /// Queues encoded spans of one process. `fields` is a concatenation of `spans` fields of a `ScopeSpans` message,
    /// each with tag and length. `spans` is the number of these fields. The spans are sent or dropped together.
    pub fn encoded_spans(&self, resource: &Arc<Origin>, fields: Box<[u8]>, spans: u64) {
        if spans > 0 {
            let entry = Entry::encoded(resource, fields, spans);
            self.signals.traces.push(Instant::now(), vec![entry]);
        }
    }

    /// Queues log records of one process.
    pub fn logs(&self, resource: &Arc<Origin>, records: Vec<LogRecord>) {
        give(&self.signals.logs, resource, &records, |_| 1, JoinMode::Never);
    }

    /// Queues the metrics of one process at one time. The metrics are sent or dropped together unless they are
    /// unusually large.
    pub fn metrics(&self, resource: &Arc<Origin>, metrics: Vec<Metric>) {
        let count = |metric: &Metric| points(metric) as u64;
        give(&self.signals.metrics, resource, &metrics, count, JoinMode::ToSize);
    }

    /// Creates a provider for gcwatch's own log records. The records go to the receiver of log records, even if a
    /// reload changes this receiver. The provider uses a thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller is not inside a tokio runtime.
    pub fn own_logs(&self, resource: &Arc<Origin>) -> Result<SdkLoggerProvider, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let provider = own::logs(&self.signals.logs, resource, runtime);
        self.signals.own().push(OwnTelemetry::Logs(provider.clone()));
        Ok(provider)
    }

    /// Creates a tracer for gcwatch's own spans. The spans go to the receiver of spans, even if a reload changes this
    /// receiver. The tracer uses a thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller is not inside a tokio runtime.
    pub fn own_spans(&self, resource: &Arc<Origin>) -> Result<SdkTracer, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let provider = own::spans(&self.signals.traces, resource, runtime);
        let tracer = provider.tracer_with_scope(own::scope());
        self.signals.own().push(OwnTelemetry::Spans(provider));
        Ok(tracer)
    }

    /// Returns the counters of all items.
    pub fn stats(&self) -> Stats {
        let of = |outgoing: &Outgoing| {
            outgoing.count_drops();
            let mut stats = outgoing.queue().stats();
            stats.stored_bytes = outgoing
                .store_handle
                .as_ref()
                .map_or(0, |store_handle| store_handle.bytes(outgoing.signal));
            stats
        };
        Stats {
            traces: of(&self.signals.traces),
            metrics: of(&self.signals.metrics),
            logs: of(&self.signals.logs),
            disk_works: self
                .signals
                .traces
                .store_handle
                .as_ref()
                .map(|store_handle| store_handle.works()),
        }
    }

    /// Returns the findings from opening the queue on disk. The caller logs them, because the log can start later than
    /// the exporter.
    pub fn disk_notes(&self) -> Vec<Note> {
        self.signals.disk_notes.clone()
    }

    /// Returns the time since the last heartbeat of the slowest sending task. Each task sends a heartbeat every second.
    pub fn idle_for(&self, now: Instant) -> Duration {
        let ages = self.signals.each().map(|outgoing| outgoing.idle_for(now));
        ages.into_iter().max().unwrap_or_default()
    }

    /// Waits until the counters satisfy `is`.
    pub async fn until(&self, is: impl Fn(&Stats) -> bool) {
        loop {
            // All signals share this notification.
            let mut changed = pin!(self.signals.traces.settled.notified());
            // Enable the notification before reading the counters, so that no change is missed.
            changed.as_mut().enable();
            if is(&self.stats()) {
                return;
            }
            changed.await;
        }
    }

    /// Waits at most for `within` until all data of targets queued so far was sent, stored or dropped. Returns whether
    /// the wait ended in time.
    pub async fn flush(&self, within: Duration) -> bool {
        let marks = self.signals.each().map(|outgoing| {
            let mark = outgoing.queue().mark_flush();
            outgoing.wake.notify_one();
            (outgoing, mark)
        });
        let settled = async {
            for (outgoing, mark) in marks {
                loop {
                    let mut changed = pin!(outgoing.settled.notified());
                    // Enable the notification before reading the queue, so that no change is missed.
                    changed.as_mut().enable();
                    if outgoing.queue().is_settled(mark) {
                        break;
                    }
                    changed.await;
                }
            }
        };
        timeout(within, settled).await.is_ok()
    }
}
