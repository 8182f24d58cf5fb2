//! What a container may use and does use, at one moment.

use gc_rules::field::ContainerFacts;

/// The memory of a group and those below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in use, with the pages of files that it read.
    pub usage: Option<u64>,
    /// The same without pages of files that were not used lately: what cannot be freed at once.
    pub working_set: Option<u64>,
    /// Processes that were killed because the limit was met, since the group was made.
    pub oom_kills: Option<u64>,
    /// How often the limit was met.
    pub limit_hits: Option<u64>,
    /// How often a process was slowed down because the group was over `memory.high`. Version 2 only.
    pub high_events: Option<u64>,
    /// Bytes of anonymous pages.
    pub anonymous: Option<u64>,
    /// Bytes of pages of files, with files in memory.
    pub file: Option<u64>,
    /// Bytes of the kernel itself for the group. Version 1 has them where it counts them.
    pub kernel: Option<u64>,
    /// Processes in it; unknown where it has groups below it.
    pub processes: Option<u64>,
}

/// How a group was kept from the CPU. The kernel counts it where the group has a quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Periods of the quota in which something ran, since the group was made.
    pub periods: Option<u64>,
    /// Those of them in which the quota was used up and the group was CPU-throttled.
    pub throttled_periods: Option<u64>,
    /// For how long it was CPU-throttled, nanoseconds, summed over its CPUs.
    pub throttled_ns: Option<u64>,
}

/// What a container may use and does use. `None`: unknown, or there is no limit.
///
/// A process that is in no container has the figures of its control group.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// The smallest memory limit that holds for the process within its container, bytes.
    pub memory_limit: Option<u64>,
    /// The memory of the group that has this limit; without one, of the container.
    pub memory: Memory,
    /// The fewest CPUs that the process may use by the quotas within its container.
    pub cpu_limit: Option<f64>,
    /// Of the group that has this limit; unknown without one.
    pub cpu: Cpu,
    /// Which share of the periods between the last two readings was throttled, 0 to 1.
    pub throttled_ratio: Option<f64>,
}

impl Figures {
    /// The same with what only the reading before it makes known.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        let grown = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?);
        let periods = grown(self.cpu.periods, before.cpu.periods);
        let throttled = grown(self.cpu.throttled_periods, before.cpu.throttled_periods);
        self.throttled_ratio = match (periods, throttled) {
            // Nothing ran, and nothing was kept from running.
            (Some(0), Some(0)) => Some(0.0),
            // The two counters are not read at the same instant of all CPUs.
            (Some(periods @ 1..), Some(throttled)) => Some((throttled as f64 / periods as f64).min(1.0)),
            _ => None,
        };
        self
    }
}

/// What rules know of a container.
impl From<&Figures> for ContainerFacts {
    fn from(figures: &Figures) -> Self {
        Self {
            memory_usage: figures.memory.usage,
            memory_working_set: figures.memory.working_set,
            oom_kills: figures.memory.oom_kills,
            memory_limit_hits: figures.memory.limit_hits,
            memory_high_events: figures.memory.high_events,
            cpu_periods: figures.cpu.periods,
            throttled_periods: figures.cpu.throttled_periods,
            throttled_ns: figures.cpu.throttled_ns,
            throttled_ratio: figures.throttled_ratio,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(periods: u64, throttled_periods: u64) -> Figures {
        Figures {
            cpu: Cpu {
                periods: Some(periods),
                throttled_periods: Some(throttled_periods),
                throttled_ns: None,
            },
            ..Figures::default()
        }
    }

    /// Scenario: readings one after the other: busy, idle, of a group that was made anew, and one without counters.
    /// Guarantee: the share is that of the time between; what cannot be computed is unknown, and idle is none
    /// throttled.
    #[test]
    fn the_share_is_of_the_time_between() {
        let ratio = |now: Figures, before: Figures| now.after(&before).throttled_ratio;
        assert_eq!(ratio(counted(110, 30), counted(100, 25)), Some(0.5));
        assert_eq!(ratio(counted(100, 25), counted(100, 25)), Some(0.0));
        assert_eq!(ratio(counted(5, 1), counted(100, 25)), None);
        assert_eq!(ratio(counted(5, 1), Figures::default()), None);
        assert_eq!(ratio(counted(101, 27), counted(100, 25)), Some(1.0));
    }
}
