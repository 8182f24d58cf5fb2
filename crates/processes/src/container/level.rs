//! The files of one control group, of either version.
//!
//! | | Version 2 | Version 1 |
//! |---|---|---|
//! | memory limit | `memory.max` (`max` for none) | `memory.limit_in_bytes` (2^63 minus one page for none) |
//! | usage | `memory.current` | `memory.usage_in_bytes` |
//! | inactive file pages | `memory.stat` inactive_file | `memory.stat` total_inactive_file |
//! | anonymous pages | `memory.stat` anon | `memory.stat` total_rss |
//! | files in memory | `memory.stat` shmem | `memory.stat` total_shmem |
//! | reclaimable pages of files | `memory.stat` active_file, inactive_file | `memory.stat` total_active_file, total_inactive_file |
//! | kernel memory | `memory.stat` kernel (Linux 5.18), or its parts; sock | `memory.kmem.usage_in_bytes` |
//! | reclaimable kernel memory | `memory.stat` slab_reclaimable | - (see [`Memory::estimate_kernel`]) |
//! | processes killed | `memory.events` oom_kill | `memory.oom_control` oom_kill (Linux 4.13) |
//! | limit reached | `memory.events` max | `memory.failcnt` |
//! | slowed down at memory.high | `memory.events` high | - |
//! | CPU limit | `cpu.max` | `cpu.cfs_quota_us` (-1 for none), `cpu.cfs_period_us` |
//! | periods, throttled periods, throttled time | `cpu.stat` nr_periods, nr_throttled, throttled_usec | nr_periods, nr_throttled, throttled_time (ns) |

use super::figures::{Cpu, Memory};

/// A function that reads one file of a group by its name, or returns `None` if the file does not exist.
pub(crate) type ReadFile<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Value at and above which a limit of version 1 means no limit, because no machine has that much memory.
const NO_LIMIT: u64 = 1 << 60;

/// Returns the memory limit of the group itself, in bytes, or `None` if the group has no limit.
pub(crate) fn memory_limit(unified: bool, read: ReadFile<'_>) -> Option<u64> {
    let name = if unified { "memory.max" } else { "memory.limit_in_bytes" };
    number(&read(name)?).filter(|limit| *limit < NO_LIMIT)
}

/// Returns the memory usage of the group and the groups below it.
pub(crate) fn memory(unified: bool, read: ReadFile<'_>) -> Memory {
    let stat = read("memory.stat");
    let stat = |key: &str| value(stat.as_deref()?, key);
    let mut memory = if unified {
        let events = read("memory.events");
        let event = |key: &str| value(events.as_deref()?, key);
        Memory {
            usage: read("memory.current").as_deref().and_then(number),
            oom_kills: event("oom_kill"),
            limit_hits: event("max"),
            high_events: event("high"),
            anonymous: stat("anon"),
            shmem: stat("shmem"),
            kernel: kernel(&stat),
            kernel_reclaimable: stat("slab_reclaimable"),
            ..Memory::default()
        }
    } else {
        let control = read("memory.oom_control");
        Memory {
            usage: read("memory.usage_in_bytes").as_deref().and_then(number),
            oom_kills: control.and_then(|control| value(&control, "oom_kill")),
            limit_hits: read("memory.failcnt").as_deref().and_then(number),
            anonymous: stat("total_rss"),
            shmem: stat("total_shmem"),
            kernel: read("memory.kmem.usage_in_bytes").as_deref().and_then(number),
            ..Memory::default()
        }
    };
    let (idle, active) = if unified {
        (stat("inactive_file"), stat("active_file"))
    } else {
        (stat("total_inactive_file"), stat("total_active_file"))
    };
    let usage = memory.usage;
    let without = |bytes: Option<u64>| Some(usage?.saturating_sub(bytes?));
    memory.working_set = without(idle);
    memory.page_cache = idle.zip(active).map(|(idle, active)| idle.saturating_add(active));
    let reclaimable_kernel = if unified {
        memory.kernel_reclaimable
    } else {
        // The reclaimable part is unknown, so all kernel memory is subtracted. If the file does not exist, the kernel
        // does not charge kernel memory.
        Some(memory.kernel.unwrap_or(0))
    };
    let reclaimable = memory.page_cache.zip(reclaimable_kernel);
    memory.held = without(reclaimable.map(|(files, kernel)| files.saturating_add(kernel)));
    memory
}

/// Returns the kernel memory of a group of version 2. The figure `kernel` excludes network buffers, so `sock` is added.
/// Before Linux 5.18, `kernel` does not exist, and its parts add up to nearly the same figure. Returns `None` if
/// neither exists.
fn kernel(stat: &dyn Fn(&str) -> Option<u64>) -> Option<u64> {
    let parts = || {
        let others = ["kernel_stack", "pagetables", "percpu"].into_iter().filter_map(stat);
        Some(others.fold(stat("slab")?, u64::saturating_add))
    };
    let kernel = stat("kernel").or_else(parts)?;
    Some(kernel.saturating_add(stat("sock").unwrap_or(0)))
}

/// Returns the number of processes in the group itself, or `None` if the file is not readable.
pub(crate) fn processes(read: ReadFile<'_>) -> Option<u64> {
    u64::try_from(read("cgroup.procs")?.lines().count()).ok()
}

/// Returns the number of CPUs that the group can use, or `None` if the group has no quota.
pub(crate) fn cpu_limit(unified: bool, read: ReadFile<'_>) -> Option<f64> {
    let (quota, period) = if unified {
        let text = read("cpu.max")?;
        let (quota, period) = text.trim().split_once(' ')?;
        (number(quota)?, number(period)?)
    } else {
        (
            number(&read("cpu.cfs_quota_us")?)?,
            number(&read("cpu.cfs_period_us")?)?,
        )
    };
    // Both values are in microseconds and far below 2^53.
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// Returns the number of periods and the time in which the group was throttled because its quota was used up.
pub(crate) fn cpu(unified: bool, read: ReadFile<'_>) -> Cpu {
    let stat = read("cpu.stat");
    let stat = |key: &str| value(stat.as_deref()?, key);
    Cpu {
        periods: stat("nr_periods"),
        throttled_periods: stat("nr_throttled"),
        throttled_ns: if unified {
            stat("throttled_usec").and_then(|us| us.checked_mul(1000))
        } else {
            stat("throttled_time")
        },
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Returns the value of the line `KEY VALUE`, or `None` if there is no such line.
fn value(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| number(line.strip_prefix(key)?.strip_prefix(' ')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files<'a>(files: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |wanted| {
            let file = files.iter().find(|(name, _)| *name == wanted)?;
            Some(file.1.to_owned())
        }
    }

    /// Scenario: a group with limits has the files of version 2 as Linux 6 writes them, or the files of version 1.
    /// Guarantee: each value is read, in bytes, nanoseconds and CPUs; keys with a common prefix are distinguished;
    /// values that version 1 does not have are unknown.
    #[test]
    fn files_of_both_versions_are_read() {
        let version_2 = files(&[
            ("memory.max", "536870912\n"),
            ("memory.current", "300000000\n"),
            (
                "memory.stat",
                "anon 180000000\nfile 110000000\nkernel 3000000\nkernel_stack 3\nsock 1000000\nshmem 9000000\n\
                 shmem_thp 1\ninactive_file_x 3\ninactive_file 100000000\nactive_file 500000\n\
                 slab_reclaimable 2500000\nslab_unreclaimable 8\nslab 2500008\n",
            ),
            (
                "memory.events",
                "low 0\nhigh 3\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n",
            ),
            ("cgroup.procs", "7\n12\n"),
            ("cpu.max", "150000 100000\n"),
            (
                "cpu.stat",
                "usage_usec 9\nnr_periods 1000\nnr_throttled 250\nthrottled_usec 1500\n",
            ),
        ]);
        let version_1 = files(&[
            ("memory.limit_in_bytes", "536870912\n"),
            ("memory.usage_in_bytes", "300000000\n"),
            (
                "memory.stat",
                "cache 1\nrss 2\nshmem 3\ninactive_file 7\nactive_file 8\ntotal_cache 110000000\n\
                 total_rss 180000000\ntotal_shmem 9000000\ntotal_inactive_file 100000000\n\
                 total_active_file 500000\n",
            ),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
            ("memory.failcnt", "17\n"),
            ("memory.kmem.usage_in_bytes", "4000000\n"),
            ("cpu.cfs_quota_us", "150000\n"),
            ("cpu.cfs_period_us", "100000\n"),
            (
                "cpu.stat",
                "nr_periods 1000\nnr_throttled 250\nthrottled_time 1500000\n",
            ),
        ]);
        for (unified, read) in [(true, &version_2 as ReadFile<'_>), (false, &version_1)] {
            assert_eq!(memory_limit(unified, read), Some(536_870_912));
            let expected = Memory {
                usage: Some(300_000_000),
                working_set: Some(200_000_000),
                oom_kills: Some(1),
                limit_hits: Some(17),
                high_events: unified.then_some(3),
                held: Some(if unified { 197_000_000 } else { 195_500_000 }),
                anonymous: Some(180_000_000),
                shmem: Some(9_000_000),
                page_cache: Some(100_500_000),
                kernel: Some(4_000_000),
                kernel_reclaimable: unified.then_some(2_500_000),
                kernel_is_estimated: false,
                processes: None,
            };
            assert_eq!(memory(unified, read), expected);
            assert_eq!(cpu_limit(unified, read), Some(1.5));
            let expected = Cpu {
                periods: Some(1000),
                throttled_periods: Some(250),
                throttled_ns: Some(1_500_000),
            };
            assert_eq!(cpu(unified, read), expected);
        }
        assert_eq!(processes(&version_2), Some(2));
    }

    /// Scenario: there are no limits, in the notation of both versions; files are missing or empty.
    /// Guarantee: every value is `None`.
    #[test]
    fn missing_values_are_unknown() {
        let none = files(&[
            ("memory.max", "max\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("cpu.max", "max 100000\n"),
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
            ("cpu.stat", ""),
        ]);
        let absent = files(&[]);
        for unified in [true, false] {
            for read in [&none as ReadFile<'_>, &absent] {
                assert_eq!(memory_limit(unified, read), None);
                assert_eq!(cpu_limit(unified, read), None);
                assert_eq!(memory(unified, read), Memory::default());
                assert_eq!(cpu(unified, read), Cpu::default());
            }
        }
    }
}
