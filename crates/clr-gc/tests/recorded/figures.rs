//! Figures of the runtime's that cannot be, and bytes allocated, in every recording.

use clr_gc::gc::{AllocatedUnknown, Figure};

use crate::recordings::{self, Recording};

/// Where a runtime passes memory that was never written on.
const GARBAGE: [(&str, Figure); 1] = [("aot10-ilc-server-datas", Figure::FinalizationPromotedBytes)];

/// Scenario: every recording.
/// Guarantee: no figure is beyond its bound but those that are known to be memory that was never written.
#[test]
fn figures_are_within_their_bounds() {
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

/// Scenario: every recording without loss.
/// Guarantee: of at least 99 of 100 collections it is known how much was allocated before them; those of which it
/// is not
/// say why, and are the first ones, or inside of a background collection that began before the session.
#[test]
fn what_was_allocated_is_known_of_nearly_all_collections() {
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
