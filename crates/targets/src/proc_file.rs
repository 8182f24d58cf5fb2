//! Bounded reading of a process's files in `/proc`, and parsing of their figures. Reads block the calling thread.

use std::fs::File;
use std::io::Read as _;

/// Maximum number of bytes that are read from `status`, `stat` and `/proc/meminfo`.
pub const MAX_STATUS_BYTES: u64 = 64 << 10;
/// Maximum number of bytes that are read from `maps`. By default, the kernel allows 65,530 mappings.
pub(crate) const MAX_MAPS_BYTES: u64 = 32 << 20;

/// Returns the first `limit` bytes of a file as text, or `None` if the file is not readable.
pub(crate) fn text(file: File, limit: u64) -> Option<String> {
    Some(String::from_utf8_lossy(&bytes(file, limit)?).into_owned())
}

/// Returns the first `limit` bytes of a file, or `None` if the file is not readable.
pub(crate) fn bytes(file: File, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the real user of a process, or `None` if the process has exited. The owner of the folder in `/proc` is not
/// used, because it is root for processes that cannot be traced.
pub(crate) fn uid_of(pid: u32) -> Option<u32> {
    u32::try_from(count(&read_process_file(pid, "status", MAX_STATUS_BYTES)?, "Uid:")?).ok()
}

/// Reads the first `limit` bytes of a file in a process's folder in `/proc`. Returns `None` if the file is not
/// readable.
pub fn read_process_file(pid: u32, name: &str, limit: u64) -> Option<String> {
    text(File::open(format!("/proc/{pid}/{name}")).ok()?, limit)
}

/// Returns a number in `status` or `meminfo`, or `None` if the line or its number is missing. Memory is in KiB. `key`
/// includes the colon.
pub(crate) fn count(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the process's anonymous memory according to `status`, including swapped memory, in bytes, or `None` if the
/// figure is missing.
pub fn anonymous(status: &str) -> Option<u64> {
    let swapped = count(status, "VmSwap:").unwrap_or(0);
    count(status, "RssAnon:")?.checked_add(swapped)?.checked_mul(1024)
}

/// Returns the soft limit of the address space in the text of `limits`, in bytes, or `None` if the address space is
/// unlimited or the limit is missing.
pub(crate) fn address_space_limit(limits: &str) -> Option<u64> {
    let values = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    values.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns a figure of `/proc/meminfo`, in bytes, or `None` if the figure is missing. `key` includes the colon.
pub fn meminfo(key: &str) -> Option<u64> {
    let info = text(File::open("/proc/meminfo").ok()?, MAX_STATUS_BYTES)?;
    count(&info, key)?.checked_mul(1024)
}

/// Returns the CPU time of a process in nanoseconds, from the fields `utime` and `stime` of `/proc/PID/stat`, or `None`
/// if the file is damaged.
pub(crate) fn cpu_ns(stat: &str, ticks_per_second: u64) -> Option<u64> {
    // The name of the program is in parentheses and can itself contain parentheses, so parsing starts after the last
    // one.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    user.checked_add(system)?
        .checked_mul(1_000_000_000 / ticks_per_second.max(1))
}

/// Returns the number of CPUs on which a process may run, from a line of `/proc/PID/status` such as
/// `Cpus_allowed_list: 0-3,8`. Returns `None` if the line is missing or damaged.
pub(crate) fn allowed_cpus(status: &str) -> Option<u32> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut count: u32 = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: figures are parsed from files of the kernel, from lines without a figure, from `status` with and
    /// without swap, and from an old kernel's `status` without these figures.
    /// Guarantee: figures are matched by their complete name; missing figures are unknown and not zero; swapped memory
    /// is included.
    #[test]
    fn figures_are_found_by_name() {
        let status = "Name:\tx\nVmRSS:\t  900 kB\nRssAnon:\t    123 kB\nVmSwap:\t 7 kB\nVmHWM:\n";
        assert_eq!(
            (count(status, "RssAnon:"), count(status, "RssShmem:")),
            (Some(123), None)
        );
        assert_eq!(count(status, "VmHWM:"), None);
        assert_eq!(anonymous(status), Some(130 << 10));
        assert_eq!(anonymous("RssAnon:\t  100 kB\n"), Some(100 << 10));
        assert_eq!(anonymous("VmRSS:\t  100 kB\n"), None);
        assert!(meminfo("MemTotal:").is_some_and(|bytes| bytes > 1 << 20));
        assert!(read_process_file(std::process::id(), "status", 1 << 10).is_some_and(|text| text.len() <= 1 << 10));
    }

    /// Scenario: `limits` of processes with and without a limit of the address space, and a truncated text, are parsed.
    /// Guarantee: the soft limit is in bytes, and a missing limit is `None`.
    #[test]
    fn address_space_limit_is_the_soft_limit() {
        let limits = |value: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units\nMax address space         {value}\n"
            )
        };
        let limit = |value: &str| address_space_limit(&limits(value));
        assert_eq!(limit("8589934592           unlimited            bytes"), Some(8 << 30));
        assert_eq!(limit("unlimited            unlimited            bytes"), None);
        assert_eq!((limit(""), address_space_limit("")), (None, None));
    }

    /// Scenario: files of `/proc` are parsed: as the kernel writes them, with a parenthesis in the name of the program,
    /// truncated, with a reversed range of CPUs, or without the line.
    /// Guarantee: the CPU time and the number of CPUs are parsed; damaged and incomplete files yield `None`.
    #[test]
    fn cpu_of_process_is_parsed() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 2 0 0 0 250 50 0 0 20 0 30 0 123 456 789";
        assert_eq!(cpu_ns(stat, 100), Some(3_000_000_000));
        assert_eq!(cpu_ns("7 (a) S 1 7", 100), None);
        assert_eq!(allowed_cpus("Name:\tx\nCpus_allowed_list:\t0-3,8\n"), Some(5));
        assert_eq!(allowed_cpus("Cpus_allowed_list:\t3-1\n"), None);
        assert_eq!(allowed_cpus("Name:\tx\n"), None);
    }
}
