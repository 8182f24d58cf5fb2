//! Strings in payloads: UTF-16 code units, borrowed.

use std::fmt::{self, Write as _};

/// A string as the runtime wrote it: UTF-16, little-endian, without its terminator.
///
/// It is foreign input: [`Display`](fmt::Display) escapes control characters and those that change the direction of
/// text (a terminal must not obey them) and shows unpaired surrogates as U+FFFD; [`Utf16::chars`] gives the characters
/// as they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Utf16<'a>(&'a [u8]);

impl<'a> Utf16<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The code units.
    #[inline]
    pub fn units(self) -> impl Iterator<Item = u16> + Clone + 'a {
        // A chunk of two bytes always converts; 0 is never seen.
        self.0
            .chunks_exact(2)
            .map(|unit| unit.try_into().map_or(0, u16::from_le_bytes))
    }

    /// The characters; U+FFFD for an unpaired surrogate.
    pub fn chars(self) -> impl Iterator<Item = char> + Clone + 'a {
        char::decode_utf16(self.units()).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// An owned string, nothing escaped: for formats that do their own escaping.
    pub fn to_text(self) -> String {
        self.chars().collect()
    }

    /// No characters.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Whether it equals this string, case included.
    #[inline]
    pub fn eq_str(self, text: &str) -> bool {
        self.units().eq(text.encode_utf16())
    }
}

/// Makes a terminal show what follows in another order.
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
