//! The record of a recording as a page to send to somebody.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use clr_gc::gc::Collection;
use gc_requests::request::Request;
use gc_rules::engine::{collection_at, suspension_at};
use gc_rules::incident::IncidentRecord;
use gc_rules::time::{TimeBase, rfc3339};

use crate::pipeline::history::{Bucket, Causes, Mark, is_induced};
use crate::pipeline::process_view;
use crate::recording::{ProcessHistory, Recording};
use crate::records::gc::{Subject, SummaryRecord};
use crate::records::request::hex;
use crate::records::view::{
    HistoryColumns, PauseColumns, ReportRecord, ReportedProcess, ReportedRequest, ReportedRequests, Unseen,
};
use crate::report::memory;
use crate::report::units::plural;

/// Places of the charts at most.
const MOST_PLACES: i64 = 300;
/// Lengths of a place, ms; beyond them whole days.
const LENGTHS_MS: [i64; 16] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000,
    3_600_000, 86_400_000,
];
/// Longest collections in the table, all of them in full.
const LONGEST: usize = 100;
/// Requests that lost most.
const WORST: usize = 20;

/// The record of a recording. `incidents`: of each process, in the order of the recording; `None`: no rules were
/// evaluated.
pub fn report(recording: &Recording, base: TimeBase, incidents: Option<Vec<Vec<IncidentRecord>>>) -> ReportRecord {
    let several = recording.processes.len() > 1;
    let mut incidents = incidents.map(Vec::into_iter);
    let file = recording.stream.file.rsplit('/').next().unwrap_or_default();
    ReportRecord {
        version: env!("GCWATCH_VERSION"),
        file: file.to_owned(),
        runtime: recording.stream.runtime.clone(),
        started: recording.header.as_ref().and_then(|_| rfc3339(base.unix_ns(0))),
        observed_ns: recording.observed_ns,
        processes: recording
            .processes
            .iter()
            .map(|(subject, history)| {
                let incidents = incidents.as_mut().map(|all| all.next().unwrap_or_default());
                process(*subject, several, history, base, recording.observed_ns, incidents)
            })
            .collect(),
        requests: recording.requests.as_ref().map(|all| requests(all, base)),
        unseen: unseen(recording),
    }
}

fn process(
    subject: Subject,
    several: bool,
    history: &ProcessHistory,
    base: TimeBase,
    observed_ns: i64,
    incidents: Option<Vec<IncidentRecord>>,
) -> ReportedProcess {
    let mut causes = Causes::default();
    let mut pauses = PauseColumns::default();
    for collection in &history.collections {
        causes.observe(collection);
        let start = collection.start.unwrap_or_else(|| collection_at(collection));
        process_view::add_mark(&mut pauses, &Mark::of(collection, base.unix_ns(start)));
    }
    let mut longest: Vec<&Collection> = history.collections.iter().collect();
    longest.sort_by_key(|collection| (Reverse(collection.pause_ns), collection.number));
    longest.truncate(LONGEST);
    let named: BTreeSet<u32> = incidents
        .iter()
        .flatten()
        .filter_map(|incident| incident.gc_number)
        .chain(longest.iter().map(|collection| collection.number))
        .collect();
    let full = history.collections.iter().filter(|one| named.contains(&one.number));
    let known = history.collections.iter().filter_map(|one| one.pause_ns);
    let (count, sum) = known.fold((0_i64, 0_i64), |(count, sum), ns| (count + 1, sum.saturating_add(ns)));
    let heaps = history.collections.iter();
    let ledger = memory::newest(&history.collections).map(|(_, ledger)| ledger);
    let summary = SummaryRecord::new(subject, &history.totals, &history.other_stops, observed_ns).with(ledger);
    ReportedProcess {
        name: name(subject, several),
        collector: collector(&history.collections),
        summary: serde_json::to_value(summary).unwrap_or_default(),
        mean_ns: sum.checked_div(count),
        largest_heap: heaps
            .flat_map(|one| [one.heap_before(), one.heap_after()])
            .flatten()
            .max(),
        induced: history
            .collections
            .iter()
            .filter(|one| one.reason.is_some_and(is_induced))
            .count() as u64,
        history: columns(history, base, observed_ns),
        pauses,
        causes: causes.all().iter().map(process_view::cause).collect(),
        longest: longest.iter().map(|one| process_view::line(one, base)).collect(),
        full: full
            .filter_map(|one| crate::pipeline::record(one, base, subject, None))
            .collect(),
        incidents,
    }
}

fn name(subject: Subject, several: bool) -> String {
    let pid = subject
        .pid
        .map_or_else(|| "a process".to_owned(), |pid| format!("pid {pid}"));
    match subject.clr_instance {
        Some(instance) if several || instance != 0 => format!("{pid}, runtime {instance}"),
        _ => pid,
    }
}

/// Workstation and server GC differ in the number of heaps only, as far as collections show it.
fn collector(collections: &[Collection]) -> Option<String> {
    let heaps = collections
        .iter()
        .filter_map(|one| Some(one.global.as_ref()?.heap_count));
    let heaps = heaps.max().filter(|heaps| *heaps > 0)?;
    Some(match heaps {
        1 => "one heap".to_owned(),
        heaps => format!("server, {heaps} heaps"),
    })
}

/// The shortest length of a place of which there are not too many.
fn length_ns(observed_ns: i64) -> i64 {
    let fits = |length_ms: &&i64| observed_ns / (**length_ms * 1_000_000) < MOST_PLACES;
    match LENGTHS_MS.iter().find(fits) {
        Some(length_ms) => length_ms * 1_000_000,
        None => {
            let day = 86_400_000_000_000;
            (observed_ns / MOST_PLACES / day + 1) * day
        }
    }
}

fn columns(history: &ProcessHistory, base: TimeBase, observed_ns: i64) -> HistoryColumns {
    let observed_ns = observed_ns.max(1);
    let length = length_ns(observed_ns);
    let mut places: BTreeMap<i64, Bucket> = BTreeMap::new();
    // Damage must not make places: what is outside of the recording is at its edge.
    let place_of = |at: i64| at.clamp(0, observed_ns) / length;
    let mut stops: Vec<(i64, i64)> = Vec::new();
    for collection in &history.collections {
        let at = collection_at(collection);
        let pause = collection.pause_ns.and_then(|ns| u64::try_from(ns).ok());
        places.entry(place_of(at)).or_default().collection(collection, pause);
        for pause in &collection.pauses {
            if pause.spans.is_empty() {
                stops.push((at.saturating_sub(pause.pause_ns.unwrap_or(0)), at));
            }
            stops.extend(pause.spans.iter().copied());
        }
    }
    let alone = history.suspensions.iter();
    stops.extend(alone.filter_map(|stop| {
        let end = suspension_at(stop)?;
        Some((end.saturating_sub(stop.stopped_ns?), end))
    }));
    for (from, to) in stops {
        let (mut from, to) = (from.clamp(0, observed_ns), to.clamp(0, observed_ns));
        while from < to {
            let place = place_of(from);
            let end = ((place + 1) * length).min(to);
            let bucket = places.entry(place).or_default();
            bucket.stopped_ns = bucket.stopped_ns.saturating_add((end - from).unsigned_abs());
            from = end;
        }
    }
    let mut columns = HistoryColumns {
        bucket_ms: (length / 1_000_000).unsigned_abs(),
        span_ms: (observed_ns / 1_000_000).unsigned_abs().max(1),
        ..HistoryColumns::default()
    };
    for (place, bucket) in places {
        process_view::add(&mut columns, &bucket, base.unix_ns(place * length) / 1_000_000);
    }
    columns
}

fn requests(all: &[Request], base: TimeBase) -> ReportedRequests {
    let mut hit: Vec<(i64, &Request)> = all
        .iter()
        .filter_map(|request| Some((request.stopped_ns.filter(|ns| *ns > 0)?, request)))
        .collect();
    hit.sort_by_key(|(ns, request)| (Reverse(*ns), request.end));
    let lost_ns = hit.iter().fold(0_i64, |sum, (ns, _)| sum.saturating_add(*ns));
    let worst = hit.iter().take(WORST).filter_map(|(stopped_ns, request)| {
        let start = request.start?;
        let mut collections: Vec<u32> = request.hits.iter().filter_map(|stop| stop.collection).collect();
        collections.dedup();
        Some(ReportedRequest {
            start_ms: Some(base.unix_ns(start) / 1_000_000),
            duration_ns: request.duration_ns()?,
            stopped_ns: *stopped_ns,
            trace_id: request.ended.trace_id.map(|id| hex(&id)),
            stops: request
                .hits
                .iter()
                .map(|stop| [stop.begin - start, stop.end - start])
                .collect(),
            collections,
        })
    });
    ReportedRequests {
        count: all.len() as u64,
        known: all.iter().filter(|request| request.stopped_ns.is_some()).count() as u64,
        hit: hit.len() as u64,
        lost_ns,
        worst: worst.collect(),
    }
}

fn unseen(recording: &Recording) -> Vec<Unseen> {
    let mut all = Vec::new();
    let mut add = |what: String, why: &str| {
        all.push(Unseen {
            what,
            why: why.to_owned(),
        });
    };
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
            format!("facts of {}", plural(lossy, "collection")),
            "they lie in a loss of events: their figures may be lower than they were",
        );
    }
    let incomplete: u64 = totals().map(|totals| totals.incomplete).sum();
    if incomplete > 0 {
        add(
            format!("parts of {}", plural(incomplete, "collection")),
            "they were under way when the recording began or ended, or the runtime did not send a part",
        );
    }
    if recording.stream.undecodable > 0 {
        add(
            plural(recording.stream.undecodable, "event"),
            "their layout is not known to this version of gcwatch",
        );
    }
    if let Some(cut) = &recording.cut {
        add("the end of the recording".to_owned(), cut);
    }
    if let Some(error) = &recording.error {
        add("the rest of the recording".to_owned(), &error.to_string());
    }
    add(
        "memory outside of the heap, and limits".to_owned(),
        "a recording has the collector's events alone: `gcwatch top` and the daemon's page know the process and its \
         container",
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: recordings from a second to ten years.
    /// Guarantee: the charts have at most so many places, and not fewer than a tenth of that from 30 s on.
    #[test]
    fn places_are_few_and_fine() {
        let second = 1_000_000_000;
        for seconds in [1, 3, 30, 61, 600, 3_600, 86_400, 30 * 86_400, 3_650 * 86_400] {
            let places = seconds * second / length_ns(seconds * second) + 1;
            assert!(places <= MOST_PLACES, "{seconds} s: {places}");
            assert!(places >= 10, "{seconds} s: {places}");
        }
    }
}
