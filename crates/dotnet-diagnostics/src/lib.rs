//! Finds the .NET processes of a Linux host and speaks the runtime's diagnostics protocol with them.
//!
//! Every .NET runtime (.NET Core 3.0 and later, NativeAOT from 8) listens on a Unix socket for commands of diagnostic
//! tools. This crate finds those sockets and sends the commands that leave a process as it is: identify the process,
//! read its environment, start an event session, stop it, resume a suspended runtime. Commands that write dumps, load
//! code or change the environment are left out on purpose.
//!
//! # Layers
//!
//! Each module uses only those above it.
//!
//! | Module | What it is |
//! |---|---|
//! | [`text`] | strings of other processes, made safe to show |
//! | [`message`] | bytes to values and back; pure functions without I/O |
//! | `obstacle` | why a process cannot be attached to, and what to do: [`discovery::Obstacle`] |
//! | `error` | [`Error`]: in which command, with which process, and what to do |
//! | `deadlines` | [`Deadlines`]: how long each step may take |
//! | `guard` | [`Guard`]: who else can shut the streams of sessions down |
//! | [`discovery`] | processes and their sockets, from `/proc`; blocking |
//! | `connections` | [`Connections`]: how many of ours a socket has at a moment |
//! | `waiting` | connections of runtimes that connect to us |
//! | `endpoint` | [`Endpoint`]: a connection for one command, by a socket or from those that wait |
//! | `exchange` | one command and its answer |
//! | `session` | [`Session`]: the event stream, and how to end it |
//! | `client` | [`Client`]: the commands as methods, asynchronous (tokio) |
//! | [`reverse`] | [`reverse::ReversePort`]: the socket that runtimes connect to, and clients on their connections |
//!
//! # Invariants
//!
//! * **Nothing waits without a limit.** Every step has a deadline ([`Deadlines`]): the kernel accepts connections for a
//!   runtime that is stopped, and it never answers.
//! * **Time is used for deadlines only.** The clock is tokio's (a test can pause it); no time is measured, reported or
//!   stored.
//! * **One command per connection.** The runtime serves one after the other and closes after an error; a newer form of
//!   a command that it does not know is tried again in an older form on a new connection.
//! * **The target is not disturbed.** Keywords that make it collect garbage are refused
//!   ([`message::MessageError::InducingKeywords`]); stacks and rundown are off unless asked for; a session that is
//!   dropped is stopped. A program that may be stopped itself has a [`Guard`] ([`Client::guarded`]).
//! * **Answers come from the process that was asked.** The process that listens is compared with the one that the
//!   socket is named after, and a path that a process chose never leads out of that process's root.
//! * **No byte of a stream is lost**: nothing is read past the end of an answer.
//! * Foreign input is bounded in time and memory, and never makes this crate panic.
//!
//! # Example
//!
//! ```no_run
//! use dotnet_diagnostics::discovery::Scan;
//! use dotnet_diagnostics::message::SessionConfig;
//! use dotnet_diagnostics::{Client, Endpoint, Error};
//!
//! # async fn example() -> Result<(), Error> {
//! let process = Scan::host().inspect(4321)?;
//! let client = Client::new(Endpoint::of(&process)?);
//! // `None`: .NET Core 3.x, which answers but cannot identify itself.
//! if let Some(info) = client.probe().await? {
//!     println!("{} on .NET {:?}", process.name, info.runtime_version);
//! }
//! let mut session = client.collect_tracing(&SessionConfig::garbage_collection()).await?;
//! let mut buffer = vec![0; 64 << 10];
//! let first = session.read(&mut buffer).await?;
//! assert!(buffer[..first].starts_with(b"N"));
//! let mut rest = Vec::new();
//! session.drain(|bytes| rest.extend_from_slice(bytes)).await?;
//! # Ok(())
//! # }
//! ```

// Time is a value: only the modules that allow it ask a clock (clippy.toml).
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
pub use guard::{Guard, Held};
pub use session::Session;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
