//! Memory use of a machine.

use crate::gc::forming::FormingCollection;
use crate::gc::machine::{ClosedStop, FinishedItem, Machine, OtherStops};
use crate::gc::stop::{Stop, StopId};

/// Size of a map entry in bytes: a B-tree node has space for eleven entries and is at least half full.
const MAP_ENTRY: usize = 2 * size_of::<(StopId, Box<ClosedStop>)>();

impl Machine {
    /// Returns the number of heap bytes in use. The method visits the items in progress or waiting, which are normally
    /// few and never more than [`MAX_SETTLED`](crate::gc::MAX_SETTLED) collections of a live stream.
    pub fn memory_bytes(&self) -> usize {
        let settled = self.settled.iter().map(|(_, settled)| match settled {
            FinishedItem::Collection(forming) => size_of::<FormingCollection>() + forming.memory_bytes(),
            FinishedItem::Suspension(stop) => size_of::<Stop>() + stop.memory_bytes(),
        });
        let forming = self
            .forming
            .iter()
            .map(|forming| size_of::<FormingCollection>() + forming.memory_bytes());
        let closed = self
            .closed
            .values()
            .map(|closed| MAP_ENTRY + size_of::<ClosedStop>() + closed.stop.memory_bytes());
        let stops = self.open.iter().chain(&self.orphan_finals).map(Stop::memory_bytes);
        let unnumbered = self.unnumbered.iter();
        let unnumbered = unnumbered.map(|(_, forming)| size_of::<FormingCollection>() + forming.memory_bytes());
        let tables = self.settled.capacity() * size_of::<(i64, FinishedItem)>()
            + self.forming.capacity() * size_of::<Box<FormingCollection>>()
            + (self.open.capacity() + self.orphan_finals.capacity()) * size_of::<Stop>()
            + self.others.capacity() * size_of::<OtherStops>()
            + self.trails.memory_bytes()
            + self.finalizer_thread.memory_bytes()
            + self.marks.memory_bytes()
            + self.losses.memory_bytes();
        let parts = settled.chain(forming).chain(closed).chain(stops).chain(unnumbered);
        tables + parts.sum::<usize>()
    }
}
