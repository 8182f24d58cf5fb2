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
//! * Memory is bounded.
//!
//! # Memory
//!
//! A file may be of a whole machine, and all its collections wait for its end: it takes what it takes. A stream of one
//! live process ([`stream::StreamLimits::one_live_process`]) takes at most, in 10^6 bytes:
//!
//! | Store | Limit | Bytes each | Most |
//! |---|---|---|---|
//! | the decoder | [`nettrace::limits`] | | 13.2 |
//! | collections and suspensions that wait to be reported | [`gc::MAX_SETTLED`] | 1,000 to 2,000 | 4.0 |
//! | stops that are over | [`gc::MAX_CLOSED`] | 300 to 850 | 2.6 |
//! | collections of which facts come in | [`gc::MAX_FORMING`], 4 machines | 800 to 1,900 | 0.5 |
//! | stops that are open, and final stops without their collection | [`gc::MAX_OPEN_STOPS`], 4 machines | 700 | 0.4 |
//! | threads | [`gc::MAX_THREADS`], 4 machines | 40 | 0.3 |
//! | losses | [`gc::MAX_LOSS_INTERVALS`], 4 machines and the stream | 16 | 0.7 |
//!
//! No stream has the most of all at once: [`stream::GcStream::memory_bytes`] says what it holds, and its owner ends it
//! above a limit of its own.
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

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
#![deny(missing_docs, clippy::disallowed_methods, clippy::disallowed_types)]

pub mod event;
pub mod gc;
pub mod stream;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
