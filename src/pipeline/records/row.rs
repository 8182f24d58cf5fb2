//! The rows of `/api/v1/overview`: for each process, the last minute, and the last 30 minutes as points.

use std::collections::BTreeMap;

use base::time::{Moment, Wall};
use gc_telemetry::definition::{resource as row, settings};
use gc_telemetry::value::{flag, text};
use incidents::IncidentRecord;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use rule_engine::rule::Severity;

use crate::pipeline::shared::UnreadProcess;
use api::view::{MinuteRecord, ProcessRow, RowMemory, SparkRecord};
use processes::{Identity, RunState};
use run::Run;
use run::history::{BUCKET_NS, BUCKETS, History, Pauses, bucket_of};

/// Number of points for the last 30 minutes.
const SPARK_POINTS: usize = 60;
/// Number of buckets per point.
const SPARK_BUCKETS: u64 = BUCKETS / SPARK_POINTS as u64;
/// Number of whole buckets in the last minute.
const MINUTE_BUCKETS: u64 = 6;

/// Number of open incidents per process, and their highest severity.
pub(crate) type OpenIncidents = BTreeMap<u32, (usize, Severity)>;

/// Returns the open incidents in a list, by pid.
pub(crate) fn open_incidents(incidents: &[IncidentRecord]) -> OpenIncidents {
    let mut open = OpenIncidents::new();
    for incident in incidents.iter().filter(|incident| incident.until.is_none()) {
        let Some(pid) = incident.pid else { continue };
        let (count, severity) = open.entry(pid).or_insert((0, incident.severity));
        *count += 1;
        *severity = incident.severity.max(*severity);
    }
    open
}

/// Returns the row of a run.
pub(crate) fn row_of(run: &Run, open: &OpenIncidents, with_spark: bool, now: Moment) -> ProcessRow {
    let (session, history) = (&run.session, &run.history);
    let now = run.present(now);
    let figures = run.group_figures();
    let attached = session.first_attach;
    let newest = &history.figures;
    let progress = session.progress();
    let resource = &run.identity.resource().attributes;
    ProcessRow {
        minute: attached.map(|attached| minute(history, attached, now)),
        heap_after: newest.heap_after(),
        heap_limit: run.heap_limit(),
        container_memory: figures.memory.working_set.or(figures.memory.usage),
        container_limit: figures.memory_limit,
        memory: memory(run),
        collections: history.collections,
        last_collection: newest.number,
        last_collection_ms: newest.at.map(|at| run.wall.unix_ms(at)),
        lag_ns: session.lag_ns,
        lost_events: progress.lost_events,
        lossy: history.lossy,
        spark: with_spark.then(|| spark(history, attached, now)),
        ..plain(
            run.identity.who(),
            resource,
            &session.state,
            run.wall.rfc3339(session.since),
            open,
        )
    }
}

fn memory(run: &Run) -> Option<RowMemory> {
    let ledger = run.ledger.newest()?;
    let reserve = run.ledger.reserve(run.history.room.unused_by_cycles());
    Some(RowMemory {
        limit: ledger.limit,
        peak: run.ledger.peak,
        usage: ledger.usage,
        live: ledger.live,
        not_looked_at: ledger.not_looked_at,
        free: ledger.free,
        committed_unused: ledger.committed_unused,
        native: ledger.native,
        limit_never_reached: reserve.limit_never_reached,
        working_room: reserve.working_room,
        beyond_working_room: reserve.beyond_working_room,
    })
}

/// Returns a description of the collector, or `None` if no setting of the collector is known.
pub(crate) fn collector(attributes: &[KeyValue]) -> Option<String> {
    let server = flag(attributes, settings::SERVER.name);
    let mut words = Vec::new();
    words.extend(server.map(|server| if server { "server" } else { "workstation" }));
    let background = flag(attributes, settings::CONCURRENT.name);
    words.extend(background.map(|is| if is { "background" } else { "blocking" }));
    words.extend(flag(attributes, settings::DYNAMIC_ADAPTATION.name).and_then(|is| is.then_some("adapting")));
    (!words.is_empty()).then(|| words.join(", "))
}

/// Returns the remedy for a process that is not read, or `None` if the state has no remedy or its detail contains the
/// remedy.
fn remedy(state: &RunState) -> Option<String> {
    let text = match state {
        RunState::Excluded => {
            "to monitor it, change targets.include and targets.exclude in the configuration; no restart is needed"
        }
        RunState::OverLimit => "raise targets.max_targets, or exclude processes that need no monitoring",
        RunState::HeldElsewhere { .. } => {
            "nothing if the other instance is supposed to monitor it; otherwise stop that instance"
        }
        RunState::Unattachable { .. } => {
            "gcwatch doctor --pid PID says what prevents it and what to do; gcwatch keeps trying"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Returns the row of a process that is not read.
pub(crate) fn row_of_noted(
    UnreadProcess { identity, state, since }: &UnreadProcess,
    open: &OpenIncidents,
    wall: Wall,
) -> ProcessRow {
    plain(identity, &identity.resource, state, wall.rfc3339(*since), open)
}

/// Returns a row without data from an event stream.
fn plain(
    identity: &Identity,
    resource: &[KeyValue],
    state: &RunState,
    since: Option<String>,
    open: &OpenIncidents,
) -> ProcessRow {
    let pid = identity.key.pid;
    let incidents = open.get(&pid);
    let service = text(resource, row::SERVICE_NAME.name);
    let remedy = remedy(state).map(|text| text.replace("PID", &pid.to_string()));
    ProcessRow {
        pid,
        start_time: identity.key.start_time,
        ns_pid: identity.ns_pid,
        name: service.clone().unwrap_or_else(|| identity.name.clone()),
        process: identity.name.clone(),
        service,
        namespace: text(resource, row::K8S_NAMESPACE_NAME.name),
        pod: text(resource, row::K8S_POD_NAME.name),
        container: text(resource, row::K8S_CONTAINER_NAME.name),
        runtime: identity.runtime.clone(),
        collector: collector(resource),
        state: state.word(),
        reason: state.not_attached(),
        detail: state.detail(),
        remedy,
        since,
        severity: incidents.map(|(_, severity)| *severity),
        incidents: incidents.map_or(0, |(count, _)| *count),
        ..ProcessRow::default()
    }
}

/// Returns a part as a share of the whole; `None` if the whole is 0.
pub(crate) fn share(part_ns: u64, whole_ns: u64) -> Option<f64> {
    (whole_ns > 0).then(|| part_ns as f64 / whole_ns as f64)
}

fn minute(history: &History, attached: Moment, now: Moment) -> MinuteRecord {
    let from = Moment::from_ns(bucket_of(now).saturating_sub(MINUTE_BUCKETS) * BUCKET_NS);
    let pauses = history.pauses_since(from);
    let window_ns = now.since(from.max(attached));
    let Pauses {
        stopped_ns,
        longest_ns,
        collections,
        induced,
        allocated,
        allocated_lower_bound,
        ..
    } = pauses;
    let [g0, g0_bg, g0_fg, g1, g1_bg, g1_fg, g2, g2_bg, g2_fg, _] = collections;
    MinuteRecord {
        window_ns,
        stopped_ns,
        stopped_share: share(stopped_ns, window_ns).map(|share| share.min(1.0)),
        longest_ns,
        p50_ns: pauses.quantile(50),
        p99_ns: pauses.quantile(99),
        gen0: g0 + g0_fg,
        gen1: g1 + g1_fg,
        gen2: g2 + g2_fg,
        background: g0_bg + g1_bg + g2_bg,
        induced,
        allocated,
        allocated_lower_bound,
    }
}

/// Returns the last 30 minutes as points. Points before the first attach have no data; later points without pauses
/// count as not stopped.
fn spark(history: &History, attached: Option<Moment>, now: Moment) -> SparkRecord {
    let end = bucket_of(now) + 1;
    let first = end.saturating_sub(BUCKETS);
    let known_from = attached.map_or(end, bucket_of);
    let mut stopped = vec![None; SPARK_POINTS];
    let mut heap = vec![None; SPARK_POINTS];
    for (place, point) in stopped.iter_mut().enumerate() {
        let last_bucket = first + (place as u64 + 1) * SPARK_BUCKETS - 1;
        if last_bucket >= known_from {
            *point = Some(0u16);
        }
    }
    let mut sums = vec![0u64; SPARK_POINTS];
    for bucket in history.buckets(now) {
        let place = usize::try_from((bucket.index - first) / SPARK_BUCKETS).unwrap_or(usize::MAX);
        if let (Some(sum), Some(point)) = (sums.get_mut(place), stopped.get_mut(place)) {
            *sum = sum.saturating_add(bucket.stopped_ns);
            let per_mille = *sum / (SPARK_BUCKETS * BUCKET_NS / 1000);
            *point = Some(u16::try_from(per_mille.min(1000)).unwrap_or(1000));
        }
        if let (Some(point), Some(bytes)) = (heap.get_mut(place), bucket.heap_after()) {
            *point = Some(bytes >> 10);
        }
    }
    SparkRecord { stopped, heap }
}
