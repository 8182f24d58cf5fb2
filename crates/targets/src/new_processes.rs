//! Finds processes in any namespace that have just started .NET, without scanning `/proc`.
//!
//! A starting runtime creates threads, and the thread that serves the diagnostics socket is created right after the
//! socket. Every thread takes a pid. The kernel assigns pids in ascending order and reports the last assigned pid
//! (`ns_last_pid`). The threads created since the last look are therefore a range of numbers, which is empty while
//! nothing starts. `/proc/TID/status` contains the process of a new thread, even if that process started long ago as a
//! shell and has since become the program. Processes with one thread, such as most short commands, cost one file.
//!
//! The processes found here are scanned like any other process. Only `status` and the link to the program are read
//! here, and the kernel answers these reads itself. The work per look is bounded. The excess is left to the full scan
//! of `/proc` and counted.
//!
//! Processes are not detected if the kernel's counter is hidden (gVisor), or if threads are created faster than they
//! are examined.

mod read;

pub(crate) use read::{NewProcesses, watch};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Interval between two readings of the kernel's counter.
pub(crate) const READ_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of pids that one look examines in `/proc`: 4 µs for each pid that no longer exists, 20 µs for each
/// pid that exists.
const MAX_NUMBERS: usize = 100;
/// Maximum number of pids that wait to be examined.
const MAX_WAITING: usize = 4096;
/// Maximum number of processes that a look passes on, on average and at once after a quiet period. Each of these
/// processes is inspected, which takes 0.25 ms.
const PASSED_ON: u32 = 8;
const PASSED_ON_AT_ONCE: u32 = 64;
/// Maximum number of times that a process with the same program is passed on. A process without .NET can create threads
/// forever.
const MAX_TIMES: u8 = 16;
/// Maximum number of processes that are remembered.
const MAX_KNOWN: usize = 16_384;
/// First pid that the kernel assigns again after a wrap (`RESERVED_PIDS`).
const FIRST_AGAIN: u32 = 300;

/// Facts about a pid in `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thread {
    /// The process to which the thread belongs.
    pub(crate) process: u32,
    /// Program of the process, as a hash of its name.
    pub(crate) program: u64,
}

/// State of a remembered process.
#[derive(Debug, Clone, Copy)]
struct RememberedProcess {
    program: u64,
    times: u8,
}

/// A pure search for the processes that create threads, from the examined pids.
#[derive(Debug, Default)]
pub(crate) struct ThreadMakers {
    /// The kernel's counter at the last look.
    last: Option<u32>,
    /// Maximum pid that the kernel assigns.
    pid_max: u32,
    waiting: VecDeque<u32>,
    known: BTreeMap<u32, RememberedProcess>,
    /// Processes to pass on once more, because the observed thread can have been created before the socket.
    again: BTreeSet<u32>,
    /// Processes that were found and not passed on yet.
    found: BTreeSet<u32>,
    tokens: u32,
    /// Number of pids that were not examined because there were too many.
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

    /// Performs one look. `last` is the kernel's counter; `thread` returns the facts about a pid, or `None` if the pid
    /// no longer exists. Returns the processes to inspect now.
    pub(crate) fn look(&mut self, last: u32, mut thread: impl FnMut(u32) -> Option<Thread>) -> Vec<u32> {
        for range in self.given_out(last) {
            let room = MAX_WAITING.saturating_sub(self.waiting.len());
            self.skipped += (range.clone().count().saturating_sub(room)) as u64;
            self.waiting.extend(range.take(room));
        }
        self.found.append(&mut self.again);
        for _ in 0..MAX_NUMBERS {
            let Some(pid) = self.waiting.pop_front() else { break };
            match thread(pid) {
                // The first thread of a process. Its pid can have belonged to another process before.
                Some(thread) if thread.process == pid => {
                    self.known.remove(&pid);
                }
                Some(thread) => self.take(thread),
                None => {}
            }
        }
        self.pass_on()
    }

    /// Returns the pids that were assigned since the last look.
    fn given_out(&mut self, last: u32) -> Vec<RangeInclusive<u32>> {
        match self.last.replace(last) {
            Some(before) if before < last => vec![before + 1..=last],
            Some(before) if before > last => vec![
                before.saturating_add(1)..=self.pid_max.max(before),
                FIRST_AGAIN.min(last)..=last,
            ],
            // The full scan finds processes that existed before.
            _ => Vec::new(),
        }
    }

    fn take(&mut self, thread: Thread) {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let fresh = RememberedProcess {
            program: thread.program,
            times: 0,
        };
        let known = self.known.entry(thread.process).or_insert(fresh);
        if known.program != thread.program {
            *known = fresh;
        }
        if known.times < MAX_TIMES {
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

    /// Threads and programs of a fake machine, by pid.
    type Machine = BTreeMap<u32, Thread>;

    fn make_thread(process: u32, program: u64) -> Thread {
        Thread { process, program }
    }

    fn look(births: &mut ThreadMakers, last: u32, machine: &Machine) -> Vec<u32> {
        births.look(last, |pid| machine.get(&pid).copied())
    }

    /// Scenario: processes existed before; one process creates a thread, another process does not, and a command exits
    /// at once; then nothing happens.
    /// Guarantee: the process with the new thread is passed on twice, and no pid is examined twice.
    #[test]
    fn process_with_new_thread_is_passed_on() {
        let mut machine = Machine::default();
        let mut births = ThreadMakers::new(32768);
        assert!(look(&mut births, 1000, &machine).is_empty());
        machine.insert(1001, make_thread(1001, JAVA));
        machine.insert(1002, make_thread(1002, DOTNET));
        machine.insert(1004, make_thread(1002, DOTNET));
        assert_eq!(look(&mut births, 1004, &machine), [1002]);
        assert_eq!(look(&mut births, 1004, &machine), [1002]);
        let nothing = births.look(1004, |pid| panic!("{pid} is examined again"));
        assert!(nothing.is_empty());
    }

    /// Scenario: a process creates threads endlessly; then it runs another program (exec); then its pid belongs to
    /// another process.
    /// Guarantee: the process is passed on at most the maximum number of times, counted from scratch for each program
    /// and each process.
    #[test]
    fn endless_thread_creator_is_ignored() {
        let mut machine = Machine::default();
        let mut births = ThreadMakers::new(1 << 22);
        let mut at = 5000;
        look(&mut births, at, &machine);
        let mut times_of = |births: &mut ThreadMakers, machine: &mut Machine, program| {
            let mut times = 0;
            for _ in 0..50 {
                at += 1;
                machine.insert(at, make_thread(77, program));
                times += look(births, at, machine).len();
            }
            times
        };
        assert_eq!(times_of(&mut births, &mut machine, JAVA), usize::from(MAX_TIMES));
        assert_eq!(times_of(&mut births, &mut machine, DOTNET), usize::from(MAX_TIMES));
        assert_eq!(times_of(&mut births, &mut machine, DOTNET), 0);
        births.known.remove(&77);
        assert_eq!(times_of(&mut births, &mut machine, DOTNET), usize::from(MAX_TIMES));
    }

    /// Scenario: the kernel's pids wrap around.
    /// Guarantee: pids before and after the wrap are examined.
    #[test]
    fn wrapped_pids_are_examined() {
        let mut machine = Machine::default();
        let mut births = ThreadMakers::new(32768);
        look(&mut births, 32760, &machine);
        machine.insert(32768, make_thread(400, DOTNET));
        machine.insert(305, make_thread(401, DOTNET));
        assert_eq!(look(&mut births, 306, &machine), [400, 401]);
    }

    /// Scenario: ten thousand commands run between two looks; then a thousand runtimes start at once.
    /// Guarantee: a look examines and passes on at most the maximum numbers; the remaining runtimes follow in later
    /// looks, and skipped pids are counted.
    #[test]
    fn work_per_look_is_bounded() {
        let mut births = ThreadMakers::new(1 << 22);
        let machine = Machine::default();
        look(&mut births, 1000, &machine);
        let mut asked = 0;
        births.look(11_000, |_| {
            asked += 1;
            None
        });
        assert_eq!((asked, births.skipped), (MAX_NUMBERS, 10_000 - MAX_WAITING as u64));

        let mut births = ThreadMakers::new(1 << 22);
        look(&mut births, 1000, &machine);
        let mut passed = BTreeSet::new();
        for n in 0..1000 {
            let now = births.look(2000, |pid| Some(make_thread(pid + 100_000, DOTNET)));
            assert!(now.len() <= PASSED_ON_AT_ONCE as usize, "{n}");
            passed.extend(now);
        }
        assert_eq!(passed.len(), 1000);
    }
}
