//! Properties of this host, shared by all its processes, and its clocks.

use std::fs::File;
use std::sync::LazyLock;

use base::time::Moment;
use rule_engine::field::HostFacts;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::clock::Clocks;
use crate::proc_file::{MAX_STATUS_BYTES, count, text};
use processes::text::bounded;

const MAX_BYTES: u64 = 4 << 10;

/// Length of a clock tick in `/proc`, in nanoseconds. Fixed in the Linux ABI.
pub(crate) const TICK_NS: i128 = 10_000_000;

/// Returns the current load of the host. Blocks the calling thread, but reads only local system files.
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

/// Returns the committed memory and its limit in `/proc/meminfo`, in bytes.
fn commitment(meminfo: &str) -> (Option<u64>, Option<u64>) {
    let bytes = |key| count(meminfo, key)?.checked_mul(1024);
    (bytes("Committed_AS:"), bytes("CommitLimit:"))
}

/// Returns the number of CPUs in a kernel list such as `0-3,8`, or `None` if the list is invalid.
fn online(list: &str) -> Option<u64> {
    let each = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    each.sum()
}

/// Properties of this host. A field is `None` if it is not readable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// Host name as visible to gcwatch; on Kubernetes, the name of the node.
    pub(crate) name: Option<String>,
    /// Machine id from `/etc/machine-id`.
    pub(crate) id: Option<String>,
    /// Id of the boot. Distinguishes processes with equal pid and start time after different boots.
    pub(crate) boot_id: Option<String>,
    /// CPU architecture, in the terms of the semantic conventions.
    pub(crate) arch: &'static str,
    /// Time of the boot, in Unix nanoseconds. Read once, so that start times of processes are stable.
    pub(crate) booted_unix_ns: i128,
}

impl Host {
    /// Reads the properties. Blocks the calling thread, but reads only local system files.
    pub(crate) fn read() -> Self {
        let line = |path: &str| {
            let text = text(File::open(path).ok()?, MAX_BYTES)?;
            Some(bounded(text.trim())).filter(|text| !text.is_empty())
        };
        Self {
            // A pod has its own host name.
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

/// Returns the name of the node on which this pod runs, as set by the manifests. Returns `None` if the variable is not
/// set, as outside Kubernetes.
fn node_name() -> Option<String> {
    let name = std::env::var("NODE_NAME").ok()?;
    Some(bounded(name.trim())).filter(|name| !name.is_empty())
}

/// Maximum time between two readings of one clock with a reading of the other clock in between. More means that the
/// thread had no CPU.
const MAX_READING_GAP_NS: i128 = 1_000_000;

/// Offset of the wall clock from CLOCK_MONOTONIC when gcwatch started. A [`Moment`] equals the Unix time until the wall
/// clock is set, so that the ten-second slots of a history match the wall clock.
static ORIGIN_NS: LazyLock<i128> =
    LazyLock::new(|| nanoseconds(clock_gettime(ClockId::Realtime)) - nanoseconds(clock_gettime(ClockId::Monotonic)));

/// Returns the current moment.
pub fn now() -> Moment {
    let now = nanoseconds(clock_gettime(ClockId::Monotonic)) + *ORIGIN_NS;
    Moment::from_ns(u64::try_from(now).unwrap_or(0))
}

/// Returns the time at which a process started. `start_time` is field 22 of its `stat`, in ticks since the boot.
pub fn started(start_time: u64) -> Moment {
    let age_ns = nanoseconds(clock_gettime(ClockId::Boottime)) - i128::from(start_time) * TICK_NS;
    now().before(u64::try_from(age_ns).unwrap_or(0))
}

/// Returns the current values of the host's clocks.
pub fn clocks() -> Clocks {
    let mut read = 0;
    loop {
        // The wall clock is read between two readings of the other clock, whose mean is the instant of the reading.
        let before = nanoseconds(clock_gettime(ClockId::Monotonic));
        let unix_ns = nanoseconds(clock_gettime(ClockId::Realtime));
        let after = nanoseconds(clock_gettime(ClockId::Monotonic));
        read += 1;
        if after - before <= MAX_READING_GAP_NS || read == 5 {
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

    /// Scenario: the CPU lists of hosts with one CPU, with several CPUs and with gaps are parsed, and invalid lists;
    /// then this host is read.
    /// Guarantee: CPUs are counted, the number for an invalid list is unknown, and this host has a load and CPUs. The
    /// committed memory of this host is known exactly if its limit is known.
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

    /// Scenario: `meminfo` is parsed with and without the figures of the commit limit.
    /// Guarantee: committed memory and its limit are in bytes, or unknown.
    #[test]
    fn commit_limit_is_read() {
        let meminfo = "MemFree: 1 kB\nCommitLimit:    12342044 kB\nCommitted_AS:     210336 kB\n";
        assert_eq!(commitment(meminfo), (Some(210_336 << 10), Some(12_342_044 << 10)));
        assert_eq!(commitment(""), (None, None));
    }
}
