//! One OTLP client for the data of all targets: queue, batch, encode, send, retry.
//!
//! ```text
//! spans, logs, metrics          one task per signal
//!   encoded when given     ->     batches by time, items and bytes    ->   gRPC | HTTP/protobuf | HTTP/JSON
//!   bounded, oldest goes          grouped by resource                      one connection per endpoint
//!   (queue, batch)                retried, halved, given up (sender)       (target, connection)
//! ```
//!
//! Whoever gives something never waits: what cannot be kept is dropped and counted ([`stats`]), by reason. What the receiver's
//! answers mean is decided in one place (`answer`), when a batch is tried again in another (`retry`); both are pure.

pub mod error;
pub mod settings;
pub mod signal;
pub mod stats;

mod answer;
mod batch;
mod queue;
mod sender;
mod target;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::otlp::batch::Entry;
use crate::otlp::error::Error;
use crate::otlp::sender::Line;
use crate::otlp::settings::{Protocol, Receiver, Settings};
use crate::otlp::signal::Signal;
use crate::otlp::stats::{Lost, Stats};
use crate::otlp::target::Target;
use crate::transport::connection::Connection;

/// What waits is measured as protobuf; as JSON it is about three times as large, rarely more.
const JSON_GROWTH: usize = 4;

/// Takes spans, metrics and log records of any number of processes, and sends them. Cheap to clone; no call waits for the network.
#[derive(Clone)]
pub struct Exporter {
    lines: Arc<Lines>,
}

impl fmt::Debug for Exporter {
    /// Nothing of what waits, nor of the endpoints: both may have in them what is not to be shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

struct Lines {
    traces: Arc<Line>,
    metrics: Arc<Line>,
    logs: Arc<Line>,
    /// Those in use.
    connections: Mutex<Vec<Arc<Connection>>>,
}

impl Lines {
    fn each(&self) -> [&Arc<Line>; 3] {
        [&self.traces, &self.metrics, &self.logs]
    }
}

/// The tasks that send. Dropped without [`shutdown`](Self::shutdown), they go on until the runtime ends.
#[derive(Debug)]
#[must_use = "what waits is lost without a shutdown"]
pub struct Running {
    exporter: Exporter,
    tasks: Vec<JoinHandle<()>>,
}

impl Exporter {
    /// Starts to send what is given from now on; nothing is connected before there is something to send, and a receiver that
    /// is down is no error.
    ///
    /// # Errors
    ///
    /// When a receiver's settings cannot be used (see [`Error`]), or outside a tokio runtime.
    pub fn start(settings: &Settings) -> Result<(Self, Running), Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let [traces, metrics, logs] = Signal::ALL.map(|signal| Arc::new(Line::new(signal)));
        let exporter = Self {
            lines: Arc::new(Lines {
                traces,
                metrics,
                logs,
                connections: Mutex::default(),
            }),
        };
        exporter.reconfigure(settings)?;
        let tasks = exporter
            .lines
            .each()
            .map(|line| runtime.spawn(sender::run(Arc::clone(line))));
        Ok((
            exporter.clone(),
            Running {
                exporter,
                tasks: tasks.into(),
            },
        ))
    }

    /// Goes on with other settings; what waits is sent to the new receivers. A batch that waits to be tried again is tried at
    /// once when its receiver is another. What waits of a signal without a receiver is dropped and counted.
    ///
    /// # Errors
    ///
    /// When a receiver's settings cannot be used; then everything is as before. Must be called inside a tokio runtime.
    pub fn reconfigure(&self, settings: &Settings) -> Result<(), Error> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let mut connections = self.lines.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = connections.clone();
        let mut target = |line: &Line, receiver: &Option<Receiver>| {
            let Some(receiver) = receiver else { return Ok(None) };
            let old = line.orders.borrow().target.clone();
            match old.filter(|old| old.receiver() == receiver) {
                Some(same) => Ok(Some(same)),
                None => Target::new(line.signal, receiver, &mut known).map(|target| Some(Arc::new(target))),
            }
        };
        let targets = [
            target(&self.lines.traces, &settings.traces)?,
            target(&self.lines.metrics, &settings.metrics)?,
            target(&self.lines.logs, &settings.logs)?,
        ];
        known.retain(|one| {
            targets
                .iter()
                .flatten()
                .any(|target| Arc::ptr_eq(target.connection(), one))
        });
        *connections = known;
        for (line, target) in self.lines.each().into_iter().zip(targets) {
            let old = line.orders.borrow().target.as_ref().map(Arc::as_ptr);
            let same = old == target.as_ref().map(Arc::as_ptr);
            let mut limits = settings.limits;
            if target
                .as_ref()
                .is_some_and(|target| target.receiver().protocol == Protocol::HttpJson)
            {
                limits.batch_bytes /= JSON_GROWTH;
            }
            let gone = line.queue().configure(limits, target.is_some(), same);
            drop(gone);
            line.orders.send_modify(|orders| {
                orders.target = target;
                orders.retry_for = settings.limits.retry_for;
            });
            line.wake.notify_one();
            line.settled.notify_waiters();
        }
        Ok(())
    }

    /// Gives spans of one process.
    pub fn spans(&self, resource: &Arc<Origin>, spans: Vec<Span>) {
        give(&self.lines.traces, resource, &spans, |_| 1, Joined::Never);
    }

    /// Gives spans of one process that are encoded already: `fields` are fields `spans` of a `ScopeSpans` message, each with its tag
    /// and its length, one behind the other, and `spans` is how many. They wait, are sent and are dropped together.
    pub fn encoded_spans(&self, resource: &Arc<Origin>, fields: Box<[u8]>, spans: u64) {
        if spans > 0 {
            let entry = Entry::encoded(resource, fields, spans);
            self.lines.traces.push(Instant::now(), vec![entry]);
        }
    }

    /// Gives log records of one process.
    pub fn logs(&self, resource: &Arc<Origin>, records: Vec<LogRecord>) {
        give(&self.lines.logs, resource, &records, |_| 1, Joined::Never);
    }

    /// Gives metrics of one process at one time. They wait and are dropped together where they are not unusually large.
    pub fn metrics(&self, resource: &Arc<Origin>, metrics: Vec<Metric>) {
        give(&self.lines.metrics, resource, &metrics, points, Joined::ToSize);
    }

    /// What became of everything that was given.
    pub fn stats(&self) -> Stats {
        Stats {
            traces: self.lines.traces.queue().stats(),
            metrics: self.lines.metrics.queue().stats(),
            logs: self.lines.logs.queue().stats(),
        }
    }

    /// Waits until everything given so far was sent or dropped, for `within` at most. True when it was.
    pub async fn flush(&self, within: Duration) -> bool {
        let marks = self.lines.each().map(|line| {
            let mark = line.queue().hurry();
            line.wake.notify_one();
            (line, mark)
        });
        let settled = async {
            for (line, mark) in marks {
                loop {
                    let mut changed = pin!(line.settled.notified());
                    // From here on no change is missed; only then may the queue be looked at.
                    changed.as_mut().enable();
                    if line.queue().is_settled(mark) {
                        break;
                    }
                    changed.await;
                }
            }
        };
        timeout(within, settled).await.is_ok()
    }
}

impl Running {
    /// Takes nothing in any more, sends what waits for `within` at most, and says what was lost. A batch whose answer did not
    /// come in time counts as lost, though the receiver may have it.
    pub async fn shutdown(self, within: Duration) -> Lost {
        let deadline = Instant::now() + within;
        let lines = self.exporter.lines.each();
        let before = lines.map(|line| {
            let mut queue = line.queue();
            queue.close();
            queue.stats_mut().dropped.total()
        });
        for line in lines {
            line.orders.send_modify(|orders| orders.closing = true);
            line.wake.notify_one();
        }
        for mut task in self.tasks {
            if timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
                // Its end is awaited, so that it cannot account for anything after this.
                let _aborted = task.await;
            }
        }
        let mut lost = [0; 3];
        for ((line, before), lost) in lines.into_iter().zip(before).zip(&mut lost) {
            let gone = line.queue().abandon();
            drop(gone);
            line.settled.notify_waiters();
            *lost = line.queue().stats_mut().dropped.total() - before;
            // Whoever still holds an exporter is not to hold a connection.
            line.orders.send_modify(|orders| orders.target = None);
        }
        self.exporter
            .lines
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        let [spans, points, records] = lost;
        Lost { spans, points, records }
    }
}

/// Whether several messages make one entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    Never,
    ToSize,
}

fn give<M: Message>(line: &Line, resource: &Arc<Origin>, messages: &[M], items: fn(&M) -> u64, joined: Joined) {
    if messages.is_empty() {
        return;
    }
    let now = Instant::now();
    let most = {
        let mut queue = line.queue();
        if !queue.takes(now) {
            return queue.turn_away(messages.iter().map(items).sum());
        }
        if joined == Joined::ToSize {
            queue.entry_bytes()
        } else {
            0
        }
    };
    let mut entries = Vec::with_capacity(if joined == Joined::Never { messages.len() } else { 1 });
    let mut rest = messages;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |message: &&M| {
            bytes += message.encoded_len();
            bytes <= most
        };
        let count = rest.iter().take_while(fits).count().clamp(1, rest.len());
        let (entry, others) = rest.split_at(count);
        entries.push(Entry::new(resource, entry, entry.iter().map(items).sum()));
        rest = others;
    }
    line.push(now, entries);
}

/// A metric's data points.
fn points(metric: &Metric) -> u64 {
    let points = match &metric.data {
        None => 0,
        Some(metric::Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(metric::Data::Sum(sum)) => sum.data_points.len(),
        Some(metric::Data::Histogram(histogram)) => histogram.data_points.len(),
        Some(metric::Data::ExponentialHistogram(histogram)) => histogram.data_points.len(),
        Some(metric::Data::Summary(summary)) => summary.data_points.len(),
    };
    points as u64
}
