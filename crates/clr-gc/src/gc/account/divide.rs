//! Division of one stop, as seen by one collection.

use crate::event::Phases;
use crate::gc::account::cause::Cause;
use crate::gc::account::marking_cost::{Context, MarkSample, MarkingCost, Range};
use crate::gc::account::marks::{Mark, MarkTimes};
use crate::gc::account::parts::Account;
use crate::gc::stop::{PauseKind, StopEdges};

/// Nanoseconds per marked byte that the time for handles never includes. This value exceeds the time of any byte that
/// is not cold, so [`DividedStop::handles_ns`] is a minimum.
const MARKED_BYTE_NS: u64 = 1;

/// Minimum and maximum time of a relocation for roots, in percent of their share of the marking. Measured with stacks.
const RELOCATED_PERCENT: (i64, i64) = (85, 115);

/// Maximum time of a relocation for roots, as a multiple of the time of the marking for them. A longer relocation
/// waited for a CPU, or did work that the marking did not.
const RELOCATED_TIMES: i64 = 2;

/// Minimum width of a range, in nanoseconds. A range must also be wider than a twentieth of its value.
const MIN_DOUBT_NS: i64 = 50_000;

/// Time that any process needs to scan one kind of root, in nanoseconds: the stacks of a handful of threads, a few
/// hundred handles (measured: 20 to 60 µs). This is a large part of short stops, and it cannot be avoided.
const FEW_ROOTS_NS: i64 = 100_000;

/// Maximum time for the free space in front of a pinned object, in nanoseconds (measured: 40 to 300).
const PINNED_GAP_NS: i64 = 300;

/// Facts about a stop, or about the part of it that one collection owns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StopFacts<'a> {
    /// Intervals to divide, in order.
    pub(crate) spans: &'a [(i64, i64)],
    /// The edges of the whole stop.
    pub(crate) edges: StopEdges,
    /// Kind of the stop.
    pub(crate) kind: PauseKind,
    /// Time of GCStart.
    pub(crate) start: Option<i64>,
    /// Time of GCGlobalHeapHistory.
    pub(crate) history: Option<i64>,
    /// Whether the collection moved objects.
    pub(crate) is_compacting: bool,
    /// Phase times of the collection.
    pub(crate) phases: Phases,
    /// Marks of the collection. They are checked against `heaps`, `is_full` and `is_foreground`.
    pub(crate) marking: Option<&'a MarkTimes>,
    /// Number of heaps that took part.
    pub(crate) heaps: u32,
    /// Whether the collection collected generation 2.
    pub(crate) is_full: bool,
    /// Whether the collection ran during a background collection.
    pub(crate) is_foreground: bool,
    /// Number of GC handles in use.
    pub(crate) handles: Option<u32>,
    /// Number of pinned objects found.
    pub(crate) pinned: Option<u32>,
    /// Cost of marking in earlier collections of the process.
    pub(crate) cost: Option<&'a MarkingCost>,
}

/// The result of dividing a stop.
#[derive(Debug)]
pub(crate) struct DividedStop {
    /// Parts of the stop, which add up to the spans.
    pub(crate) account: Account,
    /// Minimum time of the scan of GC handles, in nanoseconds, without marking and relocation. `None` if the marks are
    /// incomplete.
    pub(crate) handles_ns: Option<i64>,
    /// Marks of kinds of roots, from which [`MarkingCost`] learns.
    pub(crate) marks: Vec<MarkSample>,
}

impl<'a> StopFacts<'a> {
    /// Creates the facts about a stop of which only the spans, the edges and the kind are known.
    pub(crate) fn new(edges: StopEdges, spans: &'a [(i64, i64)], kind: PauseKind) -> Self {
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
            cost: None,
        }
    }

    /// Divides the stop.
    pub(crate) fn divide(&self) -> DividedStop {
        let mut division = Division::new(self.spans);
        let edges = self.edges;
        if let (Some(begin), Some(suspended)) = (edges.suspend_begin, edges.suspend_end) {
            division.skip(begin);
            division.give(Cause::SlowThreads, suspended);
        }
        match self.kind {
            PauseKind::Blocking => self.collected(&mut division),
            PauseKind::Initial => {
                // The spans exclude the time that inner collections own.
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
        DividedStop {
            handles_ns: division.handles_ns,
            marks: std::mem::take(&mut division.marks),
            account: division.rest(),
        }
    }

    /// Divides a stop without a collection.
    pub(crate) fn without_collection(&self) -> Account {
        let mut division = Division::new(self.spans);
        division.give_known(Cause::SlowThreads, self.edges.suspend_end);
        division.give_known(Cause::NoCollection, self.edges.restart_begin);
        division.resume(self.edges);
        division.rest()
    }

    /// Divides the time of a collection that ran in the stop from start to end.
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
                Vec::new()
            }
        };
        self.phased(division, history, marks.is_some(), &in_mark);
        division.skip(history);
        division.give_known(Cause::Finish, self.edges.restart_begin);
    }

    /// Divides the time of marking by kind. Returns the time of each kind of root.
    fn marked(&self, division: &mut Division<'_>, start: i64, marks: &[Mark], marking: &MarkTimes) -> Vec<Roots> {
        let first = marks.first().map_or(start, |mark| mark.at);
        let roots = self.phases.mark_roots.zip(self.phases.mark_sized_refs);
        let began = roots
            .zip(marking.roots_done())
            .map(|((roots, sized), done)| done.saturating_sub(roots).saturating_sub(sized));
        // Without the phase time, the end of the preparation and the start of the first kind are unknown.
        match began {
            Some(began) => {
                division.give(Cause::Prepare, began.clamp(start.min(first), first));
            }
            None => {
                division.give(Cause::Prepare, start);
                division.skip(first);
            }
        }
        let context = Context {
            plan: self.phases.plan,
            handles: self.handles,
            is_full: self.is_full,
        };
        let unknown = MarkingCost::default();
        let cost = self.cost.unwrap_or(&unknown);
        let mut in_mark = Vec::with_capacity(marks.len());
        for mark in marks {
            let took = division.give(mark.cause, mark.at);
            if mark.clears_weak {
                let weak = division
                    .account
                    .take(mark.cause, self.phases.short_weak.unwrap_or(0).min(took));
                division.account.put(Cause::Weak, weak);
                continue;
            }
            if !mark.cause.is_root() {
                continue;
            }
            let marked = MarkSample {
                cause: mark.cause,
                took,
                bytes: mark.bytes,
            };
            division.marks.push(marked);
            let range = cost.roots(marked, context);
            if mark.cause == Cause::Handles {
                let following = i64::try_from(mark.bytes.saturating_mul(MARKED_BYTE_NS)).unwrap_or(i64::MAX);
                division.handles_ns = Some(took.saturating_sub(following).max(0));
            }
            let looking = range.estimate();
            let following = division.account.take(mark.cause, took - looking);
            division.account.estimate(Cause::Survivors, following);
            if following > 0 {
                division.account.is_estimate(mark.cause);
            }
            let few = division.account.take(mark.cause, looking.min(FEW_ROOTS_NS));
            division.account.put(Cause::FewRoots, few);
            in_mark.push(Roots {
                cause: mark.cause,
                few,
                value: looking - few,
                range: Range {
                    low: (range.low - FEW_ROOTS_NS).max(0),
                    high: (range.high - FEW_ROOTS_NS).max(looking - few),
                },
            });
        }
        in_mark
    }

    /// Divides the time from the marks to the history, according to the phase times.
    fn phased(&self, division: &mut Division<'_>, history: i64, has_marks: bool, in_mark: &[Roots]) {
        let phases = &self.phases;
        let mut left = division.between(history);
        if !has_marks {
            // This time includes the marking.
            division.spend(&mut left, Cause::Weak, phases.short_weak);
        }
        division.spend(&mut left, Cause::Weak, phases.long_weak);
        division.spend(&mut left, Cause::Plan, phases.plan);
        if self.is_compacting {
            let relocated = division.spend(&mut left, Cause::Relocate, phases.relocate);
            division.relocate_roots(relocated, in_mark);
            match phases.compact {
                Some(ns) => {
                    division.spend(&mut left, Cause::Compact, Some(ns));
                }
                // .NET 8 does not send the time of this phase, which is the remaining time if all other phases are
                // known.
                None if has_marks && phases.plan.and(phases.relocate).and(phases.long_weak).is_some() => {
                    division.account.estimate(Cause::Compact, std::mem::take(&mut left));
                }
                None => division.account.forget(Cause::Compact),
            }
        } else {
            division.spend(&mut left, Cause::Sweep, phases.sweep);
            division.relocate_roots(0, in_mark);
        }
        // The work on the gaps between pinned objects follows the phases, and its duration depends on their number.
        // Without marks, the remaining time includes the marking.
        match self.pinned.filter(|_| has_marks && phases.plan.is_some()) {
            Some(pinned) => {
                let most = i64::from(pinned).saturating_mul(PINNED_GAP_NS);
                division.account.estimate(Cause::PinnedGaps, most.min(left));
            }
            None => division.account.forget(Cause::PinnedGaps),
        }
    }
}

/// Spans that are assigned from their start onwards. Unassigned time is unexplained.
struct Division<'a> {
    spans: &'a [(i64, i64)],
    /// End of the time that has been assigned or skipped.
    until: i64,
    account: Account,
    /// Minimum time spent scanning handles, in nanoseconds; `None` if the marks are incomplete.
    handles_ns: Option<i64>,
    /// Marks of kinds of roots.
    marks: Vec<MarkSample>,
}

/// Time in which the marking scanned one kind of root, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Roots {
    cause: Cause,
    /// Time that every process needs for this kind.
    few: i64,
    /// Time beyond `few`.
    value: i64,
    /// Minimum and maximum of `value`.
    range: Range,
}

impl<'a> Division<'a> {
    fn new(spans: &'a [(i64, i64)]) -> Self {
        Self {
            spans,
            until: i64::MIN,
            account: Account::nothing(),
            handles_ns: None,
            marks: Vec::new(),
        }
    }

    /// Returns the unassigned time of the spans before `to`.
    fn between(&self, to: i64) -> i64 {
        let overlap = |&(from, end): &(i64, i64)| end.min(to).saturating_sub(from.max(self.until)).max(0);
        self.spans.iter().map(overlap).fold(0, i64::saturating_add)
    }

    /// Assigns the time up to `to` to a cause, and returns its amount.
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

    /// Assigns the time in which the threads resume.
    fn resume(&mut self, edges: StopEdges) {
        match edges.restart_begin {
            Some(restarting) => {
                self.skip(restarting);
                self.give_known(Cause::Resume, edges.restart_end);
            }
            None => self.forget(|cause| matches!(cause, Cause::Finish | Cause::Resume)),
        }
    }

    /// Marks the time of the selected causes as unknown.
    fn forget(&mut self, which: impl Fn(Cause) -> bool) {
        for cause in Cause::ALL.into_iter().filter(|cause| which(*cause)) {
            self.account.forget(cause);
        }
    }

    /// Assigns at most `ns` of the remaining time to a cause, and returns the assigned amount. If `ns` is `None`, marks
    /// the time of the cause as unknown.
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

    /// Divides a relocation, which scans each kind of root again: each kind gets its share of the marking, and the rest
    /// remains with [`Cause::Relocate`]. Then sets the range of each kind.
    fn relocate_roots(&mut self, relocated: i64, in_mark: &[Roots]) {
        let marked = self.marks.iter().map(|mark| mark.took).fold(0, i64::saturating_add);
        let share = |ns: i64, percent: i64| {
            let again = i128::from(ns) * i128::from(relocated) * i128::from(percent) / i128::from(marked.max(1)) / 100;
            let most = ns.saturating_mul(RELOCATED_TIMES).min(relocated);
            i64::try_from(again).unwrap_or(i64::MAX).min(most)
        };
        for roots in in_mark {
            let again = self.account.take(Cause::Relocate, share(roots.value, 100));
            let few = self.account.take(Cause::Relocate, share(roots.few, 100));
            for (cause, ns) in [(roots.cause, again), (Cause::FewRoots, few)] {
                self.account.estimate(cause, ns);
            }
            if again + few > 0 {
                self.account.is_estimate(Cause::Relocate);
            }
            let range = roots.range;
            let value = roots.value.saturating_add(again);
            let least = share(range.low, RELOCATED_PERCENT.0).min(again);
            let most = share(range.high, RELOCATED_PERCENT.1).max(again);
            let (low, high) = (range.low.saturating_add(least), range.high.saturating_add(most));
            if high.saturating_sub(low) > MIN_DOUBT_NS.max(value / 20) {
                self.account
                    .doubt(roots.cause, value.saturating_sub(low), high.saturating_sub(value));
            }
        }
        self.account.bound_ranges();
    }

    /// Returns the parts, including the unexplained rest.
    fn rest(mut self) -> Account {
        let spans = self.spans.iter().map(|(from, to)| to.saturating_sub(*from).max(0));
        let total = spans.fold(0, i64::saturating_add);
        let rest = total.saturating_sub(self.account.total());
        self.account.put(Cause::Unexplained, rest);
        self.account
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::{MarkWithType, RootKind};
    use crate::gc::account::AccountPart;
    use crate::gc::account::marks::Marks;

    const MS: i64 = 1_000_000;

    fn edges(begin: i64, suspended: i64, restarting: i64, restarted: i64) -> StopEdges {
        StopEdges {
            suspend_begin: Some(begin),
            suspend_end: Some(suspended),
            restart_begin: Some(restarting),
            restart_end: Some(restarted),
            thread: 1,
        }
    }

    fn marking(marks: &[(u32, i64, RootKind, u64)]) -> MarkTimes {
        let mut kept = Marks::default();
        for &(heap_num, at, root_kind, bytes) in marks {
            kept.mark(
                7,
                at,
                &MarkWithType {
                    heap_num,
                    clr_instance: 0,
                    root_kind,
                    bytes,
                },
            );
        }
        kept.take(7).unwrap()
    }

    /// Returns the marks that one heap sends in a young collection, with the time of each.
    fn young(heap: u32, at: [i64; 7], stack_bytes: u64) -> Vec<(u32, i64, RootKind, u64)> {
        let kinds = [
            RootKind::STACK,
            RootKind::FINALIZER,
            RootKind::HANDLE,
            RootKind::OLDER,
            RootKind::DEPENDENT_HANDLE,
            RootKind::NEW_FINALIZER,
            RootKind::DEPENDENT_HANDLE,
        ];
        let marks = kinds.into_iter().zip(at);
        let bytes = |kind| if kind == RootKind::STACK { stack_bytes } else { 0 };
        marks.map(|(kind, at)| (heap, at, kind, bytes(kind))).collect()
    }

    fn phases(roots: i64, relocate: i64) -> Phases {
        Phases {
            mark_sized_refs: Some(0),
            mark_roots: Some(roots),
            short_weak: Some(0),
            scan_finalization: Some(0),
            long_weak: Some(0),
            plan: Some(2 * MS),
            relocate: Some(relocate),
            compact: Some(3 * MS),
            sweep: None,
        }
    }

    /// Scenario: a young collection has two heaps. The first heap spends long on stacks and finishes its roots early;
    /// the second finishes last, with old objects, and marks ten million bytes from its stacks in 20 ms.
    /// Guarantee: the heap that finishes last counts, at most 5 ms of its stacks is marking of these bytes, relocation
    /// is divided like marking, and the rest is unexplained.
    #[test]
    fn heap_that_finishes_last_counts() {
        let (start, spans) = (3 * MS, [(0, 200 * MS)]);
        let early = young(0, [70, 71, 72, 73, 114, 115, 115].map(|ms| ms * MS), 0);
        let last = young(1, [24, 24, 24, 114, 114, 115, 115].map(|ms| ms * MS), 10_000_000);
        let marking = marking(&[early, last].concat());
        let account = StopFacts {
            start: Some(start),
            history: Some(190 * MS),
            is_compacting: true,
            phases: phases(110 * MS, 55 * MS),
            marking: Some(&marking),
            heaps: 2,
            ..StopFacts::new(edges(0, MS, 196 * MS, 200 * MS), &spans, PauseKind::Blocking)
        }
        .divide()
        .account;
        let ms = |cause| account.get(cause).map(|ns| (ns + MS / 2) / MS);
        assert_eq!(account.total(), 200 * MS);
        assert_eq!((ms(Cause::SlowThreads), ms(Cause::Prepare)), (Some(1), Some(3)));
        // 20 ms until the stacks were done, of which 0 to 5 ms was marking; half as much again for relocation.
        assert_eq!(ms(Cause::Stacks), Some(17 + 9));
        let range = [account.low(Cause::Stacks), account.high(Cause::Stacks)];
        assert_eq!(range.map(|ns| ns.map(|ns| ns / MS)), [Some(21), Some(30)]);
        assert_eq!(ms(Cause::OldToYoung), Some(90 + 45));
        assert_eq!((ms(Cause::Plan), ms(Cause::Compact)), (Some(2), Some(3)));
        assert_eq!((ms(Cause::Finish), ms(Cause::Resume)), (Some(6), Some(4)));
        // 75 ms after the marks, of which 60 ms is in phases.
        assert_eq!(ms(Cause::Unexplained), Some(15));
    }

    /// Scenario: one heap of two has not sent a mark; in another case the runtime has sent no mark at all.
    /// Guarantee: the time of every kind of root is unknown rather than 0.
    #[test]
    fn incomplete_marks_are_not_used() {
        let whole = young(0, [2, 3, 4, 5, 6, 7, 8].map(|ms| ms * MS), 0);
        let half = &young(1, [2, 3, 4, 5, 6, 7, 8].map(|ms| ms * MS), 0)[..6];
        let half = marking(&[&whole, half].concat());
        for marking in [Some(&half), None] {
            let account = StopFacts {
                start: Some(MS),
                history: Some(30 * MS),
                is_compacting: true,
                phases: phases(5 * MS, MS),
                marking,
                heaps: 2,
                ..StopFacts::new(edges(0, MS, 31 * MS, 32 * MS), &[(0, 32 * MS)], PauseKind::Blocking)
            }
            .divide()
            .account;
            assert_eq!(account.total(), 32 * MS);
            for cause in [Cause::Stacks, Cause::OldToYoung, Cause::FewRoots, Cause::Survivors] {
                assert_eq!(account.get(cause), None, "{cause:?}");
            }
            assert_eq!(account.get(Cause::Plan), Some(2 * MS));
        }
    }

    fn edge() -> impl Strategy<Value = Option<i64>> {
        prop::option::of(prop_oneof![-50..1_000_i64, Just(i64::MIN / 8), Just(i64::MAX / 8)])
    }

    fn time() -> impl Strategy<Value = Option<i64>> {
        prop::option::of(prop_oneof![0..500_i64, Just(i64::from(u32::MAX) * 1_000)])
    }

    proptest! {
        /// Scenario: edges, marks and phase times arrive in any order and include values of damaged streams; the stop
        /// is in pieces; the time attributed to another tool, or to a missing CPU, exceeds its length.
        /// Guarantee: the parts add up to the length of the stop, none is negative, and each is in its range.
        #[test]
        fn parts_of_arbitrary_stop_add_up(
            edges in prop::array::uniform4(edge()),
            times in prop::array::uniform2(edge()),
            at in prop::array::uniform7(-50..1_000_i64),
            phases in prop::array::uniform9(time()),
            lengths in prop::collection::vec((0..400_i64, 0..400_i64), 0..4),
            bytes in 0..1_000_u64,
            kind in prop::sample::select(vec![PauseKind::Blocking, PauseKind::Initial, PauseKind::Final]),
            bits in 0..8_u32,
            from_outside in prop::array::uniform2(-100..2_000_i64),
        ) {
            let mut from = 0;
            let mut spans = Vec::new();
            for (gap, length) in lengths {
                spans.push((from + gap, from + gap + length));
                from += gap + length;
            }
            let mut sorted = at;
            if bits & 4 != 0 {
                sorted.sort_unstable();
            }
            let mut kept = Marks::default();
            for (heap_num, at, root_kind, bytes) in young(0, sorted, bytes) {
                kept.mark(7, at, &MarkWithType { heap_num, clr_instance: 0, root_kind, bytes });
            }
            let marking = kept.take(7);
            let [suspend_begin, suspend_end, restart_begin, restart_end] = edges;
            let [a, b, c, d, e, f, g, h, i] = phases;
            let stopped = StopFacts {
                start: times[0],
                history: times[1],
                is_compacting: bits & 1 != 0,
                phases: Phases {
                    mark_sized_refs: a, mark_roots: b, short_weak: c, scan_finalization: d, long_weak: e,
                    plan: f, relocate: g, compact: h, sweep: i,
                },
                marking: marking.as_ref(),
                heaps: 1,
                pinned: (bits & 2 != 0).then_some(1),
                handles: Some(bits),
                ..StopFacts::new(
                    StopEdges { suspend_begin, suspend_end, restart_begin, restart_end, thread: 1 },
                    &spans,
                    kind,
                )
            };
            let total: i64 = spans.iter().map(|(from, to)| to - from).sum();
            let mut known = stopped.divide().account;
            known.was_lengthened_by_tool(from_outside[0]);
            known.had_no_cpu(from_outside[1]);
            for account in [stopped.divide().account, stopped.without_collection(), known] {
                prop_assert_eq!(account.total(), total);
                prop_assert!(Cause::ALL.into_iter().all(|cause| account.get(cause).is_none_or(|ns| ns >= 0)));
                prop_assert_eq!(account.parts().map(|part| part.ns).sum::<i64>(), total);
                let is_in_range = |part: AccountPart| 0 <= part.low && part.low <= part.ns && part.ns <= part.high;
                prop_assert!(account.parts().all(is_in_range));
            }
        }
    }
}
