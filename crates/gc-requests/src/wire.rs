//! Fields of protobuf messages, one by one and without a copy.
//!
//! A generated decoder builds the whole message: two bytes of an empty span become hundreds. What arrives at a port is
//! read in place, so that its size bounds what it takes.
//!
//! Format: <https://protobuf.dev/programming-guides/encoding/>.

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    /// Integers and enumerations.
    Varint(u64),
    /// `fixed64` and its like.
    Fixed64(u64),
    /// Texts, bytes and messages.
    Bytes(&'a [u8]),
    /// `fixed32` and its like, of which nothing is read here.
    Fixed32,
}

/// The bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// The fields of a message with their numbers. It ends after an error.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn fixed<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        self.take(COUNT)?.try_into().ok()
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.fixed()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // The tenth byte has one bit.
                return (shift < 63 || byte < 2).then_some(value);
            }
        }
        None
    }

    fn field(&mut self) -> Option<(u32, Field<'a>)> {
        let key = u32::try_from(self.varint()?).ok()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Field::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Field::Fixed32
            }
            // Groups, which no version of OTLP has.
            _ => return None,
        };
        (key >> 3 > 0).then_some((key >> 3, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Vec<Result<(u32, Field<'_>), Malformed>> {
        Fields::of(bytes).collect()
    }

    /// Scenario: one field of each kind, the longest number, a key of two bytes.
    /// Guarantee: numbers and values are read.
    #[test]
    fn fields_are_read() {
        let bytes = [
            &[0x08, 0x96, 0x01][..],
            &[0x11, 1, 0, 0, 0, 0, 0, 0, 0x80],
            &[0x1a, 2, 7, 8],
            &[0x25, 1, 2, 3, 4],
            &[0x80, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ];
        let expected = [
            (1, Field::Varint(150)),
            (2, Field::Fixed64(1 << 63 | 1)),
            (3, Field::Bytes(&[7, 8])),
            (4, Field::Fixed32),
            (16, Field::Varint(u64::MAX)),
        ];
        assert_eq!(fields(&bytes.concat()), expected.map(Ok));
    }

    /// Scenario: a message that ends within a field, a length beyond it, a number of eleven bytes, a group, field 0.
    /// Guarantee: each is refused where it is, and nothing is read after it.
    #[test]
    fn what_is_no_message_is_refused() {
        let all: [&[u8]; 6] = [
            &[0x08],
            &[0x1a, 200, 1],
            &[0x11, 1, 2],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            &[0x0b, 0x0c],
            &[0x00, 1],
        ];
        for bytes in all {
            assert_eq!(fields(bytes), [Err(Malformed)], "{bytes:?}");
        }
    }
}
