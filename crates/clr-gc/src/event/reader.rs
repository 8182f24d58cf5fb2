//! The payload cursor and the wire types.

use nettrace::PointerSize;

use super::fields::Numbers;
use super::text::Utf16;

/// Error returned if the payload ends inside a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PayloadTooShort {
    /// Manifest name of the field.
    pub(crate) field: &'static str,
    /// Minimum number of bytes in the payload for a whole field.
    pub(crate) needed: u64,
}

/// A position in a payload.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    total: usize,
    version: u8,
    pointer: PointerSize,
    /// The most recent count, which is the number of elements of the next repeated part.
    count: u32,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], version: u8, pointer: PointerSize) -> Self {
        Self {
            rest: bytes,
            total: bytes.len(),
            version,
            pointer,
            count: 0,
        }
    }

    /// Returns the unread bytes.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the length of the whole payload in bytes.
    #[inline]
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    #[inline]
    pub(crate) fn version(&self) -> u8 {
        self.version
    }

    #[inline]
    pub(crate) fn pointer(&self) -> PointerSize {
        self.pointer
    }

    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    #[cold]
    fn short(&self, field: &'static str, size: u64) -> PayloadTooShort {
        PayloadTooShort {
            field,
            needed: ((self.total - self.rest.len()) as u64).saturating_add(size),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], PayloadTooShort> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.short(field, N as u64));
        };
        self.rest = rest;
        Ok(*head)
    }

    /// Returns the next `size` bytes. A size larger than the address space is handled like any size that is too large.
    #[inline]
    pub(crate) fn take(&mut self, size: u64, field: &'static str) -> Result<&'a [u8], PayloadTooShort> {
        let split = usize::try_from(size)
            .ok()
            .and_then(|size| self.rest.split_at_checked(size));
        let Some((head, rest)) = split else {
            return Err(self.short(field, size));
        };
        self.rest = rest;
        Ok(head)
    }

    /// Returns the code units before the next 16-bit zero, which is consumed but not returned.
    #[inline]
    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a [u8], PayloadTooShort> {
        let Some(units) = self.rest.chunks_exact(2).position(|unit| unit == [0, 0]) else {
            // At least the terminator is missing.
            return Err(self.short(field, (self.rest.len() as u64 & !1) + 2));
        };
        let text = self.take(units as u64 * 2, field)?;
        self.take(2, field)?;
        Ok(text)
    }

    #[inline]
    fn pointer_sized(&mut self, field: &'static str) -> Result<u64, PayloadTooShort> {
        match self.pointer {
            PointerSize::Eight => self.array(field).map(u64::from_le_bytes),
            PointerSize::Four => self.array(field).map(|bytes| u64::from(u32::from_le_bytes(bytes))),
        }
    }
}

/// Layout of a field in a payload.
pub(crate) trait Wire<'a> {
    /// Type of the field in the struct.
    type Value;
    /// Whether the length is constant for a given pointer size.
    const FIXED: bool = true;
    /// Returns the length in bytes, or the minimum length if it varies.
    fn least(pointer: PointerSize) -> usize;
    /// Reads the field.
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Self::Value, PayloadTooShort>;
}

macro_rules! number_wires {
    ($($number:ty),*) => {$(
        impl Wire<'_> for $number {
            type Value = Self;
            #[inline]
            fn least(_: PointerSize) -> usize {
                size_of::<$number>()
            }
            #[inline]
            fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Self, PayloadTooShort> {
                cursor.array(field).map(<$number>::from_le_bytes)
            }
        }
    )*};
}

number_wires!(u8, u16, u32, u64, i16, i32, i64, f32);

/// Sixteen bytes without conversion: a GUID.
impl Wire<'_> for [u8; 16] {
    type Value = Self;
    #[inline]
    fn least(_: PointerSize) -> usize {
        16
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Self, PayloadTooShort> {
        cursor.array(field)
    }
}

/// A number with the pointer width of the traced process.
pub(crate) struct Ptr;

impl Wire<'_> for Ptr {
    type Value = u64;
    #[inline]
    fn least(pointer: PointerSize) -> usize {
        pointer.bytes()
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<u64, PayloadTooShort> {
        cursor.pointer_sized(field)
    }
}

/// A pointer-sized field that the C compiler aligned after a 32-bit field: four bytes of padding on 64 bits, none on
/// 32.
pub(crate) struct AlignedPtr;

impl Wire<'_> for AlignedPtr {
    type Value = u64;
    #[inline]
    fn least(pointer: PointerSize) -> usize {
        pointer.bytes() * 2 - 4
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<u64, PayloadTooShort> {
        cursor.take(cursor.pointer.bytes() as u64 - 4, field)?;
        cursor.pointer_sized(field)
    }
}

/// A 32-bit field that the C compiler aligned after a 16-bit field: two bytes of padding with arbitrary values.
pub(crate) struct AlignedU32;

impl Wire<'_> for AlignedU32 {
    type Value = u32;
    #[inline]
    fn least(_: PointerSize) -> usize {
        6
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<u32, PayloadTooShort> {
        cursor.take(2, field)?;
        u32::read(cursor, field)
    }
}

/// An enumeration value in one byte.
pub(crate) struct Byte<T>(T);

impl<T: From<u32>> Wire<'_> for Byte<T> {
    type Value = T;
    #[inline]
    fn least(_: PointerSize) -> usize {
        1
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<T, PayloadTooShort> {
        u8::read(cursor, field).map(|number| T::from(number.into()))
    }
}

/// An enumeration value in two bytes.
pub(crate) struct Enum16<T>(T);

impl<T: From<u32>> Wire<'_> for Enum16<T> {
    type Value = T;
    #[inline]
    fn least(_: PointerSize) -> usize {
        2
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<T, PayloadTooShort> {
        u16::read(cursor, field).map(|number| T::from(number.into()))
    }
}

/// A value with two bytes in version 0, and four bytes in later versions.
pub(crate) struct HalfInV0<T>(T);

impl<T: From<u32>> Wire<'_> for HalfInV0<T> {
    type Value = T;
    #[inline]
    fn least(_: PointerSize) -> usize {
        2
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<T, PayloadTooShort> {
        if cursor.version() == 0 {
            return Enum16::read(cursor, field);
        }
        u32::read(cursor, field).map(T::from)
    }
}

/// The number of elements of the next repeated part.
pub(crate) struct Count<T>(T);

impl<'a, T: Wire<'a, Value = T> + Copy + Into<u32>> Wire<'a> for Count<T> {
    type Value = T;
    #[inline]
    fn least(pointer: PointerSize) -> usize {
        T::least(pointer)
    }
    #[inline]
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<T, PayloadTooShort> {
        let count = T::read(cursor, field)?;
        cursor.count = count.into();
        Ok(count)
    }
}

/// Bytes whose length is the last count.
impl<'a> Wire<'a> for &'a [u8] {
    type Value = Self;
    const FIXED: bool = false;
    #[inline]
    fn least(_: PointerSize) -> usize {
        0
    }
    #[inline]
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Self, PayloadTooShort> {
        cursor.take(cursor.count.into(), field)
    }
}

impl<'a> Wire<'a> for Utf16<'a> {
    type Value = Self;
    const FIXED: bool = false;

    #[inline]
    fn least(_: PointerSize) -> usize {
        2
    }

    #[inline]
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Self, PayloadTooShort> {
        cursor.text(field).map(Utf16::new)
    }
}

/// 64-bit numbers; the last count is their number.
impl<'a> Wire<'a> for Numbers<'a> {
    type Value = Self;
    const FIXED: bool = false;
    #[inline]
    fn least(_: PointerSize) -> usize {
        0
    }
    #[inline]
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Self, PayloadTooShort> {
        cursor.take(u64::from(cursor.count) * 8, field).map(Numbers::new)
    }
}
