//! An OTLP receiver over gRPC that keeps what the report needs: when which collection's span came, and what the
//! counters say.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

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
use tokio::task::JoinHandle;
use tonic::codec::CompressionEncoding::{Gzip, Zstd};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A pod of 200 processes may send more than tonic's 4 MiB by mistake: it must be visible, not rejected.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// What came of one process.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Numbers of the collections that came as spans.
    pub(crate) numbers: HashSet<i64>,
    /// Root spans with a number that had come before.
    pub(crate) twice: u64,
    /// Spans below the roots.
    pub(crate) children: u64,
    /// `dotnet.gc.collections`, the newest value of each series.
    collections: HashMap<String, i64>,
    /// `gcwatch.collections.unexported`, likewise.
    unexported: HashMap<String, i64>,
    /// `gcwatch.events.lost`, likewise.
    lost: HashMap<String, i64>,
}

impl Received {
    /// Collections by the counter, all generations.
    pub(crate) fn counted(&self) -> i64 {
        self.collections.values().sum()
    }

    /// Collections that the daemon reports as not exported as spans because of the rate limit.
    pub(crate) fn unexported(&self) -> i64 {
        self.unexported.values().sum()
    }

    /// Events that the daemon says it never got.
    pub(crate) fn events_lost(&self) -> i64 {
        self.lost.values().sum()
    }
}

/// All that came.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// By pid.
    pub(crate) processes: HashMap<i64, Received>,
    /// From the end of each collection to its receipt, nanoseconds; only while [`Store::timing`].
    pub(crate) latencies: Vec<i64>,
    pub(crate) timing: bool,
    pub(crate) requests: u64,
    pub(crate) metric_points: u64,
}

/// The receiver, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    store: Arc<Mutex<Store>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Clone)]
struct Service(Arc<Mutex<Store>>);

impl Receiver {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .context("cannot listen on 127.0.0.1")?;
        let address = listener.local_addr()?;
        let store = Arc::new(Mutex::new(Store::default()));
        let service = Service(Arc::clone(&store));
        macro_rules! server {
            ($server:ident) => {
                $server::new(service.clone())
                    .accept_compressed(Gzip)
                    .accept_compressed(Zstd)
                    .max_decoding_message_size(MAX_MESSAGE_BYTES)
            };
        }
        let router = Server::builder()
            .add_service(server!(TraceServiceServer))
            .add_service(server!(MetricsServiceServer))
            .add_service(server!(LogsServiceServer));
        let task = tokio::spawn(async move {
            if let Err(error) = router.serve_with_incoming(TcpIncoming::from(listener)).await {
                eprintln!("load: the receiver ended: {error}");
            }
        });
        Ok(Self { address, store, task })
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Service {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut store = self.store();
        store.requests += 1;
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
                let received = store.processes.entry(pid).or_default();
                if !received.numbers.insert(number) {
                    received.twice += 1;
                }
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Service {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let mut store = self.store();
        store.requests += 1;
        for metrics in request.into_inner().resource_metrics {
            let Some(pid) = pid(metrics.resource.as_ref()) else {
                continue;
            };
            for metric in metrics.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
                let Some(Data::Sum(sum)) = metric.data else { continue };
                store.metric_points += sum.data_points.len() as u64;
                let received = store.processes.entry(pid).or_default();
                let series = match metric.name.as_str() {
                    "dotnet.gc.collections" => &mut received.collections,
                    "gcwatch.collections.unexported" => &mut received.unexported,
                    "gcwatch.events.lost" => &mut received.lost,
                    _ => continue,
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
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Service {
    async fn export(
        &self,
        _request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.store().requests += 1;
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}

/// The pid of a resource.
pub(crate) fn pid(resource: Option<&Resource>) -> Option<i64> {
    integer(&resource?.attributes, "process.pid")
}

/// An attribute that is a number.
pub(crate) fn integer(attributes: &[KeyValue], name: &str) -> Option<i64> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match &found.value {
        Some(AnyValue {
            value: Some(Value::IntValue(number)),
        }) => Some(*number),
        _ => None,
    }
}
