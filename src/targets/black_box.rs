//! The black box: the last seconds of every stream, in memory, for the recording of an incident.
//!
//! ```text
//! decoder -> Tap: a block as it came -> the ring of its run: what is newest, unpacked
//!                                                            pieces, packed; the oldest give way
//! incident -> BlackBoxes::follow: all that is there -> next, next, ... : what came since -> evidence::black_box
//! ```
//!
//! Reading a stream costs the copy of its blocks, and each [`PIECE`] of them is packed (zstd): 40 µs. Nothing here does
//! I/O, and nobody holds the lock for longer than that: a disk that hangs holds its writer only.
//!
//! # Limits
//!
//! A ring has at most [`ONE`] bytes and about [`KEPT_SECONDS`]; all together have [`ALL`], for which the largest ring
//! gives its oldest piece. What a writer has not taken yet counts too, at most [`MOST_FOLLOWED`] of each. So bytes of a
//! hostile stream cost that stream's own black box.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nettrace::TraceHeader;
use nettrace::keep::{Block, BlockContent, Keeper};
use zstd::bulk::Compressor;

use crate::process::RunKey;

/// Bytes of one ring.
const ONE: usize = 128 << 10;

/// Bytes of all rings.
const ALL: usize = 8_000_000;

/// So much of a stream is packed together: more is hardly smaller (6.0 to 1 of a busy process, 6.8 to 1 with 64 KiB),
/// and what is not packed yet takes more.
const PIECE: usize = 16 << 10;

/// How long a piece is kept after a newer one, if there is room.
const KEPT_SECONDS: i64 = 30;

/// A longer block is not kept, nor is what came before it: runtimes write at most 100 KiB.
const MOST_BLOCK: usize = 256 << 10;

/// Unpacked bytes of one ring, and of what follows an incident: what is packed may be of zeros.
const MOST_UNPACKED: usize = 16 << 20;

/// Unpacked bytes of a stream's definitions: those of the collector take 4 KB.
const MOST_DEFINITIONS: usize = 64 << 10;

/// Packed bytes that wait for the writer of a recording, who asks once a second. Beyond: the recording ends there.
const MOST_FOLLOWED: usize = 256 << 10;

/// zstd's level: the fastest of the standard ones, 400 MB/s.
const LEVEL: i32 = 1;

/// The rings of all runs.
#[derive(Debug)]
pub struct BlackBoxes(Mutex<Boxes>);

struct Boxes {
    rings: HashMap<RunKey, Ring>,
    /// Bytes of all rings.
    held: usize,
    packer: Compressor<'static>,
}

impl fmt::Debug for Boxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boxes")
            .field("rings", &self.rings)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

/// Blocks that were packed together.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    packed: Arc<[u8]>,
    unpacked: usize,
    /// Ticks of its newest event; of one without events, of the newest before.
    newest: i64,
}

impl Piece {
    /// Its frames, for `nettrace::keep::Rewriter`; `None`: never.
    pub(crate) fn frames(&self) -> Option<Vec<u8>> {
        zstd::bulk::decompress(&self.packed, self.unpacked).ok()
    }
}

/// The newest of one stream.
#[derive(Debug, Default)]
struct Ring {
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
    counted: usize,
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

/// All that is kept of a stream when its recording begins.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) header: Arc<TraceHeader>,
    /// The definitions, then the blocks.
    pub(crate) pieces: Vec<Piece>,
}

/// What came since.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) more: More,
}

/// What comes after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    /// Perhaps something.
    Perhaps,
    /// Nothing: the stream is over.
    Over,
    /// Something, though not here: it came too fast.
    Cut,
}

impl BlackBoxes {
    /// Empty ones; `None`: zstd has no memory.
    pub(crate) fn new() -> Option<Arc<Self>> {
        let boxes = Boxes {
            rings: HashMap::new(),
            held: 0,
            packer: Compressor::new(LEVEL).ok()?,
        };
        Some(Arc::new(Self(Mutex::new(boxes))))
    }

    /// Takes the blocks of a run's next stream.
    pub(crate) fn tap(self: &Arc<Self>, run: RunKey) -> Box<dyn Keeper> {
        let boxes = Arc::clone(self);
        Box::new(Tap { boxes, run })
    }

    /// A recording of the run begins: all that is kept now. What comes is kept for it, too, until [`Self::unfollow`].
    /// `None`: nothing is kept of the run.
    pub(crate) fn follow(&self, run: RunKey) -> Option<Kept> {
        self.change(run, |ring, packer| {
            ring.seal(packer);
            let header = Arc::clone(ring.header.as_ref()?);
            ring.following = Some(Following {
                is_over: ring.is_over,
                ..Following::default()
            });
            let pieces = ring.definitions.iter().chain(&ring.pieces).cloned().collect();
            Some(Kept { header, pieces })
        })
        .flatten()
    }

    /// What came since the last call.
    pub(crate) fn next(&self, run: RunKey) -> Next {
        let next = self.change(run, |ring, packer| {
            ring.seal(packer);
            let following = ring.following.as_mut()?;
            following.packed = 0;
            let more = match following {
                Following { is_cut: true, .. } => More::Cut,
                Following { is_over: true, .. } => More::Over,
                _ => More::Perhaps,
            };
            let pieces = std::mem::take(&mut following.pieces);
            Some(Next { pieces, more })
        });
        next.flatten().unwrap_or(Next {
            pieces: Vec::new(),
            more: More::Over,
        })
    }

    /// The recording of the run is complete.
    pub(crate) fn unfollow(&self, run: RunKey) {
        let _no_ring = self.change(run, |ring, _| ring.following = None);
    }

    /// Nobody will ask for the run again.
    pub(crate) fn forget(&self, run: RunKey) {
        let mut boxes = self.lock();
        if let Some(ring) = boxes.rings.remove(&run) {
            boxes.held -= ring.counted;
        }
    }

    /// Bytes of all rings.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.lock().held
    }

    fn lock(&self) -> MutexGuard<'_, Boxes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the ring of a run, if there is one, and keeps all within their limit.
    fn change<T>(&self, run: RunKey, change: impl FnOnce(&mut Ring, &mut Compressor<'static>) -> T) -> Option<T> {
        let mut boxes = self.lock();
        let Boxes { rings, packer, .. } = &mut *boxes;
        let changed = change(rings.get_mut(&run)?, packer);
        boxes.settle(run);
        Some(changed)
    }
}

impl Boxes {
    /// A ring holds more or less than before. While all hold too much, the largest gives.
    fn settle(&mut self, run: RunKey) {
        self.count(run);
        while self.held > ALL {
            let largest = self.rings.iter().max_by_key(|(_, ring)| ring.counted);
            let Some(largest) = largest.map(|(run, _)| *run) else {
                return;
            };
            let Some(ring) = self.rings.get_mut(&largest) else {
                return;
            };
            ring.give(&mut self.packer);
            let before = self.held;
            self.count(largest);
            if self.held >= before {
                return;
            }
        }
    }

    fn count(&mut self, run: RunKey) {
        if let Some(ring) = self.rings.get_mut(&run) {
            let held = ring.held();
            self.held = self.held - ring.counted + held;
            ring.counted = held;
        }
    }
}

impl Ring {
    fn held(&self) -> usize {
        let definitions = self.definitions.as_ref().map_or(0, |piece| piece.packed.len());
        let following = self.following.as_ref().map_or(0, |following| following.packed);
        let table = self.pieces.capacity() * size_of::<Piece>();
        definitions + self.packed + self.pending.capacity() + following + table + size_of::<Self>()
    }

    fn block(&mut self, block: &Block<'_>, packer: &mut Compressor<'static>) {
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
    fn give(&mut self, packer: &mut Compressor<'static>) {
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
    fn over(&mut self, packer: &mut Compressor<'static>) {
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

/// Takes the blocks of one stream.
#[derive(Debug)]
struct Tap {
    boxes: Arc<BlackBoxes>,
    run: RunKey,
}

impl Keeper for Tap {
    fn begin(&mut self, header: &TraceHeader) {
        let mut boxes = self.boxes.lock();
        let Boxes { rings, packer, .. } = &mut *boxes;
        let ring = rings.entry(self.run).or_default();
        let counted = ring.counted;
        // A recording of the stream before ends with it.
        ring.over(packer);
        let following = ring.following.take();
        *ring = Ring {
            header: Some(Arc::new(header.clone())),
            newest: header.sync_ticks,
            following,
            counted,
            ..Ring::default()
        };
        boxes.settle(self.run);
    }

    fn block(&mut self, block: &Block<'_>) {
        let _no_ring = self.boxes.change(self.run, |ring, packer| ring.block(block, packer));
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let _no_ring = self.boxes.change(self.run, |ring, packer| ring.over(packer));
    }
}

#[cfg(test)]
mod tests;
