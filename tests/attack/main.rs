//! gcwatch beside other tools, frozen, flooded and attacked: each promise of docs/reliability.md with the fault that
//! would break it.
//!
//! `cargo test --test attack` runs what takes seconds. `tests/attack/run` runs all of it (`GCWATCH_ATTACK=full`): every
//! runtime of the cache, and the faults that last for minutes. Hostile runtimes are a program of their own, with modes
//! by name, that others can run against their own agents.
//!
//! Each module lists its tests and what they need; where that is not there, a test is `ignored`, with the reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod bursts;
mod directories;
mod ends;
mod flooded;
mod freezer;
mod frozen;
mod heap_dumps;
mod heap_limit;
mod listener;
mod lives;
mod messages;
mod others;
mod record;
mod recordings;
mod serving;
mod special_files;
mod start_up;
mod state;

use std::process::ExitCode;

use test_support::harness::Tests;

/// Whether all of it was asked for, which takes minutes.
fn is_full() -> bool {
    std::env::var("GCWATCH_ATTACK").is_ok_and(|value| value == "full")
}

fn main() -> ExitCode {
    if let Some(ended) = test_support::hostile::as_program() {
        return ended;
    }
    let mut tests = Tests::default();
    for of_module in [
        // One of these runs alone: there is least to wait for while nothing else has begun.
        flooded::tests,
        others::tests,
        frozen::tests,
        freezer::tests,
        ends::tests,
        bursts::tests,
        start_up::tests,
        directories::tests,
        heap_dumps::tests,
        heap_limit::tests,
        listener::tests,
        lives::tests,
        messages::tests,
        record::tests,
        recordings::tests,
        special_files::tests,
        state::tests,
    ] {
        of_module(&mut tests);
    }
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    tests.run(cores)
}
