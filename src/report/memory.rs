//! What a recording alone knows of a process's memory: the heap, as of a collection.

use std::io::{self, Write};

use clr_gc::gc::Collection;
use gc_rules::ledger::Ledger;

use crate::container::ledger::{HeapFigures, Sources, divide};
use crate::report::units::Bytes;

/// The ledger as of a collection; `None`: it says nothing of the heap.
pub fn ledger(collection: &Collection) -> Option<Ledger> {
    let ledger = divide(&Sources {
        heap: HeapFigures::of(collection),
        ..Sources::default()
    });
    (!ledger.is_empty()).then_some(ledger)
}

/// The ledger as of the newest collection that says most of the heap, and that one's number: a background collection
/// does not say what is kept.
pub fn newest(collections: &[Collection]) -> Option<(u32, Ledger)> {
    let with_heap = |collection: &&Collection| collection.heap_stats.is_some();
    let newest = collections
        .iter()
        .filter(with_heap)
        .max_by_key(|collection| (collection.committed.kept.is_some(), collection.end))?;
    Some((newest.number, ledger(newest)?))
}

/// Writes it as one line, which begins with `when`.
///
/// # Errors
///
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, when: &str, ledger: &Ledger) -> io::Result<()> {
    let lines = [
        ("live", ledger.live),
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
