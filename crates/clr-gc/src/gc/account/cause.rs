//! Causes of stopped time.

use crate::gc::named::named;

named! {
    /// Cause of a part of a stop. The values have the order in which the causes occur in a stop.
    pub enum Cause {
        /// Waiting until the last thread has stopped.
        SlowThreads = "threads.slow" "threads slow to stop",
        /// Work before the marking: selection of the generation, number of heaps, collector threads.
        Prepare = "prepare" "preparing the collection",
        /// Scanning stacks.
        Stacks = "roots.stacks" "stacks of threads",
        /// Scanning GC handles, including static fields.
        Handles = "roots.handles" "GC handles",
        /// Scanning dependent handles (`ConditionalWeakTable`), repeated as needed.
        DependentHandles = "roots.dependent-handles" "dependent handles",
        /// Scanning sized references (handles of a cache).
        SizedReferences = "roots.sized-references" "sized references",
        /// Scanning old objects for references to young objects (cards).
        OldToYoung = "roots.old-to-young" "old objects that refer to young ones",
        /// Scanning the queue of finalizable objects.
        FinalizerQueue = "roots.finalizer-queue" "queue of finalizable objects",
        /// Scanning the list of a background collection in progress.
        BackgroundRoots = "roots.background" "list of a background collection",
        /// Scanning a small number of roots, as in any process.
        FewRoots = "roots.few" "few roots, as any process has",
        /// Clearing weak references, and sync blocks of dead objects.
        Weak = "weak" "weak references and sync blocks",
        /// Marking surviving objects.
        Survivors = "survivors" "marking what survives",
        /// Planning the location of survivors.
        Plan = "plan" "planning",
        /// Updating references to moved objects.
        Relocate = "relocate" "updating references",
        /// Moving objects.
        Compact = "compact" "moving objects",
        /// Building free lists.
        Sweep = "sweep" "sweeping",
        /// Making the free space between pinned objects usable.
        PinnedGaps = "pinned.gaps" "free space between pinned objects",
        /// Work after the phases: statistics, release of regions.
        Finish = "finish" "finishing the collection",
        /// Resuming the threads.
        Resume = "resume" "resuming threads",
        /// Marking in the separate stops of a background collection: roots at its start, changes at its end.
        BackgroundMark = "background.mark" "marking in stops of background collections",
        /// A collection that another tool requested for a heap dump, from the suspension of the threads to their restart.
        HeapDump = "tool.heap-dump" "heap dumps by another tool",
        /// A stop in which nothing was collected: a no-GC region, or a memory limit that was refreshed.
        NoCollection = "no-collection" "stops without a collection",
        /// Time added by a session of another tool.
        ToolSession = "tool.session" "session of another tool",
        /// Time in which the collecting threads had no CPU. Known for live processes only.
        NoCpu = "no-cpu" "no CPU for the collector",
        /// Time that no event explains.
        Unexplained = "unexplained" "unexplained",
    }
}

impl Cause {
    /// Number of kinds of roots with a range: the causes from [`Self::Stacks`] to the cause before [`Self::FewRoots`].
    /// A mark contains the scan of the roots and the marking of the objects that are reachable from them.
    pub(crate) const RANGED: usize = Self::FewRoots as usize - Self::Stacks as usize;

    /// Returns the index among the kinds of roots with a range, or `None` if the cause has no range.
    pub(super) fn ranged_place(self) -> Option<usize> {
        let place = (self as usize).checked_sub(Self::Stacks as usize)?;
        (place < Self::RANGED).then_some(place)
    }

    /// Returns the cause with this [`id`](Self::id), or `None` if no cause has the id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.id() == id)
    }

    /// Returns whether events show this cause. Other causes are known only for live processes.
    pub const fn is_seen_in_events(self) -> bool {
        !matches!(self, Self::NoCpu | Self::ToolSession)
    }

    /// Returns whether the cause belongs to the collection itself rather than to stopping and resuming the threads.
    pub(super) const fn is_of_collection(self) -> bool {
        self.is_root()
            || matches!(
                self,
                Self::Weak
                    | Self::Survivors
                    | Self::Plan
                    | Self::Relocate
                    | Self::Compact
                    | Self::Sweep
                    | Self::PinnedGaps
                    | Self::Finish
            )
    }

    /// Returns whether relocation scans this cause's roots again.
    pub(super) const fn is_root(self) -> bool {
        matches!(
            self,
            Self::Stacks
                | Self::Handles
                | Self::DependentHandles
                | Self::SizedReferences
                | Self::OldToYoung
                | Self::FinalizerQueue
                | Self::BackgroundRoots
                | Self::FewRoots
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Scenario: the table of causes is read.
    /// Guarantee: each cause is at its index, has a unique id and is found by this id. Exactly the kinds of roots have
    /// ranges, except for the few roots that every process has.
    #[test]
    fn table_of_causes_is_consistent() {
        let ids: HashSet<&str> = Cause::ALL.iter().map(|cause| cause.id()).collect();
        assert_eq!(ids.len(), Cause::COUNT);
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!((cause as usize, Cause::from_id(cause.id())), (place, Some(cause)));
        }
        let ranged = Cause::ALL.into_iter().filter(|cause| cause.ranged_place().is_some());
        let roots = Cause::ALL
            .into_iter()
            .filter(|cause| cause.is_root() && *cause != Cause::FewRoots);
        assert!(ranged.eq(roots));
    }
}
