//! The low-water mark of the memory that the collector has and does not use.
//!
//! Free space between objects and committed, unused memory are the collector's working room. Allocation and promotion
//! consume this room, and a full collection restores it. Only the part that no cycle between two full collections used
//! is beyond working room.
//!
//! The room is at its minimum directly before a collection: the committed memory, without the objects that the previous
//! collection left and without the bytes allocated since. The mark is the minimum of the current cycle and of the
//! cycles that ended in the hour before the last full collection.

use std::collections::VecDeque;

use base::time::Moment;
use clr_gc::gc::Collection;
use processes::container::ledger::HeapFigures;

/// Length of a slot, in nanoseconds. Cycles that end in the same slot share an entry.
const SLOT_NS: u64 = 300_000_000_000;

/// Number of slots in the window.
const SLOTS: u32 = 12;

/// The lowest working room of the cycles that ended in one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cycle {
    slot: u32,
    /// Size in KiB; `u32::MAX` if the room of a collection in a cycle is unknown. The field is smaller than a `u64`,
    /// because the history of a run has little memory.
    kib: u32,
}

impl Cycle {
    fn new(slot: u32, low: Option<u64>) -> Self {
        let kib = low.map(|bytes| u32::try_from(bytes >> 10).unwrap_or(u32::MAX));
        Self {
            slot,
            kib: kib.unwrap_or(u32::MAX),
        }
    }

    /// Returns the size in bytes; `None` if the room of a collection in a cycle is unknown.
    fn low(self) -> Option<u64> {
        (self.kib != u32::MAX).then(|| u64::from(self.kib) << 10)
    }
}

/// The working room over the cycles between full collections.
#[derive(Debug, Clone, Default)]
pub struct RoomHistory {
    /// Complete cycles, oldest first.
    cycles: VecDeque<Cycle>,
    /// The lowest room since the last full collection; `None` before the first full collection.
    open: Option<Low>,
    /// Room and objects after the last collection; `None` if unknown.
    after: Option<After>,
}

/// A minimum over several collections.
#[derive(Debug, Clone, Copy)]
enum Low {
    /// No collection has occurred since the full collection.
    NotMeasured,
    Bytes(u64),
    /// The room of a collection is unknown.
    Unknown,
}

/// The heap after a collection, in bytes.
#[derive(Debug, Clone, Copy)]
struct After {
    room: u64,
    objects: u64,
}

/// The figures of a collection that determine the room, in bytes; `None` if unknown.
#[derive(Debug, Clone, Copy)]
struct Reading {
    is_full: bool,
    /// Bytes committed for objects, in use or kept, when the collection started.
    committed_before: Option<u64>,
    /// Bytes allocated since the previous collection.
    allocated: Option<u64>,
    after: Option<After>,
}

impl Reading {
    fn from_collection(collection: &Collection) -> Self {
        let heap = HeapFigures::from_collection(collection);
        Self {
            is_full: collection.generation == Some(2),
            committed_before: collection.committed.total_before(),
            allocated: collection.allocated.ok().map(|allocated| allocated.bytes),
            after: heap
                .room()
                .zip(heap.objects())
                .map(|(room, objects)| After { room, objects }),
        }
    }
}

impl RoomHistory {
    /// Maximum memory of the entries, in bytes. The capacity of a queue doubles when it is full.
    #[cfg(test)]
    const MAX_BYTES: usize = (SLOTS as usize + 2).next_power_of_two() * size_of::<Cycle>();

    /// Applies a collection. Collections are applied in the order in which their histories become complete.
    pub(crate) fn observe(&mut self, collection: &Collection, at: Moment) {
        self.apply(Reading::from_collection(collection), at);
    }

    fn apply(&mut self, reading: Reading, at: Moment) {
        let before = self.before(reading);
        if let Some(open) = &mut self.open {
            *open = match (*open, before) {
                (Low::Unknown, _) | (_, None) => Low::Unknown,
                (Low::NotMeasured, Some(bytes)) => Low::Bytes(bytes),
                (Low::Bytes(low), Some(bytes)) => Low::Bytes(low.min(bytes)),
            };
        }
        self.after = reading.after;
        if reading.is_full {
            self.close(at);
            self.open = Some(Low::NotMeasured);
        }
    }

    /// Returns the room directly before a collection. The next allocation can commit new memory instead of using free
    /// space of an old generation, so the committed memory at that time counts if it is known. Returns `None` if the
    /// previous collection or the allocated bytes are unknown.
    fn before(&self, reading: Reading) -> Option<u64> {
        let after = self.after?;
        let room = match reading.committed_before {
            Some(committed) => committed.saturating_sub(after.objects),
            None => after.room,
        };
        Some(room.saturating_sub(reading.allocated?))
    }

    /// Closes the current cycle after a full collection.
    fn close(&mut self, at: Moment) {
        let low = match self.open {
            None => return,
            Some(Low::Bytes(bytes)) => Some(bytes),
            Some(Low::NotMeasured | Low::Unknown) => None,
        };
        let slot = u32::try_from(at.ns() / SLOT_NS).unwrap_or(u32::MAX);
        match self.cycles.back_mut() {
            Some(newest) if newest.slot >= slot => {
                let low = newest.low().zip(low).map(|(one, other)| one.min(other));
                *newest = Cycle::new(newest.slot, low);
            }
            _ => self.cycles.push_back(Cycle::new(slot, low)),
        }
        while self
            .cycles
            .front()
            .is_some_and(|cycle| cycle.slot.saturating_add(SLOTS) < slot)
        {
            self.cycles.pop_front();
        }
    }

    /// Returns the bytes that no cycle of the window used; `None` if there were fewer than two full collections, or if
    /// the room of a collection in the window is unknown.
    pub fn unused_by_cycles(&self) -> Option<u64> {
        let newest = self.cycles.back()?;
        let lower = |low: Option<u64>, cycle: &Cycle| low.zip(cycle.low()).map(|(one, other)| one.min(other));
        let whole = self.cycles.iter().fold(newest.low(), lower)?;
        match self.open {
            Some(Low::Bytes(bytes)) => Some(whole.min(bytes)),
            Some(Low::Unknown) => None,
            Some(Low::NotMeasured) | None => Some(whole),
        }
    }

    /// Returns the size of the entries, in bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.cycles.capacity() * size_of::<Cycle>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MINUTE: u64 = 60;

    fn at(second: u64) -> Moment {
        Moment::from_ns((1_000_000 + second) * 1_000_000_000)
    }

    /// Returns a collection: MiB committed before and after it, MiB of objects after it, and MiB allocated before it.
    fn collection(is_full: bool, committed: [u64; 2], objects: u64, allocated: Option<u64>) -> Reading {
        Reading {
            is_full,
            committed_before: Some(committed[0] * MIB),
            allocated: allocated.map(|mib| mib * MIB),
            after: Some(After {
                room: (committed[1] - objects) * MIB,
                objects: objects * MIB,
            }),
        }
    }

    /// Scenario: a cache of 100 MiB has 400 MiB of free space. Collections of young generations promote 50 MiB each
    /// into the free space, until a full collection frees it again.
    /// Guarantee: the mark is unknown before the second full collection; then it is the room before that collection,
    /// and a current cycle that needs more room lowers the mark at once.
    #[test]
    fn mark_is_room_that_no_cycle_used() {
        let mut room = RoomHistory::default();
        let committed = [520, 520];
        room.apply(collection(true, committed, 100, None), at(0));
        for step in 1..=5 {
            room.apply(collection(false, committed, 100 + 50 * step, Some(20)), at(step));
            assert_eq!(room.unused_by_cycles(), None);
        }
        room.apply(collection(true, committed, 100, Some(20)), at(6));
        // There are 520 MiB committed, 350 MiB of objects and 20 MiB allocated.
        assert_eq!(room.unused_by_cycles(), Some(150 * MIB));
        room.apply(collection(false, committed, 480, Some(20)), at(7));
        assert_eq!(room.unused_by_cycles(), Some(150 * MIB));
        room.apply(collection(false, committed, 480, Some(20)), at(8));
        assert_eq!(room.unused_by_cycles(), Some(20 * MIB));
    }

    /// Scenario: the program allocates more than the unused memory, so the runtime commits more, and the free space of
    /// generation 2 stays.
    /// Guarantee: the unused free space remains in the mark.
    #[test]
    fn new_commitment_leaves_free_space() {
        let mut room = RoomHistory::default();
        for second in 0..3 {
            let allocated = (second > 0).then_some(64);
            room.apply(collection(true, [264, 210], 100, allocated), at(second));
        }
        assert_eq!(room.unused_by_cycles(), Some(100 * MIB));
    }

    /// Scenario: there is a full collection every ten minutes, and one of the cycles needs more memory; then there is a
    /// full collection every second.
    /// Guarantee: a cycle counts for an hour, and the number of entries is bounded.
    #[test]
    fn cycle_counts_for_an_hour() {
        let mut room = RoomHistory::default();
        let full = |allocated: u64| collection(true, [300, 300], 100, Some(allocated));
        for minute in (0..=100).step_by(10) {
            room.apply(full(if minute == 30 { 180 } else { 50 }), at(minute * MINUTE));
            let expected = match minute {
                0 => None,
                30..=90 => Some(20 * MIB),
                _ => Some(150 * MIB),
            };
            assert_eq!(room.unused_by_cycles(), expected, "{minute}");
        }
        for second in 0..20_000 {
            room.apply(full(50), at(6000 + second));
        }
        assert!(room.memory_bytes() <= RoomHistory::MAX_BYTES, "{}", room.memory_bytes());
    }

    /// Scenario: the bytes allocated before a collection in the cycle are unknown.
    /// Guarantee: the mark is unknown until the cycle has left the window.
    #[test]
    fn mark_is_unknown_after_loss() {
        let mut room = RoomHistory::default();
        let full = |allocated| collection(true, [300, 300], 100, allocated);
        room.apply(full(None), at(0));
        room.apply(full(Some(50)), at(10 * MINUTE));
        assert!(room.unused_by_cycles().is_some());
        room.apply(collection(false, [300, 300], 100, None), at(11 * MINUTE));
        assert_eq!(room.unused_by_cycles(), None);
        room.apply(full(Some(50)), at(20 * MINUTE));
        assert_eq!(room.unused_by_cycles(), None);
        room.apply(full(Some(50)), at(30 * MINUTE));
        room.apply(full(Some(50)), at(95 * MINUTE));
        assert_eq!(room.unused_by_cycles(), Some(150 * MIB));
    }
}
