//! Endpoints, addresses, log levels and secrets, and the formats of the schema.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use base::quote::quoted;
use base::secret::Secret;
use base::written_as_text;
use strict_yaml::check::{Format, nearest};
use strict_yaml::formats::{DURATION, SIZE};

/// The formats of the configuration's schema.
pub(crate) const FORMATS: [Format; 7] = [
    DURATION,
    SIZE,
    Format {
        name: "otlp-endpoint",
        kind: "URL",
        what: "a URL such as http://collector:4317",
        check: |text| Endpoint::from_str(text).map(|_| None),
    },
    Format {
        name: "http-url",
        kind: "URL",
        what: "a URL such as http://alertmanager:9093",
        check: |text| WebUrl::from_str(text).map(|_| None),
    },
    Format {
        name: "link-url",
        kind: "URL",
        what: "a URL such as http://{node}:9464",
        check: |text| LinkUrl::from_str(text).map(|_| None),
    },
    Format {
        name: "listen-address",
        kind: "address:port or `none`",
        what: "an address and a port such as 127.0.0.1:9464, or none",
        check: |text| ListenAddress::from_str(text).map(|_| None),
    },
    Format {
        name: "log-level",
        kind: "level",
        what: "off, error, warn, info, debug or trace",
        check: |text| LogLevel::from_str(text).map(|_| None),
    },
];

pub(crate) const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A secret string, which serializes as `<redacted>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HiddenString(pub(crate) Secret);

impl Serialize for HiddenString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("<redacted>")
    }
}

impl<'de> Deserialize<'de> for HiddenString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Secret::new(text)))
    }
}

impl JsonSchema for HiddenString {
    fn schema_name() -> Cow<'static, str> {
        "secret".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-secret": true })
    }
}

/// The address of a receiver: a URL, or host and port with the scheme from `insecure`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint(String);

impl Endpoint {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the endpoint has a scheme.
    pub(crate) fn has_scheme(&self) -> bool {
        self.0.contains("://")
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let whole = match text.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") => {
                text.to_owned()
            }
            Some((scheme, _)) => {
                return Err(format!(
                    "{} is not a scheme for OTLP; write http:// or https://",
                    quoted(&format!("{scheme}://"))
                ));
            }
            None => format!("http://{text}"),
        };
        if text.contains("${") {
            return Err("`${…}` is not expanded in a URL; set OTEL_EXPORTER_OTLP_ENDPOINT instead".to_owned());
        }
        let url = reqwest::Url::parse(&whole)
            .map_err(|error| format!("this is not a URL ({error}); write it as http://collector:4317"))?;
        // Check this before any message that quotes the URL, because the URL can contain a password.
        if !url.username().is_empty() || url.password().is_some() {
            return Err("user and password in a URL are not supported; use `headers_from`".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("the URL of a receiver cannot have a `?` or `#`".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

/// The URL of an HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebUrl(String);

impl WebUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks a URL. The message does not quote the URL.
    pub(crate) fn check(text: &str) -> Result<(), &'static str> {
        if text.contains("${") {
            return Err("`${…}` is not expanded in a URL");
        }
        let url = reqwest::Url::parse(text.trim()).map_err(|_| "this is not a URL; write it as http://host:port")?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("the scheme of the URL must be http or https");
        }
        Ok(())
    }
}

impl FromStr for WebUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::check(text)?;
        let text = text.trim();
        let url = reqwest::Url::parse(text).map_err(|error| error.to_string())?;
        // Check this before any message that shows the URL.
        if !url.username().is_empty() || url.password().is_some() {
            return Err("user and password in a URL are not supported; use `headers_from`".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("this URL cannot have a `?` or `#`".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A URL for display, in which `{node}`, `{host}` and `{pod}` stand for the place where this gcwatch instance runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkUrl(String);

/// Placeholders of a [`LinkUrl`].
pub(crate) const PLACES: [&str; 3] = ["{node}", "{host}", "{pod}"];

impl LinkUrl {
    /// Replaces each placeholder by its value from `of`. Returns the placeholder as an error if its value is unknown.
    pub(crate) fn at(&self, of: impl Fn(&str) -> Option<String>) -> Result<String, &'static str> {
        PLACES.into_iter().try_fold(self.0.clone(), |url, place| {
            if !url.contains(place) {
                return Ok(url);
            }
            Ok(url.replace(place, &of(place).ok_or(place)?))
        })
    }
}

impl FromStr for LinkUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = PLACES
            .into_iter()
            .fold(text.to_owned(), |url, place| url.replace(place, "place"));
        if plain.contains(['{', '}']) {
            return Err(format!("only {} can be in the URL in braces", PLACES.join(", ")));
        }
        WebUrl::from_str(&plain)?;
        Ok(Self(text.trim().to_owned()))
    }
}

impl fmt::Display for LinkUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The address of the web server; `None` if there is no web server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenAddress(pub(crate) Option<SocketAddr>);

impl Default for ListenAddress {
    fn default() -> Self {
        Self(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9464)))
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "none" {
            return Ok(Self(None));
        }
        let port = |text: &str| text.parse::<u16>().ok();
        if let Some(port) = text.strip_prefix("localhost:").and_then(port) {
            return Ok(Self(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))));
        }
        if let Some(port) = text.strip_prefix(':').or(Some(text)).and_then(port) {
            return Err(format!(
                "{} has no address; write 127.0.0.1:{port}, or 0.0.0.0:{port} to listen on all interfaces",
                quoted(text)
            ));
        }
        text.parse().map(|address| Self(Some(address))).map_err(|_| {
            format!(
                "{} is not an address and a port; write 127.0.0.1:9464, [::1]:9464 or none",
                quoted(text)
            )
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// A log filter: a level, or levels per module, in the format of `tracing-subscriber`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLevel(String);

impl Default for LogLevel {
    fn default() -> Self {
        Self::new("info")
    }
}

impl LogLevel {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl FromStr for LogLevel {
    type Err = String;

    /// Parses `info`, or `info,gcwatch::targets=debug`. This parser is stricter than `tracing-subscriber`, which
    /// accepts any word as a module.
    fn from_str(text: &str) -> Result<Self, String> {
        for part in text.split(',') {
            let (module, level) = match part.split_once('=') {
                Some((module, level)) => (Some(module.trim()), level.trim()),
                None => (None, part.trim()),
            };
            if !LEVELS.contains(&level) {
                let hint = nearest(level, LEVELS)
                    .map(|near| format!("; did you mean `{near}`?"))
                    .unwrap_or_default();
                return Err(format!("{} is not one of {}{hint}", quoted(level), LEVELS.join(", ")));
            }
            let name = |c: char| c.is_ascii_alphanumeric() || "_:-".contains(c);
            if module.is_some_and(|module| module.is_empty() || !module.chars().all(name)) {
                return Err(format!(
                    "{} is not a module and its level; write gcwatch::targets=debug",
                    quoted(part.trim())
                ));
            }
        }
        Ok(Self(text.split(',').map(str::trim).collect::<Vec<_>>().join(",")))
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

written_as_text!(
    Endpoint,
    "otlp-endpoint",
    ["http://localhost:4317", "https://collector.example:4318"]
);
written_as_text!(
    WebUrl,
    "http-url",
    ["http://alertmanager:9093", "https://gcwatch.example"]
);
written_as_text!(LinkUrl, "link-url", ["https://gcwatch.example", "http://{node}:9464"]);
written_as_text!(
    ListenAddress,
    "listen-address",
    ["127.0.0.1:9464", "0.0.0.0:9464", "none"]
);
written_as_text!(LogLevel, "log-level", ["info", "debug", "info,gcwatch::targets=debug"]);

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: links contain known placeholders, an unknown placeholder, and a placeholder without a value.
    /// Guarantee: known placeholders are replaced by their values; unknown placeholders are refused; a placeholder
    /// without a value is named in the error.
    #[test]
    fn placeholders_are_replaced() {
        let of = |place: &str| (place != "{pod}").then(|| place.trim_matches(['{', '}']).to_owned());
        let at = |text: &str| LinkUrl::from_str(text).map(|url| url.at(of));
        assert_eq!(
            at("http://{node}:9464/{host}"),
            Ok(Ok("http://node:9464/host".to_owned()))
        );
        assert_eq!(
            at("https://gcwatch.example"),
            Ok(Ok("https://gcwatch.example".to_owned()))
        );
        assert_eq!(at("http://{pod}:9464"), Ok(Err("{pod}")));
        assert!(at("http://{cluster}/").is_err() && at("gcwatch").is_err());
    }
}
