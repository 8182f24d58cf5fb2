//! The ring of one stream: what is newest of it, packed in pieces, and what an incident's recording has not got yet. It
//! keeps its own limits and knows nothing of other rings.

use std::collections::VecDeque;
use std::sync::Arc;

use nettrace::TraceHeader;
use nettrace::keep::{Block, BlockContent};
use zstd::bulk::Compressor;

use crate::black_box::{Kept, More, Next};

/// Bytes of one ring.
pub(super) const ONE: usize = 128 << 10;

/// So much of a stream is packed together: more is hardly smaller (6.0 to 1 of a busy process, 6.8 to 1 with 64 KiB),
/// and what is not packed yet takes more.
pub(super) const PIECE: usize = 16 << 10;

/// How long a piece is kept after a newer one, if there is room.
pub(super) const KEPT_SECONDS: i64 = 30;

/// A longer block is not kept, nor is what came before it: runtimes write at most 100 KiB.
pub(super) const MOST_BLOCK: usize = 256 << 10;

/// Unpacked bytes of one ring, and of what follows an incident: what is packed may be of zeros.
pub(super) const MOST_UNPACKED: usize = 16 << 20;

/// Unpacked bytes of a stream's definitions: those of the collector take 4 KB.
pub(super) const MOST_DEFINITIONS: usize = 64 << 10;

/// Packed bytes that wait for the writer of a recording, who asks once a second. Beyond: the recording ends there.
pub(super) const MOST_FOLLOWED: usize = 256 << 10;

/// Blocks that were packed together.
#[derive(Debug, Clone)]
pub struct Piece {
    packed: Arc<[u8]>,
    pub(super) unpacked: usize,
    /// Ticks of its newest event; of one without events, of the newest before.
    newest: i64,
}

impl Piece {
    /// Its frames, for `nettrace::keep::Rewriter`; `None`: never.
    pub fn frames(&self) -> Option<Vec<u8>> {
        zstd::bulk::decompress(&self.packed, self.unpacked).ok()
    }
}

/// The newest of one stream.
#[derive(Debug, Default)]
pub(super) struct Ring {
    header: Option<Arc<TraceHeader>>,
    /// All definitions of the stream.
    definitions: Option<Piece>,
    /// The oldest first.
    pieces: VecDeque<Piece>,
    packed: usize,
    unpacked: usize,
    /// Blocks since the newest piece.
    pending: Vec<u8>,
    newest: i64,
    /// Something of it cannot be kept: nothing more is, until the next stream.
    is_off: bool,
    /// The stream is over.
    is_over: bool,
    /// What an incident's recording has not got yet.
    following: Option<Following>,
    /// What was counted of it in `Boxes::held`.
    pub(super) counted: usize,
}

#[derive(Debug, Default)]
struct Following {
    pieces: Vec<Piece>,
    packed: usize,
    unpacked: usize,
    /// There is more of the stream than these pieces; nothing comes after them.
    is_cut: bool,
    /// The stream is over.
    is_over: bool,
}

impl Ring {
    /// The next stream begins. A recording of the one before ends with it.
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

    /// A recording begins: all that is kept now.
    pub(super) fn follow(&mut self, packer: &mut Compressor<'static>) -> Option<Kept> {
        self.seal(packer);
        let header = Arc::clone(self.header.as_ref()?);
        self.following = Some(Following {
            is_over: self.is_over,
            ..Following::default()
        });
        let pieces = self.definitions.iter().chain(&self.pieces).cloned().collect();
        Some(Kept { header, pieces })
    }

    /// What came since the last call; `None`: no recording is being made.
    pub(super) fn next(&mut self, packer: &mut Compressor<'static>) -> Option<Next> {
        self.seal(packer);
        let following = self.following.as_mut()?;
        following.packed = 0;
        let more = match following {
            Following { is_cut: true, .. } => More::Cut,
            Following { is_over: true, .. } => More::Over,
            _ => More::Perhaps,
        };
        let pieces = std::mem::take(&mut following.pieces);
        Some(Next { pieces, more })
    }

    /// The recording is complete.
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
        if block.bytes() > MOST_BLOCK {
            self.miss();
            return;
        }
        let at = self.pending.len();
        block.put(&mut self.pending);
        if let Some((_, newest)) = block.span() {
            self.newest = newest;
        }
        let frame = self.pending.get(at..).unwrap_or_default();
        if frame.len() > 2 * MOST_BLOCK {
            self.miss();
            return;
        }
        if block.is() == BlockContent::Definitions {
            let before = self.definitions.as_ref().and_then(Piece::frames).unwrap_or_default();
            let all = [&before, frame].concat();
            self.definitions = pack(packer, &all, self.newest).filter(|_| all.len() <= MOST_DEFINITIONS);
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

    /// Something cannot be kept: what came before it does not belong to what comes after.
    fn miss(&mut self) {
        self.pieces.clear();
        (self.packed, self.unpacked) = (0, 0);
        self.pending = Vec::new();
        if let Some(following) = &mut self.following {
            following.is_cut = true;
        }
    }

    /// Packs what is not packed yet.
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
            || self.unpacked > MOST_UNPACKED
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

    /// All rings together hold too much, and this one most.
    pub(super) fn give(&mut self, packer: &mut Compressor<'static>) {
        if self.pieces.is_empty() {
            self.seal(packer);
        }
        if !self.drop_oldest() {
            // Nothing but what waits for a writer.
            self.miss();
            if let Some(following) = &mut self.following {
                *following = Following {
                    is_cut: true,
                    ..Following::default()
                };
            }
        }
        self.pieces.shrink_to_fit();
    }

    /// The stream is over.
    pub(super) fn over(&mut self, packer: &mut Compressor<'static>) {
        self.seal(packer);
        self.is_over = true;
        if let Some(following) = &mut self.following {
            following.is_over = true;
        }
    }
}

impl Following {
    fn take(&mut self, piece: &Piece) {
        if self.is_over {
            return;
        }
        self.is_cut |=
            self.packed + piece.packed.len() > MOST_FOLLOWED || self.unpacked + piece.unpacked > MOST_UNPACKED;
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
