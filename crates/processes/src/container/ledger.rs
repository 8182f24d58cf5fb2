//! The memory ledger: divides the memory of a process by kind, from the figures of the kernel and the collector.
//!
//! ```text
//! control group (limit, usage, kinds of pages) --+
//! smaps of the process (anonymous, heap, shared) +-> Sources -> divide -> Ledger (a record)
//! last collection (live, free, committed) -------+                  Series -> growth of a line
//! ```
//!
//! # Division
//!
//! The sources are read at slightly different times, and committed memory is not necessarily resident on Linux. Each
//! line therefore takes at most the remainder of the memory that it shares with the lines before it:
//!
//! * The collector's lines share its resident pages, counted in `smaps` ([`maps`]), or the process's anonymous pages if
//!   the heap was not counted. Resident pages beyond live objects, free space and tables are committed and unused: kept
//!   regions, space for the next allocations, and objects allocated there since the newest collection.
//! * All lines share the usage. The remainder is unknown.
//!
//! A line whose source is unknown is unknown, and the memory that it would explain is in the remainder. No line is
//! negative.

mod maps;
mod read;
mod series;

pub use maps::ResidentPages;
pub use read::{MemoryReading, read};
pub use series::Series;

use clr_gc::gc::Collection;
use rule_engine::field::CommandName;
use rule_engine::ledger::{Ledger, MemoryVerdict, Scope};

use super::figures::Memory;

/// Figures of the heap from the newest collection, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeapFigures {
    /// Objects, live or not looked at, plus the free space between them.
    pub after: Option<u64>,
    /// Free space between objects.
    pub free: Option<u64>,
    /// Bytes committed for regions that contain objects.
    pub committed: Option<u64>,
    /// Bytes committed for regions without objects: free regions, and regions that wait to be decommitted.
    pub kept: Option<u64>,
    /// Bytes of the collector's tables.
    pub bookkeeping: Option<u64>,
    /// Bytes of old objects that no full collection has looked at, and the time since the newest full collection in
    /// seconds; `None` if unknown, as for a single collection.
    pub not_looked_at: Option<(u64, u64)>,
}

impl HeapFigures {
    /// Returns the figures from one collection.
    pub fn from_collection(collection: &Collection) -> Self {
        let committed = &collection.committed;
        Self {
            after: collection
                .heap_stats
                .is_some()
                .then(|| collection.heap_after())
                .flatten(),
            free: collection.total(|sizes| sizes.fragmentation),
            committed: committed.after.or(committed.before),
            kept: committed.kept,
            bookkeeping: committed.bookkeeping,
            not_looked_at: None,
        }
    }

    /// Returns the bytes of objects, without the free space between them, or `None` if a figure is unknown or the
    /// figures are inconsistent.
    pub fn objects(&self) -> Option<u64> {
        self.after?.checked_sub(self.free?)
    }

    /// Returns the sum of the free space between objects and the memory that is committed beyond objects and tables, or
    /// `None` if a figure is unknown.
    pub fn room(&self) -> Option<u64> {
        Some(self.free?.saturating_add(self.unused()?))
    }

    /// Returns the bytes committed beyond objects and tables, or `None` if a figure is unknown.
    fn unused(&self) -> Option<u64> {
        let tails = self.committed?.saturating_sub(self.after?);
        Some(tails.saturating_add(self.kept?))
    }

    /// Returns all committed bytes, including the tables, or `None` if the bytes of regions with objects are unknown.
    pub(crate) fn all_committed(&self) -> Option<u64> {
        let kept = self.kept.unwrap_or(0).saturating_add(self.bookkeeping.unwrap_or(0));
        Some(self.committed?.saturating_add(kept))
    }
}

/// Time for which the objects found by a full collection are assumed to be alive.
const LOOKED_AT_FOR_NS: u64 = 300_000_000_000;

/// Returns the bytes of generation 2, large and pinned objects after a collection, without free space, or `None` if no
/// size is known.
pub fn old_objects(collection: &Collection) -> Option<u64> {
    let old = collection.heap.get(2..)?.iter();
    let each = old.filter_map(|sizes| Some(sizes.after?.saturating_sub(sizes.fragmentation.unwrap_or(0))));
    each.reduce(u64::saturating_add)
}

/// Returns the bytes out of `old` that no recent full collection has looked at, and the time since the newest full
/// collection in seconds. `looked_at` is the number of bytes that the newest full collection left, and its age; `None`
/// if there was no full collection since monitoring started `watched_ns` ago.
pub fn not_looked_at(old: u64, looked_at: Option<(u64, u64)>, watched_ns: u64) -> (u64, u64) {
    let (looked, ago_ns) = looked_at.unwrap_or((0, watched_ns));
    let looked = if ago_ns <= LOOKED_AT_FOR_NS { looked } else { 0 };
    (old.saturating_sub(looked), ago_ns / 1_000_000_000)
}

/// All sources for the memory of a process at one time, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sources {
    /// The lowest limit that applies to the process; `None` if there is no limit.
    pub limit: Option<u64>,
    /// The group with this limit, or the group of the container; `None` if the process is not in such a group.
    pub group: Option<Memory>,
    /// Name of the other process of the group with the most private memory.
    pub largest_other: Option<CommandName>,
    /// Resident pages of the process.
    pub resident: ResidentPages,
    pub heap: HeapFigures,
}

/// The remainder of memory that several lines share.
struct Remainder(Option<u64>);

impl Remainder {
    /// Takes at most `bytes` and returns the taken bytes, or `None` if `bytes` is `None`. If the remainder is unknown,
    /// takes all of `bytes`.
    fn take(&mut self, bytes: Option<u64>) -> Option<u64> {
        let bytes = bytes?;
        let Some(rest) = &mut self.0 else { return Some(bytes) };
        let taken = bytes.min(*rest);
        *rest -= taken;
        Some(taken)
    }
}

/// Takes the same amount from both remainders, at most the smaller one.
fn take_from_both(first: &mut Remainder, second: &mut Remainder, bytes: Option<u64>) -> Option<u64> {
    let bound = |rest: &Remainder| rest.0.unwrap_or(u64::MAX);
    let bytes = bytes.map(|bytes| bytes.min(bound(first)).min(bound(second)));
    first.take(bytes);
    second.take(bytes)
}

/// Divides the memory into the lines of a ledger.
pub fn divide(sources: &Sources) -> Ledger {
    let Sources {
        limit,
        group,
        largest_other,
        resident,
        heap,
    } = sources;
    let group_of = |get: fn(&Memory) -> Option<u64>| group.as_ref().and_then(get);
    let usage = if group.is_some() {
        group_of(|memory| memory.usage)
    } else {
        resident.all
    };
    let of = match (group, usage) {
        (Some(_), _) => Scope::Container,
        (None, Some(_)) => Scope::Process,
        (None, None) => Scope::Heap,
    };
    let mut rest = Remainder(usage);
    // Memory that is charged to another group is not part of this group's usage.
    let anonymous = match (resident.anonymous, group_of(|memory| memory.anonymous)) {
        (Some(own), Some(all)) => Some(own.min(all)),
        (own, _) => own,
    };
    let counted = resident.heap.map(|heap| heap.min(anonymous.unwrap_or(u64::MAX)));
    let mut managed = Remainder(counted.or(anonymous));
    let objects = heap.objects();
    let unseen = objects.zip(heap.not_looked_at).map(|(all, (bytes, _))| bytes.min(all));
    let live = objects.map(|all| all.saturating_sub(unseen.unwrap_or(0)));
    let live = take_from_both(&mut managed, &mut rest, live);
    let not_looked_at = take_from_both(&mut managed, &mut rest, unseen);
    let free = take_from_both(&mut managed, &mut rest, heap.free);
    let bookkeeping = take_from_both(&mut managed, &mut rest, heap.bookkeeping);
    let committed_unused = match counted {
        // The rest of the heap is committed and unused, regardless of the memory committed since the newest collection.
        Some(_) if live.is_some() && free.is_some() => {
            let all = managed.0;
            take_from_both(&mut managed, &mut rest, all)
        }
        Some(_) => None,
        None => take_from_both(&mut managed, &mut rest, heap.unused()),
    };
    let others_of_process = match counted {
        Some(heap) => anonymous.map(|all| all.saturating_sub(heap)),
        // If one of these values is unknown, any part of the rest can belong to the collector.
        None => anonymous.and(live).and(free).and(committed_unused).and(managed.0),
    };
    let shared = resident.shared.unwrap_or(0);
    let native = rest.take(others_of_process.map(|bytes| bytes.saturating_add(shared)));
    let other_processes = match (group_of(|memory| memory.processes), resident.anonymous) {
        (Some(1), _) => Some(0),
        (_, Some(own)) => {
            let all = group_of(|memory| memory.anonymous);
            rest.take(all.map(|all| all.saturating_sub(own)))
        }
        _ => None,
    };
    // `native` includes the process's part of shared memory.
    let files_in_memory = rest.take(group_of(|memory| memory.shmem).map(|bytes| bytes.saturating_sub(shared)));
    let kernel = rest.take(group_of(Memory::kernel_held));
    // Memory that the kernel reclaims by itself comes last: if the sources disagree, these lines are reduced.
    let page_cache = rest.take(if group.is_some() {
        group_of(|memory| memory.page_cache)
    } else {
        resident.files
    });
    let kernel_reclaimable = rest.take(group_of(|memory| memory.kernel_reclaimable));
    let mut ledger = Ledger {
        at_ms: None,
        of,
        counted: counted.is_some(),
        limit: *limit,
        headroom: limit.zip(usage).map(|(limit, usage)| limit.saturating_sub(usage)),
        usage,
        live,
        not_looked_at,
        not_looked_at_s: not_looked_at.and(heap.not_looked_at).map(|(_, seconds)| seconds),
        free,
        committed_unused,
        bookkeeping,
        native,
        other_processes,
        largest_other: *largest_other,
        files_in_memory,
        page_cache,
        kernel,
        kernel_reclaimable,
        kernel_is_estimated: group.is_some_and(|memory| memory.kernel_is_estimated),
        unknown: rest.0,
        ..Ledger::default()
    };
    ledger.verdict = verdict(&ledger);
    ledger
}

/// Returns the largest line, or [`MemoryVerdict::NotKnown`] if the unknown remainder is larger. Lines that the kernel
/// reclaims by itself do not count.
fn verdict(ledger: &Ledger) -> MemoryVerdict {
    let known = MemoryVerdict::ALL
        .iter()
        .filter(|&&verdict| verdict != MemoryVerdict::PageCache)
        .filter_map(|&verdict| Some((ledger.line_of(verdict)?, verdict)));
    // The first of equal lines wins.
    let largest = known.reduce(|first, next| if next.0 > first.0 { next } else { first });
    match largest {
        Some((bytes, verdict)) if bytes > 0 && bytes >= ledger.unknown.unwrap_or(0) => verdict,
        _ => MemoryVerdict::NotKnown,
    }
}

#[cfg(test)]
mod tests;
