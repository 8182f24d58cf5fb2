//! Reads and writes nettrace, the stream of events that .NET's EventPipe sends over the diagnostics socket and that
//! `dotnet-trace` keeps in files.
//!
//! A [`Decoder`] takes bytes in pieces of any size and returns [`Item`]s: the header, events, gaps (events that the
//! writer lost) and sequence points. It does no I/O, has no clock, and borrows: an event's payload lies in the decoder
//! until the next item is asked for, and in steady state nothing is allocated. An [`encode::Encoder`] writes such
//! streams; [`keep`] has the last blocks of one that is read, and writes them again.
//!
//! ```
//! use nettrace::{Decoder, Error, Item, Options};
//!
//! /// Counts the collections in a recording, and whether some may be missing.
//! fn collections(mut recording: impl std::io::Read) -> Result<(u32, bool), Box<dyn std::error::Error>> {
//!     // Native events have no names: they are known by provider, id and version. 1 is GCStart.
//!     let mut decoder = Decoder::new(Options {
//!         interest: Box::new(|metadata| {
//!             (metadata.provider == "Microsoft-Windows-DotNETRuntime" && metadata.event_id == 1).then_some(1)
//!         }),
//!         ..Options::default()
//!     });
//!     let (mut collections, mut lossy) = (0, false);
//!     loop {
//!         let n = recording.read(decoder.space(64 << 10))?;
//!         decoder.filled(n);
//!         if n == 0 {
//!             decoder.finish();
//!         }
//!         while let Some(item) = decoder.next_item()? {
//!             match item {
//!                 Item::Event(event) if event.tag == 1 => collections += 1,
//!                 Item::Gap(_) => lossy = true,
//!                 _ => {}
//!             }
//!         }
//!         if decoder.ending().is_some() {
//!             return Ok((collections, lossy));
//!         }
//!     }
//! }
//!
//! let not_a_recording = collections(&b"GIF89a"[..]).unwrap_err();
//! assert!(matches!(not_a_recording.downcast_ref(), Some(Error::NotNettrace { .. })));
//! ```
//!
//! # Formats
//!
//! | Format | Who writes it | Here |
//! |---|---|---|
//! | NetPerf | .NET Core 2.x, newer ones on request | refused: [`Error::NetPerf`] |
//! | V4 | .NET Core 3.0 to .NET 11 | [`Format::V4`] |
//! | "V5" | .NET 5 and later: V4 with tags in its metadata; on the wire it says 4 | [`Format::V4`] |
//! | V6 | one-collect (`dotnet-trace collect-linux`) | [`Format::V6`]; higher minor versions too |
//! | V7 | no writer yet | refused: [`Error::UnsupportedVersion`] |
//!
//! # Layers
//!
//! ```text
//! bytes      space/filled, push        pieces of any size; only a partial block is ever kept
//!   blocks   V4: tagged objects aligned to 4 bytes of the stream; V6: a word with kind and size
//!     blobs  headers that build on each other (module `blob`), payloads; definitions, stacks, threads, labels
//!       events, numbered per capture thread: gaps
//!         events by time
//! ```
//!
//! * A block is read when it is whole. A stream may end anywhere: what was whole is delivered, and [`Ending`] says how
//!   it ended.
//! * **Order.** Within a capture thread events ascend by time; across threads the writer sends run after run. An event
//!   that is marked as sorted promises that nothing later in the stream is older, so whatever waits up to its instant
//!   is delivered, merged by time; at a sequence point, at the end and on [`Decoder::flush`] everything is. Events of
//!   the same instant stay as they are in the stream.
//! * **Losses.** A writer numbers the events of a capture thread, those that it drops included. Missing numbers become
//!   a [`Gap`] as soon as they are seen, also when only a sequence point shows them, and also for events that are not
//!   delivered. A number that goes back is a thread id given to a new thread, not a loss.
//! * **Interest.** Definitions are classified once, by [`Options::interest`]; each event carries the tag. Events
//!   that are not wanted cost a few nanoseconds: they are counted and numbered, not copied.
//!
//! # Invariants
//!
//! * For the same bytes the items are the same, whatever the pieces that they came in.
//! * [`Stats::events`] = delivered + uninteresting + without a definition + still waiting.
//! * No input makes the decoder panic, loop, or hold more than [`limits`] says. Damage is an error that names the byte
//!   and what was being read; what came before it is delivered first.
//! * Definitions, stacks and threads of an event are those that held where it stands in the stream, however late it is
//!   delivered.
//!
//! # What V6 streams of one-collect leave out
//!
//! Their definitions have no version, level or keywords (`None` here), their events are not numbered
//! ([`Stats::lost`] is `None`), their header names no process (each event has its own), and thread indexes are given
//! anew with every block. Labels that override version, level, keywords or opcode of an event give it a definition of
//! its own, for which [`Options::interest`] is asked too. Labels other than that and activity ids are skipped.

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
#![deny(missing_docs, clippy::disallowed_methods, clippy::disallowed_types)]

pub mod blob;
mod capture;
mod cursor;
mod decoder;
mod definitions;
pub mod encode;
mod error;
mod frame;
mod header;
mod input;
mod intake;
mod item;
pub mod keep;
mod labels;
pub mod limits;
mod metadata;
mod options;
mod queue;
mod ranges;
mod stacks;
mod stats;
mod threads;

pub use self::decoder::Decoder;
pub use self::error::Error;
pub use self::header::{Format, PointerSize, SystemTime, TraceHeader};
pub use self::item::{Ending, Event, Gap, Item, Stack};
pub use self::metadata::{Field, FieldType, Metadata};
pub use self::options::{Interest, Options, Order};
pub use self::stats::{BlockCounts, Stats};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
