//! Collections that no recording contains: recorded collections with parts removed, or with implausible times.

use std::sync::OnceLock;

use clr_gc::gc::Collection;

use crate::telemetry::recordings::read;

/// Returns the collections of five recordings, chosen for their variety: .NET 10 and .NET Core 3.1, lost events, an
/// attach during a background collection, and provisional mode.
pub(crate) fn collections() -> &'static [Collection] {
    static COLLECTIONS: OnceLock<Vec<Collection>> = OnceLock::new();
    COLLECTIONS.get_or_init(|| {
        let names = [
            "net10-steady",
            "net10b-attach-in-bgc",
            "net10b-loss",
            "net10b-pmode",
            "net31-steady",
        ];
        let processes = names.into_iter().flat_map(read);
        processes.flat_map(|process| process.collections).collect()
    })
}

/// The bits of a seed, lowest first. After 64 bits, the sequence repeats.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> bool {
        let bit = self.0 & 1 == 1;
        self.0 = self.0.rotate_right(1);
        bit
    }
}

/// Returns a copy of the collection without the parts that the bits of the seed select. With `wild`, the remaining
/// times get arbitrary values, and a selected generation gets an arbitrary value instead of being removed.
pub(crate) fn damaged(collection: &Collection, seed: u64, wild: bool) -> Collection {
    let mut bits = Bits(seed);
    let mut damaged = collection.clone();
    let mut turn = seed;
    let mut time = |time: &mut Option<i64>, take: bool| {
        if take {
            *time = None;
        } else if wild && time.is_some() {
            turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // The shift keeps the time in the range that the reconstruction accepts.
            *time = Some((turn as i64) >> 2);
        }
    };
    time(&mut damaged.start, bits.next());
    time(&mut damaged.end, bits.next());
    for pause in &mut damaged.pauses {
        time(&mut pause.edges.suspend_begin, bits.next());
        time(&mut pause.edges.suspend_end, bits.next());
        time(&mut pause.edges.restart_begin, bits.next());
        time(&mut pause.edges.restart_end, bits.next());
        let edges = pause.edges;
        let whole = edges.suspend_begin.is_some() && edges.suspend_end.is_some() && edges.restart_end.is_some();
        if !whole {
            (pause.pause_ns, pause.stopped_ns) = (None, None);
            pause.spans.clear();
            damaged.pause_ns = None;
        }
        if edges.suspend_begin.is_none() || edges.suspend_end.is_none() {
            pause.suspend_ns = None;
        }
    }
    if bits.next() {
        (damaged.gc_type, damaged.reason, damaged.trigger) = (None, None, None);
    }
    if bits.next() {
        damaged.generation = if wild { Some(seed as u32) } else { None };
    }
    if bits.next() {
        damaged.heap_stats = None;
        damaged.heap = Default::default();
    }
    if bits.next() {
        damaged.global = None;
    }
    damaged
}
