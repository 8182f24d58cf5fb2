//! The stopped time of a process, computed without knowledge of collections.

use std::collections::HashMap;

use clr_gc::event::ClrEvent;
use clr_gc::gc::Collection;
use clr_gc::stream::Scope;

use crate::recordings::{self, Recording, own};

/// Returns the recording and its stops with reasons 1 and 6, computed from single events: thread, begin, end.
fn plain_stops(name: &str) -> (Recording, Vec<(u64, i64, i64)>) {
    let mut open: HashMap<u64, i64> = HashMap::new();
    let mut stops = Vec::new();
    let recording = Recording::read_bytes(&recordings::bytes(name), Scope::Collections, |observed| {
        let (at, thread) = (observed.at, observed.event.thread);
        match observed.decoded {
            Ok(ClrEvent::SuspendEeBegin(begin)) if begin.reason.is_gc() => {
                open.insert(thread, at);
            }
            Ok(ClrEvent::SuspendEeBegin(_)) => {
                open.remove(&thread);
            }
            Ok(ClrEvent::RestartEeEnd(_)) => stops.extend(open.remove(&thread).map(|begin| (thread, begin, at))),
            _ => {}
        }
    });
    (recording, stops)
}

fn is_clean(name: &str) -> bool {
    name != "net10b-loss"
}

/// Scenario: every recording without loss is read.
/// Guarantee: every stop is reported. The pauses of all collections and the stops without a collection add up to the
/// time between SuspendEEBegin and RestartEEEnd, to the nanosecond.
#[test]
fn parts_add_up_to_stopped_time() {
    let mut total = 0;
    for name in recordings::names().into_iter().filter(|name| is_clean(name)) {
        let (recording, stops) = plain_stops(&name);
        let stopped: i64 = stops.iter().map(|(_, begin, end)| end - begin).sum();
        let is_reported = |begin: i64| {
            recording
                .collections()
                .iter()
                .flat_map(|gc| &gc.pauses)
                .any(|pause| pause.edges.suspend_begin == Some(begin) && pause.pause_ns.is_some())
                || recording
                    .suspensions
                    .iter()
                    .any(|suspension| suspension.edges.suspend_begin == Some(begin) && suspension.stopped_ns.is_some())
        };
        let missing: Vec<_> = stops.iter().filter(|(_, begin, _)| !is_reported(*begin)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
        let parts = recording
            .collections()
            .iter()
            .flat_map(|gc| &gc.pauses)
            .filter_map(|pause| pause.pause_ns);
        let without = recording
            .suspensions
            .iter()
            .filter_map(|suspension| suspension.stopped_ns);
        assert_eq!(parts.chain(without).sum::<i64>(), stopped, "{name}");
        total += stopped;
    }
    let enough = if recordings::are_all_there() {
        10_000_000_000
    } else {
        100_000_000
    };
    assert!(total > enough, "{total}: recordings are missing");
}

/// Scenario: a recording has 44,806 lost events.
/// Guarantee: no time is reported twice or invented: the reported time is less than the time that the process itself
/// counted.
#[test]
fn lost_events_cause_no_invented_time() {
    let (recording, _) = plain_stops("net10b-loss");
    assert_eq!(recording.stream.decoder().stats().lost, Some(44_806));
    let reported: i64 = recording
        .collections()
        .iter()
        .flat_map(|gc| &gc.pauses)
        .filter_map(|pause| pause.pause_ns)
        .sum();
    let ticks = own("net10b-loss").unwrap();
    let counted = ticks.iter().map(|tick| tick[4]).max().unwrap() * 1000;
    assert!(
        reported > 0 && reported < counted,
        "reported {reported}, counted {counted}"
    );
    assert!(recording.collections().iter().any(|gc| gc.lossy) && recording.collections().iter().any(|gc| !gc.lossy));
}

/// Scenario: recordings contain whole sessions without loss.
/// Guarantee: only collections in progress at the start or the end are incomplete.
#[test]
fn only_collections_at_ends_are_incomplete() {
    for name in recordings::names().into_iter().filter(|name| is_clean(name)) {
        let recording = Recording::read(&name);
        let collections = recording.collections();
        let incomplete: Vec<&Collection> = collections.iter().filter(|gc| !gc.is_complete()).collect();
        let ends = collections.iter().filter_map(|gc| gc.end).max().unwrap_or_default();
        let first = collections
            .iter()
            .filter(|gc| gc.is_complete())
            .filter_map(|gc| gc.start)
            .min()
            .unwrap_or_default();
        for gc in incomplete {
            let at_the_beginning = gc.start.is_none_or(|start| start < first)
                || gc.pauses.iter().all(|pause| pause.edges.suspend_begin.is_none());
            let at_the_end = (gc.is_concurrent() && gc.end.is_none()) || gc.last_event >= ends - 200_000_000;
            assert!(
                at_the_beginning || at_the_end,
                "{name} #{}: {:?}",
                gc.number,
                gc.missing
            );
        }
        assert!(!collections.iter().any(|gc| gc.lossy), "{name}: no event was lost");
    }
}

/// Scenario: the process prints its own counters.
/// Guarantee: between the first and the last print, the number of started collections of each generation differs from
/// the counter of the process by at most 2. The time from SuspendEEBegin to RestartEEBegin differs from the counted
/// pause by less than 10 %, if the process counts a pause of more than 50 ms.
#[test]
fn counts_equal_those_of_process() {
    let (mut compared, mut stopped_compared) = (0, 0);
    for name in recordings::names().into_iter().filter(|name| is_clean(name)) {
        let Some(ticks) = own(&name) else { continue };
        let recording = Recording::read(&name);
        let header = recording.stream.header().unwrap();
        let ticks: Vec<(i64, [i64; 5])> = ticks
            .into_iter()
            .map(|tick| (header.offset_ns(tick[0]), tick))
            .collect();
        let seen_from = recording
            .collections()
            .iter()
            .filter_map(|gc| gc.start)
            .min()
            .unwrap_or(i64::MAX);
        let seen_to = recording
            .collections()
            .iter()
            .map(|gc| gc.last_event)
            .max()
            .unwrap_or(0);
        let within: Vec<&(i64, [i64; 5])> = ticks
            .iter()
            .filter(|(at, _)| *at > seen_from.max(0) && *at < seen_to)
            .collect();
        let (Some((from, first)), Some((to, last))) = (within.first(), within.last()) else {
            continue;
        };
        // A collection counts when it starts; CollectionCount(n) also counts collections of older generations.
        for generation in 0..3 {
            let started = |gc: &&Collection| {
                gc.generation.is_some_and(|of| of >= generation)
                    && gc.start.is_some_and(|start| start > *from && start <= *to)
            };
            let ours = recording.collections().iter().filter(started).count() as i64;
            let theirs = last[1 + generation as usize] - first[1 + generation as usize];
            // The process does not read its counters and print them atomically, so a collection during a print can be
            // on either side.
            assert!(
                (ours - theirs).abs() <= 2,
                "{name} gen{generation}: {ours} started, the process counted {theirs}"
            );
            compared += ours;
        }
        if first[4] >= 0 {
            let stops = recording.collections().iter().flat_map(|gc| {
                gc.pauses
                    .iter()
                    .filter(|pause| pause.suspend_ns != Some(0) || pause.shared_with.is_empty())
                    .map(|pause| pause.edges)
            });
            let ours: i64 = stops
                .filter(|edges| {
                    edges
                        .restart_begin
                        .is_some_and(|restart| restart > *from && restart <= *to)
                })
                .filter_map(|edges| Some(edges.restart_begin? - edges.suspend_begin?))
                .sum();
            let theirs = (last[4] - first[4]) * 1000;
            if theirs > 50_000_000 {
                stopped_compared += 1;
                let share = ours as f64 / theirs as f64;
                assert!(
                    (0.9..1.1).contains(&share),
                    "{name}: {ours} ns stopped, the process counted {theirs}"
                );
            }
        }
    }
    assert!(
        !recordings::are_all_there() || (compared > 1_500 && stopped_compared >= 8),
        "{compared} {stopped_compared}: recordings are missing"
    );
}

/// Scenario: .NET Core 3.1 enables its events one after another: a session started, and four collections arrived
/// without GCStart but with all other events.
/// Guarantee: each collection is reported with its stop, its sizes and its histories, and only its start is missing.
#[test]
fn collections_without_start_keep_observed_facts() {
    let recording = Recording::read("net31-attach-race");
    let collections = recording.collections();
    assert_eq!(collections.len(), 4);
    for gc in collections {
        let missing: Vec<_> = gc.missing.iter().map(|part| part.name()).collect();
        assert_eq!(missing, ["start"], "#{}", gc.number);
        assert!(
            gc.pause_ns.is_some() && gc.heap_before().is_some() && gc.reason.is_none(),
            "#{}",
            gc.number
        );
    }
}
