//! Text from other programs: bounded, and safe to display.

use base::text::shown;

/// Maximum length of a value from a target, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 10;

/// Returns the text with control characters and deceptive characters replaced ([`shown`]), truncated to at most
/// [`MAX_VALUE_BYTES`] at the end of a character.
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

    /// Scenario: one text has an escape sequence; a long text would be truncated inside a character.
    /// Guarantee: no control character is left, and the bound holds.
    #[test]
    fn foreign_text_is_bounded_and_escaped() {
        assert_eq!(bounded("a\x1b[31mb\nc"), "a\u{fffd}[31mb\u{fffd}c");
        let long = "é".repeat(MAX_VALUE_BYTES);
        assert_eq!(bounded(&format!("x{long}")).chars().count(), MAX_VALUE_BYTES / 2);
    }
}
