//! What being watched costs a process: a real program on a real runtime does the same work with gcwatch attached and
//! without, in turns; its CPU time is compared.
//!
//! ```text
//! cargo bench --bench cost -- --pairs 30
//! cargo bench --bench cost -- --pairs 30 --runtime net8.0.33 --gen0-size 0x400000     (a collection every 4 MB)
//! cargo bench --bench cost -- --phases 150 --runtime net10.0.14      the cost of a collection's events alone
//! ```
//!
//! The daemon runs all the time, in both halves of a pair, so that what it takes of the machine is the same; only
//! processes with its mark in their environment are its targets. That it was attached is checked: it must have exported
//! collections of the one and none of the other. Wall time says nothing here, and hardware counters are mostly not to
//! be had on virtual machines.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report for people, and errors of a program of its own"
)]

mod phases;
#[expect(dead_code, reason = "the load bench asks more of it")]
#[path = "../load/proc.rs"]
mod proc;
#[expect(dead_code, reason = "the load bench asks more of it")]
#[path = "../load/receiver.rs"]
mod receiver;
mod statistics;
#[expect(dead_code, reason = "the load bench asks more of it")]
#[path = "../load/targets.rs"]
mod targets;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};

use crate::receiver::Receiver;
use crate::statistics::{Interval, median};
use crate::targets::{Daemon, Place};
use crate::workload::{Recorder, Run, Workload};

/// What is not to be exceeded.
const GOAL_PERCENT: f64 = 0.5;

/// Compares the CPU time of a program with and without gcwatch attached.
#[derive(Debug, Parser)]
struct Arguments {
    /// Pairs of runs
    #[arg(long, default_value_t = 30)]
    pairs: usize,
    /// How much the program allocates, in rounds of 2 MB
    #[arg(long, default_value_t = 20_000)]
    rounds: u32,
    /// The runtime, by its folder in the cache of tests/runtimes/fetch
    #[arg(long, default_value = "net10.0.0")]
    runtime: String,
    /// The runtime's knob GCgen0size, in bytes (hex with 0x): how much is allocated between two collections
    #[arg(long)]
    gen0_size: Option<String>,
    /// Instead of pairs: this many short phases with a session in one process that collects all the time
    #[arg(long)]
    phases: Option<usize>,
    /// What is attached
    #[arg(long, value_enum, default_value_t = Attach::Run)]
    with: Attach,
    /// Milliseconds before the work, in both halves: time to be attached to
    #[arg(long, default_value_t = 2000)]
    settle: u64,
    /// gcwatch
    #[arg(long, default_value = env!("CARGO_BIN_EXE_gcwatch"))]
    gcwatch: PathBuf,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Attach {
    /// The daemon
    Run,
    /// `gcwatch record`: the same events, kept by a process of its own
    Record,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.phases {
        Some(phases) => workload::runtime_folder(&arguments.runtime).and_then(|folder| phases::report(&folder, phases)),
        None => compare(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cost: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> anyhow::Result<()> {
    let workload = Workload::find(&arguments.runtime, arguments.rounds, arguments.gen0_size.clone())?;
    let folder = tempfile::Builder::new().prefix("gcwcost").tempdir()?;
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the receiver's executor")?;
    let receiver = executor.block_on(Receiver::start())?;
    let daemon = match arguments.with {
        Attach::Run => Some(Daemon::start(
            &arguments.gcwatch,
            &Place {
                folder: folder.path().to_owned(),
                receiver: receiver.address,
                rules: true,
                state: None,
            },
        )?),
        Attach::Record => None,
    };
    let settle = Duration::from_millis(arguments.settle);
    let run = |attached: bool| -> anyhow::Result<Run> {
        let process = workload.start(folder.path(), attached && daemon.is_some())?;
        let pid = process.pid();
        let recorder = (attached && daemon.is_none()).then(|| Recorder::attach(&arguments.gcwatch, pid));
        let recorder = recorder.transpose()?;
        std::thread::sleep(settle);
        let run = process.work()?;
        if let Some(recorder) = recorder {
            recorder.finish(run.collections)?;
        }
        if let Some(daemon) = &daemon {
            // The last batch is on its way for a moment.
            std::thread::sleep(Duration::from_secs(1));
            let seen = receiver
                .store()
                .processes
                .get(&i64::from(pid))
                .map_or(0, |received| received.numbers.len());
            let as_meant = if attached { seen > 0 } else { seen == 0 };
            ensure!(
                as_meant,
                "{seen} collections of process {pid} were exported. {}",
                daemon.log_tail()
            );
        }
        Ok(run)
    };

    println!("{}", proc::machine());
    println!("{workload}");
    // The first run of a program reads it from disk.
    run(false)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for pair in 0..arguments.pairs {
        // Whatever drifts, drifts against both.
        if pair % 2 == 0 {
            without.push(run(false)?);
            with.push(run(true)?);
        } else {
            with.push(run(true)?);
            without.push(run(false)?);
        }
    }
    let seconds = |runs: &[Run]| Interval::of(&runs.iter().map(|run| run.cpu.as_secs_f64()).collect::<Vec<_>>());
    let ratios: Vec<f64> = without
        .iter()
        .zip(&with)
        .map(|(without, with)| 100.0 * (with.cpu.as_secs_f64() / without.cpu.as_secs_f64() - 1.0))
        .collect();
    let cost = Interval::of(&ratios);
    let collections =
        |runs: &[Run]| runs.iter().map(|run| run.collections).sum::<u64>() as f64 / runs.len().max(1) as f64;
    println!(
        "without            {} s of CPU, {:.0} collections",
        seconds(&without),
        collections(&without)
    );
    println!(
        "with               {} s of CPU, {:.0} collections",
        seconds(&with),
        collections(&with)
    );
    println!(
        "cost               {cost} % (mean of {} pairs with its 95 % interval)",
        arguments.pairs
    );
    if let Some((middle, low, high)) = median(&ratios) {
        println!("                   {middle:.3} [{low:.3}, {high:.3}] % (median, by ranks)");
    }
    let verdict = if cost.high() <= GOAL_PERCENT {
        "met"
    } else if cost.low() > GOAL_PERCENT {
        "missed"
    } else {
        "neither met nor missed: the interval holds the goal; more pairs or a quieter machine would decide"
    };
    println!("goal               {GOAL_PERCENT} % at most: {verdict}");
    Ok(())
}
