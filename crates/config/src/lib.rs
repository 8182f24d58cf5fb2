//! The configuration: flags take precedence over the environment, and the environment over one YAML file. All keys are
//! optional.
//!
//! ```text
//! file         -> yaml: values, positions ---+
//! environment  -> environment: values -------+--> check: against the schema --> layers: merged, with origins
//! flags        -> flags: values -------------+          ^                              |
//!                                                document: the types                   v
//!                                       (schema, page, print come from them)   resolve: the options of each part
//! ```
//!
//! [`Config::read`] converts texts to options, or to a list of all problems. It performs no I/O, except that it calls
//! [`Sources::read_file`] for files of secrets. [`load`] reads the file and the environment of the process, and
//! [`file::Watch`] waits for a change.
//!
//! # Layers
//!
//! 1. `values`, `document`: the types of the keys, from which the schema, the page and the check are derived
//! 2. [`environment`], [`flags`], `layers`: the sources, merged, with the origin of each value
//! 3. `resolve`, [`options`]: the options of each part, in the types of that part
//! 4. [`mod@file`], [`rule_files`]: reading files and waiting for their changes
//!
//! # Invariants
//!
//! * **All problems at once**, each with its place in the sources.
//! * **A part owns its options**: this crate creates them, and has no other dependency on the part.
//! * **Secrets are never shown**, neither in an error nor in printed configurations.

// Time is a value: this crate reads no clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

use std::fmt;
use std::path::PathBuf;

use gc_telemetry::options::{MetricOptions, SpanOptions};
use gc_telemetry::value::key_value;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use run::settings::{Clock, PipelineSettings};
use strict_yaml::path::KeyPath;
use targets::options::TargetOptions;

mod change;
mod document;
pub mod environment;
pub mod file;
pub mod flags;
mod layers;
pub mod options;
pub mod page;
mod print;
pub mod problem;
mod resolve;
pub mod rule_files;
pub mod schema;
pub(crate) mod values;

use document::Document;
use environment::Environment;
pub use file::load;
use flags::ConfigFlags;
use layers::{Layers, Origins};
use options::{LogOptions, Options, SelfTelemetryOptions};
use problem::{Origin, Problem, Problems};
pub use resolve::ReadFile;
use resolve::Resolver;

/// The sources of a configuration.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The file: its name for messages, and its text.
    pub file: Option<(&'a str, &'a str)>,
    /// All environment variables.
    pub environment: &'a Environment,
    pub flags: &'a ConfigFlags,
    /// Reads the files of secrets, such as the files in `headers_from`.
    pub read_file: ReadFile<'a>,
}

impl fmt::Debug for Sources<'_> {
    /// Omits the contents, because they can contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("file", &self.file.map(|(name, _)| name))
            .finish_non_exhaustive()
    }
}

/// A configuration with its warnings.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    pub config: Config,
    /// Problems that are reported at the start and at each reload: invalid environment variables, and keys without
    /// effect.
    pub warnings: Vec<Problem>,
    /// The files that were read: the configuration file and the files of secrets. If one of them changes, the
    /// configuration must be read again.
    pub files: Vec<PathBuf>,
}

/// All keys, set or default, and the options of the daemon's parts.
#[derive(Debug, Clone)]
pub struct Config {
    document: Document,
    origins: Origins,
    /// The log on standard error.
    pub log: LogOptions,
    /// Telemetry of gcwatch itself over OTLP.
    pub self_telemetry: SelfTelemetryOptions,
    /// Options of the parts. gcwatch's own resource is not complete, because only a part of it is configured.
    pub options: Options,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    ///
    /// Returns all errors of the file and the flags. Errors in environment variables become warnings.
    pub fn read(sources: &Sources<'_>) -> Result<LoadedConfig, Problems> {
        let (mut layers, mut problems, mut warnings) = Layers::read(sources.file, sources.environment, sources.flags);
        // An environment variable that conflicts with other keys is dropped, and the remaining values are resolved
        // again.
        loop {
            let (merged, origins) = layers.merged();
            let document: Document = match serde_json::from_value(merged) {
                Ok(document) => document,
                // This error is unexpected: a test ensures that the types accept every value that the check accepts.
                Err(error) => {
                    if problems.is_empty() {
                        problems.push(Problem {
                            origin: Origin::Default,
                            path: KeyPath::default(),
                            message: format!("the configuration is inconsistent: {error}"),
                        });
                    }
                    return Err(Problems(problems));
                }
            };
            let mut resolver = Resolver {
                origins: &origins,
                environment: sources.environment,
                read_file: sources.read_file,
                findings: Vec::new(),
            };
            let otlp = resolve::otlp(&mut resolver, &document);
            let alerts = resolve::alerts(&mut resolver, &document);
            let resource = resolve::resource(&mut resolver, &document);
            let web = resolve::web(&mut resolver, &document);
            let store = resolve::store(&mut resolver, &document);
            resolve::sections(&mut resolver, &document);
            let (mut dropped, mut new_warnings, mut errors) = (Vec::new(), Vec::new(), Vec::new());
            for finding in resolver.findings {
                // A conflict with a key that already has an error is not reported.
                if problems.iter().any(|problem| finding.with.contains(&problem.path)) {
                    continue;
                }
                let mut problem = Problem {
                    origin: origins.get(&finding.path).clone(),
                    path: finding.path,
                    message: finding.message,
                };
                match (&problem.origin, finding.is_error) {
                    (Origin::Environment(name), true) => {
                        dropped.push(name.clone());
                        problem.message = environment::not_used(&problem.message);
                        warnings.push(problem);
                    }
                    (_, true) => errors.push(problem),
                    (_, false) => new_warnings.push(problem),
                }
            }
            if !dropped.is_empty() {
                dropped.iter().for_each(|name| layers.drop_variable(name));
                continue;
            }
            problems.extend(errors);
            if !problems.is_empty() {
                problems.sort_by(|one, other| one.origin.cmp(&other.origin));
                return Err(Problems(problems));
            }
            new_warnings.sort_by(|one, other| one.origin.cmp(&other.origin));
            warnings.extend(new_warnings);
            let self_telemetry = resolve::self_telemetry(&document, &origins);
            let targets = TargetOptions {
                requests: (&document.requests).into(),
                ..(&document.targets).into()
            };
            let pipeline = PipelineSettings {
                spans: SpanOptions {
                    requests: (&document.requests.spans).into(),
                    ..(&document.spans).into()
                },
                metrics: MetricOptions {
                    routes: document.requests.routes(),
                    ..(&document.metrics).into()
                },
                max_runs: targets.max_targets,
                clock: Clock::Live,
                resource: texts(resource),
                ..PipelineSettings::default()
            };
            let options = Options {
                targets,
                pipeline,
                otlp,
                state_directory: document.state.directory.clone(),
                rules: document.rules.clone(),
                alerts,
                black_box: (&document.evidence.black_box).into(),
                store,
                bursts: (&document.evidence).into(),
                census: (&document.evidence).into(),
                kubernetes: (&document.kubernetes).into(),
                listen: document.listen.0,
                web,
                own_resource: Vec::new(),
                export_own_metrics: self_telemetry.metrics,
            };
            let config = Self {
                log: resolve::log(&document),
                self_telemetry,
                options,
                document,
                origins,
            };
            let files = config.secret_files();
            return Ok(LoadedConfig {
                config,
                warnings,
                files,
            });
        }
    }

    /// Returns whether the file, the environment or a flag names an OTLP receiver.
    pub fn names_otlp(&self) -> bool {
        ["otlp", "otlp.traces", "otlp.metrics", "otlp.logs"]
            .iter()
            .any(|section| *self.origins.get(&KeyPath::from_dotted(section).key("endpoint")) != Origin::Default)
    }

    fn secret_files(&self) -> Vec<PathBuf> {
        let otlp = &self.document.otlp;
        let sections = [
            &otlp.headers_from,
            &otlp.traces.headers_from,
            &otlp.metrics.headers_from,
            &otlp.logs.headers_from,
        ];
        let sources = sections.into_iter().flat_map(|section| section.values());
        let alerts = &self.document.alerts;
        let alertmanagers = alerts.alertmanagers.iter().flat_map(|keys| keys.headers_from.values());
        let webhooks = alerts.webhooks.iter().flat_map(|keys| {
            let own = [&keys.url_from, &keys.secret_from];
            keys.headers_from.values().chain(own.into_iter().flatten())
        });
        let web = &self.document.web;
        let web = web.users_from.values().chain(&web.token_from);
        let sources = sources.chain(alertmanagers).chain(webhooks).chain(web);
        sources.filter_map(|source| source.file.clone()).collect()
    }

    /// Returns the configuration as a YAML file with the origin of each value, without secrets.
    pub fn print(&self) -> String {
        print::print(self)
    }

    /// Returns the keys whose values differ in `new` and that need a restart.
    pub fn restart(&self, new: &Self) -> Vec<KeyPath> {
        change::restart(&self.document, &new.document)
    }
}

/// Converts names and texts to attributes of a resource.
pub fn texts(attributes: impl IntoIterator<Item = (String, String)>) -> Vec<KeyValue> {
    let attribute = |(key, value): (String, String)| key_value(&key, Value::StringValue(value));
    attributes.into_iter().map(attribute).collect()
}
