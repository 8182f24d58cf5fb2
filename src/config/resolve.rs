//! From the keys to the options that the parts of the daemon take, and what only the keys together can be wrong in.

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

/// Reads a small file: the value of a header.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// What keys together are wrong or odd in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Oddity {
    pub(crate) path: KeyPath,
    pub(crate) message: String,
    /// Other keys that it is about.
    pub(crate) with: Vec<KeyPath>,
    /// gcwatch does not start with it.
    pub(crate) wrong: bool,
}

/// The world around the keys.
pub(crate) struct Resolver<'a> {
    pub(crate) origins: &'a Origins,
    pub(crate) environment: &'a Environment,
    pub(crate) read_file: ReadFile<'a>,
    pub(crate) oddities: Vec<Oddity>,
}

impl Resolver<'_> {
    fn wrong(&mut self, path: KeyPath, message: impl Into<String>) {
        self.say(path, message.into(), Vec::new(), true);
    }

    fn wrong_with(&mut self, path: KeyPath, with: Vec<KeyPath>, message: impl Into<String>) {
        self.say(path, message.into(), with, true);
    }

    fn odd(&mut self, path: KeyPath, message: impl Into<String>) {
        self.say(path, message.into(), Vec::new(), false);
    }

    fn say(&mut self, path: KeyPath, message: String, with: Vec<KeyPath>, wrong: bool) {
        let oddity = Oddity {
            path,
            message,
            with,
            wrong,
        };
        // What concerns a common key is found for each signal, and said once.
        if !self.oddities.contains(&oddity) {
            self.oddities.push(oddity);
        }
    }

    /// What only whole sections are wrong in, besides `otlp`.
    pub(crate) fn sections(&mut self, document: &Document) {
        let targets = &document.targets;
        for (index, path) in targets.sockets.iter().enumerate() {
            if !path.is_absolute() {
                self.wrong(
                    KeyPath::of("targets.sockets").index(index),
                    "the path has to be absolute",
                );
            }
        }
        if !targets.lease_folder.is_absolute() {
            let path = KeyPath::of("targets.lease_folder");
            self.wrong(
                path,
                "the path has to be absolute: several gcwatches have to mean the same folder",
            );
        }
        if let Some(socket) = &targets.listen {
            let path = KeyPath::of("targets.listen");
            // sun_path of sockaddr_un has 108 bytes, the last of them 0.
            let length = socket.as_os_str().len();
            if !socket.is_absolute() {
                self.wrong(path, "the path has to be absolute: processes are pointed at it");
            } else if length > 107 {
                self.wrong(path, format!("the path has {length} bytes; a socket's may have 107"));
            }
        }
        let bounds = &document.metrics.bounds;
        for (index, pair) in bounds.windows(2).enumerate() {
            if let [one, next] = pair
                && one >= next
            {
                let path = KeyPath::of("metrics.bounds").index(index + 1);
                self.wrong(path, format!("the bounds have to rise: {next} comes after {one}"));
                break;
            }
        }
        let explicit = document.metrics.histogram == Histogram::Explicit;
        for (key, used) in [("metrics.bounds", explicit), ("metrics.max_buckets", !explicit)] {
            let path = KeyPath::of(key);
            if !used && *self.origins.of(&path) != Origin::Default {
                let histogram = document.metrics.histogram;
                self.odd(path, format!("is not used: `metrics.histogram` is {histogram}"));
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
                self.wrong(path, format!("the attribute is given twice; also as `resource.{key}`"));
            }
        }
        if attributes.contains_key("service.name") {
            let path = KeyPath::of("resource.attributes").key("service.name");
            self.odd(
                path,
                "names all processes alike, save those that have an OTEL_SERVICE_NAME of their own",
            );
        }
        attributes.into_iter().collect()
    }
}

/// What is logged, and how.
pub(crate) fn log(document: &Document) -> LogOptions {
    LogOptions {
        filter: document.log.level.to_string(),
        format: document.log.format,
    }
}

/// What gcwatch tells of itself.
pub(crate) fn self_telemetry(document: &Document, origins: &Origins) -> SelfTelemetryOptions {
    let keys = &document.self_telemetry;
    let on = keys.enabled && document.otlp.enabled;
    let mut attributes = keys.attributes.clone();
    // The specification: OTEL_SERVICE_NAME goes over the service.name in OTEL_RESOURCE_ATTRIBUTES.
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
