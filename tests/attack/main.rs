//! gcwatch next to other tools, frozen, flooded and attacked. Each promise of docs/reliability.md is tested with the
//! fault that would break it.
//!
//! `cargo test --test attack` runs the tests that take seconds. `tests/attack/run` runs all tests
//! (`GCWATCH_ATTACK=full`): on every runtime in the cache, and with faults that last for minutes. The hostile runtimes
//! are a program with named modes, so that other projects can test their agents with this program.
//!
//! Each module lists its tests with their requirements. A test whose requirements are missing is `ignored`, with the
//! reason.
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

use test_support::harness::{Missing, Need, Tests};

/// Returns whether the full run was requested. A full run takes minutes.
fn is_full() -> bool {
    std::env::var("GCWATCH_ATTACK").is_ok_and(|value| value == "full")
}

/// Returns an error if the test does not run as root.
fn need_root() -> Need {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Missing::Ignored(
            "this test needs root to become another user".to_owned(),
        ))
    }
}

fn main() -> ExitCode {
    if let Some(ended) = test_support::hostile::as_program() {
        return ended;
    }
    let mut tests = Tests::default();
    for of_module in [
        // One test of this module runs alone. This module comes first, before any other test has started.
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
