//! Splits a stream into lines of bounded length.

/// Size of the buffer that stays allocated between lines, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// A line without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// The whole line.
    Whole(&'a [u8]),
    /// A line that was too long and was skipped.
    Skipped,
}

/// Error returned if a line does not end within the maximum number of skipped bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Endless;

/// A splitter that divides a stream into lines. A line of more than `longest` bytes is skipped; a line of more than
/// `endless` bytes ends the stream. At most `longest` bytes and one piece are held.
#[derive(Debug)]
pub(crate) struct Lines {
    longest: usize,
    endless: usize,
    buffer: Vec<u8>,
    /// Position of the next line.
    start: usize,
    /// Position up to which no line ends.
    searched: usize,
    /// Number of dropped bytes of the current line.
    dropped: usize,
}

impl Lines {
    pub(crate) const fn new(longest: usize, endless: usize) -> Self {
        Self {
            longest,
            endless,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            dropped: 0,
        }
    }

    /// Appends the next piece of the stream. Call it when [`Self::next`] returns `None`.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        if self.buffer.is_empty() {
            self.buffer.shrink_to(BUFFER_BYTES);
        }
        self.buffer.extend_from_slice(piece);
    }

    /// Returns the next line, or `None` until more of the stream arrives.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, Endless> {
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(length) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            let held = self.buffer.len() - self.start;
            if self.dropped > 0 || held > self.longest {
                self.dropped = self.dropped.saturating_add(held);
                self.start = self.buffer.len();
            }
            return if self.dropped > self.endless {
                Err(Endless)
            } else {
                Ok(None)
            };
        };
        let (start, end) = (self.start, self.searched + length);
        self.start = end + 1;
        self.searched = self.start;
        let is_skipped = std::mem::take(&mut self.dropped) > 0 || end - start > self.longest;
        let line = self.buffer.get(start..end).unwrap_or_default();
        Ok(Some(if is_skipped { Line::Skipped } else { Line::Whole(line) }))
    }

    /// Returns whether a line has started and not ended.
    pub(crate) fn is_within_a_line(&self) -> bool {
        self.dropped > 0 || self.start < self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns all lines of these pieces (`None` for a skipped line), and whether the last line is unfinished.
    fn cut(pieces: &[&[u8]], longest: usize) -> (Vec<Option<Vec<u8>>>, bool) {
        let mut lines = Lines::new(longest, usize::MAX);
        let mut found = Vec::new();
        for piece in pieces {
            lines.push(piece);
            while let Some(line) = lines.next().unwrap() {
                found.push(match line {
                    Line::Whole(line) => Some(line.to_vec()),
                    Line::Skipped => None,
                });
            }
            assert!(lines.buffer.len() <= longest + piece.len(), "{}", lines.buffer.len());
        }
        (found, lines.is_within_a_line())
    }

    /// Scenario: one line has the maximum length, the next line is longer, and other lines follow.
    /// Guarantee: only the line that is too long is skipped.
    #[test]
    fn long_lines_are_skipped() {
        let whole = |line: &[u8]| Some(line.to_vec());
        let expected = vec![whole(b"1234"), None, whole(b""), whole(b"ab")];
        assert_eq!(cut(&[b"1234\n12345\n\nab\n"], 4), (expected.clone(), false));
        assert_eq!(cut(&[b"1234", b"\n123", b"45", b"\n\na", b"b\n"], 4), (expected, false));
        assert_eq!(cut(&[b"12345", b"6789", b"0"], 4), (Vec::new(), true));
    }

    /// Scenario: a line never ends.
    /// Guarantee: an error is returned when more than the permitted number of bytes was skipped.
    #[test]
    fn endless_line_is_error() {
        let mut lines = Lines::new(4, 10);
        for piece in ["12345", "67890"] {
            lines.push(piece.as_bytes());
            assert_eq!(lines.next(), Ok(None));
        }
        lines.push(b"1");
        assert_eq!(lines.next(), Err(Endless));
    }

    proptest! {
        /// Scenario: arbitrary streams arrive in arbitrary pieces.
        /// Guarantee: the lines are the same as for the undivided stream.
        #[test]
        fn pieces_do_not_matter(pieces in proptest::collection::vec("[a\n]{0,9}", 0..20), longest in 0_usize..6) {
            let stream = pieces.concat();
            let pieces: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
            let mut expected: Vec<&str> = stream.split('\n').collect();
            let rest = expected.pop().unwrap_or_default();
            let kept = |line: &&str| (line.len() <= longest).then(|| line.as_bytes().to_vec());
            let expected: Vec<_> = expected.iter().map(kept).collect();
            prop_assert_eq!(cut(&pieces, longest), (expected, !rest.is_empty()));
        }
    }
}
