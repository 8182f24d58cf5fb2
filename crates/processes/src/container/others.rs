//! Private memory of the other processes in a control group, and the largest of these processes.
//!
//! The processes of a group and of the groups below it are read once per round, for all processes of the group. The
//! walk reads at most [`MAX_GROUPS`] groups and a given number of processes. If some are omitted, the sum is a lower
//! bound.

use std::fs::File;
use std::os::fd::OwnedFd;

use base::text::shown;
use rule_engine::field::CommandName;

use super::figures::OtherProcesses;
use super::group::{MAX_FILE_BYTES, children, file, text};

/// Maximum number of groups of one walk.
const MAX_GROUPS: usize = 64;

/// A process of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    pid: u32,
    name: CommandName,
    /// Private memory, resident or swapped out, in bytes.
    private: u64,
}

/// The processes of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Members {
    members: Vec<Member>,
    /// Whether the group has more processes or groups than were read.
    is_cut: bool,
}

impl Members {
    /// Reads at most `max_processes` processes of a group and of the groups below it. Blocks the calling thread.
    pub(super) fn read(group: &OwnedFd, max_processes: usize) -> Self {
        let (pids, is_cut) = pids(group, max_processes);
        let status = |pid: u32| text(File::open(format!("/proc/{pid}/status")).ok()?, MAX_FILE_BYTES);
        let members = pids.into_iter().filter_map(|pid| Member::parse(pid, &status(pid)?));
        Self {
            members: members.collect(),
            is_cut,
        }
    }

    /// Returns whether the group has more processes or groups than were read.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the memory of all processes except `pid`.
    pub(super) fn others(&self, pid: u32) -> OtherProcesses {
        let others = self.members.iter().filter(|member| member.pid != pid);
        let largest = others.clone().max_by_key(|member| member.private);
        OtherProcesses {
            bytes: Some(others.fold(0, |sum, member| sum.saturating_add(member.private))),
            largest: largest.map(|member| member.name),
            largest_bytes: largest.map(|member| member.private),
        }
    }
}

impl Member {
    /// Parses the `status` of a process. Returns `None` for kernel threads and processes that have exited.
    fn parse(pid: u32, status: &str) -> Option<Self> {
        let value = |key: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        };
        let kib = |key: &str| value(key)?.split_ascii_whitespace().next()?.parse::<u64>().ok();
        let private = kib("RssAnon")?.saturating_add(kib("VmSwap").unwrap_or(0));
        // The kernel escapes a backslash as two. Escaped line ends stay two characters.
        let name = value("Name")?.trim_start_matches('\t').replace("\\\\", "\\");
        Some(Self {
            pid,
            name: CommandName::new(&shown(&name)),
            private: private.saturating_mul(1024),
        })
    }
}

/// Returns the processes of a group and of the groups below it, and whether some are omitted.
fn pids(group: &OwnedFd, max_processes: usize) -> (Vec<u32>, bool) {
    let (below, is_cut) = groups_below(group);
    let mut pids: Vec<u32> = Vec::new();
    for folder in std::iter::once(group).chain(&below) {
        let text = file(folder, "cgroup.procs").unwrap_or_default();
        // Processes that the reader's pid namespace does not contain have number 0.
        for pid in text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0) {
            if pids.len() >= max_processes {
                return (pids, true);
            }
            pids.push(pid);
        }
    }
    (pids, is_cut)
}

/// Returns the groups below a group, the nearest first, and whether some are omitted.
fn groups_below(group: &OwnedFd) -> (Vec<OwnedFd>, bool) {
    let (mut groups, mut is_cut) = children(group, MAX_GROUPS - 1);
    let mut next = 0;
    while let Some(folder) = groups.get(next) {
        let (below, cut) = children(folder, MAX_GROUPS - 1 - groups.len());
        is_cut |= cut;
        groups.extend(below);
        next += 1;
    }
    (groups, is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: &str = "Name:\tworker\nUmask:\t0022\nVmRSS:\t  900 kB\nRssAnon:\t    100 kB\nRssFile:\t 800 kB\n\
                          VmSwap:\t 28 kB\n";

    /// Scenario: the `status` of a process with swapped memory, of a process with a deceptive name, of a kernel thread,
    /// and an incomplete `status` are parsed. The figures of another process exceed 64 bits.
    /// Guarantee: private memory includes swapped memory and does not overflow, the name is safe to show and at most 15
    /// bytes, and a process without a name or figures does not count.
    #[test]
    fn status_has_name_and_private_memory() {
        let worker = Member::parse(7, WORKER).unwrap();
        assert_eq!((worker.name.as_str(), worker.private), ("worker", 128 << 10));
        let odd = Member::parse(7, "Name:\ta\u{202e}b\x1b\\\\c d e f g h i\nRssAnon:\t1 kB\n").unwrap();
        assert_eq!((odd.name.as_str(), odd.private), ("a\u{fffd}b\u{fffd}\\c d e ", 1024));
        assert_eq!(Member::parse(2, "Name:\tkthreadd\n"), None);
        assert_eq!(Member::parse(2, "RssAnon:\t1 kB\n"), None);
        let most = Member::parse(2, "Name:\tx\nRssAnon:\t18446744073709551615 kB\nVmSwap:\t1 kB\n").unwrap();
        assert_eq!(most.private, u64::MAX);
    }

    /// Scenario: a group has three processes, only the process itself, or no processes.
    /// Guarantee: the process itself does not count, the largest of the others is named, and the others of a group
    /// without other processes have 0 bytes.
    #[test]
    fn process_itself_is_not_among_others() {
        let member = |pid: u32, name: &str, private| Member {
            pid,
            name: CommandName::new(name),
            private,
        };
        let group = |members: &[Member]| Members {
            members: members.to_vec(),
            is_cut: false,
        };
        let all = [member(1, "app", 900), member(2, "worker", 300), member(3, "sh", 5)];
        let others = group(&all).others(1);
        assert_eq!((others.bytes, others.largest_bytes), (Some(305), Some(300)));
        assert_eq!(others.largest.unwrap().as_str(), "worker");
        let none = OtherProcesses {
            bytes: Some(0),
            ..OtherProcesses::default()
        };
        assert_eq!(group(&all[..1]).others(1), none);
        assert_eq!(group(&[]).others(1), none);
    }
}
