//! gcwatch against real runtimes: processes are started, attached to, and counted with.
//!
//! `cargo test --test live` runs a selection on the two runtimes that are always there, and on packs where they are.
//! `tests/live/run` runs the whole matrix (`GCWATCH_MATRIX=full`) and writes docs/compatibility.md. See README.md beside this file.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it does"
)]

mod container;
mod daemon_targets;
mod gcwatch;
mod labelled;
mod log;
mod matrix;
mod processes;
mod profiles;
mod runtimes;
mod service;
mod target;
mod workload;
