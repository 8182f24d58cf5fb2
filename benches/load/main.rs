//! Measures the cost of the daemon under load, with fake runtimes on real sockets, a real OTLP receiver, and figures
//! from `/proc`.
//!
//! ```text
//! cargo bench --bench load -- --targets 200 --rate 10 --seconds 60
//! cargo bench --bench load -- --targets 1 --rate 1000 --seconds 60       one process in an out-of-memory loop
//! cargo bench --bench load -- --targets 100 --rate 5 --soak 60           one hour with all faults: see [`soak`]
//! cargo bench --bench load -- --targets 200 --rate 10 --viewers 16       also with 16 browsers that show the page
//! ```
//!
//! Each fake runtime is a separate process (this program, started again with `--instance`), because a target is found
//! through `/proc`: pid, start time, environment, socket name, mount. Several targets in one process would need a fake
//! `/proc`, and the measurement would exclude the daemon's scans, watches and process handles. The fake runtimes replay
//! collections of a real recording with new times and numbers ([`template`]), in the way in which a runtime writes them
//! ([`instance`]).
//!
//! All traffic is on loopback, and all files are in one temporary folder. The daemon is configured to attach to no
//! other process, and all started processes are ended by pid.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report for the user, and errors of a separate program"
)]

mod instance;
mod place;
mod proc;
mod receiver;
mod report;
mod soak;
mod targets;
mod template;
mod viewers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;

use crate::place::{Place, TIMEOUT};
use crate::report::{Report, Window};
use crate::targets::Target;
use crate::viewers::Viewers;

/// Time for which data is in transit after the last collection: flush of the runtime, settling, batch, retry.
const DRAIN: Duration = Duration::from_secs(15);

/// Drives the daemon with fake runtimes and reports its cost.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of processes
    #[arg(long, default_value_t = 200)]
    targets: usize,
    /// Collections per second in each process
    #[arg(long, default_value_t = 10.0)]
    rate: f64,
    /// Duration of the measurement, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Duration of the run before the measurement, in seconds
    #[arg(long, default_value_t = 10)]
    warmup: u64,
    /// Recording whose blocking collections are replayed
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/net10-steady.nettrace.gz"))]
    recording: PathBuf,
    /// Path of the daemon
    #[arg(long, default_value_os_t = test_support::program::path())]
    gcwatch: PathBuf,
    /// Run without the shipped rules
    #[arg(long)]
    no_rules: bool,
    /// Argument that cargo adds
    #[arg(long, hide = true)]
    bench: bool,
    /// Run for this many minutes instead, with all faults of an hour: see soak.rs
    #[arg(long, value_name = "MINUTES")]
    soak: Option<f64>,
    /// Number of kills of the daemon in the second half of --soak; 0 skips that half
    #[arg(long, default_value_t = 20)]
    kills: u64,
    /// Run one outage of the receiver of this many minutes instead: see soak/outage.rs
    #[arg(long, value_name = "MINUTES")]
    outage: Option<f64>,
    /// Then measure again with this many open pages (at most 16): first the overview, then one process each
    #[arg(long, default_value_t = 0)]
    viewers: usize,
    /// Run as a fake process
    #[arg(long, hide = true)]
    instance: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = if arguments.instance {
        instance::run(&arguments.recording, arguments.rate)
    } else if let Some(minutes) = arguments.outage {
        soak::outage::run(&arguments, minutes)
    } else if let Some(minutes) = arguments.soak {
        soak::run(&arguments, minutes, arguments.kills)
    } else {
        drive(&arguments)
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn drive(arguments: &Arguments) -> anyhow::Result<()> {
    let different = template::Template::read(&arguments.recording)?.len();
    let folder = tempfile::Builder::new().prefix("gcwload").tempdir()?;
    let mut targets = (0..arguments.targets)
        .map(|_| Target::start(folder.path(), arguments))
        .collect::<anyhow::Result<Vec<_>>>()?;
    targets::await_all(&mut targets, "ready", TIMEOUT)?;
    println!("{}", proc::machine());
    println!(
        "{} processes, {different} different collections of {}",
        targets.len(),
        arguments.recording.display()
    );

    let receiver = receiver::Receiver::start()?;
    let at = Place {
        folder: folder.path().to_owned(),
        receiver: receiver.address,
        rules: !arguments.no_rules,
        state: None,
    };
    let started = Instant::now();
    let mut daemon = at.start(&arguments.gcwatch);
    targets::await_all(&mut targets, "attached", TIMEOUT).with_context(|| place::log_tail(&daemon))?;
    let attached_after = started.elapsed();
    std::thread::sleep(Duration::from_secs(arguments.warmup));

    receiver.store().timing = true;
    let window = Window::measure(&mut daemon, &targets, Duration::from_secs(arguments.seconds))?;
    receiver.store().timing = false;
    let mut watched = String::new();
    if arguments.viewers > 0 {
        let of_processes: Vec<String> = targets
            .iter()
            .map(|target| format!("view=process&pid={}", target.pid()))
            .collect();
        for (view, queries) in [
            ("overview", vec!["view=overview".to_owned()]),
            ("process", of_processes),
        ] {
            let viewers = Viewers::open(daemon.address, arguments.viewers, &queries)?;
            let length = Duration::from_secs(arguments.seconds);
            let open = Window::measure(&mut daemon, &targets, length)?;
            let bytes = viewers.close();
            watched.push_str(&open.beside(&window, view, arguments.viewers, bytes));
        }
    }

    for target in &mut targets {
        target.quiet()?;
    }
    let totals = targets
        .iter_mut()
        .map(|target| target.totals(TIMEOUT))
        .collect::<anyhow::Result<Vec<_>>>()?;
    report::drain(&receiver, &totals, DRAIN);
    let shutdown = place::stop(&mut daemon)?;
    let report = Report {
        window,
        attached_after,
        shutdown,
        targets: totals,
        store: &receiver.store(),
    };
    print!("{report}{watched}");
    Ok(())
}
