//! The ring of one stream: its newest part, packed in pieces, and the part that an incident's recording has not
//! received yet. Enforces its own limits, independently of other rings.

use std::collections::VecDeque;
use std::sync::Arc;

use nettrace::TraceHeader;
use nettrace::keep::{Block, BlockContent};
use zstd::bulk::Compressor;

use crate::black_box::{NextBlocks, RetainedEvents, StreamContinuation};

/// Maximum number of packed bytes of one ring.
pub(super) const ONE: usize = 128 << 10;

/// Number of bytes of a stream that are packed together. Larger pieces compress only slightly better (6.8 to 1 with 64
/// KiB instead of 6.0 to 1, for a busy process), and the unpacked part takes more memory.
pub(super) const PIECE: usize = 16 << 10;

/// Maximum age of a piece's newest event, relative to the newest event of the stream, in seconds. Older pieces are
/// dropped.
pub(super) const KEPT_SECONDS: i64 = 30;

/// Maximum size of a block. A larger block is not kept, and the blocks before it are dropped. Runtimes write at most
/// 100 KiB.
pub(super) const MAX_BLOCK: usize = 256 << 10;

/// Maximum number of unpacked bytes of one ring and of a recording, because a small packed piece can consist of many
/// zeros.
pub(super) const MAX_UNPACKED: usize = 16 << 20;

/// Maximum number of unpacked bytes of a stream's definitions. The collector's definitions take 4 KB.
pub(super) const MAX_DEFINITIONS: usize = 64 << 10;

/// Maximum number of packed bytes that wait for the writer of a recording, which reads once per second. If more bytes
/// wait, the recording ends.
pub(super) const MAX_FOLLOWED: usize = 256 << 10;

/// Blocks that were packed together.
#[derive(Debug, Clone)]
pub struct Piece {
    packed: Arc<[u8]>,
    pub(super) unpacked: usize,
    /// Ticks of the newest event, or of the newest event before the piece if the piece contains no events.
    newest: i64,
}

impl Piece {
    /// Returns the frames, for `nettrace::keep::Rewriter`. Never `None` in practice.
    pub fn frames(&self) -> Option<Vec<u8>> {
        zstd::bulk::decompress(&self.packed, self.unpacked).ok()
    }
}

/// The newest part of one stream.
#[derive(Debug, Default)]
pub(super) struct Ring {
    header: Option<Arc<TraceHeader>>,
    /// All definitions of the stream.
    definitions: Option<Piece>,
    /// The pieces, oldest first.
    pieces: VecDeque<Piece>,
    packed: usize,
    unpacked: usize,
    /// Blocks since the newest piece.
    pending: Vec<u8>,
    newest: i64,
    /// Whether a definition could not be kept. No more blocks are kept until the next stream.
    is_off: bool,
    /// Whether the stream has ended.
    is_over: bool,
    /// The part that an incident's recording has not received yet; `None` if no recording is made.
    following: Option<FollowedStream>,
    /// Number of bytes of this ring that are included in `Boxes::held`.
    pub(super) counted: usize,
}

#[derive(Debug, Default)]
struct FollowedStream {
    pieces: Vec<Piece>,
    packed: usize,
    unpacked: usize,
    /// Whether the recording ends here although the stream has more blocks.
    is_cut: bool,
    /// Whether the stream has ended.
    is_over: bool,
}

impl Ring {
    /// Starts the next stream. A recording of the previous stream ends with that stream.
    pub(super) fn begin(&mut self, header: &TraceHeader, packer: &mut Compressor<'static>) {
        self.over(packer);
        *self = Self {
            header: Some(Arc::new(header.clone())),
            newest: header.sync_ticks,
            following: self.following.take(),
            counted: self.counted,
            ..Self::default()
        };
    }

    /// Starts a recording and returns all kept blocks, or `None` if no stream has started.
    pub(super) fn follow(&mut self, packer: &mut Compressor<'static>) -> Option<RetainedEvents> {
        self.seal(packer);
        let header = Arc::clone(self.header.as_ref()?);
        self.following = Some(FollowedStream {
            is_over: self.is_over,
            ..FollowedStream::default()
        });
        let pieces = self.definitions.iter().chain(&self.pieces).cloned().collect();
        Some(RetainedEvents { header, pieces })
    }

    /// Returns the blocks that have arrived since the last call, or `None` if no recording is made.
    pub(super) fn next(&mut self, packer: &mut Compressor<'static>) -> Option<NextBlocks> {
        self.seal(packer);
        let following = self.following.as_mut()?;
        following.packed = 0;
        let more = match following {
            FollowedStream { is_cut: true, .. } => StreamContinuation::Cut,
            FollowedStream { is_over: true, .. } => StreamContinuation::Over,
            _ => StreamContinuation::Perhaps,
        };
        let pieces = std::mem::take(&mut following.pieces);
        Some(NextBlocks { pieces, more })
    }

    /// Stops the recording.
    pub(super) fn unfollow(&mut self) {
        self.following = None;
    }

    pub(super) fn held(&self) -> usize {
        let definitions = self.definitions.as_ref().map_or(0, |piece| piece.packed.len());
        let following = self.following.as_ref().map_or(0, |following| following.packed);
        let table = self.pieces.capacity() * size_of::<Piece>();
        definitions + self.packed + self.pending.capacity() + following + table + size_of::<Self>()
    }

    pub(super) fn block(&mut self, block: &Block<'_>, packer: &mut Compressor<'static>) {
        if self.is_off {
            return;
        }
        if block.bytes() > MAX_BLOCK {
            self.miss();
            return;
        }
        let at = self.pending.len();
        block.put(&mut self.pending);
        if let Some((_, newest)) = block.span() {
            self.newest = newest;
        }
        let frame = self.pending.get(at..).unwrap_or_default();
        if frame.len() > 2 * MAX_BLOCK {
            self.miss();
            return;
        }
        if block.is() == BlockContent::Definitions {
            let before = self.definitions.as_ref().and_then(Piece::frames).unwrap_or_default();
            let all = [&before, frame].concat();
            self.definitions = pack(packer, &all, self.newest).filter(|_| all.len() <= MAX_DEFINITIONS);
            if self.definitions.is_none() {
                self.miss();
                self.is_off = true;
                return;
            }
        }
        if self.pending.len() >= PIECE {
            self.seal(packer);
        }
    }

    /// Handles a block that cannot be kept: the blocks before it are not contiguous with the blocks after it, so the
    /// earlier blocks are dropped.
    fn miss(&mut self) {
        self.pieces.clear();
        (self.packed, self.unpacked) = (0, 0);
        self.pending = Vec::new();
        if let Some(following) = &mut self.following {
            following.is_cut = true;
        }
    }

    /// Packs the pending blocks.
    fn seal(&mut self, packer: &mut Compressor<'static>) {
        if self.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let Some(piece) = pack(packer, &pending, self.newest) else {
            self.miss();
            return;
        };
        if let Some(following) = &mut self.following {
            following.take(&piece);
        }
        self.packed += piece.packed.len();
        self.unpacked += piece.unpacked;
        self.pieces.push_back(piece);
        let frequency = self.header.as_ref().map_or(i64::MAX, |header| header.frequency);
        let oldest = self.newest.saturating_sub(frequency.saturating_mul(KEPT_SECONDS));
        while self.packed > ONE
            || self.unpacked > MAX_UNPACKED
            || self.pieces.front().is_some_and(|piece| piece.newest < oldest)
        {
            if !self.drop_oldest() {
                return;
            }
        }
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.pieces.pop_front() else {
            return false;
        };
        self.packed -= oldest.packed.len();
        self.unpacked -= oldest.unpacked;
        true
    }

    /// Drops data because all rings together hold too much, and this ring holds most.
    pub(super) fn give(&mut self, packer: &mut Compressor<'static>) {
        if self.pieces.is_empty() {
            self.seal(packer);
        }
        if !self.drop_oldest() {
            // Only blocks that wait for a writer are left.
            self.miss();
            if let Some(following) = &mut self.following {
                *following = FollowedStream {
                    is_cut: true,
                    ..FollowedStream::default()
                };
            }
        }
        self.pieces.shrink_to_fit();
    }

    /// Marks the stream as ended.
    pub(super) fn over(&mut self, packer: &mut Compressor<'static>) {
        self.seal(packer);
        self.is_over = true;
        if let Some(following) = &mut self.following {
            following.is_over = true;
        }
    }
}

impl FollowedStream {
    fn take(&mut self, piece: &Piece) {
        if self.is_over {
            return;
        }
        self.is_cut |= self.packed + piece.packed.len() > MAX_FOLLOWED || self.unpacked + piece.unpacked > MAX_UNPACKED;
        if !self.is_cut {
            self.packed += piece.packed.len();
            self.unpacked += piece.unpacked;
            self.pieces.push(piece.clone());
        }
    }
}

fn pack(packer: &mut Compressor<'static>, frames: &[u8], newest: i64) -> Option<Piece> {
    let packed = packer.compress(frames).ok()?;
    Some(Piece {
        packed: packed.into(),
        unpacked: frames.len(),
        newest,
    })
}
