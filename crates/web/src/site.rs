//! What answers are made of: views of what is observed, and what only the daemon knows, which it gives as sources. So a
//! command that replays serves the same site, with sources of its own.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::clock::now_unix_ns;
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use crate::events::{MOST_VIEWERS, Viewers};
use api::view::{
    AlertView, CollectionRecord, HistoryColumns, ListenerRecord, NoCollection, ProcessRecord, ProcessRow,
    ReportedRequests, RuleView, TargetView, WatcherRecord,
};
use evidence::black_box::files::Files;
use gc_rules::incident::IncidentRecord;

/// Source of what is observed: processes, collections, rules, incidents. Every answer is a copy.
pub trait Views: Send + Sync + std::fmt::Debug {
    /// Every open incident, the most severe first; after them those that ended, the newest first.
    fn incidents(&self) -> Vec<IncidentRecord>;

    /// Every process as a row, by pid. `sparks`: with its half hour.
    fn rows(&self, incidents: &[IncidentRecord], sparks: bool) -> Vec<ProcessRow>;

    /// The processes that exited and are remembered, the newest first.
    fn exited_rows(&self, incidents: &[IncidentRecord]) -> Vec<ProcessRow>;

    /// How many processes are in each state, by its word.
    fn states(&self) -> BTreeMap<&'static str, u64>;

    /// Every process that is known, by pid.
    fn targets(&self) -> Vec<TargetView>;

    /// Everything of one process; `None`: none of that pid is known.
    fn process(&self, pid: u32) -> Option<ProcessRecord>;

    /// Somebody looks at the memory of a process: it is measured, unless that was done shortly before.
    fn look_at_memory(&self, pid: u32) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// One collection of a process.
    ///
    /// # Errors
    ///
    /// When the process or the collection is not known.
    fn collection(&self, pid: u32, number: u64) -> Result<CollectionRecord, NoCollection>;

    /// The last collections of each process (or of one), newest first, at most `limit` of each.
    fn collections(&self, pid: Option<u32>, limit: usize) -> Vec<serde_json::Value>;

    /// The last hours of a process; blocking. `None`: none of that pid is known, or nothing is kept.
    ///
    /// # Errors
    ///
    /// When its file cannot be read.
    fn long_history(&self, pid: u32, hours: u64) -> Option<io::Result<HistoryColumns>>;

    /// The requests that collections stopped most; `None`: there is no such process, or its requests are not observed.
    fn request_view(&self, pid: u32) -> Option<ReportedRequests>;

    /// Every rule in force, with its states in all processes, or in that of a pid.
    fn rule_views(&self, pid: Option<u32>) -> Vec<RuleView>;

    /// Every alert that fires: the most severe first, then the newest.
    fn alerts(&self) -> Vec<AlertView>;

    /// The metrics of every process, counted from its first attach.
    fn collect(&self, now_unix_ns: u64) -> Vec<(Arc<Origin>, Vec<Metric>)>;

    /// The recordings of incidents; `None`: none are made.
    fn black_box_files(&self) -> Option<Arc<Files>>;

    /// The flame graph of that name (SVG); `None`: it is not there, or not any more.
    fn flame_graph(&self, name: &str) -> Option<String>;
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

/// Source of what is said of gcwatch itself.
pub trait WatcherInfo: Send + Sync + std::fmt::Debug {
    /// The parts that must be alive; none for a command that only replays.
    fn parts(&self) -> Vec<PartAge>;

    /// The daemon's resource and the current values of its metrics.
    fn own_metrics(&self, now_unix_ns: u64) -> (Arc<Origin>, Vec<Metric>);

    /// Files of rules, health, errors, warnings, and when the rules in force were read.
    fn rule_files(&self) -> serde_json::Value;

    /// All of it, but for the listener.
    fn watcher(&self, now_unix_ns: u64) -> WatcherRecord;

    /// The name of this host.
    fn host(&self) -> Option<String>;
}

/// The sources of all answers.
#[derive(Debug, Clone)]
pub struct Site {
    /// Targets, collections, alerts and metrics.
    pub views: Arc<dyn Views>,
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
    pub fn new(views: Arc<dyn Views>, watcher: Arc<dyn WatcherInfo>, ready: Arc<AtomicBool>) -> Self {
        Self {
            views,
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
