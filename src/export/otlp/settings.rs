//! Where and how the signals are sent.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::export::otlp::words;

/// The three forms that OTLP has on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Protobuf over gRPC, usually port 4317.
    Grpc,
    /// Protobuf over HTTP, usually port 4318.
    HttpProtobuf,
    /// JSON over HTTP, usually port 4318.
    HttpJson,
}

/// How a request's body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, which every receiver knows.
    Gzip,
    /// zstd.
    Zstd,
}

/// A text that is never shown: the value of a header.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` from being shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// One signal's receiver.
#[derive(Clone, PartialEq, Eq)]
pub struct Receiver {
    /// The URL: for gRPC scheme, host and port; for HTTP the whole address with its path (`…/v1/traces`).
    pub endpoint: String,
    /// Which form.
    pub protocol: Protocol,
    /// Sent with every request; names in lower case.
    pub headers: Vec<(String, Secret)>,
    /// Bound on one attempt.
    pub timeout: Duration,
    /// How bodies are packed.
    pub compression: Compression,
    /// PEM file of the authorities trusted instead of the system's.
    pub certificate: Option<PathBuf>,
    /// PEM file of the client's own certificate chain (mTLS).
    pub client_certificate: Option<PathBuf>,
    /// PEM file of its private key.
    pub client_key: Option<PathBuf>,
}

impl Receiver {
    /// Its address as it may be shown: without user, password and query.
    pub fn shown(&self) -> String {
        words::endpoint(&self.endpoint)
    }
}

impl fmt::Debug for Receiver {
    /// Only the address as it may be shown: a URL can hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("endpoint", &self.shown())
            .field("protocol", &self.protocol)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Bounds on what waits and on what is sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Spans, log records, or (for metrics) processes' sets of points that wait per signal; the oldest goes first when full.
    pub queue_items: usize,
    /// Their encoded bytes per signal.
    pub queue_bytes: usize,
    /// Spans, log records or processes' sets of points in one request.
    pub batch_items: usize,
    /// Encoded bytes of one request before compression (receivers refuse more than 4 MiB by default).
    pub batch_bytes: usize,
    /// How long an item waits for company, as long as less than 256 KiB wait.
    pub batch_delay: Duration,
    /// How long one batch is tried again before it is dropped.
    pub retry_for: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_items: 65_536,
            queue_bytes: 16 << 20,
            batch_items: 8192,
            batch_bytes: 3 << 20,
            batch_delay: Duration::from_millis(200),
            retry_for: Duration::from_secs(300),
        }
    }
}

/// Where each signal goes; `None`: it is not exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Spans.
    pub traces: Option<Receiver>,
    /// Metrics.
    pub metrics: Option<Receiver>,
    /// Log records.
    pub logs: Option<Receiver>,
    /// Bounds, the same for each signal.
    pub limits: Limits,
}
