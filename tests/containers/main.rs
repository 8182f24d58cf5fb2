//! gcwatch across containers: namespaces made with `unshare` stand for them, with real runtimes inside as other users.
//!
//! They need root and the programs of util-linux; where either is missing, or the kernel refuses namespaces, a test is
//! `ignored`, with the reason. Nothing of the host is changed: mounts are made in namespaces that end with their test,
//! files in folders that it deletes.
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
    // Most of the time they wait for runtimes that start.
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    tests.run(2 * cores)
}
