//! An OTLP receiver over gRPC that can be unavailable, and that records the data of the reports: the receipt of each
//! collection's span, and the values of counters.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::resource::v1::Resource;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tonic::codec::CompressionEncoding::{Gzip, Zstd};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// Maximum size of a message, in bytes. A host with 200 processes can send more than tonic's default of 4 MiB by
/// mistake. Such a message must be visible, not rejected.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Maximum time for which an answer is in transit. Data that arrived within this time before an interruption can arrive
/// again.
const UNDER_WAY: Duration = Duration::from_secs(3);

/// Counters of a process that are recorded: collections of all generations, collections that are not exported as spans
/// because of the rate limit, and events that the daemon reports as lost.
const COUNTERS: [&str; 3] = [
    "dotnet.gc.collections",
    "gcwatch.collections.unexported",
    "gcwatch.events.lost",
];

/// Behaviour of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Accepts requests.
    Up,
    /// Does not listen.
    Refusing,
    /// Answers UNAVAILABLE and accepts nothing.
    Unavailable,
    /// Accepts requests but does not answer them until the mode changes, so the client cannot know whether they were
    /// accepted.
    Deaf,
}

/// Data received from one process.
#[derive(Debug, Default)]
pub(crate) struct ReceivedData {
    /// Collections received as spans, by number, with the time of the first receipt.
    pub(crate) collections: HashMap<i64, Instant>,
    /// Number of collections that arrived again although their request was answered.
    pub(crate) twice: u64,
    /// Number of spans below the root spans.
    pub(crate) children: u64,
    /// Newest value of each series, by counter.
    series: [HashMap<String, i64>; COUNTERS.len()],
}

impl ReceivedData {
    /// Returns the values of the counters.
    pub(crate) fn counts(&self) -> [i64; COUNTERS.len()] {
        self.series.each_ref().map(|series| series.values().sum())
    }
}

/// All received data.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Received data by pid.
    pub(crate) processes: HashMap<i64, ReceivedData>,
    /// Number of collections of all processes.
    pub(crate) spans: u64,
    /// Number of collections that arrived again after their answer was lost.
    pub(crate) again: u64,
    /// Time from the end of each collection to its receipt, in nanoseconds; recorded only while [`Store::timing`] is
    /// set.
    pub(crate) latencies: Vec<i64>,
    pub(crate) timing: bool,
    pub(crate) requests: u64,
    pub(crate) metric_points: u64,
    /// Periods in which answers were lost, newest last.
    lost_answers: Vec<(Instant, Instant)>,
    /// Start of the current period in which answers are lost; `None` if answers are not lost now.
    losing_since: Option<Instant>,
}

impl Store {
    /// Records that the sender was interrupted: the sender has possibly not read the answers of the last moments.
    pub(crate) fn interrupted(&mut self) {
        let now = Instant::now();
        self.lost_answers.push((now.checked_sub(UNDER_WAY).unwrap_or(now), now));
    }

    fn take(&mut self, pid: i64, number: i64) {
        let received = self.processes.entry(pid).or_default();
        let Some(first) = received.collections.get(&number).copied() else {
            received.collections.insert(number, Instant::now());
            self.spans += 1;
            return;
        };
        let losing = self.losing_since.is_some_and(|since| first >= since);
        let mut lost = self.lost_answers.iter();
        if losing || lost.any(|(from, to)| (*from..=*to).contains(&first)) {
            self.again += 1;
        } else {
            received.twice += 1;
        }
    }
}

#[derive(Debug, Clone)]
struct Service {
    store: Arc<Mutex<Store>>,
    mode: watch::Receiver<Mode>,
}

/// The receiver, always on the same port.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    service: Service,
    mode: watch::Sender<Mode>,
    /// The executor; `None` while the receiver does not listen.
    running: Option<Runtime>,
}

impl Receiver {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let (mode, seen) = watch::channel(Mode::Up);
        let mut receiver = Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            service: Service {
                store: Arc::default(),
                mode: seen,
            },
            mode,
            running: None,
        };
        receiver.listen()?;
        Ok(receiver)
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.service.store()
    }

    /// Changes the behaviour.
    pub(crate) fn become_(&mut self, mode: Mode) -> anyhow::Result<()> {
        {
            let mut store = self.service.store();
            if let Some(since) = store.losing_since.take() {
                let since = since.checked_sub(UNDER_WAY).unwrap_or(since);
                store.lost_answers.push((since, Instant::now()));
            }
            store.losing_since = (mode == Mode::Deaf).then(Instant::now);
        }
        self.mode.send_replace(mode);
        if mode == Mode::Refusing {
            if let Some(running) = self.running.take() {
                self.service.store().interrupted();
                // Connections close with their tasks.
                running.shutdown_background();
            }
        } else if self.running.is_none() {
            self.listen()?;
        }
        Ok(())
    }

    fn listen(&mut self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("cannot start the receiver's executor")?;
        let listener = runtime
            .block_on(TcpListener::bind(self.address))
            .with_context(|| format!("cannot listen on {}", self.address))?;
        self.address = listener.local_addr()?;
        macro_rules! server {
            ($server:ident) => {
                $server::new(self.service.clone())
                    .accept_compressed(Gzip)
                    .accept_compressed(Zstd)
                    .max_decoding_message_size(MAX_MESSAGE_BYTES)
            };
        }
        let router = Server::builder()
            .add_service(server!(TraceServiceServer))
            .add_service(server!(MetricsServiceServer))
            .add_service(server!(LogsServiceServer));
        runtime.spawn(async move {
            if let Err(error) = router.serve_with_incoming(TcpIncoming::from(listener)).await {
                eprintln!("load: the receiver ended: {error}");
            }
        });
        self.running = Some(runtime);
        Ok(())
    }
}

impl Service {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts data and answers, according to the mode.
    async fn answer<T: Default>(&self, take: impl FnOnce(&mut Store)) -> Result<Response<T>, Status> {
        let mut mode = self.mode.clone();
        if *mode.borrow() == Mode::Unavailable {
            return Err(Status::unavailable("the receiver is being restarted"));
        }
        {
            let mut store = self.store();
            store.requests += 1;
            take(&mut store);
        }
        if *mode.borrow() == Mode::Deaf {
            let _over = mode.wait_for(|mode| *mode != Mode::Deaf).await;
            return Err(Status::unavailable("the answer came too late"));
        }
        Ok(Response::new(T::default()))
    }
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as i64);
        let take = |store: &mut Store| {
            for spans in request.into_inner().resource_spans {
                let Some(pid) = pid(spans.resource.as_ref()) else {
                    continue;
                };
                for span in spans.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                    let number = integer(&span.attributes, "gcwatch.gc.number");
                    let Some(number) = number.filter(|_| span.parent_span_id.is_empty()) else {
                        store.processes.entry(pid).or_default().children += 1;
                        continue;
                    };
                    if store.timing {
                        store.latencies.push(now - span.end_time_unix_nano as i64);
                    }
                    store.take(pid, number);
                }
            }
        };
        self.answer(take).await
    }
}

#[tonic::async_trait]
impl MetricsService for Service {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let take = |store: &mut Store| {
            for metrics in request.into_inner().resource_metrics {
                let Some(pid) = pid(metrics.resource.as_ref()) else {
                    continue;
                };
                for metric in metrics.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
                    let Some(Data::Sum(sum)) = metric.data else { continue };
                    store.metric_points += sum.data_points.len() as u64;
                    let received = store.processes.entry(pid).or_default();
                    let counter = COUNTERS.iter().position(|name| *name == metric.name);
                    let Some(series) = counter.and_then(|counter| received.series.get_mut(counter)) else {
                        continue;
                    };
                    for point in sum.data_points {
                        let value = match point.value {
                            Some(Number::AsInt(value)) => value,
                            Some(Number::AsDouble(value)) => value as i64,
                            None => continue,
                        };
                        series.insert(format!("{:?}", point.attributes), value);
                    }
                }
            }
        };
        self.answer(take).await
    }
}

#[tonic::async_trait]
impl LogsService for Service {
    async fn export(
        &self,
        _request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.answer(|_| ()).await
    }
}

/// Returns the pid of a resource, or `None` if the resource has no pid.
fn pid(resource: Option<&Resource>) -> Option<i64> {
    integer(&resource?.attributes, "process.pid")
}

/// Returns the integer value of an attribute, or `None` if there is no such attribute or its value is not an integer.
fn integer(attributes: &[KeyValue], name: &str) -> Option<i64> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match &found.value {
        Some(AnyValue {
            value: Some(Value::IntValue(number)),
        }) => Some(*number),
        _ => None,
    }
}
