//! The user that a process runs as.

/// The real user of a process; `None`: it is gone. Blocking. The owner of its folder in `/proc` would be root for one
/// that cannot be traced.
pub(crate) fn uid_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    uids.split_whitespace().next()?.parse().ok()
}
