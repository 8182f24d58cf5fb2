//! Processes that were looked at and are not of .NET: most of a host's.
//!
//! To look at one costs a quarter of a millisecond, mostly for its mapped files, and nearly none of them ever changes.
//! So one that was looked at twice is looked at again only when it is another process, or runs another program (exec),
//! and every [`TURNS`]th time in any case: a socket in a place that is not watched has no other sign.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use dotnet_diagnostics::discovery::parse_stat;

/// In how many looks through all each one has its turn.
const TURNS: u32 = 8;
/// How often one is looked at before it may be left out: a runtime that starts has neither socket nor library at first.
const TWICE: u8 = 2;
/// Most that are remembered.
const MOST: usize = 1 << 16;

/// Which run and which program has a pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    start_time: u64,
    program: u64,
}

/// Of a process, by what the kernel says without waiting. `None`: it is gone, or its program may not be seen.
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

/// Processes that were looked at and are not of .NET.
#[derive(Debug, Default)]
pub(crate) struct PlainProcesses {
    known: BTreeMap<u32, (Mark, u8)>,
    turn: u32,
}

impl PlainProcesses {
    /// Whether it need not be looked at now.
    pub(super) fn is_plain(&self, pid: u32, mark: Option<Mark>) -> bool {
        let known = self.known.get(&pid);
        let has_turn = pid % TURNS == self.turn % TURNS;
        known.is_some_and(|(known, times)| mark == Some(*known) && *times >= TWICE) && !has_turn
    }

    /// It was looked at, and nothing shows that it runs .NET.
    pub(super) fn add(&mut self, pid: u32, mark: Option<Mark>) {
        let Some(mark) = mark else { return };
        let times = match self.known.get(&pid) {
            Some((known, times)) if *known == mark => times.saturating_add(1),
            None if self.known.len() >= MOST => return,
            _ => 1,
        };
        self.known.insert(pid, (mark, times));
    }

    /// A look through all is over: only these are there.
    pub(super) fn keep(&mut self, listed: &BTreeSet<u32>) {
        self.known.retain(|pid, _| listed.contains(pid));
        self.turn = self.turn.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(start_time: u64, program: u64) -> Option<Mark> {
        Some(Mark { start_time, program })
    }

    /// Scenario: a process that is looked at again and again; then another program runs in it, then another process has
    /// its pid; one whose program may not be seen.
    /// Guarantee: it is left out from the third time on, but for its turn; each change is looked at; what cannot be
    /// seen is always looked at.
    #[test]
    fn what_does_not_change_is_left_out() {
        let mut plain = PlainProcesses::default();
        let listed = BTreeSet::from([9, 10]);
        let mut looked = Vec::new();
        for round in 0..2 * TURNS {
            if !plain.is_plain(9, of(1, 1)) {
                looked.push(round);
                plain.add(9, of(1, 1));
            }
            assert!(!plain.is_plain(10, None));
            plain.add(10, None);
            plain.keep(&listed);
        }
        assert_eq!(looked, [0, 1, 9]);
        assert!(plain.is_plain(9, of(1, 1)));
        assert!(!plain.is_plain(9, of(1, 2)) && !plain.is_plain(9, of(2, 1)));
        plain.add(9, of(1, 2));
        assert!(!plain.is_plain(9, of(1, 2)), "a program is looked at twice");
        plain.keep(&BTreeSet::new());
        assert!(plain.known.is_empty());
    }

    /// Scenario: this process.
    /// Guarantee: its mark is the same each time; one that is gone has none.
    #[test]
    fn a_process_has_a_mark() {
        let own = mark(std::process::id());
        assert!(own.is_some() && own == mark(std::process::id()));
        assert_eq!(mark(u32::MAX), None);
    }
}
