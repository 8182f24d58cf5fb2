//! Converts recordings to the record of a page that users can share.

mod charts;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use base::time::{UnixBase, rfc3339};
use clr_gc::gc::Collection;
use gc_requests::request::{MAX_NAMED_STOPS, Request};

use crate::pipeline::records::{collection, process, row};
use api::gc::{Subject, SummaryRecord, is_induced};
use api::view::{
    ReportRecord, ReportedProcess, ReportedRecording, ReportedRequests, RequestTally, RuleFindings, UnobservedFact,
};
use recording::{ProcessHistory, Recording};
use report::memory;
use report::units::plural;
use run::history::Causes;

/// Maximum number of recordings per page.
pub const MAX_RECORDINGS: usize = 32;
/// Maximum number of processes; the processes with the longest stopped time are kept. A recording of one machine can
/// have thousands of processes.
const MAX_PROCESSES: usize = 32;
/// Maximum number of collection marks, over all processes.
const MAX_MARKS: usize = 150_000;
/// Maximum number of heap points, over all processes and per process. The second limit is more than the pixels across a
/// wide screen.
const ALL_HEAP_POINTS: usize = 32_000;
const MAX_HEAP_POINTS: usize = 3_000;
/// Maximum number of the longest collections that are kept in full, over all processes and per process.
const MAX_LONGEST_COLLECTIONS: (usize, usize) = (200, 100);
/// Maximum number of requests; the requests that lost the most time are kept.
const WORST: usize = 20;

/// Returns the record of a page.
pub fn page(recordings: Vec<ReportedRecording>) -> ReportRecord {
    ReportRecord {
        version: env!("GCWATCH_VERSION"),
        recordings,
    }
}

/// Returns the record of a recording on a page with `among` recordings. `found` has the findings for each process, in
/// the order of the recording; it is `None` if no rules were evaluated. The command line can contain secrets, so it is
/// included only if `with_command_line` is set.
pub fn recorded(
    recording: &Recording,
    base: UnixBase,
    found: Option<Vec<RuleFindings>>,
    with_command_line: bool,
    among: usize,
) -> ReportedRecording {
    let among = among.max(1);
    let several = recording.processes.len() > 1;
    let mut found = found.map(Vec::into_iter);
    let mut all: Vec<_> = recording
        .processes
        .iter()
        .map(|(subject, history)| {
            let found = found.as_mut().map(|all| all.next().unwrap_or_default());
            (*subject, history, found)
        })
        .collect();
    let most = (MAX_PROCESSES / among).max(1);
    let left_out = all.len().saturating_sub(most);
    if left_out > 0 {
        all.sort_by_key(|(_, history, _)| Reverse(history.totals.stopped_ns));
        all.truncate(most);
    }
    let bounds = Bounds::for_processes(all.len() * among);
    let file = recording.stream.file.rsplit('/').next().unwrap_or_default();
    let processes = all.into_iter().map(|(subject, history, found)| {
        let name = name(recording, subject, several);
        process(subject, name, history, base, recording, &bounds, found)
    });
    ReportedRecording {
        file: file.to_owned(),
        command_line: recording.program.command_line.clone().filter(|_| with_command_line),
        runtime: recording.stream.runtime.clone(),
        started: recording.header.as_ref().and_then(|_| rfc3339(base.unix_ns(0))),
        observed_ns: recording.observed_ns,
        processes: processes.collect(),
        requests: recording.requests.as_ref().map(|all| requests(all, base)),
        unseen: unseen(recording, left_out),
    }
}

/// Limits for each process of a page.
struct Bounds {
    marks: usize,
    heap_points: usize,
    longest: usize,
}

impl Bounds {
    fn for_processes(processes: usize) -> Self {
        let processes = processes.max(1);
        let (all, one) = MAX_LONGEST_COLLECTIONS;
        Self {
            marks: MAX_MARKS / processes,
            heap_points: (ALL_HEAP_POINTS / processes).min(MAX_HEAP_POINTS),
            longest: (all / processes).min(one),
        }
    }
}

fn process(
    subject: Subject,
    name: String,
    history: &ProcessHistory,
    base: UnixBase,
    recording: &Recording,
    bounds: &Bounds,
    found: Option<RuleFindings>,
) -> ReportedProcess {
    let (incidents, judged) = found.map_or((None, None), |found| (Some(found.incidents), Some(found.judged)));
    let observed_ns = recording.observed_ns;
    let collections = &history.collections;
    let mut causes = Causes::default();
    collections.iter().for_each(|collection| causes.observe(collection));
    let longest = charts::longest(collections, bounds.longest);
    let named: BTreeSet<u32> = incidents
        .iter()
        .flatten()
        .filter_map(|incident| incident.gc_number)
        .chain(longest.iter().map(|collection| collection.number))
        .collect();
    let full = collections.iter().filter(|one| named.contains(&one.number));
    let known = collections.iter().filter_map(|one| one.pause_ns);
    let (count, sum) = known.fold((0_i64, 0_i64), |(count, sum), ns| (count + 1, sum.saturating_add(ns)));
    let heaps = collections.iter();
    let summary = SummaryRecord {
        subject,
        totals: &history.totals,
        others: &history.other_stops,
        observed_ns,
        ledger: memory::newest(collections).map(|(_, ledger)| ledger),
        is_known: true,
    };
    ReportedProcess {
        name,
        collector: collector(recording, collections),
        summary: serde_json::to_value(summary).unwrap_or_default(),
        mean_ns: sum.checked_div(count),
        largest_heap: heaps
            .flat_map(|one| [one.heap_before(), one.heap_after()])
            .flatten()
            .max(),
        induced: collections.iter().filter(|one| is_induced(one)).count() as u64,
        history: charts::columns(history, base, observed_ns),
        heap: charts::heap(collections, base, observed_ns, bounds.heap_points),
        pauses: charts::marks(collections, base, observed_ns, bounds.marks),
        causes: causes.all().iter().map(process::cause).collect(),
        longest: longest.iter().map(|one| collection::line(one, base)).collect(),
        full: full
            .filter_map(|one| collection::record(one, base, subject, None))
            .collect(),
        incidents,
        judged,
    }
}

/// Returns the display name of a process. The name contains the command line if the recording has one.
pub fn name(recording: &Recording, subject: Subject, several: bool) -> String {
    let pid = subject.pid.map(|pid| format!("pid {pid}"));
    // The ClrInstanceID distinguishes the runtimes in one process; the number is not a version.
    let instance = subject.clr_instance.filter(|_| several);
    let parts = [
        recording.program.name(subject.pid),
        Some(pid.unwrap_or_else(|| "unknown process".to_owned())),
        instance.map(|instance| format!("ClrInstanceID {instance}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the collector settings, if the recording has them, and the number of heaps. Without the settings, more than
/// one heap means server GC. Returns `None` if the recording has neither.
pub fn collector(recording: &Recording, collections: &[Collection]) -> Option<String> {
    let settings = row::collector(&recording.program.settings.attributes());
    let heaps = collections
        .iter()
        .filter_map(|one| Some(one.global.as_ref()?.heap_count));
    let heaps = heaps.max().filter(|heaps| *heaps > 0);
    let heaps = heaps.map(|heaps| match (heaps, &settings) {
        (1, _) => "one heap".to_owned(),
        (heaps, Some(_)) => format!("{heaps} heaps"),
        (heaps, None) => format!("server, {heaps} heaps"),
    });
    let parts: Vec<String> = [settings, heaps].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn requests(all: &[Request], base: UnixBase) -> ReportedRequests {
    let mut tally = RequestTally::new(WORST, MAX_NAMED_STOPS);
    for request in all {
        tally.observe(request, base);
    }
    tally.record().clone()
}

fn unseen(recording: &Recording, left_out: usize) -> Vec<UnobservedFact> {
    let mut all = Vec::new();
    let mut add = |what: String, why: &str| {
        all.push(UnobservedFact {
            what,
            why: why.to_owned(),
        });
    };
    if left_out > 0 {
        add(
            match left_out {
                1 => "1 more process".to_owned(),
                more => format!("{more} more processes"),
            },
            "this page shows the processes that were stopped longest; `gcwatch analyze` shows all",
        );
    }
    match recording.stream.lost_events {
        Some(0) => {}
        Some(lost) => add(plural(lost, "event"), "the runtime dropped them: its buffer was full"),
        None => add(
            "whether events were lost".to_owned(),
            "this stream does not number its events: losses cannot be counted",
        ),
    }
    let totals = || recording.processes.iter().map(|(_, history)| &history.totals);
    let lossy: u64 = totals().map(|totals| totals.lossy).sum();
    if lossy > 0 {
        add(
            format!("figures of {}", plural(lossy, "collection")),
            "events were lost around them: their figures may be too low",
        );
    }
    let incomplete: u64 = totals().map(|totals| totals.incomplete).sum();
    if incomplete > 0 {
        add(
            format!("parts of {}", plural(incomplete, "collection")),
            "they were in progress when the recording started or ended, or the runtime did not send a part",
        );
    }
    if recording.stream.undecodable > 0 {
        add(
            plural(recording.stream.undecodable, "event"),
            "their layout is unknown to this version of gcwatch",
        );
    }
    if let Some(cut) = &recording.cut {
        add("the end of the recording".to_owned(), cut);
    }
    if let Some(error) = &recording.error {
        add("the rest of the recording".to_owned(), &error.to_string());
    }
    add(
        "memory outside the heap, and limits".to_owned(),
        "a recording has only the collector's events: `gcwatch top` and the daemon's page show the process and its \
         container",
    );
    all
}
