//! Histories of recordings and of generated collections.

use base::time::Wall;
use clr_gc::event::GcReason;
use clr_gc::gc::{Allocated, AllocatedUnknown, Pause, PauseKind};
use clr_gc::stream::Scope;
use test_support::recordings;

use super::*;
use recording::source::Source;
use recording::{ProcessHistory, Recording};

const SECOND: i64 = 1_000_000_000;
/// Maximum size of a run's history in bytes.
const MAX_BYTES: usize = 21 << 10;
/// Number of newest collections that a run keeps by default.
const NEWEST: usize = 6;

fn recorded(name: &str) -> (Recording, TimeBase) {
    let recording = Recording::read(
        &mut Source::open(&recordings::path(name)).unwrap(),
        Scope::Collections,
        |_| (),
    );
    let base = recording.header.as_ref().and_then(|header| header.unix_ns_of_offset(0));
    (recording, TimeBase::at(base.unwrap_or(0)))
}

fn observed(process: &ProcessHistory, base: TimeBase) -> History {
    let mut history = History::default();
    for collection in &process.collections {
        history.observe(Box::new(collection.clone()), base, NEWEST, Moment::NEVER);
    }
    for suspension in &process.suspensions {
        history.suspension(suspension, base, Moment::NEVER);
    }
    history
}

/// Returns a collection of a real process, which tests modify.
fn sample() -> Collection {
    let (recording, _) = recorded("net10-steady");
    let collections = &recording.processes[0].1.collections;
    let whole = collections
        .iter()
        .find(|one| one.is_complete() && one.generation == Some(0));
    whole.unwrap().clone()
}

/// Returns the sample with a pause of `length` from `from`, in nanoseconds relative to the base.
fn paused(number: u32, from: i64, length: i64) -> Box<Collection> {
    let mut collection = sample();
    (collection.number, collection.start) = (number, Some(from));
    collection.end = Some(from + length);
    collection.last_event = from + length;
    (collection.pause_ns, collection.lossy) = (Some(length), false);
    collection.pauses = vec![Pause::alone(from, length, Some(0), PauseKind::Blocking)];
    Box::new(collection)
}

const YEAR: i64 = 365 * 86_400 * SECOND;

fn base() -> TimeBase {
    TimeBase::at(YEAR.into())
}

fn at(seconds: i64) -> Moment {
    base().moment(seconds * SECOND)
}

fn observe(history: &mut History, collection: Box<Collection>) {
    history.observe(collection, base(), NEWEST, Moment::NEVER);
}

/// Scenario: every recording is observed like a live process.
/// Guarantee: stopped time, counts, allocation and pauses equal the sums of `analyze`, to the nanosecond and the byte;
/// the heap figures are those of the last collection with heap statistics; quantiles exceed the true values by at most
/// half; the history does not exceed its bound.
#[test]
fn sums_equal_those_of_analyze() {
    let (mut processes, mut largest) = (0, 0);
    for name in recordings::names() {
        let (recording, base) = recorded(&name);
        for (_, process) in &recording.processes {
            let history = observed(process, base);
            let bytes = history.memory_bytes();
            largest = largest.max(bytes);
            assert!(bytes <= MAX_BYTES, "{name}: {bytes}");
            let all = history.pauses_since(Moment::FIRST);
            let totals = &process.totals;
            assert_eq!(history.collections, totals.count, "{name}");
            assert_eq!((history.lossy, history.incomplete), (totals.lossy, totals.incomplete));
            assert_eq!(all.collections.iter().sum::<u64>(), totals.count, "{name}");
            assert_eq!(i64::try_from(all.stopped_ns).unwrap(), totals.stopped_ns, "{name}");
            assert_eq!(all.allocated, totals.allocated, "{name}");
            let quantiles = totals.quantiles();
            assert_eq!(length(quantiles.map(|known| known.max)), all.longest_ns, "{name}");
            if let Some(known) = quantiles {
                for (percent, exact) in [(50, known.p50), (99, known.p99)] {
                    let (exact, shown) = (u64::try_from(exact).unwrap(), all.quantile(percent).unwrap());
                    assert!(
                        shown >= exact && shown <= (exact + exact / 2 + 1).max(2 << 12),
                        "{name}: {exact} {shown}"
                    );
                }
            }
            let causes = history.causes.all();
            let sum: u64 = causes.iter().map(|cause| cause.pause_ns).sum();
            assert_eq!(i64::try_from(sum).unwrap(), totals.pause_ns(), "{name}");
            assert_eq!(causes.iter().map(|cause| cause.count).sum::<u64>(), totals.count);
            let marks: Vec<Mark> = history.marks().collect();
            assert_eq!(marks.len(), process.collections.len().min(MAX_MARKS), "{name}");
            for (mark, collection) in marks.iter().rev().zip(process.collections.iter().rev()) {
                assert_eq!(mark.number, u64::from(collection.number));
                assert_eq!(mark.pause_ns, length(collection.pause_ns));
                assert_eq!(mark.gc_type(), type_of(collection));
                assert_eq!((mark.reason(), mark.lossy), (collection.reason, collection.lossy));
            }
            let with_stats = || process.collections.iter().filter(|one| one.heap_stats.is_some());
            if let Some(last) = with_stats().max_by_key(|one| collection_at(one)) {
                assert_eq!(history.figures.heap_after(), last.heap_after(), "{name}");
            }
            for bucket in history.buckets.all().filter(|bucket| bucket.heap[2].is_some()) {
                let is = |one: &&Collection| one.heap.each_ref().map(|sizes| sizes.after) == bucket.heap;
                assert!(with_stats().any(|one| is(&one)), "{name}");
            }
            let longest = history.longest(Moment::NEVER).count();
            assert_eq!(longest, 0, "{name}: no recording is of the far future");
            processes += 1;
        }
    }
    println!("{processes} processes, at most {largest} bytes");
    assert!(processes >= 28);
}

/// Scenario: busy recordings are repeated for 40 minutes.
/// Guarantee: the bound holds; the history has at least 90 % of the buckets of 30 minutes and the maximum number of
/// marks; the longest collections are kept, the longest first.
#[test]
fn history_of_30_minutes_fits() {
    for name in [
        "svc8-workstation",
        "net10-threads-server-datas",
        "net10b-nearlimit",
        "net8-leak",
    ] {
        let (recording, _) = recorded(name);
        let process = &recording.processes[0].1;
        let length = recording.observed_ns.max(SECOND);
        let mut history = History::default();
        let mut offset = 0;
        while offset < 2400 * SECOND {
            let base = TimeBase::at(i128::from(YEAR + offset));
            for collection in &process.collections {
                history.observe(Box::new(collection.clone()), base, NEWEST, Moment::NEVER);
            }
            // The memory usage of a container is read every 15 s and differs each time.
            let used = 900_000_000 + u64::try_from(offset).unwrap() % 7_777_777;
            history.measured(Some(used / 4096 * 4096), base.moment(length));
            offset += length;
        }
        let bytes = history.memory_bytes();
        println!(
            "{name}: {bytes} bytes, buckets {:?}, marks {:?}, causes {}, kept {}, itself {}",
            history.buckets.size(),
            history.marks.size(),
            history.causes.memory_bytes(),
            history.kept.memory_bytes(),
            size_of::<History>(),
        );
        assert!(bytes <= MAX_BYTES, "{name}: {bytes}");
        assert!(history.buckets.all().count() as u64 >= BUCKETS * 9 / 10, "{name}");
        assert_eq!(history.marks().count(), MAX_MARKS, "{name}");
        assert_eq!(history.kept.newest().count(), NEWEST, "{name}");
        let now = at(offset / SECOND);
        let longest: Vec<_> = history
            .longest(now)
            .map(|kept| kept.collection.unpack().pause_ns)
            .collect();
        assert!(longest.len() >= 2 && longest.is_sorted_by(|a, b| a >= b), "{longest:?}");
        assert_eq!(length_of(&history, now), longest[0].unwrap(), "{name}");
    }
}

fn length_of(history: &History, now: Moment) -> i64 {
    let pauses = history.pauses_since(now.before(HISTORY_NS));
    i64::try_from(pauses.longest_ns.unwrap()).unwrap()
}

/// Scenario: a hostile process sends collections in which every number has its maximum size.
/// Guarantee: the bound holds; more than 100 marks and at least one full collection are kept, and further causes share
/// one row.
#[test]
fn large_numbers_stay_within_bound() {
    let mut history = History::default();
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state | 1 << 63
    };
    for number in 0..2000u32 {
        let mut collection = paused(number.wrapping_mul(0x9e37_79b9), i64::from(number) * SECOND, SECOND / 2);
        collection.generation = Some(random() as u32);
        collection.reason = Some(GcReason(random() as u32));
        collection.gc_type = Some(GcType(random() as u32));
        collection.pause_ns = Some(i64::MAX - i64::from(number));
        collection.allocated = Ok(Allocated {
            since: 0,
            until: 1_000_000,
            bytes: random(),
            at_least: false,
        });
        for sizes in &mut collection.heap {
            sizes.after = Some(random());
        }
        let pause = collection.pauses[0].clone();
        collection.pauses = vec![pause; 40];
        collection.committed.after = Some(random());
        observe(&mut history, collection);
        history.measured(Some(random()), at(i64::from(number)));
        let bytes = history.memory_bytes();
        assert!(bytes <= MAX_BYTES, "{number}: {bytes}");
    }
    assert!(history.marks().count() > 100);
    assert_eq!(history.causes.all().len(), causes::MAX_CAUSES + 1);
    assert_eq!(history.causes.all().iter().map(|cause| cause.count).sum::<u64>(), 2000);
    assert!(history.kept.newest().count() >= 1);
}

/// Scenario: pauses end at the edge of a bucket, start at it, and span three buckets; then no pause occurs for an hour.
/// Guarantee: each bucket has the time that falls into it and never more than its length, empty buckets do not exist,
/// and buckets older than 30 minutes are dropped.
#[test]
fn pauses_are_divided_among_buckets() {
    let mut history = History::default();
    observe(&mut history, paused(1, 9 * SECOND, SECOND));
    observe(&mut history, paused(2, 20 * SECOND, SECOND));
    observe(&mut history, paused(3, 35 * SECOND, 20 * SECOND));
    let stopped = |history: &History, now: i64| -> Vec<(i64, u64, u32)> {
        let first = bucket_of(at(0));
        let each = history.buckets(at(now)).into_iter();
        each.map(|bucket| {
            let place = i64::try_from(bucket.index - first).unwrap() * 10;
            (place, bucket.stopped_ns / 1_000_000_000, bucket.collections[0])
        })
        .collect()
    };
    let seconds = [(0, 1, 0), (10, 0, 1), (20, 1, 1), (30, 5, 0), (40, 10, 0), (50, 5, 1)];
    assert_eq!(stopped(&history, 60), seconds);
    assert_eq!(stopped(&history, 1800), seconds[1..]);
    assert_eq!(stopped(&history, 1840), seconds[5..]);
    // After an hour without collections, another collection arrives: the old buckets are dropped for good.
    observe(&mut history, paused(4, 3600 * SECOND, SECOND));
    assert_eq!(stopped(&history, 60), [(3600, 1, 1)]);
    assert_eq!(history.marks().count(), 4);
    assert_eq!(history.longest(at(3601)).count(), 1);
}

/// Scenario: a background collection ends 25 s after it started with a pause; a foreground collection is observed
/// before the background collection ends.
/// Guarantee: the first pause of the background collection is in the bucket in which it occurred.
#[test]
fn late_pause_is_added_to_its_bucket() {
    let mut history = History::default();
    observe(&mut history, paused(2, 12 * SECOND, SECOND));
    let mut background = paused(1, SECOND, 2 * SECOND);
    background.gc_type = Some(GcType::BACKGROUND);
    background.generation = Some(2);
    (background.end, background.last_event) = (Some(26 * SECOND), 26 * SECOND);
    observe(&mut history, background);
    let stopped: Vec<u64> = history
        .buckets(at(30))
        .iter()
        .map(|bucket| bucket.stopped_ns / 1_000_000_000)
        .collect();
    assert_eq!(stopped, [2, 1, 0]);
    let all = history.pauses_since(Moment::FIRST);
    assert_eq!((all.collections[0], all.collections[7]), (1, 1));
    assert_eq!(history.marks().map(|mark| mark.number).collect::<Vec<_>>(), [2, 1]);
}

/// Scenario: a stream claims to be from the year 2200.
/// Guarantee: no bucket is later than now.
#[test]
fn future_events_are_clamped_to_now() {
    let mut history = History::default();
    history.observe(paused(1, 230 * YEAR, SECOND), base(), NEWEST, at(4000));
    assert_eq!(history.buckets(at(4000)).last().unwrap().start_ns(), at(4000).ns());
}

/// Scenario: three buckets of a history are shown and stored, with an unchanged wall clock and after it was set by
/// seconds and by an hour, forward and back.
/// Guarantee: each bucket is shown at separate ten seconds of Unix time, which are the nearest to its position.
#[test]
fn clock_change_moves_shown_buckets_only() {
    let mut history = History::default();
    for second in [9, 20, 35] {
        history.observe(paused(1, second * SECOND, SECOND / 2), base(), NEWEST, at(second));
    }
    let shown = |by: i64| -> Vec<i64> {
        let buckets = history.buckets(at(40)).into_iter();
        let on = buckets.map(|bucket| bucket.on(Wall::ahead(by)).start_ns().cast_signed());
        on.map(|start| (start - at(0).ns().cast_signed()) / SECOND).collect()
    };
    assert_eq!(shown(0), [0, 20, 30]);
    assert_eq!(shown(4 * SECOND), [0, 20, 30]);
    assert_eq!(shown(-4 * SECOND), [0, 20, 30]);
    assert_eq!(shown(6 * SECOND), [10, 30, 40]);
    assert_eq!(shown(3600 * SECOND), [3600, 3620, 3630]);
    assert_eq!(shown(-3600 * SECOND), [-3600, -3580, -3570]);
}

/// Scenario: no collection is observed; then only the container is read; then a reading fails.
/// Guarantee: values that were not observed are unknown, and a failed reading is not zero.
#[test]
fn unknown_values_stay_unknown() {
    let mut history = History::default();
    assert_eq!((history.figures, history.buckets(at(0)).len()), (Newest::default(), 0));
    history.measured(None, at(5));
    assert_eq!(history.buckets(at(5)).len(), 0);
    history.measured(Some(7), at(5));
    history.measured(None, at(6));
    let buckets = history.buckets(at(9));
    assert_eq!(buckets[0].container_memory, Some(7));
    assert_eq!(
        (buckets[0].allocated, buckets[0].longest_ns, buckets[0].heap),
        (None, None, [None; 5])
    );
    let pauses = history.pauses_since(Moment::FIRST);
    assert_eq!((pauses.quantile(99), pauses.allocated), (None, None));
    assert_eq!(history.figures.heap_after(), None);
}

/// Scenario: collections occur 30 s apart, each after 3 MB were allocated; then one occurs after three hours.
/// Guarantee: each ten seconds have the part that was allocated in them, and no byte counts twice; allocation before
/// the last 30 minutes is dropped, in bounded time.
#[test]
fn allocation_is_divided_among_buckets() {
    let mut history = History::default();
    let collected = |number: u32, end: i64, over: Option<(i64, u64)>| {
        let mut collection = paused(number, end, 0);
        collection.gc_type = Some(GcType::BLOCKING);
        collection.start = Some(end);
        let over = over.ok_or(AllocatedUnknown::First);
        collection.allocated = over.map(|(since, bytes)| Allocated {
            since,
            until: end,
            bytes,
            at_least: false,
        });
        collection
    };
    let allocated = |history: &History, now: i64| -> Vec<Option<u64>> {
        history.buckets(at(now)).iter().map(|bucket| bucket.allocated).collect()
    };
    observe(&mut history, collected(1, 10 * SECOND, None));
    observe(&mut history, collected(2, 40 * SECOND, Some((10 * SECOND, 3_000_000))));
    let million = Some(1_000_000);
    assert_eq!(allocated(&history, 40), [million, million, million, None]);
    let hours = 3 * 3600;
    observe(
        &mut history,
        collected(3, hours * SECOND, Some((40 * SECOND, 10_760_000))),
    );
    let last = allocated(&history, hours);
    assert_eq!(last.len() as u64, BUCKETS);
    assert!(
        last.iter().rev().skip(1).flatten().all(|bytes| *bytes == 10_000),
        "{last:?}"
    );
}
