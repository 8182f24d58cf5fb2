//! Parts of the record of gcwatch itself, for the page and `/api/v1/self`.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base::time::rfc3339;
use delivery::alerts::stats::ReceiverStats;
use delivery::otlp::signal::Signal;
use delivery::otlp::stats::{SignalStats, Stats};
use evidence::store::Store;

use crate::pipeline::Counts;
use api::view::{ExportsRuntimeRecord, PartRecord, ReceiverRecord, StreamsRecord, TargetView};
use web::PartAge;

/// Returns the records of the receivers of OTLP signals, of alerts, and of evidence.
pub(super) fn receivers(
    stats: &Stats,
    alerts: Vec<(String, ReceiverStats)>,
    store: Option<&Store>,
) -> Vec<ReceiverRecord> {
    let signals = Signal::ALL.map(|signal| describe_signal(signal, stats.get(signal)));
    let signals = signals.into_iter();
    let incidents = alerts.into_iter().map(|(name, stats)| describe_alerts(name, &stats));
    signals.chain(incidents).chain(store.map(describe_store)).collect()
}

/// Returns the processes that export metrics of their runtime themselves.
pub(super) fn exporting(targets: &[TargetView]) -> Vec<ExportsRuntimeRecord> {
    let exporting = targets.iter().filter_map(|target| {
        Some(ExportsRuntimeRecord {
            pid: target.pid,
            sign: target.exports_runtime?,
            process: target.name.clone(),
        })
    });
    exporting.collect()
}

/// Returns the reading statistics of all processes.
pub(super) fn streams(counts: Counts, targets: &[TargetView]) -> StreamsRecord {
    let mut streams = StreamsRecord {
        collections: counts.collections,
        spans: counts.spans,
        ..StreamsRecord::default()
    };
    for target in targets {
        streams.attached += u64::from(target.state == "attached");
        streams.events += target.events;
        streams.bytes += target.bytes;
        streams.lost_events += target.lost_events.unwrap_or(0);
        streams.lag_ns = streams.lag_ns.max(target.lag_ns);
    }
    streams
}

/// Returns the record of a part that must be alive.
pub(super) fn part(PartAge { name, age, is_late }: PartAge) -> PartRecord {
    PartRecord {
        name,
        age_ns: u64::try_from(age.as_nanos()).unwrap_or(u64::MAX),
        late: is_late,
    }
}

fn describe_signal(signal: Signal, stats: &SignalStats) -> ReceiverRecord {
    let failures: BTreeMap<_, _> = stats
        .requests
        .by_outcome()
        .into_iter()
        .filter(|(outcome, count)| *count > 0 && *outcome != "accepted" && *outcome != "partial")
        .collect();
    let error = stats.last_error.as_ref();
    let state = match stats {
        SignalStats { configured: false, .. } => "off",
        SignalStats { unsupported: true, .. } => "unsupported",
        // An error occurred and items still wait for an answer, so the newest attempt probably failed.
        _ if error.is_some() && stats.in_flight > 0 => "failing",
        SignalStats { exported: 0, .. } if error.is_some() => "failing",
        SignalStats { exported: 0, .. } => "idle",
        _ => "ok",
    };
    ReceiverRecord {
        signal: signal.name(),
        name: "OTLP".to_owned(),
        state,
        waiting: stats.queued + stats.in_flight,
        sent: stats.exported,
        dropped: known(stats.dropped.by_reason()),
        failures,
        last_error: error.map(|error| error.text.clone()),
        last_error_at: error.and_then(|error| {
            let since = error.at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            rfc3339(u64::try_from(since.as_nanos()).ok()?)
        }),
    }
}

fn describe_alerts(name: String, stats: &ReceiverStats) -> ReceiverRecord {
    let state = match stats {
        _ if stats.last_error.is_some() && stats.queued > 0 => "failing",
        ReceiverStats { sent: 0, .. } if stats.last_error.is_some() => "failing",
        ReceiverStats { sent: 0, .. } => "idle",
        _ => "ok",
    };
    ReceiverRecord {
        signal: "incidents",
        name,
        state,
        waiting: stats.queued,
        sent: stats.sent,
        dropped: known(stats.dropped()),
        failures: known(stats.failures()),
        last_error: stats.last_error.clone(),
        last_error_at: None,
    }
}

/// Returns the record of the store that keeps evidence outside the host.
fn describe_store(store: &Store) -> ReceiverRecord {
    let stats = store.stats();
    let [(_, stored), (_, failed), (_, dropped)] = stats.counts();
    let last_error = stats.last_error();
    let state = match (&last_error, stored) {
        (Some(_), _) => "failing",
        (None, 0) => "idle",
        (None, _) => "ok",
    };
    ReceiverRecord {
        signal: "evidence",
        name: store.base().to_string(),
        state,
        waiting: stats.waiting().0,
        sent: stored,
        dropped: known([("queue_full", dropped)]),
        failures: known([("unavailable", failed)]),
        last_error,
        last_error_at: None,
    }
}

/// Returns the counts that are not 0.
fn known<const N: usize>(counts: [(&'static str, u64); N]) -> BTreeMap<&'static str, u64> {
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}
