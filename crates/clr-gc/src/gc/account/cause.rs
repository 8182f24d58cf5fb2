//! What time is spent on in a stop.

/// What a part of a stop was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// Waiting until the last thread had stopped.
    SlowThreads,
    /// What comes before the marking: which generation, how many heaps, threads of the collector.
    Prepare,
    /// Looking through stacks.
    Stacks,
    /// Looking through GC handles, static fields included.
    Handles,
    /// Looking through dependent handles (`ConditionalWeakTable`), as often as needed.
    DependentHandles,
    /// Looking through sized references (a cache's handles).
    SizedReferences,
    /// Looking through old objects for references to young ones (cards).
    OldToYoung,
    /// Looking through the queue of finalizable objects.
    FinalizerQueue,
    /// Looking through what a background collection under way had on its list.
    BackgroundRoots,
    /// Looking through so few roots as any process has.
    FewRoots,
    /// Clearing weak references, and sync blocks of dead objects.
    Weak,
    /// Marking what survives.
    Survivors,
    /// Planning where survivors go.
    Plan,
    /// Updating references to what moves.
    Relocate,
    /// Moving objects.
    Compact,
    /// Making free lists.
    Sweep,
    /// Making free space between pinned objects usable.
    PinnedGaps,
    /// What comes after the phases: figures, regions given back.
    Finish,
    /// Letting the threads run again.
    Resume,
    /// The marking in a background collection's own stops: roots at its beginning, what changed meanwhile at its end.
    BackgroundMark,
    /// A collection that another tool asked for, for a heap dump, from the stop of the threads to their restart.
    HeapDump,
    /// A stop in which nothing was collected: a no-GC region, a memory limit that was read again.
    NoCollection,
    /// What a session of another tool lengthened.
    ToolSession,
    /// The threads that collect had no CPU. Known of live processes only.
    NoCpu,
    /// What nothing says.
    Unexplained,
}

impl Cause {
    /// How many there are.
    pub const COUNT: usize = 25;

    /// Each, in the order in which they come in a stop.
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

    /// Number of kinds of roots with a range: those before [`Self::FewRoots`]. A mark contains the scan of the roots and
    /// the marking of the objects behind them.
    pub(crate) const RANGED: usize = Self::FewRoots as usize - Self::Stacks as usize;

    /// Returns the place among the kinds of roots with a range.
    pub(super) fn ranged_place(self) -> Option<usize> {
        let place = (self as usize).checked_sub(Self::Stacks as usize)?;
        (place < Self::RANGED).then_some(place)
    }

    /// The name in records, metrics and rules, which never changes: `roots.stacks`.
    pub const fn id(self) -> &'static str {
        self.names().0
    }

    /// The name for people: `stacks`.
    pub const fn title(self) -> &'static str {
        self.names().1
    }

    /// The cause of that [`id`](Self::id).
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.id() == id)
    }

    /// Events show it; the others are known of live processes only.
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

    /// A part of the collection itself: not of stopping and resuming the threads.
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

    /// Looked through again by relocation.
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

    /// Scenario: the whole table.
    /// Guarantee: each cause is at its own place, has its own name, and is found by it. Exactly the kinds of roots have
    /// ranges, but for the few that every process has.
    #[test]
    fn the_table_is_sound() {
        let ids: HashSet<&str> = Cause::ALL.iter().map(|cause| cause.id()).collect();
        assert_eq!(ids.len(), Cause::COUNT);
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!((cause as usize, Cause::of(cause.id())), (place, Some(cause)));
        }
        let ranged = Cause::ALL.into_iter().filter(|cause| cause.ranged_place().is_some());
        let roots = Cause::ALL
            .into_iter()
            .filter(|cause| cause.is_root() && *cause != Cause::FewRoots);
        assert!(ranged.eq(roots));
    }
}
