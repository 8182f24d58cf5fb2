//! Tests for the values of a collection that only the engine can compute.

use clr_gc::event::GcType;
use clr_gc::gc::{Collection, Pause, PauseKind, StopEdges, Suspension};

use super::PrecedingRestarts;

const MS: i64 = 1_000_000;

fn facts(preceding: &mut PrecedingRestarts, collection: &Collection) -> (Option<i64>, Option<u32>) {
    let facts = preceding.collection(collection);
    (facts.since_last_ns.map(|ns| ns / MS), facts.foreground_within)
}

fn stop(from: i64, to: i64, kind: PauseKind) -> Pause {
    Pause::alone(from * MS, (to - from) * MS, Some(0), kind)
}

fn blocking(number: u32, from: i64, to: i64) -> Collection {
    Collection {
        generation: Some(0),
        gc_type: Some(GcType::BLOCKING),
        start: Some(from * MS),
        end: Some(to * MS),
        pauses: vec![stop(from, to, PauseKind::Blocking)],
        ..Collection::unknown(number)
    }
}

/// Scenario: collections follow each other; one is lost, one lacks an edge, and one runs inside the stop of another
/// collection.
/// Guarantee: the time since the last restart is exact, or unknown if events can be missing.
#[test]
fn time_since_last_restart_is_exact_or_unknown() {
    let mut preceding = PrecedingRestarts::default();
    let mut since = |collection: &Collection| facts(&mut preceding, collection).0;
    assert_eq!(
        since(&blocking(7, 10, 20)),
        None,
        "the first collection has no predecessor"
    );
    assert_eq!(since(&blocking(8, 120, 130)), Some(100));
    assert_eq!(since(&blocking(10, 300, 310)), None, "collection 9 is lost");
    let mut lossy = blocking(11, 400, 410);
    lossy.lossy = true;
    assert_eq!(since(&lossy), None);
    let mut edgeless = blocking(12, 500, 510);
    edgeless.pauses[0].edges.restart_end = None;
    assert_eq!(since(&edgeless), Some(90));
    assert_eq!(since(&blocking(13, 600, 610)), None, "the restart before it is unknown");
    let mut inner = blocking(14, 600, 610);
    inner.pauses[0].start = Some(605 * MS);
    assert_eq!(since(&inner), None, "the collection stopped no threads itself");
    assert_eq!(since(&blocking(15, 700, 710)), Some(90));
}

/// Scenario: a stop without a collection occurs between two collections.
/// Guarantee: the time since the last restart starts at the end of this stop.
#[test]
fn stop_without_collection_counts_as_restart() {
    let mut preceding = PrecedingRestarts::default();
    facts(&mut preceding, &blocking(1, 0, 10));
    preceding.suspension(&Suspension {
        reason: None,
        clr_instance: None,
        edges: StopEdges {
            suspend_begin: Some(50 * MS),
            restart_end: Some(60 * MS),
            ..StopEdges::default()
        },
        suspend_ns: None,
        stopped_ns: Some(10 * MS),
        triggered: false,
    });
    assert_eq!(facts(&mut preceding, &blocking(2, 100, 110)).0, Some(40));
}

/// Scenario: three background collections are observed at their ends: the first contains three foreground collections,
/// the second contains no collection, and the start of the third was not observed.
/// Guarantee: foreground collections are counted only for background collections with an observed start.
#[test]
fn foreground_collections_are_counted() {
    let mut preceding = PrecedingRestarts::default();
    let background = |number, from: i64, to: i64| {
        let mut background = blocking(number, from, to);
        background.generation = Some(2);
        background.gc_type = Some(GcType::BACKGROUND);
        background.pauses = vec![
            stop(from, from + 1, PauseKind::Initial),
            stop(to - 5, to - 4, PauseKind::Final),
        ];
        background
    };
    assert_eq!(facts(&mut preceding, &blocking(1, 0, 10)), (None, None));
    for (number, from) in [(3, 120), (4, 140), (5, 160)] {
        let mut foreground = blocking(number, from, from + 5);
        foreground.background = Some(2);
        foreground.gc_type = Some(GcType::FOREGROUND);
        let since = (number > 3).then_some(15);
        assert_eq!(facts(&mut preceding, &foreground), (since, None));
    }
    assert_eq!(facts(&mut preceding, &background(2, 100, 200)), (Some(90), Some(3)));
    assert_eq!(facts(&mut preceding, &blocking(6, 300, 310)), (Some(104), None));
    assert_eq!(facts(&mut preceding, &background(7, 400, 500)), (Some(90), Some(0)));
    let mut unseen = background(8, 600, 700);
    unseen.start = None;
    assert_eq!(facts(&mut preceding, &unseen).1, None);
}
