//! Receivers of notifications.

use std::path::PathBuf;

use super::Resolver;
use super::web::{GRAFANA_PLACES, unusable};
use crate::document::{Alertmanager, Alerts, Document, SecretSource, Webhook};
use crate::values::{LinkUrl, WebUrl};
use delivery::alerts::settings::{self, AlertSettings, Links};
use delivery::otlp::settings::{Protocol, Receiver, Secret};
use strict_yaml::path::KeyPath;

/// The path of Alertmanager's API for alerts.
const API: &str = "/api/v2/alerts";

impl Resolver<'_> {
    /// Receivers of notifications.
    pub(crate) fn alerts(&mut self, document: &Document) -> AlertSettings {
        let alerts: &Alerts = &document.alerts;
        let place = |list: &str, index: usize| KeyPath::of("alerts").key(list).index(index);
        let alertmanagers = alerts.alertmanagers.iter().enumerate();
        let alertmanagers = alertmanagers
            .filter_map(|(index, keys)| self.alertmanager(keys, &place("alertmanagers", index)))
            .collect();
        let webhooks = alerts.webhooks.iter().enumerate();
        let webhooks = webhooks
            .filter_map(|(index, keys)| self.webhook(keys, &place("webhooks", index)))
            .collect();
        AlertSettings {
            alertmanagers,
            webhooks,
            stdout: alerts.stdout,
            log: alerts.log,
            resend_interval: alerts.resend_interval.0,
            links: Links {
                external_url: alerts.external_url.as_ref().and_then(|url| self.external_url(url)),
                // One that cannot be used is reported where the page's options are resolved.
                grafana_url: document
                    .web
                    .grafana_url
                    .clone()
                    .filter(|pattern| unusable(pattern, &GRAFANA_PLACES, "").is_none()),
            },
        }
    }

    /// The URL of this gcwatch, with the place where it runs.
    fn external_url(&mut self, url: &LinkUrl) -> Option<String> {
        let environment = self.environment;
        let variable = |name: &str| environment.get(name).cloned().filter(|text| !text.is_empty());
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let of = |place: &str| {
            let text = match place {
                "{node}" => variable("NODE_NAME").or_else(host),
                "{pod}" => variable("POD_NAME").or_else(|| variable("HOSTNAME")).or_else(host),
                _ => host(),
            };
            // It becomes a part of a URL.
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            text.map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty() && text.chars().all(is_plain))
        };
        match url.at(of) {
            Ok(url) => Some(url),
            Err(place) => {
                let path = KeyPath::of("alerts").key("external_url");
                self.error(
                    path,
                    format!("it is unknown what `{place}` is here; set NODE_NAME or POD_NAME"),
                );
                None
            }
        }
    }

    fn alertmanager(&mut self, keys: &Alertmanager, path: &KeyPath) -> Option<settings::Alertmanager> {
        let headers = self.headers(path, &keys.headers, &keys.headers_from);
        let client = self.client(path, keys.client_certificate.is_some(), keys.client_key.is_some());
        let Some(url) = &keys.url else {
            // An invalid URL is reported already.
            self.error_with(path.clone(), vec![path.key("url")], "requires `url`");
            return None;
        };
        let base = url.as_str().trim_end_matches('/');
        if base.ends_with(API) {
            self.error(path.key("url"), format!("`{API}` is appended; remove it from the URL"));
            return None;
        }
        let pem = [&keys.certificate, &keys.client_certificate, &keys.client_key];
        Some(settings::Alertmanager {
            receiver: receiver(format!("{base}{API}"), headers, keys.timeout.0, pem, client),
            min_severity: keys.min_severity,
        })
    }

    fn webhook(&mut self, keys: &Webhook, path: &KeyPath) -> Option<settings::Webhook> {
        let headers = self.headers(path, &keys.headers, &keys.headers_from);
        let client = self.client(path, keys.client_certificate.is_some(), keys.client_key.is_some());
        let secret = match &keys.secret_from {
            Some(source) => Some(self.secret_at(source, path.key("secret_from"))?),
            None => None,
        };
        let (url, at) = match (&keys.url, &keys.url_from) {
            (Some(url), None) => (url.0.clone(), path.key("url")),
            (None, Some(source)) => {
                let at = path.key("url_from");
                (self.secret_at(source, at.clone())?, at)
            }
            (None, None) => {
                self.error(path.clone(), "requires `url` or `url_from`");
                return None;
            }
            (Some(_), Some(_)) => {
                self.error(path.clone(), "only one of `url` and `url_from` can be set");
                return None;
            }
        };
        if let Err(message) = WebUrl::check(url.reveal()) {
            self.error(at, message);
            return None;
        }
        let pem = [&keys.certificate, &keys.client_certificate, &keys.client_key];
        Some(settings::Webhook {
            receiver: receiver(url.reveal().to_owned(), headers, keys.timeout.0, pem, client),
            secret,
            min_severity: keys.min_severity,
        })
    }

    pub(super) fn secret_at(&mut self, source: &SecretSource, path: KeyPath) -> Option<Secret> {
        match self.secret(source) {
            Ok(secret) if secret.reveal().is_empty() => {
                self.error(path, "the value is empty");
                None
            }
            Ok(secret) => Some(secret),
            // Where neither or both of its keys are set, that is reported already.
            Err(message) => {
                self.error_with(path.clone(), vec![path], message);
                None
            }
        }
    }
}

fn receiver(
    endpoint: String,
    headers: Vec<(String, Secret)>,
    timeout: std::time::Duration,
    [certificate, client_certificate, client_key]: [&Option<PathBuf>; 3],
    client: bool,
) -> Receiver {
    Receiver {
        headers,
        certificate: certificate.clone(),
        client_certificate: client_certificate.clone().filter(|_| client),
        client_key: client_key.clone().filter(|_| client),
        ..Receiver::new(endpoint, Protocol::HttpJson, timeout)
    }
}
