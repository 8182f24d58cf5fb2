//! The keys of `otlp`.

use super::{BTreeMap, Deserialize, Duration, Hidden, JsonSchema, PathBuf, Serialize};
use crate::config::values::Endpoint;
use delivery::otlp::settings::{self, Compression, Protocol};
use strict_yaml::units::{ByteSize, HumanDuration};

/// Where spans, metrics and log records are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Otlp {
    /// Nothing is sent over OTLP when false; `/metrics` is served all the same.
    pub(crate) enabled: bool,
    /// The receiver: scheme, host and port. With HTTP `/v1/traces`, `/v1/metrics` and `/v1/logs` are appended.
    #[schemars(extend("x-default" = "http://localhost:4317, with HTTP http://localhost:4318"))]
    pub(crate) endpoint: Option<Endpoint>,
    /// The form of OTLP on the wire.
    pub(crate) protocol: Protocol,
    /// Sent with every request: names and values. Values are never shown.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers: BTreeMap<String, Hidden>,
    /// Headers whose value is in a file (a Kubernetes secret, mounted) or in a variable of the environment:
    /// `authorization: {file: /run/secrets/token}`.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers_from: BTreeMap<String, SecretSource>,
    /// Bound on one attempt to send.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub(crate) timeout: HumanDuration,
    /// How requests are packed.
    pub(crate) compression: Compression,
    /// PEM file of the authorities that are trusted instead of the system's.
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of gcwatch's own certificate chain (mTLS); needs `client_key`.
    pub(crate) client_certificate: Option<PathBuf>,
    /// PEM file of its private key; needs `client_certificate`.
    pub(crate) client_key: Option<PathBuf>,
    /// For a gRPC endpoint without a scheme: true is http, false is https.
    pub(crate) insecure: Option<bool>,
    /// Spans: what differs from the common keys.
    pub(crate) traces: Signal,
    /// Metrics: what differs from the common keys.
    pub(crate) metrics: Signal,
    /// Log records: what differs from the common keys.
    pub(crate) logs: Signal,
    /// Bounds on what waits and on what is sent at once; the same for each signal.
    pub(crate) limits: Limits,
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
            traces: Signal::default(),
            metrics: Signal::default(),
            logs: Signal::default(),
            limits: Limits::default(),
        }
    }
}

/// What differs from the common keys for one signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Signal {
    /// The signal is not sent when false.
    pub(crate) enabled: bool,
    /// The receiver; with HTTP the whole URL, taken as it is.
    pub(crate) endpoint: Option<Endpoint>,
    /// The form of OTLP on the wire.
    pub(crate) protocol: Option<Protocol>,
    /// Sent with every request, instead of all common headers.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers: BTreeMap<String, Hidden>,
    /// Headers whose value is elsewhere, instead of all common headers.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers_from: BTreeMap<String, SecretSource>,
    /// Bound on one attempt to send.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub(crate) timeout: Option<HumanDuration>,
    /// How requests are packed.
    pub(crate) compression: Option<Compression>,
    /// PEM file of the authorities that are trusted instead of the system's.
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of gcwatch's own certificate chain.
    pub(crate) client_certificate: Option<PathBuf>,
    /// PEM file of its private key.
    pub(crate) client_key: Option<PathBuf>,
    /// For a gRPC endpoint without a scheme: true is http, false is https.
    pub(crate) insecure: Option<bool>,
}

impl Default for Signal {
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

/// Where a header's value is; one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct SecretSource {
    /// The file's text, white space at its end taken away. It is read again at every reload.
    pub(crate) file: Option<PathBuf>,
    /// The name of a variable of gcwatch's environment.
    pub(crate) env: Option<String>,
}

/// Bounds on what waits and on what is sent at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// Items (spans, log records, or metrics of one process) that wait per signal; the oldest is dropped, and counted,
    /// when there are more.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(crate) queue_items: u32,
    /// Their encoded bytes per signal.
    #[schemars(extend("x-minimum" = "64KiB", "x-maximum" = "4GiB"))]
    pub(crate) queue_bytes: ByteSize,
    /// Items in one request.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) batch_items: u32,
    /// Encoded bytes of one request, before it is packed. Most receivers refuse more than 4MiB.
    #[schemars(extend("x-minimum" = "16KiB", "x-maximum" = "64MiB"))]
    pub(crate) batch_bytes: ByteSize,
    /// How long an item waits for company, as long as less than 256 KiB wait.
    #[schemars(extend("x-maximum" = "1m"))]
    pub(crate) batch_delay: HumanDuration,
    /// How long a request that fails is tried again before it is dropped, and counted.
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
