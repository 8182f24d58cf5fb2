//! Figures of one run over time: counters since the first reading, and shares between two readings.

use super::figures::{Cpu, Figures, Memory};

/// State for the figures of a run. The counters of a group are reset when the group is recreated; the reported counters
/// never decrease.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Figures as last read.
    last: Option<Figures>,
    /// Figures as reported.
    reported: Figures,
}

impl Usage {
    /// Processes a reading and returns the figures to report. Counters start at the first reading.
    pub fn take(&mut self, now: Figures) -> Figures {
        let before = self.last.unwrap_or_default();
        let reported = self.reported;
        // A counter starts when it is first known.
        let count = |get: fn(&Figures) -> Option<u64>| {
            let grown = get(&now)?.saturating_sub(get(&before).or(get(&now))?);
            Some(get(&reported).unwrap_or(0).saturating_add(grown))
        };
        self.reported = Figures {
            memory: Memory {
                oom_kills: count(|figures| figures.memory.oom_kills),
                limit_hits: count(|figures| figures.memory.limit_hits),
                high_events: count(|figures| figures.memory.high_events),
                ..now.memory
            },
            cpu: Cpu {
                periods: count(|figures| figures.cpu.periods),
                throttled_periods: count(|figures| figures.cpu.throttled_periods),
                throttled_ns: count(|figures| figures.cpu.throttled_ns),
            },
            // The other processes are not read in every round.
            others: if now.others.bytes.is_some() {
                now.others
            } else {
                before.others
            },
            ..now.after(&before)
        };
        // The next reading possibly does not include the other processes.
        self.last = Some(Figures {
            others: self.reported.others,
            ..now
        });
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use rule_engine::field::CommandName;

    use super::*;
    use crate::container::figures::OtherProcesses;

    fn killed(oom_kills: Option<u64>) -> Figures {
        Figures {
            memory_limit: Some(100),
            memory: Memory {
                oom_kills,
                ..Memory::default()
            },
            ..Figures::default()
        }
    }

    /// Scenario: a counter is 5 at the first reading, grows, resets, and is missing for a while.
    /// Guarantee: the reported value starts at 0, never decreases, and is unknown while the counter is missing; gauges
    /// are reported unchanged.
    #[test]
    fn counters_start_at_first_reading() {
        let mut usage = Usage::default();
        let mut reported = |reading| {
            let figures = usage.take(killed(reading));
            assert_eq!(figures.memory_limit, Some(100));
            figures.memory.oom_kills
        };
        assert_eq!(reported(Some(5)), Some(0));
        assert_eq!(reported(Some(7)), Some(2));
        assert_eq!(reported(Some(1)), Some(2));
        assert_eq!(reported(Some(4)), Some(5));
        assert_eq!(reported(None), None);
    }

    /// Scenario: readings include the other processes, exclude them twice, and include them when the last of these
    /// processes has exited.
    /// Guarantee: the newest figures of the other processes are reported until newer figures are read.
    #[test]
    fn other_processes_are_kept_until_next_scan() {
        let with = |others| Figures {
            others,
            ..Figures::default()
        };
        let worker = OtherProcesses {
            bytes: Some(5),
            largest: Some(CommandName::new("worker")),
            largest_bytes: Some(5),
        };
        let none = OtherProcesses {
            bytes: Some(0),
            ..OtherProcesses::default()
        };
        let mut usage = Usage::default();
        let readings = [
            OtherProcesses::default(),
            worker,
            OtherProcesses::default(),
            OtherProcesses::default(),
            none,
        ];
        let reported = readings.map(|others| usage.take(with(others)).others);
        assert_eq!(reported, [OtherProcesses::default(), worker, worker, worker, none]);
    }
}
