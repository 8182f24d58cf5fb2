//! Dropped, duplicated and moved events: no panic, and no incorrect value in a collection that claims to be whole.

use std::fmt::Arguments;

use clr_gc::event::{Layout, PointerSize, decode};
use clr_gc::gc::{Account, Cause, Collection, Machine, Outcome, ReportTiming};
use clr_gc::stream::Scope;

use crate::account::assert_adds_up;
use crate::recordings::{self, Recording};

/// An event of a recording.
#[derive(Clone)]
struct SentEvent {
    at: i64,
    thread: u64,
    layout: Layout,
    payload: Vec<u8>,
}

/// Returns the events of a recording from which collections are built, without the events that name the program and its
/// settings.
fn events(name: &str) -> Vec<SentEvent> {
    let mut events = Vec::new();
    Recording::read_bytes(&recordings::bytes(name), Scope::Collections, |observed| {
        let layout = observed.layout.unwrap();
        if ["ProcessInfo", "GCSettingsRundown"].contains(&layout.name()) {
            return;
        }
        events.push(SentEvent {
            at: observed.at,
            thread: observed.event.thread,
            layout,
            payload: observed.event.payload.to_vec(),
        });
    });
    events
}

fn collections<'e>(events: impl IntoIterator<Item = &'e SentEvent>) -> Vec<Collection> {
    let mut machine = Machine::new(Some(0), ReportTiming::AtTheEnd);
    for event in events {
        let decoded = decode(event.layout, &event.payload, PointerSize::Eight).unwrap();
        machine.observe(event.at, event.thread, &decoded);
    }
    machine.finish();
    std::iter::from_fn(|| machine.next_outcome())
        .filter_map(|outcome| match outcome {
            Outcome::Collection(collection) => Some(*collection),
            Outcome::Suspension(_) => None,
        })
        .collect()
}

/// Compares two accounts. Each mark is a single event: if a mark is missing, less time is explained, but no time is
/// attributed to a wrong cause. Phase times are whole microseconds, so a part can exceed its true value by 1,000 ns.
/// The division among roots, survivors and relocation depends on earlier collections, so only the sum of these parts is
/// compared.
fn assert_accounts(claimed: &Account, truth: &Account, ns: i64, context: Arguments<'_>) {
    assert_eq!(claimed.total(), ns, "{context}");
    let is_shared =
        |cause: Cause| cause.id().starts_with("roots.") || matches!(cause, Cause::Survivors | Cause::Relocate);
    let shared = |account: &Account| {
        let parts = account.parts().filter(|part| is_shared(part.cause));
        parts.map(|part| part.ns).sum::<i64>()
    };
    let (claimed_shared, true_shared) = (shared(claimed), shared(truth));
    assert!(
        claimed_shared <= true_shared + 1_000,
        "{context}: roots, survivors and relocation took {claimed_shared} of {true_shared} ns"
    );
    let others = claimed
        .parts()
        .filter(|part| part.cause != Cause::Unexplained && !is_shared(part.cause));
    for part in others {
        let most = truth.get(part.cause).unwrap_or(0);
        assert!(
            part.ns >= 0 && part.ns <= most + 1_000,
            "{context}: {part:?} of {most} ns"
        );
    }
}

/// Asserts that a collection that claims to be whole equals the true collection in all facts that the claim covers. A
/// fact in a separate event that no other event proves (the trigger, committed memory, a DATAS measurement) can be
/// absent. The same applies to the background collection in progress, a fact about another collection.
fn assert_right(mut claimed: Collection, truth: &Collection, context: Arguments<'_>) {
    if claimed.trigger.is_none() || truth.trigger.is_none() {
        claimed.trigger = truth.trigger;
    }
    // The requester is known only through the trigger and other actions of its thread, whose events can be missing.
    claimed.trigger_thread = truth.trigger_thread;
    claimed.requested_by_tool = truth.requested_by_tool;
    claimed.background = claimed.background.or(truth.background);
    claimed.committed.before = claimed.committed.before.or(truth.committed.before);
    claimed.committed.after = claimed.committed.after.or(truth.committed.after);
    claimed.committed.bookkeeping = claimed.committed.bookkeeping.or(truth.committed.bookkeeping);
    claimed.committed.kept = claimed.committed.kept.or(truth.committed.kept);
    claimed.committed.kept_before = claimed.committed.kept_before.or(truth.committed.kept_before);
    claimed.throughput_cost_percent = claimed.throughput_cost_percent.or(truth.throughput_cost_percent);
    // The measured interval depends on neighbouring collections; `check` compares the sums.
    claimed.allocated = truth.allocated;
    claimed.last_event = truth.last_event;
    // Few collections have the event of the created thread, so only sequence numbers can prove that the event is not
    // missing.
    claimed.thread_created = truth.thread_created;
    for (pause, true_pause) in claimed.pauses.iter_mut().zip(&truth.pauses) {
        if let (Some(account), Some(true_account), Some(ns)) = (&pause.account, &true_pause.account, pause.pause_ns) {
            assert_accounts(account, true_account, ns, context);
            pause.account = true_pause.account;
        }
        pause.handles_ns = pause.handles_ns.or(true_pause.handles_ns);
        // No duration depends on RestartEEBegin.
        pause.edges.restart_begin = pause.edges.restart_begin.or(true_pause.edges.restart_begin);
    }
    if &claimed != truth {
        let (claimed, truth) = (format!("{claimed:#?}"), format!("{truth:#?}"));
        let differ: Vec<_> = claimed
            .lines()
            .zip(truth.lines())
            .filter(|(claimed, truth)| claimed != truth)
            .take(8)
            .collect();
        panic!("{context}: claimed and true: {differ:?}");
    }
}

/// Compares the collections that claim to be whole with the true collections, and returns the number of comparisons.
/// `of_others` is whether the background collection in progress is compared, which is a fact about another collection.
/// If several events are missing, this fact can refer to a wrong collection without a trace.
fn check<'e>(
    name: &str,
    truth: &[Collection],
    changed: impl IntoIterator<Item = &'e SentEvent>,
    what: Arguments<'_>,
    of_others: bool,
) -> usize {
    let mut claims = 0;
    let allocated = |gcs: &[Collection]| gcs.iter().filter_map(Collection::allocated_since_last).sum::<u64>();
    let claimed = collections(changed);
    let (sum, true_sum) = (allocated(&claimed), allocated(truth));
    assert!(
        sum <= true_sum + true_sum / 50 + (1 << 20),
        "{name}, {what}: {sum} bytes were allocated, and {true_sum} are true"
    );
    // The events after a collection prove that none of its events is missing, through numbers, counts and the order of
    // edges. No events follow the last collections. Only sequence numbers could prove that their events are complete,
    // and these events have no sequence numbers.
    let last = truth.iter().map(|gc| gc.number).max().unwrap_or(0) - 1;
    for mut claimed in claimed
        .into_iter()
        .filter(|gc| gc.is_complete() && !gc.lossy && gc.number < last)
    {
        let number = claimed.number;
        let Some(truth) = truth.iter().find(|gc| gc.number == number) else {
            panic!("{name}, {what}: #{number} never happened");
        };
        if truth.is_complete() {
            claims += 1;
            if !of_others {
                claimed.background = None;
            }
            assert_right(claimed, truth, format_args!("{name}, {what}: #{number}"));
        }
    }
    claims
}

const RECORDINGS: [&str; 9] = [
    "net31-steady",
    "net10-steady",
    "net10-threads-server-datas",
    "net10-threads-server",
    "net10b-attach-in-bgc",
    "net10b-pmode",
    "net8-clrgc-threads",
    "net8-leak",
    "svc8-workstation",
];

/// A random number generator that is seeded by a constant (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % below
    }
}

/// Scenario: each event of a recording is dropped in turn, without a sequence number that shows it.
/// Guarantee: collections that claim to be whole are correct, and at most 5 collections no longer claim to be whole.
#[test]
fn dropped_event_causes_no_wrong_collection() {
    for name in recordings::present(&RECORDINGS) {
        let events = events(name);
        let truth = collections(&events);
        let last = truth.iter().map(|gc| gc.number).max().unwrap_or(0) - 1;
        let whole = truth.iter().filter(|gc| gc.is_complete() && gc.number < last).count();
        for index in 0..events.len() {
            let (before, after) = (&events[..index], &events[index + 1..]);
            let gone = events[index].layout.name();
            let what = format_args!("without event {index} ({gone})");
            let claims = check(name, &truth, before.iter().chain(after), what, true);
            assert!(claims + 5 >= whole, "{name}, {what}: {claims} of {whole} are left");
        }
    }
}

/// Scenario: each event is duplicated in turn.
/// Guarantee: no value is counted twice, and no collection loses its claim to be whole.
#[test]
fn duplicate_event_is_not_counted_twice() {
    for name in recordings::present(&RECORDINGS) {
        let events = events(name);
        let truth = collections(&events);
        let last = truth.iter().map(|gc| gc.number).max().unwrap_or(0) - 1;
        let whole = truth.iter().filter(|gc| gc.is_complete() && gc.number < last).count();
        for index in 0..events.len() {
            let changed = events[..=index].iter().chain(&events[index..]);
            let twice = events[index].layout.name();
            let what = format_args!("with event {index} ({twice}) twice");
            assert_eq!(check(name, &truth, changed, what, true), whole, "{name}, {what}");
        }
    }
}

/// Scenario: two neighbouring events are swapped, so that one arrives late.
/// Guarantee: collections that claim to be whole are correct.
#[test]
fn late_event_causes_no_wrong_collection() {
    for name in recordings::present(&RECORDINGS) {
        let events = events(name);
        let truth = collections(&events);
        let mut changed: Vec<&SentEvent> = events.iter().collect();
        for index in 1..events.len() {
            changed.swap(index - 1, index);
            let what = format_args!("with event {index} before its neighbour");
            check(name, &truth, changed.iter().copied(), what, true);
            changed.swap(index - 1, index);
        }
    }
}

/// Scenario: runs of events are dropped, and single events are dropped, duplicated and moved, at random positions
/// (seeded).
/// Guarantee: collections that claim to be whole are correct. With five other seeds, 6 of 470,000 such collections were
/// incorrect: the losses of a background collection can match each other so well that only sequence numbers, which real
/// streams have, reveal the losses.
#[test]
fn randomly_changed_events_cause_no_wrong_collection() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut claims = 0;
    for name in recordings::present(&RECORDINGS) {
        let events = events(name);
        let truth = collections(&events);
        for round in 0..150 {
            let mut changed: Vec<&SentEvent> = events.iter().collect();
            for _ in 0..1 + random.next(12) {
                let index = random.next(changed.len());
                match random.next(5) {
                    0 => {
                        changed.remove(index);
                    }
                    1 => {
                        let to = (index + 1 + random.next(30)).min(changed.len());
                        changed.drain(index..to);
                    }
                    2 => changed.insert(index, changed[index]),
                    3 => {
                        let late = changed.remove(index);
                        let to = (index + random.next(20)).min(changed.len());
                        changed.insert(to, late);
                    }
                    _ => {
                        let doubled = changed[index];
                        let to = (index + random.next(20)).min(changed.len());
                        changed.insert(to, doubled);
                    }
                }
                if changed.is_empty() {
                    break;
                }
            }
            claims += check(name, &truth, changed, format_args!("round {round}"), false);
        }
    }
    let enough = if recordings::are_all_there() { 10_000 } else { 5_000 };
    assert!(claims > enough, "{claims} claims are too few for a test");
}

/// Scenario: a hostile stream sends events of a recording in any order, on any thread, at any time, including the
/// smallest and the largest timestamp.
/// Guarantee: there is no panic, the parts of each stop add up, no duration is negative, and no collection has more
/// than [`clr_gc::gc::MAX_STOPS`] stops.
#[test]
fn hostile_events_are_handled() {
    let mut random = Random(0xD1B5_4A32_D192_ED03);
    let times = [i64::MIN, -1, 0, 1, i64::MAX];
    let mut reported = 0;
    for name in ["net10b-pmode", "net8-clrgc-threads"] {
        let events = events(name);
        for _ in 0..40 {
            let mut changed = Vec::new();
            for _ in 0..3_000 {
                let mut event = events[random.next(events.len())].clone();
                event.thread = random.next(4) as u64;
                event.at = if random.next(8) == 0 {
                    times[random.next(times.len())]
                } else {
                    random.next(1 << 30) as i64
                };
                changed.push(event);
            }
            // One event is repeated 500 times, for example to start many collections in one stop or many stops in one
            // collection.
            let again = changed[random.next(changed.len())].clone();
            changed.extend(std::iter::repeat_n(again, 500));
            for gc in collections(&changed) {
                reported += 1;
                assert_adds_up(&gc, name);
                assert!(gc.duration_ns().is_none_or(|ns| ns >= 0), "{gc:?}");
                assert!(gc.pauses.len() <= clr_gc::gc::MAX_STOPS, "{gc:?}");
                assert!(
                    gc.pauses.iter().all(|pause| pause.pause_ns.is_none_or(|ns| ns >= 0)),
                    "{gc:?}"
                );
                assert!(
                    gc.pauses.iter().all(|pause| pause.suspend_ns.is_none_or(|ns| ns >= 0)),
                    "{gc:?}"
                );
            }
        }
    }
    assert!(reported > 1_000, "{reported}");
}

/// Scenario: thousands of collections start in one stop, and thousands of stops occur inside one background collection.
/// Guarantee: each collection keeps at most [`clr_gc::gc::MAX_STOPS`] stops, and no collection claims to be whole.
#[test]
fn kept_items_are_bounded() {
    let events = events("net8-clrgc-threads");
    let of = |name: &str| events.iter().find(|event| event.layout.name() == name).unwrap().clone();
    let begin = events
        .iter()
        .find(|event| event.layout.name() == "GCSuspendEEBegin" && event.payload[0] == 6)
        .unwrap();
    let background = events
        .iter()
        .find(|event| event.layout.name() == "GCStart" && event.payload[12] == 1)
        .unwrap();
    let (suspended, restart) = (of("GCSuspendEEEnd"), of("GCRestartEEEnd"));
    let mut many = Vec::new();
    for (index, event) in [begin, &suspended, background].into_iter().enumerate() {
        many.push(SentEvent {
            at: index as i64,
            thread: 1,
            ..event.clone()
        });
    }
    for number in 0..5_000_u32 {
        let mut start = SentEvent {
            at: 10 + i64::from(number),
            thread: 1,
            ..background.clone()
        };
        start.payload[..4].copy_from_slice(&(1_000 + number).to_le_bytes());
        many.push(start);
    }
    for index in 0..5_000 {
        for (step, event) in [begin, &suspended, &restart].into_iter().enumerate() {
            many.push(SentEvent {
                at: 10_000 + index * 3 + step as i64,
                thread: 1,
                ..event.clone()
            });
        }
    }
    let reported = collections(&many);
    assert!(reported.len() >= 5_000 && reported.iter().all(|gc| !gc.is_complete()));
    assert!(reported.iter().all(|gc| gc.pauses.len() <= clr_gc::gc::MAX_STOPS));
}
