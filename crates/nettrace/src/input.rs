//! The bytes that were received but not decoded.

/// A buffer that is filled at the end and consumed from the front. The memory is reused, and at most a partial block is
/// moved.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of the byte at `start`.
    offset: u64,
}

impl Input {
    /// Returns space for at least `min` bytes after the buffered bytes.
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

    /// Declares that `count` bytes of the last [`Input::space`] were filled. Returns the number of bytes accepted.
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

    /// Shrinks the buffer to its content if the buffer is larger than twice its content. The content is therefore moved
    /// only after the same number of bytes was consumed or added, regardless of the size of the chunks.
    pub(crate) fn shrink(&mut self) {
        if self.bytes.len() / 2 > self.end - self.start {
            self.bytes = self.bytes().to_vec();
            self.end = self.bytes.len();
            self.start = 0;
        }
    }

    /// Returns the size of the buffer, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the buffered bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns the offset in the stream of the first buffered byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Removes the first `count` bytes.
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

    /// Scenario: bytes arrive in chunks and are consumed in different chunks.
    /// Guarantee: the bytes keep their order, the offset counts them, and memory does not grow with the stream. A
    /// shrunk buffer has at most twice the size of its content.
    #[test]
    fn buffer_keeps_byte_order() {
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

    /// Scenario: a caller claims to have filled more bytes than the space has.
    /// Guarantee: the number of accepted bytes is limited to the space.
    #[test]
    fn filled_count_is_limited_to_space() {
        let mut input = Input::default();
        let space = input.space(10).len();
        assert_eq!(input.filled(space + 5), space);
    }
}
