//! Converts the pipeline's state to the records of the API and the page.
//!
//! This module selects and orders the processes of a record. The submodules build the part of a record about one run,
//! and take no locks. A thread that holds the incident owner must not look at a run (`incident_owner`).

pub(crate) mod collection;
pub(crate) mod history;
pub(crate) mod process;
pub(crate) mod row;
mod rule;
mod target;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use api::view::{
    AlertView, ChangeRecord, CollectionLookupError, CollectionRecord, HistoryColumns, ProcessRecord, ProcessRow,
    ReportedRequests, RuleView, SizingRecord, TargetView,
};
use base::time::Moment;
use evidence::black_box::files::Files;
use gc_telemetry::definition::resource::K8S_NAMESPACE_NAME;
use gc_telemetry::options::{Aggregate, Temporality};
use gc_telemetry::origin::Origin;
use gc_telemetry::value::text;
use incidents::IncidentRecord;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use processes::service::workload;
use processes::{Identity, RunState};
use run::history::{BUCKET_NS, Bucket, RetainedCollection, stored};
use targets::host::now;
use web::Views;

use crate::pipeline::changes::service_of;
use crate::pipeline::exited::ExitedRun;
use crate::pipeline::memory_count::look_at_memory;
use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::registry::Pipeline;
use crate::pipeline::shared::{UnreadProcess, add_unknown};

/// Number of buckets per hour.
const HOUR: u64 = 3600 * 1_000_000_000 / BUCKET_NS;

/// Maximum number of groups that keep their namespace and workload. Further groups are merged by reason.
const MAX_WORKLOADS: usize = 200;

/// A group of processes that gcwatch does not read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnattachedGroup {
    /// Reason, in one word.
    pub reason: String,
    /// Kubernetes namespace; `None` outside Kubernetes, if the processes are not read on purpose, or if the limit of
    /// groups is reached.
    pub namespace: Option<String>,
    /// Workload; `None` if the processes are not read on purpose (excluded, or held by another instance), or if the
    /// limit of groups is reached.
    pub workload: Option<String>,
}

/// Keeps the largest groups. Processes of the remaining groups are counted by reason.
fn bounded(counts: BTreeMap<UnattachedGroup, u64>) -> BTreeMap<UnattachedGroup, u64> {
    let mut groups: Vec<(UnattachedGroup, u64)> = counts.into_iter().collect();
    groups.sort_by_key(|(_, count)| Reverse(*count));
    let mut bounded = BTreeMap::new();
    for (place, (group, count)) in groups.into_iter().enumerate() {
        let group = if place < MAX_WORKLOADS {
            group
        } else {
            UnattachedGroup {
                namespace: None,
                workload: None,
                ..group
            }
        };
        *bounded.entry(group).or_insert(0) += count;
    }
    bounded
}

/// The records of a pipeline.
#[derive(Debug, Clone)]
pub struct Records(Pipeline);

impl Records {
    /// Creates the records of a pipeline.
    pub fn new(pipeline: &Pipeline) -> Self {
        Self(pipeline.clone())
    }

    /// Returns the number of processes that are not read, by reason.
    pub fn reasons(&self) -> BTreeMap<String, u64> {
        self.count(RunState::not_attached)
    }

    /// Returns the number of processes that are not read, by reason, namespace and workload. Only the `MAX_WORKLOADS`
    /// largest groups keep their namespace and workload. Processes that are not read on purpose have neither namespace
    /// nor workload.
    pub fn not_attached(&self) -> BTreeMap<UnattachedGroup, u64> {
        let mut counts = BTreeMap::new();
        let mut count = |state: &RunState, identity: &Identity, resource: &[KeyValue]| {
            let Some(reason) = state.not_attached() else { return };
            let is_meant = matches!(state, RunState::Excluded | RunState::HeldElsewhere { .. });
            let group = UnattachedGroup {
                reason,
                namespace: text(resource, K8S_NAMESPACE_NAME.name).filter(|_| !is_meant),
                workload: (!is_meant).then(|| workload(identity, resource)),
            };
            *counts.entry(group).or_insert(0) += 1;
        };
        for run in self.0.runs() {
            let run = run.look();
            count(
                &run.session.state,
                run.identity.who(),
                &run.identity.resource().attributes,
            );
        }
        for noted in self.noted(None) {
            count(&noted.state, &noted.identity, &noted.identity.resource);
        }
        bounded(counts)
    }

    /// Counts processes by a value derived from their state. A process without a value is not counted.
    fn count<W: Ord>(&self, said: impl Fn(&RunState) -> Option<W>) -> BTreeMap<W, u64> {
        let mut counts = BTreeMap::new();
        let runs = self.0.runs().into_iter();
        let read = runs.filter_map(|run| said(&run.look().session.state));
        let noted = self.noted(None).into_iter().filter_map(|noted| said(&noted.state));
        for word in read.chain(noted) {
            *counts.entry(word).or_default() += 1;
        }
        counts
    }

    /// Returns the processes without a feed, or only the processes with the given pid, with the metadata of the
    /// orchestrator.
    fn noted(&self, pid: Option<u32>) -> Vec<UnreadProcess> {
        let shared = self.0.shared();
        let is_meant = |noted: &&UnreadProcess| pid.is_none_or(|pid| noted.identity.key.pid == pid);
        let mut noted: Vec<UnreadProcess> = shared.processes().noted.values().filter(is_meant).cloned().collect();
        for UnreadProcess { identity, .. } in &mut noted {
            add_unknown(&mut identity.resource, &shared.metadata(&identity.provenance));
        }
        noted
    }

    /// Returns the newest run of a pid that gcwatch reads or has read. An exited run is returned, with its exit, only
    /// if no other process has its pid. Returns `None` if there is no such run.
    fn run_of(&self, pid: u32) -> Option<(Arc<ObservedRun>, Option<ExitedRun>)> {
        let processes = self.0.shared().processes();
        let live = processes.runs.values().rfind(|run| run.key().pid == pid);
        if let Some(run) = live {
            return Some((Arc::clone(run), None));
        }
        if processes.noted.keys().any(|key| key.pid == pid) {
            return None;
        }
        let exited = processes.exited.find(pid)?.clone();
        Some((Arc::clone(&exited.run), Some(exited)))
    }

    /// Returns the records of all services, or only of the service of the process with this pid. The result is empty if
    /// no process with the pid is known.
    fn for_service<T>(&self, pid: Option<u32>, records: impl Fn(Option<&str>) -> Vec<T>) -> Vec<T> {
        let Some(pid) = pid else { return records(None) };
        let service = self.run_of(pid).map(|(run, _)| service_of(&run.look()));
        service.map_or_else(Vec::new, |service| records(Some(service.text())))
    }
}

impl Views for Records {
    fn incidents(&self) -> Vec<IncidentRecord> {
        let wall = self.0.wall();
        let runs = self.0.runs().into_iter();
        let mut open: Vec<IncidentRecord> = runs.flat_map(|run| rule::incidents(&run.look(), wall)).collect();
        let owner = self.0.shared().incidents();
        open.extend(owner.open().flat_map(|subject| subject.records(wall)));
        // An incident whose process exited during this function can appear twice.
        let mut met = HashSet::new();
        open.retain(|record| met.insert(record.id.clone()));
        open.sort_by_key(|record| (Reverse(record.severity), Reverse(record.since.clone())));
        open.extend(owner.ended().cloned());
        let store = self.0.shared().store.get().map(|store| &**store.base());
        open.into_iter().map(|record| record.in_store(store)).collect()
    }

    fn rows(&self, incidents: &[IncidentRecord], sparks: bool) -> Vec<ProcessRow> {
        let (open, wall, now) = (row::open_incidents(incidents), self.0.wall(), now());
        let runs = self.0.runs().into_iter();
        let mut rows: Vec<ProcessRow> = runs.map(|run| row::row_of(&run.look(), &open, sparks, now)).collect();
        rows.extend(
            self.noted(None)
                .iter()
                .map(|noted| row::row_of_noted(noted, &open, wall)),
        );
        rows.sort_by_key(|row| (row.pid, row.start_time));
        rows
    }

    fn exited_rows(&self, incidents: &[IncidentRecord]) -> Vec<ProcessRow> {
        let (open, now) = (row::open_incidents(incidents), now());
        let exited: Vec<ExitedRun> = self.0.shared().processes().exited.all().cloned().collect();
        let row = |ExitedRun { run, why, .. }| ProcessRow {
            detail: why.map(str::to_owned),
            ..row::row_of(&run.look(), &open, false, now)
        };
        exited.into_iter().map(row).collect()
    }

    fn states(&self) -> BTreeMap<&'static str, u64> {
        self.count(|state| Some(state.word()))
    }

    fn targets(&self) -> Vec<TargetView> {
        let wall = self.0.wall();
        let runs = self.0.runs().into_iter();
        let mut targets: Vec<TargetView> = runs.map(|run| target::target_of(&run.look())).collect();
        targets.extend(
            self.noted(None)
                .iter()
                .map(|noted| target::target_of_noted(noted, wall)),
        );
        targets.sort_by_key(|target| target.pid);
        targets
    }

    fn process(&self, pid: u32) -> Option<ProcessRecord> {
        let (now, mut incidents) = (now(), self.incidents());
        let open = row::open_incidents(&incidents);
        incidents.retain(|incident| incident.pid == Some(pid));
        // Read the noted processes before the runs, so that a process that is attached during this function is found
        // among the runs.
        let noted = self.noted(Some(pid)).into_iter().next();
        let Some((run, exited)) = self.run_of(pid) else {
            let wall = self.0.wall();
            return noted.map(|noted| {
                process::unread(
                    &noted,
                    row::row_of_noted(&noted, &open, wall),
                    incidents,
                    wall.unix_ms(now),
                )
            });
        };
        let run = run.look();
        let mut row = row::row_of(&run, &open, true, now);
        if let Some(exited) = &exited {
            row.detail = exited.why.map(str::to_owned);
        }
        let folder = self.0.shared().history.get();
        let kept_from_ms = folder.and_then(|folder| folder.first(run.key())).map(history::start_ms);
        let service = service_of(&run);
        let changes = self.0.shared().change_records(Some(service.text()));
        let sizing = self.0.shared().sizing_records(Some(service.text())).into_iter().next();
        Some(process::read(
            &run,
            row,
            (incidents, changes, sizing),
            kept_from_ms,
            run.present(now),
        ))
    }

    fn look_at_memory(&self, pid: u32) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(look_at_memory(&self.0, pid))
    }

    fn collection(&self, pid: u32, number: u64) -> Result<CollectionRecord, CollectionLookupError> {
        let (run, _) = self.run_of(pid).ok_or(CollectionLookupError::NoProcess)?;
        collection::find_record(&run.look(), number)
    }

    fn collections(&self, pid: Option<u32>, limit: usize) -> Vec<serde_json::Value> {
        let mut records = Vec::new();
        for run in self.0.runs() {
            let key = run.key();
            if pid.is_some_and(|pid| pid != key.pid) {
                continue;
            }
            let (ns_pid, wall, recent) = {
                let run = run.look();
                let recent: Vec<RetainedCollection> = run.history.kept.newest().cloned().collect();
                (run.identity.who().ns_pid, run.wall, recent)
            };
            records.extend(collection::newest(recent, limit, wall, key.pid, ns_pid));
        }
        records
    }

    fn long_history(&self, pid: u32, hours: u64) -> Option<io::Result<HistoryColumns>> {
        let folder = self.0.shared().history.get()?;
        let (observed, _) = self.run_of(pid)?;
        let run = observed.look();
        let now = run.present(now());
        // Buckets that were stored before the clock was set have the time of the old clock.
        let (newest, attached, wall) = (run.history.unkept(now), run.session.first_attach, run.wall);
        drop(run);
        let mut all: BTreeMap<u64, Bucket> = match folder.read(observed.key()) {
            Ok(kept) => kept.into_iter().map(|bucket| (bucket.index, bucket)).collect(),
            Err(error) => return Some(Err(error)),
        };
        let first = all.keys().next().copied().map(history::start_ms);
        let newest = newest.into_iter().map(|bucket| bucket.on(wall));
        all.extend(newest.map(|bucket| (bucket.index, bucket)));
        let from = (wall.unix_ns(now) / BUCKET_NS + 1).saturating_sub(hours.saturating_mul(HOUR));
        let buckets = stored::merged(all.split_off(&from).into_values(), hours);
        let attached = attached.map(|at| wall.unix_ms(at)).into_iter().chain(first).min();
        Some(Ok(history::columns(
            buckets,
            hours,
            hours.saturating_mul(HOUR),
            attached,
        )))
    }

    fn request_view(&self, pid: u32) -> Option<ReportedRequests> {
        let (run, _) = self.run_of(pid)?;
        let run = run.look();
        run.requests.worst(run.present(now()))
    }

    fn rule_views(&self, pid: Option<u32>) -> Vec<RuleView> {
        let is_meant = |of: u32| pid.is_none_or(|pid| of == pid);
        let (set, counts, wall) = (self.0.rules(), self.0.rule_counts(), self.0.wall());
        let mut states = rule::States::default();
        for run in self.0.runs().into_iter().filter(|run| is_meant(run.key().pid)) {
            rule::add_run(&mut states, &run.look());
        }
        for (of, rule, state) in self.0.shared().incidents().judged.states() {
            if is_meant(of.run.pid) {
                let at = || rule::firing(of.run.pid, &of.process, &of.resource, wall.rfc3339(state.since));
                rule::add(&mut states, rule, &state, at);
            }
        }
        rule::views(&set, &counts, states)
    }

    fn alerts(&self) -> Vec<AlertView> {
        let wall = self.0.wall();
        let runs = self.0.runs().into_iter();
        let mut alerts: Vec<(Moment, AlertView)> = runs.flat_map(|run| rule::alerts(&run.look())).collect();
        for (of, alert, group) in self.0.shared().incidents().judged.alerts() {
            let view = rule::alert_view(&alert, group.as_deref(), of.run.pid, &of.process, &of.resource, wall);
            alerts.push((alert.started, view));
        }
        alerts.sort_by_key(|(started, alert)| Reverse((alert.alert.severity, *started)));
        alerts.into_iter().map(|(_, alert)| alert).collect()
    }

    fn changes(&self, pid: Option<u32>) -> Vec<ChangeRecord> {
        let shared = self.0.shared();
        self.for_service(pid, |service| shared.change_records(service))
    }

    fn sizing(&self, pid: Option<u32>) -> Vec<SizingRecord> {
        let shared = self.0.shared();
        self.for_service(pid, |service| shared.sizing_records(service))
    }

    fn collect(&self, now_unix_ns: u64) -> Vec<(Arc<Origin>, Vec<Metric>)> {
        let (runs, shared) = (self.0.runs(), self.0.shared());
        match shared.settings().metrics.aggregate {
            Aggregate::Service => shared.collect_services(&runs, (0, 1), now_unix_ns, Temporality::Cumulative),
            Aggregate::Process => {
                let runs = runs.into_iter();
                runs.filter_map(|run| run.metrics(now_unix_ns, Temporality::Cumulative))
                    .collect()
            }
        }
    }

    fn black_box_files(&self) -> Option<Arc<Files>> {
        let black_box = self.0.shared().black_box.get()?;
        Some(Arc::clone(black_box.files()))
    }

    fn flame_graph(&self, name: &str) -> Option<String> {
        self.0.flames().get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: there are more workloads than the limit; the smaller workloads have another reason.
    /// Guarantee: no process is missing, the smaller workloads are merged into one group of their reason, and the
    /// number of groups is bounded.
    #[test]
    fn groups_are_bounded() {
        let group = |number: usize, reason: &str| UnattachedGroup {
            reason: reason.to_owned(),
            namespace: Some("shop".to_owned()),
            workload: Some(format!("deployment/{number}")),
        };
        let large = (0..MAX_WORKLOADS).map(|number| (group(number, "permission"), 5));
        let small = (0..100).map(|number| (group(number, "no-socket"), 1));
        let groups = bounded(large.chain(small).collect());
        assert_eq!(groups.len(), MAX_WORKLOADS + 1);
        assert_eq!(groups.values().sum::<u64>(), 5 * MAX_WORKLOADS as u64 + 100);
        let rest = UnattachedGroup {
            reason: "no-socket".to_owned(),
            namespace: None,
            workload: None,
        };
        assert_eq!(groups.get(&rest), Some(&100));
    }
}
