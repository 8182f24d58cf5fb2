//! The parts of stopped time.

use crate::gc::account::cause::Cause;

/// How a part is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// Between two events, or a phase time of the collector's.
    Measured,
    /// Some of it was divided in a proportion, or is what is left of a phase.
    Estimated,
}

impl PartKind {
    /// `measured` or `estimated`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Estimated => "estimated",
        }
    }
}

/// One part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountPart {
    /// What it was spent on.
    pub cause: Cause,
    /// Nanoseconds, never negative.
    pub ns: i64,
    /// Minimum nanoseconds: equal to `ns` unless the part has a range.
    pub low: i64,
    /// Maximum nanoseconds: equal to `ns` unless the part has a range.
    pub high: i64,
    /// How that is known.
    pub kind: PartKind,
}

/// The parts of one stop, or of several. They add up to the stopped time exactly; none is negative, none overlaps
/// another.
///
/// A kind of root and what it leads to are marked in the same time. Where a process does not tell them apart, the part
/// of the root has a range. What the root took less or more than its value, survivors and relocation took more or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    ns: [i64; Cause::COUNT],
    /// A bit for each cause whose part is known; of the others nothing is said. What is not known is unexplained.
    known: u32,
    /// A bit for each cause whose part was estimated.
    estimated: u32,
    /// Nanoseconds by which each part may be too large, in the order of [`Cause::ALL`].
    less: [i64; Cause::RANGED],
    /// Nanoseconds by which each part may be too small, in the order of [`Cause::ALL`].
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
    /// So many nanoseconds of which nothing is known.
    pub(crate) fn unexplained(ns: i64) -> Self {
        let mut account = Self::default();
        account.put(Cause::Unexplained, ns);
        account
    }

    /// No time: of causes that events show it is known that they took none.
    pub(super) fn nothing() -> Self {
        Self {
            known: ALL_BITS & !bit(Cause::NoCpu) & !bit(Cause::ToolSession),
            ..Self::default()
        }
    }

    /// What this cause took cannot be known, unless it has some already.
    pub(super) fn forget(&mut self, cause: Cause) {
        if self.ns.get(cause as usize) == Some(&0) {
            self.known &= !bit(cause);
        }
    }

    /// An account of these parts, with what is left of the total as unexplained; `None` when they are longer, or one is
    /// negative. For tests and for whoever makes collections up.
    pub fn of_parts(parts: impl IntoIterator<Item = (Cause, i64)>, total: i64) -> Option<Self> {
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

    /// What a cause took, nanoseconds; `None`: not known. 0: it took nothing.
    pub fn of(&self, cause: Cause) -> Option<i64> {
        let ns = self.ns.get(cause as usize).copied()?;
        (self.known & bit(cause) != 0).then_some(ns)
    }

    /// Returns the minimum time of a cause, in nanoseconds. `None` if the events do not contain it.
    pub fn low(&self, cause: Cause) -> Option<i64> {
        Some(self.range(cause, self.of(cause)?).0)
    }

    /// Returns the maximum time of a cause, in nanoseconds. `None` if the events do not contain it.
    pub fn high(&self, cause: Cause) -> Option<i64> {
        Some(self.range(cause, self.of(cause)?).1)
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

    /// Returns the share of `ns` in the sum of the ranges: survivors and relocation lose or gain in their proportion.
    fn part_of(&self, ranges: &[i64], ns: i64) -> i64 {
        let sum = ranges.iter().fold(0, |sum: i64, ns| sum.saturating_add(*ns));
        let at = |cause: Cause| self.ns.get(cause as usize).copied().unwrap_or(0);
        let both = at(Cause::Survivors).saturating_add(at(Cause::Relocate)).max(1);
        i64::try_from(i128::from(sum) * i128::from(ns) / i128::from(both)).unwrap_or(i64::MAX)
    }

    /// States how far the part of a root may be too large or too small.
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

    /// Bounds the gain of roots by the sum of survivors and relocation, which lose it.
    pub(super) fn bound_ranges(&mut self) {
        let at = |cause: Cause| self.ns.get(cause as usize).copied().unwrap_or(0);
        let most = at(Cause::Survivors).saturating_add(at(Cause::Relocate));
        for more in &mut self.more {
            *more = (*more).min(most);
        }
    }

    /// How the part of a cause is known.
    pub fn kind(&self, cause: Cause) -> PartKind {
        if self.estimated & bit(cause) == 0 {
            PartKind::Measured
        } else {
            PartKind::Estimated
        }
    }

    /// The parts that took time, in the order of [`Cause::ALL`]; they add up to [`total`](Self::total).
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

    /// The parts that took time, the largest first, what is unexplained last.
    pub fn largest_first(&self) -> Vec<AccountPart> {
        let mut parts: Vec<AccountPart> = self.parts().collect();
        parts.sort_by_key(|part| (part.cause == Cause::Unexplained, -part.ns));
        parts
    }

    /// The stopped time, nanoseconds.
    pub fn total(&self) -> i64 {
        self.ns.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Adds the parts of another stop. A part is known when it is in one of them: what is not known in the other is
    /// unexplained there. Sums stop at the largest number.
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

    /// Takes the parts of an earlier sum out of it.
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

    /// The threads that collect had no CPU for so long, at most the whole time: it is taken out of all other parts in
    /// their proportion, as it is not known when in the stop that was.
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
        // What rounding left: less than a nanosecond of each.
        for cause in Cause::ALL {
            taken = taken.saturating_add(self.lose(cause, ns.saturating_sub(taken)));
        }
        self.known |= bit(Cause::NoCpu);
        self.estimate(Cause::NoCpu, taken);
    }

    /// The session of another tool lengthened the looking through GC handles by so much; 0: by nothing. What of it was
    /// counted as survivors goes first: that was what handles could not have taken by themselves.
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

    /// Takes time out of a part, which is an estimate by that. Returns how much there was.
    fn lose(&mut self, cause: Cause, ns: i64) -> i64 {
        let taken = self.take(cause, ns);
        if taken > 0 {
            self.is_estimate(cause);
        }
        taken
    }

    /// The same time, of which all but the waiting for threads, and what no event shows, was spent on one cause.
    pub(crate) fn all_of(&self, cause: Cause) -> Self {
        let mut of_one = Self::nothing();
        for kept in [Cause::SlowThreads, Cause::Resume, Cause::NoCpu, Cause::ToolSession] {
            match self.of(kept) {
                Some(ns) => of_one.put(kept, ns),
                None => of_one.forget(kept),
            }
            of_one.estimated |= self.estimated & bit(kept);
        }
        of_one.put(cause, self.total().saturating_sub(of_one.total()));
        of_one
    }

    /// Adds to a part, which is known by that.
    pub(super) fn put(&mut self, cause: Cause, ns: i64) {
        self.known |= bit(cause);
        if let Some(part) = self.ns.get_mut(cause as usize) {
            *part = part.saturating_add(ns.max(0));
        }
    }

    /// The same, of time that was not measured. Nothing is no estimate.
    pub(super) fn estimate(&mut self, cause: Cause, ns: i64) {
        self.put(cause, ns);
        if ns > 0 {
            self.estimated |= bit(cause);
        }
    }

    /// Some of a part, if there is any, was not measured.
    pub(super) fn is_estimate(&mut self, cause: Cause) {
        self.estimated |= bit(cause);
    }

    /// Takes time out of a part, at most all.
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

    /// Scenario: a stop of 1,000 ns of which 700 are known; its threads had no CPU for 300, for as long as it lasted, for
    /// no time, and for longer.
    /// Guarantee: each part loses in its proportion, and is an estimate by that; the sum stays; no time is known, and
    /// takes nothing; before that nothing is known.
    #[test]
    fn no_cpu_comes_out_of_all_parts() {
        let stop = Account::of_parts([(Cause::Plan, 500), (Cause::Stacks, 199), (Cause::Resume, 1)], 1000).unwrap();
        assert_eq!(stop.of(Cause::NoCpu), None);
        let with = |ns| {
            let mut account = stop;
            account.had_no_cpu(ns);
            assert_eq!(account.total(), 1000);
            account
        };
        let some = with(300);
        let of = |cause| some.of(cause).unwrap();
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
        assert_eq!((none.of(Cause::NoCpu), none.of(Cause::Plan)), (Some(0), Some(500)));
        assert_eq!(none.kind(Cause::Plan), PartKind::Measured);
    }

    /// Scenario: a stop with 300 ns in handles and 200 in survivors, which a session of another tool lengthened by 250, by
    /// nothing, and by more than there is.
    /// Guarantee: survivors lose first, then handles, nothing else does; it is known to be nothing.
    #[test]
    fn what_a_tool_lengthened_comes_out_of_handles() {
        let stop = Account::of_parts(
            [(Cause::Handles, 300), (Cause::Survivors, 200), (Cause::Plan, 500)],
            1000,
        )
        .unwrap();
        let with = |ns| {
            let mut account = stop;
            account.was_lengthened_by_tool(ns);
            assert_eq!((account.total(), account.of(Cause::Plan)), (1000, Some(500)));
            [Cause::ToolSession, Cause::Survivors, Cause::Handles].map(|cause| account.of(cause).unwrap())
        };
        assert_eq!(stop.of(Cause::ToolSession), None);
        assert_eq!(with(250), [250, 0, 250]);
        assert_eq!(with(0), [0, 200, 300]);
        assert_eq!(with(9999), [500, 0, 0]);
        // Another tool's heap dump: the wait for a CPU is not the dump's.
        let mut dump = stop;
        dump.had_no_cpu(100);
        let dump = dump.all_of(Cause::HeapDump);
        let of = [Cause::HeapDump, Cause::NoCpu, Cause::ToolSession].map(|cause| dump.of(cause));
        assert_eq!(of, [Some(900), Some(100), None]);
    }
}
