//! The common part of `callers`, `allocations` and `stacks`: a burst of a process, or a burst from a recording.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clr_evidence::burst::{Burst, BurstFacts, Origin, Weight};
use clr_evidence::{flame, folded};
use dotnet_diagnostics::discovery::{Process, Scan};
use dotnet_diagnostics::{Client, Endpoint};
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use crate::commands::cli::{BurstArgs, EvidenceFormat, SubjectArgs};
use crate::commands::executor;
use crate::commands::look::major;
use crate::commands::output::{Output, private_file, say};
use evidence::burst::{BurstOutcome, Question, StoppedBy};
use evidence::lock::BurstLock;
use processes::files::AtomicFile;
use recording::source::Source;
use targets::FileReading;
use targets::guard::{Guard, HEARTBEAT_INTERVAL};

/// Returns a burst of a process, or the burst in a recording, with the output for its results. The output is opened
/// first, so that no burst runs if the output cannot be written. Returns `None` if the command was stopped before the
/// burst started.
pub(crate) fn gather(
    subject: &SubjectArgs,
    args: &BurstArgs,
    default_time: Duration,
    question: impl FnOnce(&BurstTarget) -> anyhow::Result<Question>,
) -> anyhow::Result<Option<(BurstData, Output<EvidenceFormat>)>> {
    let subject = Subject::from_args(subject)?;
    let output = Output::open(args.format, args.output.as_deref(), args.force)?;
    let gathered = match subject {
        Subject::Recording(file) => Some(from_file(file)?),
        Subject::Process(pid) => executor()?.block_on(async {
            let asked = BurstTarget::find(pid).await?;
            let question = question(&asked)?;
            asked.burst(args, question, default_time).await
        })?,
    };
    Ok(gathered.map(|gathered| (gathered, output)))
}

/// A burst of a process, or the burst in a recording.
pub(crate) struct BurstData {
    pub(crate) burst: Burst,
    pub(crate) facts: Facts,
    /// Whether the result is complete.
    pub(crate) is_whole: bool,
}

/// Facts about a burst for the first record of the output.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    /// Pid on the host; `None` for a recording.
    pub(crate) pid: Option<u32>,
    /// Name of the process or of the file.
    pub(crate) name: String,
    runtime: Option<String>,
    pub(crate) stopped_by: StoppedBy,
    /// Time from the request to stop to the end of the stream, in nanoseconds; `None` for a recording.
    stop_ns: Option<u64>,
    #[serde(flatten)]
    pub(crate) of_burst: BurstFacts,
}

impl BurstData {
    /// Writes the stacks with their weights, as text or as a flame graph. `what` is the title of the flame graph.
    pub(crate) fn write_stacks(
        &self,
        output: &mut Output<EvidenceFormat>,
        (weight, unit): (Weight, flame::Unit),
        what: &str,
    ) -> io::Result<()> {
        let stacks = self.burst.weighted_stacks(weight);
        if output.format == EvidenceFormat::Folded {
            return folded::write(output.text(), &stacks);
        }
        let title = format!("{what}: {}", self.facts.name);
        let svg = flame::svg(&title, &stacks, unit, &self.burst.framework());
        output.text().write_all(svg.as_bytes())
    }
}

/// Subject of the command. An argument of digits is a pid.
pub(crate) enum Subject<'a> {
    Process(u32),
    Recording(&'a Path),
}

impl<'a> Subject<'a> {
    pub(crate) fn from_args(args: &'a SubjectArgs) -> anyhow::Result<Self> {
        let source = args.source.as_ref();
        let number = source.and_then(|source| source.to_str()?.parse().ok());
        match (args.pid.or(number), source) {
            (Some(0), _) => anyhow::bail!("pid 0 is not a valid process"),
            (Some(pid), _) => Ok(Self::Process(pid)),
            (None, Some(file)) => Ok(Self::Recording(file)),
            (None, None) => anyhow::bail!("give a PID or a recording"),
        }
    }
}

/// Reads a recording with stacks.
fn from_file(file: &Path) -> anyhow::Result<BurstData> {
    let mut source = Source::open(file)?;
    let mut burst = Burst::new(Origin::File);
    let mut buffer = vec![0; source.read_size()];
    let mut faults = Vec::new();
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        if let Err(error) = burst.push(buffer.get(..read).unwrap_or_default()) {
            faults.push(error);
            break;
        }
    }
    faults.extend(burst.finish().err());
    for fault in &faults {
        say(format_args!("{}: {fault}; reporting the part before", source.name()));
    }
    let facts = Facts {
        pid: None,
        name: source.name().to_owned(),
        runtime: None,
        stopped_by: StoppedBy::EndOfFile,
        stop_ns: None,
        of_burst: burst.facts(),
    };
    Ok(BurstData {
        burst,
        facts,
        is_whole: faults.is_empty(),
    })
}

/// Timeout for reading the files of a process.
const FILES_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads files of a process on a separate thread. If a file system does not respond within [`FILES_TIMEOUT`], returns
/// an error and leaves the thread behind.
pub(crate) async fn read_process_files<T: Send + 'static>(
    pid: u32,
    read: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let read = FileReading::default().within(FILES_TIMEOUT, read).await;
    read.map_err(|late| anyhow::anyhow!("cannot read the files of process {pid}: {late}"))
}

/// A process, with a client of its runtime.
pub(crate) struct BurstTarget {
    pub(crate) process: Process,
    pub(crate) client: Client,
    pub(crate) runtime: Option<String>,
}

impl BurstTarget {
    pub(crate) async fn find(pid: u32) -> anyhow::Result<Self> {
        let process = read_process_files(pid, move || Scan::host().inspect(pid)).await??;
        let client = guarded(Client::new(Endpoint::for_process(&process)?));
        let info = client.probe().await?;
        let runtime = info.and_then(|info| info.runtime_version);
        Ok(Self {
            process,
            client,
            runtime,
        })
    }

    /// Returns the major version of the runtime; `None` for .NET Core 3, or if the version is unknown.
    pub(crate) fn major(&self) -> Option<u32> {
        self.runtime.as_deref().and_then(major)
    }

    /// Runs a burst once the burst lock is free, or at once with `--force`. Returns `None` if the command was stopped
    /// before the burst started.
    async fn burst(
        self,
        args: &BurstArgs,
        question: Question,
        default_time: Duration,
    ) -> anyhow::Result<Option<BurstData>> {
        let stopped = stops()?;
        let stop = || stopped.notified();
        let pid = self.process.pid;
        let turn = if args.force {
            // With `--force`, take the lock only if it is free, and do not wait for it. The lease also names the
            // process to heal if this program is killed.
            BurstLock::take(args.lease_folder.clone(), pid, self.process.uid).ok()
        } else {
            let waits = |holder: &str| {
                say(format_args!(
                    "waiting: another burst is running on this host ({holder})"
                ))
            };
            tokio::select! {
                turn = BurstLock::wait(args.lease_folder.clone(), pid, self.process.uid, waits) => Some(turn),
                () = stop() => return Ok(None),
            }
        };
        if let Some(no_lock) = turn.as_ref().and_then(BurstLock::no_lock) {
            say(no_lock);
        }
        let time = args.duration.unwrap_or(default_time);
        if io::stderr().is_terminal() {
            say(format_args!(
                "watching process {pid} for {:.0} s; Ctrl-C ends it early",
                time.as_secs_f64()
            ));
        }
        let mut kept = KeptRecording::open(args.keep.as_deref(), args.force)?;
        let BurstOutcome {
            burst,
            stopped_by,
            stop_took,
            cut,
            not_healed,
            ..
        } = evidence::burst::run(&self.client, question, time, stop, |bytes| kept.write(bytes)).await?;
        let is_kept = kept.complete();
        if let Some(cut) = &cut {
            say(format_args!("process {pid}: {cut}; reporting the part before"));
        } else if stopped_by == StoppedBy::Exit {
            say(format_args!(
                "process {pid} exited before its methods were named; reporting the part before"
            ));
        }
        if let Some(problem) = &not_healed {
            say(format_args!(
                "process {pid} may still produce the events of this burst while another session is open: {problem}"
            ));
        }
        let facts = Facts {
            pid: Some(pid),
            name: self.process.name,
            runtime: self.runtime,
            stopped_by,
            stop_ns: Some(u64::try_from(stop_took.as_nanos()).unwrap_or(u64::MAX)),
            of_burst: burst.facts(),
        };
        Ok(Some(BurstData {
            burst,
            facts,
            is_whole: cut.is_none() && not_healed.is_none() && is_kept,
        }))
    }
}

/// The file to which `--keep` saves the recording, if the option is set. A failed write does not abort the command.
pub(crate) struct KeptRecording {
    file: Option<AtomicFile>,
    error: Option<io::Error>,
}

impl KeptRecording {
    pub(crate) fn open(file: Option<&Path>, force: bool) -> anyhow::Result<Self> {
        let file = file.map(|file| private_file(file, force)).transpose()?;
        Ok(Self { file, error: None })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if let Some(Err(error)) = self.file.as_mut().map(|file| file.write_all(bytes)) {
            self.error.get_or_insert(error);
        }
    }

    /// Completes the file. Reports the error and returns `false` if the recording could not be saved.
    pub(crate) fn complete(self) -> bool {
        let completed = match self.error {
            Some(error) => Err(error),
            None => self.file.map_or(Ok(()), AtomicFile::complete),
        };
        if let Err(error) = &completed {
            say(format_args!("cannot save the recording: {error}"));
        }
        completed.is_ok()
    }
}

/// Adds a guard to a client. The guard closes the streams of the client while this program is stopped (Ctrl-Z), so that
/// the process can still exit. Must be called in the executor that reads the streams.
pub(crate) fn guarded(client: Client) -> Client {
    let guard = match Guard::start() {
        Ok(guard) => guard,
        Err(error) => {
            say(format_args!(
                "no guard ({error}): while gcwatch is stopped, the process might not be able to exit"
            ));
            return client;
        }
    };
    let beating = guard.clone();
    tokio::spawn(async move {
        let mut beats = interval(HEARTBEAT_INTERVAL);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            beating.beat();
        }
    });
    client.guarded(Some(Arc::new(guard)))
}

/// The signals that stop a command: Ctrl-C, and SIGTERM, which service supervisors send.
pub(crate) struct Signals {
    interrupts: Signal,
    terminations: Signal,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupts: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
            terminations: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
        })
    }

    /// Waits until the next signal of either kind arrives. This method is cancel safe.
    pub(crate) async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupts.recv() => {}
            _ = self.terminations.recv() => {}
        }
    }
}

/// Returns an object that notifies of each Ctrl-C and each SIGTERM.
pub(crate) fn stops() -> anyhow::Result<Arc<Notify>> {
    let mut signals = Signals::new()?;
    let stopped = Arc::new(Notify::new());
    let notified = Arc::clone(&stopped);
    tokio::spawn(async move {
        loop {
            signals.stop().await;
            notified.notify_one();
        }
    });
    Ok(stopped)
}
