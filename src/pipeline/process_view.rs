//! The records of `/api/v1/processes/PID` and of one of its collections.

use std::sync::Arc;

use clr_gc::gc::{Collection, StoppedTime};
use gc_rules::account::AccountRecord;
use gc_rules::incident::IncidentRecord;
use gc_rules::rule::Role;
use gc_rules::time::{Moment, UnixBase, Wall, rfc3339};
use gc_telemetry::definition::settings;
use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::pipeline::exited::ExitedRun;
use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::overview_view::{open_incidents, row_of};
use crate::pipeline::registry::Pipeline;
use crate::pipeline::view::{json_value, record_of};
use api::event::hex;
use api::gc::type_name;
use api::view::{
    CauseRecord, CollectionLine, CollectionRecord, HistoryColumns, MemoryRecord, Neighbour, NoCollection, NoteRecord,
    PauseColumns, ProcessRecord, ReportedRequests, RequestsOfMinute, SettingRecord, StreamFigures, Unseen,
};
use run::Run;
use run::history::{BUCKET_NS, BUCKETS, Bucket, Cause, HISTORY_NS, History, Mark, Pauses, Remembered};
use targets::host::now;

impl Pipeline {
    /// The newest run of a pid from which something is or was read; of one that exited, with why, if no other process
    /// has its pid.
    pub(crate) fn run_of(&self, pid: u32) -> Option<(Arc<ObservedRun>, Option<ExitedRun>)> {
        let processes = self.shared().processes();
        let live = processes.runs.values().rfind(|run| run.key().pid == pid);
        if let Some(run) = live {
            return Some((Arc::clone(run), None));
        }
        if processes.noted.keys().any(|key| key.pid == pid) {
            return None;
        }
        let exited = processes.exited.of(pid)?.clone();
        Some((Arc::clone(&exited.run), Some(exited)))
    }

    /// Everything of one process; `None`: none of that pid is known.
    pub fn process(&self, pid: u32, now: Moment) -> Option<ProcessRecord> {
        let mut incidents = self.incidents();
        let open = open_incidents(&incidents);
        incidents.retain(|incident| incident.pid == Some(pid));
        let Some((run, exited)) = self.run_of(pid) else {
            return self.unread(pid, incidents, now);
        };
        let run = run.look();
        let now = run.present(now);
        let history = &run.history;
        let resource = &run.identity.resource().attributes;
        let line = |kept: &Remembered| line_of(kept, run.wall);
        let mut process = row_of(&run, &open, true, now);
        if let Some(exited) = &exited {
            process.detail = exited.why.map(str::to_owned);
        }
        Some(ProcessRecord {
            grafana_url: None,
            at_ms: run.wall.unix_ms(now),
            revision: history.revision,
            memory: memory(&run),
            history: shown(history.buckets(now), 1, BUCKETS, &run),
            kept_from_ms: self
                .shared()
                .history()
                .and_then(|folder| folder.first(run.key()))
                .map(|first| first.saturating_mul(BUCKET_NS) / 1_000_000),
            pauses: pauses(history, run.wall),
            causes: history.causes().iter().map(cause).collect(),
            account: AccountRecord::of_stopped_time(
                history.stopped(),
                run.session.first_attach.map(|attach| since(attach, now)),
            ),
            account_recent: history
                .recently_stopped()
                .map(|(from, stopped)| AccountRecord::of_stopped_time(&stopped, Some(since(from, now)))),
            newest: history.newest().rev().map(line).collect(),
            longest: history.longest(now).map(line).collect(),
            settings: settings_of(resource),
            notes: notes(&run),
            requests: run.requests.facts(now).map(|facts| RequestsOfMinute {
                known: facts.judged,
                hit: facts.touched,
            }),
            stream: figures(&run),
            unseen: unseen(&run, &process.collector),
            resource: attributes(resource),
            incidents,
            process,
        })
    }

    /// A process from which nothing was read, or that exited and left incidents.
    fn unread(&self, pid: u32, incidents: Vec<IncidentRecord>, now: Moment) -> Option<ProcessRecord> {
        let rows = self.rows(&incidents, false, now);
        let process = rows.into_iter().find(|row| row.pid == pid)?;
        let noted = self.noted();
        let noted = noted.iter().find(|noted| noted.identity.key.pid == pid);
        let why = match &process.detail {
            Some(detail) => detail.clone(),
            None => format!("the process is {}", process.state.replace('_', " ")),
        };
        Some(ProcessRecord {
            grafana_url: None,
            at_ms: self.wall().unix_ms(now),
            revision: 0,
            resource: noted
                .map(|noted| attributes(&noted.identity.resource))
                .unwrap_or_default(),
            memory: MemoryRecord::default(),
            history: HistoryColumns {
                bucket_ms: BUCKET_NS / 1_000_000,
                span_ms: HISTORY_NS / 1_000_000,
                ..HistoryColumns::default()
            },
            pauses: PauseColumns::default(),
            causes: Vec::new(),
            account: AccountRecord::of_stopped_time(&StoppedTime::default(), None),
            account_recent: None,
            kept_from_ms: None,
            notes: Vec::new(),
            newest: Vec::new(),
            longest: Vec::new(),
            settings: Vec::new(),
            requests: None,
            stream: StreamFigures::default(),
            unseen: vec![Unseen {
                what: "everything".to_owned(),
                why,
            }],
            incidents,
            process,
        })
    }

    /// The requests of the last half hour that collections stopped most; `None`: there is no such process, or its
    /// requests are not observed.
    pub fn request_view(&self, pid: u32) -> Option<ReportedRequests> {
        let (run, _) = self.run_of(pid)?;
        let run = run.look();
        run.requests.worst(run.present(now()))
    }

    /// One collection of a process.
    ///
    /// # Errors
    ///
    /// When the process or the collection is not known.
    pub fn collection(&self, pid: u32, number: u64) -> Result<CollectionRecord, NoCollection> {
        let (run, _) = self.run_of(pid).ok_or(NoCollection::NoProcess)?;
        let run = run.look();
        let history = &run.history;
        let mut marks: Vec<Mark> = history.marks().collect();
        marks.sort_by_key(|mark| (mark.start(), mark.number));
        let kept = history
            .newest()
            .rev()
            .chain(history.longest(Moment::FIRST))
            .chain(history.pinned());
        let kept = kept
            .into_iter()
            .find(|kept| u64::from(kept.collection.number()) == number)
            .cloned();
        let place = marks.iter().rposition(|mark| mark.number == number);
        let span = || {
            let numbers = || marks.iter().map(|mark| mark.number);
            Some((numbers().min()?, numbers().max()?))
        };
        let line = match (&kept, place.and_then(|place| marks.get(place))) {
            (Some(kept), _) => line_of(kept, run.wall),
            (None, Some(mark)) => line_of_mark(mark, run.wall),
            (None, None) => return Err(NoCollection::NoNumber(span())),
        };
        let near = |place: Option<usize>| Some(neighbour(marks.get(place?)?, run.wall));
        let who = run.identity.who();
        Ok(CollectionRecord {
            pid,
            name: processes::one_name(&who.name, &run.identity.resource().attributes),
            number,
            line,
            trace_id: kept.as_ref().and_then(|kept| kept.trace_id).map(|id| hex(&id)),
            trace_url: None,
            gc: kept.and_then(|kept| record_of(&kept, run.wall, pid, who.ns_pid)),
            previous: near(place.and_then(|place| place.checked_sub(1))),
            next: near(place.map(|place| place + 1)),
        })
    }
}

/// How long it is from one instant to a later one, nanoseconds.
fn since(from: Moment, now: Moment) -> i64 {
    i64::try_from(now.since(from)).unwrap_or(i64::MAX)
}

/// The rules that hold on the process and are no harm.
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

fn attributes(resource: &[KeyValue]) -> serde_json::Map<String, serde_json::Value> {
    let each = resource.iter();
    each.map(|attribute| (attribute.key.clone(), json_value(attribute.value.as_ref())))
        .collect()
}

fn memory(run: &Run) -> MemoryRecord {
    let newest = run.history.figures();
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
    }
}

/// What people must know of the limit of its heap beside the number.
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
    let is_guess = who.native_aot == Some(true) && run.heap_limit().is_some();
    is_guess.then(|| "this runtime does not say: taken from its environment and its container".to_owned())
}

/// Whether a runtime of this version does not see a limit of a control group that is the root of what is mounted: 9.0
/// to 10.0.10 (runtime issue 130092).
fn is_blind(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    let mut next = || numbers.next().flatten();
    match (next(), next(), next()) {
        (Some(9), _, _) => true,
        (Some(10), Some(0), patch) => patch.is_some_and(|patch| patch < 11),
        _ => false,
    }
}

/// Buckets of a run as they are shown.
fn shown(buckets: Vec<Bucket>, times: u64, span: u64, run: &Run) -> HistoryColumns {
    let wall = run.wall;
    let buckets = buckets.into_iter().map(|bucket| bucket.on(wall));
    let attached = run.session.first_attach.map(|at| wall.unix_ms(at));
    columns(buckets.collect(), times, span, attached)
}

/// Buckets, each of `times` ten seconds; `span`: how far back they may go, in ten seconds.
pub(crate) fn columns(buckets: Vec<Bucket>, times: u64, span: u64, attached_ms: Option<u64>) -> HistoryColumns {
    let ms = |count: u64| count.saturating_mul(BUCKET_NS / 1_000_000);
    let mut columns = HistoryColumns {
        bucket_ms: ms(times),
        span_ms: ms(span),
        attached_ms,
        ..HistoryColumns::default()
    };
    for bucket in buckets {
        add(&mut columns, &bucket, bucket.start_ns() / 1_000_000);
    }
    columns
}

/// Adds a place that begins then.
pub(crate) fn add(columns: &mut HistoryColumns, bucket: &Bucket, start_ms: u64) {
    let mut pauses = Pauses::default();
    pauses.add(bucket);
    columns.start_ms.push(start_ms);
    columns.stopped_ns.push(bucket.stopped_ns);
    columns.longest_ns.push(bucket.longest_ns);
    columns.p99_ns.push(pauses.quantile(99));
    let [g0, g0_bg, g0_fg, g1, g1_bg, g1_fg, g2, g2_bg, g2_fg, unknown] = bucket.collections;
    let kinds = &mut columns.collections;
    kinds.gen0.push(g0.saturating_add(g0_fg));
    kinds.gen1.push(g1.saturating_add(g1_fg));
    kinds.gen2.push(g2.saturating_add(g2_fg));
    kinds.background.push(g0_bg.saturating_add(g1_bg).saturating_add(g2_bg));
    kinds.unknown.push(unknown);
    kinds.induced.push(bucket.induced);
    columns.allocated.push(bucket.allocated);
    columns.allocated_lower_bound.push(bucket.allocated_lower_bound);
    let [gen0, gen1, gen2, loh, poh] = bucket.heap;
    let heap = &mut columns.heap;
    heap.gen0.push(gen0);
    heap.gen1.push(gen1);
    heap.gen2.push(gen2);
    heap.loh.push(loh);
    heap.poh.push(poh);
    columns.committed.push(bucket.committed);
    columns.container_memory.push(bucket.container_memory);
    columns.lossy.push(bucket.lossy);
}

fn pauses(history: &History, wall: Wall) -> PauseColumns {
    let mut columns = PauseColumns::default();
    for mark in history.marks() {
        add_mark(&mut columns, &mark, wall);
    }
    columns
}

/// Adds a collection.
pub(crate) fn add_mark(columns: &mut PauseColumns, mark: &Mark, wall: Wall) {
    columns.number.push(mark.number);
    columns.start_ms.push(wall.unix_ms(mark.start()));
    columns.pause_ns.push(mark.pause_ns);
    columns.generation.push(mark.generation);
    columns.gc_type.push(mark.gc_type().map(type_name));
    columns.reason.push(mark.reason().map(|reason| reason.to_string()));
    columns.lossy.push(mark.lossy);
}

/// Why it collected.
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

fn line_of(kept: &Remembered, wall: Wall) -> CollectionLine {
    line(&kept.collection.unpack(), kept.base.unix(wall))
}

/// A collection as a line.
pub(crate) fn line(collection: &Collection, base: UnixBase) -> CollectionLine {
    let gc_type = if collection.became_blocking {
        Some("blocking".to_owned())
    } else {
        collection.gc_type.map(type_name)
    };
    CollectionLine {
        number: collection.number,
        start: collection.start.and_then(|start| rfc3339(base.unix_ns(start))),
        generation: collection.generation,
        gc_type,
        reason: collection.reason.map(|reason| reason.to_string()),
        requested_by_tool: collection.requested_by_tool,
        pause_ns: collection.pause_ns,
        suspend_ns: collection.suspend_ns,
        heap_before: collection.heap_before(),
        heap_after: collection.heap_after(),
        promoted: collection.promoted(),
        lossy: collection.lossy,
    }
}

fn line_of_mark(mark: &Mark, wall: Wall) -> CollectionLine {
    CollectionLine {
        number: u32::try_from(mark.number).unwrap_or(u32::MAX),
        start: wall.rfc3339(mark.start()),
        generation: mark.generation.and_then(|generation| u32::try_from(generation).ok()),
        gc_type: mark.gc_type().map(type_name),
        reason: mark.reason().map(|reason| reason.to_string()),
        requested_by_tool: None,
        pause_ns: mark.pause_ns.and_then(|ns| i64::try_from(ns).ok()),
        suspend_ns: None,
        heap_before: None,
        heap_after: None,
        promoted: None,
        lossy: mark.lossy,
    }
}

fn neighbour(mark: &Mark, wall: Wall) -> Neighbour {
    Neighbour {
        number: mark.number,
        start_ms: wall.unix_ms(mark.start()),
        generation: mark.generation,
        pause_ns: mark.pause_ns,
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

/// The first version of CoreCLR that sends its settings.
const SETTINGS_SINCE: u32 = 9;

fn collections(what: &str, count: u64) -> String {
    match count {
        1 => format!("{what} 1 collection"),
        count => format!("{what} {count} collections"),
    }
}

/// What was not seen, and why.
fn unseen(run: &Run, collector: &Option<String>) -> Vec<Unseen> {
    let (session, history) = (&run.session, &run.history);
    let progress = session.progress();
    let mut all = Vec::new();
    let mut add = |what: String, why: &str| {
        all.push(Unseen {
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
    if history.collections > 0 && history.figures().committed.is_none() {
        add(
            "committed memory of the heap".to_owned(),
            "runtimes send it from .NET 8 on",
        );
    }
    let who = run.identity.who();
    let says_nothing = who.native_aot == Some(true) || run.identity.major().is_some_and(|major| major < SETTINGS_SINCE);
    if session.first_attach.is_some() && collector.is_none() {
        let why = match who.native_aot {
            _ if !says_nothing => "gcwatch is still reading them, or could not",
            Some(true) => "this runtime does not say: NativeAOT sends none",
            _ => "this runtime does not say: .NET sends them from 9 on",
        };
        add("the GC settings".to_owned(), why);
    }
    if session.first_attach.is_some() && run.heap_limit().is_none() && says_nothing {
        add(
            "a limit of its heap".to_owned(),
            "this runtime does not say; neither its environment nor its container sets one",
        );
    }
    if run.group_figures().memory_limit.is_none() && session.first_attach.is_some() {
        add(
            "a memory limit of its container".to_owned(),
            "there is none, or its control group cannot be read",
        );
    }
    all
}
