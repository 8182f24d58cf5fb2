//! Takes the spans of services in, to know their requests: an OTLP receiver beside the one that they have.
//!
//! ```text
//! SDK or Collector -- OTLP/gRPC, OTLP/HTTP --> a thread of its own --> targets::directory --> the process's own task
//! ```
//!
//! It is the second destination of spans: what it does not take is lost for nobody. So a sender is never held up. What
//! is not read for lack of memory is dropped, counted, and answered with success. Nothing is kept of a span but its
//! times, ids, and status, until the process's task has laid it over the stops.
//!
//! Bounds: 256 connections; a request's body has 4 MiB and 10 s, all of them 16 MiB; an export 8 MiB and 16,384
//! requests; [`directory`] holds what waits. Spans are read in place, so that bytes cannot grow into more.
//!
//! On loopback by default. Whoever reaches the port can say that there were requests, and nothing else.
//!
//! [`directory`]: crate::targets::directory

mod answer;
mod body;
pub mod options;
pub(crate) mod stats;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use self::answer::Exports;
use self::body::Room;
use self::options::IntakeOptions;
pub use self::stats::IntakeStats;
use crate::targets::directory::Directory;
use crate::web::tls::{Certificate, TlsError};
use crate::web::wire::Wire;

/// Concurrent connections. Others wait in the system's queue.
const CONNECTIONS: usize = 256;
/// Concurrent requests of one connection.
const STREAMS: u32 = 16;
/// Largest frame and window of a connection: what is read ahead of one that waits.
const WINDOW_BYTES: u32 = 256 << 10;
/// Deadline for the handshake of TLS, and for the head of a request from the start of a connection of HTTP/1.1.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How often a connection of HTTP/2 is asked whether it is alive.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// Limit of a connection's age. Exporters open another one.
const LIFETIME: Duration = Duration::from_secs(600);
/// How long a connection of that age may take to finish its requests.
const LAST_WITHIN: Duration = Duration::from_secs(15);
/// Pause before the next accept when the system has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(500);
/// The thread's name, as `top -H` shows it.
const THREAD: &str = "intake";
/// Its stack: one chunk of decompression is the largest thing on it.
const STACK_BYTES: usize = 512 << 10;

/// Spans cannot be listened for.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// The port is taken, or the address is not this host's.
    #[error("cannot listen for spans at {address}: {source}; set requests.otlp.listen to another address")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error("cannot listen for spans: {0}")]
    Tls(#[from] TlsError),
    /// The system has no thread.
    #[error("cannot start a thread that listens for spans: {0}")]
    Thread(std::io::Error),
}

/// A thread that listens, until this is dropped.
#[derive(Debug)]
pub struct Intake {
    address: SocketAddr,
    /// Dropped to stop it; `None`: it was.
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Intake {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// When it cannot.
    pub fn start(
        options: &IntakeOptions,
        directory: Arc<Directory>,
        stats: Arc<IntakeStats>,
    ) -> Result<Self, IntakeError> {
        let of_address = |source| IntakeError::Listen {
            address: options.address,
            source,
        };
        let certificate = options.tls.as_ref().map(Certificate::read).transpose()?;
        let acceptor = certificate.as_ref();
        let acceptor = acceptor.map(|certificate| certificate.acceptor(&["h2", "http/1.1"]));
        let acceptor = acceptor.transpose()?;
        let listener = std::net::TcpListener::bind(options.address).map_err(of_address)?;
        let address = listener.local_addr().map_err(of_address)?;
        listener.set_nonblocking(true).map_err(of_address)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            // For the certificate's files.
            .max_blocking_threads(1)
            .thread_keep_alive(Duration::from_millis(500))
            .build()
            .map_err(IntakeError::Thread)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let exports = Exports {
            directory,
            stats,
            room: Room::default(),
        };
        let serve = async move {
            let follow = async {
                match certificate {
                    Some(certificate) => certificate.follow().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = accept(listener, acceptor, exports) => {}
                () = follow => {}
                _ = stopped => {}
            }
        };
        let thread = Builder::new().name(THREAD.to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || {
            runtime.block_on(serve);
            // Files of a certificate on a disk that hangs hold nobody.
            runtime.shutdown_background();
        });
        Ok(Self {
            address,
            running: Some((stop, thread.map_err(IntakeError::Thread)?)),
        })
    }

    /// The address, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// It ended by itself.
    pub fn has_failed(&self) -> bool {
        self.running.as_ref().is_some_and(|(_, thread)| thread.is_finished())
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        let Some((stop, thread)) = self.running.take() else {
            return;
        };
        drop(stop);
        // It has nothing to finish. Then the port is free.
        let _panicked = thread.join();
    }
}

/// Ends when the listener fails.
async fn accept(listener: std::net::TcpListener, tls: Option<TlsAcceptor>, exports: Exports) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!("cannot listen for spans: {error}");
            return;
        }
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let (tls, exports) = (tls.clone(), exports.clone());
                connections.spawn(async move {
                    connection(stream, tls, exports).await;
                    drop(place);
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, exports: Exports) {
    // Without it answers wait for acknowledgements; it cannot fail on a connection that is open.
    let _set = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(HEAD_WITHIN, Wire::new(stream, tls)).await else {
        return;
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(ASK_EVERY);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .keep_alive_interval(ASK_EVERY);
    let service = service_fn(|request| {
        let exports = exports.clone();
        async move { Ok::<_, Infallible>(exports.answer(request).await) }
    });
    // However it ends: a sender sees it, and sends again.
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    if timeout(LIFETIME, &mut served).await.is_err() {
        served.as_mut().graceful_shutdown();
        let _ended = timeout(LAST_WITHIN, served).await;
    }
}

#[cfg(test)]
mod tests {
    use delivery::otlp::Exporter;
    use delivery::otlp::settings::{Compression, OtlpSettings, Protocol, Receiver};
    use gc_telemetry::origin::Origin;
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::*;
    use crate::web::options::TlsFiles;

    /// Scenario: an OTLP client over gRPC and over HTTP, plain and in TLS, compressed.
    /// Guarantee: what it sends arrives, and it has no error. When it is stopped the port is free.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_client_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = TlsFiles {
            certificate: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
        };
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        for tls in [None, Some(files)] {
            for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
                let options = IntakeOptions {
                    address: ([127, 0, 0, 1], 0).into(),
                    tls: tls.clone(),
                };
                let stats = Arc::new(IntakeStats::default());
                let intake = Intake::start(&options, Arc::default(), Arc::clone(&stats)).unwrap();
                let address = intake.address();
                let scheme = if tls.is_some() { "https" } else { "http" };
                let path = if protocol == Protocol::Grpc { "" } else { "/v1/traces" };
                let receiver = Receiver {
                    endpoint: format!("{scheme}://localhost:{}{path}", address.port()),
                    protocol,
                    headers: Vec::new(),
                    timeout: Duration::from_secs(10),
                    compression: Compression::Gzip,
                    certificate: tls.as_ref().map(|files| files.certificate.clone()),
                    client_certificate: None,
                    client_key: None,
                };
                let settings = OtlpSettings {
                    traces: Some(receiver),
                    ..OtlpSettings::default()
                };
                let (exporter, running) = Exporter::start(&settings).unwrap();
                let span = Span {
                    kind: 2,
                    trace_id: vec![1; 16],
                    span_id: vec![2; 8],
                    start_time_unix_nano: 1,
                    end_time_unix_nano: 2,
                    ..Span::default()
                };
                exporter.spans(&Arc::new(Origin::new(Vec::new())), vec![span; 100]);
                running.shutdown(Duration::from_secs(20)).await;
                let stats_of = exporter.stats();
                let error = &stats_of.traces.last_error;
                assert_eq!(stats_of.traces.exported, 100, "{protocol:?} {scheme}: {error:?}");
                assert_eq!(stats.spans().nth(1), Some(("unmatched", 100)));
                drop(intake);
                std::net::TcpListener::bind(address).unwrap();
            }
        }
    }

    /// Scenario: the address is taken.
    /// Guarantee: the error names it and the key.
    #[test]
    fn an_address_that_is_taken_is_named() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let options = IntakeOptions {
            address: taken.local_addr().unwrap(),
            tls: None,
        };
        let error = Intake::start(&options, Arc::default(), Arc::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&options.address.to_string()) && error.contains("requests.otlp.listen"),
            "{error}"
        );
    }
}
