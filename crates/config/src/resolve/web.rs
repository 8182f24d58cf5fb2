//! Who may see what of the listener.

use super::Resolver;
use crate::document::{Document, WebTls};
use delivery::otlp::settings::Secret;
use strict_yaml::path::KeyPath;
use web::options::{TlsFiles, WebOptions};

/// Shorter tokens can be guessed.
const SHORTEST_TOKEN: usize = 16;
/// Shorter passwords can be guessed.
const SHORTEST_PASSWORD: usize = 12;

/// What may stand in `web.grafana_url`; the first one has to.
pub(super) const GRAFANA_PLACES: [&str; 5] = ["{service}", "{namespace}", "{pod}", "{from}", "{to}"];

/// Why a pattern of links cannot be used; `None`: it can.
pub(super) fn unusable(pattern: &str, places: &[&str], example: &str) -> Option<String> {
    let is_web = pattern.starts_with("http://") || pattern.starts_with("https://");
    let first = places.first().copied().unwrap_or_default();
    let rest = places
        .iter()
        .fold(pattern.to_owned(), |rest, place| rest.replace(place, ""));
    if !is_web || !pattern.contains(first) || pattern.contains(char::is_control) {
        return Some(format!(
            "must be a URL of http or https with `{first}`, such as {example}"
        ));
    }
    let is_known = !rest.contains(['{', '}']);
    (!is_known).then(|| format!("only {} can be in the URL in braces", places.join(", ")))
}

impl Resolver<'_> {
    /// The options of the listener.
    pub(crate) fn web(&mut self, document: &Document) -> WebOptions {
        let web = &document.web;
        let path = KeyPath::of("web");
        let token = web.token_from.as_ref();
        let token = token.and_then(|source| self.login(source, path.key("token_from"), SHORTEST_TOKEN));
        let mut users = Vec::new();
        for (name, source) in &web.users_from {
            let path = path.key("users_from").key(name);
            if name.is_empty() || name.contains(':') || name.chars().any(char::is_control) {
                self.error(
                    path,
                    "a name must not be empty, and must not contain a colon or a control character",
                );
                continue;
            }
            users.extend(
                self.login(source, path, SHORTEST_PASSWORD)
                    .map(|password| (name.clone(), password)),
            );
        }
        let tls = self.tls_files(&web.tls, path.key("tls"));
        let has_logins = token.is_some() || !users.is_empty();
        let is_local = document.listen.0.is_none_or(|address| address.ip().is_loopback());
        if has_logins && tls.is_none() && !is_local && web.tls == Default::default() {
            let message =
                "token and passwords would be sent in clear text: set `web.tls`, or listen on a loopback address";
            let key = if web.token_from.is_some() {
                "token_from"
            } else {
                "users_from"
            };
            self.error(path.key(key), message);
        }
        let is_nobody = web.token_from.is_none() && web.users_from.is_empty();
        if is_nobody && web.protects == web::options::Protects::All {
            self.error(
                path.key("protects"),
                "requires `token_from` or `users_from`: nobody could log in",
            );
        }
        WebOptions {
            hosts: web.hosts.clone(),
            token,
            users,
            trace_url: self.pattern(
                web.trace_url.as_deref(),
                &["{trace_id}"],
                "https://jaeger.example.org/trace/{trace_id}",
                path.key("trace_url"),
            ),
            grafana_url: self.grafana_url(document),
            protects: web.protects,
            mcp: web.mcp,
            tls,
        }
    }

    /// The pattern of links to a service's figures.
    fn grafana_url(&mut self, document: &Document) -> Option<String> {
        self.pattern(
            document.web.grafana_url.as_deref(),
            &GRAFANA_PLACES,
            "https://grafana.example.org/d/gcwatch-service?var-service={service}&from={from}&to={to}",
            KeyPath::of("web").key("grafana_url"),
        )
    }

    /// The pattern of links: a URL with the first of the places, and none but those.
    fn pattern(&mut self, pattern: Option<&str>, places: &[&str], example: &str, path: KeyPath) -> Option<String> {
        let pattern = pattern?;
        let message = unusable(pattern, places, example);
        match message {
            None => Some(pattern.to_owned()),
            Some(message) => {
                self.error(path, message);
                None
            }
        }
    }

    /// Both files of a certificate, or none.
    pub(super) fn tls_files(&mut self, tls: &WebTls, path: KeyPath) -> Option<TlsFiles> {
        match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => Some(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            (None, None) => None,
            (certificate, _) => {
                let missing = if certificate.is_some() { "key" } else { "certificate" };
                self.error(path, format!("requires `{missing}` as well"));
                None
            }
        }
    }

    fn login(&mut self, source: &crate::document::SecretSource, path: KeyPath, shortest: usize) -> Option<Secret> {
        let secret = self.secret_at(source, path.clone())?;
        if secret.reveal().chars().count() < shortest {
            self.error(
                path,
                format!("the value (not shown) has less than {shortest} characters"),
            );
            return None;
        }
        Some(secret)
    }
}
