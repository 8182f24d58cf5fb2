//! Sessions of other tools in the processes that are read, and what they leave behind.
//!
//! # Why
//!
//! When a session ends, the runtime still counts it among those that want its events (`ep-config.c`; runtime issue
//! 121462). What a Verbose session of dotnet-trace, dotnet-monitor or a profiler asked for is then made for as long as
//! any other session is open, though nobody gets it, and ours always is: with 100,000 pinned handles pauses of 3 ms
//! become 20 to 50 ms on .NET 8 to 11, and stay so. Without a resident session nothing would be left. So whoever
//! keeps a session open has to heal the process: one plain session, begun and ended
//! ([`Client::recompute_levels`](dotnet_diagnostics::Client::recompute_levels)).
//!
//! # How it is seen
//!
//! The kernel's table of Unix sockets (`tables`) shows the connections that a runtime has accepted, with a number each.
//! All but our own, which are counted where they are made, are of others. A number that is there no more is a
//! connection that ended, also when another one took its place between two looks. One look serves all processes
//! ([`Watching`]); it decides ([`Others`], pure), and the task that reads the process heals it.
//!
//! # Heap dumps
//!
//! While a session stands that asks for a heap dump, every session that begins makes the runtime collect and dump again
//! (keywords are OR-ed). On .NET 11 such a session can make the runtime wait for its reader, too, with all threads
//! stopped, and commands wait behind that. So nothing is healed from the time that a dump was seen on, until a session
//! ended (the runtime says so in every stream) or no other tool is connected; for [`DUMP_AT_MOST`] where neither can be
//! seen.
//!
//! # What is not seen
//!
//! * A burst of a gcwatch that was killed leaves its lease: its process is healed at the next look, seen or not.
//! * A connection that came and went between two looks ([`tables::EVERY`]): a command of a few milliseconds is of no
//!   consequence, a Verbose session so short is healed with the next one that is seen, and by every attach of ours,
//!   which is a new session too.
//! * A connection from a network namespace that is neither ours nor the process's: the kernel lists a connection in
//!   the namespace of whoever made it. A tool in a third one cannot be seen from outside.
//! * Where the process's table cannot be read, or does not show our own connections, whether others are there is
//!   unknown: `None`, not `false`.
//!
//! An entry of the table proves nothing, as anybody may bind any path in a mount namespace of its own. Who forges one
//! has the process healed every 10 s, which costs it less than a collection, and its pauses marked.

mod tables;
mod watching;

use std::time::Duration;

use dotnet_diagnostics::OpenConnections;
use tokio::time::Instant;

pub(crate) use tables::connections;
pub(crate) use watching::{Watched, Watching};

/// From the beginning of one healing of a process to the next: other tools may come and go more often.
const HEAL_EVERY: Duration = Duration::from_secs(10);
/// The longest wait after healings that failed. Each doubles it: a runtime that is stopped would find all of them when
/// it goes on.
const RETRY_AT_MOST: Duration = Duration::from_secs(320);
/// The longest time that a heap dump keeps a process from being healed, where its end cannot be seen.
const DUMP_AT_MOST: Duration = Duration::from_secs(60);
/// So long after a healing collections still come that were slow: they are reported with what was read late.
const REPORTED_WITHIN: Duration = Duration::from_secs(1);

/// What a look found of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The numbers of the connections that its runtime has accepted, ours among them; sorted.
    pub(crate) accepted: Vec<u64>,
    /// Its own table was read, not only ours.
    pub(crate) whole: bool,
    /// Ours, which were the same during the whole look.
    pub(crate) own: OpenConnections,
}

/// What came of a healing that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Healed {
    /// The process is healed.
    Yes,
    /// Its runtime is busy with a command of another tool: nothing was begun.
    Busy,
}

/// A heap dump of another tool.
#[derive(Debug, Clone, Copy)]
struct Dump {
    /// Nanoseconds since the stream's sync point: its collection.
    at: i64,
    /// When it was seen.
    seen: Instant,
}

/// What is known of other tools' connections to one process.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// The newest look that counted.
    before: Option<Seen>,
    /// Which connections of ours the newest look found, whether it counted or not.
    generation: Option<u64>,
    /// One of somebody else's is open; `None`: unknown.
    open: Option<bool>,
    /// Looks that found nobody else's, so far.
    nobody: u64,
    /// One was seen and is gone: to be healed.
    asked: bool,
    /// One was left by a client that died.
    abandoned: bool,
    /// A healing is under way.
    heals: bool,
    /// No healing begins before.
    not_before: Option<Instant>,
    /// Healings that failed, since the last that did not.
    failures: u32,
    /// When the last one ended.
    healed_at: Option<Instant>,
    /// The newest heap dump.
    dump: Option<Dump>,
    /// Nanoseconds since the stream's sync point: the newest end of a session.
    session_ended: Option<i64>,
}

impl Others {
    /// Takes what a look found; `None`: it could not be made. `true`: the look does not count, and must be repeated
    /// soon.
    ///
    /// A runtime closes its end of a connection a moment after we closed ours. So a look counts only when no connection
    /// of ours was made or closed since the look before it.
    pub(crate) fn look(&mut self, seen: Option<Seen>) -> bool {
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
            // Not even ours are in it: it cannot show others'.
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

    /// A session was abandoned, which no look may have seen. It is healed from the next look on: the runtime notices a
    /// dead client when it writes to it, and a healing before that would be in vain.
    pub(crate) fn abandoned(&mut self) {
        self.abandoned = true;
    }

    /// Whether a session of another tool is open, or its consequences are not over; `None`: unknown.
    pub(crate) fn observes(&self, now: Instant) -> Option<bool> {
        let healed = self.healed_at.is_some_and(|at| now < at + REPORTED_WITHIN);
        if self.asked || self.heals || healed {
            return Some(true);
        }
        self.open
    }

    /// How many looks found no connection of another tool so far.
    pub(crate) fn found_nobody(&self) -> u64 {
        self.nobody
    }

    /// Another tool's heap dump is under way, or is over; `at` as in [`Self::session_ended`].
    pub(crate) fn dumped(&mut self, at: i64, now: Instant) {
        let at = self.dump.map_or(at, |dump| dump.at.max(at));
        self.dump = Some(Dump { at, seen: now });
    }

    /// A session of the process ended, `at` nanoseconds after the stream's sync point. It may be one of ours.
    pub(crate) fn session_ended(&mut self, at: i64) {
        self.session_ended = self.session_ended.max(Some(at));
    }

    /// The session of a heap dump may stand.
    fn may_dump(&self, now: Instant) -> bool {
        self.dump.is_some_and(|dump| {
            let is_over = self.session_ended.is_some_and(|ended| ended > dump.at);
            !is_over && now < dump.seen + DUMP_AT_MOST
        })
    }

    /// Whether a healing is to begin now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let is_time = self.not_before.is_none_or(|at| at <= now);
        self.asked && !self.heals && is_time && !self.may_dump(now)
    }

    /// Begins a healing, if one is due: what is seen to end from now on asks for another one.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        if !self.is_due(now) {
            return false;
        }
        self.asked = false;
        self.heals = true;
        let wait = HEAL_EVERY * 2_u32.saturating_pow(self.failures);
        self.not_before = Some(now + wait.min(RETRY_AT_MOST));
        true
    }

    /// The healing that was begun is over; `None`: it failed.
    pub(crate) fn ended(&mut self, healed: Option<Healed>, now: Instant) {
        self.heals = false;
        match healed {
            Some(Healed::Yes) => {
                self.failures = 0;
                self.healed_at = Some(now);
            }
            Some(Healed::Busy) => self.asked = true,
            None => {
                self.failures = self.failures.saturating_add(1).min(16);
                self.asked = true;
            }
        }
    }

    /// No healing begins before this.
    pub(crate) fn postpone(&mut self, until: Instant) {
        self.not_before = self.not_before.max(Some(until));
    }
}

/// How many of the numbers there before are there no more.
fn missing(before: &[u64], now: &[u64]) -> usize {
    before.iter().filter(|number| !now.contains(number)).count()
}

#[cfg(test)]
mod tests;
