//! The maximum number of bytes that the heap of a process can commit, and whether the runtime knows the current limit
//! of its container.
//!
//! A runtime determines its limit when it starts: from its configuration, or as a share of the container's limit. If
//! the container's limit is changed in place, the runtime keeps its own limit until the program calls
//! `GC.RefreshMemoryLimit` or restarts (runtime issue 39820).
//!
//! The current limit is an estimate: the environment, `runtimeconfig.json` and the container are visible from outside,
//! but settings inside a single-file executable are not. If the runtime reports its limit, a difference therefore
//! counts only under one of three conditions: the estimate was equal to the reported limit before, the configuration
//! was read and has no absolute limit, or the program refreshed its limit. If the runtime reports no limit, every
//! difference from the first estimate counts.

use crate::identity::SaidLimit;

/// Minimum difference of two limits, in percent of the smaller limit. A smaller difference is due to rounding.
const MIN_DIFFERENCE_PERCENT: u64 = 5;

/// The limit of a heap, as known from several sources.
#[derive(Debug, Default)]
pub(crate) struct HeapLimit {
    /// Limit according to the configuration and the container's current limit, in bytes; `None` if unknown.
    present: Option<u64>,
    /// First known value of `present`. A runtime that does not report its limit keeps this limit.
    first: Option<u64>,
    /// Value of `present` when the program last refreshed its limit; `None` if it has not done so since the last report
    /// of the runtime.
    refreshed: Option<u64>,
    /// Whether the reported limit and `present` were ever equal.
    was_equal: bool,
    /// Whether the configuration was read and has no absolute limit.
    follows_container: bool,
    /// Whether a collection committed much more than `present`, so that this limit is not in force.
    is_refuted: bool,
}

/// A limit that the runtime keeps although the container's limit has changed, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleLimit {
    /// Limit of the heap that is in force.
    pub kept: u64,
    /// Limit of the heap after a refresh or a restart.
    pub fresh: u64,
}

/// Returns whether two limits differ by more than rounding.
fn differ(one: u64, other: u64) -> bool {
    let allowed = u128::from(one.min(other)) * u128::from(MIN_DIFFERENCE_PERCENT);
    u128::from(one.abs_diff(other)) * 100 > allowed
}

impl HeapLimit {
    /// Applies a reading from outside. If the limit is currently unknown, the previous limit stays. Returns whether the
    /// limit changed.
    pub(crate) fn measured(&mut self, present: Option<u64>, follows_container: bool, said: SaidLimit) -> bool {
        let before = self.present;
        if !self.is_refuted {
            self.present = present.or(before);
            self.first = self.first.or(self.present);
            if present.is_some() {
                self.follows_container = follows_container;
            }
        }
        if let (SaidLimit::Bytes(said), Some(present)) = (said, self.present) {
            self.was_equal |= !differ(said, present);
        }
        self.present != before
    }

    /// Records that the runtime reported its limit, which includes earlier refreshes.
    pub(crate) fn reported(&mut self) {
        self.refreshed = None;
    }

    /// Records that the program refreshed its limit. The runtime refuses a limit below the committed memory of the
    /// heap.
    pub(crate) fn refresh(&mut self, committed: Option<u64>) {
        let is_accepted = |present: &u64| committed.is_none_or(|committed| committed <= *present);
        self.refreshed = self.present.filter(is_accepted).or(self.refreshed);
    }

    /// Returns whether a collection that committed this many bytes proves that a limit that the runtime did not report
    /// is not in force. If so, the limit becomes unknown.
    pub(crate) fn refute(&mut self, committed: u64, said: SaidLimit) -> bool {
        let limit = self.limit(said).filter(|_| said == SaidLimit::Nothing);
        let is_refuted = limit.is_some_and(|limit| committed > limit.saturating_add(limit / 4));
        if is_refuted {
            self.is_refuted = true;
            (self.present, self.first, self.refreshed) = (None, None, None);
        }
        is_refuted
    }

    /// Returns the maximum number of bytes that the heap can commit; `None` if there is no limit, or if the limit is
    /// unknown.
    pub(crate) fn limit(&self, said: SaidLimit) -> Option<u64> {
        match said {
            SaidLimit::NoLimit => None,
            SaidLimit::Bytes(limit) => self.refreshed.or(Some(limit)),
            SaidLimit::Nothing => self.refreshed.or(self.first),
        }
    }

    /// Returns the limit that the runtime keeps, if the container's current limit results in another limit, or `None`
    /// if the limits are equal, unknown, or not proven to differ.
    pub(crate) fn stale(&self, said: SaidLimit) -> Option<StaleLimit> {
        let (kept, fresh) = (self.limit(said)?, self.present?);
        let is_proven = match said {
            SaidLimit::Bytes(_) => self.was_equal || self.follows_container || self.refreshed.is_some(),
            SaidLimit::Nothing => true,
            SaidLimit::NoLimit => false,
        };
        (is_proven && differ(kept, fresh)).then_some(StaleLimit { kept, fresh })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn mib(stale: Option<StaleLimit>) -> Option<(u64, u64)> {
        stale.map(|stale| (stale.kept / MIB, stale.fresh / MIB))
    }

    /// Scenario: a runtime reports 300 MiB, three quarters of the container's limit; the container's limit is raised,
    /// lowered and set back; its configuration is in a single file.
    /// Guarantee: the heap keeps its limit, and each difference is reported while it lasts, except for a difference of
    /// rounding.
    #[test]
    fn changed_container_leaves_stale_limit() {
        let mut limit = HeapLimit::default();
        let said = SaidLimit::Bytes(300 * MIB);
        let mut stale = |present: u64| {
            limit.measured(Some(present * MIB), false, said);
            assert_eq!(limit.limit(said), Some(300 * MIB));
            mib(limit.stale(said))
        };
        assert_eq!(stale(300), None);
        assert_eq!(stale(314), None);
        assert_eq!(stale(600), Some((300, 600)));
        assert_eq!(stale(150), Some((300, 150)));
        assert_eq!(stale(300), None);
    }

    /// Scenario: a difference exists at the first reading, once with a configuration that was read and once with an
    /// invisible configuration; another runtime reports that its heap has no limit.
    /// Guarantee: only the first case is a stale limit.
    #[test]
    fn difference_needs_a_proof() {
        let said = SaidLimit::Bytes(300 * MIB);
        let stale = |follows, said| {
            let mut limit = HeapLimit::default();
            limit.measured(Some(600 * MIB), follows, said);
            mib(limit.stale(said))
        };
        assert_eq!(stale(true, said), Some((300, 600)));
        assert_eq!(stale(false, said), None);
        assert_eq!(stale(true, SaidLimit::NoLimit), None);
    }

    /// Scenario: a runtime does not report its limit; the container's limit is raised, the program refreshes, the limit
    /// is lowered below the committed memory of the heap, and the program tries to refresh.
    /// Guarantee: the first limit stays in force until the refresh; a refused refresh and a failed reading have no
    /// effect.
    #[test]
    fn refresh_applies_current_limit() {
        let said = SaidLimit::Nothing;
        let mut limit = HeapLimit::default();
        assert!(limit.measured(Some(300 * MIB), true, said));
        assert!(limit.measured(Some(600 * MIB), true, said));
        assert_eq!(
            (limit.limit(said), mib(limit.stale(said))),
            (Some(300 * MIB), Some((300, 600)))
        );
        limit.refresh(Some(290 * MIB));
        assert_eq!((limit.limit(said), mib(limit.stale(said))), (Some(600 * MIB), None));
        assert!(!limit.measured(None, true, said));
        assert!(limit.measured(Some(200 * MIB), true, said));
        limit.refresh(Some(290 * MIB));
        assert_eq!(mib(limit.stale(said)), Some((600, 200)));
    }

    /// Scenario: a program refreshes the limit of its heap, and a new session reports the new limit.
    /// Guarantee: the reported limit applies after the report.
    #[test]
    fn report_replaces_refresh() {
        let mut limit = HeapLimit::default();
        limit.measured(Some(300 * MIB), false, SaidLimit::Bytes(300 * MIB));
        limit.measured(Some(600 * MIB), false, SaidLimit::Bytes(300 * MIB));
        limit.refresh(None);
        assert_eq!(limit.limit(SaidLimit::Bytes(300 * MIB)), Some(600 * MIB));
        limit.reported();
        assert_eq!(limit.limit(SaidLimit::Bytes(590 * MIB)), Some(590 * MIB));
        assert_eq!(mib(limit.stale(SaidLimit::Bytes(590 * MIB))), None);
    }

    /// Scenario: one collection commits slightly more than a limit that is only visible from outside; the next
    /// collection commits much more.
    /// Guarantee: only the second collection proves that the limit is not in force, and the limit then stays unknown.
    #[test]
    fn collection_refutes_limit() {
        let said = SaidLimit::Nothing;
        let mut limit = HeapLimit::default();
        limit.measured(Some(100 * MIB), true, said);
        assert!(!limit.refute(120 * MIB, said));
        assert!(limit.refute(130 * MIB, said));
        limit.measured(Some(100 * MIB), true, said);
        assert_eq!((limit.limit(said), limit.stale(said)), (None, None));
    }
}
