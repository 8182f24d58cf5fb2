//! What became of the spans and exports that came.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a whole export was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// Others held all the memory there is for exports.
    Full,
    /// It was too large.
    TooLarge,
    /// It is no export.
    Damaged,
    /// It did not arrive in time.
    Slow,
    /// It comes in an encoding, or a compression, that is not read.
    Unsupported,
}

/// Their names in metrics.
const DROPPED: [&str; 5] = ["full", "too_large", "damaged", "slow", "unsupported"];
/// The outcomes of spans in metrics.
const OUTCOMES: [&str; 5] = ["matched", "unmatched", "ambiguous", "dropped", "no_request"];

/// Counts since the daemon began.
#[derive(Debug, Default)]
pub struct IntakeStats {
    spans: [AtomicU64; OUTCOMES.len()],
    exports: [AtomicU64; DROPPED.len()],
}

impl IntakeStats {
    fn add(&self, outcome: usize, count: u64) {
        self.spans[outcome].fetch_add(count, Ordering::Relaxed);
    }

    /// Requests of a process that is attached to.
    pub(super) fn matched(&self, count: u64) {
        self.add(0, count);
    }

    /// Requests of no process that is attached to.
    pub(super) fn unmatched(&self, count: u64) {
        self.add(1, count);
    }

    /// Requests of one of several processes.
    pub(super) fn ambiguous(&self, count: u64) {
        self.add(2, count);
    }

    /// Requests that found no room.
    pub(super) fn left_out(&self, count: u64) {
        self.add(3, count);
    }

    /// Spans that are no requests.
    pub(super) fn others(&self, count: u64) {
        self.add(4, count);
    }

    pub(super) fn dropped(&self, why: Dropped) {
        self.exports[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Spans by outcome.
    pub fn spans(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.spans.iter().map(|count| count.load(Ordering::Relaxed));
        OUTCOMES.into_iter().zip(counts)
    }

    /// Exports that were dropped, by reason.
    pub fn exports_dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.exports.iter().map(|count| count.load(Ordering::Relaxed));
        DROPPED.into_iter().zip(counts)
    }
}
