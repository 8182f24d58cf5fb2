//! An OTLP receiver over gRPC that comes and goes, and keeps which collection came when.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tonic::codec::CompressionEncoding::{Gzip, Zstd};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::receiver::{MAX_MESSAGE_BYTES, integer, pid};

/// Whose answer was under way for so long at most when it was interrupted: what came then may come again.
const UNDER_WAY: Duration = Duration::from_secs(3);

/// What it does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Takes it.
    Up,
    /// Nobody listens.
    Refusing,
    /// Answers UNAVAILABLE, and takes nothing.
    Unavailable,
    /// Takes it, and never answers: the client cannot know.
    Deaf,
}

/// What came.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Of each process: number of the collection, and when it came first.
    pub(super) collections: HashMap<i64, HashMap<i64, Instant>>,
    spans: u64,
    /// Came again though its request was answered.
    pub(super) twice: u64,
    /// Came again after its answer was lost.
    pub(super) again: u64,
    /// When answers were lost, newest last: what came since the first of a pair until the second.
    lost_answers: Vec<(Instant, Instant)>,
    /// Answers are being lost since then.
    losing_since: Option<Instant>,
}

impl Arrivals {
    /// Collections that came.
    pub(super) fn spans(&self) -> u64 {
        self.spans
    }

    /// Whoever sent is interrupted now: answers of the last moments may not have been read.
    pub(super) fn interrupted(&mut self) {
        let now = Instant::now();
        self.lost_answers.push((now.checked_sub(UNDER_WAY).unwrap_or(now), now));
    }

    fn take(&mut self, pid: i64, number: i64, now: Instant) {
        let known = self.collections.entry(pid).or_default();
        let Some(first) = known.get(&number).copied() else {
            known.insert(number, now);
            self.spans += 1;
            return;
        };
        let losing = self.losing_since.is_some_and(|since| first >= since);
        let was_lost = self
            .lost_answers
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&first));
        if losing || was_lost {
            self.again += 1;
        } else {
            self.twice += 1;
        }
    }
}

#[derive(Debug, Clone)]
struct Service {
    arrivals: Arc<Mutex<Arrivals>>,
    mode: watch::Receiver<Mode>,
}

/// The receiver, always on the same port.
#[derive(Debug)]
pub(super) struct FlappingReceiver {
    address: SocketAddr,
    service: Service,
    mode: watch::Sender<Mode>,
    /// While it listens.
    running: Option<Runtime>,
}

impl FlappingReceiver {
    pub(super) fn start() -> anyhow::Result<Self> {
        let (mode, seen) = watch::channel(Mode::Up);
        let mut receiver = Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            service: Service {
                arrivals: Arc::default(),
                mode: seen,
            },
            mode,
            running: None,
        };
        receiver.listen()?;
        Ok(receiver)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Arrivals> {
        self.service.arrivals()
    }

    /// Behaves so from now on.
    pub(super) fn become_(&mut self, mode: Mode) -> anyhow::Result<()> {
        {
            let mut arrivals = self.service.arrivals();
            if let Some(since) = arrivals.losing_since.take() {
                let since = since.checked_sub(UNDER_WAY).unwrap_or(since);
                arrivals.lost_answers.push((since, Instant::now()));
            }
            arrivals.losing_since = (mode == Mode::Deaf).then(Instant::now);
        }
        self.mode.send_replace(mode);
        if mode == Mode::Refusing {
            if let Some(running) = self.running.take() {
                self.service.arrivals().interrupted();
                // Connections go with their tasks.
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
            let _ended = router.serve_with_incoming(TcpIncoming::from(listener)).await;
        });
        self.running = Some(runtime);
        Ok(())
    }
}

impl Service {
    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer, as the mode has it.
    async fn answer<T: Default>(&self) -> Result<Response<T>, Status> {
        let mut mode = self.mode.clone();
        if *mode.borrow() == Mode::Deaf {
            let _over = mode.wait_for(|mode| *mode != Mode::Deaf).await;
            return Err(Status::unavailable("the answer came too late"));
        }
        Ok(Response::new(T::default()))
    }

    fn refuses(&self) -> Result<(), Status> {
        match *self.mode.borrow() {
            Mode::Unavailable => Err(Status::unavailable("the receiver is being restarted")),
            _ => Ok(()),
        }
    }
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.refuses()?;
        let now = Instant::now();
        {
            let mut arrivals = self.arrivals();
            for spans in request.into_inner().resource_spans {
                let Some(pid) = pid(spans.resource.as_ref()) else {
                    continue;
                };
                for span in spans.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                    let number = integer(&span.attributes, "gcwatch.gc.number");
                    if let Some(number) = number.filter(|_| span.parent_span_id.is_empty()) {
                        arrivals.take(pid, number, now);
                    }
                }
            }
        }
        self.answer().await
    }
}

#[tonic::async_trait]
impl MetricsService for Service {
    async fn export(
        &self,
        _request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.refuses()?;
        self.answer().await
    }
}

#[tonic::async_trait]
impl LogsService for Service {
    async fn export(
        &self,
        _request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.refuses()?;
        self.answer().await
    }
}
