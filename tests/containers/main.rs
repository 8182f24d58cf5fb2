//! gcwatch across containers: namespaces created with `unshare` act as containers, with real runtimes inside that run
//! as other users.
//!
//! The tests need root and the programs of util-linux; if either is missing or the kernel refuses namespaces, a test is
//! `ignored`, with the reason. The tests do not change the host: mounts are in namespaces that end with their test, and
//! files are in folders that the test deletes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod container;
mod everywhere;
mod gcwatch;
mod kinds;
mod matrix;
mod sidecar;

use std::process::ExitCode;

use test_support::harness::Tests;

fn main() -> ExitCode {
    let mut tests = Tests::default();
    for of_module in [
        attacks::tests,
        everywhere::tests,
        kinds::tests,
        matrix::tests,
        sidecar::tests,
    ] {
        of_module(&mut tests);
    }
    // Most of the time, the tests wait for runtimes that start.
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    tests.run(2 * cores)
}
