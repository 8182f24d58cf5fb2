//! Reads figures of a process from `/proc`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Ticks per second in `/proc`.
const USER_HZ: u64 = 100;

/// Returns the CPU time of a process with all its threads, user and system, or `None` if the process has exited. Linux
/// counts CPU time in ticks of 10 ms.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(entry(pid, "stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // Read fields 14 and 15. Field 3 is the first field after the name.
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1000 / USER_HZ))
}

/// Returns a number of `/proc/PID/status`: `VmRSS` and `VmHWM` in KiB, `Threads`. Returns `None` if the process has
/// exited.
pub(crate) fn status(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(entry(pid, "status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the number of open file descriptors, and the number of sockets among them, or `None` if the process has
/// exited.
pub(crate) fn descriptors(pid: u32) -> Option<(usize, usize)> {
    let links: Vec<PathBuf> = fs::read_dir(entry(pid, "fd"))
        .ok()?
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .collect();
    let sockets = links
        .iter()
        .filter(|link| link.to_string_lossy().starts_with("socket:"));
    Some((links.len(), sockets.count()))
}

/// Describes the machine of the measurement: processor, cores, kernel, memory.
pub(crate) fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models = || cpus.lines().filter(|line| line.starts_with("model name"));
    let model = models()
        .next()
        .and_then(|line| line.split_once(": "))
        .map_or("unknown", |(_, model)| model);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: u64 = memory
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0);
    let (cores, gib) = (models().count(), kib >> 20);
    format!("{cores} cores of {model}, {gib} GiB, Linux {}", kernel.trim())
}

fn entry(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}
