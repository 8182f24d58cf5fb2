//! The session that takes a heap dump.
//!
//! The session is stopped immediately after its start. The runtime collects and walks the heap during the command (.NET
//! 8 to 10) or before it responds to StopTracing (3.1 and 11), and writes its buffer when the session stops. While the
//! session is open, any other session of this provider that starts makes the runtime dump again, into this session. A
//! plain session that starts and ends afterwards makes the runtime forget that it has named its types
//! (`evidence::burst::heal`).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use clr_gc::event::RUNTIME_PROVIDER;
use dotnet_diagnostics::message::{EventFilter, Provider, Rundown, SessionConfig, WhenFull};
use dotnet_diagnostics::{Client, Deadlines, Error};

use crate::burst::{RUNDOWN_KEYWORD, heal};

/// Keywords for collections, names of types, the forced collection and its dump.
const KEYWORDS: u64 = 0x198_0001;
/// Informational level. The next level adds an event for each pinned object, and slows later collections.
const LEVEL: u32 = 4;
/// Id of GCBulkEdge.
const EDGES: u32 = 19;
/// Timeout for a dump that an operator requests, if its suspension cannot be forecast. The answer comes after the
/// suspension, so a shorter timeout would lose the dump without shortening the suspension.
pub const DUMP_TIMEOUT: Duration = Duration::from_secs(600);
/// Buffer size in megabytes if the runtime waits for its reader (.NET 11).
pub const SMALL_BUFFER_MB: u32 = 16;
const READ_BYTES: usize = 256 << 10;
/// Maximum size of a dump's stream, in buffers and in additional bytes. A stream contains the buffer, the events
/// written while it was read, and names. A larger stream is not the stream of a dump.
const MAX_BUFFERS: u64 = 4;
const MAX_BESIDE: u64 = 64 << 20;

/// Parameters of a dump session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpOptions {
    /// Maximum memory of the runtime for the dump, in megabytes. Events that do not fit are dropped.
    pub buffer_mb: u32,
    /// Whether references are omitted, if the runtime supports this (.NET 10 and later).
    pub histogram: bool,
    /// Whether the runtime waits for its reader instead of dropping events (.NET 11). All threads are suspended while
    /// it waits.
    pub small_buffer: bool,
}

/// The outcome of a dump session.
#[derive(Debug)]
pub struct DumpSessionOutcome {
    /// Size of the stream, in bytes.
    pub bytes: u64,
    /// Reason why the stream was not read to its end, as a sentence; `None` if the stream is complete.
    pub cut: Option<String>,
    /// Reason why a living process could not be healed; otherwise `None`.
    pub not_healed: Option<Error>,
    /// Whether the caller closed the session. In this case, the process was not healed.
    pub is_closed: bool,
}

/// The outcome of passing on bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedOutcome {
    /// The bytes were accepted.
    Taken,
    /// The receiver needs no more bytes. The stream is still read to its end.
    Unwanted,
    /// The bytes could not be accepted immediately.
    Late,
}

/// Returns the deadlines of a dump's client. `within` applies to the response that starts the session, and to the end
/// of the session.
pub fn deadlines(within: Duration) -> Deadlines {
    Deadlines {
        start: within,
        stop: within,
        ..Deadlines::default()
    }
}

impl DumpOptions {
    /// Returns the maximum size of the stream, in bytes.
    fn most_bytes(self) -> u64 {
        (u64::from(self.buffer_mb) << 20)
            .saturating_mul(MAX_BUFFERS)
            .saturating_add(MAX_BESIDE)
    }

    fn config(self) -> SessionConfig {
        let filter = self.histogram.then(|| EventFilter::Except(vec![EDGES]));
        SessionConfig {
            buffer_mb: if self.small_buffer {
                SMALL_BUFFER_MB
            } else {
                self.buffer_mb
            },
            // The rundown names the methods whose stacks hold objects.
            rundown: if self.histogram {
                Rundown::None
            } else {
                Rundown::Keyword(RUNDOWN_KEYWORD)
            },
            stacks: false,
            providers: vec![Provider {
                filter,
                ..Provider::new(RUNTIME_PROVIDER, KEYWORDS, LEVEL)
            }],
            when_full: if self.small_buffer {
                WhenFull::Block
            } else {
                WhenFull::Drop
            },
            allow_inducing_keywords: true,
        }
    }
}

/// Takes a dump and passes its bytes to `feed`. When `close` completes, the session is closed immediately. Otherwise,
/// the future must be driven to completion. The client must have the [`deadlines`] of a dump.
///
/// # Errors
/// Returns an error if the session cannot be started.
pub async fn run(
    client: &Client,
    asked: DumpOptions,
    close: impl Future<Output = ()>,
    mut feed: impl FnMut(&[u8]) -> FeedOutcome,
) -> Result<DumpSessionOutcome, Error> {
    let mut close = pin!(close);
    let config = asked.config();
    let mut done = DumpSessionOutcome {
        bytes: 0,
        cut: None,
        not_healed: None,
        is_closed: false,
    };
    let begun = tokio::select! {
        begun = client.collect_tracing(&config) => begun,
        () = &mut close => return Ok(DumpSessionOutcome { is_closed: true, ..done }),
    };
    let mut session = match begun {
        Ok(session) => session,
        Err(error) => {
            // The process can have executed the command despite the error.
            let _gone = heal(client).await;
            return Err(error);
        }
    };
    session.request_stop();
    let mut buffer = vec![0; READ_BYTES];
    let mut is_wanted = true;
    loop {
        let read = tokio::select! {
            read = session.read(&mut buffer) => read,
            () = &mut close => return Ok(DumpSessionOutcome { is_closed: true, ..done }),
        };
        match read {
            Ok(0) => break,
            Ok(read) => {
                done.bytes += read as u64;
                if done.bytes > asked.most_bytes() {
                    done.cut = Some(format!(
                        "the stream is too large for a dump of {} MiB; the session was closed",
                        asked.buffer_mb
                    ));
                    break;
                }
                let bytes = buffer.get(..read).unwrap_or_default();
                if !is_wanted {
                    continue;
                }
                match feed(bytes) {
                    FeedOutcome::Taken => {}
                    FeedOutcome::Unwanted => is_wanted = false,
                    FeedOutcome::Late if asked.small_buffer => {
                        done.cut = Some("the dump could not be read fast enough and was abandoned".to_owned());
                        break;
                    }
                    FeedOutcome::Late => is_wanted = false,
                }
            }
            Err(error) => {
                done.cut = Some(error.to_string());
                break;
            }
        }
    }
    if done.cut.is_none() {
        tokio::select! {
            _exited = session.stopped() => {}
            () = &mut close => return Ok(DumpSessionOutcome { is_closed: true, ..done }),
        }
    }
    // The drop closes the stream, and the runtime resumes immediately.
    drop(session);
    tokio::select! {
        healed = heal(client) => done.not_healed = healed.err(),
        () = &mut close => done.is_closed = true,
    }
    Ok(done)
}
