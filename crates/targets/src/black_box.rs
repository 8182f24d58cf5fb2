//! The black box: the last seconds of every stream, in memory, for the recording of an incident.
//!
//! ```text
//! decoder -> Tap: a block as it came -> the ring of its run: what is newest, unpacked
//!                                                            pieces, packed; the oldest give way
//! incident -> BlackBoxes::follow: all that is there -> next, next, ... : what came since -> evidence::black_box
//! ```
//!
//! Reading a stream costs the copy of its blocks, and each [`PIECE`](ring::PIECE) of them is packed (zstd): 40 µs.
//! Nothing here does I/O, and nobody holds the lock for longer than that: a disk that hangs holds its writer only.
//!
//! # Limits
//!
//! A ring has at most [`ONE`](ring::ONE) bytes and about [`KEPT_SECONDS`](ring::KEPT_SECONDS); all together have
//! [`ALL`], for which the largest ring gives its oldest piece. What a writer has not taken yet counts too, at most
//! [`MOST_FOLLOWED`](ring::MOST_FOLLOWED) of each. So bytes of a hostile stream cost that stream's own black box.

mod ring;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::run_key::RunKey;
use nettrace::TraceHeader;
use nettrace::keep::{Block, Keeper};
use zstd::bulk::Compressor;

pub use crate::black_box::ring::Piece;
use crate::black_box::ring::Ring;

/// Bytes of all rings.
const ALL: usize = 8_000_000;

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

/// All that is kept of a stream when its recording begins.
#[derive(Debug)]
pub struct Kept {
    /// The header of the stream.
    pub header: Arc<TraceHeader>,
    /// The definitions, then the blocks.
    pub pieces: Vec<Piece>,
}

/// What came since.
#[derive(Debug)]
pub struct Next {
    /// The blocks, in their order.
    pub pieces: Vec<Piece>,
    /// Whether the stream goes on.
    pub more: More,
}

/// What comes after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// Perhaps something.
    Perhaps,
    /// Nothing: the stream is over.
    Over,
    /// Something, though not here: it came too fast.
    Cut,
}

impl BlackBoxes {
    /// Empty ones; `None`: zstd has no memory.
    pub fn new() -> Option<Arc<Self>> {
        let boxes = Boxes {
            rings: HashMap::new(),
            held: 0,
            packer: Compressor::new(LEVEL).ok()?,
        };
        Some(Arc::new(Self(Mutex::new(boxes))))
    }

    /// Takes the blocks of a run's next stream.
    pub fn tap(self: &Arc<Self>, run: RunKey) -> Box<dyn Keeper> {
        let boxes = Arc::clone(self);
        Box::new(Tap { boxes, run })
    }

    /// A recording of the run begins: all that is kept now. What comes is kept for it, too, until [`Self::unfollow`].
    /// `None`: nothing is kept of the run.
    pub fn follow(&self, run: RunKey) -> Option<Kept> {
        self.change(run, Ring::follow).flatten()
    }

    /// What came since the last call.
    pub fn next(&self, run: RunKey) -> Next {
        let next = self.change(run, Ring::next);
        next.flatten().unwrap_or(Next {
            pieces: Vec::new(),
            more: More::Over,
        })
    }

    /// The recording of the run is complete.
    pub fn unfollow(&self, run: RunKey) {
        let _no_ring = self.change(run, |ring, _| ring.unfollow());
    }

    /// Nobody will ask for the run again.
    pub fn forget(&self, run: RunKey) {
        let mut boxes = self.lock();
        if let Some(ring) = boxes.rings.remove(&run) {
            boxes.held -= ring.counted;
        }
    }

    /// Bytes of all rings.
    pub fn held(&self) -> usize {
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
        rings.entry(self.run).or_default().begin(header, packer);
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
