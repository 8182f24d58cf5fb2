//! Typed garbage collection events of .NET runtimes, and the reconstruction of collections from these events.
//!
//! The input is a nettrace stream of .NET Core 3.1 to .NET 11 or of NativeAOT, live or from a file. The output is one
//! [`gc::Collection`] per garbage collection, with its stops, sizes and causes, and one [`gc::Suspension`] per stop
//! without a collection.
//!
//! # Example
//!
//! Read a recording:
//!
//! ```
//! use clr_gc::gc::{Outcome, ReportTiming};
//! use clr_gc::stream::{GcStream, Scope};
//!
//! fn pauses(recording: &[u8]) -> Result<Vec<Option<i64>>, nettrace::Error> {
//!     let mut stream = GcStream::new(Scope::Collections, ReportTiming::AtTheEnd);
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
//!
//! For a live stream, use [`gc::ReportTiming::After`] with [`gc::LIVE_SETTLE_NS`], and take the outcomes after each
//! call of [`stream::GcStream::advance`]. If the call returns [`stream::AdvanceOutcome::Paused`], repeat the call after
//! taking the outcomes.
//!
//! # Times and threads
//!
//! Times are in nanoseconds since the *sync point* of the stream, which is the start of the session
//! ([`nettrace::TraceHeader::sync_ticks`]). [`nettrace::TraceHeader::unix_ns_of_offset`] converts these times to Unix
//! time. Durations are in nanoseconds. Threads have the ids of [`nettrace::Event::thread`].
//!
//! # Errors
//!
//! [`stream::GcStream::advance`] returns a [`nettrace::Error`] if the stream is damaged. Events that cannot be decoded
//! ([`event::PayloadError`]) and lost events are not errors: the stream counts them, and the affected collections list
//! their missing parts ([`gc::Collection::missing`], [`gc::Collection::lossy`]).
//!
//! # Layers
//!
//! ```text
//! stream   reads the bytes of a nettrace stream, returns the collections of every process in it
//!   |
//!   |-- nettrace (crate)   bytes -> events: provider, id, version, payload
//!   |-- event              payload -> ClrEvent: every GC event of every runtime, in every version
//!   '-- gc                 ClrEvent -> Collection, Suspension: the state machine
//! ```
//!
//! `stream` uses the other two modules, and `gc` uses `event`. No module uses `stream`. No module has I/O, a clock or a
//! thread: times are values in the stream or arguments. A live session, a file and a test therefore run the same code.
//!
//! # Invariants
//!
//! * No input causes a panic or an unbounded allocation. Input that cannot be decoded is counted, not dropped silently.
//! * A value that was never observed is `None`, never 0.
//! * A collection that is complete and not lossy is correct in every field ([`gc`]).
//! * The memory of a live stream is bounded.
//!
//! # Memory
//!
//! A file can cover a whole machine, and its collections are reported only at the end, so the memory for a file grows
//! with its length. The stream of one live process ([`stream::StreamLimits::one_live_process`]) uses at most, in 10^6
//! bytes:
//!
//! | Store | Limit | Bytes per item | Maximum |
//! |---|---|---|---|
//! | decoder | [`nettrace::limits`] | | 13.2 |
//! | collections and suspensions that wait to be reported | [`gc::MAX_SETTLED`] | 1,000 to 2,000 | 4.0 |
//! | closed stops | [`gc::MAX_CLOSED`] | 300 to 850 | 2.6 |
//! | collections that still receive facts | [`gc::MAX_FORMING`], 4 machines | 800 to 1,900 | 0.5 |
//! | open stops, and final stops without their collection | [`gc::MAX_OPEN_STOPS`], 4 machines | 700 | 0.4 |
//! | threads | [`gc::MAX_THREADS`], 4 machines | 40 | 0.3 |
//! | losses | [`gc::MAX_LOSS_INTERVALS`], 4 machines and the stream | 16 | 0.7 |
//!
//! No stream reaches all maxima at once. [`stream::GcStream::memory_bytes`] returns the memory in use, and the owner of
//! a stream must end the stream if this value exceeds the owner's limit.

// Time is passed as a value, and state has one owner: this crate uses no clock and no lock (clippy.toml).
#![deny(missing_docs, clippy::disallowed_methods, clippy::disallowed_types)]

pub mod event;
pub mod gc;
pub mod stream;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
