//! The keys of `otlp`.

use super::{BTreeMap, Deserialize, Duration, HiddenString, JsonSchema, PathBuf, Serialize};
use crate::values::Endpoint;
use base::units::{ByteSize, HumanDuration};
use delivery::otlp::settings::{self, Compression, Protocol};

/// Replacement for the removed keys for profiles, as stated in the error message.
pub(crate) const PROFILES_REMOVED: &str = "delete it; gcwatch sends no profiles over OTLP, and `gcwatch allocations PID \
                                           --format pprof -o FILE` writes a pprof file";

/// Receivers of spans, metrics and log records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-removed" = {"profiles": PROFILES_REMOVED}))]
pub(crate) struct Otlp {
    /// Whether telemetry is sent over OTLP. `/metrics` is always served.
    pub(crate) enabled: bool,
    /// Receiver: scheme, host and port. With HTTP, `/v1/traces`, `/v1/metrics` and `/v1/logs` are appended.
    #[schemars(extend("x-default" = "http://localhost:4317, with HTTP http://localhost:4318"))]
    pub(crate) endpoint: Option<Endpoint>,
    /// OTLP protocol.
    pub(crate) protocol: Protocol,
    /// Headers of every request: names and values. Values are never shown.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers: BTreeMap<String, HiddenString>,
    /// Headers with a value from a file (such as a mounted Kubernetes secret) or an environment variable:
    /// `authorization: {file: /run/secrets/token}`.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers_from: BTreeMap<String, SecretSource>,
    /// Timeout of a request.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub(crate) timeout: HumanDuration,
    /// Compression of requests.
    pub(crate) compression: Compression,
    /// PEM file of trusted certificate authorities, instead of the authorities of the system.
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of gcwatch's own certificate chain (mTLS); requires `client_key`.
    pub(crate) client_certificate: Option<PathBuf>,
    /// PEM file of the private key; requires `client_certificate`.
    pub(crate) client_key: Option<PathBuf>,
    /// Whether a gRPC endpoint without a scheme uses http (true) or https (false).
    pub(crate) insecure: Option<bool>,
    /// Overrides for spans.
    pub(crate) traces: SignalKeys,
    /// Overrides for metrics.
    pub(crate) metrics: SignalKeys,
    /// Overrides for log records.
    pub(crate) logs: SignalKeys,
    /// Limits of queues and requests, which apply to each signal.
    pub(crate) limits: Limits,
    /// Queue on disk for data that receivers do not accept. Requires `state.directory`.
    pub(crate) queue: Queue,
}

impl Default for Otlp {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoint: None,
            protocol: Protocol::Grpc,
            headers: BTreeMap::new(),
            headers_from: BTreeMap::new(),
            timeout: HumanDuration(Duration::from_secs(10)),
            compression: Compression::None,
            certificate: None,
            client_certificate: None,
            client_key: None,
            insecure: None,
            traces: SignalKeys::default(),
            metrics: SignalKeys::default(),
            logs: SignalKeys::default(),
            limits: Limits::default(),
            queue: Queue::default(),
        }
    }
}

/// The queue on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Queue {
    /// Maximum size on disk, compressed, over all signals. The oldest data is dropped first, and counted. The default
    /// is sufficient for at least one hour of data from 200 processes with 10 collections per second each.
    #[schemars(extend("x-minimum" = "1MiB", "x-maximum" = "1TiB"))]
    pub(crate) max_bytes: ByteSize,
    /// Maximum age of data in the queue. Older data is dropped and counted. With a queue on disk, this key replaces
    /// `otlp.limits.retry_for`.
    #[schemars(extend("x-minimum" = "1m", "x-maximum" = "30d"))]
    pub(crate) max_age: HumanDuration,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            max_bytes: ByteSize(3 << 30),
            max_age: HumanDuration(Duration::from_secs(24 * 3600)),
        }
    }
}

/// Overrides for one signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SignalKeys {
    /// Whether the signal is sent.
    pub(crate) enabled: bool,
    /// Receiver of the signal. With HTTP, this is the complete URL, which is used unchanged.
    pub(crate) endpoint: Option<Endpoint>,
    /// OTLP protocol.
    pub(crate) protocol: Option<Protocol>,
    /// Headers of every request, instead of all common headers.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers: BTreeMap<String, HiddenString>,
    /// Headers from files or environment variables, instead of all common headers.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers_from: BTreeMap<String, SecretSource>,
    /// Timeout of a request.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub(crate) timeout: Option<HumanDuration>,
    /// Compression of requests.
    pub(crate) compression: Option<Compression>,
    /// PEM file of trusted certificate authorities, instead of the authorities of the system.
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of gcwatch's own certificate chain (mTLS); requires `client_key`.
    pub(crate) client_certificate: Option<PathBuf>,
    /// PEM file of the private key; requires `client_certificate`.
    pub(crate) client_key: Option<PathBuf>,
    /// Whether a gRPC endpoint without a scheme uses http (true) or https (false).
    pub(crate) insecure: Option<bool>,
}

impl Default for SignalKeys {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoint: None,
            protocol: None,
            headers: BTreeMap::new(),
            headers_from: BTreeMap::new(),
            timeout: None,
            compression: None,
            certificate: None,
            client_certificate: None,
            client_key: None,
            insecure: None,
        }
    }
}

/// The source of a secret; set exactly one of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct SecretSource {
    /// File that contains the secret. White space at the end is removed. The file is read again at every reload.
    pub(crate) file: Option<PathBuf>,
    /// Environment variable of gcwatch that contains the secret.
    pub(crate) env: Option<String>,
}

/// Limits of queues and requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// Maximum number of items (spans, log records, or metrics of one process) in the queue of a signal. The oldest
    /// item is dropped first, and counted.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(crate) queue_items: u32,
    /// Maximum encoded size of the queue of a signal.
    #[schemars(extend("x-minimum" = "64KiB", "x-maximum" = "4GiB"))]
    pub(crate) queue_bytes: ByteSize,
    /// Maximum number of items in a request.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) batch_items: u32,
    /// Maximum encoded size of a request, before compression. Most receivers refuse more than 4MiB.
    #[schemars(extend("x-minimum" = "16KiB", "x-maximum" = "64MiB"))]
    pub(crate) batch_bytes: ByteSize,
    /// Time for which an item waits for a larger batch while the queue has less than 256 KiB.
    #[schemars(extend("x-maximum" = "1m"))]
    pub(crate) batch_delay: HumanDuration,
    /// Time for which a failed request is retried before it is dropped and counted. With `state.directory`,
    /// `otlp.queue.max_age` applies instead.
    #[schemars(extend("x-maximum" = "24h"))]
    pub(crate) retry_for: HumanDuration,
}

impl Default for Limits {
    fn default() -> Self {
        let limits = settings::Limits::default();
        let count = |items: usize| u32::try_from(items).unwrap_or(u32::MAX);
        let bytes = |bytes: usize| ByteSize(u64::try_from(bytes).unwrap_or(u64::MAX));
        Self {
            queue_items: count(limits.queue_items),
            queue_bytes: bytes(limits.queue_bytes),
            batch_items: count(limits.batch_items),
            batch_bytes: bytes(limits.batch_bytes),
            batch_delay: HumanDuration(limits.batch_delay),
            retry_for: HumanDuration(limits.retry_for),
        }
    }
}

impl From<&Limits> for settings::Limits {
    fn from(keys: &Limits) -> Self {
        let count = |items: u32| usize::try_from(items).unwrap_or(usize::MAX);
        let bytes = |bytes: ByteSize| usize::try_from(bytes.0).unwrap_or(usize::MAX);
        Self {
            queue_items: count(keys.queue_items),
            queue_bytes: bytes(keys.queue_bytes),
            batch_items: count(keys.batch_items),
            batch_bytes: bytes(keys.batch_bytes),
            batch_delay: keys.batch_delay.0,
            retry_for: keys.retry_for.0,
        }
    }
}
