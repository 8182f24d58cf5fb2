//! The record of `/api/v1/processes/PID`.

use base::time::Moment;
use clr_gc::gc::StoppedTime;
use gc_telemetry::definition::settings;
use incidents::IncidentRecord;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use rule_engine::account::AccountRecord;
use rule_engine::field::MemoryTrend;
use rule_engine::rule::Role;

use super::collection::line_of;
use super::history::{columns, pauses};
use super::target::{attributes, json_value};
use crate::pipeline::shared::UnreadProcess;
use api::gc::type_name;
use api::view::{
    CauseRecord, ChangeRecord, HistoryColumns, MemoryRecord, NoteRecord, ProcessRecord, ProcessRow, RequestsOfMinute,
    SettingRecord, SizingRecord, StreamFigures, TrendRecord, TrendsRecord, UnobservedFact,
};
use run::history::{BUCKET_NS, BUCKETS, Bucket, Cause, HISTORY_NS, RetainedCollection};
use run::{Run, StaleLimit};

/// Returns the full record of a run. `now` is the present of the run. `kept_from_ms` is the start of the run's history
/// on disk; `None` if there is no such history or its start is unknown.
pub(crate) fn read(
    run: &Run,
    process: ProcessRow,
    (incidents, changes, sizing): (Vec<IncidentRecord>, Vec<ChangeRecord>, Option<SizingRecord>),
    kept_from_ms: Option<u64>,
    now: Moment,
) -> ProcessRecord {
    let history = &run.history;
    let resource = &run.identity.resource().attributes;
    let line = |kept: &RetainedCollection| line_of(kept, run.wall);
    ProcessRecord {
        grafana_url: None,
        at_ms: run.wall.unix_ms(now),
        revision: history.revision,
        memory: memory(run, now),
        history: shown(history.buckets(now), run),
        kept_from_ms,
        pauses: pauses(history.marks(), run.wall),
        causes: history.causes.all().iter().map(cause).collect(),
        account: AccountRecord::from_stopped_time(
            history.stopped.all(),
            run.session.first_attach.map(|attach| since(attach, now)),
        ),
        account_recent: history
            .stopped
            .recent()
            .map(|(from, stopped)| AccountRecord::from_stopped_time(&stopped, Some(since(from, now)))),
        newest: history.kept.newest().rev().map(line).collect(),
        longest: history.longest(now).map(line).collect(),
        settings: settings_of(resource),
        notes: notes(run),
        requests: run.requests.facts(now).map(|facts| RequestsOfMinute {
            known: facts.judged,
            hit: facts.touched,
        }),
        stream: figures(run),
        unseen: unseen(run, &process.collector),
        resource: attributes(resource),
        incidents,
        changes,
        sizing,
        process,
    }
}

/// Returns the record of a process that gcwatch does not read.
pub(crate) fn unread(
    noted: &UnreadProcess,
    process: ProcessRow,
    incidents: Vec<IncidentRecord>,
    at_ms: u64,
) -> ProcessRecord {
    let why = match &process.detail {
        Some(detail) => detail.clone(),
        None => format!("the process is {}", process.state.replace('_', " ")),
    };
    ProcessRecord {
        at_ms,
        resource: attributes(&noted.identity.resource),
        history: HistoryColumns {
            bucket_ms: BUCKET_NS / 1_000_000,
            span_ms: HISTORY_NS / 1_000_000,
            ..HistoryColumns::default()
        },
        account: AccountRecord::from_stopped_time(&StoppedTime::default(), None),
        unseen: vec![UnobservedFact {
            what: "everything".to_owned(),
            why,
        }],
        incidents,
        process,
        ..ProcessRecord::default()
    }
}

/// Returns the time between two instants, in nanoseconds.
fn since(from: Moment, now: Moment) -> i64 {
    i64::try_from(now.since(from)).unwrap_or(i64::MAX)
}

/// Returns a note for each rule that fires on the process and does not report harm.
fn notes(run: &Run) -> Vec<NoteRecord> {
    let alerts = run.rules.as_ref().map(|rules| rules.alerts()).unwrap_or_default();
    let notes = alerts.into_iter().filter(|alert| !alert.rule.is_harm());
    notes
        .map(|alert| NoteRecord {
            rule: alert.rule.id.to_string(),
            role: alert.rule.role.unwrap_or(Role::Note),
            title: alert.rule.title.to_string(),
            summary: alert.summary.to_string(),
            remedy: alert.rule.remedy.to_string(),
            since: run.wall.rfc3339(alert.active),
        })
        .collect()
}

fn memory(run: &Run, now: Moment) -> MemoryRecord {
    let newest = &run.history.figures;
    let figures = run.group_figures();
    let heap_after = newest.heap_after();
    MemoryRecord {
        heap_live: heap_after
            .zip(newest.fragmentation)
            .and_then(|(all, free)| all.checked_sub(free)),
        heap_free: newest.fragmentation,
        heap_after,
        heap_committed: newest.committed,
        heap_limit: run.heap_limit(),
        heap_limit_note: heap_limit_note(run),
        heap_count: newest.heap_count,
        load_percent: newest.memory_load_percent,
        resident: run.memory.resident,
        private: run.memory.private,
        container_working_set: figures.memory.working_set,
        container_usage: figures.memory.usage,
        container_limit: figures.memory_limit,
        ledger: run.ledger.newest(),
        trends: trends(run, now),
    }
}

/// Returns the level and the trend of the memory of a run, and the age of its process.
fn trends(run: &Run, now: Moment) -> TrendsRecord {
    let seconds = |from: Moment| now.since(from) / 1_000_000_000;
    let age_s = run.started.map(seconds);
    let Some(trends) = run.memory_trends() else {
        return TrendsRecord {
            age_s,
            ..TrendsRecord::default()
        };
    };
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    let record = |trend: &MemoryTrend| TrendRecord {
        bytes: trend.bytes,
        level: trend.level,
        growth_per_minute: trend.per_minute.map(|bytes| bytes as i64),
        growth_per_minute_1h: trend.slow_per_minute.map(|bytes| bytes as i64),
        growing_s: trend.since.or(trend.slow_since).map(seconds),
    };
    TrendsRecord {
        container: record(&trends.container),
        process: record(&trends.process),
        heap: record(&trends.heap),
        unvisited: trends.unvisited,
        full_collection_s: trends.full_collection.map(seconds),
        full_kept_away: trends.is_full_kept_away,
        age_s,
    }
}

/// Returns a note that explains the heap limit of a run, or `None` if the number needs no explanation.
fn heap_limit_note(run: &Run) -> Option<String> {
    let who = run.identity.who();
    if let Some(limit) = run.unseen_limit() {
        let remedy = if who.runtime.as_deref().is_some_and(is_blind) {
            "10.0.11 or later does, or set DOTNET_GCHeapHardLimit"
        } else {
            "if it came after the start, restart the process; or set DOTNET_GCHeapHardLimit"
        };
        return Some(format!(
            "the runtime does not see the container's limit of {} MiB: {remedy}",
            limit >> 20
        ));
    }
    if let Some(StaleLimit { kept, fresh }) = run.stale_limit() {
        return Some(format!(
            "the container's limit has changed: the runtime keeps {} MiB, and would have {} MiB after \
             GC.RefreshMemoryLimit or a restart",
            kept >> 20,
            fresh >> 20
        ));
    }
    let is_guess = who.native_aot == Some(true) && run.heap_limit().is_some();
    is_guess.then(|| "this runtime does not report it: derived from its environment and its container".to_owned())
}

/// Returns whether a runtime of this version does not see the limit of a control group that is the root of the mounted
/// hierarchy. Versions 9.0 to 10.0.10 do not see this limit (runtime issue 130092).
fn is_blind(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    let mut next = || numbers.next().flatten();
    match (next(), next(), next()) {
        (Some(9), _, _) => true,
        (Some(10), Some(0), patch) => patch.is_some_and(|patch| patch < 11),
        _ => false,
    }
}

/// Returns the buckets of a run for display.
fn shown(buckets: Vec<Bucket>, run: &Run) -> HistoryColumns {
    let wall = run.wall;
    let buckets = buckets.into_iter().map(|bucket| bucket.on(wall));
    let attached = run.session.first_attach.map(|at| wall.unix_ms(at));
    columns(buckets.collect(), 1, BUCKETS, attached)
}

/// Returns the record of a cause of collections.
pub(crate) fn cause(cause: &Cause) -> CauseRecord {
    CauseRecord {
        reason: cause.reason.map(|reason| reason.to_string()),
        generation: cause.generation,
        gc_type: cause.gc_type.map(type_name),
        requested_by_tool: cause.requested_by_tool,
        rest: cause.is_rest,
        count: cause.count,
        unknown_pauses: cause.unknown_pauses,
        pause_ns: cause.pause_ns,
        longest_ns: cause.longest_ns,
    }
}

fn settings_of(resource: &[KeyValue]) -> Vec<SettingRecord> {
    let known = settings::ALL.iter().filter_map(|row| {
        let attribute = resource.iter().find(|attribute| attribute.key == row.attribute.name)?;
        Some(SettingRecord {
            name: attribute.key.clone(),
            value: json_value(attribute.value.as_ref()),
            description: row.attribute.description,
        })
    });
    known.collect()
}

fn figures(run: &Run) -> StreamFigures {
    let (session, history) = (&run.session, &run.history);
    let progress = session.progress();
    StreamFigures {
        sessions: session.sessions,
        healings: session.healings,
        bytes: progress.bytes,
        events: progress.events,
        lost_events: progress.lost_events,
        undecodable: progress.undecodable,
        lossy: history.lossy,
        incomplete: history.incomplete,
        suspensions: history.suspensions,
        finalizers_waiting: session.finalizers_waiting,
    }
}

/// First major version of CoreCLR that sends its settings.
const SETTINGS_SINCE: u32 = 9;

fn collections(what: &str, count: u64) -> String {
    match count {
        1 => format!("{what} 1 collection"),
        count => format!("{what} {count} collections"),
    }
}

/// Returns the unknown parts of a run's record, each with the reason.
fn unseen(run: &Run, collector: &Option<String>) -> Vec<UnobservedFact> {
    let (session, history) = (&run.session, &run.history);
    let progress = session.progress();
    let mut all = Vec::new();
    let mut add = |what: String, why: &str| {
        all.push(UnobservedFact {
            what,
            why: why.to_owned(),
        });
    };
    if let Some(lost @ 1..) = progress.lost_events {
        add(
            format!("{lost} events"),
            "the runtime dropped them: its buffer was full. Raise targets.buffer_mb for this process, or give gcwatch more CPU",
        );
    }
    if progress.lost_events.is_none() && session.first_attach.is_some() {
        add(
            "the number of lost events".to_owned(),
            "this stream does not number its events",
        );
    }
    if let Some(why) = run.requests.unread() {
        add("the requests that pauses delayed".to_owned(), why);
    }
    if history.lossy > 0 {
        add(
            collections("figures of", history.lossy),
            "events were lost around them: their figures may be too low",
        );
    }
    if history.incomplete > 0 {
        add(
            collections("run of", history.incomplete),
            "they were under way when gcwatch attached or the session ended, or the runtime did not send a part; the page of each says which",
        );
    }
    if progress.undecodable > 0 {
        add(
            format!("{} events", progress.undecodable),
            "this version of gcwatch does not know their layout: please report the version of .NET",
        );
    }
    if history.collections > 0 && history.figures.committed.is_none() {
        add("committed memory of the heap".to_owned(), ".NET 8 and later send it");
    }
    let who = run.identity.who();
    let says_nothing = who.native_aot == Some(true) || run.identity.major().is_some_and(|major| major < SETTINGS_SINCE);
    if session.first_attach.is_some() && collector.is_none() {
        let why = match who.native_aot {
            _ if !says_nothing => "gcwatch has not read them yet, or cannot read them",
            Some(true) => "NativeAOT does not send them",
            _ => ".NET 9 and later send them",
        };
        add("the GC settings".to_owned(), why);
    }
    if session.first_attach.is_some() && run.heap_limit().is_none() && says_nothing {
        add(
            "a limit of its heap".to_owned(),
            "this runtime does not report one, and neither its environment nor its container sets one",
        );
    }
    if run.group_figures().memory_limit.is_none() && session.first_attach.is_some() {
        add(
            "a memory limit of its container".to_owned(),
            "the container has no limit, or its control group cannot be read",
        );
    }
    all
}
