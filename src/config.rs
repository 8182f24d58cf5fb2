//! The configuration: flags over environment over one YAML file, all keys optional.
//!
//! ```text
//! file         -> yaml: values, positions ---+
//! environment  -> environment: values -------+--> check: against the schema --> layers: merged, with origins
//! flags        -> flags: values -------------+          ^                              |
//!                                                document: the types                   v
//!                                       (schema, page, print come from them)   resolve: the options of each part
//! ```
//!
//! [`Config::read`] is pure: texts in, options or problems out, all problems at once. [`load`] reads the file and the
//! environment of the process, [`file::Watch`] awaits a change.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::evidence::automatic::BurstOptions;
use crate::evidence::black_box::BlackBoxOptions;
use crate::kubernetes;
use crate::targets::options::TargetOptions;
use crate::web::options::WebOptions;
use delivery::alerts;
use delivery::otlp::settings::OtlpSettings;
use gc_telemetry::options::{MetricOptions, SpanOptions};
use strict_yaml::check::Schema;
use strict_yaml::path::KeyPath;

pub mod change;
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

use change::{Change, Section};
use document::Document;
use environment::Environment;
pub use file::load;
use flags::ConfigFlags;
use layers::{Layers, Origins};
use options::{LogOptions, RuleSources, SelfTelemetryOptions};
use problem::{Origin, Problem, Problems};
pub use resolve::ReadFile;
use resolve::Resolver;

/// The sources of a configuration.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The file: its name for messages, and its text.
    pub file: Option<(&'a str, &'a str)>,
    /// The environment, all of it.
    pub environment: &'a Environment,
    /// The flags.
    pub flags: &'a ConfigFlags,
    /// Reads the files that `headers_from` names.
    pub read_file: ReadFile<'a>,
}

impl fmt::Debug for Sources<'_> {
    /// Without the contents: secrets are in them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("file", &self.file.map(|(name, _)| name))
            .finish_non_exhaustive()
    }
}

/// A configuration with its warnings.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Reported at the start and at each reload: invalid environment variables, keys without effect.
    pub warnings: Vec<Problem>,
    /// The files that it was read from: the configuration file and those of secrets. When one changes, it must be read
    /// again.
    pub files: Vec<PathBuf>,
}

/// All keys, set or default, and the options of the daemon's parts.
#[derive(Debug, Clone)]
pub struct Config {
    document: Document,
    origins: Origins,
    targets: TargetOptions,
    otlp: OtlpSettings,
    spans: SpanOptions,
    metrics: MetricOptions,
    rules: RuleSources,
    alerts: alerts::settings::AlertSettings,
    kubernetes: kubernetes::settings::Settings,
    resource: Vec<(String, String)>,
    web: WebOptions,
    log: LogOptions,
    self_telemetry: SelfTelemetryOptions,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    ///
    /// All errors of the file and the flags. Errors of the environment are warnings.
    pub fn read(sources: &Sources<'_>) -> Result<Loaded, Problems> {
        let schema = Schema::new(&schema::SCHEMA, &values::FORMATS);
        let (mut layers, mut problems, mut warnings) =
            Layers::read(sources.file, sources.environment, sources.flags, schema);
        // An environment variable that conflicts with other keys is dropped, and the rest is resolved again.
        loop {
            let (merged, origins) = layers.merged();
            let document: Document = match serde_json::from_value(merged) {
                Ok(document) => document,
                // What the check accepts, the types accept; a test ensures that.
                Err(error) if problems.is_empty() => {
                    let message = format!("the configuration is inconsistent: {error}");
                    problems.push(Problem {
                        origin: Origin::Default,
                        path: KeyPath::default(),
                        message,
                    });
                    return Err(Problems(problems));
                }
                Err(_) => return Err(Problems(problems)),
            };
            let mut resolver = Resolver {
                origins: &origins,
                environment: sources.environment,
                read_file: sources.read_file,
                findings: Vec::new(),
            };
            let otlp = resolver.otlp(&document);
            let alerts = resolver.alerts(&document);
            let resource = resolver.resource(&document);
            let web = resolver.web(&document);
            resolver.sections(&document);
            let findings = resolver.findings;
            let mut dropped = Vec::new();
            let mut new_warnings = Vec::new();
            let mut errors = Vec::new();
            for finding in findings {
                // An error of one of the keys alone is reported already.
                if problems.iter().any(|problem| finding.with.contains(&problem.path)) {
                    continue;
                }
                let mut problem = Problem {
                    origin: origins.of(&finding.path).clone(),
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
            let config = Self {
                targets: TargetOptions {
                    requests: (&document.requests).into(),
                    ..(&document.targets).into()
                },
                otlp,
                spans: SpanOptions {
                    requests: (&document.requests.spans).into(),
                    ..(&document.spans).into()
                },
                metrics: MetricOptions {
                    routes: document.requests.routes(),
                    ..(&document.metrics).into()
                },
                rules: (&document.rules).into(),
                alerts,
                kubernetes: (&document.kubernetes).into(),
                resource,
                web,
                log: resolve::log(&document),
                self_telemetry: resolve::self_telemetry(&document, &origins),
                document,
                origins,
            };
            let files = config.secret_files();
            return Ok(Loaded {
                config,
                warnings,
                files,
            });
        }
    }

    /// Which processes gcwatch attaches to, and how.
    pub fn targets(&self) -> &TargetOptions {
        &self.targets
    }

    /// The receiver of each signal.
    pub fn otlp(&self) -> &OtlpSettings {
        &self.otlp
    }

    /// Whether anybody named an OTLP receiver, in the file, the environment or by a flag.
    pub fn names_otlp(&self) -> bool {
        ["otlp", "otlp.traces", "otlp.metrics", "otlp.logs", "otlp.profiles"]
            .iter()
            .any(|section| *self.origins.of(&KeyPath::of(section).key("endpoint")) != Origin::Default)
    }

    /// Which collections become spans.
    pub fn spans(&self) -> &SpanOptions {
        &self.spans
    }

    /// How collections become metrics.
    pub fn metrics(&self) -> &MetricOptions {
        &self.metrics
    }

    /// Sources of rules.
    pub fn rules(&self) -> &RuleSources {
        &self.rules
    }

    /// Receivers of notifications.
    pub fn alerts(&self) -> &alerts::settings::AlertSettings {
        &self.alerts
    }

    /// The source of pod metadata.
    pub fn kubernetes(&self) -> &kubernetes::settings::Settings {
        &self.kubernetes
    }

    /// Resource attributes of every target, which its own ones override: names and strings, sorted by name.
    pub fn resource(&self) -> &[(String, String)] {
        &self.resource
    }

    /// The address of the web server; `None`: there is none.
    pub fn listen(&self) -> Option<SocketAddr> {
        self.document.listen.0
    }

    /// Who may see what of the web server.
    pub fn web(&self) -> &WebOptions {
        &self.web
    }

    /// The log on standard error.
    pub fn log(&self) -> &LogOptions {
        &self.log
    }

    /// The directory for what outlives gcwatch.
    pub fn state_directory(&self) -> Option<&Path> {
        self.document.state.directory.as_deref()
    }

    /// Whether severe incidents are recorded.
    pub fn black_box(&self) -> BlackBoxOptions {
        BlackBoxOptions::from(&self.document.evidence.black_box)
    }

    /// Whether incidents have bursts.
    pub fn bursts(&self) -> BurstOptions {
        BurstOptions::from(&self.document.evidence)
    }

    /// Telemetry of gcwatch itself over OTLP.
    pub fn self_telemetry(&self) -> &SelfTelemetryOptions {
        &self.self_telemetry
    }

    fn secret_files(&self) -> Vec<PathBuf> {
        let otlp = &self.document.otlp;
        let sections = [
            &otlp.headers_from,
            &otlp.traces.headers_from,
            &otlp.metrics.headers_from,
            &otlp.logs.headers_from,
            &otlp.profiles.headers_from,
        ];
        let sources = sections.into_iter().flat_map(|section| section.values());
        let alerts = &self.document.alerts;
        let alertmanagers = alerts.alertmanagers.iter().flat_map(|keys| keys.headers_from.values());
        let webhooks = alerts.webhooks.iter().flat_map(|keys| {
            let own = [&keys.url_from, &keys.secret_from];
            keys.headers_from.values().chain(own.into_iter().flatten())
        });
        let web = self
            .document
            .web
            .users_from
            .values()
            .chain(&self.document.web.token_from);
        let sources = sources.chain(alertmanagers).chain(webhooks).chain(web);
        sources.filter_map(|source| source.file.clone()).collect()
    }

    /// The configuration as a YAML file with the origin of each value, without secrets.
    pub fn print(&self) -> String {
        print::print(self)
    }

    /// The differences of `new`, and which of them need a restart.
    pub fn changes(&self, new: &Self) -> Change {
        let different = [
            (Section::Targets, self.targets != new.targets),
            (Section::Otlp, self.otlp != new.otlp),
            (Section::Spans, self.spans != new.spans),
            (Section::Metrics, self.metrics != new.metrics),
            (Section::Rules, self.rules != new.rules),
            (Section::Alerts, self.alerts != new.alerts),
            (Section::Kubernetes, self.kubernetes != new.kubernetes),
            (Section::Resource, self.resource != new.resource),
            (Section::Listen, self.listen() != new.listen()),
            (Section::Web, self.web != new.web),
            (Section::Evidence, self.bursts() != new.bursts()),
            (Section::Log, self.log != new.log),
            (Section::SelfTelemetry, self.self_telemetry != new.self_telemetry),
        ];
        let sections = different.into_iter().filter(|(_, different)| *different);
        Change {
            sections: sections.map(|(section, _)| section).collect(),
            restart: change::restart(&self.document, &new.document),
        }
    }
}
