//! What being watched costs a process: a real program on a real runtime does the same work with a session and without,
//! in turns; the times of its work are compared.
//!
//! ```text
//! cargo bench --bench cost -- --phases 150 --runtime net10.0.14
//! ```

#![allow(clippy::print_stdout, reason = "a report for people")]

mod phases;
#[expect(dead_code, reason = "the load bench asks more of it")]
#[path = "../load/proc.rs"]
mod proc;
mod statistics;

use anyhow::{Context, ensure};
use clap::Parser;
use test_support::runtimes::{ALL, Host};

/// Measures what a session costs for each collection.
#[derive(Debug, Parser)]
struct Arguments {
    /// Short phases with a session in one process that collects all the time
    #[arg(long, default_value_t = 75)]
    phases: usize,
    /// The runtime, by its folder in the cache of tests/runtimes/fetch
    #[arg(long, default_value = "net10.0.14")]
    runtime: String,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let with_host = ALL.into_iter().filter(|runtime| runtime.host == Host::Run);
    let runtime = with_host.into_iter().find(|runtime| runtime.name == arguments.runtime);
    let runtime = runtime.context("no such runtime has a host for programs")?;
    ensure!(runtime.is_there(), "it is not there: tests/runtimes/fetch");
    phases::report(&runtime.folder(), arguments.phases)
}
