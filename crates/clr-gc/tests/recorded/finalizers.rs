//! What the finalizer thread does, in recordings.

use clr_gc::gc::Finalizers;

use crate::recordings::{self, Recording};

/// The changes of the first process of a recording; `None`: it is not there.
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

/// Scenario: recordings in which every finalizer ran.
/// Guarantee: rounds end, and nothing waits at the end.
#[test]
fn rounds_end_in_healthy_processes() {
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

/// Scenario: a finalizer that never returns (.NET 10); a session that begins while the finalizer thread is at work and
/// sees neither begin nor end of its round (.NET Core 3.1).
/// Guarantee: the round is open from its GCFinalizersBegin, or from the first collection that woke no thread; what
/// waits is all that collections found.
#[test]
fn a_round_that_does_not_end_is_seen() {
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

/// Scenario: NativeAOT 9, whose collections find objects and which reports nothing of its finalizer thread.
/// Guarantee: nothing is known of it.
#[test]
fn a_runtime_that_reports_nothing_is_unknown() {
    for (at, state) in history("aot9-steady").into_iter().flatten() {
        assert_eq!(state, Finalizers::default(), "{at}");
    }
}
