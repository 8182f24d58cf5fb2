//! The receiver of one signal: the three OTLP protocols behind one call.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use base::error::causes;
use base::secret::Secret;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use tokio::time::{Instant, timeout_at};
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderMap, HeaderName, StatusCode, header};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::otlp::answer::{ANSWER_BYTES, Answer, ExportResponse, RetryCause};
use crate::otlp::batch::Batch;
use crate::otlp::error::Error;
use crate::otlp::signal::Signal;
use crate::transport::connection::{Connection, Link};
use crate::transport::receiver::{Compression, Protocol, Receiver};
use crate::transport::text;

/// Receiver and connection of one signal.
pub(crate) struct Target {
    signal: Signal,
    receiver: Receiver,
    connection: Arc<Connection>,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    /// Whether requests are sent uncompressed because the receiver cannot decompress them.
    plain: AtomicBool,
    #[cfg(test)]
    pub(crate) script: Option<Script>,
}

/// Answers without a receiver, so that a test can run on a paused clock.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Script {
    /// Answers in order. Afterwards, every request is accepted.
    pub(crate) answers: std::sync::Mutex<std::collections::VecDeque<Answer>>,
    /// Time of each attempt.
    pub(crate) attempts: std::sync::Mutex<Vec<Instant>>,
    /// Duration of each answer.
    pub(crate) takes: Duration,
}

impl fmt::Debug for Target {
    /// Omits the endpoint, because its path can be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("signal", &self.signal)
            .finish_non_exhaustive()
    }
}

/// An HTTP answer, whose body is read up to [`ANSWER_BYTES`].
pub(crate) struct HttpAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl HttpAnswer {
    fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl Target {
    /// Checks the settings of a receiver. Takes the connection from `known`, or adds it there.
    pub(crate) fn new(signal: Signal, receiver: &Receiver, known: &mut Vec<Arc<Connection>>) -> Result<Self, Error> {
        let unusable = |source| Error::Receiver { signal, source };
        Ok(Self {
            signal,
            connection: Connection::open(receiver, known).map_err(unusable)?,
            headers: receiver.header_map().map_err(unusable)?,
            receiver: receiver.clone(),
            secrets: {
                let headers = receiver.headers.iter().map(|(_, value)| value.clone());
                let url = reqwest::Url::parse(&receiver.endpoint).ok();
                headers.chain(url.iter().flat_map(text::secrets_of)).collect()
            },
            plain: AtomicBool::new(false),
            #[cfg(test)]
            script: None,
        })
    }

    /// Returns the settings from which the target was created.
    pub(crate) fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Returns the connection.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Returns the headers, marked as sensitive.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns a foreign text in a form that is safe to show: one line, bounded, without secrets.
    pub(crate) fn shown(&self, text: &str) -> String {
        text::shown(text, &self.secrets)
    }

    /// Returns the endpoint without its possible secrets.
    pub(crate) fn address(&self) -> String {
        text::endpoint(&self.receiver.endpoint)
    }

    /// Sends `batch` once, within the receiver's timeout.
    pub(crate) async fn send(&self, batch: &Arc<Batch>) -> Answer {
        #[cfg(test)]
        if let Some(script) = &self.script {
            script.attempts.lock().unwrap().push(Instant::now());
            tokio::time::sleep(script.takes).await;
            let accepted = Answer::Accepted {
                rejected: 0,
                message: String::new(),
            };
            return script.answers.lock().unwrap().pop_front().unwrap_or(accepted);
        }
        let compression = self.compression();
        let deadline = Instant::now() + self.receiver.timeout;
        let answer = match self.connection.link() {
            Link::Grpc(channel) => match timeout_at(deadline, self.send_grpc(channel, compression, batch)).await {
                Ok(answer) => answer,
                Err(_) => Answer::timed_out(self.receiver.timeout),
            },
            Link::Http(client) => self.send_http(&client, compression, batch, deadline).await,
        };
        match answer {
            Answer::CannotDecompress { message } if compression != Compression::None => {
                self.stop_compressing(&message);
                Answer::Retry {
                    cause: RetryCause::Unavailable,
                    after: Some(Duration::ZERO),
                    message,
                }
            }
            answer => answer,
        }
    }

    /// Returns the compression of requests: none if the receiver cannot decompress them, otherwise the configured
    /// compression.
    pub(crate) fn compression(&self) -> Compression {
        if self.plain.load(Ordering::Relaxed) {
            Compression::None
        } else {
            self.receiver.compression
        }
    }

    /// Stops compressing requests.
    pub(crate) fn stop_compressing(&self, message: &str) {
        self.plain.store(true, Ordering::Relaxed);
        let (signal, address, text) = (self.signal, self.address(), self.shown(message));
        tracing::warn!(
            target: "gcwatch::export", %signal,
            "the OTLP endpoint {address} cannot decompress requests; sending them uncompressed: {text}",
        );
    }

    async fn send_grpc(&self, channel: Channel, compression: Compression, batch: &Arc<Batch>) -> Answer {
        let mut client = Grpc::new(channel)
            .max_decoding_message_size(ANSWER_BYTES)
            // grpc-go compresses its answer like the request, even if it was not requested.
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd);
        client = match compression {
            Compression::None => client,
            Compression::Gzip => client.send_compressed(CompressionEncoding::Gzip),
            Compression::Zstd => client.send_compressed(CompressionEncoding::Zstd),
        };
        if let Err(error) = client.ready().await {
            return Answer::unreachable(causes(&error));
        }
        let mut request = Request::new(Arc::clone(batch));
        *request.metadata_mut() = MetadataMap::from_headers(self.headers.clone());
        match client
            .unary(request, PathAndQuery::from_static(self.signal.method()), BatchCodec)
            .await
        {
            Ok(response) => response.into_inner().into(),
            Err(status) => Answer::from_status(&status),
        }
    }

    async fn send_http(
        &self,
        client: &reqwest::Client,
        compression: Compression,
        batch: &Batch,
        deadline: Instant,
    ) -> Answer {
        let mut plain = Vec::with_capacity(batch.len());
        batch.encode(&mut plain);
        let body = match self.receiver.protocol {
            Protocol::HttpJson => self.to_json(&plain),
            Protocol::Grpc | Protocol::HttpProtobuf => Ok(plain),
        };
        let body = match body.and_then(|body| compress(body, compression)) {
            Ok(body) => body,
            Err(error) => {
                return Answer::Refused {
                    message: format!("cannot encode the request: {error}"),
                };
            }
        };
        match self.post(client, compression, body, deadline).await {
            Ok(answer) => self.answer_of(&answer),
            Err(answer) => answer,
        }
    }

    /// Sends `body`, which is already compressed.
    pub(crate) async fn post(
        &self,
        client: &reqwest::Client,
        compression: Compression,
        body: Vec<u8>,
        deadline: Instant,
    ) -> Result<HttpAnswer, Answer> {
        let content_type = match self.receiver.protocol {
            Protocol::HttpJson => "application/json",
            Protocol::Grpc | Protocol::HttpProtobuf => "application/x-protobuf",
        };
        let mut request = client
            .post(&self.receiver.endpoint)
            .headers(self.headers.clone())
            .header(header::CONTENT_TYPE, content_type);
        match compression {
            Compression::None => {}
            Compression::Gzip => request = request.header(header::CONTENT_ENCODING, "gzip"),
            Compression::Zstd => request = request.header(header::CONTENT_ENCODING, "zstd"),
        }
        let mut response = match timeout_at(deadline, request.body(body).send()).await {
            Ok(Ok(response)) => response,
            // The address can contain a password.
            Ok(Err(error)) => return Err(Answer::unreachable(causes(&error.without_url()))),
            Err(_) => return Err(Answer::timed_out(self.receiver.timeout)),
        };
        let mut body = Vec::new();
        // The status matters most. If the body is truncated, late or endless, only its text and the number of rejected
        // items are lost.
        while body.len() < ANSWER_BYTES
            && let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await
        {
            body.extend_from_slice(chunk.get(..ANSWER_BYTES - body.len()).unwrap_or(&chunk));
        }
        Ok(HttpAnswer {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body,
        })
    }

    /// Returns the meaning of an HTTP answer.
    pub(crate) fn answer_of(&self, answer: &HttpAnswer) -> Answer {
        let json = self.receiver.protocol == Protocol::HttpJson;
        let content_type = answer.header(header::CONTENT_TYPE);
        Answer::from_http(
            self.signal,
            answer.status.as_u16(),
            content_type.map_or(json, |kind| kind.starts_with("application/json")),
            answer.header(header::RETRY_AFTER),
            &answer.body,
            SystemTime::now(),
        )
    }

    /// Converts a request to JSON. The conversion first decodes the request. This cost is acceptable, because JSON is
    /// only for receivers that accept no other encoding.
    fn to_json(&self, encoded: &[u8]) -> Result<Vec<u8>, io::Error> {
        let mut json = match self.signal {
            Signal::Traces => serde_json::to_value(ExportTraceServiceRequest::decode(encoded)?),
            Signal::Metrics => serde_json::to_value(ExportMetricsServiceRequest::decode(encoded)?),
            Signal::Logs => serde_json::to_value(ExportLogsServiceRequest::decode(encoded)?),
        }?;
        leave_out_nulls(&mut json);
        Ok(serde_json::to_vec(&json)?)
    }
}

/// Compresses the body of an HTTP request.
pub(crate) fn compress(plain: Vec<u8>, compression: Compression) -> Result<Vec<u8>, io::Error> {
    match compression {
        Compression::None => Ok(plain),
        Compression::Gzip => {
            let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            compressed.write_all(&plain)?;
            compressed.finish()
        }
        Compression::Zstd => zstd::bulk::compress(&plain, zstd::DEFAULT_COMPRESSION_LEVEL),
    }
}

/// Removes absent fields. Some receivers do not accept `null` for them (the Collector refuses `"min": null`).
pub(crate) fn leave_out_nulls(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(leave_out_nulls);
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(leave_out_nulls),
        _ => {}
    }
}

/// A codec that writes a batch directly into the buffer of the connection, and reads the answer.
#[derive(Debug, Clone, Copy)]
struct BatchCodec;

impl Codec for BatchCodec {
    type Encode = Arc<Batch>;
    type Decode = ExportResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for BatchCodec {
    type Item = Arc<Batch>;
    type Error = Status;

    fn encode(&mut self, batch: Arc<Batch>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.reserve(batch.len());
        batch.encode(out);
        Ok(())
    }
}

impl Decoder for BatchCodec {
    type Item = ExportResponse;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<ExportResponse>, Status> {
        // The status matters most. If the answer is not readable, only its text and the number of rejected items are
        // lost.
        Ok(Some(ExportResponse::decode(from).unwrap_or_default()))
    }
}
