//! Growth of the lines of a ledger, computed from two readings.

use base::time::Moment;
use rule_engine::ledger::{Growth, Ledger, MemoryVerdict, WORTH_SAYING};

/// Minimum interval between two readings for growth, because the heap is as of its newest collection.
const MIN_NS: u64 = 10_000_000_000;

/// Age at which a reading becomes the base that new readings are compared with. The base is replaced at about twice
/// this age.
const BASE_NS: u64 = 120_000_000_000;

const MINUTE_NS: u64 = 60_000_000_000;

/// Readings of one process and of one kind. Counted readings are not compared with estimates.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Reading that the newest reading is compared with.
    base: Option<(Moment, Ledger)>,
    /// Reading that replaces the base next.
    next: Option<(Moment, Ledger)>,
    newest: Option<(Moment, Ledger)>,
}

impl Series {
    /// Adds a reading, and returns it with its growth filled in.
    pub fn take(&mut self, at: Moment, mut ledger: Ledger) -> Ledger {
        let due = |reading: &Option<(Moment, Ledger)>| {
            let reading = reading.as_ref();
            reading.is_none_or(|(before, _)| at.since(*before) >= BASE_NS)
        };
        if due(&self.next) {
            self.base = self.next.take().or(self.base.take());
            self.next = Some((at, ledger));
        }
        if let Some((before, base)) = self.base.as_ref().or(self.next.as_ref()) {
            grow(&mut ledger, base, at.since(*before));
        }
        self.newest = Some((at, ledger));
        ledger
    }

    /// Returns the newest reading and its time, or `None` if there is no reading.
    pub fn newest(&self) -> Option<(Moment, &Ledger)> {
        self.newest.as_ref().map(|(at, ledger)| (*at, ledger))
    }
}

/// Fills in the growth since `base`, which is `passed_ns` old.
fn grow(ledger: &mut Ledger, base: &Ledger, passed_ns: u64) {
    if passed_ns < MIN_NS {
        return;
    }
    let within = |line: fn(&Ledger) -> Option<u64>, passed_ns: u64| {
        let grown = i128::from(line(ledger)?) - i128::from(line(base)?);
        i64::try_from(grown * i128::from(MINUTE_NS) / i128::from(passed_ns)).ok()
    };
    let of = |line| within(line, passed_ns);
    let (live, not_looked_at) = (of(|ledger| ledger.live), of(|ledger| ledger.not_looked_at));
    // Live objects grow in steps, one for each full collection, so their growth uses the time between steps. The
    // remaining growth of the heap belongs to objects not looked at yet.
    let steps_ns = between_full_collections(ledger, base, passed_ns).filter(|ns| *ns >= MIN_NS);
    let (live, not_looked_at) = match (steps_ns, live, not_looked_at) {
        (Some(steps_ns), Some(plain), Some(rest)) => {
            let live = within(|ledger| ledger.live, steps_ns);
            (live, live.map(|live| plain.saturating_add(rest).saturating_sub(live)))
        }
        _ => (live, not_looked_at),
    };
    let lines = Growth {
        usage: of(|ledger| ledger.usage),
        live,
        not_looked_at,
        free: of(|ledger| ledger.free),
        committed_unused: of(|ledger| ledger.committed_unused),
        bookkeeping: of(|ledger| ledger.bookkeeping),
        native: of(|ledger| ledger.native),
        other_processes: of(|ledger| ledger.other_processes),
        files_in_memory: of(|ledger| ledger.files_in_memory),
        page_cache: of(|ledger| ledger.page_cache),
        kernel: of(|ledger| ledger.kernel),
        kernel_reclaimable: of(|ledger| ledger.kernel_reclaimable),
        unknown: of(|ledger| ledger.unknown),
    };
    let growth = |verdict: MemoryVerdict| match verdict {
        MemoryVerdict::LiveHeap => lines.live,
        MemoryVerdict::NotLookedAt => lines.not_looked_at,
        MemoryVerdict::Fragmentation => lines.free,
        MemoryVerdict::CommittedUnused => lines.committed_unused,
        MemoryVerdict::Native => lines.native,
        MemoryVerdict::OtherProcesses => lines.other_processes,
        MemoryVerdict::FilesInMemory => lines.files_in_memory,
        MemoryVerdict::PageCache => lines.page_cache,
        MemoryVerdict::Kernel => lines.kernel,
        MemoryVerdict::NotKnown => None,
    };
    let each = MemoryVerdict::ALL
        .iter()
        .filter_map(|&verdict| Some((growth(verdict)?, verdict)));
    let fastest = each
        .max_by_key(|(bytes, _)| *bytes)
        .filter(|(bytes, _)| *bytes >= WORTH_SAYING);
    ledger.growth = lines;
    ledger.growth_per_minute = growth(ledger.verdict);
    ledger.fastest = fastest.map(|(_, verdict)| verdict);
    ledger.fastest_per_minute = fastest.map(|(bytes, _)| bytes);
}

/// Returns the time between the newest full collection of `base` and the newest full collection of `ledger`, or `None`
/// if both are the same collection or one is unknown. `ledger` is `passed_ns` later than `base`.
fn between_full_collections(ledger: &Ledger, base: &Ledger, passed_ns: u64) -> Option<u64> {
    let ns = |seconds: u64| seconds.checked_mul(1_000_000_000);
    let (ago_ns, base_ago_ns) = (ns(ledger.not_looked_at_s?)?, ns(base.not_looked_at_s?)?);
    let is_newer = ago_ns < passed_ns;
    is_newer.then(|| passed_ns.saturating_add(base_ago_ns).saturating_sub(ago_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Moment {
        Moment::from_ns(second * 1_000_000_000)
    }

    const MIB: u64 = 1 << 20;

    fn reading(native: u64, live: u64) -> Ledger {
        Ledger {
            verdict: MemoryVerdict::Native,
            native: Some(native * MIB),
            live: Some(live * MIB),
            ..Ledger::default()
        }
    }

    /// Scenario: a process is read every 15 s, and its native memory grows by 1 MiB between readings; the first two
    /// readings are one second apart.
    /// Guarantee: one reading has no growth, nor do two readings close together; afterwards the growth is 4 MiB per
    /// minute.
    #[test]
    fn growth_needs_two_distant_readings() {
        let mut series = Series::default();
        assert_eq!(series.take(at(1), reading(100, 50)).growth_per_minute, None);
        assert_eq!(series.take(at(2), reading(100, 50)).growth_per_minute, None);
        for round in 1..100u64 {
            let ledger = series.take(at(1 + round * 15), reading(100 + round, 50));
            assert_eq!(ledger.growth_per_minute, Some(4 * MIB as i64), "{round}");
            assert_eq!(ledger.fastest, Some(MemoryVerdict::Native));
            assert_eq!(series.newest().unwrap().1, &ledger);
        }
    }

    /// Scenario: live objects leak while larger native memory shrinks.
    /// Guarantee: the growth of the largest line is negative, and the fastest line is the leak.
    #[test]
    fn fastest_line_need_not_be_largest() {
        let mut series = Series::default();
        series.take(at(100), reading(200, 10));
        let ledger = series.take(at(160), reading(190, 40));
        assert_eq!(
            (ledger.growth.native, ledger.growth.live, ledger.growth.free),
            (Some(-10 * MIB as i64), Some(30 * MIB as i64), None)
        );
        assert_eq!(ledger.growth_per_minute, Some(-10 * MIB as i64));
        assert_eq!(
            (ledger.fastest, ledger.fastest_per_minute),
            (Some(MemoryVerdict::LiveHeap), Some(30 * MIB as i64))
        );
    }

    /// Scenario: a process leaks 5 MiB per second, has a full collection every 70 s, and is read every 15 s for an
    /// hour.
    /// Guarantee: regardless of the times of readings and collections, live objects grow by 300 MiB per minute, and the
    /// two lines add up to the growth of the heap.
    #[test]
    fn steps_of_live_objects_do_not_distort_growth() {
        let mut series = Series::default();
        let mut readings = Vec::new();
        for second in (0..3600).step_by(15) {
            let full = second / 70 * 70;
            let ledger = series.take(
                at(second),
                Ledger {
                    usage: Some(5 * second * MIB),
                    live: Some(5 * full * MIB),
                    not_looked_at: Some(5 * (second - full) * MIB),
                    not_looked_at_s: Some(second - full),
                    ..Ledger::default()
                },
            );
            readings.push(ledger.growth);
        }
        let per_minute = 300 * MIB as i64;
        for growth in readings.iter().skip(10) {
            assert_eq!((growth.usage, growth.live), (Some(per_minute), Some(per_minute)));
            assert!(growth.not_looked_at.is_some_and(|rest| rest.abs() <= 1), "{growth:?}");
        }
    }

    /// Scenario: memory grows once and then stays constant for ten minutes.
    /// Guarantee: old growth is no longer reported.
    #[test]
    fn old_growth_is_not_reported() {
        let mut series = Series::default();
        let mut last = series.take(at(0), reading(100, 50));
        for round in 1..40 {
            last = series.take(at(round * 15), reading(300, 50));
        }
        assert_eq!(last.growth_per_minute, Some(0));
        assert_eq!(last.fastest, None);
    }
}
