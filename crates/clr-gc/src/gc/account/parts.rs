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
pub struct Part {
    /// What it was spent on.
    pub cause: Cause,
    /// Nanoseconds, never negative.
    pub ns: i64,
    /// How that is known.
    pub kind: PartKind,
}

/// The parts of one stop, or of several. They add up to the stopped time exactly; none is negative, none overlaps
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    ns: [i64; Cause::COUNT],
    /// A bit for each cause whose part is known; of the others nothing is said. What is not known is unexplained.
    known: u32,
    /// A bit for each cause whose part was estimated.
    estimated: u32,
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

    /// How the part of a cause is known.
    pub fn kind(&self, cause: Cause) -> PartKind {
        if self.estimated & bit(cause) == 0 {
            PartKind::Measured
        } else {
            PartKind::Estimated
        }
    }

    /// The parts that took time, in the order of [`Cause::ALL`]; they add up to [`total`](Self::total).
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let all = Cause::ALL.into_iter().zip(self.ns).filter(|(_, ns)| *ns > 0);
        all.map(|(cause, ns)| Part {
            cause,
            ns,
            kind: self.kind(cause),
        })
    }

    /// The parts that took time, the largest first, what is unexplained last.
    pub fn largest_first(&self) -> Vec<Part> {
        let mut parts: Vec<Part> = self.parts().collect();
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
        self.known |= other.known;
        self.estimated |= other.estimated;
    }

    /// Takes the parts of an earlier sum out of it.
    pub(super) fn subtract(&mut self, earlier: &Self) {
        for (sum, ns) in self.ns.iter_mut().zip(earlier.ns) {
            *sum = sum.saturating_sub(ns).max(0);
        }
    }

    /// The same time, of which all but the waiting for threads was spent on one cause.
    pub(crate) fn all_of(&self, cause: Cause) -> Self {
        let mut of_one = Self::nothing();
        for kept in [Cause::SlowThreads, Cause::Resume] {
            of_one.put(kept, self.of(kept).unwrap_or(0));
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

    /// The fields, for whoever packs them: nanoseconds by cause, what is known, what is estimated.
    pub(crate) fn raw(&mut self) -> (&mut [i64; Cause::COUNT], &mut u32, &mut u32) {
        (&mut self.ns, &mut self.known, &mut self.estimated)
    }
}

const ALL_BITS: u32 = (1 << Cause::COUNT) - 1;

const fn bit(cause: Cause) -> u32 {
    1 << cause as u8
}
