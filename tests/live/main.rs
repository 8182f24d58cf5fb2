//! gcwatch with real runtimes and third-party programs: tests start processes, attach to them, and compare counts.
//!
//! `cargo test --test live` runs a selection on the two runtimes that are always available, and on packs if they are
//! available. `tests/live/run` runs the whole matrix (`GCWATCH_MATRIX=full`) and writes docs/compatibility.md. See
//! README.md in this folder.
//!
//! Each module lists its tests with their requirements. A test whose requirements are missing is `ignored`, with the
//! reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod alertmanager;
mod analyzed;
mod black_box;
mod census;
mod container;
mod daemon_targets;
mod diagnostics;
mod dumps;
mod endpoints;
mod evidence;
mod figures;
mod foreign;
mod heap;
mod heap_limits;
mod incident_evidence;
mod labelled;
mod ledger;
mod matrix;
mod mcp;
mod processes;
mod profiles;
mod requests;
mod service;
mod stacks;
mod starved;
mod stored;
mod workload;

use std::process::ExitCode;

use test_support::harness::Tests;

/// Returns whether the whole matrix was requested. The whole matrix takes minutes.
fn is_full() -> bool {
    std::env::var("GCWATCH_MATRIX").is_ok_and(|value| value == "full")
}

fn main() -> ExitCode {
    let mut tests = Tests::default();
    for of_module in [
        // Tests that run alone come first, before any other test has started. The longest tests come next.
        profiles::tests,
        daemon_targets::tests,
        evidence::tests,
        starved::tests,
        endpoints::tests,
        incident_evidence::tests,
        requests::tests,
        figures::tests,
        matrix::tests,
        labelled::tests,
        ledger::tests,
        census::tests,
        dumps::tests,
        heap::tests,
        heap_limits::tests,
        black_box::tests,
        stored::tests,
        processes::tests,
        diagnostics::tests,
        alertmanager::tests,
        foreign::tests,
        mcp::tests,
        container::tests,
        service::tests,
        stacks::tests,
        workload::tests,
    ] {
        of_module(&mut tests);
    }
    // More tests than cores run at the same time, because the tests mostly wait: for sessions of some seconds, and for
    // processes to exit.
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    tests.run(3 * cores)
}
