//! `gcwatch record`: a live process to a nettrace file.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clr_gc::event::{PRIVATE_PROVIDER, RUNTIME_PROVIDER};
use clr_gc::gc::{LIVE_SETTLE_NS, Outcome, Settling};
use clr_gc::stream::{GcStream, Scope};
use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::message::{Command, Provider, SessionConfig};
use dotnet_diagnostics::{Client, Endpoint, Session};
use nettrace::Ending;
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::cli::{Profile, RecordArgs};
use crate::commands::output::say;
use crate::report::units::{Bytes, Span, plural};

const READ_BYTES: usize = 64 * 1024;

/// How often the progress line is written.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

const KEYWORD_GC: u64 = 0x1;
const KEYWORD_GC_HANDLE: u64 = 0x2;
/// Ids of types, for events that contain only these.
const KEYWORD_TYPE: u64 = 0x8_0000;
/// Names of those types. (This keyword belongs to heap dumps; the dump itself has another one, which is not requested.)
const KEYWORD_TYPE_NAMES: u64 = 0x100_0000;
const INFORMATIONAL: u32 = 4;
const VERBOSE: u32 = 5;

impl Profile {
    fn providers(self) -> Vec<Provider> {
        let runtime = |keywords, level| Provider::new(RUNTIME_PROVIDER, keywords, level);
        match self {
            Self::Gc => vec![runtime(KEYWORD_GC, INFORMATIONAL)],
            Self::GcVerbose => vec![runtime(KEYWORD_GC | KEYWORD_TYPE | KEYWORD_TYPE_NAMES, VERBOSE)],
            Self::GcHandles => vec![runtime(KEYWORD_GC | KEYWORD_GC_HANDLE, INFORMATIONAL)],
            Self::Private => vec![
                runtime(KEYWORD_GC, INFORMATIONAL),
                Provider::new(PRIVATE_PROVIDER, KEYWORD_GC, INFORMATIONAL),
            ],
        }
    }

    /// Upper limit of the event buffers in the process, megabytes.
    fn buffer_mb(self) -> u32 {
        match self {
            Self::Gc | Self::GcHandles | Self::Private => 16,
            Self::GcVerbose => 64,
        }
    }
}

/// Runs the command. `false`: the recording failed, which was reported.
///
/// # Errors
///
/// When the process cannot be attached to, or the file cannot be written.
pub fn run(args: &RecordArgs) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(record(args))
}

async fn record(args: &RecordArgs) -> anyhow::Result<bool> {
    let process = Scan::host().inspect(args.pid)?;
    let client = Client::new(Endpoint::of(&process)?);
    let config = SessionConfig {
        buffer_mb: args.buffer_mb.unwrap_or(args.profile.buffer_mb()),
        providers: args.profile.providers(),
        ..SessionConfig::default()
    };
    let info = client.probe().await?;
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut terminations = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut file = Sink::create(&args.output)?;
    let mut session = match client.collect_tracing(&config).await {
        Ok(session) => session,
        Err(error) => {
            file.discard();
            return Err(error.into());
        }
    };
    let version = info.as_ref().and_then(|info| info.runtime_version.as_deref());
    let version = version.map(|version| format!(", .NET {version}")).unwrap_or_default();
    let command = Command::CollectTracing(session.version());
    say(format_args!(
        "recording process {} ({}{version}) with {command}; press Ctrl-C to stop",
        args.pid, process.name
    ));

    let mut progress = Progress::new();
    let mut buffer = vec![0; READ_BYTES];
    let until = args.duration.map(|duration| tokio::time::Instant::now() + duration);
    let mut ticks = tokio::time::interval(PROGRESS_EVERY);
    let mut stopping = false;
    loop {
        let time_is_up = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = session.read(&mut buffer) => {
                let n = read.inspect_err(|_| progress.end())?;
                if n == 0 {
                    break;
                }
                let bytes = buffer.get(..n).unwrap_or_default();
                if let Err(error) = file.write(bytes) {
                    progress.end();
                    return give_up(session, &file, error).await;
                }
                progress.take(bytes);
            }
            () = time_is_up, if !stopping => {
                stopping = true;
                session.request_stop();
            }
            _ = interrupts.recv() => {
                if stopping {
                    progress.end();
                    anyhow::bail!("stopped by the second Ctrl-C: {} lacks the events that the process had not sent yet", file.name);
                }
                stopping = true;
                session.request_stop();
            }
            _ = terminations.recv(), if !stopping => {
                stopping = true;
                session.request_stop();
            }
            _ = ticks.tick() => progress.show(stopping),
        }
    }
    progress.end();
    // A process that exits while the session stops does not respond any more; its stream shows how it ended.
    let _stopped = session.stopped().await;
    if let Err(error) = file.finish() {
        return give_up(session, &file, error).await;
    }
    say(progress.summary(&file.name, stopping));
    Ok(true)
}

/// The file cannot be written: stops the session, so that the process does not keep it.
async fn give_up(mut session: Session, file: &Sink, error: io::Error) -> anyhow::Result<bool> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        say(format_args!(
            "the reader of {} closed it; the session is stopped",
            file.name
        ));
    } else {
        say(format_args!(
            "cannot write {}: {error}; it contains what was written before",
            file.name
        ));
    }
    if let Err(error) = session.drain(|_| ()).await {
        say(error);
    }
    Ok(false)
}

/// The output: a file or standard output.
struct Sink {
    name: String,
    out: Box<dyn Write>,
    path: Option<std::path::PathBuf>,
}

impl Sink {
    fn create(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self {
                name: "standard output".to_owned(),
                out: Box::new(io::stdout().lock()),
                path: None,
            });
        }
        let name = path.display().to_string();
        let file = File::create(path)
            .with_context(|| format!("cannot write {name}; give a file in a directory with write permission"))?;
        Ok(Self {
            name,
            out: Box::new(file),
            path: Some(path.to_owned()),
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Removes the file when no byte was received, so that it is not mistaken for a recording.
    fn discard(&self) {
        if let Some(path) = &self.path {
            let _stays_empty = std::fs::remove_file(path);
        }
    }
}

/// Figures of the stream so far, by the same reconstruction that reads it later.
struct Progress {
    stream: GcStream,
    since: Instant,
    bytes: u64,
    collections: u64,
    longest_ns: Option<i64>,
    on_terminal: bool,
    shown: bool,
    damaged: bool,
}

impl Progress {
    fn new() -> Self {
        Self {
            stream: GcStream::new(Scope::Collections, Settling::After(LIVE_SETTLE_NS)),
            since: Instant::now(),
            bytes: 0,
            collections: 0,
            longest_ns: None,
            on_terminal: io::stderr().is_terminal(),
            shown: false,
            damaged: false,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if self.damaged {
            return;
        }
        let space = self.stream.space(bytes.len());
        if let Some(space) = space.get_mut(..bytes.len()) {
            space.copy_from_slice(bytes);
            self.stream.filled(bytes.len());
            self.damaged = self.stream.advance(|_| ()).is_err();
        }
        self.count();
    }

    fn count(&mut self) {
        while let Some((_, outcome)) = self.stream.next_outcome() {
            if let Outcome::Collection(collection) = outcome {
                self.collections += 1;
                self.longest_ns = self.longest_ns.max(collection.pause_ns);
            }
        }
    }

    fn figures(&self) -> String {
        let longest = self
            .longest_ns
            .map(|ns| format!(", longest pause {}", Span(ns)))
            .unwrap_or_default();
        let lost = self.stream.decoder().stats().lost.filter(|lost| *lost > 0);
        let lost = lost
            .map(|lost| format!(", {} LOST", plural(lost, "event")))
            .unwrap_or_default();
        format!(
            "{}, {}{longest}{lost}",
            Bytes(self.bytes),
            plural(self.collections, "collection")
        )
    }

    /// Rewrites the progress line, on a terminal only.
    fn show(&mut self, stopping: bool) {
        if !self.on_terminal {
            return;
        }
        let seconds = self.since.elapsed().as_secs_f64();
        let state = if stopping { "stopping" } else { "recording" };
        let _ignored = write!(io::stderr(), "\r\x1b[K{state} {seconds:.1} s: {}", self.figures());
        self.shown = true;
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ignored = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn summary(mut self, name: &str, asked: bool) -> String {
        self.stream.finish();
        self.damaged |= self.stream.advance(|_| ()).is_err();
        self.stream.end();
        self.count();
        let seconds = self.since.elapsed().as_secs_f64();
        let end = match self.stream.decoder().ending() {
            Some(Ending::Clean) if asked => "",
            Some(Ending::Clean) => "; the process exited",
            _ => "; the process exited without finishing the stream: everything complete in it can be read",
        };
        format!("wrote {name}: {seconds:.1} s, {}{end}", self.figures())
    }
}
