//! Which .NET processes the host has, who they are, and one supervised task per process that reads its collections.
//!
//! ```text
//! watch     inotify on the directories of sockets --+
//! new_processes   those that make threads ----------+
//! reverse   runtimes that connect to us ------------+--> supervise --> attempt, one task per process --> session -->
//! look      /proc, every so often ------------------+     registry      inspect, identity, lease          reading
//!                                                         filter        kept_run                     clock
//!                                                                                  others --> heals --------+
//! ```
//!
//! Attaching is done on the executor of [`supervise()`], at once; sessions are read by [`Readers`], in rounds
//! (`rounds`).
//!
//! `registry`, `backoff`, `filter`, `memory`, `identity`, `clock` and the decisions of `others` are pure: what they
//! know is given to them (by `facts` and `host`), time included. Everything else is I/O at the edge. A task reports to
//! its [`sink::RunSink`] only, which is the pipeline's feed.
//!
//! # Promises
//!
//! * A run (pid and start time) is attached to at most once, by this gcwatch and (by a lease) by all of the host.
//! * Whatever fails is retried for as long as the run lives, from half a second up to once a minute; a stream that took
//!   more memory than it may (`memory`), from half a minute up to once an hour.
//! * A target that is stopped, silent or hostile costs its own task and nothing else: no lock is held over a wait,
//!   every step has a deadline, and what a stream may cost is bounded.
//! * What a session of another tool leaves behind, because ours is there, is healed within ten seconds of its end.
//! * A session that was begun is stopped and drained; a runtime that came suspended is resumed, whatever else fails.
//!
//! # Layers
//!
//! 1. `proc_file`, [`own_file`], `host`, `facts`, [`heap_limit`], [`exporting`], [`descriptors`]: what is read of the
//!    host
//! 2. [`options`], `filter`, `identity`, `registry`, `backoff`, `memory`, [`clock`]: decisions
//! 3. [`guard`], [`black_box`], `buffer`, `rounds`: how streams are read
//! 4. `order`, `others`, `shared`, `requests`, `reading`, `attempt` with its session: one process, each after what it
//!    uses
//! 5. [`supervise()`]: all of them

// Time is a value: only the modules that allow it, and tests, ask a clock (clippy.toml).
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
    reason = "the threads that collect are read around stops"
)]
mod cpu_wait;
pub mod descriptors;
mod elf;
pub mod eligibility;
pub mod exporting;
pub mod facts;
mod filter;
pub mod finalizer_cpu;
#[expect(
    clippy::disallowed_methods,
    reason = "a guard that ended is started again after a delay"
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
    reason = "files of gcwatch's own, whose links are not followed"
)]
pub mod lease;
#[expect(clippy::disallowed_methods, reason = "/proc is read every so often")]
mod look;
mod memory;
#[expect(
    clippy::disallowed_methods,
    reason = "processes are looked at when they are some milliseconds old"
)]
mod new_processes;
pub mod options;
mod order;
#[expect(
    clippy::disallowed_methods,
    reason = "what other tools leave is healed after a delay"
)]
mod others;
#[expect(clippy::disallowed_methods, reason = "the one place that opens files of a process")]
pub mod own_file;
mod pending;
pub mod proc_file;
#[expect(clippy::disallowed_methods, reason = "collections have a lag")]
mod reading;
mod registry;
#[expect(clippy::disallowed_methods, reason = "a session of requests has deadlines")]
mod requests;
#[expect(clippy::disallowed_methods, reason = "runtimes connect within a deadline")]
mod reverse;
#[expect(clippy::disallowed_methods, reason = "rounds begin at intervals")]
mod rounds;
#[expect(clippy::disallowed_methods, reason = "settings are read within a deadline")]
pub mod settings;
mod shared;
pub mod silence;
pub mod sink;
#[expect(clippy::disallowed_methods, reason = "scans have intervals, tasks deadlines")]
mod supervise;
pub mod thread_names;
#[expect(clippy::disallowed_methods, reason = "what is read has a deadline")]
mod threads;
mod tool_cost;
mod tool_thread;
#[expect(
    clippy::disallowed_methods,
    reason = "directories that are not there yet are looked for"
)]
mod watch;

pub use alive::{Alive, Silence};
pub use black_box::BlackBoxes;
pub use clock::Clocks;
pub use host::clocks;
pub use identity::{name_of, own_identity};
pub use pending::or_pending;
pub use rounds::{Readers, Rounds};
pub use supervise::{Unfinished, supervise};
pub use threads::{FileReading, NotRead};
