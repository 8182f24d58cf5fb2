//! Limits and usage of a container at one moment.

use rule_engine::field::{CommandName, ContainerFacts};

/// Memory of a group and the groups below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in use, including pages of files that the group read.
    pub usage: Option<u64>,
    /// Bytes in use that cannot be freed immediately: the usage without pages of files that were not used recently.
    pub working_set: Option<u64>,
    /// Number of processes killed because the limit was reached, since the group was created.
    pub oom_kills: Option<u64>,
    /// Number of times the limit was reached.
    pub limit_hits: Option<u64>,
    /// Number of times a process was slowed down because the group exceeded `memory.high`. Version 2 only.
    pub high_events: Option<u64>,
    /// Memory that the kernel cannot reclaim, in bytes: the usage without [`page_cache`](Self::page_cache) and
    /// reclaimable kernel memory. Version 1 does not report the reclaimable part of kernel memory, so this value
    /// excludes all kernel memory there. The value is then a lower bound, so that no alert is based on an estimate.
    pub held: Option<u64>,
    /// Anonymous pages, in bytes.
    pub anonymous: Option<u64>,
    /// Files in memory (tmpfs, shared memory), in bytes. The kernel cannot reclaim these pages without swap.
    pub shmem: Option<u64>,
    /// Reclaimable pages of files on disk, in bytes. Files in memory and locked pages are not on the lists that this
    /// value sums up.
    pub page_cache: Option<u64>,
    /// Kernel memory of the group, in bytes. Version 1 reports this value only if the kernel counts the kernel memory
    /// of groups.
    pub kernel: Option<u64>,
    /// Part of the kernel memory that the kernel reclaims by itself (cached directory entries and inodes), in bytes.
    pub kernel_reclaimable: Option<u64>,
    /// Whether the reclaimable part is an estimate ([`estimate_kernel`](Self::estimate_kernel)).
    pub kernel_is_estimated: bool,
    /// Number of processes in the group; `None` if there are groups below the group.
    pub processes: Option<u64>,
}

impl Memory {
    /// Divides the kernel memory of version 1, which the kernel does not divide. The group is assumed to have the same
    /// share of reclaimable memory as the host.
    ///
    /// The estimate is accurate when it matters. A group with much kernel memory has a large part of the kernel memory
    /// of the host, so its share of reclaimable memory is close to the share of the host. The alternative is the kernel
    /// memory without stacks and page tables of the processes, which would count sockets and open files as reclaimable.
    pub(super) fn estimate_kernel(&mut self, share_of_host: Option<f64>) {
        if self.kernel_reclaimable.is_none()
            && let Some((all, share)) = self.kernel.zip(share_of_host)
        {
            self.kernel_reclaimable = Some(part(all, share));
            self.kernel_is_estimated = true;
        }
    }

    /// Returns the kernel memory that cannot be reclaimed, in bytes, or `None` if the kernel memory is unknown. An
    /// unknown reclaimable part counts as 0.
    pub(super) fn kernel_held(&self) -> Option<u64> {
        Some(self.kernel?.saturating_sub(self.kernel_reclaimable.unwrap_or(0)))
    }

    /// Returns a value that depends on the reclaimable part of kernel memory, or `None` if this part is unknown or an
    /// estimate.
    fn unless_estimated(&self, bytes: Option<u64>) -> Option<u64> {
        bytes.filter(|_| self.kernel_reclaimable.is_some() && !self.kernel_is_estimated)
    }
}

/// Returns a share of an amount, 0 to 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the share is between 0 and 1"
)]
fn part(all: u64, share: f64) -> u64 {
    ((all as f64 * share.clamp(0.0, 1.0)) as u64).min(all)
}

/// Private memory of the other processes in a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtherProcesses {
    /// Sum of their private memory, resident or swapped out, in bytes.
    pub bytes: Option<u64>,
    /// Name of the process with the most private memory; `None` if there is no other process or the processes were not
    /// read.
    pub largest: Option<CommandName>,
    /// Private memory of that process, in bytes.
    pub largest_bytes: Option<u64>,
}

/// CPU throttling of a group. The kernel counts it if the group has a quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Number of quota periods in which a process ran, since the group was created.
    pub periods: Option<u64>,
    /// Number of periods in which the quota was used up and the group was CPU-throttled.
    pub throttled_periods: Option<u64>,
    /// Throttled time in nanoseconds, summed over CPUs.
    pub throttled_ns: Option<u64>,
}

/// Limits and usage of a container. `None` means unknown or no limit.
///
/// A process outside containers has the figures of its control group.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// The lowest memory limit that applies to the process within its container, in bytes.
    pub memory_limit: Option<u64>,
    /// Memory of the group with this limit, or of the container if there is no limit.
    pub memory: Memory,
    /// Other processes in that group; unknown if they were not read.
    pub others: OtherProcesses,
    /// Number of CPUs that the process can use, according to the smallest quota within its container.
    pub cpu_limit: Option<f64>,
    /// CPU throttling of the group with this limit; unknown without a limit.
    pub cpu: Cpu,
    /// Share of the periods between the last two readings that were throttled, 0 to 1.
    pub throttled_ratio: Option<f64>,
}

impl Figures {
    /// Returns the figures with the values that depend on the previous reading.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        let grown = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?);
        let periods = grown(self.cpu.periods, before.cpu.periods);
        let throttled = grown(self.cpu.throttled_periods, before.cpu.throttled_periods);
        self.throttled_ratio = match (periods, throttled) {
            // No process ran, and none was kept from running.
            (Some(0), Some(0)) => Some(0.0),
            // The kernel does not update the two counters at the same instant, so their quotient can exceed 1.
            (Some(periods @ 1..), Some(throttled)) => Some((throttled as f64 / periods as f64).min(1.0)),
            _ => None,
        };
        self
    }
}

/// The facts about a container for the rules.
impl From<&Figures> for ContainerFacts {
    fn from(figures: &Figures) -> Self {
        Self {
            memory_usage: figures.memory.usage,
            memory_working_set: figures.memory.working_set,
            memory_held: figures.memory.held,
            memory_shmem: figures.memory.shmem,
            memory_kernel: figures.memory.unless_estimated(figures.memory.kernel_held()),
            memory_kernel_reclaimable: figures.memory.unless_estimated(figures.memory.kernel_reclaimable),
            other_processes: figures.others.bytes,
            largest_other: figures.others.largest,
            largest_other_bytes: figures.others.largest_bytes,
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

    /// Scenario: successive readings are of a busy group, an idle group, a group that was recreated, and a group
    /// without counters.
    /// Guarantee: the share covers the time between the readings, is unknown if it cannot be computed, and is 0 for an
    /// idle group.
    #[test]
    fn throttled_share_covers_time_between_readings() {
        let ratio = |now: Figures, before: Figures| now.after(&before).throttled_ratio;
        assert_eq!(ratio(counted(110, 30), counted(100, 25)), Some(0.5));
        assert_eq!(ratio(counted(100, 25), counted(100, 25)), Some(0.0));
        assert_eq!(ratio(counted(5, 1), counted(100, 25)), None);
        assert_eq!(ratio(counted(5, 1), Figures::default()), None);
        assert_eq!(ratio(counted(101, 27), counted(100, 25)), Some(1.0));
    }
}
