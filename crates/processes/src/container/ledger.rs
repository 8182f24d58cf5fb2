//! The memory ledger: from what the kernel and the collector say of a process's memory to where it is.
//!
//! ```text
//! control group (limit, usage, kinds of pages) --+
//! smaps of the process (anonymous, heap, shared) +-> Sources -> divide -> Ledger (a record)
//! newest collection (live, free, committed) -----+                  Series -> how fast a line grows
//! ```
//!
//! # How it adds up
//!
//! All sources are read at slightly different times, and committed memory is not resident on Linux. So each line takes
//! at most what is left of what the lines before it share:
//!
//! * The collector's lines share its resident pages, counted in `smaps` ([`maps`]); where these were not counted, the
//!   process's anonymous pages. What it has resident beyond live objects, free space and tables is committed and
//!   unused: regions that are kept, the room for the next allocations, and what was allocated there since the newest
//!   collection.
//! * All lines share the usage. What is left of it is unknown.
//!
//! A line whose source is unknown is unknown, and what it would explain is in the rest. Nothing is negative.

mod maps;
mod read;
mod series;

pub use maps::Resident;
pub use read::{MemoryReading, read};
pub use series::Series;

use clr_gc::gc::Collection;
use gc_rules::field::CommandName;
use gc_rules::ledger::{Ledger, MemoryVerdict, Scope};

use super::figures::Memory;

/// What the newest collection shows of the heap, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeapFigures {
    /// Objects, live or not looked at, and the free space between them.
    pub after: Option<u64>,
    /// The free space between them.
    pub free: Option<u64>,
    /// Committed for regions that have objects.
    pub committed: Option<u64>,
    /// Committed for regions without: free ones, and those that wait to be given back.
    pub kept: Option<u64>,
    /// The collector's tables.
    pub bookkeeping: Option<u64>,
    /// Old objects that no full collection has looked at, and for how many seconds; `None`: unknown, as of a single
    /// collection.
    pub not_looked_at: Option<(u64, u64)>,
}

impl HeapFigures {
    /// What one collection shows.
    pub fn of(collection: &Collection) -> Self {
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

    /// Objects without the free space between them.
    pub fn objects(&self) -> Option<u64> {
        self.after?.checked_sub(self.free?)
    }

    /// Free space between objects, and memory that is committed beyond them.
    pub fn room(&self) -> Option<u64> {
        Some(self.free?.saturating_add(self.unused()?))
    }

    /// Committed beyond objects and tables.
    fn unused(&self) -> Option<u64> {
        let tails = self.committed?.saturating_sub(self.after?);
        Some(tails.saturating_add(self.kept?))
    }

    /// All that is committed, with the tables.
    pub(crate) fn all_committed(&self) -> Option<u64> {
        let kept = self.kept.unwrap_or(0).saturating_add(self.bookkeeping.unwrap_or(0));
        Some(self.committed?.saturating_add(kept))
    }
}

/// How long what a full collection found is taken for what lives.
const LOOKED_AT_FOR_NS: u64 = 300_000_000_000;

/// Bytes of generation 2, large and pinned objects after a collection, without free space.
pub fn old_objects(collection: &Collection) -> Option<u64> {
    let old = collection.heap.get(2..)?.iter();
    let each = old.filter_map(|sizes| Some(sizes.after?.saturating_sub(sizes.fragmentation.unwrap_or(0))));
    each.reduce(u64::saturating_add)
}

/// Of so many bytes of old objects, those that no full collection has looked at, and for how many seconds. `looked_at`:
/// bytes that the newest full one left, and how long ago it was; `None`: none since `watched_ns`.
pub fn not_looked_at(old: u64, looked_at: Option<(u64, u64)>, watched_ns: u64) -> (u64, u64) {
    let (looked, ago_ns) = looked_at.unwrap_or((0, watched_ns));
    let looked = if ago_ns <= LOOKED_AT_FOR_NS { looked } else { 0 };
    (old.saturating_sub(looked), ago_ns / 1_000_000_000)
}

/// All that is known of the memory of a process at one time, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sources {
    /// The smallest limit that holds for it.
    pub limit: Option<u64>,
    /// The group that has this limit, or the container's; `None`: it is in none.
    pub group: Option<Memory>,
    /// Name of the other process of the group with the most private memory.
    pub largest_other: Option<CommandName>,
    /// Resident pages of the process.
    pub resident: Resident,
    pub heap: HeapFigures,
}

/// A part of what several lines share.
struct Rest(Option<u64>);

impl Rest {
    /// At most so much; where nothing bounds it, all.
    fn take(&mut self, bytes: Option<u64>) -> Option<u64> {
        let bytes = bytes?;
        let Some(rest) = &mut self.0 else { return Some(bytes) };
        let taken = bytes.min(*rest);
        *rest -= taken;
        Some(taken)
    }
}

/// Takes from both what both have.
fn of_both(first: &mut Rest, second: &mut Rest, bytes: Option<u64>) -> Option<u64> {
    let bound = |rest: &Rest| rest.0.unwrap_or(u64::MAX);
    let bytes = bytes.map(|bytes| bytes.min(bound(first)).min(bound(second)));
    first.take(bytes);
    second.take(bytes)
}

/// Where the memory is.
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
    let mut rest = Rest(usage);
    // What another group pays for is none of this one's usage.
    let anonymous = match (resident.anonymous, group_of(|memory| memory.anonymous)) {
        (Some(own), Some(all)) => Some(own.min(all)),
        (own, _) => own,
    };
    let counted = resident.heap.map(|heap| heap.min(anonymous.unwrap_or(u64::MAX)));
    let mut managed = Rest(counted.or(anonymous));
    let objects = heap.objects();
    let unseen = objects.zip(heap.not_looked_at).map(|(all, (bytes, _))| bytes.min(all));
    let live = objects.map(|all| all.saturating_sub(unseen.unwrap_or(0)));
    let live = of_both(&mut managed, &mut rest, live);
    let not_looked_at = of_both(&mut managed, &mut rest, unseen);
    let free = of_both(&mut managed, &mut rest, heap.free);
    let bookkeeping = of_both(&mut managed, &mut rest, heap.bookkeeping);
    let committed_unused = match counted {
        // The rest of it, whatever was committed since the newest collection.
        Some(_) if live.is_some() && free.is_some() => {
            let all = managed.0;
            of_both(&mut managed, &mut rest, all)
        }
        Some(_) => None,
        None => of_both(&mut managed, &mut rest, heap.unused()),
    };
    let others_of_process = match counted {
        Some(heap) => anonymous.map(|all| all.saturating_sub(heap)),
        // Without all of these, what is left may be the collector's or not.
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
    // The process's part of shared memory is in `native`.
    let files_in_memory = rest.take(group_of(|memory| memory.shmem).map(|bytes| bytes.saturating_sub(shared)));
    let kernel = rest.take(group_of(Memory::kernel_held));
    // Memory that the kernel reclaims by itself comes last: if the sources disagree, these lines are the short ones.
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

/// Returns the largest line. Lines that the kernel reclaims by itself do not count.
fn verdict(ledger: &Ledger) -> MemoryVerdict {
    let known = MemoryVerdict::ALL
        .iter()
        .filter(|&&verdict| verdict != MemoryVerdict::PageCache)
        .filter_map(|&verdict| Some((ledger.line_of(verdict)?, verdict)));
    // Of equals the first.
    let largest = known.reduce(|first, next| if next.0 > first.0 { next } else { first });
    match largest {
        Some((bytes, verdict)) if bytes > 0 && bytes >= ledger.unknown.unwrap_or(0) => verdict,
        _ => MemoryVerdict::NotKnown,
    }
}

#[cfg(test)]
mod tests;
