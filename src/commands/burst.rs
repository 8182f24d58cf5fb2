//! What `callers` and `allocations` have in common: a burst of a process, or the same from a recording.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anyhow::Context as _;
use clr_evidence::burst::{Burst, BurstFacts, Origin};
use dotnet_diagnostics::discovery::{Process, Scan};
use dotnet_diagnostics::{Client, Endpoint};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use crate::commands::cli::{BurstArgs, EvidenceFormat, SubjectArgs};
use crate::commands::output::{note_records, say, terminal_width};
use evidence::burst::{Done, Question, StoppedBy};
use evidence::lock::Turn;
use processes::files::Beside;
use recording::source::Source;
use report::table::{self, Escape, Folding};
use targets::guard::{BEAT_EVERY, Guard};

/// A burst, or what a recording has of one.
pub(crate) struct Gathered {
    pub(crate) burst: Burst,
    /// The host's pid; `None`: a recording.
    pub(crate) pid: Option<u32>,
    /// Of the process, or the file.
    pub(crate) name: String,
    pub(crate) runtime: Option<String>,
    pub(crate) stopped_by: StoppedBy,
    pub(crate) stop_took: Option<Duration>,
    /// The command did all that it was asked for.
    pub(crate) is_whole: bool,
}

/// The facts of a burst that its first record has.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    pid: Option<u32>,
    name: String,
    runtime: Option<String>,
    stopped_by: StoppedBy,
    /// From the request to stop to the end of the stream.
    stop_ns: Option<u64>,
    #[serde(flatten)]
    facts: BurstFacts,
}

impl Gathered {
    pub(crate) fn facts(&self) -> Facts {
        let stop_ns = self
            .stop_took
            .map(|took| u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        Facts {
            pid: self.pid,
            name: self.name.clone(),
            runtime: self.runtime.clone(),
            stopped_by: self.stopped_by,
            stop_ns,
            facts: self.burst.facts(),
        }
    }
}

/// What is looked at: digits are a pid.
pub(crate) enum Subject<'a> {
    Process(u32),
    Recording(&'a Path),
}

impl<'a> Subject<'a> {
    pub(crate) fn of(args: &'a SubjectArgs) -> anyhow::Result<Self> {
        let source = args.source.as_ref();
        let number = source.and_then(|source| source.to_str()?.parse().ok());
        match (args.pid.or(number), source) {
            (Some(0), _) => anyhow::bail!("0 is no process"),
            (Some(pid), _) => Ok(Self::Process(pid)),
            (None, Some(file)) => Ok(Self::Recording(file)),
            (None, None) => anyhow::bail!("give a PID or a recording"),
        }
    }
}

/// Reads a recording that has stacks.
pub(crate) fn from_file(file: &Path) -> anyhow::Result<Gathered> {
    let mut source = Source::open(file)?;
    let mut burst = Burst::new(Origin::File);
    let mut buffer = vec![0; source.read_size()];
    let mut is_whole = true;
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        if let Err(error) = burst.push(buffer.get(..read).unwrap_or_default()) {
            say(format_args!("{}: {error}; what came before is reported", source.name()));
            is_whole = false;
            break;
        }
    }
    if let Err(error) = burst.finish() {
        say(format_args!("{}: {error}; what came before is reported", source.name()));
        is_whole = false;
    }
    Ok(Gathered {
        burst,
        pid: None,
        name: source.name().to_owned(),
        runtime: None,
        stopped_by: StoppedBy::EndOfFile,
        stop_took: None,
        is_whole,
    })
}

/// A process to ask.
pub(crate) struct Asked {
    pub(crate) process: Process,
    pub(crate) client: Client,
    pub(crate) runtime: Option<String>,
}

impl Asked {
    pub(crate) async fn find(pid: u32) -> anyhow::Result<Self> {
        let process = Scan::host().inspect(pid)?;
        let client = guarded(Client::new(Endpoint::of(&process)?));
        let info = client.probe().await?;
        let runtime = info.and_then(|info| info.runtime_version);
        Ok(Self {
            process,
            client,
            runtime,
        })
    }

    /// The first number of its version; `None`: .NET Core 3, or unknown.
    pub(crate) fn major(&self) -> Option<u32> {
        self.runtime.as_deref()?.split('.').next()?.parse().ok()
    }

    /// Runs a burst when it is its turn. `None`: it was stopped before.
    pub(crate) async fn burst(
        self,
        args: &BurstArgs,
        question: Question,
        default_time: Duration,
    ) -> anyhow::Result<Option<Gathered>> {
        let stopped = stops()?;
        let stop = || stopped.notified();
        let pid = self.process.pid;
        let turn = if args.force {
            // Not waited for; where nobody has it, it also says whom to heal if this program is killed.
            Turn::take(args.lease_folder.clone(), pid, self.process.uid).ok()
        } else {
            let waits = |holder: &str| say(format_args!("waiting: another burst runs on this host ({holder})"));
            tokio::select! {
                turn = Turn::wait(args.lease_folder.clone(), pid, self.process.uid, waits) => Some(turn),
                () = stop() => return Ok(None),
            }
        };
        if let Some(no_lock) = turn.as_ref().and_then(Turn::no_lock) {
            say(no_lock);
        }
        let time = args.duration.unwrap_or(default_time);
        if io::stderr().is_terminal() {
            say(format_args!(
                "watching process {pid} for {:.0} s; Ctrl-C ends it early",
                time.as_secs_f64()
            ));
        }
        let mut kept = args
            .keep
            .as_deref()
            .map(|file| private_file(file, args.force))
            .transpose()?;
        let mut keep_error = None;
        let keep = |bytes: &[u8]| {
            if let Some(Err(error)) = kept.as_mut().map(|file| file.write_all(bytes)) {
                keep_error.get_or_insert(error);
            }
        };
        let Done {
            burst,
            stopped_by,
            stop_took,
            cut,
            not_healed,
            ..
        } = evidence::burst::run(&self.client, question, time, stop, keep).await?;
        if let (Some(file), None) = (kept, &keep_error) {
            keep_error = file.complete().err();
        }
        if let Some(error) = &keep_error {
            say(format_args!("the recording is not kept: {error}"));
        }
        if let Some(cut) = &cut {
            say(format_args!("process {pid}: {cut}; what came before is reported"));
        } else if stopped_by == StoppedBy::Exit {
            say(format_args!(
                "process {pid} exited before its methods were named; what came before is reported"
            ));
        }
        if let Some(problem) = &not_healed {
            say(format_args!(
                "process {pid} may go on making the events of this burst while another session is open: {problem}"
            ));
        }
        Ok(Some(Gathered {
            burst,
            pid: Some(pid),
            name: self.process.name,
            runtime: self.runtime,
            stopped_by,
            stop_took: Some(stop_took),
            is_whole: cut.is_none() && not_healed.is_none() && keep_error.is_none(),
        }))
    }
}

/// A client whose streams a guard closes when this program is stopped (Ctrl-Z), so that the process can exit all the
/// same. In an executor, which must be the one that reads.
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
        let mut beats = interval(BEAT_EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            beating.beat();
        }
    });
    client.guarded(Some(Arc::new(guard)))
}

/// Notified by each Ctrl-C, and by the signal of those that stop a service.
pub(crate) fn stops() -> anyhow::Result<Arc<Notify>> {
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut terminations = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let stopped = Arc::new(Notify::new());
    let notified = Arc::clone(&stopped);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupts.recv() => {}
                _ = terminations.recv() => {}
            }
            notified.notify_one();
        }
    });
    Ok(stopped)
}

/// Where the results go, and how.
pub(crate) struct Output {
    pub(crate) format: EvidenceFormat,
    out: Out,
}

enum Out {
    Stdout(Folding<BufWriter<io::Stdout>>),
    File(Folding<BufWriter<Beside>>),
}

impl Output {
    /// Opened before the burst: what cannot be written is not asked for.
    pub(crate) fn open(args: &BurstArgs) -> anyhow::Result<Self> {
        Self::open_as(args.format, args.output.as_deref(), args.force)
    }

    /// In this format, else by the file's name or the terminal.
    pub(crate) fn open_as(format: Option<EvidenceFormat>, file: Option<&Path>, force: bool) -> anyhow::Result<Self> {
        let stdout = io::stdout();
        let on_terminal = file.is_none() && stdout.is_terminal();
        let format = format.unwrap_or(match file {
            None if on_terminal => EvidenceFormat::Table,
            None => {
                note_records();
                EvidenceFormat::Ndjson
            }
            Some(file) => by_extension(file),
        });
        if format == EvidenceFormat::Pprof && on_terminal {
            anyhow::bail!("a pprof profile is not for a terminal; give -o FILE");
        }
        let coloured = format == EvidenceFormat::Table && file.is_none();
        table::colour(coloured && AutoStream::choice(&stdout) != ColorChoice::Never);
        let escape = match format {
            EvidenceFormat::Ndjson => Escape::Json,
            EvidenceFormat::Pprof => Escape::Raw,
            EvidenceFormat::Table | EvidenceFormat::Folded | EvidenceFormat::Svg => Escape::Replaced,
        };
        let out = match file {
            None => {
                let wants = on_terminal && format == EvidenceFormat::Table;
                let width = wants.then(|| terminal_width(&stdout)).flatten();
                Out::Stdout(Folding::new(BufWriter::new(stdout), width, escape))
            }
            Some(file) => {
                let file = BufWriter::new(private_file(file, force)?);
                Out::File(Folding::new(file, None, escape))
            }
        };
        Ok(Self { format, out })
    }

    pub(crate) fn record(&mut self, record: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(self.text(), record)?;
        self.text().write_all(b"\n")
    }

    pub(crate) fn text(&mut self) -> &mut dyn Write {
        match &mut self.out {
            Out::Stdout(out) => out,
            Out::File(out) => out,
        }
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        match self.out {
            Out::Stdout(mut out) => out.flush(),
            Out::File(out) => out.finish()?.into_inner()?.complete(),
        }
    }
}

/// Names of methods are nobody else's business. A file that is there is replaced with `force` only.
pub(crate) fn private_file(file: &Path, force: bool) -> anyhow::Result<Beside> {
    match Beside::new(file, force) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            anyhow::bail!("{} exists; --force replaces it", file.display())
        }
        opened => opened.with_context(|| format!("cannot write {}", file.display())),
    }
}

fn by_extension(file: &Path) -> EvidenceFormat {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => EvidenceFormat::Svg,
        Some("folded") => EvidenceFormat::Folded,
        Some("pb" | "pprof" | "gz") => EvidenceFormat::Pprof,
        Some("txt") => EvidenceFormat::Table,
        _ => EvidenceFormat::Ndjson,
    }
}

/// An executor for one process.
pub(crate) fn executor() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")
}
