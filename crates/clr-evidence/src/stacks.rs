//! Stacks as addresses. Each stack is stored once while a stream is read, and the names of its frames are determined at
//! the end of the stream.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::budget::Budget;

/// Memory per frame of a stack, in bytes: its address here, and its references in reports, pictures and profiles.
const FRAME_BYTES: usize = 96;
/// Memory per stack excluding its frames, in bytes: its entries here, its row and call path in a report.
const STACK_BYTES: usize = 512;
/// Memory per new address, in bytes: its entries here, and its frame if the frame has no name.
const ADDRESS_BYTES: usize = 256;
/// Maximum number of innermost frames of a stack that are retained. The runtime records at most 100 frames.
pub const MAX_FRAMES: usize = 128;

/// Id of a retained stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

/// The stacks of a stream.
#[derive(Debug, Default)]
pub struct Stacks {
    ids: HashMap<Arc<[u64]>, StackId>,
    by_id: Vec<Arc<[u64]>>,
    /// Every address of every stack, and the byte before each address, because a return address can be the first
    /// address after its method.
    addresses: BTreeSet<u64>,
    no_place: u64,
}

impl Stacks {
    /// Stores a stack, innermost frame first, and returns its id. An equal stack has the same id. Frames beyond
    /// [`MAX_FRAMES`] are dropped. Returns `None` if the stack is empty, or if the memory limit is reached.
    pub fn intern(&mut self, frames: impl Iterator<Item = u64>, budget: &mut Budget) -> Option<StackId> {
        let frames: Vec<u64> = frames.take(MAX_FRAMES).collect();
        if frames.is_empty() {
            return None;
        }
        if let Some(id) = self.ids.get(frames.as_slice()) {
            return Some(*id);
        }
        let new = frames
            .iter()
            .filter(|address| !self.addresses.contains(*address))
            .count();
        if !budget.take(STACK_BYTES + FRAME_BYTES * frames.len() + ADDRESS_BYTES * new) {
            self.no_place += 1;
            return None;
        }
        let id = StackId(u32::try_from(self.by_id.len()).ok()?);
        for address in &frames {
            self.addresses.insert(address.saturating_sub(1));
            self.addresses.insert(*address);
        }
        let frames: Arc<[u64]> = frames.into();
        self.by_id.push(Arc::clone(&frames));
        self.ids.insert(frames, id);
        Some(id)
    }

    /// Returns the addresses of a stack, innermost first.
    pub fn frames(&self, id: StackId) -> &[u64] {
        self.by_id.get(id.0 as usize).map(AsRef::as_ref).unwrap_or_default()
    }

    /// Returns every address of every stack, and the byte before each address.
    pub fn addresses(&self) -> &BTreeSet<u64> {
        &self.addresses
    }

    /// Returns the addresses in all stacks, including repetitions.
    pub fn all(&self) -> impl Iterator<Item = u64> {
        self.by_id.iter().flat_map(|frames| frames.iter().copied())
    }

    /// Returns the number of times that a stack was dropped because of the memory limit.
    pub fn without_place(&self) -> u64 {
        self.no_place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::BURST_BYTES;

    /// Scenario: there are more stacks with unique frames than the memory limit allows.
    /// Guarantee: the limit is not exceeded; retained stacks are found again, and dropped stacks are counted.
    #[test]
    fn number_of_stacks_is_bounded() {
        let (mut stacks, mut budget) = (Stacks::default(), Budget::default());
        let first = stacks.intern([1, 2].into_iter(), &mut budget).unwrap();
        let mut kept = 1;
        for at in 1..1_000 {
            let frames = (0..100).map(|frame| at * 1000 + frame * 2);
            kept += u64::from(stacks.intern(frames, &mut budget).is_some());
        }
        assert!(budget.taken() <= BURST_BYTES && kept > 400, "{budget:?} {kept}");
        assert_eq!(stacks.without_place(), 1_000 - kept);
        assert_eq!(stacks.intern([1, 2].into_iter(), &mut budget), Some(first));
        assert_eq!(stacks.frames(first), [1, 2]);
        assert_eq!(stacks.intern(std::iter::empty(), &mut budget), None);
    }
}
