//! What is the same for all processes of this host, and what its clocks show.

use std::fs::File;
use std::sync::LazyLock;

use base::time::Moment;
use gc_rules::field::HostFacts;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::clock::Clocks;
use crate::proc_file::{MAX_STATUS_BYTES, count, text};
use processes::text::bounded;

const MAX_BYTES: u64 = 4 << 10;

/// Length of a clock tick of `/proc` in nanoseconds, fixed in the interface of Linux.
pub(crate) const TICK_NS: i128 = 10_000_000;

/// What the host has to do now; blocking, but only local files of the system.
pub fn pressure() -> HostFacts {
    let text = |path: &str| text(File::open(path).ok()?, MAX_STATUS_BYTES);
    let is_limited = text("/proc/sys/vm/overcommit_memory").is_some_and(|mode| mode.trim() == NEVER_OVERCOMMIT);
    let meminfo = is_limited.then(|| text("/proc/meminfo")).flatten();
    let (committed_as, commit_limit) = commitment(meminfo.as_deref().unwrap_or_default());
    HostFacts {
        load: text("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        cpus: text("/sys/devices/system/cpu/online").and_then(|text| online(&text)),
        committed_as,
        commit_limit,
    }
}

/// Value of `vm.overcommit_memory` with which the kernel refuses allocations beyond the commit limit.
const NEVER_OVERCOMMIT: &str = "2";

/// Committed memory and its limit by the text of `/proc/meminfo`, in bytes.
fn commitment(meminfo: &str) -> (Option<u64>, Option<u64>) {
    let bytes = |key| count(meminfo, key)?.checked_mul(1024);
    (bytes("Committed_AS:"), bytes("CommitLimit:"))
}

/// How many CPUs a list of the kernel's names: `0-3,8`.
fn online(list: &str) -> Option<u64> {
    let each = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    each.sum()
}

/// What is the same for all processes of this host. `None`: it cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// Its name, as we see it; on Kubernetes the node's.
    pub(crate) name: Option<String>,
    /// The machine's id: `/etc/machine-id`.
    pub(crate) id: Option<String>,
    /// Which boot it is: distinguishes two processes with one pid and one start time after boot.
    pub(crate) boot_id: Option<String>,
    /// Its architecture in the words of the semantic conventions.
    pub(crate) arch: &'static str,
    /// When it was booted, Unix nanoseconds: read once, so that start times of processes do not waver.
    pub(crate) booted_unix_ns: i128,
}

impl Host {
    /// Reads it; blocking, but only local files of the system.
    pub(crate) fn read() -> Self {
        let line = |path: &str| {
            let text = text(File::open(path).ok()?, MAX_BYTES)?;
            Some(bounded(text.trim())).filter(|text| !text.is_empty())
        };
        Self {
            // A pod has a host name of its own.
            name: node_name().or_else(|| line("/proc/sys/kernel/hostname")),
            id: line("/etc/machine-id").or_else(|| line("/var/lib/dbus/machine-id")),
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            arch: match std::env::consts::ARCH {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                "arm" => "arm32",
                other => other,
            },
            booted_unix_ns: nanoseconds(clock_gettime(ClockId::Realtime))
                - nanoseconds(clock_gettime(ClockId::Boottime)),
        }
    }
}

/// The name of the node that this pod is on, as the manifests say it.
fn node_name() -> Option<String> {
    let name = std::env::var("NODE_NAME").ok()?;
    Some(bounded(name.trim())).filter(|name| !name.is_empty())
}

/// How far apart two readings of one clock may be that have one of the other in between: more is a thread that had no
/// CPU.
const AT_ONCE_NS: i128 = 1_000_000;

/// What CLOCK_MONOTONIC showed less than the wall clock when gcwatch started: [`Moment`]s began as Unix time, so that
/// the ten seconds that a history is in are those of the wall clock, unless that is set.
static ORIGIN_NS: LazyLock<i128> =
    LazyLock::new(|| nanoseconds(clock_gettime(ClockId::Realtime)) - nanoseconds(clock_gettime(ClockId::Monotonic)));

/// The instant.
pub fn now() -> Moment {
    let now = nanoseconds(clock_gettime(ClockId::Monotonic)) + *ORIGIN_NS;
    Moment::from_ns(u64::try_from(now).unwrap_or(0))
}

/// Returns the time at which a process started. `start_time`: field 22 of its `stat`, in ticks since the boot.
pub fn started(start_time: u64) -> Moment {
    let age_ns = nanoseconds(clock_gettime(ClockId::Boottime)) - i128::from(start_time) * TICK_NS;
    now().before(u64::try_from(age_ns).unwrap_or(0))
}

/// What the host's clocks show now.
pub fn clocks() -> Clocks {
    let mut read = 0;
    loop {
        // The wall clock is read between two readings of the other: their middle is its instant.
        let before = nanoseconds(clock_gettime(ClockId::Monotonic));
        let unix_ns = nanoseconds(clock_gettime(ClockId::Realtime));
        let after = nanoseconds(clock_gettime(ClockId::Monotonic));
        read += 1;
        if after - before <= AT_ONCE_NS || read == 5 {
            return Clocks {
                monotonic_ns: (before + after) / 2,
                unix_ns,
                origin_ns: *ORIGIN_NS,
            };
        }
    }
}

fn nanoseconds(time: Timespec) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: lists of the kernel's, as of hosts with one CPU, with several, and with gaps; and text that is none.
    /// Guarantee: CPUs are counted, and what is no list is unknown. This very host has a load and CPUs.
    #[test]
    fn cpus_are_counted() {
        assert_eq!(["0\n", "0-3\n", "0-1,4,6-7\n"].map(online), [Some(1), Some(4), Some(5)]);
        assert_eq!(["", "x", "3-1", "0-18446744073709551615"].map(online), [None; 4]);
        let host = pressure();
        assert!(
            host.load.is_some() && host.cpus.is_some_and(|cpus| cpus > 0),
            "{host:?}"
        );
        assert_eq!(host.committed_as.is_some(), host.commit_limit.is_some());
    }

    /// Scenario: `meminfo` with and without the figures of the commit limit.
    /// Guarantee: committed memory and its limit are in bytes, or unknown.
    #[test]
    fn commit_limit_is_read() {
        let meminfo = "MemFree: 1 kB\nCommitLimit:    12342044 kB\nCommitted_AS:     210336 kB\n";
        assert_eq!(commitment(meminfo), (Some(210_336 << 10), Some(12_342_044 << 10)));
        assert_eq!(commitment(""), (None, None));
    }
}
