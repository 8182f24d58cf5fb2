//! The memory of a process from a recording only: the heap, as of a collection.

use std::io::{self, Write};

use clr_gc::gc::Collection;
use rule_engine::ledger::Ledger;

use crate::units::Bytes;
use processes::container::ledger::{HeapFigures, Sources, divide, not_looked_at, old_objects};

/// Returns the ledger as of a collection, or `None` if the collection has no heap figures. Only a full collection knows
/// which of its old objects are alive.
pub fn ledger(collection: &Collection) -> Option<Ledger> {
    divide_heap(HeapFigures::from_collection(collection))
}

fn divide_heap(heap: HeapFigures) -> Option<Ledger> {
    let ledger = divide(&Sources {
        heap,
        ..Sources::default()
    });
    (!ledger.is_empty()).then_some(ledger)
}

/// Returns the ledger as of the newest collection with the most heap figures, and the number of that collection. A
/// background collection does not report kept memory.
pub fn newest(collections: &[Collection]) -> Option<(u32, Ledger)> {
    let with_heap = |collection: &&Collection| collection.heap_stats.is_some();
    let newest = collections
        .iter()
        .filter(with_heap)
        .max_by_key(|collection| (collection.committed.kept.is_some(), collection.end))?;
    let mut heap = HeapFigures::from_collection(newest);
    let is_full = |collection: &&Collection| collection.generation == Some(2) && collection.end <= newest.end;
    let full = collections
        .iter()
        .filter(with_heap)
        .filter(is_full)
        .max_by_key(|full| full.end);
    let passed_ns = |since: i64| u64::try_from(newest.end.unwrap_or(0).saturating_sub(since)).unwrap_or(0);
    let looked_at = full.and_then(|full| Some((old_objects(full)?, passed_ns(full.end?))));
    heap.not_looked_at = old_objects(newest).map(|old| not_looked_at(old, looked_at, passed_ns(0)));
    Some((newest.number, divide_heap(heap)?))
}

/// Writes the ledger as one line that starts with `when`.
pub fn write(out: &mut dyn Write, when: &str, ledger: &Ledger) -> io::Result<()> {
    let lines = [
        ("live", ledger.live),
        (
            "not looked at by a full collection",
            ledger.not_looked_at.filter(|bytes| *bytes > 0),
        ),
        ("free", ledger.free),
        ("committed and unused", ledger.committed_unused),
        ("bookkeeping", ledger.bookkeeping),
    ];
    let known = lines
        .iter()
        .filter_map(|(name, bytes)| Some(format!("{name} {}", Bytes((*bytes)?))));
    let known: Vec<String> = known.collect();
    writeln!(out, "memory {when}: {}; native unknown", known.join(", "))
}
