//! Finds and identifies the .NET processes of the host, and reads the collections of each process in a supervised task.
//!
//! ```text
//! watch     inotify on the directories of sockets --+
//! new_processes   processes that create threads ----+
//! reverse   runtimes that connect to gcwatch -------+--> supervise --> attempt, one task per process --> session -->
//! look      /proc, at intervals --------------------+     registry      inspect, identity, lease          reading
//!                                                         filter        kept_run                     clock
//!                                                                                  others --> heals --------+
//! ```
//!
//! Attaching runs immediately, on the executor of [`supervise()`]. [`Readers`] reads sessions in rounds (`rounds`).
//!
//! `session` decides what happens during a session: `Session::step` takes bytes, results, orders and the time, and
//! returns the work for its driver in `attempt`. `session`, `registry`, `backoff`, `filter`, `memory`, `identity`,
//! `clock` and the decisions of `others` are pure: their facts (from `facts` and `host`) and the time are arguments.
//! All other modules do I/O. A task reports only to its [`sink::RunSink`], which is the feed of the pipeline.
//!
//! # Invariants
//!
//! * A run (pid and start time) is attached to at most once, by this instance and (by a lease) by all instances of the
//!   host.
//! * Every failed step is retried while the run lives. The pauses grow from at most 0.5 s to at most 60 s. If a stream
//!   exceeded its memory limit (`memory`), they grow from at most 30 s to at most 1 h.
//! * A stopped, silent or hostile target affects only its own task: no lock is held during a wait, every step has a
//!   deadline, and the cost of a stream is bounded.
//! * The side effects of another tool's session on a process that gcwatch reads are healed within 10 s of the end of
//!   that session.
//! * A started session is stopped and drained. A runtime that connected suspended is resumed, even if other steps fail.
//!
//! # Layers
//!
//! 1. `proc_file`, [`own_file`], `host`, `facts`, [`heap_limit`], [`event_buffers`], [`exporting`], [`descriptors`]:
//!    facts about the host
//! 2. [`options`], `filter`, `identity`, `registry`, `backoff`, `memory`, [`clock`]: decisions
//! 3. [`guard`], [`black_box`], `buffer`, `rounds`: reading streams
//! 4. `order`, `others`, `shared`, `requests`, `session`, `reading`, `attempt` with the driver of the session: one
//!    process; each module uses only the previous ones
//! 5. [`supervise()`]: all processes

// Time is a value: only the modules with an exception, and tests, read a clock (clippy.toml).
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

/// Logs with the target of this crate, at a level.
macro_rules! log {
    ($level:ident: $($what:tt)*) => {
        tracing::$level!(target: "gcwatch::targets", $($what)*)
    };
}

mod alive;
#[expect(
    clippy::disallowed_methods,
    reason = "connecting has deadlines and is retried; sessions have deadlines"
)]
mod attempt;
mod backoff;
pub mod black_box;
mod buffer;
pub mod clock;
#[expect(
    clippy::disallowed_methods,
    reason = "collecting threads are read before and after suspensions"
)]
mod cpu_wait;
pub mod descriptors;
mod elf;
pub mod eligibility;
pub mod event_buffers;
pub mod exporting;
pub mod facts;
mod filter;
pub mod finalizer_cpu;
#[expect(
    clippy::disallowed_methods,
    reason = "a guard that exited is restarted after a delay"
)]
pub mod guard;
pub mod heap_limit;
mod held_back;
pub mod host;
mod identity;
pub mod inotify;
mod inspect;
mod kept_run;
#[expect(
    clippy::disallowed_methods,
    reason = "gcwatch's own files, whose links are not followed"
)]
pub mod lease;
#[expect(clippy::disallowed_methods, reason = "/proc is read at intervals")]
mod look;
mod memory;
#[expect(
    clippy::disallowed_methods,
    reason = "processes are examined at an age of some milliseconds"
)]
mod new_processes;
pub mod options;
mod order;
#[expect(
    clippy::disallowed_methods,
    reason = "side effects of other tools are healed after a delay"
)]
mod others;
#[expect(clippy::disallowed_methods, reason = "the only module that opens files of a process")]
pub mod own_file;
mod pending;
pub mod proc_file;
mod reading;
mod registry;
#[expect(clippy::disallowed_methods, reason = "a session of requests has deadlines")]
mod requests;
#[expect(clippy::disallowed_methods, reason = "runtimes connect within a deadline")]
mod reverse;
#[expect(clippy::disallowed_methods, reason = "rounds start at intervals")]
mod rounds;
#[deny(clippy::disallowed_types)]
mod session;
#[expect(clippy::disallowed_methods, reason = "settings are read within a deadline")]
pub mod settings;
mod shared;
pub mod silence;
pub mod sink;
#[expect(clippy::disallowed_methods, reason = "scans have intervals, tasks deadlines")]
mod supervise;
pub mod thread_names;
#[expect(clippy::disallowed_methods, reason = "reads have a deadline")]
mod threads;
mod tool_cost;
mod tool_thread;
#[expect(
    clippy::disallowed_methods,
    reason = "missing directories are searched for at intervals"
)]
mod watch;

pub use alive::{Heartbeats, Silence};
pub use black_box::BlackBoxes;
pub use clock::Clocks;
pub use host::clocks;
pub use identity::{name_of, own_identity};
pub use pending::or_pending;
pub use rounds::{Readers, Rounds};
pub use supervise::{UnfinishedSessions, supervise};
pub use threads::{FileReading, ReadError};
