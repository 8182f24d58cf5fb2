//! The memory ledger of a run: estimated at each reading of the figures, and counted on request.
//!
//! A count visits all pages of the process. A count is therefore made only for a viewer, at least
//! [`VIEWER_COUNT_INTERVAL_NS`] after the last count, or for an incident that gathers the ledger, at least
//! [`INCIDENT_COUNT_INTERVAL_NS`] after the last count. An estimate assumes that the whole heap is resident, up to the
//! resident memory of the process.

use base::time::Moment;
use gc_telemetry::definition::own::target as row;
use gc_telemetry::snapshot::{MetricSnapshot, text, whole};
use rule_engine::ledger::Ledger;

use processes::container::ledger::Series;

/// Minimum interval between the last page count and a page count for a viewer.
const VIEWER_COUNT_INTERVAL_NS: u64 = 10_000_000_000;

/// Minimum interval between the last page count and a page count for an incident that gathers the ledger.
const INCIDENT_COUNT_INTERVAL_NS: u64 = 30_000_000_000;

/// Maximum time between a count and the newest estimate for which the count is preferred to the estimate.
const GOOD_FOR_NS: u64 = 45_000_000_000;

/// Unused part of the limit and unused memory of a process, in bytes; values are `None` if unknown. Less
/// `limit_never_reached` or less `beyond_working_room` does not affect the process. With less `working_room`, the
/// collector collects more often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reserve {
    /// The limit minus the highest estimated usage.
    pub limit_never_reached: Option<u64>,
    /// The sum of the free space between objects and the committed, unused memory, minus `beyond_working_room` if
    /// known.
    pub working_room: Option<u64>,
    /// The part of the free and unused memory that no cycle between two full collections used.
    pub beyond_working_room: Option<u64>,
}

/// Memory ledger of a run.
#[derive(Debug, Default)]
pub struct RunLedger {
    estimated: Series,
    /// Counted ledgers; `None` before the first successful count. Boxed, because most processes are never counted.
    counted: Option<Box<Series>>,
    /// Highest usage of any estimate; `None` if no usage is known.
    pub peak: Option<u64>,
    /// Start of the last count, even if the count failed; `None` before the first count.
    began: Option<Moment>,
    /// Whether a count is running.
    counting: bool,
}

impl RunLedger {
    pub(crate) fn estimated(&mut self, at: Moment, ledger: Ledger) {
        self.peak = self.peak.max(ledger.usage);
        self.estimated.take(at, ledger);
    }

    /// Records the start of a page count, unless a count is running or the last count started too recently. Returns
    /// whether the caller must make the count. `for_person` is whether the count is for a viewer, as opposed to an
    /// incident.
    pub(crate) fn begin(&mut self, now: Moment, for_person: bool) -> bool {
        let pace = if for_person {
            VIEWER_COUNT_INTERVAL_NS
        } else {
            INCIDENT_COUNT_INTERVAL_NS
        };
        let is_due = self.began.is_none_or(|began| now.since(began) >= pace);
        if self.counting || !is_due {
            return false;
        }
        self.counting = true;
        self.began = Some(now);
        true
    }

    /// Handles the end of a count. `ledger` is `None` if the process could not be read.
    pub(crate) fn counted(&mut self, at: Moment, ledger: Option<Ledger>) {
        self.counting = false;
        if let Some(ledger) = ledger {
            let series = self.counted.get_or_insert_default();
            series.take(at, ledger);
        }
    }

    /// Adds the lines of the newest ledger as metrics, with the limit, the highest usage and the memory beyond working
    /// room. `unused_by_cycles` is as in [`reserve`](Self::reserve).
    pub(crate) fn metrics(&self, unused_by_cycles: Option<u64>, snapshot: &mut MetricSnapshot) {
        let Some(ledger) = self.newest() else { return };
        let lines = ledger.lines().into_iter();
        let line = |name: &str| vec![text(&row::LINE, &name.replace(' ', "_"))];
        let points = lines.filter_map(|(name, bytes)| Some((line(name), whole(bytes?))));
        snapshot.put(&row::MEMORY, points);
        snapshot.put_one(&row::MEMORY_PEAK, self.peak.map(whole));
        snapshot.put_one(&row::MEMORY_LIMIT, ledger.limit.map(whole));
        let reserve = self.reserve(unused_by_cycles);
        snapshot.put_one(&row::MEMORY_BEYOND, reserve.beyond_working_room.map(whole));
    }

    /// Returns the unused part of the limit and the unused memory. `unused_by_cycles` is the number of bytes of free
    /// and unused memory that no cycle between two full collections used; `None` if unknown.
    pub fn reserve(&self, unused_by_cycles: Option<u64>) -> Reserve {
        let Some(ledger) = self.newest() else {
            return Reserve::default();
        };
        let limit = ledger.limit.zip(self.peak);
        let all = ledger.free.zip(ledger.committed_unused);
        let all = all.map(|(free, unused)| free.saturating_add(unused));
        let beyond = all.zip(unused_by_cycles).map(|(all, low)| all.min(low));
        Reserve {
            limit_never_reached: limit.map(|(limit, peak)| limit.saturating_sub(peak)),
            working_room: all.map(|all| all.saturating_sub(beyond.unwrap_or(0))),
            beyond_working_room: beyond,
        }
    }

    /// Returns the newest count, or the newest estimate if the count is more than [`GOOD_FOR_NS`] older or if there is
    /// no count. Returns `None` if there is neither a count nor an estimate.
    pub fn newest(&self) -> Option<Ledger> {
        let counted = self.counted.as_ref().and_then(|series| series.newest());
        match (counted, self.estimated.newest()) {
            (Some((counted_at, counted)), Some((at, estimated))) => {
                let is_good = at <= counted_at.after(GOOD_FOR_NS);
                Some(if is_good { *counted } else { *estimated })
            }
            (counted, estimated) => counted.or(estimated).map(|(_, ledger)| *ledger),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Moment {
        Moment::from_ns(second * 1_000_000_000)
    }

    fn ledger(counted: bool) -> Ledger {
        Ledger {
            counted,
            ..Ledger::default()
        }
    }

    /// Scenario: a viewer and an incident request counts repeatedly; the first count takes long and fails, and a later
    /// count succeeds.
    /// Guarantee: at most one count runs at a time. A count for a viewer starts at least 10 s after the start of the
    /// last count, and a count for an incident at least 30 s after the start of the last count.
    #[test]
    fn page_counts_are_rate_limited() {
        let mut run = RunLedger::default();
        assert!(run.begin(at(100), true));
        assert!(!run.begin(at(200), true));
        run.counted(at(101), None);
        assert_eq!(run.newest(), None);
        assert!(!run.begin(at(109), true));
        assert!(!run.begin(at(111), false));
        assert!(run.begin(at(111), true));
        run.counted(at(111), Some(ledger(true)));
        assert!(run.begin(at(141), false));
    }

    /// Scenario: the cycles of a process in a container leave 30 bytes unused, then more bytes than the free and unused
    /// memory of the process; the cycles of another process are unknown; a third process has no limit.
    /// Guarantee: working room and the memory beyond working room add up to the free and unused memory, and the limit
    /// that was never reached is the limit minus the usage. Unknown values are `None`.
    #[test]
    fn reserve_has_three_lines() {
        let known = Ledger {
            limit: Some(500),
            usage: Some(300),
            free: Some(40),
            committed_unused: Some(60),
            ..Ledger::default()
        };
        let reserve = |ledger: Ledger, low: Option<u64>| {
            let mut run = RunLedger::default();
            run.estimated(at(1), ledger);
            let reserve = run.reserve(low);
            [
                reserve.limit_never_reached,
                reserve.working_room,
                reserve.beyond_working_room,
            ]
        };
        assert_eq!(reserve(known, Some(30)), [Some(200), Some(70), Some(30)]);
        assert_eq!(reserve(known, Some(9000)), [Some(200), Some(0), Some(100)]);
        assert_eq!(reserve(known, None), [Some(200), Some(100), None]);
        let unlimited = Ledger { limit: None, ..known };
        assert_eq!(reserve(unlimited, Some(0)), [None, Some(100), Some(0)]);
        assert_eq!(reserve(Ledger::default(), Some(5)), [None; 3]);
        assert_eq!(RunLedger::default().reserve(Some(5)), Reserve::default());
    }

    /// Scenario: an estimate is made, then a count; further estimates follow 14 s and 59 s after the count.
    /// Guarantee: the count is used until the newest estimate is more than 45 s newer than the count.
    #[test]
    fn old_count_is_replaced_by_estimate() {
        let mut run = RunLedger::default();
        run.estimated(at(100), ledger(false));
        assert!(!run.newest().unwrap().counted);
        run.counted(at(101), Some(ledger(true)));
        run.estimated(at(115), ledger(false));
        assert!(run.newest().unwrap().counted);
        run.estimated(at(160), ledger(false));
        assert!(!run.newest().unwrap().counted);
    }
}
