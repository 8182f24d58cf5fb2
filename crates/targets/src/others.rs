//! Sessions of other tools in the processes that gcwatch reads, and their side effects.
//!
//! # Purpose
//!
//! When a session ends, the runtime still counts it among the sessions that want its events (`ep-config.c`; runtime
//! issue 121462). The events requested by a Verbose session of dotnet-trace, dotnet-monitor or a profiler are then
//! produced for as long as any other session is open, although no tool receives them. The session of gcwatch is always
//! open. With 100,000 pinned handles, pauses of 3 ms become 20 to 50 ms on .NET 8 to 11, permanently. Without a session
//! that stays open, there would be no such effect. A tool that keeps a session open must therefore heal the process:
//! the tool starts and stops one plain session
//! ([`Client::recompute_levels`](dotnet_diagnostics::Client::recompute_levels)).
//!
//! # Detection
//!
//! The kernel's table of Unix sockets (`tables`) lists the connections that a runtime has accepted, each with a number.
//! All connections belong to other tools, except gcwatch's own connections, which are counted where they are opened. If
//! a number is no longer in the table, its connection has ended, even if another connection replaced it between two
//! looks. One look covers all processes ([`WatchedProcesses`]). [`ForeignConnections`], which is pure, decides whether
//! to heal, and the task that reads the process performs the healing.
//!
//! # Heap dumps
//!
//! While a session that requests a heap dump is open, every new session makes the runtime collect and dump again,
//! because keywords are OR-ed. On .NET 11, such a session can also make the runtime wait for the reader of the dump
//! with all threads suspended, and all commands then also wait. Therefore, after a dump was observed, no process is
//! healed until a session has ended (the runtime reports this in every stream) or no other tool is connected. If
//! neither event is visible, the wait ends after [`DUMP_AT_MOST`].
//!
//! # Limits
//!
//! * If a gcwatch instance is killed during a burst, the lease of the burst remains. The process of this burst is
//!   healed after the next look, whether the connection was observed or not.
//! * A connection that opened and closed between two looks ([`tables::SCAN_INTERVAL`]) is missed. A command of a few
//!   milliseconds has no side effects. A Verbose session of this length is healed together with the next observed
//!   session. Every attach of gcwatch also heals the process, because an attach starts a new session.
//! * A connection is not visible if its client is in a network namespace other than the namespaces of gcwatch and the
//!   process: the kernel lists a connection in the namespace of the client. A tool in a third namespace cannot be
//!   detected from outside.
//! * If the process's table is unreadable, or does not show gcwatch's own connections, it is unknown whether other
//!   tools are connected. The result is then `None`, not `false`.
//!
//! An entry in the table does not prove that there is a connection, because any user can bind any path in their own
//! mount namespace. A forged entry makes gcwatch heal the process every 10 s, which costs the process less than a
//! collection. A forged entry also makes gcwatch mark the pauses of the process as affected by another tool.

mod process;
mod tables;
mod watching;

use std::time::Duration;

use dotnet_diagnostics::OpenConnections;
use tokio::time::Instant;

pub(crate) use process::WatchedProcess;
pub(crate) use tables::connections;
pub(crate) use watching::WatchedProcesses;

/// Minimum interval between healings of a process. Other tools can connect and disconnect more often.
const HEAL_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum wait after failed healings. Each failure doubles the wait, because a suspended runtime receives all attempts
/// when it resumes.
const RETRY_AT_MOST: Duration = Duration::from_secs(320);
/// Maximum time for which a heap dump prevents healing if the end of the dump is not visible.
const DUMP_AT_MOST: Duration = Duration::from_secs(60);
/// Time after a healing during which slow collections can still be reported, because their events are read late.
const REPORTED_TIMEOUT: Duration = Duration::from_secs(1);

/// The result of a look at one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedConnections {
    /// Sorted numbers of the connections that the runtime has accepted, including the connections of gcwatch.
    pub(crate) accepted: Vec<u64>,
    /// Whether the table of the process's network namespace was read. This table can be the same as gcwatch's table.
    pub(crate) whole: bool,
    /// Connections of gcwatch, which did not change during the look.
    pub(crate) own: OpenConnections,
}

/// The outcome of a healing that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HealOutcome {
    /// The process was healed.
    Yes,
    /// The runtime is busy with a command of another tool. No session was started.
    Busy,
}

/// A heap dump of another tool.
#[derive(Debug, Clone, Copy)]
struct Dump {
    /// Time of the collection of the dump, in nanoseconds since the stream's sync point.
    at: i64,
    /// Time at which the dump was observed.
    seen: Instant,
}

/// The connections of other tools to one process.
#[derive(Debug, Default)]
pub(crate) struct ForeignConnections {
    /// The last look that counted; `None` before the first such look.
    before: Option<ObservedConnections>,
    /// Generation of gcwatch's own connections in the last successful look, whether this look counted or not; `None`
    /// before the first such look.
    generation: Option<u64>,
    /// Whether another tool is connected; `None` if unknown.
    open: Option<bool>,
    /// Number of looks that found no other tool.
    nobody: u64,
    /// Whether an observed connection has ended, so that a healing is needed.
    asked: bool,
    /// Whether a client died and abandoned a session.
    abandoned: bool,
    /// Whether a healing is running.
    heals: bool,
    /// Time before which no healing starts.
    not_before: Option<Instant>,
    /// Number of failed healings since the last successful healing.
    failures: u32,
    /// Time at which the last successful healing ended.
    healed_at: Option<Instant>,
    /// The last heap dump.
    dump: Option<Dump>,
    /// Last end of a session, in nanoseconds since the stream's sync point.
    session_ended: Option<i64>,
}

impl ForeignConnections {
    /// Updates the state with the result of a look. `seen` is `None` if the look failed. Returns `true` if the look
    /// does not count and must be repeated soon.
    ///
    /// A runtime closes its end of a connection shortly after gcwatch has closed its own end. A look therefore counts
    /// only if no connection of gcwatch was opened or closed since the previous look.
    pub(crate) fn look(&mut self, seen: Option<ObservedConnections>) -> bool {
        self.asked |= std::mem::take(&mut self.abandoned);
        let Some(seen) = seen else {
            self.open = None;
            return false;
        };
        let generation = seen.own.generation;
        if self.generation.replace(generation) != Some(generation) {
            return true;
        }
        let Some(others) = seen.accepted.len().checked_sub(seen.own.numbers.len()) else {
            // The table does not even show gcwatch's own connections, so it cannot show the connections of other tools.
            self.open = None;
            return false;
        };
        self.open = Some(others > 0).filter(|open| *open || seen.whole);
        if self.open == Some(false) {
            self.nobody += 1;
            self.dump = None;
        }
        if let Some(before) = self.before.replace(seen)
            && let Some(now) = &self.before
            && (now.whole || !before.whole)
        {
            let gone = missing(&before.accepted, &now.accepted);
            self.asked |= gone > missing(&before.own.numbers, &now.own.numbers);
        }
        false
    }

    /// Records an abandoned session, which every look can have missed. The next look requests the healing. An earlier
    /// healing would have no effect, because the runtime notices a dead client only when it writes to the connection.
    pub(crate) fn abandoned(&mut self) {
        self.abandoned = true;
    }

    /// Returns whether another tool's session is open or still has side effects, or `None` if unknown.
    pub(crate) fn observes(&self, now: Instant) -> Option<bool> {
        let healed = self.healed_at.is_some_and(|at| now < at + REPORTED_TIMEOUT);
        if self.asked || self.heals || healed {
            return Some(true);
        }
        self.open
    }

    /// Returns the number of looks that found no connection of another tool.
    pub(crate) fn found_nobody(&self) -> u64 {
        self.nobody
    }

    /// Records another tool's heap dump, which can be running or finished. `at` is the time of the dump's collection,
    /// in nanoseconds after the stream's sync point.
    pub(crate) fn dumped(&mut self, at: i64, now: Instant) {
        let at = self.dump.map_or(at, |dump| dump.at.max(at));
        self.dump = Some(Dump { at, seen: now });
    }

    /// Records the end of a session of the process, `at` nanoseconds after the stream's sync point. The session can be
    /// gcwatch's own.
    pub(crate) fn session_ended(&mut self, at: i64) {
        self.session_ended = self.session_ended.max(Some(at));
    }

    /// Returns whether the session of a heap dump can still be open.
    fn may_dump(&self, now: Instant) -> bool {
        self.dump.is_some_and(|dump| {
            let is_over = self.session_ended.is_some_and(|ended| ended > dump.at);
            !is_over && now < dump.seen + DUMP_AT_MOST
        })
    }

    /// Returns whether a healing must start now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let is_time = self.not_before.is_none_or(|at| at <= now);
        self.asked && !self.heals && is_time && !self.may_dump(now)
    }

    /// Starts a healing if one is due, and returns whether it was started. A connection that ends afterwards requests
    /// another healing.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        if !self.is_due(now) {
            return false;
        }
        self.asked = false;
        self.heals = true;
        let wait = HEAL_INTERVAL * 2_u32.saturating_pow(self.failures);
        self.not_before = Some(now + wait.min(RETRY_AT_MOST));
        true
    }

    /// Records the end of the running healing. `healed` is `None` if the healing failed.
    pub(crate) fn ended(&mut self, healed: Option<HealOutcome>, now: Instant) {
        self.heals = false;
        match healed {
            Some(HealOutcome::Yes) => {
                self.failures = 0;
                self.healed_at = Some(now);
            }
            Some(HealOutcome::Busy) => self.asked = true,
            None => {
                self.failures = self.failures.saturating_add(1).min(16);
                self.asked = true;
            }
        }
    }

    /// Prevents healings from starting before `until`.
    pub(crate) fn postpone(&mut self, until: Instant) {
        self.not_before = self.not_before.max(Some(until));
    }
}

/// Returns the number of elements of `before` that are not in `now`.
fn missing(before: &[u64], now: &[u64]) -> usize {
    before.iter().filter(|number| !now.contains(number)).count()
}

#[cfg(test)]
mod tests;
