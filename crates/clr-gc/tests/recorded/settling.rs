//! Collections told while the events still come.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it does"
)]

mod recordings;

use clr_gc::gc::{Collection, LIVE_SETTLE_NS, Outcome, Settling};
use clr_gc::stream::{GcStream, Scope, StreamLimits};
use recordings::Recording;

/// What a live session tells: outcomes are taken after every piece, as they become ready.
fn live(bytes: &[u8], piece: usize) -> (Vec<Collection>, usize) {
    let mut stream = GcStream::new(Scope::Collections, Settling::After(LIVE_SETTLE_NS));
    let (mut told, mut before_the_end) = (Vec::new(), 0);
    let mut take = |stream: &mut GcStream| {
        while let Some((_, outcome)) = stream.next_outcome() {
            if let Outcome::Collection(collection) = outcome {
                told.push(*collection);
            }
        }
        told.len()
    };
    for piece in bytes.chunks(piece) {
        stream.space(piece.len())[..piece.len()].copy_from_slice(piece);
        stream.filled(piece.len());
        stream.advance(|_| ()).unwrap();
        before_the_end = take(&mut stream);
    }
    stream.finish();
    stream.advance(|_| ()).unwrap();
    stream.end();
    take(&mut stream);
    told.sort_by_key(|collection| collection.start);
    (told, before_the_end)
}

/// Scenario: every recording without loss, in pieces, collections taken as soon as they are ready.
/// Guarantee: the same collections as when the whole recording is known, most of them before its end.
#[test]
fn live_tells_the_same_as_a_file() {
    let (mut all, mut early) = (0, 0);
    for name in recordings::names().into_iter().filter(|name| name != "net10b-loss") {
        let expected = Recording::read(&name);
        let (told, before_the_end) = live(&recordings::bytes(&name), 4096);
        for (told, expected) in told.iter().zip(expected.collections()) {
            assert_eq!(told, expected, "{name} #{}", expected.number);
        }
        assert_eq!(told.len(), expected.collections().len(), "{name}");
        all += told.len();
        early += before_the_end;
    }
    assert!(all > 3_000 && early * 10 > all * 7, "{early} of {all} before the end");
}

/// Scenario: a recording with lost events, live.
/// Guarantee: what is told as whole and without loss is what the whole recording says of it.
#[test]
fn live_losses_are_not_missed() {
    let expected = Recording::read("net10b-loss");
    let (told, _) = live(&recordings::bytes("net10b-loss"), 4096);
    let mut compared = 0;
    for told in told.iter().filter(|gc| gc.is_complete() && !gc.lossy) {
        let expected = expected
            .collections()
            .iter()
            .find(|gc| gc.number == told.number)
            .unwrap();
        if !expected.lossy {
            compared += 1;
            assert_eq!(told, expected);
        }
    }
    assert!(compared > 5, "{compared}");
}

/// Scenario: recordings without loss in pieces, with a silence after every piece, and at last a silence in which all that was read is
/// released.
/// Guarantee: silences change when collections are told, not what is told; after the last one only what is still under way is left.
#[test]
fn silences_bring_forward_and_change_nothing() {
    let mut early = 0;
    for name in ["net31-fin", "net10b-attach-in-bgc", "net8-leak", "aot9-steady"] {
        let expected = Recording::read(name);
        let bytes = recordings::bytes(name);
        let limits = StreamLimits::one_live_process();
        let mut stream = GcStream::with_limits(Scope::Collections, Settling::After(LIVE_SETTLE_NS), limits);
        let mut told = Vec::new();
        let mut take = |stream: &mut GcStream| {
            while let Some((_, outcome)) = stream.next_outcome() {
                if let Outcome::Collection(collection) = outcome {
                    told.push(*collection);
                }
            }
            told.len()
        };
        for piece in bytes.chunks(4096) {
            stream.space(piece.len())[..piece.len()].copy_from_slice(piece);
            stream.filled(piece.len());
            stream.advance(|_| ()).unwrap();
            // Shorter than the patience with missing facts: nothing is given up.
            stream.quiet(400_000_000);
            take(&mut stream);
        }
        stream.flush();
        stream.advance(|_| ()).unwrap();
        stream.quiet(2_600_000_000);
        early += take(&mut stream);
        assert!(!stream.is_waiting(), "{name}");
        stream.finish();
        stream.advance(|_| ()).unwrap();
        stream.end();
        take(&mut stream);
        told.sort_by_key(|collection| collection.start);
        assert_eq!(told.len(), expected.collections().len(), "{name}");
        for (told, expected) in told.iter().zip(expected.collections()) {
            assert_eq!(told, expected, "{name} #{}", expected.number);
        }
    }
    assert!(early > 10, "{early}");
}
