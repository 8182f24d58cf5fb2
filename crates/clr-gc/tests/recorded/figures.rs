//! Impossible figures of the runtime, and allocated bytes, in every recording.

use clr_gc::gc::{AllocatedUnknown, Figure};

use crate::recordings::{self, Recording};

/// Recordings in which a runtime sends uninitialized memory.
const GARBAGE: [(&str, Figure); 1] = [("aot10-ilc-server-datas", Figure::FinalizationPromotedBytes)];

/// Scenario: every recording is read.
/// Guarantee: no figure exceeds its bound, except for figures that are known to be uninitialized memory.
#[test]
fn figures_are_within_bounds() {
    for name in recordings::names() {
        let recording = Recording::read(&name);
        for gc in recording.collections() {
            for figure in gc.implausible.iter() {
                let known = GARBAGE.contains(&(name.as_str(), figure));
                assert!(known, "{name}: #{}: {}: {gc:?}", gc.number, figure.name());
            }
        }
    }
}

/// Scenario: every recording without loss is read.
/// Guarantee: the allocation before a complete collection is known for at least 99 of 100 collections. Collections
/// whose reason is [`AllocatedUnknown::First`] or [`AllocatedUnknown::Sweep`] are not counted: they are the first
/// collection, or inside a background collection that started before the session.
#[test]
fn allocation_is_known_for_nearly_all_collections() {
    let (mut all, mut unknown) = (0, 0);
    for name in recordings::names() {
        let recording = Recording::read(&name);
        let collections = recording.collections();
        if collections.iter().any(|gc| gc.lossy) {
            continue;
        }
        let at_attach = |why| matches!(why, AllocatedUnknown::First | AllocatedUnknown::Sweep);
        let later = collections.iter().filter(|gc| gc.is_complete());
        for gc in later {
            match gc.allocated {
                Ok(_) => all += 1,
                Err(why) if at_attach(why) => {}
                Err(_) => (all, unknown) = (all + 1, unknown + 1),
            }
        }
    }
    assert!(all > 0 && unknown * 100 <= all, "{unknown} of {all} are unknown");
}
