//! The marks of a collection: the time at which each heap finished marking from each kind of root.

use crate::event::{MarkWithType, RootKind};
use crate::gc::account::cause::Cause;

/// Maximum number of heaps whose marks are kept, which is the maximum of a runtime (`MAX_SUPPORTED_CPUS` of gc.h).
pub const MAX_MARKED_HEAPS: usize = 1024;

/// Steps of marking in a heap, in the order of their marks (no exception in 6,900 collections of .NET 8 to 11 and of
/// NativeAOT). A mark is sent when its kind is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum MarkStep {
    /// Type 4: only in full collections that have sized references.
    Sized,
    /// Type 0.
    Stacks,
    /// Type 9: in each foreground collection.
    Background,
    /// Type 1.
    FinalizerQueue,
    /// Type 2.
    Handles,
    /// Type 3: in each collection of generation 0 or 1.
    Older,
    /// Type 8: heaps take work from each other.
    Steal,
    /// First mark of type 6.
    Dependent,
    /// Type 7.
    Finalizable,
    /// Second mark of type 6.
    DependentAgain,
}

const PLACES: usize = 10;

/// Cause of the time up to the mark of each step.
const CAUSES: [Cause; PLACES] = [
    Cause::SizedReferences,
    Cause::Stacks,
    Cause::BackgroundRoots,
    Cause::FinalizerQueue,
    Cause::Handles,
    Cause::OldToYoung,
    Cause::Survivors,
    Cause::DependentHandles,
    Cause::Survivors,
    Cause::DependentHandles,
];

/// Times and bytes of each kind of root, from the heap that was last to finish its roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkTimes {
    /// Number of heaps that sent all marks that every collection has, and the same optional kinds as this heap.
    whole_heaps: u32,
    /// Whether a heap sent a mark out of order, or the number of a heap exceeds the limit.
    is_broken: bool,
    at: [Option<i64>; PLACES],
    bytes: [u64; PLACES],
}

/// A kind of root in one heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Cause of the time.
    pub(super) cause: Cause,
    /// Time at which the kind was finished.
    pub(super) at: i64,
    /// Bytes marked.
    pub(super) bytes: u64,
    /// Whether weak references were also cleared in this time.
    pub(super) clears_weak: bool,
}

impl MarkTimes {
    /// Returns the marks in order, if every heap has sent all marks of a collection of this generation and kind.
    pub(super) fn whole(&self, heaps: u32, is_full: bool, is_foreground: bool) -> Option<Vec<Mark>> {
        let is_there = |place: MarkStep| self.at.get(place as usize).is_some_and(Option::is_some);
        let is_whole = !self.is_broken
            && self.whole_heaps == heaps
            && is_there(MarkStep::Older) != is_full
            && is_there(MarkStep::Background) == is_foreground;
        let marks = CAUSES.into_iter().zip(self.at).zip(self.bytes).enumerate();
        let sent = marks.filter_map(|(place, ((cause, at), bytes))| {
            Some(Mark {
                cause,
                at: at?,
                bytes,
                clears_weak: place == MarkStep::Finalizable as usize,
            })
        });
        is_whole.then(|| sent.collect())
    }

    /// Returns the time at which the roots were finished, or `None` if the mark is missing. Weak references follow.
    pub(super) fn roots_done(&self) -> Option<i64> {
        self.at.get(MarkStep::Dependent as usize).copied().flatten()
    }
}

/// The marks of one heap.
#[derive(Debug, Clone, Copy)]
struct Heap {
    is_broken: bool,
    last: Option<MarkStep>,
    at: [Option<i64>; PLACES],
    bytes: [u64; PLACES],
}

impl Heap {
    const UNSEEN: Self = Self {
        is_broken: false,
        last: None,
        at: [None; PLACES],
        bytes: [0; PLACES],
    };

    fn mark(&mut self, at: i64, kind: RootKind, bytes: u64) {
        let dependent = if self.last >= Some(MarkStep::Finalizable) {
            MarkStep::DependentAgain
        } else {
            MarkStep::Dependent
        };
        let place = match kind {
            RootKind::SIZED_REF => MarkStep::Sized,
            RootKind::STACK => MarkStep::Stacks,
            RootKind::BGC => MarkStep::Background,
            RootKind::FINALIZER => MarkStep::FinalizerQueue,
            RootKind::HANDLE => MarkStep::Handles,
            RootKind::OLDER => MarkStep::Older,
            RootKind::STEAL => MarkStep::Steal,
            RootKind::DEPENDENT_HANDLE => dependent,
            RootKind::NEW_FINALIZER => MarkStep::Finalizable,
            // The time of an unknown kind belongs to the kind that follows.
            _ => return,
        };
        let newest = self.last.and_then(|last| self.at.get(last as usize).copied().flatten());
        if self.last == Some(place) && newest == Some(at) {
            // The same event occurred twice.
            return;
        }
        if self.last >= Some(place) || newest > Some(at) {
            self.is_broken = true;
            return;
        }
        self.last = Some(place);
        if let (Some(time), Some(marked)) = (self.at.get_mut(place as usize), self.bytes.get_mut(place as usize)) {
            (*time, *marked) = (Some(at), bytes);
        }
    }

    /// Returns whether the heap has each kind that every collection has.
    fn is_whole(&self) -> bool {
        let always = [
            MarkStep::Stacks,
            MarkStep::FinalizerQueue,
            MarkStep::Handles,
            MarkStep::Dependent,
            MarkStep::Finalizable,
            MarkStep::DependentAgain,
        ];
        let is_there = |place: MarkStep| self.at.get(place as usize).is_some_and(Option::is_some);
        always.into_iter().all(is_there)
    }

    /// Returns whether the heap has each of the optional kinds `Older` and `Background`.
    fn has_older_and_background(&self) -> [bool; 2] {
        let is_there = |place: MarkStep| self.at.get(place as usize).is_some_and(Option::is_some);
        [is_there(MarkStep::Older), is_there(MarkStep::Background)]
    }

    /// Returns the time at which the heap finished its own roots, before heaps wait for each other, or `None` if the
    /// heap sent no mark.
    fn own_roots_done(&self) -> Option<i64> {
        let own = self.at.get(..MarkStep::Steal as usize)?;
        own.iter().copied().max().flatten()
    }
}

/// The marks of the running collection as they arrive. Only one collection at a time has marks.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    collection: Option<u32>,
    /// Whether the number of some heap exceeds the limit, so that its marks are not kept.
    is_beyond: bool,
    /// Marks of each heap, indexed by heap number.
    heaps: Vec<Heap>,
}

impl Marks {
    /// Returns the number of bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.heaps.capacity() * size_of::<Heap>()
    }

    /// Adds a mark of this collection.
    pub(crate) fn mark(&mut self, collection: u32, at: i64, event: &MarkWithType) {
        if self.collection != Some(collection) {
            (self.collection, self.is_beyond) = (Some(collection), false);
            self.heaps.clear();
        }
        let place = usize::try_from(event.heap_num).unwrap_or(MAX_MARKED_HEAPS);
        if place >= MAX_MARKED_HEAPS {
            self.is_beyond = true;
            return;
        }
        if self.heaps.len() <= place {
            self.heaps.resize(place + 1, Heap::UNSEEN);
        }
        if let Some(heap) = self.heaps.get_mut(place) {
            heap.mark(at, event.root_kind, event.bytes);
        }
    }

    /// Returns the marks of this collection, from the heap that was last to finish its roots. Later marks do not belong
    /// to the collection. Returns `None` if no heap has sent all marks of this collection.
    pub(crate) fn take(&mut self, collection: u32) -> Option<MarkTimes> {
        if self.collection != Some(collection) {
            return None;
        }
        self.collection = None;
        let whole = || self.heaps.iter().filter(|heap| heap.is_whole());
        let last = whole().max_by_key(|heap| heap.own_roots_done())?;
        let same = whole().filter(|heap| heap.has_older_and_background() == last.has_older_and_background());
        Some(MarkTimes {
            whole_heaps: u32::try_from(same.count()).unwrap_or(u32::MAX),
            is_broken: self.is_beyond || self.heaps.iter().any(|heap| heap.is_broken),
            at: last.at,
            bytes: last.bytes,
        })
    }
}
