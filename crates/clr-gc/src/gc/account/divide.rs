//! Divides one stop, from the view of one collection.

use crate::gc::account::cause::Cause;
use crate::gc::account::marks::{Mark, Marking};
use crate::gc::account::parts::Account;
use crate::gc::collection::{PauseKind, Phases, StopEdges};

/// What marking a byte takes at most, nanoseconds: small objects, one miss of the cache each. Measured from 0.02 (large
/// arrays) to 1 in recordings. What the marking of a kind of root took beyond that was spent on the roots themselves.
pub const MARKED_BYTE_NS: u64 = 1;

/// What any process takes to look through a kind of root, nanoseconds: the stacks of a handful of threads, a few hundred
/// handles (measured: 20 to 60 µs). Of short stops that is much, and nothing can be done about it.
const FEW_ROOTS_NS: i64 = 100_000;

/// What the free space in front of a pinned object takes at most, nanoseconds (measured: 40 to 300).
const PINNED_GAP_NS: i64 = 300;

/// What looking through a handle takes at most, nanoseconds (measured: 20). What handles took beyond it was spent on
/// what they lead to, which the bytes do not say of long lists.
const HANDLE_NS: i64 = 200;

/// What is known of a stop, or of the part of it that one collection owns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopped<'a> {
    /// From when to when, in order: what is divided.
    pub(crate) spans: &'a [(i64, i64)],
    /// The edges of the whole stop.
    pub(crate) edges: StopEdges,
    /// What it was for.
    pub(crate) kind: PauseKind,
    /// GCStart of the collection.
    pub(crate) start: Option<i64>,
    /// Its GCGlobalHeapHistory.
    pub(crate) history: Option<i64>,
    /// It moved objects.
    pub(crate) is_compacting: bool,
    /// Its phase times.
    pub(crate) phases: Phases,
    /// Its marks: how many heaps it had, whether it collected generation 2, whether beside a background collection.
    pub(crate) marking: Option<&'a Marking>,
    /// How many heaps took part.
    pub(crate) heaps: u32,
    /// It collected generation 2.
    pub(crate) is_full: bool,
    /// It ran beside a background collection.
    pub(crate) is_foreground: bool,
    /// GC handles in use.
    pub(crate) handles: Option<u32>,
    /// Pinned objects that it found.
    pub(crate) pinned: Option<u32>,
}

impl<'a> Stopped<'a> {
    /// A stop of which only the edges are known.
    pub(crate) fn of(edges: StopEdges, spans: &'a [(i64, i64)], kind: PauseKind) -> Self {
        Self {
            spans,
            edges,
            kind,
            start: None,
            history: None,
            is_compacting: false,
            phases: Phases::default(),
            marking: None,
            heaps: 0,
            is_full: false,
            is_foreground: false,
            handles: None,
            pinned: None,
        }
    }

    /// The parts; they add up to the spans.
    pub(crate) fn divide(&self) -> Account {
        let mut division = Division {
            spans: self.spans,
            until: i64::MIN,
            account: Account::nothing(),
        };
        let edges = self.edges;
        if let (Some(begin), Some(suspended)) = (edges.suspend_begin, edges.suspend_end) {
            division.skip(begin);
            division.give(Cause::SlowThreads, suspended);
        }
        match self.kind {
            PauseKind::Blocking => self.collected(&mut division),
            PauseKind::Initial => {
                // What of it the collections inside it own is not in its spans.
                division.give_known(Cause::Prepare, self.start);
                division.give_known(
                    Cause::BackgroundMark,
                    edges.restart_begin.filter(|_| self.start.is_some()),
                );
            }
            PauseKind::Final => {
                division.give_known(Cause::BackgroundMark, edges.restart_begin);
            }
        }
        division.resume(edges);
        division.rest()
    }

    /// The time of a stop without a collection.
    pub(crate) fn without_collection(&self) -> Account {
        let mut division = Division {
            spans: self.spans,
            until: i64::MIN,
            account: Account::nothing(),
        };
        division.give_known(Cause::SlowThreads, self.edges.suspend_end);
        division.give_known(Cause::NoCollection, self.edges.restart_begin);
        division.resume(self.edges);
        division.rest()
    }

    /// A collection that ran in the stop from start to end.
    fn collected(&self, division: &mut Division<'_>) {
        let (Some(start), Some(history)) = (self.start, self.history) else {
            division.give_known(Cause::Prepare, self.start);
            division.forget(|cause| cause.is_of_collection());
            return;
        };
        let marks = self
            .marking
            .filter(|_| history >= start)
            .and_then(|marking| Some((marking.whole(self.heaps, self.is_full, self.is_foreground)?, marking)));
        let in_mark = match &marks {
            Some((marks, marking)) => self.marked(division, start, marks, marking),
            None => {
                division.give(Cause::Prepare, start);
                division.forget(|cause| cause.is_root() || cause == Cause::Survivors);
                Account::default()
            }
        };
        self.phased(division, history, marks.is_some(), &in_mark);
        division.skip(history);
        division.give_known(Cause::Finish, self.edges.restart_begin);
    }

    /// The marking, kind by kind. Returns what each kind of root and the survivors had of it.
    fn marked(&self, division: &mut Division<'_>, start: i64, marks: &[Mark], marking: &Marking) -> Account {
        let first = marks.first().map_or(start, |mark| mark.at);
        let roots = self.phases.mark_roots.zip(self.phases.mark_sized_refs);
        let began = roots
            .zip(marking.roots_done())
            .map(|((roots, sized), done)| done.saturating_sub(roots).saturating_sub(sized));
        // Without the phase time it is not known where the preparation ended and the first kind began.
        match began {
            Some(began) => {
                division.give(Cause::Prepare, began.clamp(start.min(first), first));
            }
            None => {
                division.give(Cause::Prepare, start);
                division.skip(first);
            }
        }
        let mut in_mark = Account::default();
        for mark in marks {
            let took = division.give(mark.cause, mark.at);
            if mark.clears_weak {
                let weak = division
                    .account
                    .take(mark.cause, self.phases.short_weak.unwrap_or(0).min(took));
                division.account.put(Cause::Weak, weak);
                in_mark.put(mark.cause, took - weak);
                continue;
            }
            if !mark.cause.is_root() {
                in_mark.put(mark.cause, took);
                continue;
            }
            let following = i64::try_from(mark.bytes.saturating_mul(MARKED_BYTE_NS)).unwrap_or(i64::MAX);
            let mut looking = took.saturating_sub(following).max(0);
            if let (Cause::Handles, Some(handles)) = (mark.cause, self.handles) {
                looking = looking.min(i64::from(handles).saturating_mul(HANDLE_NS));
            }
            let following = division.account.take(mark.cause, took - looking);
            division.account.estimate(Cause::Survivors, following);
            if following > 0 {
                division.account.is_estimate(mark.cause);
            }
            let few = division.account.take(mark.cause, looking.min(FEW_ROOTS_NS));
            division.account.put(Cause::FewRoots, few);
            in_mark.put(mark.cause, looking - few);
            in_mark.put(Cause::FewRoots, few);
            in_mark.put(Cause::Survivors, following);
        }
        in_mark
    }

    /// What follows the marks up to the history, as long as the phase times say.
    fn phased(&self, division: &mut Division<'_>, history: i64, has_marks: bool, in_mark: &Account) {
        let phases = &self.phases;
        let mut left = division.between(history);
        if !has_marks {
            // The marking is in this time, too.
            division.spend(&mut left, Cause::Weak, phases.short_weak);
        }
        division.spend(&mut left, Cause::Weak, phases.long_weak);
        division.spend(&mut left, Cause::Plan, phases.plan);
        if self.is_compacting {
            let relocated = division.spend(&mut left, Cause::Relocate, phases.relocate);
            if has_marks {
                division.relocate_roots(relocated, in_mark);
            }
            match phases.compact {
                Some(ns) => {
                    division.spend(&mut left, Cause::Compact, Some(ns));
                }
                // .NET 8 does not send it: it is what is left, when all others are known.
                None if has_marks && phases.plan.and(phases.relocate).and(phases.long_weak).is_some() => {
                    division.account.estimate(Cause::Compact, std::mem::take(&mut left));
                }
                None => division.account.forget(Cause::Compact),
            }
        } else {
            division.spend(&mut left, Cause::Sweep, phases.sweep);
        }
        // It follows the phases, and takes as long as there are pinned objects. Without marks they are in this time.
        match self.pinned.filter(|_| has_marks && phases.plan.is_some()) {
            Some(pinned) => {
                let most = i64::from(pinned).saturating_mul(PINNED_GAP_NS);
                division.account.estimate(Cause::PinnedGaps, most.min(left));
            }
            None => division.account.forget(Cause::PinnedGaps),
        }
    }
}

/// Spans that are given away from the beginning on; what is not given is unexplained.
struct Division<'a> {
    spans: &'a [(i64, i64)],
    /// What is before it is given away, or skipped.
    until: i64,
    account: Account,
}

impl Division<'_> {
    /// How much of the spans is between what is given away and `to`.
    fn between(&self, to: i64) -> i64 {
        let overlap = |&(from, end): &(i64, i64)| end.min(to).saturating_sub(from.max(self.until)).max(0);
        self.spans.iter().map(overlap).fold(0, i64::saturating_add)
    }

    /// Gives a cause the time up to `to`. Returns how much that is.
    fn give(&mut self, cause: Cause, to: i64) -> i64 {
        let ns = self.between(to);
        self.account.put(cause, ns);
        self.skip(to);
        ns
    }

    fn give_known(&mut self, cause: Cause, to: Option<i64>) {
        if let Some(to) = to {
            self.give(cause, to);
        }
    }

    /// The threads run again.
    fn resume(&mut self, edges: StopEdges) {
        match edges.restart_begin {
            Some(restarting) => {
                self.skip(restarting);
                self.give_known(Cause::Resume, edges.restart_end);
            }
            None => self.forget(|cause| matches!(cause, Cause::Finish | Cause::Resume)),
        }
    }

    /// What these took is not known.
    fn forget(&mut self, which: impl Fn(Cause) -> bool) {
        for cause in Cause::ALL.into_iter().filter(|cause| which(*cause)) {
            self.account.forget(cause);
        }
    }

    /// Gives a cause so many nanoseconds of those that are left. Returns how many it got.
    fn spend(&mut self, left: &mut i64, cause: Cause, ns: Option<i64>) -> i64 {
        let Some(ns) = ns else {
            self.account.forget(cause);
            return 0;
        };
        let ns = ns.clamp(0, *left);
        *left -= ns;
        self.account.put(cause, ns);
        ns
    }

    /// Leaves the time up to `to` unexplained.
    fn skip(&mut self, to: i64) {
        self.until = self.until.max(to);
    }

    /// Divides a relocation among the roots that it went over again, in the proportion of their marking; what survives
    /// keeps its share.
    fn relocate_roots(&mut self, relocated: i64, in_mark: &Account) {
        let marked = in_mark.total();
        if marked <= 0 {
            return;
        }
        for cause in Cause::ALL.into_iter().filter(|cause| cause.is_root()) {
            let share = i128::from(relocated) * i128::from(in_mark.of(cause).unwrap_or(0)) / i128::from(marked);
            let taken = self.account.take(Cause::Relocate, i64::try_from(share).unwrap_or(0));
            if taken > 0 {
                self.account.estimate(cause, taken);
                self.account.is_estimate(Cause::Relocate);
            }
        }
    }

    /// The parts, with the rest.
    fn rest(mut self) -> Account {
        let spans = self.spans.iter().map(|(from, to)| to.saturating_sub(*from).max(0));
        let total = spans.fold(0, i64::saturating_add);
        let rest = total.saturating_sub(self.account.total());
        self.account.put(Cause::Unexplained, rest);
        self.account
    }
}
