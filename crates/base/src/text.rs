//! Text from other processes, made safe for display.
//!
//! `dotnet_diagnostics::text` has the same rule, because that crate is published and has no dependency on this crate.
//! `tests/suite/house.rs` checks that both crates agree on every character.

/// Returns whether a character is safe in a line of output. Unsafe characters are control characters (including
/// newlines and terminal escape sequences), characters that change the order of other characters, and invisible
/// characters (Unicode's bidirectional controls, line and paragraph separators, the byte order mark, tags).
pub const fn is_plain(c: char) -> bool {
    !matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Replaces every unsafe character of a string (see [`is_plain`]).
pub fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if is_plain(c) { c } else { char::REPLACEMENT_CHARACTER })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: strings contain an escape sequence, a newline, a right-to-left override, a line separator, and words
    /// in several scripts.
    /// Guarantee: deceptive characters are replaced, and text is kept, including joiners of Persian and emoji.
    #[test]
    fn deceptive_character_is_replaced() {
        assert_eq!(
            shown("a\x1b[2J\nb\u{202e}gpj\u{2028}c\u{9b}d"),
            "a\u{fffd}[2J\u{fffd}b\u{fffd}gpj\u{fffd}c\u{fffd}d"
        );
        for text in ["Größe", "می\u{200c}خواهم", "👩\u{200d}💻", "日本", "שלום"] {
            assert_eq!(shown(text), text);
        }
    }
}
