//! Reports every GC of every .NET process on this host.
//!
//! The `gcwatch` command: what talks to the system, put together from crates that do not. `ARCHITECTURE.md` has the
//! house in one picture.
//!
//! # Layers
//!
//! A module uses only those above it in this table; a test of this crate reads the imports and holds it.
//!
//! | Module | What it is |
//! |---|---|
//! | [`files`] | files for their user alone, written beside their place |
//! | [`container`] | which container a process is in, its limits and what it uses |
//! | [`process`] | plain values: which run of a process, who it is, its state, how far its stream was read |
//! | [`guard`] | the process that closes sessions when this one is stopped or hangs |
//! | [`targets`] | finds processes, attaches, reads their sessions: one task per process |
//! | [`records`] | the ndjson records, a contract |
//! | [`recording`] | files: bytes to collections |
//! | [`evidence`] | bursts: sessions of seconds with stacks; who collects, who allocates; recordings of incidents |
//! | [`pipeline`] | one run at a time: rules, spans, series, the last collections; the same for a process and for a recording |
//! | [`report`] | tables for people |
//! | [`kubernetes`] | which pod a process is of |
//! | [`mcp`] | answers for agents, made of the records of the API |
//! | [`web`] | the listener: page, API, `/metrics`, health |
//! | [`config`] | file, environment and flags to options; rule files |
//! | [`daemon`] | the parts of `gcwatch run` put together: reload, shutdown, the daemon's own telemetry |
//! | [`commands`] | the command line, standard output and exit codes |
//!
//! What a collection is and how it is rebuilt is in the crate [`clr_gc`], how a process is found and asked in
//! [`dotnet_diagnostics`], what a rule is in [`gc_rules`], what spans and metrics are in [`gc_telemetry`], and how they
//! are sent in [`delivery`].

// Time is a value: only the modules that allow it ask a clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

#[expect(clippy::disallowed_methods, reason = "commands record, replay and wait in real time")]
pub mod commands;
pub mod config;
pub mod container;
#[expect(
    clippy::disallowed_methods,
    reason = "the loop of the daemon, its deadlines and its reload"
)]
pub mod daemon;
#[expect(clippy::disallowed_methods, reason = "a burst ends by its time, and has deadlines")]
pub mod evidence;
mod files;
#[expect(
    clippy::disallowed_methods,
    reason = "a guard that ended is started again after a delay"
)]
pub mod guard;
#[expect(clippy::disallowed_methods, reason = "watches retry, and requests have deadlines")]
pub mod kubernetes;
pub mod mcp;
#[expect(
    clippy::disallowed_methods,
    reason = "a live collection is stamped with the time at which it was observed"
)]
pub mod pipeline;
pub mod process;
pub mod recording;
pub mod records;
pub mod report;
#[expect(clippy::disallowed_methods, reason = "sessions have deadlines, lags and retries")]
pub mod targets;
#[expect(
    clippy::disallowed_methods,
    reason = "connections have deadlines, and `/metrics` is of now"
)]
pub mod web;

#[cfg(test)]
mod order;
