//! Sources of responses: views of observed data, and data that only the daemon has. A command that replays a recording
//! serves the same site from other sources.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::clock::now_unix_ns;
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use crate::viewers::{MAX_VIEWERS, Viewers};
use api::view::{
    AlertView, ChangeRecord, CollectionLookupError, CollectionRecord, HistoryColumns, ListenerRecord, ProcessRecord,
    ProcessRow, ReportedRequests, RuleView, SizingRecord, TargetView, WatcherRecord,
};
use evidence::black_box::files::Files;
use incidents::IncidentRecord;

/// Source of observed data: processes, collections, rules, incidents. Each result is a copy.
pub trait Views: Send + Sync + std::fmt::Debug {
    /// Returns all open incidents, most severe first, then all ended incidents, newest first.
    fn incidents(&self) -> Vec<IncidentRecord>;

    /// Returns all processes as rows, by pid; with their half-hour histories if `sparks` is `true`.
    fn rows(&self, incidents: &[IncidentRecord], sparks: bool) -> Vec<ProcessRow>;

    /// Returns the retained exited processes, newest first.
    fn exited_rows(&self, incidents: &[IncidentRecord]) -> Vec<ProcessRow>;

    /// Returns the number of processes in each state.
    fn states(&self) -> BTreeMap<&'static str, u64>;

    /// Returns all known processes, by pid.
    fn targets(&self) -> Vec<TargetView>;

    /// Returns all data of a process; `None` if no process with the pid is known.
    fn process(&self, pid: u32) -> Option<ProcessRecord>;

    /// Measures the memory of a process for a viewer, unless a recent measurement exists.
    fn look_at_memory(&self, pid: u32) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns a collection of a process.
    ///
    /// # Errors
    ///
    /// Returns an error if the process or the collection is unknown.
    fn collection(&self, pid: u32, number: u64) -> Result<CollectionRecord, CollectionLookupError>;

    /// Returns the last collections of each process or of one process, newest first, at most `limit` per process.
    fn collections(&self, pid: Option<u32>, limit: usize) -> Vec<serde_json::Value>;

    /// Returns the last hours of a process; `None` if the pid is unknown or no history is kept. Blocks the calling
    /// thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    fn long_history(&self, pid: u32, hours: u64) -> Option<io::Result<HistoryColumns>>;

    /// Returns the requests with the longest stops by collections; `None` if the process is unknown or its requests are
    /// not observed.
    fn request_view(&self, pid: u32) -> Option<ReportedRequests>;

    /// Returns all active rules with their states in all processes, or only in the process with this pid.
    fn rule_views(&self, pid: Option<u32>) -> Vec<RuleView>;

    /// Returns all firing alerts, most severe first, then newest first.
    fn alerts(&self) -> Vec<AlertView>;

    /// Returns the changes of configurations of all services, or only of the service of the process with this pid,
    /// newest first. The result is empty if no process with the pid is known.
    fn changes(&self, pid: Option<u32>) -> Vec<ChangeRecord>;

    /// Returns the memory that each service needs, or only the service of the process with this pid. The result is
    /// empty if no process with the pid is known.
    fn sizing(&self, pid: Option<u32>) -> Vec<SizingRecord>;

    /// Returns the metrics of all processes, counted from the first attach of each process.
    fn collect(&self, now_unix_ns: u64) -> Vec<(Arc<Origin>, Vec<Metric>)>;

    /// Returns the recordings of incidents; `None` if recordings are disabled.
    fn black_box_files(&self) -> Option<Arc<Files>>;

    /// Returns the flame graph with this name (SVG), or `None` if the flame graph does not exist.
    fn flame_graph(&self, name: &str) -> Option<String>;
}

/// Part of the daemon that must be alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartAge {
    /// Name, one word.
    pub name: &'static str,
    /// Time since the last sign of life.
    pub age: Duration,
    /// Whether the age is too high.
    pub is_late: bool,
}

/// Source of data about gcwatch.
pub trait WatcherInfo: Send + Sync + std::fmt::Debug {
    /// Returns the parts that must be alive; empty for a command that only replays.
    fn parts(&self) -> Vec<PartAge>;

    /// Returns the resource of the daemon and the current values of its metrics.
    fn own_metrics(&self, now_unix_ns: u64) -> (Arc<Origin>, Vec<Metric>);

    /// Returns rule files, health, errors, warnings, and the time when the active rules were read.
    fn rule_files(&self) -> serde_json::Value;

    /// Returns the record of gcwatch, without the listener.
    fn watcher(&self, now_unix_ns: u64) -> WatcherRecord;

    /// Returns the name of this host.
    fn host(&self) -> Option<String>;
}

/// Sources of all responses.
#[derive(Debug, Clone)]
pub struct Site {
    /// Targets, collections, alerts and metrics.
    pub views: Arc<dyn Views>,
    /// Data about gcwatch.
    pub watcher: Arc<dyn WatcherInfo>,
    /// Response of `/readyz`: `true` from the first complete scan until shutdown.
    pub ready: Arc<AtomicBool>,
    /// URL of a trace with `{trace_id}`; `None` shows ids as plain text.
    pub trace_url: Option<Arc<str>>,
    /// URL of a service's dashboard with `{service}`; `None` shows no links.
    pub grafana_url: Option<Arc<str>>,
    pub(super) viewers: Arc<Viewers>,
}

impl Site {
    /// Creates a site from these sources.
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

    /// Returns the record of gcwatch, with the listener.
    pub(super) fn watcher_record(&self) -> WatcherRecord {
        let listener = ListenerRecord {
            viewers: self.viewers.count(),
            most_viewers: MAX_VIEWERS,
        };
        WatcherRecord {
            listener,
            ..self.watcher.watcher(now_unix_ns())
        }
    }
}
