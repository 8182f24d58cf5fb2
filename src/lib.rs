//! Reports every GC of every .NET process on this host.
//!
//! The `gcwatch` command: the parts, each a crate, put together. `ARCHITECTURE.md` has the house in one picture and
//! says which crate is for what.
//!
//! | Module | What it is |
//! |---|---|
//! | [`pipeline`] | one run at a time: rules, spans, series, the last collections; the same for a process and for a recording |
//! | [`view`] | a recording as the record of the page that `analyze --html` writes |
//! | [`daemon`] | the parts of `gcwatch run` put together: reload, shutdown, the daemon's own telemetry |
//! | [`commands`] | the command line, standard output and exit codes |
//!
//! A module uses only those above it in this table.

// Time is a value: only the modules that allow it ask a clock (clippy.toml).
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
