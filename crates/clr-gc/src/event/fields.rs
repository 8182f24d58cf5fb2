//! Events as names and values, so that one function can write every event as JSON or text.

use std::fmt;

use super::text::Utf16;

/// The value of one field.
///
/// [`Display`](fmt::Display) formats the value for one line of text: numbers in decimal, text without quotes and with
/// escaped control characters, bytes in hexadecimal, rows as `[{Name=value, ...}, ...]`.
#[derive(Clone, Copy)]
pub enum Value<'v> {
    /// An unsigned number: a pointer, count, bit set or value of an enumeration.
    U64(u64),
    /// A signed number.
    I64(i64),
    /// A single-precision floating-point number.
    F32(f32),
    /// A text in UTF-16.
    Text(Utf16<'v>),
    /// Bytes without a known meaning, or a GUID in wire order.
    Bytes(&'v [u8]),
    /// A list of numbers.
    Numbers(Numbers<'v>),
    /// A repeated part of the event, as rows with named fields.
    Rows(&'v dyn Table),
}

/// A type with named fields: an event, or a row of an event.
pub trait Fields {
    /// Calls `visit` with the name and the value of each field of the payload. Names and order are as in the runtime's
    /// manifest.
    fn fields<'v>(&'v self, visit: &mut dyn FnMut(&'static str, Value<'v>));
}

/// A repeated part of an event.
pub trait Table {
    /// Returns the number of rows.
    fn rows(&self) -> usize;
    /// Calls `visit` with each row, in the order of the payload.
    fn each(&self, visit: &mut dyn FnMut(&dyn Fields));
}

/// A list of 64-bit numbers, borrowed from the payload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        // A chunk of eight bytes always converts, so the default 0 is never used.
        self.0
            .chunks_exact(8)
            .map(|chunk| chunk.try_into().map_or(0, u64::from_le_bytes))
    }
}

impl fmt::Debug for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U64(number) => write!(f, "{number}"),
            Self::I64(number) => write!(f, "{number}"),
            Self::F32(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text}"),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Numbers(numbers) => write!(f, "{numbers:?}"),
            Self::Rows(table) => {
                let mut result = f.write_str("[");
                let mut first_row = true;
                table.each(&mut |row| {
                    if result.is_ok() {
                        result = f.write_str(if std::mem::take(&mut first_row) { "{" } else { ", {" });
                    }
                    let mut first = true;
                    row.fields(&mut |name, value| {
                        if result.is_ok() {
                            let comma = if std::mem::take(&mut first) { "" } else { ", " };
                            result = write!(f, "{comma}{name}={value}");
                        }
                    });
                    if result.is_ok() {
                        result = f.write_str("}");
                    }
                });
                result?;
                f.write_str("]")
            }
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U64(number) => f.debug_tuple("U64").field(number).finish(),
            Self::I64(number) => f.debug_tuple("I64").field(number).finish(),
            Self::F32(number) => f.debug_tuple("F32").field(number).finish(),
            Self::Text(text) => f.debug_tuple("Text").field(text).finish(),
            Self::Bytes(bytes) => f.debug_tuple("Bytes").field(bytes).finish(),
            Self::Numbers(numbers) => f.debug_tuple("Numbers").field(numbers).finish(),
            Self::Rows(_) => write!(f, "Rows({self})"),
        }
    }
}

/// A field type that can be converted to a [`Value`].
pub(crate) trait ToValue {
    /// Returns the field as a value.
    fn to_value(&self) -> Value<'_>;
}

macro_rules! number_values {
    ($($number:ty => $variant:ident),* $(,)?) => {$(
        impl ToValue for $number {
            fn to_value(&self) -> Value<'_> {
                Value::$variant((*self).into())
            }
        }
    )*};
}

number_values!(u8 => U64, u16 => U64, u32 => U64, u64 => U64, i16 => I64, i32 => I64, i64 => I64, f32 => F32);

impl ToValue for Utf16<'_> {
    fn to_value(&self) -> Value<'_> {
        Value::Text(*self)
    }
}

impl ToValue for &[u8] {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl ToValue for [u8; 16] {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl ToValue for Numbers<'_> {
    fn to_value(&self) -> Value<'_> {
        Value::Numbers(*self)
    }
}
