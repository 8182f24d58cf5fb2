//! Reads and writes nettrace, the stream of events that .NET's EventPipe sends over the diagnostics socket and that
//! `dotnet-trace` saves to files.
//!
//! A [`Decoder`] accepts bytes in chunks of any size and returns [`Item`]s: the header, events, gaps (events that the
//! writer lost) and sequence points. The decoder performs no I/O and has no clock. The payload of an event borrows from
//! the decoder until the next item is requested, and the decoder does not allocate in steady state. An
//! [`encode::Encoder`] writes such streams. The module [`keep`] retains the last blocks of a stream while the decoder
//! reads the stream, and writes these blocks as a new stream.
//!
//! Times are in ticks of the traced machine's clock. [`TraceHeader::offset_ns`] converts ticks to nanoseconds since the
//! start of the session, and [`TraceHeader::unix_ns`] converts ticks to Unix time.
//!
//! # Example
//!
//! ```
//! use nettrace::{Decoder, Error, Item, Options};
//!
//! /// Returns the number of collections in a recording, and whether events were lost.
//! fn collections(mut recording: impl std::io::Read) -> Result<(u32, bool), Box<dyn std::error::Error>> {
//!     // Native events have no names. Provider, id and version identify them: 1 is GCStart.
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
//! | Format | Writer | Support |
//! |---|---|---|
//! | NetPerf | .NET Core 2.x; newer runtimes on request | rejected: [`Error::NetPerf`] |
//! | V4 | .NET Core 3.0 to .NET 11 | [`Format::V4`] |
//! | "V5" | .NET 5 and later: V4 with tags in the metadata; the version in the stream is 4 | [`Format::V4`] |
//! | V6 | one-collect (`dotnet-trace collect-linux`) | [`Format::V6`], including higher minor versions |
//! | V7 | no writer yet | rejected: [`Error::UnsupportedVersion`] |
//!
//! # Layers
//!
//! ```text
//! bytes      space/filled, push        chunks of any size; only a partial block is retained
//!   blocks   V4: tagged objects aligned to 4 bytes of the stream; V6: a word with kind and size
//!     blobs  delta-encoded headers (module `blob`), payloads; definitions, stacks, threads, labels
//!       events, numbered per capture thread: gaps
//!         events by time
//! ```
//!
//! * A block is decoded when it is complete. A stream can end anywhere: every complete block is delivered, and
//!   [`Ending`] describes how the stream ended.
//! * **Order.** Within a capture thread, events are sorted by time. Across threads, events are not sorted: the writer
//!   sends a run of events of one thread, then a run of the next thread. An event that is marked as sorted guarantees
//!   that no later event in the stream is older. Waiting events up to its timestamp are therefore merged by time and
//!   delivered. A sequence point, the end of the stream and [`Decoder::flush`] release all waiting events. Events with
//!   the same timestamp keep their order in the stream.
//! * **Losses.** A writer numbers the events of a capture thread, including dropped events. Missing numbers become a
//!   [`Gap`] as soon as the decoder detects them, even if only a sequence point reveals them, and even if the interest
//!   would exclude the lost events. A number that decreases is not a loss: the thread id was assigned to a new thread.
//! * **Interest.** [`Options::interest`] classifies each definition once, and each event carries the resulting tag.
//!   Excluded events cost a few nanoseconds: they are counted and checked for gaps, but not copied.
//!
//! # Invariants
//!
//! * The same bytes produce the same items, regardless of the chunks in which they arrive.
//! * [`Stats::events`] = delivered + uninteresting + without a definition + still waiting.
//! * No input makes the decoder panic, loop forever, or hold more memory than [`limits`] allows. Damage is an error
//!   with the byte offset and the part of the stream that was being read. Everything before the damage is delivered
//!   first.
//! * An event has the definition, stack and thread that were valid at its position in the stream, regardless of the
//!   time of delivery.
//!
//! # Errors
//!
//! [`Decoder::next_item`] returns an [`Error`] if the stream is not nettrace, has an unsupported version, is damaged or
//! exceeds a limit. The decoder cannot continue after an error. A stream that ends early is not an error
//! ([`Ending::Truncated`]), and neither is a loss of events ([`Gap`]).
//!
//! # Omissions in V6 streams of one-collect
//!
//! Definitions have no version, level or keywords (`None` in this crate). Events are not numbered ([`Stats::lost`] is
//! `None`). The header contains no process id; each event has the id of its process. Thread indexes are reassigned with
//! every block. If labels override the version, level, keywords or opcode of an event, the event gets a separate
//! definition, which is also passed to [`Options::interest`]. All labels except these overrides and activity ids are
//! skipped.

// Time is passed in as a value, and all state has a single owner: no clock, no lock (clippy.toml).
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
