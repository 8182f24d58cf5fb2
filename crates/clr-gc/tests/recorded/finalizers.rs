//! Activity of the finalizer thread in recordings.

use clr_gc::gc::Finalizers;

use crate::recordings::{self, Recording};

/// Returns the changes in the state of the finalizer thread in the first process of a recording, or `None` if the
/// recording does not exist or contains no process.
fn history(name: &str) -> Option<Vec<(i64, Finalizers)>> {
    recordings::present(&[name]).next()?;
    let recording = Recording::read(name);
    Some(
        recording
            .stream
            .processes()
            .first()?
            .machine()
            .finalizer_history()
            .to_vec(),
    )
}

/// Scenario: the processes in the recordings run every finalizer.
/// Guarantee: finalizer rounds start, and at the end of a recording no round is open and no object waits.
#[test]
fn finalizer_rounds_end_in_healthy_processes() {
    for name in ["net10-steady", "net9-life-steady", "net8-leak", "svc8-workstation"] {
        let Some(history) = history(name) else { continue };
        let rounds = history.iter().filter(|(_, state)| state.begun.is_some()).count();
        let last = history.last().map(|(_, state)| *state).unwrap();
        assert!(rounds > 0, "{name}");
        let nothing = Finalizers {
            begun: None,
            waiting: Some(0),
        };
        assert_eq!(last, nothing, "{name}");
    }
}

/// Scenario: a finalizer never returns (.NET 10); a session starts while the finalizer thread is busy and observes
/// neither the start nor the end of its round (.NET Core 3.1).
/// Guarantee: the round is open since its GCFinalizersBegin, or since the first collection that did not wake the
/// thread, and all objects that collections found are waiting.
#[test]
fn endless_finalizer_round_is_detected() {
    if let Some(history) = history("rules/net10-finstuck-long") {
        let (_, last) = *history.last().unwrap();
        assert_eq!((last.begun, last.waiting), (Some(1_387_978_510), Some(566_524)));
    }
    if let Some(history) = history("net31-fin") {
        let (first, _) = *history.first().unwrap();
        let (_, last) = *history.last().unwrap();
        assert_eq!((last.begun, last.waiting), (Some(first), Some(1_686_240)));
    }
}

/// Scenario: NativeAOT 9 finds objects but sends no events about its finalizer thread.
/// Guarantee: the state of the thread is unknown.
#[test]
fn finalizers_of_silent_runtime_are_unknown() {
    for (at, state) in history("aot9-steady").into_iter().flatten() {
        assert_eq!(state, Finalizers::default(), "{at}");
    }
}
