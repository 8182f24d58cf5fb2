//! The fields of a payload: little-endian integers, counted UTF-16 strings, GUIDs.

use super::error::MessageError;

/// A reader for the fields of a payload, in order.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    payload: &'a [u8],
    offset: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self { payload, offset: 0 }
    }

    pub(super) fn left(&self) -> usize {
        self.payload.len().saturating_sub(self.offset)
    }

    pub(super) fn bytes(&mut self, length: usize, reading: &'static str) -> Result<&'a [u8], MessageError> {
        let end = self.offset.checked_add(length);
        match end.and_then(|end| self.payload.get(self.offset..end)) {
            Some(bytes) => {
                self.offset += length;
                Ok(bytes)
            }
            None => Err(MessageError::Short {
                reading,
                offset: self.offset,
                needed: length,
                left: self.left(),
            }),
        }
    }

    pub(super) fn array<const N: usize>(&mut self, reading: &'static str) -> Result<[u8; N], MessageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N, reading)?);
        Ok(array)
    }

    pub(super) fn u16(&mut self, reading: &'static str) -> Result<u16, MessageError> {
        self.array(reading).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, reading: &'static str) -> Result<u32, MessageError> {
        self.array(reading).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, reading: &'static str) -> Result<u64, MessageError> {
        self.array(reading).map(u64::from_le_bytes)
    }

    /// Reads one byte: 0 is false, all other values are true, as in the runtime.
    pub(super) fn bool(&mut self, reading: &'static str) -> Result<bool, MessageError> {
        self.array::<1>(reading).map(|byte| byte != [0])
    }

    /// Reads a count of UTF-16 units including the terminating NUL, followed by the units. A count of 0 is the empty
    /// string.
    ///
    /// Lone surrogates become U+FFFD, because command lines and variables can contain any units.
    pub(super) fn string(&mut self, reading: &'static str) -> Result<String, MessageError> {
        let units = self.u32(reading)? as usize;
        let bytes = self.bytes(units.saturating_mul(2), reading)?;
        let mut units: Vec<u16> = bytes
            .chunks_exact(2)
            .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
            .collect();
        if units.last() == Some(&0) {
            units.pop();
        }
        Ok(String::from_utf16_lossy(&units))
    }
}

/// A writer for the fields of a payload, in order.
#[derive(Debug, Default)]
pub(super) struct Payload {
    pub(super) bytes: Vec<u8>,
}

impl Payload {
    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        self.raw(&[u8::from(value)])
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Writes the number of elements of a list. Each element takes at least four bytes of a frame.
    pub(super) fn count(&mut self, writing: &'static str, count: usize) -> Result<&mut Self, MessageError> {
        let limit = super::MAX_PAYLOAD_BYTES / 4;
        match u32::try_from(count) {
            Ok(value) if count <= limit => Ok(self.u32(value)),
            _ => Err(MessageError::Limit {
                reading: writing,
                value: count as u64,
                limit: limit as u64,
            }),
        }
    }

    /// Writes a string. The empty string is written as a count of 0, which the runtime interprets as null.
    pub(super) fn string(&mut self, writing: &'static str, text: &str) -> Result<&mut Self, MessageError> {
        if let Some(at) = text.chars().position(|character| character == '\0') {
            return Err(MessageError::NulInString { writing, at });
        }
        if text.is_empty() {
            return Ok(self.u32(0));
        }
        let units = text.encode_utf16().count() + 1;
        let count = u32::try_from(units).map_err(|_| MessageError::Limit {
            reading: writing,
            value: units as u64,
            limit: u64::from(u32::MAX),
        })?;
        self.u32(count);
        for unit in text.encode_utf16() {
            self.u16(unit);
        }
        Ok(self.u16(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a string field claims 2^32 - 1 units, and three bytes follow.
    /// Guarantee: the error contains the field and its offset, and no memory is allocated for the claim.
    #[test]
    fn string_longer_than_payload_is_refused() {
        let payload = [0xff, 0xff, 0xff, 0xff, 1, 2, 3];
        let error = Fields::new(&payload).string("command line").unwrap_err();
        assert_eq!(
            error,
            MessageError::Short {
                reading: "command line",
                offset: 4,
                needed: 0x1_ffff_fffe,
                left: 3
            }
        );
    }

    /// Scenario: strings have a lone surrogate, no final NUL, or no characters.
    /// Guarantee: all three strings are read; the surrogate becomes the replacement character.
    #[test]
    fn unusual_string_is_read() {
        let lone = [2, 0, 0, 0, 0x00, 0xd8, 0, 0];
        assert_eq!(Fields::new(&lone).string("s").unwrap(), "\u{fffd}");
        let open = [1, 0, 0, 0, b'a', 0];
        assert_eq!(Fields::new(&open).string("s").unwrap(), "a");
        assert_eq!(Fields::new(&[0; 4]).string("s").unwrap(), "");
    }
}
