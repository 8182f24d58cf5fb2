//! gcwatch itself as a record, for the page and `/api/v1/self`.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use delivery::alerts::stats::ReceiverStats;
use delivery::otlp::signal::Signal;
use delivery::otlp::stats::SignalStats;
use gc_rules::time::rfc3339;
use gc_telemetry::definition::resource::HOST_NAME;
use gc_telemetry::value::text;

use crate::daemon::own::Own;
use crate::daemon::usage;
use crate::pipeline::Records;
use api::view::{ExportsRuntimeRecord, ListenerRecord, PartRecord, ReceiverRecord, StreamsRecord, WatcherRecord};
use web::{LiveInfo as _, PartAge, Views as _, WatcherInfo};

impl WatcherInfo for Own {
    fn watcher(&self, now_unix_ns: u64) -> WatcherRecord {
        let sources = self.sources();
        let stats = sources.exporter.stats();
        // Profiles are for whoever asked for them.
        let signals = Signal::ALL
            .iter()
            .filter(|signal| **signal != Signal::Profiles || stats.profiles.configured)
            .map(|signal| of_signal(*signal, stats.of(*signal)));
        let incidents = sources
            .notifier
            .stats()
            .into_iter()
            .map(|(name, stats)| of_alerts(name, &stats));
        let counts = sources.pipeline.counts();
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
            started: rfc3339(self.start_unix_ns()),
            usage: usage::record(),
            parts: self.parts().into_iter().map(part).collect(),
            receivers: signals.chain(incidents).collect(),
            streams: self.streams(),
            stalls,
            stalled_ns,
            listener: ListenerRecord::default(),
            not_read: Records::of(&sources.pipeline).reasons(),
            exports_runtime: self.exporting(),
            limits: limits.into_iter().filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn host(&self) -> Option<String> {
        text(&self.resource().attributes, HOST_NAME.name)
    }
}

impl Own {
    fn exporting(&self) -> Vec<ExportsRuntimeRecord> {
        let targets = Records::of(&self.sources().pipeline).targets().into_iter();
        let exporting = targets.filter_map(|target| {
            Some(ExportsRuntimeRecord {
                pid: target.pid,
                sign: target.exports_runtime?,
                process: target.name,
            })
        });
        exporting.collect()
    }

    fn streams(&self) -> StreamsRecord {
        let counts = self.sources().pipeline.counts();
        let mut streams = StreamsRecord {
            collections: counts.collections,
            spans: counts.spans,
            ..StreamsRecord::default()
        };
        for target in Records::of(&self.sources().pipeline).targets() {
            streams.attached += u64::from(target.state == "attached");
            streams.events += target.events;
            streams.bytes += target.bytes;
            streams.lost_events += target.lost_events.unwrap_or(0);
            streams.lag_ns = streams.lag_ns.max(target.lag_ns);
        }
        streams
    }
}

fn part(PartAge { name, age, is_late }: PartAge) -> PartRecord {
    PartRecord {
        name,
        age_ns: u64::try_from(age.as_nanos()).unwrap_or(u64::MAX),
        late: is_late,
    }
}

fn of_signal(signal: Signal, stats: &SignalStats) -> ReceiverRecord {
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
        // What waits although it was tried: the newest attempt failed.
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

fn of_alerts(name: String, stats: &ReceiverStats) -> ReceiverRecord {
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

/// Without what is 0.
fn known<const N: usize>(counts: [(&'static str, u64); N]) -> BTreeMap<&'static str, u64> {
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}
