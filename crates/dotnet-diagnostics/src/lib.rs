//! The .NET runtime's diagnostics IPC protocol: who listens where, what to say, how to stop.
//!
//! Every .NET runtime (.NET Core 3.0 and later, NativeAOT from 8) listens on a Unix socket for commands of diagnostic tools. This
//! crate finds those sockets and speaks the commands that leave a process as it is: who are you, what is your environment, send
//! me events, stop, go on. Commands that write dumps, load code or change the environment are left out on purpose.
//!
//! # Layers
//!
//! Each uses only those above it:
//!
//! 1. [`message`]: bytes to values and back; pure functions without I/O.
//! 2. [`discovery`]: processes and their sockets, from `/proc`; what stands against attaching, with the reason. Blocking.
//! 3. [`Client`] and [`Session`]: commands over connections, asynchronous (tokio).
//! 4. [`reverse`]: runtimes that connect to us; the same client on their connections.
//!
//! # Invariants
//!
//! * **Nothing waits for ever.** Every step has a deadline ([`Deadlines`]): the kernel accepts connections for a runtime that is
//!   stopped, and it never answers.
//! * **One command per connection.** The runtime serves one after the other and closes after an error; a newer form of a command
//!   that it does not know is tried again in an older form on a new connection.
//! * **The target is not disturbed.** Keywords that make it collect garbage are refused
//!   ([`message::MessageError::InducingKeywords`]); stacks and rundown are off unless asked for; a session that is dropped is
//!   stopped.
//! * **The answer is whose it seems to be.** The process that listens is compared with the one that the socket is named after, and
//!   a path that a process chose never leads out of that process's root.
//! * **No byte of a stream is lost**: of an answer nothing is read past its end.
//! * What others send is bounded in time and memory, and never makes this crate panic.
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
//! // `None`: .NET Core 3.x, which answers but cannot say who it is.
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
#![deny(clippy::disallowed_methods)]

#[allow(clippy::disallowed_methods, reason = "every exchange with a runtime has a deadline")]
mod client;
mod deadlines;
pub mod discovery;
#[allow(clippy::disallowed_methods, reason = "connecting to a runtime has a deadline")]
mod endpoint;
mod error;
pub mod message;
#[allow(
    clippy::disallowed_methods,
    reason = "a runtime that connects must identify itself within a deadline"
)]
pub mod reverse;
#[allow(clippy::disallowed_methods, reason = "reading and stopping a session have deadlines")]
mod session;
pub mod text;

pub use client::Client;
pub use deadlines::Deadlines;
pub use endpoint::Endpoint;
pub use error::{Error, Peer, Stage};
pub use session::Session;
