//! Reports every GC of every .NET process on this host.
//!
//! The `gcwatch` command, assembled from the crates of this workspace. `ARCHITECTURE.md` shows the whole program in one
//! picture and names the responsibility of each crate.
//!
//! | Module | Responsibility |
//! |---|---|
//! | [`pipeline`] | rules, spans, series and recent collections of each run, for live processes and recordings |
//! | [`view`] | converts a recording to the record of the page that `analyze --html` writes |
//! | [`daemon`] | `gcwatch run`: reload, shutdown, the daemon's own telemetry |
//! | [`commands`] | the command line, standard output and exit codes |
//!
//! A module uses only the modules above it in this table.

// Time is passed as a value: only the modules that allow the lint read a clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

#[expect(clippy::disallowed_methods, reason = "commands record, replay and wait in real time")]
pub mod commands;
#[expect(
    clippy::disallowed_methods,
    reason = "the loop of the daemon, its deadlines and its reload"
)]
pub mod daemon;
#[expect(
    clippy::disallowed_methods,
    reason = "a live collection is stamped with the time at which it was observed"
)]
pub mod pipeline;
pub mod view;
