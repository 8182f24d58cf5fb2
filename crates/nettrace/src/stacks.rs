//! Stacks between two sequence points. Events refer to a stack by its id.

use crate::cursor::Cursor;
use crate::error::Error;
use crate::ranges::Ranges;

const READING: &str = "a stack";

/// Position of a stack in the arena.
#[derive(Debug, Clone, Copy)]
struct StackBytes {
    at: usize,
    length: usize,
}

/// The stacks since the last sequence point.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    arena: Vec<u8>,
    places: Vec<StackBytes>,
    ranges: Ranges,
    dropped: u64,
    max_bytes: usize,
}

impl Stacks {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            ..Self::default()
        }
    }

    /// Returns the heap size, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.arena.capacity() + self.places.capacity() * size_of::<StackBytes>() + self.ranges.memory_bytes()
    }

    /// Returns the addresses of a stack, or `None` if the stream does not contain the stack or the stack was dropped.
    pub(crate) fn get(&self, id: u32) -> Option<&[u8]> {
        let place = self.places.get(self.ranges.place(id, self.places.len())?)?;
        self.arena.get(place.at..)?.get(..place.length)
    }

    /// Decodes a stack block.
    pub(crate) fn define(&mut self, content: &[u8], base: u64) -> Result<(), Error> {
        let mut cursor = Cursor::new(content, base);
        let first = cursor.u32(READING)?;
        let count = cursor.u32(READING)?;
        if count == 0 {
            return Ok(());
        }
        if self.held() > self.max_bytes {
            self.dropped += u64::from(count);
            return Ok(());
        }
        if self.ranges.begin(first, self.places.len()) {
            self.places.clear();
            self.arena.clear();
        }
        for read in 0..count {
            let length = cursor.u32(READING)? as usize;
            let bytes = cursor.take(length, READING)?;
            if self.held() + length + size_of::<StackBytes>() > self.max_bytes {
                self.dropped += u64::from(count - read);
                return Ok(());
            }
            self.places.push(StackBytes {
                at: self.arena.len(),
                length,
            });
            self.arena.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Removes all stacks, because their ids will be reused.
    pub(crate) fn forget(&mut self) {
        self.arena.clear();
        self.places.clear();
        self.ranges.clear();
    }

    fn held(&self) -> usize {
        self.arena.len() + (self.places.len() + self.ranges.len()) * size_of::<StackBytes>()
    }

    /// Returns the number of stacks that were dropped because the limit was reached.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_STACK_BYTES;

    fn block(first: u32, stacks: &[&[u8]]) -> Vec<u8> {
        let mut out = first.to_le_bytes().to_vec();
        out.extend((stacks.len() as u32).to_le_bytes());
        for stack in stacks {
            out.extend((stack.len() as u32).to_le_bytes());
            out.extend(*stack);
        }
        out
    }

    /// Scenario: blocks are consecutive, one stack is empty, and ids restart at 1 after a sequence point.
    /// Guarantee: each id resolves to its stack, including the empty stack; forgotten ids resolve to no stack.
    #[test]
    fn stack_is_found_by_id() {
        let mut stacks = Stacks::new(MAX_STACK_BYTES);
        stacks.define(&block(1, &[b"", b"one"]), 0).unwrap();
        stacks.define(&block(3, &[b"two"]), 0).unwrap();
        stacks.define(&block(50, &[b"far"]), 0).unwrap();
        assert_eq!(
            [1, 2, 3, 50].map(|id| stacks.get(id).unwrap()),
            [&b""[..], b"one", b"two", b"far"]
        );
        assert_eq!([0, 4, 49, 51].map(|id| stacks.get(id)), [None; 4]);
        stacks.forget();
        assert_eq!(stacks.get(1), None);
        stacks.define(&block(1, &[b"new"]), 0).unwrap();
        assert_eq!(stacks.get(1), Some(&b"new"[..]));
    }

    /// Scenario: a block contains more stacks than the limit allows, and another block claims more stacks than it
    /// contains.
    /// Guarantee: dropped stacks are counted; the claim is an error with its offset.
    #[test]
    fn dropped_stacks_are_counted() {
        let mut stacks = Stacks::new(MAX_STACK_BYTES);
        let big = vec![0; MAX_STACK_BYTES / 4];
        stacks.define(&block(1, &[&big, &big, &big, &big, b"x"]), 0).unwrap();
        assert_eq!(stacks.dropped(), 2);
        assert!(stacks.get(3).is_some() && stacks.get(4).is_none() && stacks.get(5).is_none());
        let error = Stacks::new(MAX_STACK_BYTES)
            .define(&[1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0], 10)
            .unwrap_err();
        assert_eq!(error.offset(), Some(22));
    }
}
