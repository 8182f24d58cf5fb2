//! Measures the cost of a session for the observed process. A real program on a real runtime does the same work with
//! and without a session, alternately. The bench compares the durations of the work.
//!
//! ```text
//! cargo bench --bench cost -- --phases 150 --runtime net10.0.14
//! ```

#![allow(clippy::print_stdout, reason = "a report for the user")]

mod phases;
#[expect(dead_code, reason = "the load bench uses more of it")]
#[path = "../load/proc.rs"]
mod proc;
mod statistics;

use anyhow::{Context, ensure};
use clap::Parser;
use test_support::runtimes::{ALL, Host};

/// Measures the cost of a session per collection.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of short phases with a session in one process that collects continuously
    #[arg(long, default_value_t = 75)]
    phases: usize,
    /// Runtime, by its folder in the cache of tests/runtimes/fetch
    #[arg(long, default_value = "net10.0.14")]
    runtime: String,
    /// Argument that cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let with_host = ALL.into_iter().filter(|runtime| runtime.host == Host::Run);
    let runtime = with_host.into_iter().find(|runtime| runtime.name == arguments.runtime);
    let runtime = runtime.context("no runtime of this name has a host for programs")?;
    ensure!(runtime.is_there(), "the runtime is missing; run tests/runtimes/fetch");
    phases::report(&runtime.folder(), arguments.phases)
}
