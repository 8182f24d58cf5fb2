//! The receiver of each signal.

use super::Resolver;
use crate::document::{Document, Limits, Otlp, SignalKeys, Switch};
use crate::problem::Origin;
use crate::values::Endpoint;
use delivery::otlp::settings::{DiskQueue, OtlpSettings, Protocol, Receiver, Secret};
use delivery::otlp::signal::Signal;
use gc_telemetry::options::Temporality;
use strict_yaml::path::KeyPath;
use strict_yaml::quote::quoted;

const UNUSED_TLS: &str = "has no effect: the scheme of the endpoint is http, not https";

fn is_https(endpoint: &str) -> bool {
    endpoint.starts_with("https://")
}

/// The keys that all signals have in common.
struct Common {
    headers: Vec<(String, Secret)>,
    client: bool,
}

fn default_endpoint(protocol: Protocol) -> Endpoint {
    Endpoint::new(match protocol {
        Protocol::Grpc => "http://localhost:4317",
        Protocol::HttpProtobuf | Protocol::HttpJson => "http://localhost:4318",
    })
}

impl Resolver<'_> {
    /// The receiver of each signal.
    pub(crate) fn otlp(&mut self, document: &Document) -> OtlpSettings {
        let otlp = &document.otlp;
        if !otlp.enabled {
            let path = KeyPath::of("otlp.enabled");
            self.warning(path, "nothing is exported over OTLP");
        }
        self.limits(&otlp.limits);
        let common = Common {
            headers: self.headers(&KeyPath::of("otlp"), &otlp.headers, &otlp.headers_from),
            client: self.client(
                &KeyPath::of("otlp"),
                otlp.client_certificate.is_some(),
                otlp.client_key.is_some(),
            ),
        };
        let [traces, metrics, logs, profiles] = Signal::ALL.map(|signal| {
            let keys = match signal {
                Signal::Traces => &otlp.traces,
                Signal::Metrics => &otlp.metrics,
                Signal::Logs => &otlp.logs,
                Signal::Profiles => &otlp.profiles,
            };
            self.receiver(otlp, keys, signal, &common)
        });
        let evidence = &document.evidence;
        let profiles = profiles.filter(|_| evidence.profiles == Switch::On);
        if evidence.profiles == Switch::On && evidence.bursts == Switch::Off {
            let path = KeyPath::of("evidence.profiles");
            self.warning(path, "has no effect without `evidence.bursts: on`");
        }
        let settings = OtlpSettings {
            traces,
            metrics,
            logs,
            profiles,
            delta_metrics: document.metrics.temporality == Temporality::Delta,
            limits: (&otlp.limits).into(),
            disk: document.state.directory.as_ref().map(|directory| DiskQueue {
                directory: directory.join("queue"),
                max_bytes: otlp.queue.max_bytes.0,
                max_age: otlp.queue.max_age.0,
            }),
        };
        let retry_for = KeyPath::of("otlp.limits.retry_for");
        if settings.disk.is_some() && *self.origins.of(&retry_for) != Origin::Default {
            self.warning(
                retry_for,
                "has no effect with `state.directory`: see `otlp.queue.max_age`",
            );
        }
        let sent = [&settings.traces, &settings.metrics, &settings.logs, &settings.profiles];
        let sent: Vec<bool> = sent.into_iter().flatten().map(|to| is_https(&to.endpoint)).collect();
        // Common certificates are used if one signal goes to https.
        if !sent.is_empty() && !sent.contains(&true) {
            let keys = [
                ("otlp.certificate", otlp.certificate.is_some()),
                ("otlp.client_certificate", common.client),
            ];
            for (key, _) in keys.into_iter().filter(|(_, set)| *set) {
                self.warning(KeyPath::of(key), UNUSED_TLS);
            }
        }
        settings
    }

    fn limits(&mut self, limits: &Limits) {
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
            let [batch, queue] = keys.map(KeyPath::of);
            // The default of a batch is no error if the queue is set to less: a batch is never larger than the queue.
            if conflict && *self.origins.of(&batch) != Origin::Default {
                // Reported at the one that was set; if both were, at the later one.
                let later = self.origins.of(&queue) > self.origins.of(&batch);
                let at = if later { queue.clone() } else { batch.clone() };
                self.error_with(at, vec![batch, queue], message);
            }
        }
    }

    fn receiver(&mut self, otlp: &Otlp, signal: &SignalKeys, which: Signal, common: &Common) -> Option<Receiver> {
        let section = format!("otlp.{which}");
        let own_headers = !signal.headers.is_empty() || !signal.headers_from.is_empty();
        let own_client = signal.client_certificate.is_some() || signal.client_key.is_some();
        // Checked even if the signal is off: errors are reported before it is enabled.
        let headers = if own_headers {
            self.headers(&KeyPath::of(&section), &signal.headers, &signal.headers_from)
        } else {
            common.headers.clone()
        };
        let client = if own_client {
            self.client(
                &KeyPath::of(&section),
                signal.client_certificate.is_some(),
                signal.client_key.is_some(),
            )
        } else {
            common.client
        };
        let protocol = signal.protocol.unwrap_or(otlp.protocol);
        let (endpoint, at, whole) = match (&signal.endpoint, &otlp.endpoint) {
            (Some(own), _) => (own.clone(), format!("{section}.endpoint"), true),
            (None, Some(common)) => (common.clone(), "otlp.endpoint".to_owned(), false),
            (None, None) => (default_endpoint(protocol), "otlp.endpoint".to_owned(), false),
        };
        let insecure = signal.insecure.or(otlp.insecure);
        let endpoint = self.address(
            &endpoint,
            &KeyPath::of(&at),
            protocol,
            insecure,
            (!whole).then_some(which.http_path()),
        )?;
        let keys = [
            ("certificate", signal.certificate.is_some()),
            ("client_certificate", own_client),
        ];
        for (key, own) in keys {
            if own && !is_https(&endpoint) {
                self.warning(KeyPath::of(&format!("{section}.{key}")), UNUSED_TLS);
            }
        }
        let (client_certificate, client_key) = if own_client {
            (&signal.client_certificate, &signal.client_key)
        } else {
            (&otlp.client_certificate, &otlp.client_key)
        };
        let receiver = Receiver {
            endpoint,
            protocol,
            headers,
            timeout: signal.timeout.unwrap_or(otlp.timeout).0,
            compression: signal.compression.unwrap_or(otlp.compression),
            certificate: signal.certificate.clone().or_else(|| otlp.certificate.clone()),
            client_certificate: client_certificate.clone().filter(|_| client),
            client_key: client_key.clone().filter(|_| client),
        };
        (otlp.enabled && signal.enabled).then_some(receiver)
    }

    /// Whether there is a client certificate with its key; one without the other is an error.
    pub(super) fn client(&mut self, section: &KeyPath, certificate: bool, key: bool) -> bool {
        let path = |key: &str| section.key(key);
        let (first, second) = (path("client_certificate"), path("client_key"));
        match (certificate, key) {
            (true, false) => self.error_with(first, vec![second], "requires `client_key`"),
            (false, true) => self.error_with(second, vec![first], "requires `client_certificate`"),
            _ => {}
        }
        certificate && key
    }

    /// The URL that requests go to. `appended`: the signal's path over HTTP, for an endpoint that is common to all.
    fn address(
        &mut self,
        endpoint: &Endpoint,
        path: &KeyPath,
        protocol: Protocol,
        insecure: Option<bool>,
        appended: Option<&str>,
    ) -> Option<String> {
        let text = endpoint.as_str();
        let grpc = protocol == Protocol::Grpc;
        let whole = if endpoint.has_scheme() {
            text.to_owned()
        } else {
            match insecure {
                Some(true) if grpc => format!("http://{text}"),
                Some(false) if grpc => format!("https://{text}"),
                // The specification: without a scheme and without `insecure`, gRPC uses https.
                None if grpc && matches!(self.origins.of(path), Origin::Environment(_)) => {
                    self.warning(
                        path.clone(),
                        format!(
                            "{} has no scheme: https is used; write http:// or https://",
                            quoted(text)
                        ),
                    );
                    format!("https://{text}")
                }
                _ => {
                    self.error(
                        path.clone(),
                        format!("{} has no scheme; write http:// or https:// before it", quoted(text)),
                    );
                    return None;
                }
            }
        };
        let url = match reqwest::Url::parse(&whole) {
            Ok(url) => url,
            Err(error) => {
                self.error(
                    path.clone(),
                    format!("this is not a URL ({error}); write it as http://collector:4317"),
                );
                return None;
            }
        };
        if grpc {
            if url.path() != "/" {
                let unused = quoted(url.path());
                self.warning(
                    path.clone(),
                    format!("gRPC uses only scheme, host and port: {unused} is ignored"),
                );
            }
            if url.port() == Some(4318) {
                let message = "port 4318 is usually for OTLP over HTTP; for that, set `protocol: http/protobuf`";
                self.warning(path.clone(), message);
            }
            return Some(url.origin().ascii_serialization());
        }
        if url.port() == Some(4317) {
            self.warning(
                path.clone(),
                "port 4317 is usually for OTLP over gRPC; for that, set `protocol: grpc`",
            );
        }
        let Some(appended) = appended else {
            if url.path() == "/" {
                let message = "the endpoint of one signal is used as it is, and this one has no path (usually `/v1/traces` and so on)";
                self.warning(path.clone(), message);
            }
            return Some(url.to_string());
        };
        let base = url.as_str().trim_end_matches('/');
        if Signal::ALL.iter().any(|signal| base.ends_with(signal.http_path())) {
            let message = "`/v1/traces` and so on are appended to the common endpoint; remove the path, or set the endpoint of one \
                           signal";
            self.error(path.clone(), message);
            return None;
        }
        Some(format!("{base}{appended}"))
    }
}
