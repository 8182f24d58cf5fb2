//! Processes that have just started .NET, in whatever namespaces they are, found without looking through `/proc`.
//!
//! A runtime that starts makes threads: the one that serves the diagnostics socket comes right after the socket. Every
//! thread takes a pid, the kernel gives them out in ascending order, and says which one it gave out last
//! (`ns_last_pid`). So what was made since the last look is a range of numbers, empty while nothing starts, and
//! `/proc/TID/status` says which process a new thread is of: also one that began long ago as a shell and has become
//! the program by now. Processes with one thread, which is what most short commands are, cost one file.
//!
//! What is found here is looked at like any other process; nothing but `status` and the link to the program is read
//! here, which are the kernel's own. Work is bounded per look: what is beyond is left to the look through all of
//! `/proc`, and counted.
//!
//! Not seen: the kernel's counter is hidden (gVisor), or threads are made faster than they are looked at.

mod read;

pub(crate) use read::{NewProcesses, watch};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Between two looks at the kernel's counter.
pub(crate) const EVERY: Duration = Duration::from_millis(250);

/// Most numbers that one look asks `/proc` for: 4 µs for each that is gone, 20 µs for each that is there.
const MOST_NUMBERS: usize = 100;
/// Most numbers that wait to be asked for.
const MOST_WAITING: usize = 4096;
/// Most processes that are passed on by one look on average, and those that are passed on at once after a quiet time:
/// each is inspected, which takes a quarter of a millisecond.
const PASSED_ON: u32 = 8;
const PASSED_ON_AT_ONCE: u32 = 64;
/// How often one process with the same program is passed on: one that is not of .NET may make threads for ever.
const MOST_TIMES: u8 = 16;
/// Most processes that are remembered.
const MOST_KNOWN: usize = 16_384;
/// The kernel does not give out smaller ones again (`RESERVED_PIDS`).
const FIRST_AGAIN: u32 = 300;

/// What `/proc` says of a pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thread {
    /// The process that it is a thread of.
    pub(crate) process: u32,
    /// Which program the process runs, as a hash of its name.
    pub(crate) program: u64,
}

/// What is remembered of a process.
#[derive(Debug, Clone, Copy)]
struct Known {
    program: u64,
    times: u8,
}

/// Which processes made threads, as far as it was asked. Pure.
#[derive(Debug, Default)]
pub(crate) struct ThreadMakers {
    /// The kernel's counter at the last look.
    last: Option<u32>,
    /// The largest pid that the kernel gives out.
    pid_max: u32,
    waiting: VecDeque<u32>,
    known: BTreeMap<u32, Known>,
    /// To be passed on once more: the thread that was seen may have come before the socket.
    again: BTreeSet<u32>,
    /// Found and not passed on yet.
    found: BTreeSet<u32>,
    tokens: u32,
    /// Numbers that were not asked for, because there were too many.
    pub(crate) skipped: u64,
}

impl ThreadMakers {
    pub(crate) fn new(pid_max: u32) -> Self {
        Self {
            pid_max,
            tokens: PASSED_ON_AT_ONCE,
            ..Self::default()
        }
    }

    /// One look: the kernel's counter is at `last`; `thread` says what a pid is, `None` when it is gone. Returns the
    /// processes to inspect now.
    pub(crate) fn look(&mut self, last: u32, mut thread: impl FnMut(u32) -> Option<Thread>) -> Vec<u32> {
        for range in self.given_out(last) {
            let room = MOST_WAITING.saturating_sub(self.waiting.len());
            self.skipped += (range.clone().count().saturating_sub(room)) as u64;
            self.waiting.extend(range.take(room));
        }
        self.found.append(&mut self.again);
        for _ in 0..MOST_NUMBERS {
            let Some(pid) = self.waiting.pop_front() else { break };
            match thread(pid) {
                // A process's first thread, with a pid that another one may have had.
                Some(thread) if thread.process == pid => {
                    self.known.remove(&pid);
                }
                Some(thread) => self.take(thread),
                None => {}
            }
        }
        self.pass_on()
    }

    /// The numbers that were given out since the last look.
    fn given_out(&mut self, last: u32) -> Vec<RangeInclusive<u32>> {
        match self.last.replace(last) {
            Some(before) if before < last => vec![before + 1..=last],
            Some(before) if before > last => vec![
                before.saturating_add(1)..=self.pid_max.max(before),
                FIRST_AGAIN.min(last)..=last,
            ],
            // What was there before is found by the look through all.
            _ => Vec::new(),
        }
    }

    fn take(&mut self, thread: Thread) {
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let fresh = Known {
            program: thread.program,
            times: 0,
        };
        let known = self.known.entry(thread.process).or_insert(fresh);
        if known.program != thread.program {
            *known = fresh;
        }
        if known.times < MOST_TIMES {
            self.found.insert(thread.process);
        }
    }

    fn pass_on(&mut self) -> Vec<u32> {
        self.tokens = (self.tokens + PASSED_ON).min(PASSED_ON_AT_ONCE);
        let mut passed = Vec::new();
        while self.tokens > 0
            && let Some(pid) = self.found.pop_first()
        {
            self.tokens -= 1;
            if let Some(known) = self.known.get_mut(&pid) {
                if known.times == 0 {
                    self.again.insert(pid);
                }
                known.times += 1;
                passed.push(pid);
            }
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JAVA: u64 = 1;
    const DOTNET: u64 = 2;

    /// Which process each pid of a machine is a thread of, and which programs run.
    type Machine = BTreeMap<u32, Thread>;

    fn of(process: u32, program: u64) -> Thread {
        Thread { process, program }
    }

    fn look(births: &mut ThreadMakers, last: u32, machine: &Machine) -> Vec<u32> {
        births.look(last, |pid| machine.get(&pid).copied())
    }

    /// Scenario: processes that were there before; one that makes a thread and one that does not; a command that is
    /// gone at once; nothing.
    /// Guarantee: the one with the thread is passed on, and once more; no number is asked for twice.
    #[test]
    fn a_process_that_makes_threads_is_passed_on() {
        let mut machine = Machine::default();
        let mut births = ThreadMakers::new(32768);
        assert!(look(&mut births, 1000, &machine).is_empty());
        machine.insert(1001, of(1001, JAVA));
        machine.insert(1002, of(1002, DOTNET));
        machine.insert(1004, of(1002, DOTNET));
        assert_eq!(look(&mut births, 1004, &machine), [1002]);
        assert_eq!(look(&mut births, 1004, &machine), [1002]);
        let nothing = births.look(1004, |pid| panic!("{pid} is asked for again"));
        assert!(nothing.is_empty());
    }

    /// Scenario: a process makes threads without end; then it becomes another program (exec), then its pid another
    /// process's.
    /// Guarantee: it is passed on so many times at most, and from the start again for each program and process.
    #[test]
    fn who_makes_threads_for_ever_is_left_alone() {
        let mut machine = Machine::default();
        let mut births = ThreadMakers::new(1 << 22);
        let mut at = 5000;
        look(&mut births, at, &machine);
        let mut times_of = |births: &mut ThreadMakers, machine: &mut Machine, program| {
            let mut times = 0;
            for _ in 0..50 {
                at += 1;
                machine.insert(at, of(77, program));
                times += look(births, at, machine).len();
            }
            times
        };
        assert_eq!(times_of(&mut births, &mut machine, JAVA), usize::from(MOST_TIMES));
        assert_eq!(times_of(&mut births, &mut machine, DOTNET), usize::from(MOST_TIMES));
        assert_eq!(times_of(&mut births, &mut machine, DOTNET), 0);
        births.known.remove(&77);
        assert_eq!(times_of(&mut births, &mut machine, DOTNET), usize::from(MOST_TIMES));
    }

    /// Scenario: the kernel's numbers begin again at the small ones.
    /// Guarantee: what came before and after is asked for.
    #[test]
    fn numbers_that_begin_again_are_followed() {
        let mut machine = Machine::default();
        let mut births = ThreadMakers::new(32768);
        look(&mut births, 32760, &machine);
        machine.insert(32768, of(400, DOTNET));
        machine.insert(305, of(401, DOTNET));
        assert_eq!(look(&mut births, 306, &machine), [400, 401]);
    }

    /// Scenario: ten thousand commands between two looks, then a thousand runtimes at once.
    /// Guarantee: one look asks for so many numbers and passes on so many processes at most; those that were asked for
    /// come later, and what was not is counted.
    #[test]
    fn a_look_is_bounded() {
        let mut births = ThreadMakers::new(1 << 22);
        let machine = Machine::default();
        look(&mut births, 1000, &machine);
        let mut asked = 0;
        births.look(11_000, |_| {
            asked += 1;
            None
        });
        assert_eq!((asked, births.skipped), (MOST_NUMBERS, 10_000 - MOST_WAITING as u64));

        let mut births = ThreadMakers::new(1 << 22);
        look(&mut births, 1000, &machine);
        let mut passed = BTreeSet::new();
        for n in 0..1000 {
            let now = births.look(2000, |pid| Some(of(pid + 100_000, DOTNET)));
            assert!(now.len() <= PASSED_ON_AT_ONCE as usize, "{n}");
            passed.extend(now);
        }
        assert_eq!(passed.len(), 1000);
    }
}
