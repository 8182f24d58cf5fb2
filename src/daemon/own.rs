//! The daemon's own health as metrics: the same numbers over OTLP and at `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::daemon::usage;
use crate::export::otlp::Exporter;
use crate::export::otlp::signal::Signal;
use crate::export::otlp::stats::{SignalStats, Stats};
use crate::pipeline::Pipeline;
use crate::telemetry::definition::own as row;
use crate::telemetry::sheet::{Number, Sheet, text, whole};
use crate::web::OwnMetrics;

/// What reload counts.
#[derive(Debug, Default)]
pub struct Reloads {
    /// The new configuration is in force.
    pub accepted: AtomicU64,
    /// It was wrong, and the old one stayed.
    pub refused: AtomicU64,
}

/// The daemon's own metrics.
#[derive(Debug)]
pub struct Own {
    resource: Arc<Resource>,
    start_unix_ns: u64,
    pipeline: Pipeline,
    exporter: Exporter,
    /// Counted by the daemon.
    pub reloads: Reloads,
}

impl Own {
    /// Metrics of a daemon that began at `start_unix_ns`.
    pub fn new(resource: Arc<Resource>, start_unix_ns: u64, pipeline: Pipeline, exporter: Exporter) -> Self {
        Self {
            resource,
            start_unix_ns,
            pipeline,
            exporter,
            reloads: Reloads::default(),
        }
    }

    /// Its resource.
    pub fn resource(&self) -> Arc<Resource> {
        Arc::clone(&self.resource)
    }

    fn targets(&self, sheet: &mut Sheet) {
        let by_state = self.pipeline.states();
        let points = by_state
            .into_iter()
            .map(|(state, count)| (vec![text(&row::STATE, state)], whole(count)));
        sheet.put(&row::TARGETS, points);
        let counts = self.pipeline.counts();
        let refused = counts.over_limit.saturating_add(counts.not_noted);
        sheet.put_one(&row::TARGETS_REFUSED, Some(whole(refused)));
        sheet.put_one(&row::COLLECTIONS, Some(whole(counts.collections)));
        sheet.put_one(&row::SPANS, Some(whole(counts.spans)));
    }
}

impl OwnMetrics for Own {
    fn own_metrics(&self, now_unix_ns: u64) -> (Arc<Resource>, Vec<Metric>) {
        let mut sheet = Sheet::new(self.start_unix_ns, now_unix_ns);
        usage::tell(&mut sheet);
        self.targets(&mut sheet);
        let reloads = [("accepted", &self.reloads.accepted), ("refused", &self.reloads.refused)];
        let points = reloads.map(|(outcome, count)| {
            let count = count.load(Ordering::Relaxed);
            (vec![text(&row::OUTCOME, outcome)], whole(count))
        });
        sheet.put(&row::RELOADS, points);
        exports(&self.exporter.stats(), &mut sheet);
        (Arc::clone(&self.resource), sheet.into_metrics())
    }
}

type Points = Vec<(Vec<KeyValue>, Number)>;

/// What became of the items that were given to the OTLP client; nothing of a signal that goes nowhere.
fn exports(stats: &Stats, sheet: &mut Sheet) {
    let signals: Vec<(KeyValue, &SignalStats)> = Signal::ALL
        .iter()
        .map(|signal| (text(&row::SIGNAL, signal.name()), stats.of(*signal)))
        .filter(|(_, stats)| stats.configured)
        .collect();
    let each = |value: fn(&SignalStats) -> u64| -> Points {
        let points = signals.iter();
        points
            .map(|(signal, stats)| (vec![signal.clone()], whole(value(stats))))
            .collect()
    };
    sheet.put(&row::QUEUE_ITEMS, each(|stats| stats.queued + stats.in_flight));
    sheet.put(&row::QUEUE_SIZE, each(|stats| stats.queued_bytes));
    sheet.put(&row::EXPORTED, each(|stats| stats.exported));
    sheet.put(&row::REJECTED, each(|stats| stats.rejected));
    sheet.put(&row::RETRIES, each(|stats| stats.retries));
    sheet.put(&row::EXPORTED_SIZE, each(|stats| stats.exported_bytes));
    sheet.put(&row::UNSUPPORTED, each(|stats| u64::from(stats.unsupported)));
    let mut dropped = Points::new();
    let mut requests = Points::new();
    for (signal, stats) in &signals {
        dropped.extend(
            stats
                .dropped
                .by_reason()
                .map(|(reason, count)| (vec![signal.clone(), text(&row::ERROR_TYPE, reason)], whole(count))),
        );
        requests.extend(
            stats
                .requests
                .by_outcome()
                .map(|(outcome, count)| (vec![signal.clone(), text(&row::OUTCOME, outcome)], whole(count))),
        );
    }
    sheet.put(&row::DROPPED, dropped);
    sheet.put(&row::REQUESTS, requests);
}
