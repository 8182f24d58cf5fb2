//! The account of a process.

use crate::gc::account::{Account, Cause};
use crate::gc::collection::{Asker, Collection, Suspension};

/// The stopped time of a process or of a window, divided twice: by what it was spent on, and by who asked for it. Each
/// division adds up to [`total`](Self::total). Of fixed size; sums stop at the largest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoppedTime {
    parts: Account,
    askers: [i64; Asker::COUNT],
    /// Stops whose length is not known: the total is a lower bound.
    unknown: u64,
}

impl StoppedTime {
    /// Takes a collection: its parts of its stops, as far as their lengths are known.
    pub fn add(&mut self, collection: &Collection) {
        let unknown = collection.pauses.iter().filter(|pause| pause.pause_ns.is_none());
        self.unknown = self.unknown.saturating_add(unknown.count() as u64);
        let account = collection.account();
        self.parts.add(&account);
        self.asked(collection.asker(), account.total());
    }

    /// Takes a stop without a collection. The program asked for it: for a no-GC region, or for its memory limit to be
    /// read again. For a background collection that was not seen, it is not known who did.
    pub fn add_suspension(&mut self, suspension: &Suspension) {
        let Some(account) = suspension.account() else {
            self.unknown = self.unknown.saturating_add(1);
            return;
        };
        let asker = if suspension.is_for_background() {
            Asker::Unknown
        } else {
            Asker::Program
        };
        self.parts.add(&account);
        self.asked(asker, account.total());
    }

    /// Takes what another one has.
    pub fn merge(&mut self, other: &Self) {
        self.parts.add(&other.parts);
        for asker in Asker::ALL {
            self.asked(asker, other.asked_by(asker));
        }
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// What came since it was like this, earlier.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since.parts.subtract(&earlier.parts);
        for (ns, before) in since.askers.iter_mut().zip(earlier.askers) {
            *ns = ns.saturating_sub(before).max(0);
        }
        since.unknown = since.unknown.saturating_sub(earlier.unknown);
        since
    }

    /// The parts, by what they were spent on.
    pub fn parts(&self) -> &Account {
        &self.parts
    }

    /// What was stopped for whom, nanoseconds; they add up to [`total`](Self::total).
    pub fn asked_by(&self, asker: Asker) -> i64 {
        self.askers.get(asker as usize).copied().unwrap_or(0)
    }

    /// The stopped time, nanoseconds.
    pub fn total(&self) -> i64 {
        self.parts.total()
    }

    /// What nothing says, nanoseconds.
    pub fn unexplained(&self) -> i64 {
        self.parts.of(Cause::Unexplained).unwrap_or(0)
    }

    /// How many stops have no known length: with any, the total is a lower bound.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    fn asked(&mut self, asker: Asker, ns: i64) {
        if let Some(sum) = self.askers.get_mut(asker as usize) {
            *sum = sum.saturating_add(ns);
        }
    }
}
