//! What answers are made of: the pipeline, and what only the daemon knows, which it gives as sources. So a command that
//! replays serves the same site, with sources of its own.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use delivery::clock::now_unix_ns;
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use crate::pipeline::Pipeline;
use crate::records::view::{ListenerRecord, WatcherRecord};
use crate::web::events::{MOST_VIEWERS, Viewers};

/// Source of the daemon's own metrics.
pub trait OwnMetrics: Send + Sync + std::fmt::Debug {
    /// The daemon's resource and the current values of its metrics.
    fn own_metrics(&self, now_unix_ns: u64) -> (Arc<Origin>, Vec<Metric>);
}

/// A part of the daemon that must be alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartAge {
    /// Its name, one word.
    pub name: &'static str,
    /// How long ago it was alive.
    pub age: Duration,
    /// That is too long.
    pub is_late: bool,
}

/// Source of `/livez`.
pub trait LiveInfo: Send + Sync + std::fmt::Debug {
    /// The parts that must be alive; none for a command that only replays.
    fn parts(&self) -> Vec<PartAge>;
}

/// Source of the state of the rule files.
pub trait RuleInfo: Send + Sync + std::fmt::Debug {
    /// Files, health, errors, warnings, and when the rules in force were read.
    fn rule_files(&self) -> serde_json::Value;
}

/// Source of what is said of gcwatch itself.
pub trait WatcherInfo: Send + Sync + std::fmt::Debug {
    /// All of it, but for the listener.
    fn watcher(&self, now_unix_ns: u64) -> WatcherRecord;

    /// The name of this host.
    fn host(&self) -> Option<String>;
}

/// The sources of all answers.
#[derive(Debug, Clone)]
pub struct Site {
    /// Targets, collections, alerts and metrics.
    pub pipeline: Pipeline,
    /// The daemon's own metrics.
    pub own: Arc<dyn OwnMetrics>,
    /// Which parts are alive.
    pub live: Arc<dyn LiveInfo>,
    /// State of the rule files.
    pub rules: Arc<dyn RuleInfo>,
    /// gcwatch itself.
    pub watcher: Arc<dyn WatcherInfo>,
    /// The answer of `/readyz`: true from the first complete scan until shutdown.
    pub ready: Arc<AtomicBool>,
    /// Where traces are shown, with `{trace_id}`.
    pub trace_url: Option<Arc<str>>,
    /// Where a service's figures are shown, with `{service}`.
    pub grafana_url: Option<Arc<str>>,
    pub(super) viewers: Arc<Viewers>,
}

impl Site {
    /// Answers from these sources.
    pub fn new(
        pipeline: Pipeline,
        own: Arc<dyn OwnMetrics>,
        live: Arc<dyn LiveInfo>,
        rules: Arc<dyn RuleInfo>,
        watcher: Arc<dyn WatcherInfo>,
        ready: Arc<AtomicBool>,
    ) -> Self {
        Self {
            pipeline,
            own,
            live,
            rules,
            watcher,
            ready,
            trace_url: None,
            grafana_url: None,
            viewers: Arc::default(),
        }
    }

    /// What is said of gcwatch itself, with the listener.
    pub(super) fn watcher_record(&self) -> WatcherRecord {
        let listener = ListenerRecord {
            viewers: self.viewers.count(),
            most_viewers: MOST_VIEWERS,
        };
        WatcherRecord {
            listener,
            ..self.watcher.watcher(now_unix_ns())
        }
    }
}
