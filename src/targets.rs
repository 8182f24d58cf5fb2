//! Which .NET processes the host has, who they are, and one supervised task per process that reads its collections.
//!
//! ```text
//! watch     inotify on the directories of sockets --+
//! newcomers processes that make threads ------------+
//! reverse   runtimes that connect to us ------------+--> supervise --> attempt, one task per process --> session -->
//! sink look      /proc, every so often ------------------+     registry      inspect, identity, lease          reading
//!                                                         filter        carryover                         clock
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

mod alive;
mod attempt;
mod backoff;
pub(crate) mod black_box;
mod carryover;
pub(crate) mod clock;
pub(crate) mod descriptors;
mod elf;
pub(crate) mod exporting;
pub(crate) mod facts;
mod filter;
pub(crate) mod heap_limit;
mod held_back;
pub(crate) mod host;
mod identity;
pub(crate) mod inotify;
mod inspect;
pub(crate) mod lease;
mod look;
mod memory;
mod newcomers;
pub mod options;
mod others;
pub(crate) mod proc_file;
mod reading;
mod registry;
mod requests;
mod reverse;
mod rounds;
mod session;
pub(crate) mod settings;
pub(crate) mod silence;
pub mod sink;
pub(crate) mod standing;
mod supervise;
pub(crate) mod thread_names;
mod threads;
mod tool_thread;
mod user;
mod watch;

pub use alive::{Alive, Silence};
pub use black_box::BlackBoxes;
pub use clock::Clocks;
pub use host::clocks;
pub(crate) use identity::{name_of, own_identity};
pub use rounds::{Readers, Rounds};
pub use supervise::{Unfinished, supervise};
pub use threads::{NotRead, Reading};
