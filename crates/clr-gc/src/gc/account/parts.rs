//! Parts of stopped time.

use crate::gc::account::cause::Cause;

/// Source of the length of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// The length is the time between two events, or a phase time that the collector reported.
    Measured,
    /// The length is at least partly the result of a proportional division, or the remainder of a phase.
    Estimated,
}

impl PartKind {
    /// Returns `measured` or `estimated`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Estimated => "estimated",
        }
    }
}

/// A part of stopped time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountPart {
    /// Cause of the part.
    pub cause: Cause,
    /// Length in nanoseconds, never negative.
    pub ns: i64,
    /// Minimum length in nanoseconds; equal to `ns` unless the part has a range.
    pub low: i64,
    /// Maximum length in nanoseconds; equal to `ns` unless the part has a range.
    pub high: i64,
    /// Source of the length.
    pub kind: PartKind,
}

/// Division of the time of one or several stops among causes. The parts add up to the stopped time exactly. No part is
/// negative, and no part overlaps another part.
///
/// Events delimit most parts: the edges of the stop, GCStart, the marks of the heap that was last to finish its roots,
/// and the phase times. Time that no event explains is [`Cause::Unexplained`]. Two causes are not visible in events.
/// The reader of a live process can measure their time, and [`had_no_cpu`](Self::had_no_cpu) and
/// [`was_lengthened_by_tool`](Self::was_lengthened_by_tool) take this time out of the other parts.
///
/// A kind of root and the objects reachable from it are marked in the same interval. If the events of a process do not
/// separate the root from the objects, the part of the root has a range. The more time the root takes within its range,
/// the less time survivors and relocation take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    ns: [i64; Cause::COUNT],
    /// One bit for each cause whose part is known. The time of unknown causes is in [`Cause::Unexplained`].
    known: u32,
    /// One bit for each cause whose part is at least partly estimated.
    estimated: u32,
    /// Nanoseconds by which the part of each kind of root can be too large, in the order of [`Cause::ALL`].
    less: [i64; Cause::RANGED],
    /// Nanoseconds by which the part of each kind of root can be too small, in the order of [`Cause::ALL`].
    more: [i64; Cause::RANGED],
}

/// All fields of an account, for packing.
pub(crate) struct RawAccount<'a> {
    pub(crate) ns: &'a mut [i64; Cause::COUNT],
    pub(crate) known: &'a mut u32,
    pub(crate) estimated: &'a mut u32,
    pub(crate) less: &'a mut [i64; Cause::RANGED],
    pub(crate) more: &'a mut [i64; Cause::RANGED],
}

impl Account {
    /// Creates an account of `ns` nanoseconds without any known cause.
    pub(crate) fn unexplained(ns: i64) -> Self {
        let mut account = Self::default();
        account.put(Cause::Unexplained, ns);
        account
    }

    /// Creates an account without time. Every cause that events can show is known and has no time.
    pub(super) fn nothing() -> Self {
        Self {
            known: ALL_BITS & !bit(Cause::NoCpu) & !bit(Cause::ToolSession),
            ..Self::default()
        }
    }

    /// Marks the time of a cause as unknown, unless the part of the cause is longer than 0.
    pub(super) fn forget(&mut self, cause: Cause) {
        if self.ns.get(cause as usize) == Some(&0) {
            self.known &= !bit(cause);
        }
    }

    /// Creates an account from pairs of a cause and its nanoseconds, for tests and for generated collections. The rest
    /// of `total`, in nanoseconds, is unexplained. Returns `None` if the parts exceed the total, or if a part is
    /// negative.
    pub fn from_parts(parts: impl IntoIterator<Item = (Cause, i64)>, total: i64) -> Option<Self> {
        let mut account = Self::nothing();
        for (cause, ns) in parts {
            account.put(cause, ns);
            if ns < 0 {
                return None;
            }
        }
        let rest = total.checked_sub(account.total()).filter(|rest| *rest >= 0)?;
        account.put(Cause::Unexplained, rest);
        Some(account)
    }

    /// Returns the time of a cause, in nanoseconds: 0 if the cause took no time, and `None` if the time is unknown.
    pub fn get(&self, cause: Cause) -> Option<i64> {
        let ns = self.ns.get(cause as usize).copied()?;
        (self.known & bit(cause) != 0).then_some(ns)
    }

    /// Returns the minimum time of a cause, in nanoseconds, or `None` if the time is unknown.
    pub fn low(&self, cause: Cause) -> Option<i64> {
        Some(self.range(cause, self.get(cause)?).0)
    }

    /// Returns the maximum time of a cause, in nanoseconds, or `None` if the time is unknown.
    pub fn high(&self, cause: Cause) -> Option<i64> {
        Some(self.range(cause, self.get(cause)?).1)
    }

    fn range(&self, cause: Cause, ns: i64) -> (i64, i64) {
        let (less, more) = match cause {
            Cause::Survivors | Cause::Relocate => (self.part_of(&self.more, ns), self.part_of(&self.less, ns)),
            _ => {
                let at = |of: &[i64]| cause.ranged_place().and_then(|place| of.get(place)).copied();
                (at(&self.less).unwrap_or(0), at(&self.more).unwrap_or(0))
            }
        };
        (ns.saturating_sub(less).max(0), ns.saturating_add(more))
    }

    /// Returns the share of a part of `ns` nanoseconds in the sum of `ranges`. Survivors and relocation lose or gain
    /// the ranges of all roots in proportion to their own lengths.
    fn part_of(&self, ranges: &[i64], ns: i64) -> i64 {
        let sum = ranges.iter().fold(0, |sum: i64, ns| sum.saturating_add(*ns));
        let at = |cause: Cause| self.ns.get(cause as usize).copied().unwrap_or(0);
        let both = at(Cause::Survivors).saturating_add(at(Cause::Relocate)).max(1);
        i64::try_from(i128::from(sum) * i128::from(ns) / i128::from(both)).unwrap_or(i64::MAX)
    }

    /// Adds the nanoseconds by which the part of a kind of root can be too large or too small.
    pub(super) fn doubt(&mut self, cause: Cause, less: i64, more: i64) {
        let Some(place) = cause.ranged_place() else { return };
        for (sums, ns) in [(&mut self.less, less), (&mut self.more, more)] {
            if let Some(sum) = sums.get_mut(place) {
                *sum = sum.saturating_add(ns.max(0));
            }
        }
        if less > 0 || more > 0 {
            self.is_estimate(cause);
        }
    }

    /// Limits the time that each kind of root can gain to the sum of survivors and relocation, because this time is
    /// taken from survivors and relocation.
    pub(super) fn bound_ranges(&mut self) {
        let at = |cause: Cause| self.ns.get(cause as usize).copied().unwrap_or(0);
        let most = at(Cause::Survivors).saturating_add(at(Cause::Relocate));
        for more in &mut self.more {
            *more = (*more).min(most);
        }
    }

    /// Returns the source of a cause's length, or [`PartKind::Measured`] if the time of the cause is unknown.
    pub fn kind(&self, cause: Cause) -> PartKind {
        if self.estimated & bit(cause) == 0 {
            PartKind::Measured
        } else {
            PartKind::Estimated
        }
    }

    /// Iterates over the parts that are longer than 0, in the order of [`Cause::ALL`]. The parts add up to
    /// [`total`](Self::total).
    pub fn parts(&self) -> impl Iterator<Item = AccountPart> {
        let all = Cause::ALL.into_iter().zip(self.ns).filter(|(_, ns)| *ns > 0);
        all.map(|(cause, ns)| {
            let (low, high) = self.range(cause, ns);
            AccountPart {
                cause,
                ns,
                low,
                high,
                kind: self.kind(cause),
            }
        })
    }

    /// Returns the parts that are longer than 0, the largest first and the unexplained part last.
    pub fn largest_first(&self) -> Vec<AccountPart> {
        let mut parts: Vec<AccountPart> = self.parts().collect();
        parts.sort_by_key(|part| (part.cause == Cause::Unexplained, -part.ns));
        parts
    }

    /// Returns the stopped time in nanoseconds.
    pub fn total(&self) -> i64 {
        self.ns.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Adds the parts of another account. A cause is known in the sum if the cause is known in at least one account. If
    /// the cause is unknown in an account, its time in that account is in [`Cause::Unexplained`]. Sums saturate.
    pub fn add(&mut self, other: &Self) {
        for (sum, ns) in self.ns.iter_mut().zip(other.ns) {
            *sum = sum.saturating_add(ns);
        }
        for (sums, others) in [(&mut self.less, other.less), (&mut self.more, other.more)] {
            for (sum, ns) in sums.iter_mut().zip(others) {
                *sum = sum.saturating_add(ns);
            }
        }
        self.known |= other.known;
        self.estimated |= other.estimated;
    }

    /// Subtracts the parts of an earlier sum. No part becomes negative.
    pub(crate) fn subtract(&mut self, earlier: &Self) {
        for (sum, ns) in self.ns.iter_mut().zip(earlier.ns) {
            *sum = sum.saturating_sub(ns).max(0);
        }
        for (sums, others) in [(&mut self.less, earlier.less), (&mut self.more, earlier.more)] {
            for (sum, ns) in sums.iter_mut().zip(others) {
                *sum = sum.saturating_sub(ns).max(0);
            }
        }
    }

    /// Records that the collecting threads had no CPU for `ns` nanoseconds, at most for the whole stopped time. The
    /// time is taken from all parts in proportion, because its position in the stop is unknown.
    pub fn had_no_cpu(&mut self, ns: i64) {
        let total = self.total();
        let ns = ns.clamp(0, total);
        let mut taken: i64 = 0;
        for cause in Cause::ALL {
            let part = self.ns.get(cause as usize).copied().unwrap_or(0);
            let share = i128::from(part) * i128::from(ns) / i128::from(total.max(1));
            taken = taken.saturating_add(self.lose(cause, i64::try_from(share).unwrap_or(part)));
        }
        for range in self.less.iter_mut().chain(&mut self.more) {
            let share = i128::from(*range) * i128::from(ns) / i128::from(total.max(1));
            *range = range.saturating_sub(i64::try_from(share).unwrap_or(*range));
        }
        // Rounding leaves a remainder of less than one nanosecond per cause.
        for cause in Cause::ALL {
            taken = taken.saturating_add(self.lose(cause, ns.saturating_sub(taken)));
        }
        self.known |= bit(Cause::NoCpu);
        self.estimate(Cause::NoCpu, taken);
    }

    /// Records that the session of another tool lengthened the scan of GC handles by `ns` nanoseconds, which can be 0.
    /// The time is taken from survivors first and then from handles. If a scan of handles takes unusually long, the
    /// additional time is in the survivors' part.
    pub fn was_lengthened_by_tool(&mut self, ns: i64) {
        let of_survivors = self.lose(Cause::Survivors, ns);
        let of_handles = self.lose(Cause::Handles, ns.saturating_sub(of_survivors));
        if let (true, Some(place)) = (ns > 0, Cause::Handles.ranged_place()) {
            for range in [&mut self.less, &mut self.more] {
                if let Some(range) = range.get_mut(place) {
                    *range = range.saturating_sub(ns).max(0);
                }
            }
        }
        self.known |= bit(Cause::ToolSession);
        self.estimate(Cause::ToolSession, of_survivors.saturating_add(of_handles));
    }

    /// Takes at most `ns` nanoseconds out of a part, and marks the part as an estimate. Returns the amount taken.
    fn lose(&mut self, cause: Cause, ns: i64) -> i64 {
        let taken = self.take(cause, ns);
        if taken > 0 {
            self.is_estimate(cause);
        }
        taken
    }

    /// Returns an account of the same total in which `cause` owns all time except the time to suspend and resume
    /// threads, the time without a CPU, and the time added by another tool.
    pub(crate) fn all_of(&self, cause: Cause) -> Self {
        let mut of_one = Self::nothing();
        for kept in [Cause::SlowThreads, Cause::Resume, Cause::NoCpu, Cause::ToolSession] {
            match self.get(kept) {
                Some(ns) => of_one.put(kept, ns),
                None => of_one.forget(kept),
            }
            of_one.estimated |= self.estimated & bit(kept);
        }
        of_one.put(cause, self.total().saturating_sub(of_one.total()));
        of_one
    }

    /// Adds time to a part, and marks the part as known.
    pub(super) fn put(&mut self, cause: Cause, ns: i64) {
        self.known |= bit(cause);
        if let Some(part) = self.ns.get_mut(cause as usize) {
            *part = part.saturating_add(ns.max(0));
        }
    }

    /// Adds estimated time to a part, and marks the part as known. A time of 0 is not an estimate.
    pub(super) fn estimate(&mut self, cause: Cause, ns: i64) {
        self.put(cause, ns);
        if ns > 0 {
            self.estimated |= bit(cause);
        }
    }

    /// Marks a part as at least partly estimated.
    pub(super) fn is_estimate(&mut self, cause: Cause) {
        self.estimated |= bit(cause);
    }

    /// Takes at most `ns` nanoseconds out of a part. Returns the amount taken.
    pub(super) fn take(&mut self, cause: Cause, ns: i64) -> i64 {
        let Some(part) = self.ns.get_mut(cause as usize) else {
            return 0;
        };
        let taken = ns.clamp(0, *part);
        *part -= taken;
        taken
    }

    /// Returns all fields, for packing.
    pub(crate) fn raw(&mut self) -> RawAccount<'_> {
        RawAccount {
            ns: &mut self.ns,
            known: &mut self.known,
            estimated: &mut self.estimated,
            less: &mut self.less,
            more: &mut self.more,
        }
    }
}

const ALL_BITS: u32 = (1 << Cause::COUNT) - 1;

const fn bit(cause: Cause) -> u32 {
    1 << cause as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: 700 ns of a stop of 1,000 ns are known. The collecting threads had no CPU for 300 ns, for the length
    /// of the stop, for a longer time, and for no time.
    /// Guarantee: each part loses time in proportion and becomes an estimate, and the sum is unchanged. A time of 0 is
    /// known and takes nothing. Before the call, the time without a CPU is unknown.
    #[test]
    fn time_without_cpu_is_taken_from_all_parts() {
        let stop = Account::from_parts([(Cause::Plan, 500), (Cause::Stacks, 199), (Cause::Resume, 1)], 1000).unwrap();
        assert_eq!(stop.get(Cause::NoCpu), None);
        let with = |ns| {
            let mut account = stop;
            account.had_no_cpu(ns);
            assert_eq!(account.total(), 1000);
            account
        };
        let some = with(300);
        let of = |cause| some.get(cause).unwrap();
        assert_eq!((of(Cause::NoCpu), of(Cause::Plan)), (300, 350));
        assert_eq!((of(Cause::Stacks), of(Cause::Unexplained)), (139, 210));
        let estimated = [Cause::NoCpu, Cause::Plan, Cause::Unexplained].map(|cause| some.kind(cause));
        assert_eq!(estimated, [PartKind::Estimated; 3]);
        assert_eq!(some.kind(Cause::Sweep), PartKind::Measured);
        for all in [1000, 5000] {
            assert_eq!(
                with(all).parts().map(|part| part.cause).collect::<Vec<_>>(),
                [Cause::NoCpu]
            );
        }
        let none = with(0);
        assert_eq!((none.get(Cause::NoCpu), none.get(Cause::Plan)), (Some(0), Some(500)));
        assert_eq!(none.kind(Cause::Plan), PartKind::Measured);
    }

    /// Scenario: a stop has 300 ns in handles and 200 ns in survivors. A session of another tool lengthened the stop by
    /// 250 ns, by no time, and by more than the length of the stop. A heap dump by another tool includes a wait for a
    /// CPU.
    /// Guarantee: survivors lose time first, then handles, and no other part loses time. A time of 0 is known. The heap
    /// dump does not own the time without a CPU.
    #[test]
    fn time_added_by_tool_is_taken_from_handles() {
        let stop = Account::from_parts(
            [(Cause::Handles, 300), (Cause::Survivors, 200), (Cause::Plan, 500)],
            1000,
        )
        .unwrap();
        let with = |ns| {
            let mut account = stop;
            account.was_lengthened_by_tool(ns);
            assert_eq!((account.total(), account.get(Cause::Plan)), (1000, Some(500)));
            [Cause::ToolSession, Cause::Survivors, Cause::Handles].map(|cause| account.get(cause).unwrap())
        };
        assert_eq!(stop.get(Cause::ToolSession), None);
        assert_eq!(with(250), [250, 0, 250]);
        assert_eq!(with(0), [0, 200, 300]);
        assert_eq!(with(9999), [500, 0, 0]);
        // In a heap dump by another tool, the wait for a CPU does not belong to the dump.
        let mut dump = stop;
        dump.had_no_cpu(100);
        let dump = dump.all_of(Cause::HeapDump);
        let of = [Cause::HeapDump, Cause::NoCpu, Cause::ToolSession].map(|cause| dump.get(cause));
        assert_eq!(of, [Some(900), Some(100), None]);
    }
}
