//! Recordings truncated at any byte: collections that claim to be whole equal those of the whole recording.

use std::collections::HashMap;

use clr_gc::gc::Collection;
use clr_gc::stream::Scope;
use nettrace::Ending;

use crate::account::assert_adds_up;
use crate::recordings::{self, Recording};

/// Size below which a recording is truncated at every byte, in bytes.
const EVERY_BYTE: usize = 20_000;

/// Number of positions at which each larger recording is truncated.
const PLACES: usize = 500;

fn check(name: &str, bytes: &[u8], cut: usize, truth: &HashMap<u32, Collection>) -> usize {
    let recording = Recording::read_bytes(&bytes[..cut], Scope::Collections, |_| ());
    let (collections, ending) = (recording.collections(), recording.stream.decoder().ending());
    let clean = cut == bytes.len();
    assert_eq!(ending == Some(Ending::Clean), clean, "{name} cut at {cut}: {ending:?}");
    let mut whole = 0;
    collections.iter().for_each(|gc| assert_adds_up(gc, name));
    for claimed in collections.iter().filter(|gc| gc.is_complete() && !gc.lossy) {
        let mut truth = truth[&claimed.number].clone();
        // A thread is known to serve tools only after an action that only such threads perform, which can follow the
        // cut.
        if claimed.requested_by_tool.is_none() {
            truth.requested_by_tool = None;
        }
        // Losses during a collection become visible only through later events, which can follow the cut.
        if !truth.lossy {
            assert_eq!(*claimed, truth, "{name} cut at {cut}");
            whole += 1;
        }
    }
    whole
}

/// Scenario: small recordings are truncated at every byte, others at 500 seeded positions.
/// Guarantee: there is no panic and no error, and collections that claim to be whole equal those of the whole
/// recording.
#[test]
fn whole_collections_before_cut_are_reported() {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let (mut cut_everywhere, mut claims) = (0, 0);
    for name in recordings::names() {
        let bytes = recordings::bytes(&name);
        let truth = Recording::read(&name)
            .collections()
            .iter()
            .map(|gc| (gc.number, gc.clone()))
            .collect();
        if bytes.len() < EVERY_BYTE {
            cut_everywhere += 1;
            claims += (0..=bytes.len())
                .map(|cut| check(&name, &bytes, cut, &truth))
                .sum::<usize>();
        } else {
            for _ in 0..PLACES {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let cut = (seed >> 33) as usize % bytes.len();
                claims += check(&name, &bytes, cut, &truth);
            }
        }
    }
    let enough = if recordings::are_all_there() { 100_000 } else { 10_000 };
    assert!(cut_everywhere >= 2 && claims > enough, "{cut_everywhere} {claims}");
}

/// Scenario: the same bytes arrive in pieces of various sizes.
/// Guarantee: the collections and the ending of the stream are the same.
#[test]
fn piece_size_does_not_matter() {
    for name in recordings::present(&[
        "net31-steady",
        "net10-threads-server",
        "net8-threads-dotnettrace-default",
    ]) {
        let bytes = recordings::bytes(name);
        let expected = Recording::in_pieces(&bytes, bytes.len(), Scope::Collections, |_| ());
        for piece in [1, 2, 3, 7, 64, 1_000, 4_096, 65_536] {
            let recording = Recording::in_pieces(&bytes, piece, Scope::Collections, |_| ());
            assert_eq!(
                recording.collections(),
                expected.collections(),
                "{name} in pieces of {piece}"
            );
            let endings = [&recording, &expected].map(|one| one.stream.decoder().ending());
            assert_eq!(endings[0], endings[1], "{name} in pieces of {piece}");
        }
    }
}
