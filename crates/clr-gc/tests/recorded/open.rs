//! Open operations, compared with an independent count of events.

use std::collections::BTreeMap;

use clr_gc::event::{ClrEvent, GcType};
use clr_gc::gc::{LIVE_SETTLE_NS, OpenOperations, ReportTiming};
use clr_gc::stream::{GcStream, Scope};

use crate::recordings;

/// Number of bytes per read, small enough to split most collections.
const READ: usize = 700;

/// Scenario: recordings of several runtimes are read in small pieces, as from a socket; after each piece its events are
/// counted independently.
/// Guarantee: a stop is open exactly from SuspendEEBegin to RestartEEEnd, a collection from GCStart to GCEnd, each with
/// its start time; after the stream no operation is open.
#[test]
fn open_operations_are_reported_from_start_to_end() {
    let mut seen = [0u32; 4];
    for name in recordings::present(&[
        "net10-steady",
        "svc8-workstation",
        "net31-steady",
        "aot9-steady",
        "net10b-nearlimit",
    ]) {
        let bytes = recordings::bytes(name);
        let mut stream = GcStream::new(Scope::Collections, ReportTiming::After(LIVE_SETTLE_NS));
        let mut stops: BTreeMap<u64, i64> = BTreeMap::new();
        let mut started: BTreeMap<u32, (i64, bool)> = BTreeMap::new();
        for piece in bytes.chunks(READ) {
            stream.push(piece);
            stream
                .advance(|observed| match observed.decoded {
                    Ok(ClrEvent::SuspendEeBegin(begin)) if begin.reason.is_gc() => {
                        stops.insert(observed.event.thread, observed.at);
                    }
                    Ok(ClrEvent::RestartEeEnd(_)) => {
                        stops.remove(&observed.event.thread);
                    }
                    Ok(ClrEvent::GcStart(start)) => {
                        let background = start.gc_type == Some(GcType::BACKGROUND);
                        started.insert(start.count, (observed.at, background));
                    }
                    Ok(ClrEvent::GcEnd(end)) => {
                        started.remove(&end.count);
                    }
                    _ => {}
                })
                .unwrap();
            let of = |background: bool| {
                started
                    .values()
                    .filter(|(_, is)| *is == background)
                    .map(|(at, _)| *at)
                    .max()
            };
            let expected = OpenOperations {
                stop: stops.values().copied().max(),
                collection: of(false),
                background: of(true),
                // The finalizer thread has separate tests.
                ..stream.open()
            };
            assert_eq!(stream.open(), expected, "{name}");
            let each = [expected.stop, expected.collection, expected.background];
            for (count, open) in seen.iter_mut().zip(
                each.map(|open| open.is_some())
                    .into_iter()
                    .chain([expected.is_nothing()]),
            ) {
                *count += u32::from(open);
            }
            while stream.next_outcome().is_some() {}
        }
        stream.finish();
        stream.advance(|_| {}).unwrap();
        stream.end();
        assert!(stream.open().is_nothing(), "{name}");
    }
    assert!(seen.iter().all(|count| *count > 10), "some were never open: {seen:?}");
}
