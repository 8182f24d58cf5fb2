//! Measures the cost of a session per collection, at a rate at which the cost is large.
//!
//! At usual rates, the cost is far below the noise of a shared machine. The program therefore performs more than a
//! thousand collections per second (GCgen0size), in one process, in which short phases with and without a session
//! alternate. Each phase is compared with its two neighbours, so that drift cancels out, and the highest and lowest
//! tenth are trimmed. The program has its own core, and so does the reader.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, ensure};
use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::message::SessionConfig;
use dotnet_diagnostics::{Client, Endpoint};
use rustix::time::{ClockId, clock_gettime};
use test_support::target::RunningProcess;

use crate::proc;
use crate::statistics::{Interval, trimmed};

/// Duration of a phase.
const PHASE: Duration = Duration::from_millis(600);
/// Share of the fastest pieces of work in a phase that count. The other pieces were interrupted.
const FASTEST: f64 = 0.6;
/// Minimum number of pieces for a phase to count.
const FEWEST_PIECES: usize = 8;

/// One piece of work.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Start time (CLOCK_MONOTONIC), in nanoseconds.
    start: i128,
    wall_us: f64,
    collections: f64,
}

/// Result at one rate of collections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Collections per second without a session.
    pub(crate) rate: f64,
    /// Increase of the work time by the session, in percent.
    pub(crate) percent: Interval,
    /// Context switches of the process per second, without and with a session.
    pub(crate) switches: [Interval; 2],
}

/// A phase: its time span, and the context switches of the process per second.
#[derive(Debug, Clone, Copy)]
struct Phase {
    span: (i128, i128),
    switches: f64,
}

/// A phase in progress.
#[derive(Debug, Clone, Copy)]
struct StartedPhase {
    pid: u32,
    at: i128,
    switches: u64,
}

impl StartedPhase {
    fn now(pid: u32) -> anyhow::Result<Self> {
        let switches = context_switches(pid).context("the program has exited")?;
        Ok(Self {
            pid,
            at: monotonic_ns(),
            switches,
        })
    }

    /// Finishes the phase. The process must have the same threads as at the start of the phase.
    fn end(self) -> anyhow::Result<Phase> {
        let (to, switches) = (monotonic_ns(), Self::now(self.pid)?.switches);
        let seconds = (to - self.at) as f64 / 1e9;
        Ok(Phase {
            span: (self.at, to),
            switches: switches.saturating_sub(self.switches) as f64 / seconds,
        })
    }
}

impl Cost {
    /// Returns the cost per collection in microseconds, if the whole increase is due to collections.
    pub(crate) fn each_us(&self) -> Interval {
        self.percent.times(1e4 / self.rate)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [without, with] = self.switches;
        write!(
            f,
            "{} % at {:.1} collections per second; context switches per second: {without} without, {with} with",
            self.percent, self.rate
        )
    }
}

/// The program tests/workload/known/cost.dll, which repeats one piece of work and prints the duration of each.
#[derive(Debug)]
struct Program {
    child: RunningProcess,
    pieces: Arc<Mutex<Vec<Piece>>>,
    reader: JoinHandle<()>,
}

impl Program {
    fn start(runtime: &Path, tmp: &Path, gen0_size: &str, seconds: u64) -> anyhow::Result<Self> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workload/known/cost.dll");
        let mut child = Command::new("taskset")
            .args(["-c", "0"])
            .arg(runtime.join("run"))
            .arg(program)
            .arg(seconds.to_string())
            .env("TMPDIR", tmp)
            .env("DOTNET_GCgen0size", gen0_size)
            .env("DOTNET_TieredCompilation", "0")
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the program with taskset(1)")?;
        let stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        let pieces = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&pieces);
        let reader = std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some(piece) = Piece::parse(&line) {
                    shared.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
                }
            }
        });
        Ok(Self {
            child: RunningProcess(child),
            pieces,
            reader,
        })
    }

    /// Stops the program and returns its pieces of work.
    fn finish(self) -> anyhow::Result<Vec<Piece>> {
        drop(self.child);
        ensure!(self.reader.join().is_ok(), "the reader of the program's output failed");
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *pieces))
    }
}

impl Piece {
    /// Parses a line `CLOCK_MONOTONIC_ns cpu_us wall_us collections`. Returns `None` for any other line.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let start = words.next()?.parse().ok()?;
        let _cpu_us = words.next()?;
        Some(Self {
            start,
            wall_us: words.next()?.parse().ok()?,
            collections: words.next()?.parse().ok()?,
        })
    }

    fn lies_in(&self, (from, to): (i128, i128)) -> bool {
        self.start >= from && self.start + (self.wall_us * 1e3) as i128 <= to
    }
}

/// Measures the cost of a session in `phases` phases with a session, between `phases + 1` phases without one.
pub(crate) fn measure(runtime: &Path, tmp: &Path, gen0_size: &str, phases: usize) -> anyhow::Result<Cost> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let seconds = (PHASE * 4 * u32::try_from(phases)?).as_secs() + 60;
    let program = Program::start(runtime, tmp, gen0_size, seconds)?;
    let pid = program.child.0.id();
    let done = executor.block_on(async {
        // Wait until the program has started and its socket exists.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let process = Scan::host().inspect(pid)?;
        let client = Client::new(Endpoint::for_process(&process)?);
        let mut done = Vec::new();
        for phase in 0..=2 * phases {
            done.push(if phase % 2 == 0 {
                without(pid).await?
            } else {
                with(&client, pid).await?
            });
        }
        anyhow::Ok(done)
    })?;
    let pieces = program.finish()?;
    let times: Vec<Option<f64>> = done.iter().map(|phase| typical(&pieces, phase.span)).collect();
    let ratios: Vec<f64> = times
        .windows(3)
        .step_by(2)
        .filter_map(|around| match around {
            [Some(before), Some(with), Some(after)] => Some(100.0 * (with / f64::midpoint(*before, *after) - 1.0)),
            _ => None,
        })
        .collect();
    ensure!(
        ratios.len() * 2 > phases,
        "too few of {phases} phases had {FEWEST_PIECES} complete pieces of work: the machine is busy"
    );
    let calm: Vec<&Piece> = done
        .iter()
        .step_by(2)
        .flat_map(|phase| pieces.iter().filter(|piece| piece.lies_in(phase.span)))
        .collect();
    let sum = |of: fn(&Piece) -> f64| calm.iter().map(|piece| of(piece)).sum::<f64>();
    let switches = |first: usize| {
        let values: Vec<f64> = done.iter().skip(first).step_by(2).map(|phase| phase.switches).collect();
        trimmed(&values, 0.1).context("no phase was measured")
    };
    Ok(Cost {
        rate: sum(|piece| piece.collections) / (sum(|piece| piece.wall_us) / 1e6),
        percent: trimmed(&ratios, 0.1).context("no phase was measured")?,
        switches: [switches(0)?, switches(1)?],
    })
}

/// Runs a phase without a session.
async fn without(pid: u32) -> anyhow::Result<Phase> {
    let begun = StartedPhase::now(pid)?;
    tokio::time::sleep(PHASE).await;
    begun.end()
}

/// Runs a phase with a session, from its start until the request to stop.
async fn with(client: &Client, pid: u32) -> anyhow::Result<Phase> {
    let mut session = client.collect_tracing(&SessionConfig::garbage_collection()).await?;
    let begun = StartedPhase::now(pid)?;
    let until = tokio::time::Instant::now() + PHASE;
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = tokio::time::timeout_at(until, session.read(&mut buffer)).await {
        ensure!(read? > 0, "the session ended");
    }
    let phase = begun.end()?;
    session.drain(|_| ()).await?;
    session.stopped().await?;
    Ok(phase)
}

/// Returns the mean duration of the fastest pieces of work in a phase, in microseconds, or `None` if the phase has
/// fewer than [`FEWEST_PIECES`] pieces.
fn typical(pieces: &[Piece], span: (i128, i128)) -> Option<f64> {
    let mut times: Vec<f64> = pieces
        .iter()
        .filter(|piece| piece.lies_in(span))
        .map(|piece| piece.wall_us)
        .collect();
    if times.len() < FEWEST_PIECES {
        return None;
    }
    times.sort_by(f64::total_cmp);
    times.truncate((times.len() as f64 * FASTEST).ceil() as usize);
    Some(times.iter().sum::<f64>() / times.len() as f64)
}

/// Returns the voluntary and involuntary context switches of all threads of a process, or `None` if the process has
/// exited.
fn context_switches(pid: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_thread = threads.filter_map(|thread| {
        let status = fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
        let counts = status.lines().filter_map(|line| line.split_once("_ctxt_switches:"));
        counts
            .map(|(_, count)| count.trim().parse::<u64>().ok())
            .sum::<Option<u64>>()
    });
    Some(of_thread.sum())
}

/// Returns CLOCK_MONOTONIC in nanoseconds, which is the program's `Stopwatch`.
fn monotonic_ns() -> i128 {
    let now = clock_gettime(ClockId::Monotonic);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// Measures at more than a thousand collections per second and at very few, and prints the cost at usual rates.
pub(crate) fn report(runtime: &Path, phases: usize) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("gcwcost").tempdir()?;
    // The reader runs on the other core.
    let own = std::process::id().to_string();
    let moved = Command::new("taskset")
        .args(["-acp", "1", &own])
        .stdout(Stdio::null())
        .status();
    ensure!(
        moved.is_ok_and(|status| status.success()),
        "taskset(1) is needed, and two cores"
    );
    println!("{}", proc::machine());
    println!(
        "{}, {phases} phases of {} ms with a session between those without",
        runtime.file_name().unwrap_or_default().display(),
        PHASE.as_millis()
    );
    let many = measure(runtime, folder.path(), "0x100000", phases)?;
    println!("many               {many}");
    let few = measure(runtime, folder.path(), "0x8000000", phases)?;
    println!("few                {few}");
    let each = many.each_us();
    println!("each collection    {each} us");
    for rate in [1.0, 50.0] {
        println!("at {rate:3} per second  {} %", each.times(rate / 1e4));
    }
    Ok(())
}
