//! Converts the keys to the options of the daemon's parts, and checks conditions that involve several keys. Each part
//! has a function that adds its findings to a [`Resolver`].

use std::io;
use std::path::Path;

use gc_requests::session::is_source;

use super::document::{Document, Histogram, RequestMode, SecretSource};
use super::environment::Environment;
use super::layers::Origins;
use super::options::{LogOptions, SelfTelemetryOptions};
use super::problem::Origin;
use base::secret::Secret;
use base::units::HumanDuration;
use strict_yaml::path::KeyPath;

mod alerts;
mod headers;
mod receivers;
mod store;
mod web;

pub(crate) use self::alerts::alerts;
pub(crate) use self::receivers::otlp;
pub(crate) use self::store::store;
pub(crate) use self::web::web;

/// A function that reads a small file with a secret, such as the value of a header.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// A finding on several keys together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: KeyPath,
    pub(crate) message: String,
    /// The other keys that the finding concerns.
    pub(crate) with: Vec<KeyPath>,
    /// Whether the finding is an error, which prevents the start, or a warning.
    pub(crate) is_error: bool,
}

/// The inputs for resolving keys, and the findings.
pub(crate) struct Resolver<'a> {
    pub(crate) origins: &'a Origins,
    pub(crate) environment: &'a Environment,
    pub(crate) read_file: ReadFile<'a>,
    pub(crate) findings: Vec<Finding>,
}

impl Resolver<'_> {
    fn error(&mut self, path: KeyPath, message: impl Into<String>) {
        self.add(path, message.into(), Vec::new(), true);
    }

    fn error_with(&mut self, path: KeyPath, with: Vec<KeyPath>, message: impl Into<String>) {
        self.add(path, message.into(), with, true);
    }

    /// Adds an error. Returns `None`, because there is no value.
    fn refused<T>(&mut self, path: KeyPath, message: impl Into<String>) -> Option<T> {
        self.error(path, message);
        None
    }

    fn warning(&mut self, path: KeyPath, message: impl Into<String>) {
        self.add(path, message.into(), Vec::new(), false);
    }

    fn add(&mut self, path: KeyPath, message: String, with: Vec<KeyPath>, is_error: bool) {
        let finding = Finding {
            path,
            message,
            with,
            is_error,
        };
        // A finding for a common key occurs once per signal, and is reported once.
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Returns whether this key has a value other than its default.
    fn is_set(&self, path: &KeyPath) -> bool {
        *self.origins.get(path) != Origin::Default
    }

    fn secret(&self, source: &SecretSource) -> Result<Secret, String> {
        let text = match (&source.file, &source.env) {
            (Some(file), None) => {
                (self.read_file)(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?
            }
            (None, Some(name)) => match self.environment.get(name) {
                Some(text) => text.clone(),
                None => return Err(format!("the environment variable {name} is not set")),
            },
            _ => return Err("requires either `file` or `env`".to_owned()),
        };
        Ok(Secret::new(text.trim_end()))
    }

    /// Returns a secret that is not empty, or `None` if it is empty or cannot be read, which is reported.
    fn secret_at(&mut self, source: &SecretSource, path: KeyPath) -> Option<Secret> {
        match self.secret(source) {
            Ok(secret) if secret.reveal().is_empty() => self.refused(path, "the value is empty"),
            Ok(secret) => Some(secret),
            // If neither or both of the keys of the source are set, the error is already reported.
            Err(message) => {
                self.error_with(path.clone(), vec![path], message);
                None
            }
        }
    }
}

/// Checks whole sections, except sections with a separate function.
pub(crate) fn sections(resolver: &mut Resolver<'_>, document: &Document) {
    let targets = &document.targets;
    for (index, path) in targets.sockets.iter().enumerate() {
        if !path.is_absolute() {
            resolver.error(
                KeyPath::from_dotted("targets.sockets").index(index),
                "the path must be absolute",
            );
        }
    }
    if !targets.lease_folder.is_absolute() {
        let message = "the path must be absolute: all gcwatch instances of a host must use the same directory";
        resolver.error(KeyPath::from_dotted("targets.lease_folder"), message);
    }
    let state = document.state.directory.as_ref();
    if state.is_some_and(|path| !path.is_absolute()) {
        resolver.error(KeyPath::from_dotted("state.directory"), "the path must be absolute");
    }
    if let Some(socket) = &targets.listen {
        let path = KeyPath::from_dotted("targets.listen");
        // The field sun_path of sockaddr_un has 108 bytes, and the last byte is 0.
        let length = socket.as_os_str().len();
        if !socket.is_absolute() {
            resolver.error(path, "the path must be absolute: processes connect to it");
        } else if length > 107 {
            let message = format!("the path has {length} bytes; the path of a socket can have 107");
            resolver.error(path, message);
        }
    }
    let requests = &document.requests;
    let path = KeyPath::from_dotted("requests.sources");
    for (index, name) in requests.sources.iter().enumerate().filter(|(_, name)| !is_source(name)) {
        let message = format!(
            "{name:?} must be the name of one ActivitySource, such as Acme.Jobs; requests of ASP.NET Core need none"
        );
        resolver.error(path.clone().index(index), message);
    }
    if !requests.sources.is_empty() && requests.mode != RequestMode::DiagnosticSource {
        resolver.warning(path, "has no effect: `requests.mode` is not diagnosticsource");
    }
    let mut bounds = document.metrics.bounds.windows(2).enumerate();
    let falls = |(_, pair): &(usize, &[HumanDuration])| matches!(pair, [one, next] if one >= next);
    if let Some((index, [one, next])) = bounds.find(falls) {
        let path = KeyPath::from_dotted("metrics.bounds").index(index + 1);
        resolver.error(path, format!("the bounds must be ascending: {next} comes after {one}"));
    }
    let histogram = document.metrics.histogram;
    let explicit = histogram == Histogram::Explicit;
    for (key, used) in [("metrics.bounds", explicit), ("metrics.max_buckets", !explicit)] {
        let path = KeyPath::from_dotted(key);
        if !used && resolver.is_set(&path) {
            resolver.warning(path, format!("has no effect: `metrics.histogram` is {histogram}"));
        }
    }
}

/// Returns the attributes of every target.
pub(crate) fn resource(resolver: &mut Resolver<'_>, document: &Document) -> Vec<(String, String)> {
    let resource = &document.resource;
    let mut attributes = resource.attributes.clone();
    let path = KeyPath::from_dotted("resource.attributes");
    let named = [
        ("environment", "deployment.environment.name", &resource.environment),
        ("cluster", "k8s.cluster.name", &resource.cluster),
    ];
    for (key, name, value) in named {
        let Some(value) = value else { continue };
        if attributes.insert(name.to_owned(), value.clone()).is_some() {
            let message = format!("duplicate attribute; also set as `resource.{key}`");
            resolver.error(path.key(name), message);
        }
    }
    if attributes.contains_key("service.name") {
        let message = "gives all processes the same name, except those with their own OTEL_SERVICE_NAME";
        resolver.warning(path.key("service.name"), message);
    }
    attributes.into_iter().collect()
}

pub(crate) fn log(document: &Document) -> LogOptions {
    LogOptions {
        filter: document.log.level.to_string(),
        incidents: document.log.incidents,
        format: document.log.format,
    }
}

/// Returns the options of gcwatch's own telemetry.
pub(crate) fn self_telemetry(document: &Document, origins: &Origins) -> SelfTelemetryOptions {
    let keys = &document.self_telemetry;
    let on = keys.enabled && document.otlp.enabled;
    let mut attributes = keys.attributes.clone();
    // According to the specification, OTEL_SERVICE_NAME overrides the service.name in OTEL_RESOURCE_ATTRIBUTES.
    let inner = attributes.remove("service.name");
    let named = *origins.get(&KeyPath::from_dotted("self_telemetry.service_name")) != Origin::Default;
    SelfTelemetryOptions {
        traces: on && keys.traces,
        metrics: on && keys.metrics,
        logs: (on && keys.logs).then(|| keys.log_level.to_string()),
        service_name: inner.filter(|_| !named).unwrap_or_else(|| keys.service_name.clone()),
        attributes: attributes.into_iter().collect(),
    }
}
