//! Typed garbage collection events of the CLR and the reconstruction of collections from them.
//!
//! # Layers
//!
//! ```text
//! stream   bytes of a nettrace stream in, collections of every process in it out
//!   |
//!   |-- nettrace (crate)   bytes -> events: provider, id, version, payload
//!   |-- event              payload -> ClrEvent: every GC event of every runtime, in every version
//!   '-- gc                 ClrEvent -> Collection, Suspension: the state machine
//! ```
//!
//! `stream` uses the other two, and `gc` uses `event`; nothing uses `stream`. None has I/O, a clock or a thread: times
//! are values in the stream or arguments, so that a live session, a file and a test drive the same code.
//!
//! # Invariants
//!
//! * No input panics, allocates without bound or is dropped silently: what cannot be decoded is counted.
//! * A value that was never seen is `None`, never 0.
//! * A collection that is complete and not lossy is correct in every field ([`gc`]).
//! * Memory is bounded: see the constants of [`gc`] and [`stream::StreamLimits`].
//!
//! # Example
//!
//! Reading a recording:
//!
//! ```
//! use clr_gc::gc::{Outcome, Settling};
//! use clr_gc::stream::{GcStream, Scope};
//!
//! fn pauses(recording: &[u8]) -> Result<Vec<Option<i64>>, nettrace::Error> {
//!     let mut stream = GcStream::new(Scope::Collections, Settling::AtTheEnd);
//!     for piece in recording.chunks(64 * 1024) {
//!         stream.space(piece.len())[..piece.len()].copy_from_slice(piece);
//!         stream.filled(piece.len());
//!         stream.advance(|_| ())?;
//!     }
//!     stream.finish();
//!     stream.advance(|_| ())?;
//!     stream.end();
//!     let mut pauses = Vec::new();
//!     while let Some((_, outcome)) = stream.next_outcome() {
//!         if let Outcome::Collection(collection) = outcome {
//!             pauses.push(collection.pause_ns);
//!         }
//!     }
//!     Ok(pauses)
//! }
//! ```

// Time is a value: no clock is asked here (clippy.toml).
#![deny(clippy::disallowed_methods)]

pub mod event;
pub mod gc;
pub mod stream;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
