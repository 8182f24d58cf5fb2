//! Converts positions in a value to positions in the file, and finds the text after a value in its line.

use strict_yaml::yaml::Position;

/// A file as lines.
pub(super) struct Lines<'a>(Vec<&'a str>);

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        // The parser ignores a byte order mark, too.
        Self(text.strip_prefix('\u{feff}').unwrap_or(text).lines().collect())
    }

    /// Returns the position in the file of the character at `line` and `column` (starting at 1) of `text`, the value
    /// that starts at `at`.
    ///
    /// In all styles of scalars, the characters are in the file in the same order, apart from white space and escaped
    /// quotes, so the characters are counted. If the characters do not match, the position of the value is returned.
    pub(super) fn inside(&self, at: Position, text: &str, line: usize, column: usize) -> Position {
        let before = before(text, line, column);
        let skip = before.chars().filter(|c| !c.is_whitespace()).count();
        let rest = text.get(before.len()..).unwrap_or_default();
        let wanted = text.chars().filter(|c| !c.is_whitespace());
        // At the end of the text, the position is after the last character.
        let at_end = rest.trim().is_empty();
        let found = |quoted: bool| self.find(at, quoted, wanted.clone(), skip, at_end);
        found(false).or_else(|| found(true)).unwrap_or(at)
    }

    /// Matches `wanted` starting at `at`, and returns the position of its character `skip`, or the position after its
    /// last character. Returns `None` if the characters do not match.
    fn find(
        &self,
        at: Position,
        quoted: bool,
        wanted: impl Iterator<Item = char>,
        skip: usize,
        at_end: bool,
    ) -> Option<Position> {
        let mut source = self.characters(at).filter(|(_, c)| !c.is_whitespace()).peekable();
        let quote = if quoted {
            source.next().map(|(_, c)| c).filter(|c| matches!(c, '\'' | '"'))
        } else {
            None
        };
        let mut last = None;
        for (index, wanted) in wanted.enumerate() {
            let (mut place, mut c) = source.next()?;
            let escaped = match quote {
                Some('\'') => c == '\'',
                Some(_) => c == '\\',
                None => false,
            };
            if escaped {
                let begin = place;
                (_, c) = source.next()?;
                place = begin;
            }
            if c != wanted {
                return None;
            }
            if index == skip && !at_end {
                return Some(place);
            }
            last = Some(place);
        }
        let last = last?;
        at_end.then_some(Position {
            column: last.column + 1,
            ..last
        })
    }

    /// Returns the characters of the file starting at a position.
    fn characters(&self, from: Position) -> impl Iterator<Item = (Position, char)> {
        let lines = self.0.iter().enumerate().skip(from.line.saturating_sub(1));
        lines.flat_map(move |(index, text)| {
            let line = index + 1;
            let skip = if line == from.line {
                from.column.saturating_sub(1)
            } else {
                0
            };
            let characters = text.chars().enumerate().skip(skip);
            characters.map(move |(index, c)| {
                let column = index + 1;
                (Position { line, column }, c)
            })
        })
    }

    /// Returns the rest of the line after the plain value `text` that starts at `at`, or `None` if the value has
    /// several lines.
    pub(super) fn after(&self, at: Position, text: &str) -> Option<&'a str> {
        let line: &'a str = self.0.get(at.line.checked_sub(1)?)?;
        let (begin, _) = line.char_indices().nth(at.column.checked_sub(1)?)?;
        line.get(begin..)?.strip_prefix(text)
    }
}

/// Returns the text before a position.
fn before(text: &str, line: usize, column: usize) -> &str {
    let mut begin = 0;
    for _ in 1..line {
        match text.get(begin..).and_then(|rest| rest.find('\n')) {
            Some(end) => begin += end + 1,
            None => return text,
        }
    }
    let rest = text.get(begin..).unwrap_or_default();
    let end = rest.find('\n').unwrap_or(rest.len());
    let own = rest.get(..end).unwrap_or_default();
    let length = own
        .char_indices()
        .nth(column.saturating_sub(1))
        .map_or(own.len(), |(at, _)| at);
    text.get(..begin + length).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strict_yaml::yaml::{Bounds, Kind, Node, parse};

    /// Returns the first value of a text.
    fn value(text: &str) -> (Node, String) {
        let Kind::Mapping(entries) = parse(text, Bounds::default()).unwrap().unwrap().kind else {
            panic!("a mapping");
        };
        let node = entries.into_iter().next().unwrap().value;
        let Kind::Scalar(scalar) = &node.kind else {
            panic!("a scalar");
        };
        let text = scalar.text.clone();
        (node, text)
    }

    /// Scenario: one expression is written in all styles of YAML, with umlauts, blank lines, escaped quotes and unusual
    /// indentation.
    /// Guarantee: positions in the value are converted to positions in the file.
    #[test]
    fn position_in_value_becomes_position_in_file() {
        for file in [
            "k: ä == 'x' && WORD\n",
            "k: \"ä == 'x' && WORD\"  # note\n",
            "k: 'ä == ''x'' && WORD'\n",
            "k: \"\\\"ä\\\" == 'x' &&\n   WORD\"\n",
            "k: |\n  ä == 'x' &&\n  WORD || b\n",
            "k: |  # note\n\n\n      ä == 'x' &&\n\n        WORD\n",
            "k: |2\n      ä == 'x' &&\n  WORD\n",
            "k: >-\n  ä == 'x'\n  && WORD\n",
            "k: |\n  'ä' == 'x' &&\n  WORD\n",
            "\u{feff}k: WORD\n",
            "k: ä &&\r\n  WORD\r\n",
        ] {
            let (node, text) = value(file);
            let at = text.find("WORD").unwrap();
            let line = text[..at].matches('\n').count() + 1;
            let column = text[..at].rsplit('\n').next().unwrap().chars().count() + 1;
            let plain = file.trim_start_matches('\u{feff}');
            let at = plain.find("WORD").unwrap();
            let expected = Position {
                line: plain[..at].matches('\n').count() + 1,
                column: plain[..at].rsplit('\n').next().unwrap().chars().count() + 1,
            };
            assert_eq!(
                Lines::new(file).inside(node.at, &text, line, column),
                expected,
                "{file:?}"
            );
        }
    }

    /// Scenario: positions are beyond the text, in an empty text, or in a text with escapes.
    /// Guarantee: the result is the position after the text, or the position of the value.
    #[test]
    fn invalid_position_becomes_nearby_position() {
        let at = |file: &str, line, column| {
            let (node, text) = value(file);
            Lines::new(file).inside(node.at, &text, line, column).to_string()
        };
        assert_eq!(at("k: |\n  a &&\n  b &&\n", 2, 99), "3:7");
        assert_eq!(at("k: a &&\n", 9, 9), "1:8");
        assert_eq!(at("k: \"\"\n", 1, 1), "1:4");
        assert_eq!(at("k: \"\\u0061 b\"\n", 1, 3), "1:4");
    }
}
