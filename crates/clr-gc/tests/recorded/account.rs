//! Accounts of stopped time: the parts of each stop add up to the stop and name its causes.

use clr_gc::gc::{Account, Asker, Cause, Collection, StoppedTime, Totals};

use crate::recordings::{self, Recording};

/// Returns the stopped time of a recording by cause.
fn account(recording: &Recording) -> StoppedTime {
    let mut stopped = StoppedTime::default();
    recording.collections().iter().for_each(|gc| stopped.add(gc));
    recording.suspensions.iter().for_each(|one| stopped.add_suspension(one));
    stopped
}

/// Asserts that the parts of each pause are positive and add up to the pause.
pub(crate) fn assert_adds_up(collection: &Collection, context: &str) {
    for pause in &collection.pauses {
        assert_eq!(
            pause.account.map(|account| account.total()),
            pause.pause_ns,
            "{context}"
        );
        let parts = pause.account.iter().flat_map(Account::parts);
        assert!(parts.map(|part| part.ns).all(|ns| ns > 0), "{context}");
    }
    let known = collection.pauses.iter().filter_map(|pause| pause.pause_ns).sum::<i64>();
    assert_eq!(collection.account().total(), known, "{context}");
}

/// Scenario: every recording is read.
/// Guarantee: the parts of each stop are positive and add up to the stop, to the nanosecond. The divisions of the
/// stopped time of a process by cause and by origin both add up to the stopped time.
#[test]
fn parts_add_up_to_stop() {
    for name in recordings::names() {
        let recording = Recording::read(&name);
        let mut totals = Totals::default();
        for collection in recording.collections() {
            assert_adds_up(collection, &format!("{name} #{}", collection.number));
            totals.add(collection);
        }
        recording.suspensions.iter().for_each(|one| totals.add_suspension(one));
        let stopped = account(&recording);
        let askers: i64 = Asker::ALL.into_iter().map(|asker| stopped.asked_by(asker)).sum();
        assert_eq!(
            (stopped.total(), askers),
            (totals.stopped_ns, totals.stopped_ns),
            "{name}"
        );
    }
}

/// Scenario: recordings of .NET 8 to 11, including NativeAOT, that have no missing events are read.
/// Guarantee: at most 10 % of the stopped time is unexplained.
#[test]
fn unexplained_time_is_small() {
    let mut judged = 0;
    for name in recordings::names() {
        let recording = Recording::read(&name);
        if name.starts_with("net31") || recording.stream.decoder().stats().lost != Some(0) {
            continue;
        }
        let stopped = account(&recording);
        assert!(
            stopped.unexplained() <= stopped.total() / 10,
            "{name}: {} of {} ns are unexplained",
            stopped.unexplained(),
            stopped.total()
        );
        judged += 1;
    }
    assert!(judged >= if recordings::are_all_there() { 30 } else { 5 }, "{judged}");
}

/// Scenario: .NET Core 3.1 sends no phase times and only half of the marks.
/// Guarantee: causes that depend on the missing events are unknown, never 0, and more than half of the time is
/// unexplained.
#[test]
fn time_without_events_is_unknown() {
    let recording = Recording::read("net31-steady");
    let collection = recording.collections().iter().find(|gc| !gc.is_concurrent()).unwrap();
    let account = collection.account();
    for cause in [
        Cause::Stacks,
        Cause::OldToYoung,
        Cause::Survivors,
        Cause::Plan,
        Cause::Compact,
    ] {
        assert_eq!(account.get(cause), None, "{cause:?}");
    }
    assert!(account.get(Cause::SlowThreads).is_some());
    assert!(account.get(Cause::Unexplained) > Some(account.total() / 2));
    // Events contain no information about missing CPU or about delays by other tools.
    assert_eq!(
        (account.get(Cause::NoCpu), account.get(Cause::ToolSession)),
        (None, None)
    );
}

/// Scenario: another tool takes a heap dump while a program allocates.
/// Guarantee: the origin of the whole stopped time of the dump's collection is the tool, and more than 90 % of this
/// time is attributed to the dump.
#[test]
fn heap_dump_is_attributed_to_tool() {
    for name in recordings::present(&["net11-dump-beside"]) {
        let recording = Recording::read(name);
        let stopped = account(&recording);
        let dumps = recording
            .collections()
            .iter()
            .filter(|gc| gc.requested_by_tool == Some(true));
        let ns: i64 = dumps.filter_map(|gc| gc.pause_ns).sum();
        assert!(ns > 0);
        assert_eq!(stopped.asked_by(Asker::Tool), ns);
        assert!(stopped.parts().get(Cause::HeapDump) > Some(ns / 10 * 9));
    }
}

/// Scenario: one program requests each collection, two programs are near a limit, and one program only allocates.
/// Guarantee: most of the stopped time is attributed to the program, to the limit and to allocation of small objects,
/// respectively.
#[test]
fn origin_of_collections_is_known() {
    for (name, asker) in [
        ("net9-aggressive", Asker::Program),
        ("net10b-nearlimit", Asker::Limit),
        ("net10-lohoos", Asker::Limit),
        ("net10-steady", Asker::SmallObjects),
    ] {
        for name in recordings::present(&[name]) {
            let stopped = account(&Recording::read(name));
            assert!(stopped.asked_by(asker) > stopped.total() / 2, "{name}: {stopped:?}");
        }
    }
}

/// Scenario: an account is taken before and after some collections.
/// Guarantee: the difference of the accounts is the time of these collections, for each cause and each origin.
#[test]
fn difference_of_accounts_is_time_in_between() {
    let recording = Recording::read("net10-steady");
    let (early, late) = recording.collections().split_at(20);
    let (mut before, mut after) = (StoppedTime::default(), StoppedTime::default());
    early.iter().for_each(|gc| before.add(gc));
    late.iter().for_each(|gc| after.add(gc));
    let mut all = before;
    all.merge(&after);
    let since = all.since(&before);
    assert_eq!(since.total(), after.total());
    for cause in Cause::ALL {
        assert_eq!(since.parts().get(cause), after.parts().get(cause), "{cause:?}");
    }
    let askers = |stopped: &StoppedTime| Asker::ALL.map(|asker| stopped.asked_by(asker));
    assert_eq!(askers(&since), askers(&after));
}

/// Scenario: each program is stopped mainly for one cause (all references of a large old array are rewritten before
/// each young collection; 3,000 threads; heap dumps by another tool). The first two programs also run with few
/// references and with few threads.
/// Guarantee: the cause is the largest part and more than half of the stopped time. With few references or threads, the
/// cause is less than a tenth of the stopped time.
#[test]
fn main_cause_is_largest_part() {
    for (cause, much, little) in [
        (
            Cause::OldToYoung,
            &["net8-card-marking", "net10-card-marking"][..],
            &["net8-few-references"][..],
        ),
        (
            Cause::Stacks,
            &["net8-many-threads", "net11-many-threads"],
            &["net8-few-threads"],
        ),
        (Cause::HeapDump, &["net8-heap-dumps"], &[]),
    ] {
        let share = |name: &str| {
            let stopped = account(&Recording::read_account(name)?);
            let largest = stopped.parts().largest_first().first().map(|part| part.cause);
            let ns = stopped.parts().get(cause).unwrap_or(0);
            Some((largest, ns as f64 / stopped.total() as f64))
        };
        for (largest, share) in much.iter().filter_map(|name| share(name)) {
            assert!(largest == Some(cause) && share > 0.5, "{largest:?} {share}");
        }
        for (largest, share) in little.iter().filter_map(|name| share(name)) {
            assert!(share < 0.1, "{cause:?}: {share}, {largest:?}");
        }
    }
}
