//! A scripted OTLP receiver on a loopback port: gRPC, HTTP/protobuf and HTTP/JSON on one socket, with or without TLS.
//! The receiver records every request and answers as its script defines, including answers that real receivers do not
//! give on demand.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::pending;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use delivery::otlp::settings::{self, Protocol};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use prost::bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tonic::{Code, Status};

/// Timeout for expected events; only a failing test waits this long.
pub const LONG: Duration = Duration::from_secs(20);

/// The answer to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Accept the request completely.
    Accept,
    /// Accept the request partially, or with a warning.
    Partial { rejected: i64, message: String },
    /// Answer with a gRPC status.
    Grpc {
        code: Code,
        message: String,
        retry_after: Option<Duration>,
    },
    /// Answer with an HTTP status, headers and a body.
    Http {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    },
    /// Read the request and do not answer until the receiver ends.
    Hang,
    /// Neither read the body nor answer.
    Deaf,
    /// Read a part of the body, then drop the connection.
    Reset,
    /// Answer with a success status, then break off the body of the answer.
    BrokenAnswer,
    /// Answer with a success status, then send the body of the answer byte by byte without end.
    Trickle,
    /// Answer with a success status and a body that is not OTLP and has this number of bytes.
    LongAnswer(usize),
    /// Accept after a call of [`Receiver::release`].
    Held,
}

impl Reply {
    /// Creates a gRPC answer with the status `UNAVAILABLE`, with or without RetryInfo.
    pub fn unavailable(retry_after: Option<Duration>) -> Self {
        Self::grpc(Code::Unavailable, "not now", retry_after)
    }

    pub fn grpc(code: Code, message: &str, retry_after: Option<Duration>) -> Self {
        Self::Grpc {
            code,
            message: message.to_owned(),
            retry_after,
        }
    }

    pub fn http(status: u16, headers: &[(&'static str, &str)]) -> Self {
        let headers = headers
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        Self::Http {
            status,
            headers,
            body: b"as the script says".to_vec(),
        }
    }
}

/// A request as received.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub path: String,
    pub headers: HeaderMap,
    /// Encoding with which the body was compressed; `None` if it was not compressed.
    pub packed: Option<String>,
    /// The decompressed body, without the frame of gRPC.
    pub body: Vec<u8>,
    /// Number of the connection that carried the request, starting at 0.
    pub connection: usize,
}

impl Recorded {
    pub fn is_grpc(&self) -> bool {
        self.header("content-type") == "application/grpc"
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn decode<T: Message + Default + serde::de::DeserializeOwned>(&self) -> T {
        if self.header("content-type") == "application/json" {
            serde_json::from_slice(&self.body).unwrap()
        } else {
            T::decode(self.body.as_slice()).unwrap()
        }
    }

    pub fn traces(&self) -> ExportTraceServiceRequest {
        self.decode()
    }

    pub fn metrics(&self) -> ExportMetricsServiceRequest {
        self.decode()
    }

    pub fn logs(&self) -> ExportLogsServiceRequest {
        self.decode()
    }

    /// Returns all spans of the request in order.
    pub fn spans(&self) -> Vec<Span> {
        let resources = self.traces().resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    pub fn span_names(&self) -> Vec<String> {
        self.spans().into_iter().map(|span| span.name).collect()
    }
}

/// Returns settings that send JSON to an address.
pub fn settings(endpoint: String) -> settings::Receiver {
    settings::Receiver::new(endpoint, Protocol::HttpJson, LONG)
}

#[derive(Debug)]
struct State {
    /// Pending replies by a part of the path (`trace`, `metrics`, `logs`), or for all paths (the empty part).
    scripts: Mutex<HashMap<String, VecDeque<Reply>>>,
    /// Reply after the end of the script.
    then: Mutex<Reply>,
    /// Maximum size of a decompressed request, in bytes; `None` if unlimited. A refusal replaces the reply of the
    /// script.
    limit: Mutex<Option<usize>>,
    requests: mpsc::UnboundedSender<Recorded>,
    connections: AtomicUsize,
    released: Notify,
}

/// A scripted receiver, which stops when this value is dropped.
#[derive(Debug)]
pub struct Receiver {
    pub address: SocketAddr,
    secure: bool,
    state: Arc<State>,
    requests: mpsc::UnboundedReceiver<Recorded>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// Starts a receiver that accepts everything, without TLS.
    pub async fn start() -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), None).await
    }

    /// Starts a receiver with TLS.
    pub async fn start_tls(config: rustls::ServerConfig) -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), Some(config)).await
    }

    /// Starts a receiver at this address, where another receiver can have listened before.
    pub async fn listen(address: SocketAddr, tls: Option<rustls::ServerConfig>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            scripts: Mutex::default(),
            then: Mutex::new(Reply::Accept),
            limit: Mutex::new(None),
            requests: sender,
            connections: AtomicUsize::new(0),
            released: Notify::new(),
        });
        let secure = tls.is_some();
        let tls = tls.map(|mut config| {
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            TlsAcceptor::from(Arc::new(config))
        });
        let accepting = Arc::clone(&state);
        let task = tokio::spawn(async move {
            // The task owns the set of connections, so that no connection outlives the receiver.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&accepting);
                let number = state.connections.fetch_add(1, Ordering::SeqCst);
                match tls.clone() {
                    None => connections.spawn(serve(stream, state, number)),
                    Some(tls) => connections.spawn(async move {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, state, number).await;
                        }
                    }),
                };
            }
        });
        Self {
            address,
            secure,
            state,
            requests,
            task,
        }
    }

    /// Returns the URL of the receiver. With TLS, the host is `localhost`, the name in the certificates.
    pub fn url(&self) -> String {
        if self.secure {
            format!("https://localhost:{}", self.address.port())
        } else {
            format!("http://{}", self.address)
        }
    }

    /// Adds replies to the next requests, in order.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.script_for("", replies);
    }

    /// Adds replies to the next requests whose path contains `part`, in order.
    pub fn script_for(&self, part: &str, replies: impl IntoIterator<Item = Reply>) {
        self.state
            .scripts
            .lock()
            .unwrap()
            .entry(part.to_owned())
            .or_default()
            .extend(replies);
    }

    /// Sets the reply to all requests after the end of the script. The default is [`Reply::Accept`].
    pub fn then(&self, reply: Reply) {
        *self.state.then.lock().unwrap() = reply;
    }

    /// Refuses requests with more than `bytes` decompressed bytes: with `RESOURCE_EXHAUSTED` over gRPC, with status 413
    /// over HTTP.
    pub fn limit(&self, bytes: usize) {
        *self.state.limit.lock().unwrap() = Some(bytes);
    }

    /// Accepts one request that waits because of [`Reply::Held`].
    pub fn release(&self) {
        self.state.released.notify_one();
    }

    /// Waits for the next request, regardless of its answer.
    pub async fn next(&mut self) -> Recorded {
        timeout(LONG, self.requests.recv())
            .await
            .expect("a request arrives")
            .expect("the receiver runs")
    }

    /// Returns the next request, or `None` if no request has arrived yet.
    pub fn try_next(&mut self) -> Option<Recorded> {
        self.requests.try_recv().ok()
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, state: Arc<State>, connection: usize) {
    let service = service_fn(move |request| answer(Arc::clone(&state), connection, request));
    // Some scripts break the connection, so an error is expected.
    let _ended = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

async fn answer(state: Arc<State>, connection: usize, request: Request<Incoming>) -> Result<Answer, io::Error> {
    let (head, mut body) = request.into_parts();
    let path = head.uri.path().to_lowercase();
    let reply = {
        let mut scripts = state.scripts.lock().unwrap();
        let script = scripts
            .iter_mut()
            .find(|(part, replies)| path.contains(part.as_str()) && !replies.is_empty());
        script
            .and_then(|(_, replies)| replies.pop_front())
            .unwrap_or_else(|| state.then.lock().unwrap().clone())
    };
    let mut recorded = Recorded {
        path: head.uri.path().to_owned(),
        headers: head.headers,
        packed: None,
        body: Vec::new(),
        connection,
    };
    match reply {
        Reply::Deaf => {
            let _ = state.requests.send(recorded);
            return pending().await;
        }
        Reply::Reset => {
            let _some = body.frame().await;
            let _ = state.requests.send(recorded);
            return Err(io::Error::other("reset"));
        }
        _ => {}
    }
    let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
    unpack(&mut recorded, &bytes);
    let grpc = recorded.is_grpc();
    let json = recorded.header("content-type") == "application/json";
    let path = recorded.path.clone();
    let packed = recorded.packed.clone();
    let length = recorded.body.len();
    let _ = state.requests.send(recorded);
    let limit = *state.limit.lock().unwrap();
    let reply = match limit.filter(|limit| length > *limit) {
        None => reply,
        Some(limit) if grpc => {
            let message = format!("grpc: received message larger than max ({length} vs. {limit})");
            Reply::grpc(Code::ResourceExhausted, &message, None)
        }
        Some(_) => Reply::http(413, &[]),
    };
    let response = match reply {
        Reply::Hang | Reply::Deaf | Reply::Reset => return pending().await,
        Reply::Accept => accept(grpc, json, &path, packed.as_deref(), None),
        Reply::Held => {
            state.released.notified().await;
            accept(grpc, json, &path, packed.as_deref(), None)
        }
        Reply::Partial { rejected, message } => accept(grpc, json, &path, packed.as_deref(), Some((rejected, message))),
        Reply::Grpc {
            code,
            message,
            retry_after,
        } => {
            let details = retry_after.map(retry_info).unwrap_or_default();
            Status::with_details(code, message, details.into())
                .into_http::<Full<Bytes>>()
                .map(full)
        }
        Reply::Http { status, headers, body } => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(full(Full::from(body))).unwrap()
        }
        Reply::BrokenAnswer => typed(grpc, json, Broken { sleep: None }.boxed_unsync()),
        Reply::Trickle => typed(grpc, json, Trickle { sleep: None }.boxed_unsync()),
        Reply::LongAnswer(bytes) => {
            let mut body = vec![b' '; bytes];
            if grpc {
                body = frame(&body, None).to_vec();
            }
            typed(grpc, json, full(Full::from(body)))
        }
    };
    Ok(response)
}

fn full(body: Full<Bytes>) -> UnsyncBoxBody<Bytes, io::Error> {
    body.map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn typed(grpc: bool, json: bool, body: UnsyncBoxBody<Bytes, io::Error>) -> Answer {
    let kind = match (grpc, json) {
        (true, _) => "application/grpc",
        (_, true) => "application/json",
        _ => "application/x-protobuf",
    };
    Response::builder().header(CONTENT_TYPE, kind).body(body).unwrap()
}

fn accept(grpc: bool, json: bool, path: &str, packed: Option<&str>, partial: Option<(i64, String)>) -> Answer {
    use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse};
    let body = if json {
        let key = match path.rsplit('/').next() {
            Some("traces") => "rejectedSpans",
            Some("metrics") => "rejectedDataPoints",
            _ => "rejectedLogRecords",
        };
        let partial = partial
            .map(|(rejected, message)| serde_json::json!({ key: rejected.to_string(), "errorMessage": message }));
        partial.map_or_else(
            || b"{}".to_vec(),
            |partial| serde_json::to_vec(&serde_json::json!({ "partialSuccess": partial })).unwrap(),
        )
    } else {
        // The answers of all three signals have the same layout.
        let partial_success = partial.map(|(rejected_spans, error_message)| ExportTracePartialSuccess {
            rejected_spans,
            error_message,
        });
        ExportTraceServiceResponse { partial_success }.encode_to_vec()
    };
    if !grpc {
        return typed(grpc, json, full(Full::from(body)));
    }
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
    let body = Full::new(frame(&body, packed)).with_trailers(async { Some(Ok(trailers)) });
    let mut answer = typed(grpc, json, body.map_err(|never| match never {}).boxed_unsync());
    if let Some(packed) = packed {
        answer.headers_mut().insert("grpc-encoding", packed.parse().unwrap());
    }
    answer
}

/// Encodes a gRPC message with its frame: a compression flag, the length, and the bytes. The message is compressed like
/// the request, as in grpc-go.
fn frame(message: &[u8], packed: Option<&str>) -> Bytes {
    let message = match packed {
        None => message.to_vec(),
        Some("gzip") => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(message).unwrap();
            gzip.finish().unwrap()
        }
        Some(_) => zstd::bulk::compress(message, 0).unwrap(),
    };
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[u8::from(packed.is_some())], length.as_slice(), &message]
        .concat()
        .into()
}

/// Encodes a `google.rpc.Status` with a `RetryInfo` by hand: all tags and lengths have one byte.
fn retry_info(delay: Duration) -> Vec<u8> {
    let field = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
    let mut duration = vec![0x08];
    prost::encode_length_delimiter(delay.as_secs() as usize, &mut duration).unwrap();
    duration.push(0x10);
    prost::encode_length_delimiter(delay.subsec_nanos() as usize, &mut duration).unwrap();
    let any = [
        field(0x0a, b"type.googleapis.com/google.rpc.RetryInfo"),
        field(0x12, &field(0x0a, &duration)),
    ];
    [vec![0x08, 14], field(0x1a, &any.concat())].concat()
}

/// Removes the frame and the compression of a body.
fn unpack(recorded: &mut Recorded, bytes: &[u8]) {
    let (packed, content) = if recorded.is_grpc() {
        let (head, content) = bytes.split_at(5);
        let length = u32::from_be_bytes(head[1..5].try_into().unwrap()) as usize;
        assert_eq!(length, content.len(), "one message in one request");
        (
            (head[0] == 1).then(|| recorded.header("grpc-encoding").to_owned()),
            content,
        )
    } else {
        let length = recorded
            .headers
            .get(CONTENT_LENGTH)
            .map(|length| length.to_str().unwrap().to_owned());
        assert!(length.is_none_or(|length| length == bytes.len().to_string()));
        (
            recorded
                .headers
                .get(CONTENT_ENCODING)
                .map(|name| name.to_str().unwrap().to_owned()),
            bytes,
        )
    };
    recorded.body = match packed.as_deref() {
        None => content.to_vec(),
        Some("gzip") => {
            let mut body = Vec::new();
            flate2::read::GzDecoder::new(content).read_to_end(&mut body).unwrap();
            body
        }
        Some("zstd") => zstd::stream::decode_all(content).unwrap(),
        Some(other) => panic!("packed in {other}"),
    };
    recorded.packed = packed;
}

/// A body that starts and then breaks off.
struct Broken {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Body for Broken {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(sleep) = &mut self.sleep else {
            self.sleep = Some(Box::pin(tokio::time::sleep(Duration::from_millis(20))));
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"\0")))));
        };
        sleep
            .as_mut()
            .poll(cx)
            .map(|()| Some(Err(io::Error::other("broken off"))))
    }
}

/// A body that arrives byte by byte without end.
struct Trickle {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Body for Trickle {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::from_millis(10))));
        if sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.sleep = None;
        cx.waker().wake_by_ref();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"\0")))))
    }
}
