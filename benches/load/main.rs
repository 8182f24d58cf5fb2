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
mod proc;
mod receiver;
mod report;
mod soak;
mod targets;
mod template;
mod viewers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;

use crate::report::{Report, Window};
use crate::targets::{Daemon, Pace, Place, Target};
use crate::viewers::Viewers;

/// How long processes may take to start, to be attached to and to end.
const PATIENCE: Duration = Duration::from_secs(120);
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
    /// One more process with so many collections a second
    #[arg(long, value_name = "RATE")]
    storm: Option<f64>,
    /// How long is measured
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How long it runs before
    #[arg(long, default_value_t = 10)]
    warmup: u64,
    /// Milliseconds between two writes of a process (a runtime: 100)
    #[arg(long, default_value_t = 100)]
    flush: u64,
    /// The recording whose blocking collections are replayed
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/net10-steady.nettrace.gz"))]
    recording: PathBuf,
    /// The daemon
    #[arg(long, default_value = env!("CARGO_BIN_EXE_gcwatch"))]
    gcwatch: PathBuf,
    /// Without the rules that ship
    #[arg(long)]
    no_rules: bool,
    /// Only start the processes and print their pids, until Enter
    #[arg(long)]
    only_targets: bool,
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
        let pace = Pace {
            rate: arguments.rate,
            flush: Duration::from_millis(arguments.flush),
        };
        instance::run(&arguments.recording, pace)
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
    let mut rates = vec![arguments.rate; arguments.targets];
    rates.extend(arguments.storm);
    let mut targets = rates
        .iter()
        .map(|rate| {
            let pace = Pace {
                rate: *rate,
                flush: Duration::from_millis(arguments.flush),
            };
            Target::start(folder.path(), pace, &arguments.recording)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    targets::await_all(&mut targets, "ready", PATIENCE)?;
    if arguments.only_targets {
        for target in &targets {
            println!("{}", target.pid());
        }
        std::io::stdin().read_line(&mut String::new())?;
        return Ok(());
    }
    println!("{}", proc::machine());
    println!(
        "{} processes, {different} different collections of {}",
        targets.len(),
        arguments.recording.display()
    );

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the receiver's executor")?;
    let receiver = runtime.block_on(receiver::Receiver::start())?;
    let place = Place {
        folder: folder.path().to_owned(),
        receiver: receiver.address,
        rules: !arguments.no_rules,
        state: None,
    };
    let mut daemon = Daemon::start(&arguments.gcwatch, &place)?;
    targets::await_all(&mut targets, "attached", PATIENCE).with_context(|| daemon.log_tail())?;
    let attached_after = daemon.age();
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
            let viewers = Viewers::open(daemon.address()?, arguments.viewers, &queries)?;
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
    let shutdown = daemon.stop(PATIENCE)?;
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
