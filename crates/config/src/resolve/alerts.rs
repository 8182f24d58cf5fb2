//! Receivers of notifications.

use std::path::PathBuf;
use std::time::Duration;

use super::Resolver;
use super::headers::headers;
use super::receivers::client;
use super::web::{GRAFANA_PLACES, unusable};
use crate::document::{Alertmanager, Document, Webhook};
use crate::values::{LinkUrl, WebUrl};
use base::secret::Secret;
use delivery::alerts::settings::{self, AlertSettings, Links};
use delivery::otlp::settings::{Protocol, Receiver};
use strict_yaml::path::KeyPath;

/// The path of Alertmanager's API for alerts.
const API: &str = "/api/v2/alerts";

/// Returns the receivers of notifications.
pub(crate) fn alerts(resolver: &mut Resolver<'_>, document: &Document) -> AlertSettings {
    let alerts = &document.alerts;
    let place = |list: &str, index: usize| KeyPath::from_dotted("alerts").key(list).index(index);
    let alertmanagers = alerts.alertmanagers.iter().enumerate();
    let alertmanagers = alertmanagers
        .filter_map(|(index, keys)| alertmanager(resolver, keys, &place("alertmanagers", index)))
        .collect();
    let webhooks = alerts.webhooks.iter().enumerate();
    let webhooks = webhooks
        .filter_map(|(index, keys)| webhook(resolver, keys, &place("webhooks", index)))
        .collect();
    let external_url = alerts.external_url.as_ref();
    // An invalid pattern is reported where the options of the page are resolved.
    let is_usable = |pattern: &String| unusable(pattern, &GRAFANA_PLACES, "").is_none();
    AlertSettings {
        alertmanagers,
        webhooks,
        stdout: alerts.stdout,
        log: alerts.log,
        resend_interval: alerts.resend_interval.0,
        links: Links {
            external_url: external_url.and_then(|url| here(resolver, url)),
            grafana_url: document.web.grafana_url.clone().filter(is_usable),
            // The daemon sets the address after it has opened the store.
            store: None,
        },
    }
}

/// Returns the name of the Kubernetes node (`NODE_NAME`), or the name of the host if this variable is unset.
pub(super) fn node(resolver: &Resolver<'_>) -> String {
    let variable = resolver.environment.get("NODE_NAME").filter(|name| !name.is_empty());
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    variable.cloned().unwrap_or_else(host).trim().to_owned()
}

/// Returns the URL of this instance, with the names of its node, host or pod. Returns `None` if such a name is unknown,
/// which is reported.
fn here(resolver: &mut Resolver<'_>, url: &LinkUrl) -> Option<String> {
    let environment = resolver.environment;
    let variable = |name: &str| environment.get(name).cloned().filter(|text| !text.is_empty());
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let of = |place: &str| {
        let text = match place {
            "{node}" => variable("NODE_NAME").or_else(host),
            "{pod}" => variable("POD_NAME").or_else(|| variable("HOSTNAME")).or_else(host),
            _ => host(),
        };
        // The value becomes a part of a URL.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        text.map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty() && text.chars().all(is_plain))
    };
    match url.at(of) {
        Ok(url) => Some(url),
        Err(place) => {
            let message = format!("`{place}` is unknown; set NODE_NAME or POD_NAME");
            resolver.refused(KeyPath::from_dotted("alerts").key("external_url"), message)
        }
    }
}

fn alertmanager(resolver: &mut Resolver<'_>, keys: &Alertmanager, path: &KeyPath) -> Option<settings::Alertmanager> {
    let headers = headers(resolver, path, &keys.headers, &keys.headers_from);
    let client = client(resolver, path, &keys.client_certificate, &keys.client_key);
    let Some(url) = &keys.url else {
        // An invalid URL is already reported.
        resolver.error_with(path.clone(), vec![path.key("url")], "requires `url`");
        return None;
    };
    let base = url.as_str().trim_end_matches('/');
    if base.ends_with(API) {
        return resolver.refused(path.key("url"), format!("`{API}` is appended; remove it from the URL"));
    }
    Some(settings::Alertmanager {
        receiver: receiver(
            format!("{base}{API}"),
            headers,
            keys.timeout.0,
            &keys.certificate,
            client,
        ),
        min_severity: keys.min_severity,
    })
}

fn webhook(resolver: &mut Resolver<'_>, keys: &Webhook, path: &KeyPath) -> Option<settings::Webhook> {
    let headers = headers(resolver, path, &keys.headers, &keys.headers_from);
    let client = client(resolver, path, &keys.client_certificate, &keys.client_key);
    let secret = match &keys.secret_from {
        Some(source) => Some(resolver.secret_at(source, path.key("secret_from"))?),
        None => None,
    };
    let (url, at) = match (&keys.url, &keys.url_from) {
        (Some(url), None) => (url.0.clone(), path.key("url")),
        (None, Some(source)) => {
            let at = path.key("url_from");
            (resolver.secret_at(source, at.clone())?, at)
        }
        (None, None) => return resolver.refused(path.clone(), "requires `url` or `url_from`"),
        (Some(_), Some(_)) => {
            return resolver.refused(path.clone(), "only one of `url` and `url_from` can be set");
        }
    };
    if let Err(message) = WebUrl::check(url.reveal()) {
        return resolver.refused(at, message);
    }
    let url = url.reveal().to_owned();
    Some(settings::Webhook {
        receiver: receiver(url, headers, keys.timeout.0, &keys.certificate, client),
        secret,
        min_severity: keys.min_severity,
    })
}

fn receiver(
    endpoint: String,
    headers: Vec<(String, Secret)>,
    timeout: Duration,
    certificate: &Option<PathBuf>,
    [client_certificate, client_key]: [Option<PathBuf>; 2],
) -> Receiver {
    Receiver {
        headers,
        certificate: certificate.clone(),
        client_certificate,
        client_key,
        ..Receiver::new(endpoint, Protocol::HttpJson, timeout)
    }
}
