//! One OTLP client for the data of all targets: queue, batch, encode, send, retry; and gcwatch's own telemetry beside
//! it.
//!
//! ```text
//! spans, logs, metrics          one task per signal
//!   encoded when given     ->     batches by time, items and bytes    ->   gRPC | HTTP/protobuf | HTTP/JSON
//!   bounded, oldest dropped       grouped by resource                      one connection per endpoint
//!   (outgoing, queue, batch)      retried, halved, expired (sender)        (target, transport::connection)
//! own log records and spans ->  opentelemetry-otlp (own)              ->   the same receivers and connections
//! ```
//!
//! Layers, each using only those before it: `signal`, `settings`, `stats`, `error`; `batch` with `split`, `answer` and
//! `queue`, which are pure; `target`; `store_handle` (the queue on disk); `outgoing`; `give` and `answer_counts`;
//! `sender`; `own`; the [`Exporter`] here, and `running`, which ends it.
//!
//! With a queue on disk, a request that the receiver did not take is written there, then what comes meanwhile, each
//! after a second or a mebibyte. When the receiver takes requests again, what is new is sent first, one stored request
//! after each. In fair weather nothing is written.
//!
//! # Invariants
//!
//! * Giving something never blocks: what does not fit is dropped and counted by reason ([`stats`]).
//! * Every item is counted once: `given` = `exported` + `rejected` + `dropped` + `queued` + `in_flight` + `stored`.
//! * A stored item leaves the disk when the receiver accepted or refused it, and not before.
//! * What an answer means is decided in one place (`answer`), what follows from it in another (`answer_counts`).

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
use opentelemetry_proto::tonic::profiles::v1development::{Profile, ProfilesDictionary};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracer;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::otlp::batch::Entry;
use crate::otlp::error::Error;
use crate::otlp::give::{Joined, give};
use crate::otlp::outgoing::Outgoing;
use crate::otlp::own::OwnTelemetry;
pub use crate::otlp::running::Running;
use crate::otlp::settings::{OtlpSettings, Protocol, Receiver};
use crate::otlp::signal::Signal;
use crate::otlp::stats::Stats;
pub use crate::otlp::store_handle::Note;
use crate::otlp::store_handle::{Found, StoreHandle};
use crate::otlp::target::Target;
use crate::transport::connection::Connection;

/// Queued items are measured as protobuf; as JSON they are about three times as large, rarely more.
const JSON_GROWTH: usize = 4;

/// Sends spans, metrics and log records of any number of processes. Cheap to clone; no call waits for the network.
#[derive(Clone)]
pub struct Exporter {
    signals: Arc<Signals>,
}

impl fmt::Debug for Exporter {
    /// Nothing of what waits, nor of the endpoints: both can be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

struct Signals {
    traces: Arc<Outgoing>,
    metrics: Arc<Outgoing>,
    logs: Arc<Outgoing>,
    profiles: Arc<Outgoing>,
    /// What was found when the queue on disk was opened.
    disk_notes: Vec<Note>,
    /// Those in use.
    connections: Mutex<Vec<Arc<Connection>>>,
    /// What must be shut down before the runtime ends.
    own: Mutex<Vec<OwnTelemetry>>,
}

impl Signals {
    fn each(&self) -> [&Arc<Outgoing>; 4] {
        [&self.traces, &self.metrics, &self.logs, &self.profiles]
    }

    /// So many items of each signal are on disk from before.
    fn found(&self, items: [u64; 4]) {
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
    /// Begins to send what is given from now on. Nothing is connected before there is something to send, and a receiver
    /// that is down is not an error.
    ///
    /// # Errors
    ///
    /// When a receiver's settings cannot be used (see [`Error`]), or outside a tokio runtime.
    pub fn start(settings: &OtlpSettings) -> Result<(Self, Running), Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let (store_handle, disk_notes, found) = match &settings.disk {
            Some(disk) => {
                let (store_handle, notes, found) = StoreHandle::open(disk, Instant::now());
                (Some(store_handle), notes, found)
            }
            None => (None, Vec::new(), Found::Now([0; 4])),
        };
        let settled: Arc<Notify> = Arc::default();
        let [traces, metrics, logs, profiles] = Signal::ALL.map(|signal| {
            let (store_handle, settled) = (store_handle.clone(), Arc::clone(&settled));
            Arc::new(Outgoing::new(signal, Instant::now(), store_handle, settled))
        });
        let exporter = Self {
            signals: Arc::new(Signals {
                traces,
                metrics,
                logs,
                profiles,
                disk_notes,
                connections: Mutex::default(),
                own: Mutex::default(),
            }),
        };
        exporter.reconfigure(settings)?;
        match found {
            Found::Now(items) => exporter.signals.found(items),
            Found::Later(items) => {
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
            Running {
                exporter,
                tasks: tasks.into(),
            },
        ))
    }

    /// Continues with other settings; what waits is sent to the new receivers. A batch that waits for a retry is sent
    /// at once when its receiver changed. What waits of a signal without a receiver is dropped and counted.
    ///
    /// # Errors
    ///
    /// When a receiver's settings cannot be used; then nothing changes. Must be called inside a tokio runtime.
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
            target(&self.signals.profiles, &settings.profiles)?,
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
            if outgoing.signal == Signal::Profiles {
                // Each has tables of its own, and a request has one set of them.
                limits.batch_items = 1;
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
        give(&self.signals.traces, resource, &spans, |_| 1, Joined::Never);
    }

    /// Queues spans of one process that are encoded already: `fields` are fields `spans` of a `ScopeSpans` message,
    /// each with tag and length, one behind the other; `spans` is their number. They are sent or dropped together.
    pub fn encoded_spans(&self, resource: &Arc<Origin>, fields: Box<[u8]>, spans: u64) {
        if spans > 0 {
            let entry = Entry::encoded(resource, fields, spans);
            self.signals.traces.push(Instant::now(), vec![entry]);
        }
    }

    /// Queues log records of one process.
    pub fn logs(&self, resource: &Arc<Origin>, records: Vec<LogRecord>) {
        give(&self.signals.logs, resource, &records, |_| 1, Joined::Never);
    }

    /// Queues the metrics of one process at one time. They are sent or dropped together unless they are unusually
    /// large.
    pub fn metrics(&self, resource: &Arc<Origin>, metrics: Vec<Metric>) {
        let count = |metric: &Metric| points(metric) as u64;
        give(&self.signals.metrics, resource, &metrics, count, Joined::ToSize);
    }

    /// Whether profiles are exported; else none need be made.
    pub fn takes_profiles(&self) -> bool {
        self.signals.profiles.queue().takes()
    }

    /// Queues a profile of one process, with the tables that it refers to.
    pub fn profile(&self, resource: &Arc<Origin>, profile: &Profile, dictionary: &ProfilesDictionary) {
        if self.takes_profiles() {
            let entry = Entry::profile(resource, profile, dictionary);
            self.signals.profiles.push(Instant::now(), vec![entry]);
        }
    }

    /// A provider of gcwatch's own log records: to the receiver of log records, now and after a reload. It costs a
    /// thread.
    ///
    /// # Errors
    ///
    /// Outside a tokio runtime.
    pub fn own_logs(&self, resource: &Arc<Origin>) -> Result<SdkLoggerProvider, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let provider = own::logs(&self.signals.logs, resource, runtime);
        self.signals.own().push(OwnTelemetry::Logs(provider.clone()));
        Ok(provider)
    }

    /// A tracer for gcwatch's own spans: to the receiver of spans, now and after a reload. It costs a thread.
    ///
    /// # Errors
    ///
    /// Outside a tokio runtime.
    pub fn own_spans(&self, resource: &Arc<Origin>) -> Result<SdkTracer, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let provider = own::spans(&self.signals.traces, resource, runtime);
        let tracer = provider.tracer_with_scope(own::scope());
        self.signals.own().push(OwnTelemetry::Spans(provider));
        Ok(tracer)
    }

    /// The counters of everything that was given.
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
            profiles: of(&self.signals.profiles),
            disk_works: self
                .signals
                .traces
                .store_handle
                .as_ref()
                .map(|store_handle| store_handle.works()),
        }
    }

    /// What was found when the queue on disk was opened, for the log, which may begin later.
    pub fn disk_notes(&self) -> Vec<Note> {
        self.signals.disk_notes.clone()
    }

    /// How long ago the tasks that send were alive, all of them; each says so every second.
    pub fn idle_for(&self, now: Instant) -> Duration {
        let ages = self.signals.each().map(|outgoing| outgoing.idle_for(now));
        ages.into_iter().max().unwrap_or_default()
    }

    /// Completes when the counters are as `is` says.
    pub async fn until(&self, is: impl Fn(&Stats) -> bool) {
        loop {
            // That of all signals.
            let mut changed = pin!(self.signals.traces.settled.notified());
            // From here on no change is missed; only then the counters may be read.
            changed.as_mut().enable();
            if is(&self.stats()) {
                return;
            }
            changed.await;
        }
    }

    /// Waits until all data of targets given so far was sent, stored or dropped, for `within` at most. True when it was.
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
                    // From here on no change is missed; only then the queue may be read.
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
