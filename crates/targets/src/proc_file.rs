//! Bounded reading of a process's files in `/proc`, and parsing of their figures. Reads block.

use std::fs::File;
use std::io::Read as _;

/// Maximum number of bytes that are read of `status`, `stat` and `/proc/meminfo`.
pub const MAX_STATUS_BYTES: u64 = 64 << 10;
/// Maximum number of bytes that are read of `maps`. By default, the kernel allows 65,530 mappings.
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

/// Returns a number in `status` or `meminfo`, or `None` if there is no such line. Memory is in KiB. `key` includes the
/// colon.
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

/// Returns a figure of `/proc/meminfo`, in bytes, or `None` if it is missing. `key` includes the colon.
pub fn meminfo(key: &str) -> Option<u64> {
    let info = text(File::open("/proc/meminfo").ok()?, MAX_STATUS_BYTES)?;
    count(&info, key)?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: figures are parsed from files of the kernel, from lines without a figure, from `status` with and
    /// without swap, and from an old kernel's `status` without these figures.
    /// Guarantee: figures are matched by their whole name; missing figures are unknown and not zero; swapped memory is
    /// included.
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
}
