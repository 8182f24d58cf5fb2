//! From the keys to the options of the daemon's parts, with the checks that concern several keys.

use std::io;
use std::path::Path;

use super::document::{Document, Histogram};
use super::environment::Environment;
use super::layers::Origins;
use super::options::{LogOptions, SelfTelemetryOptions};
use super::problem::Origin;
use strict_yaml::path::KeyPath;

mod alerts;
mod headers;
mod receivers;
mod requests;
mod web;

/// Reads a small file: the value of a header.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// A finding on several keys together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: KeyPath,
    pub(crate) message: String,
    /// The other keys.
    pub(crate) with: Vec<KeyPath>,
    /// An error, which prevents the start; else a warning.
    pub(crate) is_error: bool,
}

/// What the keys are resolved with.
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
        // A finding on a common key is found for each signal, and reported once.
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Checks of whole sections, except `otlp`.
    pub(crate) fn sections(&mut self, document: &Document) {
        let targets = &document.targets;
        for (index, path) in targets.sockets.iter().enumerate() {
            if !path.is_absolute() {
                self.error(KeyPath::of("targets.sockets").index(index), "the path must be absolute");
            }
        }
        if !targets.lease_folder.is_absolute() {
            let path = KeyPath::of("targets.lease_folder");
            self.error(
                path,
                "the path must be absolute: all gcwatches of a host must use the same directory",
            );
        }
        if document
            .state
            .directory
            .as_ref()
            .is_some_and(|path| !path.is_absolute())
        {
            self.error(KeyPath::of("state.directory"), "the path must be absolute");
        }
        if let Some(socket) = &targets.listen {
            let path = KeyPath::of("targets.listen");
            // sun_path of sockaddr_un has 108 bytes, the last of them 0.
            let length = socket.as_os_str().len();
            if !socket.is_absolute() {
                self.error(path, "the path must be absolute: processes connect to it");
            } else if length > 107 {
                self.error(
                    path,
                    format!("the path has {length} bytes; the path of a socket can have 107"),
                );
            }
        }
        self.request_sources(document);
        let bounds = &document.metrics.bounds;
        for (index, pair) in bounds.windows(2).enumerate() {
            if let [one, next] = pair
                && one >= next
            {
                let path = KeyPath::of("metrics.bounds").index(index + 1);
                self.error(path, format!("the bounds must be ascending: {next} comes after {one}"));
                break;
            }
        }
        let explicit = document.metrics.histogram == Histogram::Explicit;
        for (key, used) in [("metrics.bounds", explicit), ("metrics.max_buckets", !explicit)] {
            let path = KeyPath::of(key);
            if !used && *self.origins.of(&path) != Origin::Default {
                let histogram = document.metrics.histogram;
                self.warning(path, format!("has no effect: `metrics.histogram` is {histogram}"));
            }
        }
    }

    /// Attributes of every target.
    pub(crate) fn resource(&mut self, document: &Document) -> Vec<(String, String)> {
        let resource = &document.resource;
        let mut attributes = resource.attributes.clone();
        let named = [
            ("environment", "deployment.environment.name", &resource.environment),
            ("cluster", "k8s.cluster.name", &resource.cluster),
        ];
        for (key, name, value) in named {
            let Some(value) = value else { continue };
            if attributes.insert(name.to_owned(), value.clone()).is_some() {
                let path = KeyPath::of("resource.attributes").key(name);
                self.error(path, format!("duplicate attribute; also set as `resource.{key}`"));
            }
        }
        if attributes.contains_key("service.name") {
            let path = KeyPath::of("resource.attributes").key("service.name");
            self.warning(
                path,
                "gives all processes the same name, except those with their own OTEL_SERVICE_NAME",
            );
        }
        attributes.into_iter().collect()
    }
}

/// Options of the log.
pub(crate) fn log(document: &Document) -> LogOptions {
    LogOptions {
        filter: document.log.level.to_string(),
        incidents: document.log.incidents,
        format: document.log.format,
    }
}

/// Options of gcwatch's own telemetry.
pub(crate) fn self_telemetry(document: &Document, origins: &Origins) -> SelfTelemetryOptions {
    let keys = &document.self_telemetry;
    let on = keys.enabled && document.otlp.enabled;
    let mut attributes = keys.attributes.clone();
    // The specification: OTEL_SERVICE_NAME overrides the service.name in OTEL_RESOURCE_ATTRIBUTES.
    let inner = attributes.remove("service.name");
    let named = *origins.of(&KeyPath::of("self_telemetry.service_name")) != Origin::Default;
    SelfTelemetryOptions {
        traces: on && keys.traces,
        metrics: on && keys.metrics,
        logs: (on && keys.logs).then(|| keys.log_level.to_string()),
        service_name: inner.filter(|_| !named).unwrap_or_else(|| keys.service_name.clone()),
        attributes: attributes.into_iter().collect(),
    }
}
