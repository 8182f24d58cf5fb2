//! Finds the .NET processes of a Linux host and implements the diagnostics IPC protocol of the runtime.
//!
//! Every .NET runtime (.NET Core 3.0 and later, NativeAOT since .NET 8) listens on a Unix socket for commands of
//! diagnostic tools. This crate finds these sockets and sends commands that do not change the process: identify the
//! process, read its environment, start and stop an event session, resume a suspended runtime. Commands that write
//! dumps, load code or change the environment are deliberately omitted.
//!
//! # Example
//!
//! ```no_run
//! use dotnet_diagnostics::discovery::Scan;
//! use dotnet_diagnostics::message::SessionConfig;
//! use dotnet_diagnostics::{Client, Endpoint};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // Discovery reads /proc, which blocks the thread.
//! let process = tokio::task::spawn_blocking(|| Scan::host().inspect(4321)).await??;
//! let client = Client::new(Endpoint::for_process(&process)?);
//! // The result is `None` for .NET Core 3.x, which responds but cannot identify itself.
//! if let Some(info) = client.probe().await? {
//!     println!("{} on .NET {:?}", process.name, info.runtime_version);
//! }
//! let mut session = client.collect_tracing(&SessionConfig::garbage_collection()).await?;
//! let mut buffer = vec![0; 64 << 10];
//! let first = session.read(&mut buffer).await?;
//! assert!(buffer[..first].starts_with(b"N"));
//! // `drain` stops the session and reads the stream to its end.
//! let mut rest = Vec::new();
//! session.drain(|bytes| rest.extend_from_slice(bytes)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Requirements
//!
//! * Linux. Other systems have no `/proc`.
//! * The asynchronous methods need a tokio runtime with I/O and time enabled, and panic without such a runtime.
//!   [`discovery`] needs no runtime, but blocks the calling thread.
//! * Processes of the same user need no permissions. Processes of other users require `CAP_SYS_PTRACE` and
//!   `CAP_DAC_OVERRIDE` ([`discovery::Credentials::missing`]).
//!
//! # Errors
//!
//! Commands and scans return an [`Error`] with the process, the socket or the path. [`Error::reason`] classifies the
//! error as one word for programs, and [`Error::obstacle`] separates the finding from the remedy.
//! [`Error::is_unknown_command`] recognizes runtimes that are too old for a command. The functions of [`message`]
//! return a [`message::MessageError`], which describes only the bytes.
//!
//! # Layers
//!
//! Each module uses only modules in earlier rows of the table.
//!
//! | Module | Content |
//! |---|---|
//! | [`text`] | makes strings from other processes safe to display |
//! | [`message`] | encodes and decodes messages; pure functions without I/O |
//! | `obstacle` | [`discovery::Obstacle`]: the reason why a process cannot be attached to, and a remedy |
//! | `error` | [`Error`]: the command, the process, the cause and a remedy |
//! | `deadlines` | [`Deadlines`]: the maximum duration of each step |
//! | `guard` | [`Guard`]: lets another process shut down the streams of sessions |
//! | [`discovery`] | finds processes and their sockets in `/proc`, with blocking I/O |
//! | `connections` | [`Connections`]: limits the concurrent connections to a socket |
//! | `waiting` | connections of runtimes that connect to this process |
//! | `endpoint` | [`Endpoint`]: opens a connection for one command, through a socket or from the waiting connections |
//! | `exchange` | sends a command and receives its response |
//! | `session` | [`Session`]: the event stream, and functions to stop it |
//! | `client` | [`Client`]: the commands as asynchronous methods (tokio) |
//! | [`reverse`] | [`reverse::ReversePort`]: a socket to which runtimes connect, and clients for their connections |
//!
//! # Invariants
//!
//! * **Every step of a command has a deadline** ([`Deadlines`]). If a runtime is stopped, the kernel still accepts
//!   connections for the runtime, but the runtime never responds. Only two waits have no deadline: reading a session
//!   before a stop is requested, and [`reverse::ReversePort::accept`].
//! * **Time is used only for deadlines.** The clock is tokio's clock, which a test can pause. No time is measured,
//!   reported or stored.
//! * **One command per connection.** The runtime serves one command and closes the connection after an error. If the
//!   runtime does not support the newest variant of a command, the client retries an older variant on a new connection.
//! * **The target is not disturbed.** Keywords that cause garbage collections are refused unless the caller allows them
//!   ([`message::MessageError::InducingKeywords`]). Stacks and rundown are off by default. A session that is dropped in
//!   a tokio runtime is stopped. A program that another process can suspend (SIGSTOP) should use a [`Guard`]
//!   ([`Client::guarded`]).
//! * **Responses come from the expected process.** The process that listens on the socket of a visible process is
//!   compared with the process in the name of the socket, and a path that a process chose never leads outside the root
//!   directory of that process.
//! * **No byte of a stream is lost.** The client never reads beyond the end of a response.
//! * Foreign input is bounded in time and memory, and never makes this crate panic.

// Only modules with an exception may use a clock (clippy.toml).
#![deny(missing_docs, clippy::disallowed_methods)]

#[expect(clippy::disallowed_methods, reason = "every exchange with a runtime has a deadline")]
mod client;
mod connections;
mod deadlines;
pub mod discovery;
#[expect(clippy::disallowed_methods, reason = "connecting to a runtime has a deadline")]
mod endpoint;
mod error;
#[expect(
    clippy::disallowed_methods,
    reason = "writing a command and reading its answer have deadlines"
)]
mod exchange;
mod guard;
pub mod message;
mod obstacle;
#[expect(
    clippy::disallowed_methods,
    reason = "a runtime that connects has a deadline to identify itself"
)]
pub mod reverse;
#[expect(clippy::disallowed_methods, reason = "reading and stopping a session have deadlines")]
mod session;
pub mod text;
#[expect(clippy::disallowed_methods, reason = "waiting for a runtime ends at a deadline")]
mod waiting;

pub use client::Client;
pub use connections::{Connections, OpenConnections};
pub use deadlines::Deadlines;
pub use endpoint::Endpoint;
pub use error::{Error, Peer, Stage};
pub use guard::{Guard, GuardedStream};
pub use session::Session;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
