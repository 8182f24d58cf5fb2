//! Retains the last blocks of a stream unchanged, and writes them as a separate stream.
//!
//! ```text
//! Decoder -> Keeper: each complete block -> Block::put: frames, which the owner stores, compresses, drops at the front
//!                                                Rewriter: header + definitions + frames -> a complete stream
//! ```
//!
//! While a stream is read, a block is only copied. A rewritten stream contains the definitions, and its events are
//! renumbered: from 1 for each capture thread, with the gaps of the original stream, so that a reader counts only the
//! losses within the rewritten stream. A loss immediately before the first event of a thread also counts, because a
//! frame contains the last number of each of its threads before the frame.
//!
//! A rewritten stream omits stacks, because stacks are addresses that a reader cannot resolve without a rundown. V6
//! streams are not retained, because no runtime sends V6 over its socket.
//!
//! # Example
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use nettrace::keep::{Block, Keeper, Rewriter};
//! use nettrace::{Decoder, Options, TraceHeader};
//!
//! /// The header and the frames of a stream.
//! #[derive(Debug, Default, Clone)]
//! struct Retained(Arc<Mutex<(Option<TraceHeader>, Vec<u8>)>>);
//!
//! impl Keeper for Retained {
//!     fn begin(&mut self, header: &TraceHeader) {
//!         self.0.lock().unwrap().0 = Some(header.clone());
//!     }
//!
//!     fn block(&mut self, block: &Block<'_>) {
//!         block.put(&mut self.0.lock().unwrap().1);
//!     }
//! }
//!
//! /// Returns a copy of a stream without its stacks, or `None` if the stream is not V4.
//! fn copy(stream: &[u8]) -> Result<Option<Vec<u8>>, Box<dyn std::error::Error>> {
//!     let retained = Retained::default();
//!     let mut decoder = Decoder::new(Options::default());
//!     decoder.keep(Box::new(retained.clone()));
//!     decoder.push(stream);
//!     decoder.finish();
//!     while decoder.next_item()?.is_some() {}
//!     let retained = retained.0.lock().unwrap();
//!     let Some(header) = &retained.0 else { return Ok(None) };
//!     let mut rewriter = Rewriter::new(header)?;
//!     rewriter.frames(&retained.1)?;
//!     Ok(Some(rewriter.finish()?))
//! }
//! # let stream = nettrace::encode::Encoder::new(nettrace::Format::V4, &TraceHeader::default()).unwrap().finish();
//! # assert!(copy(&stream.unwrap()).unwrap().is_some_and(|copy| copy.starts_with(b"Nettrace")));
//! ```

mod rewrite;

use std::fmt;

pub use self::rewrite::Rewriter;

use crate::blob::{BlobHeader, BlobReader, HeaderLayout};
use crate::capture::CaptureThreads;
use crate::cursor::Cursor;
use crate::frame::BlockHeader;
use crate::header::TraceHeader;

/// A receiver for the blocks of a V4 stream that a [`Decoder`](crate::Decoder) is reading. See the [module
/// documentation](self).
pub trait Keeper: fmt::Debug + Send {
    /// Receives the header of the stream, before any block.
    fn begin(&mut self, header: &TraceHeader);

    /// Receives a complete block before the decoder decodes the block. The block can be damaged.
    fn block(&mut self, block: &Block<'_>);
}

/// A kind of retained block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockContent {
    /// Definitions, to which any later event can refer.
    Definitions,
    /// Events.
    Events,
    /// A sequence point.
    SequencePoint,
}

/// An unchanged block of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    pub(crate) is: BlockContent,
    pub(crate) content: &'a [u8],
    /// State of the capture threads before this block.
    pub(crate) threads: &'a CaptureThreads,
}

/// A capture thread in a frame: its id, its last number before the block, and whether the number is known.
type SequenceStart = (u64, u32, bool);

/// Size of an encoded [`SequenceStart`], in bytes.
const BEFORE_BYTES: usize = 13;

impl Block<'_> {
    /// Returns the kind of the block.
    pub fn is(&self) -> BlockContent {
        self.is
    }

    /// Returns the length of the block's content, in bytes. The tags, the type name and the size of the object in the
    /// stream are not included.
    pub fn bytes(&self) -> usize {
        self.content.len()
    }

    /// Returns the timestamps of the oldest and the newest event from the block header, in ticks, or `None` if the
    /// block does not contain events or its header is truncated.
    pub fn span(&self) -> Option<(i64, i64)> {
        if self.is != BlockContent::Events {
            return None;
        }
        let ticks = |at: usize| Some(i64::from_le_bytes(*self.content.get(at..)?.first_chunk()?));
        Some((ticks(4)?, ticks(12)?))
    }

    /// Appends the block as a frame, for [`Rewriter::frames`]. A frame also contains 13 bytes per capture thread in the
    /// block.
    pub fn put(&self, out: &mut Vec<u8>) {
        let befores = self.befores();
        out.reserve_exact(9 + befores.len() * BEFORE_BYTES + self.content.len());
        out.push(match self.is {
            BlockContent::Definitions => 0,
            BlockContent::Events => 1,
            BlockContent::SequencePoint => 2,
        });
        out.extend((befores.len() as u32).to_le_bytes());
        for (id, last, known) in befores {
            out.extend(id.to_le_bytes());
            out.extend(last.to_le_bytes());
            out.push(u8::from(known));
        }
        out.extend((self.content.len() as u32).to_le_bytes());
        out.extend(self.content);
    }

    /// Returns the capture threads in the block, with the last number of each thread before the block.
    fn befores(&self) -> Vec<SequenceStart> {
        let mut ids = match self.is {
            BlockContent::Definitions => return Vec::new(),
            BlockContent::Events => captured(self.content),
            BlockContent::SequencePoint => confirmed(self.content).map(|(id, _)| id).collect(),
        };
        ids.sort_unstable();
        ids.dedup();
        let before = |id| {
            let (last, known) = self.threads.last(id);
            (id, last, known)
        };
        ids.into_iter().map(before).collect()
    }
}

/// An encoded block with the numbers of its threads.
struct Frame<'a> {
    is: BlockContent,
    befores: &'a [u8],
    content: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns the first frame and the bytes after this frame, or `None` if there is no complete frame.
    fn first(frames: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (kind, rest) = frames.split_first()?;
        let is = match kind {
            0 => BlockContent::Definitions,
            1 => BlockContent::Events,
            2 => BlockContent::SequencePoint,
            _ => return None,
        };
        let (count, rest) = rest.split_first_chunk()?;
        let length = (u32::from_le_bytes(*count) as usize).checked_mul(BEFORE_BYTES)?;
        let (befores, rest) = rest.split_at_checked(length)?;
        let (length, rest) = rest.split_first_chunk()?;
        let (content, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        Some((Self { is, befores, content }, rest))
    }

    fn befores(&self) -> impl Iterator<Item = SequenceStart> + 'a {
        let (each, _) = self.befores.as_chunks::<BEFORE_BYTES>();
        each.iter().map(|bytes| {
            let [a, b, c, d, e, f, g, h, i, j, k, l, known] = *bytes;
            let id = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            (id, u32::from_le_bytes([i, j, k, l]), known != 0)
        })
    }
}

/// Returns a reader for the blobs of a V4 block, or `None` if the block header is damaged.
fn blobs(content: &[u8]) -> Option<BlobReader> {
    let block = BlockHeader::read(content, 0).ok()?;
    let (layout, at) = if block.compressed {
        (HeaderLayout::V4Compressed, block.bytes)
    } else {
        (HeaderLayout::V4Whole, block.bytes.next_multiple_of(4))
    };
    let header = BlobHeader::default();
    Some(BlobReader { layout, header, at })
}

/// Returns the capture threads of an event block, up to the first damage. A thread can occur repeatedly, but not twice
/// in a row.
fn captured(content: &[u8]) -> Vec<u64> {
    let mut ids = Vec::new();
    let Some(mut blobs) = blobs(content) else { return ids };
    while let Ok(Some(_)) = blobs.next(content, 0) {
        let id = blobs.header.capture_thread;
        if ids.last() != Some(&id) {
            ids.push(id);
        }
    }
    ids
}

/// Returns the capture threads of a sequence point with their numbers, up to the first damage.
fn confirmed(content: &[u8]) -> impl Iterator<Item = (u64, u32)> + '_ {
    let mut cursor = Cursor::new(content, 0);
    let is_there = cursor.i64("").is_ok();
    let count = cursor.u32("").ok().filter(|_| is_there).unwrap_or(0);
    (0..count).map_while(move |_| Some((cursor.u64("").ok()?, cursor.u32("").ok()?)))
}
