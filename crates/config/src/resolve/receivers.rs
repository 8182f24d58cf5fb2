//! Resolves the receiver of each signal.

use std::path::PathBuf;

use super::Resolver;
use super::headers::headers;
use crate::document::{Document, Limits, Otlp, SignalKeys};
use crate::problem::Origin;
use crate::values::Endpoint;
use base::quote::quoted;
use base::secret::Secret;
use delivery::otlp::settings::{DiskQueue, OtlpSettings, Protocol, Receiver};
use delivery::otlp::signal::Signal;
use gc_telemetry::options::Temporality;
use strict_yaml::path::KeyPath;

const UNUSED_TLS: &str = "has no effect: the scheme of the endpoint is http, not https";

fn is_https(endpoint: &str) -> bool {
    endpoint.starts_with("https://")
}

/// The keys that all signals share.
struct CommonKeys {
    headers: Vec<(String, Secret)>,
    client: [Option<PathBuf>; 2],
}

fn default_endpoint(protocol: Protocol) -> Endpoint {
    Endpoint::new(match protocol {
        Protocol::Grpc => "http://localhost:4317",
        Protocol::HttpProtobuf | Protocol::HttpJson => "http://localhost:4318",
    })
}

/// Returns the receiver of each signal.
pub(crate) fn otlp(resolver: &mut Resolver<'_>, document: &Document) -> OtlpSettings {
    let otlp = &document.otlp;
    let section = KeyPath::from_dotted("otlp");
    if !otlp.enabled {
        resolver.warning(section.key("enabled"), "nothing is exported over OTLP");
    }
    limits(resolver, &otlp.limits);
    let common = CommonKeys {
        headers: headers(resolver, &section, &otlp.headers, &otlp.headers_from),
        client: client(resolver, &section, &otlp.client_certificate, &otlp.client_key),
    };
    let [traces, metrics, logs] = Signal::ALL.map(|signal| {
        let keys = match signal {
            Signal::Traces => &otlp.traces,
            Signal::Metrics => &otlp.metrics,
            Signal::Logs => &otlp.logs,
        };
        receiver(resolver, otlp, keys, signal, &common)
    });
    let settings = OtlpSettings {
        traces,
        metrics,
        logs,
        delta_metrics: document.metrics.temporality == Temporality::Delta,
        limits: (&otlp.limits).into(),
        disk: document.state.directory.as_ref().map(|directory| DiskQueue {
            directory: directory.join("queue"),
            max_bytes: otlp.queue.max_bytes.0,
            max_age: otlp.queue.max_age.0,
        }),
    };
    let retry_for = KeyPath::from_dotted("otlp.limits.retry_for");
    if settings.disk.is_some() && resolver.is_set(&retry_for) {
        let message = "has no effect with `state.directory`: see `otlp.queue.max_age`";
        resolver.warning(retry_for, message);
    }
    let sent = [&settings.traces, &settings.metrics, &settings.logs];
    let sent: Vec<bool> = sent.into_iter().flatten().map(|to| is_https(&to.endpoint)).collect();
    // Common certificates have an effect if at least one signal uses https.
    if !sent.is_empty() && !sent.contains(&true) {
        let keys = [
            ("certificate", otlp.certificate.is_some()),
            ("client_certificate", common.client[0].is_some()),
        ];
        for (key, _) in keys.into_iter().filter(|(_, set)| *set) {
            resolver.warning(section.key(key), UNUSED_TLS);
        }
    }
    settings
}

fn limits(resolver: &mut Resolver<'_>, limits: &Limits) {
    let pairs = [
        (
            ["otlp.limits.batch_items", "otlp.limits.queue_items"],
            limits.batch_items > limits.queue_items,
            format!(
                "a batch of {} items is larger than the queue of {}",
                limits.batch_items, limits.queue_items
            ),
        ),
        (
            ["otlp.limits.batch_bytes", "otlp.limits.queue_bytes"],
            limits.batch_bytes > limits.queue_bytes,
            format!(
                "a batch of {} is larger than the queue of {}",
                limits.batch_bytes, limits.queue_bytes
            ),
        ),
    ];
    for (keys, conflict, message) in pairs {
        let [batch, queue] = keys.map(KeyPath::from_dotted);
        // A default batch limit above the configured limit of the queue is not an error: a batch is never larger than
        // the queue.
        if conflict && resolver.is_set(&batch) {
            // The error is reported at the key that was set. If both keys were set, it is reported at the key with the
            // later origin.
            let later = resolver.origins.get(&queue) > resolver.origins.get(&batch);
            let at = if later { queue.clone() } else { batch.clone() };
            resolver.error_with(at, vec![batch, queue], message);
        }
    }
}

fn receiver(
    resolver: &mut Resolver<'_>,
    otlp: &Otlp,
    signal: &SignalKeys,
    which: Signal,
    common: &CommonKeys,
) -> Option<Receiver> {
    let section = KeyPath::from_dotted(&format!("otlp.{which}"));
    let own_headers = !signal.headers.is_empty() || !signal.headers_from.is_empty();
    let own_client = signal.client_certificate.is_some() || signal.client_key.is_some();
    // The headers are checked even if the signal is off, so that errors are reported before the signal is enabled.
    let headers = if own_headers {
        headers(resolver, &section, &signal.headers, &signal.headers_from)
    } else {
        common.headers.clone()
    };
    let [client_certificate, client_key] = if own_client {
        client(resolver, &section, &signal.client_certificate, &signal.client_key)
    } else {
        common.client.clone()
    };
    let protocol = signal.protocol.unwrap_or(otlp.protocol);
    let (endpoint, at, appended) = match (&signal.endpoint, &otlp.endpoint) {
        (Some(own), _) => (own.clone(), section.key("endpoint"), None),
        (None, common) => {
            let endpoint = common.clone().unwrap_or_else(|| default_endpoint(protocol));
            (endpoint, KeyPath::from_dotted("otlp.endpoint"), Some(which.http_path()))
        }
    };
    let insecure = signal.insecure.or(otlp.insecure);
    let endpoint = address(resolver, &endpoint, at, protocol, insecure, appended)?;
    let keys = [
        ("certificate", signal.certificate.is_some()),
        ("client_certificate", own_client),
    ];
    for (key, own) in keys {
        if own && !is_https(&endpoint) {
            resolver.warning(section.key(key), UNUSED_TLS);
        }
    }
    let receiver = Receiver {
        endpoint,
        protocol,
        headers,
        timeout: signal.timeout.unwrap_or(otlp.timeout).0,
        compression: signal.compression.unwrap_or(otlp.compression),
        certificate: signal.certificate.clone().or_else(|| otlp.certificate.clone()),
        client_certificate,
        client_key,
    };
    (otlp.enabled && signal.enabled).then_some(receiver)
}

/// Returns a client certificate and its key, or neither. A certificate without a key, or a key without a certificate,
/// is an error.
pub(super) fn client(
    resolver: &mut Resolver<'_>,
    section: &KeyPath,
    certificate: &Option<PathBuf>,
    key: &Option<PathBuf>,
) -> [Option<PathBuf>; 2] {
    let (first, second) = (section.key("client_certificate"), section.key("client_key"));
    match (certificate, key) {
        (Some(_), Some(_)) => return [certificate.clone(), key.clone()],
        (Some(_), None) => resolver.error_with(first, vec![second], "requires `client_key`"),
        (None, Some(_)) => resolver.error_with(second, vec![first], "requires `client_certificate`"),
        (None, None) => {}
    }
    [None, None]
}

/// Returns the URL of requests, or reports an error and returns `None` if the endpoint is invalid. `appended` is the
/// path of the signal over HTTP, which is appended to an endpoint that all signals share; `None` for the endpoint of
/// one signal.
fn address(
    resolver: &mut Resolver<'_>,
    endpoint: &Endpoint,
    path: KeyPath,
    protocol: Protocol,
    insecure: Option<bool>,
    appended: Option<&str>,
) -> Option<String> {
    let text = endpoint.as_str();
    let grpc = protocol == Protocol::Grpc;
    let whole = match insecure {
        _ if endpoint.has_scheme() => text.to_owned(),
        Some(true) if grpc => format!("http://{text}"),
        Some(false) if grpc => format!("https://{text}"),
        // According to the specification, gRPC uses https without a scheme and without `insecure`.
        None if grpc && matches!(resolver.origins.get(&path), Origin::Environment(_)) => {
            let message = "has no scheme: https is used; write http:// or https://";
            resolver.warning(path.clone(), format!("{} {message}", quoted(text)));
            format!("https://{text}")
        }
        _ => {
            let message = "has no scheme; write http:// or https:// before it";
            return resolver.refused(path, format!("{} {message}", quoted(text)));
        }
    };
    let url = match reqwest::Url::parse(&whole) {
        Ok(url) => url,
        Err(error) => {
            let message = format!("this is not a URL ({error}); write it as http://collector:4317");
            return resolver.refused(path, message);
        }
    };
    if grpc {
        if url.path() != "/" {
            let unused = quoted(url.path());
            let message = format!("gRPC uses only scheme, host and port: {unused} is ignored");
            resolver.warning(path.clone(), message);
        }
        if url.port() == Some(4318) {
            let message = "port 4318 is usually for OTLP over HTTP; for that, set `protocol: http/protobuf`";
            resolver.warning(path, message);
        }
        return Some(url.origin().ascii_serialization());
    }
    if url.port() == Some(4317) {
        let message = "port 4317 is usually for OTLP over gRPC; for that, set `protocol: grpc`";
        resolver.warning(path.clone(), message);
    }
    let Some(appended) = appended else {
        if url.path() == "/" {
            let message = "the endpoint of one signal is used unchanged, and this endpoint has no path (usually `/v1/traces` and so on)";
            resolver.warning(path, message);
        }
        return Some(url.to_string());
    };
    let base = url.as_str().trim_end_matches('/');
    if Signal::ALL.iter().any(|signal| base.ends_with(signal.http_path())) {
        let message = "`/v1/traces` and so on are appended to the common endpoint; remove the path, or set the endpoint of one \
                       signal";
        return resolver.refused(path, message);
    }
    Some(format!("{base}{appended}"))
}
