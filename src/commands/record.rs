//! `gcwatch record`: a live process to a nettrace file.

mod output;

use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clr_gc::event::{PRIVATE_PROVIDER, RUNDOWN_PROVIDER, RUNTIME_PROVIDER};
use clr_gc::gc::{LIVE_SETTLE_NS, Outcome, Settling};
use clr_gc::stream::{Advanced, GcStream, Scope};
use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::message::{Command, Provider, Rundown, SessionConfig};
use dotnet_diagnostics::{Client, Endpoint, Session};
use gc_requests::session;
use nettrace::Ending;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::commands::cli::{Profile, RecordArgs};
use crate::commands::output::say;
use crate::commands::ps;
use crate::commands::record::output::Output;
use crate::report::units::{Bytes, Span, plural};

const READ_BYTES: usize = 64 * 1024;

/// How often the progress line is written.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// How long the output may take nothing. Meanwhile the session is not read, and a process whose stream nobody reads
/// cannot exit.
const OUTPUT_WITHIN: Duration = Duration::from_secs(5);

/// The same when the recording is to end.
const STOPPED_OUTPUT_WITHIN: Duration = Duration::from_secs(2);

/// How long a session may take to end that is not wanted any more.
const END_WITHIN: Duration = Duration::from_secs(3);
/// How long the session that heals may take; it is over within a tenth of a second.
const HEAL_WITHIN: Duration = Duration::from_secs(3);

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
            Self::Requests => vec![runtime(KEYWORD_GC, INFORMATIONAL), requests()],
        }
    }

    /// Upper limit of the event buffers in the process, megabytes.
    fn buffer_mb(self) -> u32 {
        match self {
            Self::Gc | Self::GcHandles | Self::Private => 16,
            Self::GcVerbose | Self::Requests => 64,
        }
    }
}

fn requests() -> Provider {
    Provider {
        arguments: Some(session::arguments(session::Fields::default(), [])),
        ..Provider::new(session::PROVIDER, session::KEYWORDS, session::LEVEL)
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
    let process = Scan::host().inspect(args.process.pid())?;
    let client = Client::new(Endpoint::of(&process)?);
    let info = client.probe().await?;
    let mut config = SessionConfig {
        buffer_mb: args.buffer_mb.unwrap_or(args.profile.buffer_mb()),
        providers: args.profile.providers(),
        ..SessionConfig::default()
    };
    let runtime_version = info.as_ref().and_then(|info| info.runtime_version.as_deref());
    if runtime_version.is_some_and(chooses_rundown) {
        // How the collector is set up, in two small events; older runtimes would send all methods.
        config.rundown = Rundown::Keyword(KEYWORD_GC);
        config
            .providers
            .push(Provider::new(RUNDOWN_PROVIDER, KEYWORD_GC, INFORMATIONAL));
    }
    let name = ps::name(process.clone(), info.clone()).await.unwrap_or(process.name);
    let mut signals = Signals::new()?;
    let mut output = tokio::select! {
        output = Output::open(&args.output, args.force, args.allow_fifo) => output?,
        () = signals.stop() => anyhow::bail!("stopped before {} had a reader", args.output.display()),
    };
    let session = match begin(&client, &config, &mut signals).await {
        Ok(session) => session,
        Err(error) => {
            output.discard();
            return Err(error);
        }
    };
    let version = info.as_ref().and_then(|info| info.runtime_version.as_deref());
    let version = version.map(|version| format!(", .NET {version}")).unwrap_or_default();
    let command = Command::CollectTracing(session.version());
    say(format_args!(
        "recording process {} ({name}{version}) with {command}; press Ctrl-C to stop",
        args.process.pid(),
    ));
    let mut recorder = Recorder {
        session,
        output: &mut output,
        progress: Progress::new(),
        stopping: false,
    };
    let ended = recorder.run(args.duration, &mut signals).await;
    let in_order = ended.is_ok();
    recorder.end(&client, &mut signals, in_order).await;
    let Recorder { progress, stopping, .. } = recorder;
    if let Err(problem) = ended {
        if progress.bytes == 0 {
            output.discard();
        } else {
            say(format_args!("{} contains what was received before", output.name));
        }
        return match problem {
            Broken::Output(problem) => {
                say(problem);
                Ok(false)
            }
            Broken::Session(error) => Err(error),
        };
    }
    if progress.bytes == 0 {
        output.discard();
        anyhow::bail!("the session ended without a byte; nothing is recorded");
    }
    let name = output.complete()?;
    say(progress.summary(&name, stopping));
    Ok(true)
}

/// Whether a runtime of this version lets a session choose its rundown: .NET 9 and later.
fn chooses_rundown(version: &str) -> bool {
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    major.is_some_and(|major| major >= 9)
}

/// Begins the session. A command that is under way is not abandoned at once: its session would stay in the process.
async fn begin(client: &Client, config: &SessionConfig, signals: &mut Signals) -> anyhow::Result<Session> {
    let mut beginning = pin!(client.collect_tracing(config));
    tokio::select! {
        begun = &mut beginning => return Ok(begun?),
        () = signals.stop() => {}
    }
    if let Ok(Ok(mut session)) = tokio::time::timeout(END_WITHIN, beginning).await {
        let _late = tokio::time::timeout(END_WITHIN, session.drain(|_| ())).await;
    }
    anyhow::bail!("stopped before the session began; nothing is recorded")
}

/// Ctrl-C, and the signal of those that stop a service.
struct Signals {
    interrupts: Signal,
    terminations: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupts: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
            terminations: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
        })
    }

    /// The next one of either. Cancel safe.
    async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupts.recv() => {}
            _ = self.terminations.recv() => {}
        }
    }
}

/// Why a recording is not complete.
enum Broken {
    /// The output takes no more; a sentence.
    Output(String),
    Session(anyhow::Error),
}

/// A session on its way to the output.
struct Recorder<'o> {
    session: Session,
    output: &'o mut Output,
    progress: Progress,
    /// The session was asked to end.
    stopping: bool,
}

impl Recorder<'_> {
    /// Reads to the end of the stream, and writes all of it.
    async fn run(&mut self, duration: Option<Duration>, signals: &mut Signals) -> Result<(), Broken> {
        let mut buffer = vec![0; READ_BYTES];
        let mut piece = Vec::new();
        let until = duration.map(|duration| tokio::time::Instant::now() + duration);
        let mut ticks = tokio::time::interval(PROGRESS_EVERY);
        // From when on the output has taken nothing.
        let mut stuck_since = tokio::time::Instant::now();
        let mut is_over = false;
        loop {
            let time_is_up = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let patience = if self.stopping {
                STOPPED_OUTPUT_WITHIN
            } else {
                OUTPUT_WITHIN
            };
            let waits = is_over || !piece.is_empty();
            let write = async {
                if piece.is_empty() {
                    self.output.written().await
                } else {
                    self.output.write(&mut piece).await
                }
            };
            tokio::select! {
                written = write, if waits => {
                    written.map_err(|error| Broken::Output(self.output_failed(&error)))?;
                    if is_over && piece.is_empty() {
                        return Ok(());
                    }
                    stuck_since = tokio::time::Instant::now();
                }
                () = tokio::time::sleep_until(stuck_since + patience), if waits => {
                    return Err(Broken::Output(format!(
                        "{} took nothing for {} s; the session is stopped", self.output.name, patience.as_secs()
                    )));
                }
                read = self.session.read(&mut buffer), if !waits => {
                    let n = read.map_err(|error| Broken::Session(error.into()))?;
                    let bytes = buffer.get(..n).unwrap_or_default();
                    self.progress.take(bytes);
                    piece.extend_from_slice(bytes);
                    is_over = n == 0;
                    stuck_since = tokio::time::Instant::now();
                }
                () = time_is_up, if !self.stopping => self.stop(),
                () = signals.stop() => {
                    if self.stopping {
                        return Err(Broken::Session(anyhow::anyhow!(
                            "stopped by the second Ctrl-C: {} lacks the events that the process had not sent yet",
                            self.output.name
                        )));
                    }
                    self.stop();
                }
                _ = ticks.tick() => self.progress.show(self.stopping),
            }
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.session.request_stop();
    }

    fn output_failed(&self, error: &io::Error) -> String {
        let name = &self.output.name;
        if error.kind() == io::ErrorKind::BrokenPipe {
            format!("the reader of {name} closed it; the session is stopped")
        } else {
            format!("cannot write {name}: {error}")
        }
    }

    /// Ends the session, whatever came before: the one place where the process is left as it was. Ctrl-C ends the
    /// waiting.
    async fn end(&mut self, client: &Client, signals: &mut Signals, in_order: bool) {
        self.progress.end();
        let ending = async {
            if in_order {
                // A process that exits while the session stops does not respond any more; its stream shows how it ended.
                let _stopped = self.session.stopped().await;
            } else {
                let _drained = tokio::time::timeout(END_WITHIN, self.session.drain(|_| ())).await;
            }
            // What the session asked for may go on being made for as long as another one is open, such as a daemon's.
            // A process that has exited does not answer, and needs no healing.
            let _gone = client.recompute_levels(HEAL_WITHIN).await;
        };
        tokio::select! {
            () = ending => {}
            () = signals.stop() => {}
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
            loop {
                match self.stream.advance(|_| ()) {
                    Ok(Advanced::Paused) => self.count(),
                    Ok(Advanced::Drained) => break,
                    Err(_) => {
                        self.damaged = true;
                        break;
                    }
                }
            }
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
