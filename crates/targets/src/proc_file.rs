//! Bounded reading of the kernel's files of a process, and the figures in them. Blocking.

use std::fs::File;
use std::io::Read as _;

/// Bytes of `status`, `stat` and `/proc/meminfo`, at most.
pub const MAX_STATUS_BYTES: u64 = 64 << 10;
/// Bytes of `maps`, at most: a process may have 65,530 mappings by the kernel's default.
pub(crate) const MAX_MAPS_BYTES: u64 = 32 << 20;

/// The first bytes of a file, as text; `None`: it cannot be read.
pub(crate) fn text(file: File, limit: u64) -> Option<String> {
    Some(String::from_utf8_lossy(&bytes(file, limit)?).into_owned())
}

/// The first bytes of a file; `None`: it cannot be read.
pub(crate) fn bytes(file: File, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The real user of a process; `None`: it is gone. The owner of its folder in `/proc` would be root for one that cannot
/// be traced.
pub(crate) fn uid_of(pid: u32) -> Option<u32> {
    u32::try_from(count(&of_process(pid, "status", MAX_STATUS_BYTES)?, "Uid:")?).ok()
}

/// A file of a process's folder in `/proc`.
pub fn of_process(pid: u32, name: &str, limit: u64) -> Option<String> {
    text(File::open(format!("/proc/{pid}/{name}")).ok()?, limit)
}

/// A number of `status` or `meminfo`, of memory in KiB; `key` with its colon.
pub(crate) fn count(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// The process's anonymous memory by its `status`, with what is swapped out, bytes.
pub fn anonymous(status: &str) -> Option<u64> {
    let swapped = count(status, "VmSwap:").unwrap_or(0);
    count(status, "RssAnon:")?.checked_add(swapped)?.checked_mul(1024)
}

/// The soft limit of the address space by the text of `limits`, in bytes; `None` if it is unlimited.
pub(crate) fn address_space_limit(limits: &str) -> Option<u64> {
    let values = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    values.split_ascii_whitespace().next()?.parse().ok()
}

/// A figure of `/proc/meminfo`, bytes.
pub fn meminfo(key: &str) -> Option<u64> {
    let info = text(File::open("/proc/meminfo").ok()?, MAX_STATUS_BYTES)?;
    count(&info, key)?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the kernel's files, lines without a figure, `status` with and without swap, and of a kernel that has no
    /// such figures.
    /// Guarantee: a figure is found by its whole name, and one that is not there is unknown, not zero; what is swapped
    /// out counts.
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
        assert!(of_process(std::process::id(), "status", 1 << 10).is_some_and(|text| text.len() <= 1 << 10));
    }

    /// Scenario: `limits` of processes with and without a limit of the address space, and text that is cut.
    /// Guarantee: the soft limit is known in bytes; no limit is unknown.
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
