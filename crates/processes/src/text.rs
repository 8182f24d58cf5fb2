//! Text of others: bounded, and safe to show.

use base::text::shown;

/// Longest value that is taken from a target, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 10;

/// The text with control characters and those that deceive replaced ([`shown`]), cut at [`MAX_VALUE_BYTES`], at a
/// character's end.
pub fn bounded(text: &str) -> String {
    let mut end = text.len().min(MAX_VALUE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text.get(..end).unwrap_or_default();
    shown(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: an escape sequence, and a long text whose cut falls inside a character.
    /// Guarantee: no control character is left, and no more than the bound is read.
    #[test]
    fn foreign_text_is_bounded_and_shown_as_text() {
        assert_eq!(bounded("a\x1b[31mb\nc"), "a\u{fffd}[31mb\u{fffd}c");
        let long = "é".repeat(MAX_VALUE_BYTES);
        assert_eq!(bounded(&format!("x{long}")).chars().count(), MAX_VALUE_BYTES / 2);
    }
}
