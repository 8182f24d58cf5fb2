//! The stopped time of a process.

use crate::gc::account::{Account, Cause};
use crate::gc::collection::{Asker, Collection, Suspension};

/// The stopped time of a process or of a window, divided twice: by cause and by origin. Each division adds up to
/// [`total`](Self::total). The size is fixed, and sums saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoppedTime {
    parts: Account,
    askers: [i64; Asker::COUNT],
    /// Number of stops of unknown length. If there are any, the total is a lower bound.
    unknown: u64,
}

impl StoppedTime {
    /// Adds the known stopped time of a collection.
    pub fn add(&mut self, collection: &Collection) {
        let unknown = collection.pauses.iter().filter(|pause| pause.pause_ns.is_none());
        self.unknown = self.unknown.saturating_add(unknown.count() as u64);
        let account = collection.account();
        self.parts.add(&account);
        self.asked(collection.asker(), account.total());
    }

    /// Adds a stop without a collection. Its origin is the program: a no-GC region, or a refreshed memory limit. The
    /// origin of a stop for an unobserved background collection is unknown.
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

    /// Adds the stopped time of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.parts.add(&other.parts);
        for asker in Asker::ALL {
            self.asked(asker, other.asked_by(asker));
        }
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// Returns the stopped time that was added after the state `earlier`.
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

    /// Returns the parts by cause.
    pub fn parts(&self) -> &Account {
        &self.parts
    }

    /// Returns the stopped time of an origin, in nanoseconds. The origins add up to [`total`](Self::total).
    pub fn asked_by(&self, asker: Asker) -> i64 {
        self.askers.get(asker as usize).copied().unwrap_or(0)
    }

    /// Returns the stopped time in nanoseconds.
    pub fn total(&self) -> i64 {
        self.parts.total()
    }

    /// Returns the unexplained time in nanoseconds.
    pub fn unexplained(&self) -> i64 {
        self.parts.get(Cause::Unexplained).unwrap_or(0)
    }

    /// Returns the number of stops of unknown length. If there are any, the total is a lower bound.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    fn asked(&mut self, asker: Asker, ns: i64) {
        if let Some(sum) = self.askers.get_mut(asker as usize) {
            *sum = sum.saturating_add(ns);
        }
    }
}
