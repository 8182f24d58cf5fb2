//! Reads any bytes as the stream of a heap dump. The dump is refused, or described in every format.
#![no_main]

use clr_heap::reading::{DumpDetail, DumpReading};
use clr_heap::survey::survey;
use clr_heap::{diff, profile, snapshot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut reading = DumpReading::new(DumpDetail::Graph { most: 256 << 20 });
    for piece in input.chunks(4096) {
        if reading.push(piece).is_err() {
            return;
        }
    }
    let Ok(dump) = reading.finish() else { return };
    let objects = dump.objects;
    let (survey, solved) = survey(dump, None);
    assert_eq!(survey.types.iter().map(|row| row.objects).sum::<u64>(), objects);
    assert_eq!(diff::diff(&survey, &survey), []);
    if let Some(solved) = solved {
        let roots: u64 = survey.roots.iter().map(|row| row.retained).fold(0, u64::saturating_add);
        assert!(roots <= survey.heap.bytes);
        profile::pprof(&solved, None);
        if snapshot::write(&solved.graph, &mut std::io::sink()).is_err() {
            unreachable!("a sink takes everything");
        }
    }
});
