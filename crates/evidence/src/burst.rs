//! One burst, from its session to the process left as it was.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use clr_evidence::burst::{Burst, Origin};
use clr_evidence::threads::{SAMPLE_PROVIDER, THREADING};
use clr_gc::event::RUNTIME_PROVIDER;
use dotnet_diagnostics::message::{Compromise, EventFilter, Provider, Rundown, SessionConfig};
use dotnet_diagnostics::{Client, Error, Session};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Samples of allocations after which a burst ends: the error is about 4 % then, and more would cost more.
pub const MAX_SAMPLES: u64 = 2_000;
/// Pinned objects above which a Verbose session is refused: each is an event in every collection.
pub const MAX_PINNED_FOR_VERBOSE: u32 = 10_000;
/// The first .NET that samples allocations by chance.
pub const SAMPLES_SINCE: u32 = 10;

/// Upper limit of the target's event buffers, megabytes. Most is used by the rundown: 4 MB for 11,000 methods.
pub const BUFFER_MB: u32 = 32;
/// Modules, JIT-compiled and precompiled methods: all that is needed for names, and for whose code they are.
pub(crate) const RUNDOWN_KEYWORD: u64 = 0x38;
const KEYWORD_GC: u64 = 0x1;
const KEYWORD_ALLOCATION_SAMPLING: u64 = 0x800_0000_0000;
const INFORMATIONAL: u32 = 4;
const VERBOSE: u32 = 5;
/// GCStart, GCEnd, the edges of stops, HeapStats and GCTriggered: who asked, and how long it took.
const CALLER_EVENTS: [u32; 8] = [1, 2, 3, 4, 7, 8, 9, 35];
/// The runtime writes what it saw every 100 ms, and collections that were asked for just before the end may end.
const LAST_WITHIN: Duration = Duration::from_millis(200);
/// How long the session that heals may take; it is over within a tenth of a second.
const HEAL_WITHIN: Duration = Duration::from_secs(3);
/// How often it is tried.
const HEAL_TRIES: u32 = 3;
/// How long a session may take to end whose stream is not wanted any more.
const END_WITHIN: Duration = Duration::from_secs(3);
const READ_BYTES: usize = 64 << 10;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Who makes it collect.
    Callers,
    /// Who allocates, sampled by chance (.NET 10 and later).
    Allocations,
    /// What every managed thread is doing: about every millisecond the runtime stops them and writes their stacks.
    Stacks,
    /// Who allocates, by Verbose ticks: ends early when a collection has too many pinned objects, unless allowed.
    Ticks {
        /// Whatever is pinned.
        any_pins: bool,
    },
}

/// Why a burst ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    /// Its time was up.
    Time,
    /// There were enough samples.
    Samples,
    /// It was asked to end.
    Signal,
    /// The process has too many pinned objects for a Verbose session.
    PinnedObjects,
    /// The process exited.
    Exit,
    /// A recording is over.
    EndOfFile,
}

/// A burst that is over.
#[derive(Debug)]
pub struct Done {
    /// What it shows.
    pub burst: Burst,
    /// Why it ended.
    pub stopped_by: StoppedBy,
    /// What the runtime gave other than what was asked for.
    pub compromises: Vec<Compromise>,
    /// From the request to stop to the end of the stream: the rundown.
    pub stop_took: Duration,
    /// The stream was not read to its end: a sentence.
    pub cut: Option<String>,
    /// The process could not be healed, though it lives: a sentence.
    pub not_healed: Option<String>,
}

impl Question {
    /// The session that answers it.
    fn session(self) -> SessionConfig {
        let provider = match self {
            Self::Callers => Provider {
                filter: Some(EventFilter::Only(CALLER_EVENTS.to_vec())),
                ..Provider::new(RUNTIME_PROVIDER, KEYWORD_GC, INFORMATIONAL)
            },
            Self::Allocations => Provider::new(RUNTIME_PROVIDER, KEYWORD_ALLOCATION_SAMPLING, INFORMATIONAL),
            Self::Stacks => Provider::new(SAMPLE_PROVIDER, 0, INFORMATIONAL),
            Self::Ticks { .. } => Provider::new(RUNTIME_PROVIDER, KEYWORD_GC, VERBOSE),
        };
        SessionConfig {
            buffer_mb: BUFFER_MB,
            rundown: Rundown::Keyword(match self {
                Self::Stacks => RUNDOWN_KEYWORD | THREADING,
                _ => RUNDOWN_KEYWORD,
            }),
            stacks: true,
            providers: vec![provider],
            ..SessionConfig::default()
        }
    }

    /// What has been read is enough.
    fn is_answered(self, burst: &Burst) -> Option<StoppedBy> {
        if let Self::Ticks { any_pins: false } = self
            && burst
                .pinned_objects()
                .is_some_and(|objects| objects > MAX_PINNED_FOR_VERBOSE)
        {
            return Some(StoppedBy::PinnedObjects);
        }
        (!matches!(self, Self::Callers | Self::Stacks) && burst.samples() >= MAX_SAMPLES).then_some(StoppedBy::Samples)
    }
}

/// Runs a burst. It ends after this time, with enough samples, or when `stop` is ready; a second `stop` gives up the
/// names. `keep` is given the bytes of the stream. Whatever happens, the session is ended and the process healed: the
/// future must be driven to its end.
///
/// # Errors
/// When the session cannot be begun.
pub async fn run<S: Future<Output = ()>>(
    client: &Client,
    question: Question,
    time: Duration,
    mut stop: impl FnMut() -> S,
    mut keep: impl FnMut(&[u8]),
) -> Result<Done, Error> {
    let begun = client.collect_tracing(&question.session()).await;
    let mut session = match begun {
        Ok(session) => session,
        Err(error) => {
            // The command may have been carried out all the same.
            let _gone = heal(client).await;
            return Err(error);
        }
    };
    let mut done = Done {
        burst: Burst::new(Origin::Live),
        stopped_by: StoppedBy::Time,
        compromises: session.compromises().to_vec(),
        stop_took: Duration::ZERO,
        cut: None,
        not_healed: None,
    };
    done.burst.set_start(monotonic_ns());
    if !matches!(question, Question::Callers | Question::Stacks) {
        done.burst.set_most_samples(MAX_SAMPLES);
    }
    let mut buffer = vec![0; READ_BYTES];
    let keep: &mut dyn FnMut(&[u8]) = &mut keep;
    let read = watch(
        &mut session,
        &mut done,
        (&mut buffer, &mut *keep),
        question,
        time,
        &mut stop,
    )
    .await;
    done.burst.set_end(monotonic_ns());
    let read = match read {
        Ok(()) if done.stopped_by == StoppedBy::Time => {
            linger(&mut session, &mut done.burst, (&mut buffer, &mut *keep)).await
        }
        read => read,
    };
    done.burst.close();
    let asked = Instant::now();
    session.request_stop();
    let names = async {
        read?;
        drain(&mut session, &mut done.burst, (&mut buffer, keep)).await
    };
    let drained = tokio::select! {
        drained = names => drained,
        () = stop() => Err("stopped before the methods were named".to_owned()),
    };
    done.stop_took = asked.elapsed();
    if let Err(problem) = drained {
        let _ended = tokio::time::timeout(END_WITHIN, session.drain(|_| ())).await;
        done.cut = Some(problem);
    }
    // A process that exits while the session stops does not answer any more.
    let _stopped = session.stopped().await;
    if let Err(error) = done.burst.finish() {
        done.cut.get_or_insert(error.to_string());
    }
    done.not_healed = heal(client).await.err().filter(|_| done.stopped_by != StoppedBy::Exit);
    Ok(done)
}

/// Where a stream is read into, and who else gets it.
type Pieces<'a> = (&'a mut [u8], &'a mut dyn FnMut(&[u8]));

/// Reads until the burst must end.
async fn watch<S: Future<Output = ()>>(
    session: &mut Session,
    done: &mut Done,
    (buffer, keep): Pieces<'_>,
    question: Question,
    time: Duration,
    stop: &mut impl FnMut() -> S,
) -> Result<(), String> {
    let mut time_is_up = pin!(tokio::time::sleep(time));
    let mut stopped = pin!(stop());
    loop {
        let read = tokio::select! {
            read = session.read(buffer) => read.map_err(|error| error.to_string())?,
            () = &mut time_is_up => return Ok(()),
            () = &mut stopped => {
                done.stopped_by = StoppedBy::Signal;
                return Ok(());
            }
        };
        if read == 0 {
            done.stopped_by = StoppedBy::Exit;
            return Ok(());
        }
        push(&mut done.burst, (buffer, &mut *keep), read)?;
        if let Some(reason) = question.is_answered(&done.burst) {
            done.stopped_by = reason;
            return Ok(());
        }
    }
}

/// Reads on for a moment: what happened in time comes, and collections that were asked for in time end.
async fn linger(session: &mut Session, burst: &mut Burst, (buffer, keep): Pieces<'_>) -> Result<(), String> {
    let until = Instant::now() + LAST_WITHIN;
    loop {
        match tokio::time::timeout_at(until, session.read(buffer)).await {
            Err(_) | Ok(Ok(0)) => return Ok(()),
            Ok(read) => push(burst, (buffer, &mut *keep), read.map_err(|error| error.to_string())?)?,
        }
    }
}

/// Reads to the end of the stream; the session has a deadline for it.
async fn drain(session: &mut Session, burst: &mut Burst, (buffer, keep): Pieces<'_>) -> Result<(), String> {
    loop {
        match session.read(buffer).await.map_err(|error| error.to_string())? {
            0 => return Ok(()),
            read => push(burst, (buffer, &mut *keep), read)?,
        }
    }
}

fn push(burst: &mut Burst, (buffer, keep): Pieces<'_>, read: usize) -> Result<(), String> {
    let bytes = buffer.get(..read).unwrap_or_default();
    keep(bytes);
    burst.push(bytes).map_err(|error| error.to_string())
}

/// Leaves the process as it was. The error is a sentence.
pub(crate) async fn heal(client: &Client) -> Result<(), String> {
    let mut tries = 1;
    loop {
        match client.recompute_levels(HEAL_WITHIN).await {
            // Its socket was there a moment ago: the process has exited.
            Ok(()) | Err(Error::NoSocket { .. } | Error::Refused { .. }) => return Ok(()),
            Err(error) if tries == HEAL_TRIES => return Err(error.to_string()),
            Err(_) => tries += 1,
        }
    }
}

/// The clock of streams on this host.
fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}
