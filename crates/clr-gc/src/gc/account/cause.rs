//! Causes of stopped time.

/// Cause of a part of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// Waiting until the last thread has stopped.
    SlowThreads,
    /// Work before the marking: selection of the generation, number of heaps, collector threads.
    Prepare,
    /// Scanning stacks.
    Stacks,
    /// Scanning GC handles, including static fields.
    Handles,
    /// Scanning dependent handles (`ConditionalWeakTable`), repeated as needed.
    DependentHandles,
    /// Scanning sized references (handles of a cache).
    SizedReferences,
    /// Scanning old objects for references to young objects (cards).
    OldToYoung,
    /// Scanning the queue of finalizable objects.
    FinalizerQueue,
    /// Scanning the list of a background collection in progress.
    BackgroundRoots,
    /// Scanning the few roots that every process has: up to 100 µs for each kind of root.
    FewRoots,
    /// Clearing weak references, and sync blocks of dead objects.
    Weak,
    /// Marking surviving objects.
    Survivors,
    /// Planning the location of survivors.
    Plan,
    /// Updating references to moved objects.
    Relocate,
    /// Moving objects.
    Compact,
    /// Building free lists.
    Sweep,
    /// Making the free space between pinned objects usable.
    PinnedGaps,
    /// Work after the phases: statistics, release of regions.
    Finish,
    /// Resuming the threads.
    Resume,
    /// Marking in the separate stops of a background collection: roots at its start, changes at its end.
    BackgroundMark,
    /// A collection that another tool requested for a heap dump, from the suspension of the threads to their restart.
    HeapDump,
    /// A stop in which nothing was collected: a no-GC region, or a memory limit that was refreshed.
    NoCollection,
    /// Time added by a session of another tool.
    ToolSession,
    /// Time during which the collecting threads had no CPU. This time is known only for live processes.
    NoCpu,
    /// Time that no event explains.
    Unexplained,
}

impl Cause {
    /// Number of causes.
    pub const COUNT: usize = 25;

    /// All causes, in the order in which they occur in a stop.
    pub const ALL: [Self; Self::COUNT] = [
        Self::SlowThreads,
        Self::Prepare,
        Self::Stacks,
        Self::Handles,
        Self::DependentHandles,
        Self::SizedReferences,
        Self::OldToYoung,
        Self::FinalizerQueue,
        Self::BackgroundRoots,
        Self::FewRoots,
        Self::Weak,
        Self::Survivors,
        Self::Plan,
        Self::Relocate,
        Self::Compact,
        Self::Sweep,
        Self::PinnedGaps,
        Self::Finish,
        Self::Resume,
        Self::BackgroundMark,
        Self::HeapDump,
        Self::NoCollection,
        Self::ToolSession,
        Self::NoCpu,
        Self::Unexplained,
    ];

    /// Number of kinds of roots with a range: the kinds from [`Self::Stacks`] up to the kind before [`Self::FewRoots`].
    /// A mark contains the scan of the roots and the marking of the objects behind them.
    pub(crate) const RANGED: usize = Self::FewRoots as usize - Self::Stacks as usize;

    /// Returns the index among the kinds of roots with a range, or `None` if the cause has no range.
    pub(super) fn ranged_place(self) -> Option<usize> {
        let place = (self as usize).checked_sub(Self::Stacks as usize)?;
        (place < Self::RANGED).then_some(place)
    }

    /// Returns the name in records, metrics and rules, which never changes, for example `roots.stacks`.
    pub const fn id(self) -> &'static str {
        self.names().0
    }

    /// Returns the name for display, for example `stacks`.
    pub const fn title(self) -> &'static str {
        self.names().1
    }

    /// Returns the cause with this [`id`](Self::id).
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.id() == id)
    }

    /// Returns whether events show this cause. Other causes are known only for live processes.
    pub const fn is_seen_in_events(self) -> bool {
        !matches!(self, Self::NoCpu | Self::ToolSession)
    }

    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::SlowThreads => ("threads.slow", "threads slow to stop"),
            Self::Prepare => ("prepare", "preparing the collection"),
            Self::Stacks => ("roots.stacks", "stacks of threads"),
            Self::Handles => ("roots.handles", "GC handles"),
            Self::DependentHandles => ("roots.dependent-handles", "dependent handles"),
            Self::SizedReferences => ("roots.sized-references", "sized references"),
            Self::OldToYoung => ("roots.old-to-young", "old objects that refer to young ones"),
            Self::FinalizerQueue => ("roots.finalizer-queue", "queue of finalizable objects"),
            Self::BackgroundRoots => ("roots.background", "list of a background collection"),
            Self::FewRoots => ("roots.few", "few roots, as any process has"),
            Self::Weak => ("weak", "weak references and sync blocks"),
            Self::Survivors => ("survivors", "marking what survives"),
            Self::Plan => ("plan", "planning"),
            Self::Relocate => ("relocate", "updating references"),
            Self::Compact => ("compact", "moving objects"),
            Self::Sweep => ("sweep", "sweeping"),
            Self::PinnedGaps => ("pinned.gaps", "free space between pinned objects"),
            Self::Finish => ("finish", "finishing the collection"),
            Self::Resume => ("resume", "resuming threads"),
            Self::BackgroundMark => ("background.mark", "marking in stops of background collections"),
            Self::HeapDump => ("tool.heap-dump", "heap dumps by another tool"),
            Self::NoCollection => ("no-collection", "stops without a collection"),
            Self::ToolSession => ("tool.session", "session of another tool"),
            Self::NoCpu => ("no-cpu", "no CPU for the collector"),
            Self::Unexplained => ("unexplained", "unexplained"),
        }
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
