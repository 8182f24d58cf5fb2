//! Strings in payloads: UTF-16 code units, borrowed.

use std::fmt::{self, Write as _};

/// A string as written by the runtime: UTF-16, little-endian, without its terminator.
///
/// The string is untrusted input. [`Display`](fmt::Display) escapes control characters and characters that change the
/// text direction, because a terminal would interpret them. The implementation shows unpaired surrogates as U+FFFD.
/// [`Utf16::chars`] returns the characters unchanged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Utf16<'a>(&'a [u8]);

impl<'a> Utf16<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the code units.
    #[inline]
    pub fn units(self) -> impl Iterator<Item = u16> + Clone + 'a {
        // A chunk of two bytes always converts, so the default 0 is never used.
        self.0
            .chunks_exact(2)
            .map(|unit| unit.try_into().map_or(0, u16::from_le_bytes))
    }

    /// Returns the characters, with U+FFFD for an unpaired surrogate.
    pub fn chars(self) -> impl Iterator<Item = char> + Clone + 'a {
        char::decode_utf16(self.units()).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Returns an owned string without escapes, for formats that have their own escaping.
    pub fn to_text(self) -> String {
        self.chars().collect()
    }

    /// Returns whether the string is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the string equals `text`, case-sensitive.
    #[inline]
    pub fn eq_str(self, text: &str) -> bool {
        self.units().eq(text.encode_utf16())
    }
}

/// Returns whether a character makes a terminal display the following characters in another order.
fn reorders(character: char) -> bool {
    matches!(character, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

impl fmt::Display for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.chars() {
            if character.is_control() || reorders(character) {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

impl PartialEq<str> for Utf16<'_> {
    fn eq(&self, other: &str) -> bool {
        self.eq_str(other)
    }
}
