//! Tracks scanned processes that do not run .NET: most processes of a host.
//!
//! Scanning a process costs 0.25 ms, mostly for its mapped files, and almost no process ever starts to run .NET later.
//! A process that was scanned twice is therefore scanned again only if the pid belongs to another process or runs
//! another program (exec). In addition, each process is scanned in every [`TURNS`]th full scan, because no event
//! announces a socket in an unwatched directory.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use dotnet_diagnostics::discovery::parse_stat;

/// Number of full scans in which each process is scanned at least once.
const TURNS: u32 = 8;
/// Number of scans after which a process can be skipped. A starting runtime initially has neither socket nor library.
const TWICE: u8 = 2;
/// Maximum number of processes that are remembered.
const MAX_PROCESSES: usize = 1 << 16;

/// Run and program of a pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    start_time: u64,
    program: u64,
}

/// Returns the mark of a process, from data that the kernel returns without blocking. Returns `None` if the process has
/// exited or its program is not readable.
pub(super) fn mark(pid: u32) -> Option<Mark> {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let stat = parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?;
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    Some(Mark {
        start_time: stat.start_time,
        program: hasher.finish(),
    })
}

/// Scanned processes that do not run .NET.
#[derive(Debug, Default)]
pub(crate) struct PlainProcesses {
    known: BTreeMap<u32, (Mark, u8)>,
    turn: u32,
}

impl PlainProcesses {
    /// Returns whether the process can be skipped in this scan.
    pub(super) fn is_plain(&self, pid: u32, mark: Option<Mark>) -> bool {
        let known = self.known.get(&pid);
        let has_turn = pid % TURNS == self.turn % TURNS;
        known.is_some_and(|(known, times)| mark == Some(*known) && *times >= TWICE) && !has_turn
    }

    /// Records a scanned process without evidence of .NET.
    pub(super) fn add(&mut self, pid: u32, mark: Option<Mark>) {
        let Some(mark) = mark else { return };
        let times = match self.known.get(&pid) {
            Some((known, times)) if *known == mark => times.saturating_add(1),
            None if self.known.len() >= MAX_PROCESSES => return,
            _ => 1,
        };
        self.known.insert(pid, (mark, times));
    }

    /// Completes a full scan and forgets all processes that are not in `listed`.
    pub(super) fn keep(&mut self, listed: &BTreeSet<u32>) {
        self.known.retain(|pid, _| listed.contains(pid));
        self.turn = self.turn.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_mark(start_time: u64, program: u64) -> Option<Mark> {
        Some(Mark { start_time, program })
    }

    /// Scenario: a process is scanned repeatedly; then it runs another program, then another process has its pid. The
    /// program of a second process is not readable.
    /// Guarantee: the process is skipped after two scans, except in every [`TURNS`]th full scan; it is scanned after
    /// each change; the unreadable process is always scanned.
    #[test]
    fn unchanged_process_is_skipped() {
        let mut plain = PlainProcesses::default();
        let listed = BTreeSet::from([9, 10]);
        let mut looked = Vec::new();
        for round in 0..2 * TURNS {
            if !plain.is_plain(9, make_mark(1, 1)) {
                looked.push(round);
                plain.add(9, make_mark(1, 1));
            }
            assert!(!plain.is_plain(10, None));
            plain.add(10, None);
            plain.keep(&listed);
        }
        assert_eq!(looked, [0, 1, 9]);
        assert!(plain.is_plain(9, make_mark(1, 1)));
        assert!(!plain.is_plain(9, make_mark(1, 2)) && !plain.is_plain(9, make_mark(2, 1)));
        plain.add(9, make_mark(1, 2));
        assert!(!plain.is_plain(9, make_mark(1, 2)), "a new program is scanned twice");
        plain.keep(&BTreeSet::new());
        assert!(plain.known.is_empty());
    }

    /// Scenario: marks are read for this process and for a pid that does not exist.
    /// Guarantee: the mark of this process is stable, and the other pid has no mark.
    #[test]
    fn mark_of_process_is_stable() {
        let own = mark(std::process::id());
        assert!(own.is_some() && own == mark(std::process::id()));
        assert_eq!(mark(u32::MAX), None);
    }
}
