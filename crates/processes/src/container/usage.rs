//! The figures of one run over time: counters from the first reading on, shares between two readings.

use super::figures::{Cpu, Figures, Memory};

/// What is remembered of a run's figures. Counters of a group go back when it is made anew; those reported never do.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// As they were read last.
    last: Option<Figures>,
    /// As they are reported.
    reported: Figures,
}

impl Usage {
    /// Takes a reading. The newest figures; counters count from the first reading on.
    pub fn take(&mut self, now: Figures) -> Figures {
        let before = self.last.unwrap_or_default();
        let reported = self.reported;
        // From the first time on that it is known.
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
            // They are not read in every round.
            others: if now.others.bytes.is_some() {
                now.others
            } else {
                before.others
            },
            ..now.after(&before)
        };
        // The next reading may have no others.
        self.last = Some(Figures {
            others: self.reported.others,
            ..now
        });
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use gc_rules::field::CommandName;

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

    /// Scenario: a counter that stands at 5 when it is read first, grows, begins anew, and is not there for a while.
    /// Guarantee: what is reported begins at 0, never falls, and is unknown while it is not there; gauges are as they
    /// are.
    #[test]
    fn counters_are_from_the_first_reading_on() {
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

    /// Scenario: readings with the other processes, without them twice, and with them when the last one has exited.
    /// Guarantee: the newest figures of the other processes are reported until newer ones are read.
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
