//! Collections reported while events still arrive.

use clr_gc::gc::{Collection, LIVE_SETTLE_NS, Outcome, ReportTiming};
use clr_gc::stream::{GcStream, Scope, StreamLimits};

use crate::recordings::{self, Recording};

/// Returns the collections that a live session reports, and the number of those reported before the end. Outcomes are
/// taken after every piece, as they become ready. With `silent`, the stream has the limits for one of hundreds of live
/// processes, a silence follows every piece, and a final silence releases all events that were read.
fn live(name: &str, silent: bool) -> (Vec<Collection>, usize) {
    let limits = if silent {
        StreamLimits::one_live_process()
    } else {
        StreamLimits::default()
    };
    let mut stream = GcStream::with_limits(Scope::Collections, ReportTiming::After(LIVE_SETTLE_NS), limits);
    let (mut reported, mut before_the_end) = (Vec::new(), 0);
    let mut take = |stream: &mut GcStream| {
        while let Some((_, outcome)) = stream.next_outcome() {
            if let Outcome::Collection(collection) = outcome {
                reported.push(*collection);
            }
        }
        reported.len()
    };
    for piece in recordings::bytes(name).chunks(4096) {
        stream.push(piece);
        stream.advance(|_| ()).unwrap();
        if silent {
            // The silence is shorter than the timeout for missing facts, so no collection is abandoned.
            stream.quiet(400_000_000);
        }
        before_the_end = take(&mut stream);
    }
    if silent {
        stream.flush();
        stream.advance(|_| ()).unwrap();
        stream.quiet(2_600_000_000);
        before_the_end = take(&mut stream);
        assert!(!stream.is_waiting(), "{name}");
    }
    stream.finish();
    stream.advance(|_| ()).unwrap();
    stream.end();
    take(&mut stream);
    reported.sort_by_key(|collection| collection.start);
    (reported, before_the_end)
}

/// Asserts that the collections equal those of the whole recording.
fn assert_same(name: &str, reported: &[Collection]) {
    let expected = Recording::read(name);
    for (ours, expected) in reported.iter().zip(expected.collections()) {
        let mut expected = expected.clone();
        // A thread is known to serve tools only after an action that only such threads perform, which can follow the
        // report.
        if ours.requested_by_tool.is_none() {
            expected.requested_by_tool = None;
        }
        assert_eq!(*ours, expected, "{name} #{}", expected.number);
    }
    assert_eq!(reported.len(), expected.collections().len(), "{name}");
}

/// Scenario: every recording without loss is read in pieces, and collections are taken as soon as they are ready.
/// Guarantee: the collections equal those of the whole recording, and more than 70 % of them are reported before its
/// end.
#[test]
fn live_collections_equal_those_of_file() {
    let (mut all, mut early) = (0, 0);
    for name in recordings::names().into_iter().filter(|name| name != "net10b-loss") {
        let (reported, before_the_end) = live(&name, false);
        assert_same(&name, &reported);
        all += reported.len();
        early += before_the_end;
    }
    let enough = if recordings::are_all_there() { 3_000 } else { 300 };
    assert!(all > enough && early * 10 > all * 7, "{early} of {all} before the end");
}

/// Scenario: a recording with lost events is read live.
/// Guarantee: collections reported as whole and without loss equal those of the whole recording.
#[test]
fn live_losses_are_detected() {
    let expected = Recording::read("net10b-loss");
    let (reported, _) = live("net10b-loss", false);
    let mut compared = 0;
    for ours in reported.iter().filter(|gc| gc.is_complete() && !gc.lossy) {
        let expected = expected
            .collections()
            .iter()
            .find(|gc| gc.number == ours.number)
            .unwrap();
        if !expected.lossy {
            compared += 1;
            assert_eq!(ours, expected);
        }
    }
    assert!(compared > 5, "{compared}");
}

/// Scenario: recordings without loss are read in pieces, with a silence after every piece, and finally a silence that
/// releases everything that was read.
/// Guarantee: silences change the times of reports, but not the reported collections; after the last silence, no
/// finished collection waits for its report.
#[test]
fn silences_only_advance_reports() {
    let mut early = 0;
    for name in ["net31-fin", "net10b-attach-in-bgc", "net8-leak", "aot9-steady"] {
        let (reported, before_the_end) = live(name, true);
        assert_same(name, &reported);
        early += before_the_end;
    }
    assert!(early > 10, "{early}");
}
