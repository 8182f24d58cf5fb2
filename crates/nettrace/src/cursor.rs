//! Reads numbers and strings from a complete byte slice.

use crate::error::Error;
use crate::limits::MAX_STRING_BYTES;

/// Reads an unsigned LEB128 number of 32 bits. Returns `None` if the number is truncated or has more bits.
#[inline(always)]
pub(crate) fn varu32(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let byte = *bytes.get(*at)?;
    *at += 1;
    if byte < 0x80 {
        return Some(u32::from(byte));
    }
    varu32_rest(bytes, at, byte)
}

#[inline]
fn varu32_rest(bytes: &[u8], at: &mut usize, first: u8) -> Option<u32> {
    let mut value = u32::from(first & 0x7f);
    for shift in [7, 14, 21, 28] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if shift == 28 && byte > 0x0f {
            return None;
        }
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads an unsigned LEB128 number of 64 bits. Returns `None` if the number is truncated or has more bits.
#[inline(always)]
pub(crate) fn varu64(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let byte = *bytes.get(*at)?;
    *at += 1;
    if byte < 0x80 {
        return Some(u64::from(byte));
    }
    varu64_rest(bytes, at, byte)
}

#[inline]
fn varu64_rest(bytes: &[u8], at: &mut usize, first: u8) -> Option<u64> {
    let mut value = u64::from(first & 0x7f);
    for shift in [7, 14, 21, 28, 35, 42, 49, 56, 63] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Appends a LEB128 number.
pub(crate) fn put_varu64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a LEB128 number.
pub(crate) fn put_varu32(out: &mut Vec<u8>, value: u32) {
    put_varu64(out, u64::from(value));
}

/// A position in bytes whose offset in the stream is known, so that every error can contain the offset.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor. `base` is the offset of the first byte in the stream.
    pub(crate) fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, at: 0, base }
    }

    /// Returns the offset of the next byte in the stream.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn corrupt(&self, reading: &'static str, problem: &'static str) -> Error {
        Error::corrupt(self.offset(), reading, problem)
    }

    /// Returns the next `count` bytes.
    pub(crate) fn take(&mut self, count: usize, reading: &'static str) -> Result<&'a [u8], Error> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..count));
        let taken = taken.ok_or_else(|| self.corrupt(reading, "it is truncated"))?;
        self.at += count;
        Ok(taken)
    }

    /// Returns a cursor over the next `count` bytes, and advances past them.
    pub(crate) fn part(&mut self, count: usize, reading: &'static str) -> Result<Self, Error> {
        let base = self.offset();
        Ok(Self::new(self.take(count, reading)?, base))
    }

    pub(crate) fn array<const N: usize>(&mut self, reading: &'static str) -> Result<[u8; N], Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest
            .first_chunk()
            .ok_or_else(|| self.corrupt(reading, "it is truncated"))?;
        self.at += N;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self, reading: &'static str) -> Result<u8, Error> {
        self.array(reading).map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self, reading: &'static str) -> Result<u16, Error> {
        self.array(reading).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, reading: &'static str) -> Result<u32, Error> {
        self.array(reading).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, reading: &'static str) -> Result<u64, Error> {
        self.array(reading).map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self, reading: &'static str) -> Result<i64, Error> {
        self.array(reading).map(i64::from_le_bytes)
    }

    pub(crate) fn varu32(&mut self, reading: &'static str) -> Result<u32, Error> {
        let mut at = self.at;
        let value = varu32(self.bytes, &mut at);
        let value = value.ok_or_else(|| self.corrupt(reading, "a variable-length number is truncated or too large"))?;
        self.at = at;
        Ok(value)
    }

    pub(crate) fn varu64(&mut self, reading: &'static str) -> Result<u64, Error> {
        let mut at = self.at;
        let value = varu64(self.bytes, &mut at);
        let value = value.ok_or_else(|| self.corrupt(reading, "a variable-length number is truncated or too large"))?;
        self.at = at;
        Ok(value)
    }

    /// Reads UTF-16 up to a zero unit. Unpaired surrogates become U+FFFD.
    pub(crate) fn utf16z(&mut self, reading: &'static str) -> Result<String, Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let (units, _) = rest.as_chunks::<2>();
        let Some(length) = units.iter().position(|unit| *unit == [0, 0]) else {
            return Err(self.corrupt(reading, "a string is not terminated"));
        };
        if length * 2 > MAX_STRING_BYTES {
            return Err(Error::limit(self.offset(), reading, length * 2, MAX_STRING_BYTES));
        }
        let units = units.iter().take(length).map(|unit| u16::from_le_bytes(*unit));
        let text = char::decode_utf16(units)
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        self.at += length * 2 + 2;
        Ok(text)
    }

    /// Reads UTF-8 with a length prefix. Invalid sequences become U+FFFD.
    pub(crate) fn utf8(&mut self, reading: &'static str) -> Result<String, Error> {
        let offset = self.offset();
        let length = self.varu32(reading)? as usize;
        if length > MAX_STRING_BYTES {
            return Err(Error::limit(offset, reading, length, MAX_STRING_BYTES));
        }
        Ok(String::from_utf8_lossy(self.take(length, reading)?).into_owned())
    }

    /// Skips UTF-8 with a length prefix.
    pub(crate) fn skip_utf8(&mut self, reading: &'static str) -> Result<(), Error> {
        let length = self.varu32(reading)? as usize;
        self.take(length, reading).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Scenario: any number is written, and every prefix of its bytes is read.
        /// Guarantee: the number round-trips in at most ten bytes, and a prefix is rejected.
        #[test]
        fn varu64_round_trips(value: u64) {
            let mut bytes = Vec::new();
            put_varu64(&mut bytes, value);
            prop_assert!(bytes.len() <= crate::limits::MAX_VARU64_BYTES);
            let mut at = 0;
            prop_assert_eq!(varu64(&bytes, &mut at), Some(value));
            prop_assert_eq!(at, bytes.len());
            for cut in 0..bytes.len() {
                prop_assert_eq!(varu64(&bytes[..cut], &mut 0), None);
            }
        }

        /// Scenario: any 32-bit number and any larger number are written.
        /// Guarantee: the number round-trips in at most five bytes; the larger number is rejected, not truncated.
        #[test]
        fn varu32_round_trips(value: u32, more in (1_u64 << 32)..) {
            let mut bytes = Vec::new();
            put_varu32(&mut bytes, value);
            prop_assert!(bytes.len() <= crate::limits::MAX_VARU32_BYTES);
            let mut at = 0;
            prop_assert_eq!(varu32(&bytes, &mut at), Some(value));
            prop_assert_eq!(at, bytes.len());
            bytes.clear();
            put_varu64(&mut bytes, more);
            prop_assert_eq!(varu32(&bytes, &mut 0), None);
        }
    }

    /// Scenario: numbers do not terminate, or have 65 bits.
    /// Guarantee: the numbers are rejected.
    #[test]
    fn overlong_numbers_are_refused() {
        assert_eq!(varu64(&[0xff; 16], &mut 0), None);
        assert_eq!(
            varu64(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], &mut 0),
            None
        );
        assert_eq!(varu32(&[0xff, 0xff, 0xff, 0xff, 0x1f], &mut 0), None);
        assert_eq!(varu32(&[0xff, 0xff, 0xff, 0xff, 0x0f], &mut 0), Some(u32::MAX));
    }

    /// Scenario: strings in both encodings are complete or truncated.
    /// Guarantee: complete strings are read, and truncated strings are errors with their offset.
    #[test]
    fn strings_are_bounded() {
        let bytes = [b'G', 0, b'C', 0, 0, 0, 2, b'o', b'k', 9];
        let mut cursor = Cursor::new(&bytes, 100);
        assert_eq!(cursor.utf16z("a name").unwrap(), "GC");
        assert_eq!(cursor.utf8("a name").unwrap(), "ok");
        assert_eq!(cursor.utf8("a name").unwrap_err().offset(), Some(110));
        assert!(Cursor::new(&bytes[..4], 0).utf16z("a name").is_err());
        let mut long = vec![b'x'; MAX_STRING_BYTES + 2];
        long.extend([0, 0]);
        assert!(matches!(
            Cursor::new(&long, 0).utf16z("a name"),
            Err(Error::LimitExceeded { .. })
        ));
    }
}
