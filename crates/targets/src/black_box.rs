//! The black box: the last seconds of every stream, in memory, for the recording of an incident.
//!
//! ```text
//! decoder -> Tap: a block, unchanged -> the ring of its run: the newest blocks, unpacked
//!                                                            pieces, packed; the oldest are dropped
//! incident -> BlackBoxes::follow: all kept blocks -> next, next, ... : new blocks -> evidence::black_box
//! ```
//!
//! For each stream, the black box costs a copy of the blocks, and 40 µs to pack each [`PIECE`](ring::PIECE) (zstd).
//! This module does no I/O, and no caller holds the lock for longer than it takes to pack a piece. A disk that hangs
//! blocks only its writer.
//!
//! # Limits
//!
//! A ring has at most [`ONE`](ring::ONE) bytes and the events of about [`KEPT_SECONDS`](ring::KEPT_SECONDS). All rings
//! together have at most [`ALL`] bytes; beyond that, the largest ring drops its oldest piece. Bytes that a writer has
//! not read yet count, too, at most [`MAX_FOLLOWED`](ring::MAX_FOLLOWED) for each writer. A hostile stream therefore
//! harms only its own black box.

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

/// Maximum number of bytes of all rings.
const ALL: usize = 8_000_000;

/// Compression level of zstd: the fastest standard level, 400 MB/s.
const LEVEL: i32 = 1;

/// The rings of all runs.
#[derive(Debug)]
pub struct BlackBoxes(Mutex<Boxes>);

struct Boxes {
    rings: HashMap<RunKey, Ring>,
    /// Number of bytes of all rings.
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

/// The kept part of a stream when its recording starts.
#[derive(Debug)]
pub struct RetainedEvents {
    /// Header of the stream.
    pub header: Arc<TraceHeader>,
    /// The definitions, then the blocks.
    pub pieces: Vec<Piece>,
}

/// The blocks that have arrived since the last call.
#[derive(Debug)]
pub struct NextBlocks {
    /// The blocks, in order.
    pub pieces: Vec<Piece>,
    /// Whether more blocks can follow.
    pub more: StreamContinuation,
}

/// Whether more blocks of the stream can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamContinuation {
    /// More blocks can follow.
    Perhaps,
    /// The stream has ended.
    Over,
    /// More blocks exist, but are missing here because they arrived too fast.
    Cut,
}

impl BlackBoxes {
    /// Creates empty black boxes, or returns `None` if zstd cannot allocate memory.
    pub fn new() -> Option<Arc<Self>> {
        let boxes = Boxes {
            rings: HashMap::new(),
            held: 0,
            packer: Compressor::new(LEVEL).ok()?,
        };
        Some(Arc::new(Self(Mutex::new(boxes))))
    }

    /// Returns a keeper for the blocks of a run's next stream.
    pub fn tap(self: &Arc<Self>, run: RunKey) -> Box<dyn Keeper> {
        let boxes = Arc::clone(self);
        Box::new(Tap { boxes, run })
    }

    /// Starts a recording of the run and returns all kept blocks, or `None` if no stream of the run is kept. New blocks
    /// are kept for the recording, too, until [`Self::unfollow`].
    pub fn follow(&self, run: RunKey) -> Option<RetainedEvents> {
        self.change(run, Ring::follow).flatten()
    }

    /// Returns the blocks that have arrived since the last call. If the run is not being recorded, returns no blocks
    /// and [`StreamContinuation::Over`].
    pub fn next(&self, run: RunKey) -> NextBlocks {
        let next = self.change(run, Ring::next);
        next.flatten().unwrap_or(NextBlocks {
            pieces: Vec::new(),
            more: StreamContinuation::Over,
        })
    }

    /// Stops the recording of the run.
    pub fn unfollow(&self, run: RunKey) {
        let _no_ring = self.change(run, |ring, _| ring.unfollow());
    }

    /// Deletes the ring of a run that is no longer needed.
    pub fn forget(&self, run: RunKey) {
        let mut boxes = self.lock();
        if let Some(ring) = boxes.rings.remove(&run) {
            boxes.held -= ring.counted;
        }
    }

    /// Returns the number of bytes of all rings.
    pub fn held(&self) -> usize {
        self.lock().held
    }

    fn lock(&self) -> MutexGuard<'_, Boxes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the ring of a run and enforces the limit of all rings. Returns `None` if the run has no ring.
    fn change<T>(&self, run: RunKey, change: impl FnOnce(&mut Ring, &mut Compressor<'static>) -> T) -> Option<T> {
        let mut boxes = self.lock();
        let Boxes { rings, packer, .. } = &mut *boxes;
        let changed = change(rings.get_mut(&run)?, packer);
        boxes.settle(run);
        Some(changed)
    }
}

impl Boxes {
    /// Updates the total after the size of a ring has changed. While the total is too high, the largest ring drops
    /// data.
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

/// Keeper for the blocks of one stream.
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
