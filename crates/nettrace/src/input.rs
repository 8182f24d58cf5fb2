//! The bytes that were received and not yet decoded.

/// A buffer that is written at its end and read at its front, and used again without moving more than a partial block.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of the byte at `start`.
    offset: u64,
}

impl Input {
    /// A place for at least `min` bytes after those that are there.
    pub(crate) fn space(&mut self, min: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < min {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            let needed = self.end.saturating_add(min);
            if self.bytes.len() < needed {
                self.bytes.resize(needed.max(self.bytes.len().saturating_mul(2)), 0);
            }
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// `count` bytes of the last [`Input::space`] were filled. Gives how many of them there are.
    pub(crate) fn filled(&mut self, count: usize) -> usize {
        let count = count.min(self.bytes.len() - self.end);
        self.end += count;
        count
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let space = self.space(bytes.len());
        if let Some(place) = space.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.end += bytes.len();
    }

    /// Gives back memory beyond twice what is there: so what is there is moved only when as much was consumed or added,
    /// in however small pieces it comes.
    pub(crate) fn shrink(&mut self) {
        if self.bytes.len() / 2 > self.end - self.start {
            self.bytes = self.bytes().to_vec();
            self.end = self.bytes.len();
            self.start = 0;
        }
    }

    /// Bytes of the buffer.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// What is there.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Where that begins in the stream.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The first `count` bytes are done with.
    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: bytes come in pieces and are consumed in others.
    /// Guarantee: they come out in order, the offset counts them, and memory does not grow with the stream; what is
    /// kept is at most twice what is there.
    #[test]
    fn bytes_come_out_in_order() {
        let mut input = Input::default();
        let (mut next_in, mut next_out) = (0_u8, 0_u8);
        for round in 0..1000_usize {
            let piece: Vec<u8> = (0..round % 17)
                .map(|_| {
                    next_in = next_in.wrapping_add(1);
                    next_in
                })
                .collect();
            if round % 2 == 0 {
                input.push(&piece);
            } else {
                let space = input.space(piece.len());
                assert!(space.len() >= piece.len());
                space[..piece.len()].copy_from_slice(&piece);
                assert_eq!(input.filled(piece.len()), piece.len());
            }
            let offset = input.offset();
            let take = input.bytes().len().saturating_sub(round % 5);
            for byte in &input.bytes()[..take] {
                next_out = next_out.wrapping_add(1);
                assert_eq!(*byte, next_out);
            }
            input.consume(take);
            assert_eq!(input.offset(), offset + take as u64);
            if round % 3 == 0 {
                input.shrink();
                assert!(input.bytes.len() / 2 <= input.bytes().len());
            }
        }
        assert!(input.bytes.len() < 200, "{}", input.bytes.len());
    }

    /// Scenario: an owner says that it filled more than it got.
    /// Guarantee: no more than there was.
    #[test]
    fn more_than_the_space_is_not_filled() {
        let mut input = Input::default();
        let space = input.space(10).len();
        assert_eq!(input.filled(space + 5), space);
    }
}
