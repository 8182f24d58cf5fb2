//! The daemon's own health: as metrics over OTLP and at `/metrics`, and as the record of `/api/v1/self`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use tokio::time::Instant;

use crate::daemon::bursts::BurstStats;
use crate::daemon::liveness;
use crate::daemon::logging::queue::LogQueue;
use crate::daemon::rules::RuleFiles;
use crate::daemon::{usage, watcher};
use crate::pipeline::{Pipeline, Records, RuleCounts};
use api::view::{ListenerRecord, WatcherRecord};
use base::time::rfc3339;
use delivery::alerts::Notifier;
use delivery::alerts::stats::ReceiverStats;
use delivery::otlp::Exporter;
use delivery::otlp::signal::Signal;
use delivery::otlp::stats::{SignalStats, Stats};
use gc_telemetry::definition::Attribute;
use gc_telemetry::definition::anomaly::RULE_ID;
use gc_telemetry::definition::own as row;
use gc_telemetry::definition::resource::HOST_NAME;
use gc_telemetry::snapshot::{MetricSnapshot, Number, seconds, text, whole};
use kubernetes::{self, Events, Pods, StatsNow};
use targets::Heartbeats;
use targets::guard::Guard;
use web::{PartAge, Views as _, WatcherInfo};

/// Number of reloads, by outcome.
#[derive(Debug, Default)]
pub struct Reloads {
    /// Reloads after which the new configuration is in force.
    pub accepted: AtomicU64,
    /// Reloads with an invalid configuration; the previous configuration stayed in force.
    pub refused: AtomicU64,
}

/// Number and total duration of the daemon's own stalls.
#[derive(Debug, Default)]
pub struct StallCounts {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl StallCounts {
    /// Returns the number of stalls and their total duration in nanoseconds.
    fn now(&self) -> (u64, u64) {
        (
            self.count.load(Ordering::Relaxed),
            self.nanoseconds.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn add(&self, length: Duration) {
        let ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(ns, Ordering::Relaxed);
    }
}

/// The parts of the daemon whose counters are reported.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Observes processes.
    pub pipeline: Pipeline,
    /// Exports over OTLP.
    pub exporter: Exporter,
    /// Sends alerts.
    pub notifier: Notifier,
    pub rules: Arc<RuleFiles>,
    /// Kubernetes Events on pods; `None` if disabled.
    pub events: Option<Events>,
    /// Pods on this node.
    pub pods: Arc<Pods>,
    /// Statistics of the requests to Kubernetes.
    pub pods_stats: Arc<kubernetes::Stats>,
}

/// The daemon's own metrics.
#[derive(Debug)]
pub struct OwnMetrics {
    resource: Arc<Origin>,
    /// Start of all totals. The start moves back if the wall clock is set back, so that no total starts after the time
    /// at which it is read.
    start_unix_ns: AtomicU64,
    pub(super) sources: Sources,
    /// Reloads of the daemon.
    pub reloads: Reloads,
    /// Stalls of the daemon.
    pub stalls: StallCounts,
    /// Parts that only `gcwatch run` has; unset for other commands.
    pub run: OnceLock<RunParts>,
    /// Statistics of bursts for incidents.
    pub(super) bursts: Arc<BurstStats>,
}

/// Parts that only `gcwatch run` has.
#[derive(Debug, Clone)]
pub struct RunParts {
    /// Guard of the sessions.
    pub guard: Guard,
    pub log: LogQueue,
    /// Heartbeats of the parts that read streams.
    pub alive: Arc<Heartbeats>,
}

impl OwnMetrics {
    /// Creates the metrics of a daemon that started at `start_unix_ns`.
    pub fn new(resource: Arc<Origin>, start_unix_ns: u64, sources: Sources) -> Self {
        Self {
            resource,
            start_unix_ns: AtomicU64::new(start_unix_ns),
            sources,
            reloads: Reloads::default(),
            stalls: StallCounts::default(),
            run: OnceLock::new(),
            bursts: Arc::default(),
        }
    }

    pub fn resource(&self) -> Arc<Origin> {
        Arc::clone(&self.resource)
    }

    fn targets(&self, sheet: &mut MetricSnapshot) {
        let records = Records::new(&self.sources.pipeline);
        sheet.put(&row::TARGETS, by(&row::STATE, records.states()));
        let not_attached = records.not_attached().into_iter().map(|(group, count)| {
            let mut attributes = vec![text(&row::REASON, &group.reason)];
            attributes.extend(group.namespace.map(|name| text(&row::NAMESPACE, &name)));
            attributes.extend(group.workload.map(|name| text(&row::WORKLOAD, &name)));
            (attributes, whole(count))
        });
        sheet.put(&row::NOT_ATTACHED, not_attached);
        let counts = self.sources.pipeline.counts();
        let refused = counts.over_limit.saturating_add(counts.not_noted);
        sheet.put_one(&row::TARGETS_REFUSED, Some(whole(refused)));
        sheet.put_one(&row::TARGETS_OVER_MEMORY, Some(whole(counts.over_memory)));
        sheet.put_one(&row::COLLECTIONS, Some(whole(counts.collections)));
        sheet.put_one(&row::SPANS, Some(whole(counts.spans)));
    }

    fn run(&self, sheet: &mut MetricSnapshot) {
        let Some(run) = self.run.get() else { return };
        let guard = run.guard.counts();
        let is_running = guard.running.load(Ordering::Relaxed);
        let count = |count: &AtomicU64| Some(whole(count.load(Ordering::Relaxed)));
        sheet.put_one(&row::GUARD_RUNNING, Some(whole(u64::from(is_running))));
        sheet.put_one(&row::GUARD_CLOSED, count(&guard.closed));
        sheet.put_one(&row::GUARD_RESTARTS, count(&guard.restarts));
        sheet.put_one(&row::GUARD_NOT_HELD, count(&guard.not_held));
        sheet.put_one(&row::LOG_DROPPED, Some(whole(run.log.dropped())));
        let (stalls, stalled_ns) = self.stalls.now();
        sheet.put_one(&row::STALLS, Some(whole(stalls)));
        sheet.put_one(&row::STALL_DURATION, Some(seconds(stalled_ns)));
    }

    /// Adds the numbers of bursts, unless bursts for incidents are disabled and no incident has requested one.
    fn bursts(&self, sheet: &mut MetricSnapshot) {
        if !self.bursts.is_known() {
            return;
        }
        let counts = self.bursts.counts();
        let points: Points = counts
            .map(|(kind, outcome, count)| {
                let attributes = vec![text(&row::BURST_KIND, kind), text(&row::OUTCOME, outcome)];
                (attributes, whole(count))
            })
            .collect();
        sheet.put(&row::BURSTS, points);
    }

    /// Adds the numbers of incident recordings, unless incidents are not recorded.
    fn black_box(&self, sheet: &mut MetricSnapshot) {
        let Some(files) = Records::new(&self.sources.pipeline).black_box_files() else {
            return;
        };
        sheet.put(&row::RECORDINGS, by(&row::OUTCOME, files.counts()));
    }

    /// Adds the metrics of the store for evidence, unless evidence stays on the host.
    fn store(&self, sheet: &mut MetricSnapshot) {
        let Some(store) = self.sources.pipeline.store() else {
            return;
        };
        let (files, bytes) = store.stats().waiting();
        sheet.put(&row::STORE_OBJECTS, by(&row::OUTCOME, store.stats().counts()));
        sheet.put_one(&row::STORE_FILES, Some(whole(files)));
        sheet.put_one(&row::STORE_SIZE, Some(whole(bytes)));
    }

    /// Adds the metrics of the profiles of services.
    fn profiles(&self, sheet: &mut MetricSnapshot) {
        let counts = self.sources.pipeline.counts();
        let profiles = self.sources.pipeline.profile_counts();
        let minutes = [
            ("added", profiles.minutes),
            ("unconfigured", counts.minutes_unprofiled),
            ("refused", profiles.refused_minutes),
            ("late", profiles.late_minutes),
        ];
        let evicted = [
            ("service", profiles.evicted_services),
            ("period", profiles.evicted_periods),
            ("block", profiles.evicted_blocks),
            ("change", profiles.evicted_changes),
            ("comparison", counts.comparisons_dropped),
        ];
        sheet.put(&row::PROFILE_MINUTES, by(&row::OUTCOME, minutes));
        sheet.put(&row::PROFILE_EVICTED, by(&row::PROFILE_PART, evicted));
        sheet.put_one(&row::CHANGES, Some(whole(profiles.changes)));
    }

    /// Adds the metrics of Kubernetes Events and of pods, if gcwatch uses Kubernetes.
    fn pods(&self, sheet: &mut MetricSnapshot) {
        if let Some(events) = &self.sources.events {
            sheet.put(&row::POD_EVENTS_CREATED, by(&row::OUTCOME, events.counts().now()));
        }
        let stats = self.sources.pods_stats.now();
        if stats == StatsNow::default() {
            return;
        }
        sheet.put_one(&row::PODS, Some(whole(self.sources.pods.count() as u64)));
        sheet.put_one(&row::PODS_CURRENT, Some(whole(u64::from(stats.current))));
        sheet.put_one(&row::POD_LISTS, Some(whole(stats.lists)));
        sheet.put_one(&row::POD_EVENTS, Some(whole(stats.events)));
        sheet.put_one(&row::POD_FAILURES, Some(whole(stats.failures)));
        sheet.put_one(&row::PODS_LEFT_OUT, Some(whole(stats.left_out)));
    }

    fn rules(&self, sheet: &mut MetricSnapshot) {
        let (status, set) = (self.sources.rules.status(), self.sources.pipeline.rules());
        let enabled = set.rules.iter().filter(|rule| rule.enabled).count();
        sheet.put_one(&row::RULES, Some(whole(enabled as u64)));
        let counts = self.sources.pipeline.rule_counts();
        let of = |value: fn(&RuleCounts) -> u64| by(&RULE_ID, counts.iter().map(|(rule, of)| (rule, value(of))));
        sheet.put(&row::RULE_EVALUATIONS, of(|counts| counts.evaluations));
        sheet.put(&row::RULE_FAILURES, of(|counts| counts.failures));
        let reloads = [("accepted", status.accepted), ("refused", status.refused)];
        sheet.put(&row::RULE_RELOADS, by(&row::OUTCOME, reloads));
        sheet.put_one(
            &row::RULES_CURRENT,
            Some(whole(u64::from(status.errors.is_empty() && status.left_out.is_empty()))),
        );
        sheet.put_one(&row::RULES_LOADED, status.loaded_unix_ns.map(seconds));
    }
}

impl WatcherInfo for OwnMetrics {
    fn parts(&self) -> Vec<PartAge> {
        let now = Instant::now();
        let parts = self.run.get();
        parts.map_or_else(Vec::new, |run| liveness::parts(&run.alive, &self.sources.exporter, now))
    }

    fn own_metrics(&self, now_unix_ns: u64) -> (Arc<Origin>, Vec<Metric>) {
        let start_unix_ns = self.start_unix_ns.fetch_min(now_unix_ns, Ordering::Relaxed);
        let mut sheet = MetricSnapshot::new(start_unix_ns.min(now_unix_ns), now_unix_ns);
        usage::report(&mut sheet);
        self.targets(&mut sheet);
        let reloads = [("accepted", &self.reloads.accepted), ("refused", &self.reloads.refused)];
        let reloads = reloads.map(|(outcome, count)| (outcome, count.load(Ordering::Relaxed)));
        sheet.put(&row::RELOADS, by(&row::OUTCOME, reloads));
        exports(&self.sources.exporter.stats(), &mut sheet);
        self.run(&mut sheet);
        self.black_box(&mut sheet);
        self.bursts(&mut sheet);
        self.store(&mut sheet);
        self.rules(&mut sheet);
        self.profiles(&mut sheet);
        self.pods(&mut sheet);
        notifications(&self.sources.notifier.stats(), &mut sheet);
        (Arc::clone(&self.resource), sheet.into_metrics())
    }

    fn rule_files(&self) -> serde_json::Value {
        // Strings and lists of strings can always be serialized as JSON.
        serde_json::to_value(self.sources.rules.status()).unwrap_or_default()
    }

    fn watcher(&self, now_unix_ns: u64) -> WatcherRecord {
        let sources = &self.sources;
        let (records, counts) = (Records::new(&sources.pipeline), sources.pipeline.counts());
        let targets = records.targets();
        let (stalls, stalled_ns) = self.stalls.now();
        let limits = [
            ("spans over the rate", counts.over_rate),
            ("processes over the limit of runs", counts.over_limit),
            ("sessions over their memory", counts.over_memory),
            ("processes that are not listed", counts.not_noted),
            ("readings of processes that were looked at", counts.inputs_dropped),
            ("refused configurations", self.reloads.refused.load(Ordering::Relaxed)),
            ("log records dropped", self.run.get().map_or(0, |run| run.log.dropped())),
        ];
        WatcherRecord {
            at_ms: now_unix_ns / 1_000_000,
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            started: rfc3339(self.start_unix_ns.load(Ordering::Relaxed)),
            usage: usage::record(),
            parts: self.parts().into_iter().map(watcher::part).collect(),
            receivers: watcher::receivers(
                &sources.exporter.stats(),
                sources.notifier.stats(),
                sources.pipeline.store(),
            ),
            streams: watcher::streams(counts, &targets),
            stalls,
            stalled_ns,
            listener: ListenerRecord::default(),
            not_read: records.reasons(),
            exports_runtime: watcher::exporting(&targets),
            limits: limits.into_iter().filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn host(&self) -> Option<String> {
        gc_telemetry::value::text(&self.resource.attributes, HOST_NAME.name)
    }
}

/// Adds the counters of notifications.
fn notifications(stats: &[(String, ReceiverStats)], sheet: &mut MetricSnapshot) {
    let receivers: Vec<(KeyValue, &ReceiverStats)> = stats
        .iter()
        .map(|(name, stats)| (text(&row::RECEIVER, name), stats))
        .collect();
    let each = |value: fn(&ReceiverStats) -> u64| each(&receivers, value);
    sheet.put(&row::NOTIFICATIONS, each(|stats| stats.sent));
    sheet.put(&row::NOTIFICATIONS_SUMMED_UP, each(|stats| stats.summed_up));
    sheet.put(&row::NOTIFICATION_QUEUE, each(|stats| stats.queued));
    let failures = each_by(&receivers, &row::ERROR_TYPE, |stats| stats.failures());
    sheet.put(&row::NOTIFICATION_FAILURES, failures);
    let dropped = each_by(&receivers, &row::ERROR_TYPE, |stats| stats.dropped());
    sheet.put(&row::NOTIFICATIONS_DROPPED, dropped);
}

type Points = Vec<(Vec<KeyValue>, Number)>;

/// Returns a point for each value of an attribute.
fn by<V: AsRef<str>>(attribute: &'static Attribute, counts: impl IntoIterator<Item = (V, u64)>) -> Points {
    let point = |(value, count): (V, u64)| (vec![text(attribute, value.as_ref())], whole(count));
    counts.into_iter().map(point).collect()
}

/// Returns a point for each element.
fn each<S>(all: &[(KeyValue, &S)], value: fn(&S) -> u64) -> Points {
    let point = |(of, stats): &(KeyValue, &S)| (vec![of.clone()], whole(value(stats)));
    all.iter().map(point).collect()
}

/// Returns a point for each element and each value of an attribute.
fn each_by<S, const N: usize>(
    all: &[(KeyValue, &S)],
    attribute: &'static Attribute,
    values: fn(&S) -> [(&'static str, u64); N],
) -> Points {
    let points = all.iter().flat_map(|(of, stats)| {
        let point = |(value, count)| (vec![of.clone(), text(attribute, value)], whole(count));
        values(stats).map(point)
    });
    points.collect()
}

/// Adds the counters of the OTLP client, except for signals that are not exported.
fn exports(stats: &Stats, sheet: &mut MetricSnapshot) {
    let signals: Vec<(KeyValue, &SignalStats)> = Signal::ALL
        .iter()
        .map(|signal| (text(&row::SIGNAL, signal.name()), stats.get(*signal)))
        .filter(|(_, stats)| stats.configured)
        .collect();
    let each = |value: fn(&SignalStats) -> u64| each(&signals, value);
    sheet.put(&row::QUEUE_ITEMS, each(|stats| stats.queued + stats.in_flight));
    sheet.put(&row::QUEUE_SIZE, each(|stats| stats.queued_bytes));
    if let Some(works) = stats.disk_works {
        sheet.put(&row::DISK_ITEMS, each(|stats| stats.stored));
        sheet.put(&row::DISK_SIZE, each(|stats| stats.stored_bytes));
        sheet.put_one(&row::DISK_USABLE, Some(whole(u64::from(works))));
    }
    sheet.put(&row::EXPORTED, each(|stats| stats.exported));
    sheet.put(&row::REJECTED, each(|stats| stats.rejected));
    sheet.put(&row::RETRIES, each(|stats| stats.retries));
    sheet.put(&row::EXPORTED_SIZE, each(|stats| stats.exported_bytes));
    sheet.put(&row::UNSUPPORTED, each(|stats| u64::from(stats.unsupported)));
    let dropped = each_by(&signals, &row::ERROR_TYPE, |stats| stats.dropped.by_reason());
    sheet.put(&row::DROPPED, dropped);
    let requests = each_by(&signals, &row::OUTCOME, |stats| stats.requests.by_outcome());
    sheet.put(&row::REQUESTS, requests);
}
