//! Resolves the access rules of the listener.

use super::Resolver;
use crate::document::{Document, SecretSource, WebTls};
use base::secret::Secret;
use strict_yaml::path::KeyPath;
use web::options::{Protects, TlsFiles, WebOptions};

/// Minimum length of a token, in characters. Shorter tokens can be guessed.
const SHORTEST_TOKEN: usize = 16;
/// Minimum length of a password, in characters. Shorter passwords can be guessed.
const SHORTEST_PASSWORD: usize = 12;

/// Placeholders in `web.grafana_url`; the first is required.
pub(super) const GRAFANA_PLACES: [&str; 5] = ["{service}", "{namespace}", "{pod}", "{from}", "{to}"];

/// Returns the reason why a link pattern cannot be used, or `None` if the pattern is usable.
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

/// Returns the options of the listener.
pub(crate) fn web(resolver: &mut Resolver<'_>, document: &Document) -> WebOptions {
    let web = &document.web;
    let path = KeyPath::from_dotted("web");
    let token = web.token_from.as_ref();
    let token = token.and_then(|source| login(resolver, source, path.key("token_from"), SHORTEST_TOKEN));
    let mut users = Vec::new();
    for (name, source) in &web.users_from {
        let path = path.key("users_from").key(name);
        if name.is_empty() || name.contains(':') || name.chars().any(char::is_control) {
            let message = "a name must not be empty, and must not contain a colon or a control character";
            resolver.error(path, message);
            continue;
        }
        let password = login(resolver, source, path, SHORTEST_PASSWORD);
        users.extend(password.map(|password| (name.clone(), password)));
    }
    let tls = tls_files(resolver, &web.tls, path.key("tls"));
    let has_logins = token.is_some() || !users.is_empty();
    let is_local = document.listen.0.is_none_or(|address| address.ip().is_loopback());
    if has_logins && tls.is_none() && !is_local && web.tls == WebTls::default() {
        let message = "token and passwords would be sent in clear text: set `web.tls`, or listen on a loopback address";
        let key = if web.token_from.is_some() {
            "token_from"
        } else {
            "users_from"
        };
        resolver.error(path.key(key), message);
    }
    let is_nobody = web.token_from.is_none() && web.users_from.is_empty();
    if is_nobody && web.protects == Protects::All {
        let message = "requires `token_from` or `users_from`: otherwise, no user could log in";
        resolver.error(path.key("protects"), message);
    }
    let mut pattern = |key: &str, pattern: &Option<String>, places: &[&str], example: &str| {
        let pattern = pattern.clone()?;
        match unusable(&pattern, places, example) {
            None => Some(pattern),
            Some(message) => resolver.refused(path.key(key), message),
        }
    };
    WebOptions {
        hosts: web.hosts.clone(),
        token,
        users,
        trace_url: pattern(
            "trace_url",
            &web.trace_url,
            &["{trace_id}"],
            "https://jaeger.example.org/trace/{trace_id}",
        ),
        grafana_url: pattern(
            "grafana_url",
            &web.grafana_url,
            &GRAFANA_PLACES,
            "https://grafana.example.org/d/gcwatch-service?var-service={service}&from={from}&to={to}",
        ),
        protects: web.protects,
        mcp: web.mcp,
        tls,
    }
}

/// Returns the certificate file and the key file, or `None` if they are not set. One file without the other is an
/// error.
fn tls_files(resolver: &mut Resolver<'_>, tls: &WebTls, path: KeyPath) -> Option<TlsFiles> {
    match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => Some(TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        }),
        (None, None) => None,
        (Some(_), None) => resolver.refused(path, "requires `key` as well"),
        (None, Some(_)) => resolver.refused(path, "requires `certificate` as well"),
    }
}

fn login(resolver: &mut Resolver<'_>, source: &SecretSource, path: KeyPath, shortest: usize) -> Option<Secret> {
    let secret = resolver.secret_at(source, path.clone())?;
    if secret.reveal().chars().count() < shortest {
        let message = format!("the value (not shown) has less than {shortest} characters");
        return resolver.refused(path, message);
    }
    Some(secret)
}
