//! Stacks as addresses, kept once each while a stream runs. Names come at its end.

use std::collections::{BTreeSet, HashMap};

/// Distinct stacks that are kept. What comes with others is counted without its stack.
pub const MAX_STACKS: usize = 16_384;
/// Innermost frames of a stack that are kept; the runtime walks 100.
pub const MAX_FRAMES: usize = 128;

/// A stack that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

/// The stacks of a stream.
#[derive(Debug, Default)]
pub struct Stacks {
    ids: HashMap<Vec<u64>, StackId>,
    by_id: Vec<Vec<u64>>,
    /// Every address of every stack, and the byte before it: a return address may lie just behind its method.
    addresses: BTreeSet<u64>,
    no_place: u64,
}

impl Stacks {
    /// Keeps a stack, innermost frame first. `None`: it is empty, or there is no place.
    pub fn intern(&mut self, frames: impl Iterator<Item = u64>) -> Option<StackId> {
        let frames: Vec<u64> = frames.take(MAX_FRAMES).collect();
        if frames.is_empty() {
            return None;
        }
        if let Some(id) = self.ids.get(&frames) {
            return Some(*id);
        }
        if self.by_id.len() >= MAX_STACKS {
            self.no_place += 1;
            return None;
        }
        let id = StackId(u32::try_from(self.by_id.len()).ok()?);
        for address in &frames {
            self.addresses.insert(address.saturating_sub(1));
            self.addresses.insert(*address);
        }
        self.by_id.push(frames.clone());
        self.ids.insert(frames, id);
        Some(id)
    }

    /// The addresses of a stack, innermost first.
    pub fn frames(&self, id: StackId) -> &[u64] {
        self.by_id.get(id.0 as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// All addresses.
    pub fn addresses(&self) -> &BTreeSet<u64> {
        &self.addresses
    }

    /// The frames of all stacks, as often as they are in them.
    pub fn all(&self) -> impl Iterator<Item = u64> {
        self.by_id.iter().flatten().copied()
    }

    /// How often there was no place.
    pub fn without_place(&self) -> u64 {
        self.no_place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: more distinct stacks than there is room for.
    /// Guarantee: those that were kept are found again, the others are counted.
    #[test]
    fn stacks_are_bounded() {
        let mut stacks = Stacks::default();
        let first = stacks.intern([1, 2].into_iter()).unwrap();
        for at in 0..MAX_STACKS as u64 {
            stacks.intern([at + 10].into_iter());
        }
        assert_eq!(stacks.without_place(), 1);
        assert_eq!(stacks.intern([1, 2].into_iter()), Some(first));
        assert_eq!(stacks.frames(first), [1, 2]);
        assert_eq!(stacks.intern(std::iter::empty()), None);
    }
}
