//! The session that has a heap dump.
//!
//! It is stopped as soon as it has begun: the runtime collects and walks inside of the command (8 to 10) or before its
//! answer to StopTracing (3.1 and 11), and writes all that it buffered when it stops. While the session is open any
//! other one of this provider that begins makes the runtime dump again, into this one; and a plain one that begins and
//! ends afterwards makes it forget that it has named its types (`evidence::burst::heal`).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use clr_gc::event::RUNTIME_PROVIDER;
use dotnet_diagnostics::message::{EventFilter, Provider, Rundown, SessionConfig, WhenFull};
use dotnet_diagnostics::{Client, Deadlines, Error};

use crate::burst::{RUNDOWN_KEYWORD, heal};

/// Collections, types with names, the forced collection and its dump.
const KEYWORDS: u64 = 0x198_0001;
/// One more makes an event of each pinned object, and slow collections afterwards.
const LEVEL: u32 = 4;
/// GCBulkEdge.
const EDGES: u32 = 19;
/// Maximum time for a dump that an operator requests, if nothing is known about its stop. The answer comes after the
/// stop: to give up does not shorten the stop, and loses the dump.
pub const WITHIN: Duration = Duration::from_secs(600);
/// Megabytes of the buffer when the runtime waits for its reader (.NET 11).
pub const SMALL_BUFFER_MB: u32 = 16;
const READ_BYTES: usize = 256 << 10;
/// A stream has the buffer of its dump, what the runtime wrote while it was read, and names. One that is this much
/// larger than the buffer is not the stream of a dump.
const MOST_BUFFERS: u64 = 4;
const MOST_BESIDE: u64 = 64 << 20;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Megabytes that the runtime may take for the dump; what does not fit is dropped.
    pub buffer_mb: u32,
    /// Without references, where the runtime can leave them out (.NET 10).
    pub histogram: bool,
    /// The runtime waits for its reader instead of dropping (.NET 11): all threads stand while it waits.
    pub small_buffer: bool,
}

/// A session that is over.
#[derive(Debug)]
pub struct Done {
    /// Bytes of the stream.
    pub bytes: u64,
    /// The stream was not read to its end: a sentence.
    pub cut: Option<String>,
    /// The process could not be healed, though it lives: a sentence.
    pub not_healed: Option<String>,
    /// Whether the caller closed the session: the process was not healed either.
    pub is_closed: bool,
}

/// What becomes of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fed {
    /// They were taken.
    Taken,
    /// They are not wanted any more; the stream is read on all the same.
    Unwanted,
    /// They could not be taken at once.
    Late,
}

/// The deadlines of a dump's client, for the answer and for the end each.
pub fn deadlines(within: Duration) -> Deadlines {
    Deadlines {
        start: within,
        stop: within,
        ..Deadlines::default()
    }
}

impl Asked {
    /// Maximum bytes of the stream.
    fn most_bytes(self) -> u64 {
        (u64::from(self.buffer_mb) << 20)
            .saturating_mul(MOST_BUFFERS)
            .saturating_add(MOST_BESIDE)
    }

    fn config(self) -> SessionConfig {
        let filter = self.histogram.then(|| EventFilter::Except(vec![EDGES]));
        SessionConfig {
            buffer_mb: if self.small_buffer {
                SMALL_BUFFER_MB
            } else {
                self.buffer_mb
            },
            // Names of methods whose stacks hold something.
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

/// Has a dump made and gives its bytes to `feed`, until `close` is ready: then the session is closed at once. The
/// future must be driven to its end otherwise. The client has [`deadlines`].
///
/// # Errors
/// When the session cannot be begun.
pub async fn run(
    client: &Client,
    asked: Asked,
    close: impl Future<Output = ()>,
    mut feed: impl FnMut(&[u8]) -> Fed,
) -> Result<Done, Error> {
    let mut close = pin!(close);
    let config = asked.config();
    let mut done = Done {
        bytes: 0,
        cut: None,
        not_healed: None,
        is_closed: false,
    };
    let begun = tokio::select! {
        begun = client.collect_tracing(&config) => begun,
        () = &mut close => return Ok(Done { is_closed: true, ..done }),
    };
    let mut session = match begun {
        Ok(session) => session,
        Err(error) => {
            // The command may have been carried out all the same.
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
            () = &mut close => return Ok(Done { is_closed: true, ..done }),
        };
        match read {
            Ok(0) => break,
            Ok(read) => {
                done.bytes += read as u64;
                if done.bytes > asked.most_bytes() {
                    done.cut = Some(format!(
                        "its stream is larger than a dump of {} MiB can be: the session was closed",
                        asked.buffer_mb
                    ));
                    break;
                }
                let bytes = buffer.get(..read).unwrap_or_default();
                if !is_wanted {
                    continue;
                }
                match feed(bytes) {
                    Fed::Taken => {}
                    Fed::Unwanted => is_wanted = false,
                    Fed::Late if asked.small_buffer => {
                        done.cut = Some("the dump could not be read as fast as it came: it was given up".to_owned());
                        break;
                    }
                    Fed::Late => is_wanted = false,
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
            () = &mut close => return Ok(Done { is_closed: true, ..done }),
        }
    }
    // With it the stream closes: the runtime goes on at once.
    drop(session);
    tokio::select! {
        healed = heal(client) => done.not_healed = healed.err(),
        () = &mut close => done.is_closed = true,
    }
    Ok(done)
}
