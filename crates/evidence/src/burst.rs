//! A burst, from the start of its session until the process is restored.

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

/// Number of allocation samples after which a burst ends. With this number of samples, the error is about 4 %, and more
/// samples would cost more.
pub const MAX_SAMPLES: u64 = 2_000;
/// Number of pinned objects above which a Verbose session is refused, because each pinned object causes an event in
/// every collection.
pub const MAX_PINNED_FOR_VERBOSE: u32 = 10_000;
/// First major version of .NET that samples allocations randomly.
pub const SAMPLES_SINCE: u32 = 10;

/// Maximum size of the target's event buffers, in megabytes. The rundown uses most of the buffers: 4 MB for 11,000
/// methods.
pub const BUFFER_MB: u32 = 32;
/// Keywords for modules, JIT-compiled and precompiled methods, which suffice for names and for the owner of the code.
pub(crate) const RUNDOWN_KEYWORD: u64 = 0x38;
const KEYWORD_GC: u64 = 0x1;
const KEYWORD_ALLOCATION_SAMPLING: u64 = 0x800_0000_0000;
const INFORMATIONAL: u32 = 4;
const VERBOSE: u32 = 5;
/// GCStart, GCEnd, the edges of suspensions, HeapStats and GCTriggered: the requester and the duration of collections.
const CALLER_EVENTS: [u32; 8] = [1, 2, 3, 4, 7, 8, 9, 35];
/// Time for which the stream is read after the end of a burst. The runtime writes its events every 100 ms, and
/// collections that were requested just before the end can finish.
const LAST_TIMEOUT: Duration = Duration::from_millis(200);
/// Timeout for the healing session, which normally takes less than 0.1 s.
const HEAL_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of attempts to heal.
const HEAL_TRIES: u32 = 3;
/// Maximum time for the end of a session whose stream is no longer needed.
const END_TIMEOUT: Duration = Duration::from_secs(3);
const READ_BYTES: usize = 64 << 10;

/// The question that a burst answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// The callers that request collections.
    Callers,
    /// The callers that allocate, sampled randomly (.NET 10 and later).
    Allocations,
    /// The activity of every managed thread: about every millisecond, the runtime suspends the threads and writes their
    /// stacks.
    Stacks,
    /// The callers that allocate, from Verbose ticks. The burst ends early when a collection has too many pinned
    /// objects, unless any number of pinned objects is allowed.
    Ticks {
        /// Whether any number of pinned objects is allowed.
        any_pins: bool,
    },
}

/// Reason why a burst ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    /// The time was up.
    Time,
    /// There were enough samples.
    Samples,
    /// A signal requested the end.
    Signal,
    /// The process has too many pinned objects for a Verbose session.
    PinnedObjects,
    /// The process exited.
    Exit,
    /// The recording has ended.
    EndOfFile,
}

/// The outcome of a burst.
#[derive(Debug)]
pub struct BurstOutcome {
    /// Results of the burst.
    pub burst: Burst,
    /// Reason why the burst ended.
    pub stopped_by: StoppedBy,
    /// Differences between the requested and the actual session.
    pub compromises: Vec<Compromise>,
    /// Time from the stop request to the end of the stream, which contains the rundown.
    pub stop_took: Duration,
    /// Reason why the stream was not read to its end; `None` if the stream is complete.
    pub cut: Option<ReadError>,
    /// Reason why a living process could not be healed; `None` if the process was healed or has exited.
    pub not_healed: Option<Error>,
}

/// Error returned if the stream of a burst cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The connection failed, or the runtime did not end the stream in time.
    #[error(transparent)]
    Session(#[from] Error),
    /// The bytes are not a valid stream, or take too much memory.
    #[error(transparent)]
    Stream(#[from] nettrace::Error),
    /// The caller stopped the burst while the runtime named methods.
    #[error("stopped before the methods were named")]
    Stopped,
}

impl Question {
    /// Returns the configuration of the session that answers the question.
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

    /// Returns the reason why the burst can end early, or `None` if the burst must continue.
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

/// Runs a burst, which ends after `time`, with enough samples or too many pinned objects, when the process exits, or
/// when `stop` completes. Afterwards, `stop` is called again; if this second future completes before the end of the
/// stream, methods can lack names. `keep` receives the bytes of the stream. The session is always stopped and the
/// process healed, so the future must be driven to completion.
///
/// # Errors
///
/// Returns an error if the session cannot be started.
pub async fn run<S: Future<Output = ()>>(
    client: &Client,
    question: Question,
    time: Duration,
    mut stop: impl FnMut() -> S,
    mut keep: impl FnMut(&[u8]),
) -> Result<BurstOutcome, Error> {
    let begun = client.collect_tracing(&question.session()).await;
    let mut session = match begun {
        Ok(session) => session,
        Err(error) => {
            // The process can have executed the command despite the error.
            let _gone = heal(client).await;
            return Err(error);
        }
    };
    let mut done = BurstOutcome {
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
        () = stop() => Err(ReadError::Stopped),
    };
    done.stop_took = asked.elapsed();
    if let Err(problem) = drained {
        let _ended = tokio::time::timeout(END_TIMEOUT, session.drain(|_| ())).await;
        done.cut = Some(problem);
    }
    // A process that exits while the session stops no longer answers.
    let _stopped = session.stopped().await;
    if let Err(error) = done.burst.finish() {
        done.cut.get_or_insert(error.into());
    }
    done.not_healed = heal(client).await.err().filter(|_| done.stopped_by != StoppedBy::Exit);
    Ok(done)
}

/// The buffer into which a stream is read, and the receiver of its bytes.
type Pieces<'a> = (&'a mut [u8], &'a mut dyn FnMut(&[u8]));

/// Reads until the burst must end, and sets the reason in `done`.
async fn watch<S: Future<Output = ()>>(
    session: &mut Session,
    done: &mut BurstOutcome,
    (buffer, keep): Pieces<'_>,
    question: Question,
    time: Duration,
    stop: &mut impl FnMut() -> S,
) -> Result<(), ReadError> {
    let mut time_is_up = pin!(tokio::time::sleep(time));
    let mut stopped = pin!(stop());
    loop {
        let read = tokio::select! {
            read = session.read(buffer) => read?,
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

/// Reads for a moment longer: events that occurred in time arrive, and collections that were requested in time finish.
async fn linger(session: &mut Session, burst: &mut Burst, (buffer, keep): Pieces<'_>) -> Result<(), ReadError> {
    let until = Instant::now() + LAST_TIMEOUT;
    loop {
        match tokio::time::timeout_at(until, session.read(buffer)).await {
            Err(_) | Ok(Ok(0)) => return Ok(()),
            Ok(read) => push(burst, (buffer, &mut *keep), read?)?,
        }
    }
}

/// Reads to the end of the stream, for which the session has a deadline.
async fn drain(session: &mut Session, burst: &mut Burst, (buffer, keep): Pieces<'_>) -> Result<(), ReadError> {
    loop {
        match session.read(buffer).await? {
            0 => return Ok(()),
            read => push(burst, (buffer, &mut *keep), read)?,
        }
    }
}

fn push(burst: &mut Burst, (buffer, keep): Pieces<'_>, read: usize) -> Result<(), ReadError> {
    let bytes = buffer.get(..read).unwrap_or_default();
    keep(bytes);
    Ok(burst.push(bytes)?)
}

/// Causes the runtime to recompute its enabled events, with at most [`HEAL_TRIES`] attempts.
pub(crate) async fn heal(client: &Client) -> Result<(), Error> {
    let mut tries = 1;
    loop {
        match client.recompute_levels(HEAL_TIMEOUT).await {
            // The socket existed a moment ago, so the process has exited.
            Ok(()) | Err(Error::NoSocket { .. } | Error::Refused { .. }) => return Ok(()),
            Err(error) if tries == HEAL_TRIES => return Err(error),
            Err(_) => tries += 1,
        }
    }
}

/// Returns the time on the clock of streams on this host.
fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}
