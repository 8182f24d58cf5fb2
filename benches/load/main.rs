//! What the daemon costs under load: fake runtimes on real sockets, a real OTLP receiver, and the numbers of `/proc`.
//!
//! ```text
//! cargo bench --bench load -- --targets 200 --rate 10 --seconds 60
//! cargo bench --bench load -- --targets 1 --rate 1000 --seconds 60       one process in an out-of-memory loop
//! cargo bench --bench load -- --targets 100 --rate 5 --soak 60           an hour of everything: see [`soak`]
//! cargo bench --bench load -- --targets 200 --rate 10 --viewers 16       and the page open in so many browsers
//! ```
//!
//! Each fake runtime is a process of its own (this program, started again as `--instance`), because a target is found
//! by `/proc`: pid, start time, environment, socket name, mount. Many in one process would need a made-up `/proc`, and
//! the daemon would be measured without its scans, its watches and its process handles. They replay collections of a
//! real recording with new times and numbers ([`template`]), in the way in which a runtime writes them ([`instance`]).
//!
//! Everything runs on loopback and in one temporary folder; the daemon is configured to attach to nothing else, and all
//! that was started is ended by its pid.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report for people, and errors of a program of its own"
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

use crate::place::{PATIENCE, Place};
use crate::report::{Report, Window};
use crate::targets::Target;
use crate::viewers::Viewers;

/// What is on its way when nothing new comes: the runtime's flush, the settling, the batch, a retry.
const DRAIN: Duration = Duration::from_secs(15);

/// Drives the daemon with fake runtimes and reports what it costs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Processes
    #[arg(long, default_value_t = 200)]
    targets: usize,
    /// Collections a second in each
    #[arg(long, default_value_t = 10.0)]
    rate: f64,
    /// How long is measured
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How long it runs before
    #[arg(long, default_value_t = 10)]
    warmup: u64,
    /// The recording whose blocking collections are replayed
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/net10-steady.nettrace.gz"))]
    recording: PathBuf,
    /// The daemon
    #[arg(long, default_value_os_t = test_support::program::path())]
    gcwatch: PathBuf,
    /// Without the rules that ship
    #[arg(long)]
    no_rules: bool,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
    /// Instead for so many minutes, with everything that goes wrong in an hour: see soak.rs
    #[arg(long, value_name = "MINUTES")]
    soak: Option<f64>,
    /// With --soak: how often the daemon is killed in the second half; 0: there is none
    #[arg(long, default_value_t = 20)]
    kills: u64,
    /// Instead one outage of the receiver of so many minutes: see soak/outage.rs
    #[arg(long, value_name = "MINUTES")]
    outage: Option<f64>,
    /// Then measures again with so many open pages (16 at most): the overview, then a process each
    #[arg(long, default_value_t = 0)]
    viewers: usize,
    /// Be one process
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
    targets::await_all(&mut targets, "ready", PATIENCE)?;
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
    targets::await_all(&mut targets, "attached", PATIENCE).with_context(|| place::log_tail(&daemon))?;
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
        .map(|target| target.totals(PATIENCE))
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
