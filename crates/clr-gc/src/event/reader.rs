//! Reading payloads: the cursor, and how each wire type is read.

use nettrace::PointerSize;

use super::fields::Numbers;
use super::text::Utf16;

/// The payload ends inside a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Short {
    /// Manifest name of the field.
    pub(crate) field: &'static str,
    /// Bytes that the payload must have at least for this field to be whole.
    pub(crate) needed: u64,
}

/// A place in a payload.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    total: usize,
    version: u8,
    pointer: PointerSize,
    /// The last count that was read: how many elements the repeated part that follows has.
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

    /// What is not read yet.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes of the whole.
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
    fn short(&self, field: &'static str, size: u64) -> Short {
        Short {
            field,
            needed: ((self.total - self.rest.len()) as u64).saturating_add(size),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Short> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.short(field, N as u64));
        };
        self.rest = rest;
        Ok(*head)
    }

    /// The next `size` bytes. A size that no memory has is merely too long.
    #[inline]
    pub(crate) fn take(&mut self, size: u64, field: &'static str) -> Result<&'a [u8], Short> {
        let split = usize::try_from(size)
            .ok()
            .and_then(|size| self.rest.split_at_checked(size));
        let Some((head, rest)) = split else {
            return Err(self.short(field, size));
        };
        self.rest = rest;
        Ok(head)
    }

    /// The code units up to the next 16-bit zero, which is read too and not returned.
    #[inline]
    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a [u8], Short> {
        let Some(units) = self.rest.chunks_exact(2).position(|unit| unit == [0, 0]) else {
            // The terminator at least is missing.
            return Err(self.short(field, (self.rest.len() as u64 & !1) + 2));
        };
        let text = self.take(units as u64 * 2, field)?;
        self.take(2, field)?;
        Ok(text)
    }

    #[inline]
    fn pointer_sized(&mut self, field: &'static str) -> Result<u64, Short> {
        match self.pointer {
            PointerSize::Eight => self.array(field).map(u64::from_le_bytes),
            PointerSize::Four => self.array(field).map(|bytes| u64::from(u32::from_le_bytes(bytes))),
        }
    }
}

/// How a field is laid out in a payload.
pub(crate) trait Wire<'a> {
    /// What it is in the struct.
    type Value;
    /// Always of the same length for one pointer size.
    const FIXED: bool = true;
    /// Its length, the least one where it varies.
    fn least(pointer: PointerSize) -> usize;
    /// Reads it.
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Self::Value, Short>;
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
            fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Self, Short> {
                cursor.array(field).map(<$number>::from_le_bytes)
            }
        }
    )*};
}

number_wires!(u8, u16, u32, u64, i16, i32, i64, f32);

/// Sixteen bytes as they are: a GUID.
impl Wire<'_> for [u8; 16] {
    type Value = Self;
    #[inline]
    fn least(_: PointerSize) -> usize {
        16
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Self, Short> {
        cursor.array(field)
    }
}

/// As wide as the traced process's pointers.
pub(crate) struct Ptr;

impl Wire<'_> for Ptr {
    type Value = u64;
    #[inline]
    fn least(pointer: PointerSize) -> usize {
        pointer.bytes()
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<u64, Short> {
        cursor.pointer_sized(field)
    }
}

/// A pointer-sized field that the C compiler aligned after a 32-bit one: four bytes of padding on 64 bits, none on 32.
pub(crate) struct AlignedPtr;

impl Wire<'_> for AlignedPtr {
    type Value = u64;
    #[inline]
    fn least(pointer: PointerSize) -> usize {
        pointer.bytes() * 2 - 4
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<u64, Short> {
        cursor.take(cursor.pointer.bytes() as u64 - 4, field)?;
        cursor.pointer_sized(field)
    }
}

/// A 32-bit field that the C compiler aligned after a 16-bit one: two bytes of padding, which may hold anything.
pub(crate) struct AlignedU32;

impl Wire<'_> for AlignedU32 {
    type Value = u32;
    #[inline]
    fn least(_: PointerSize) -> usize {
        6
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<u32, Short> {
        cursor.take(2, field)?;
        u32::read(cursor, field)
    }
}

/// An enumeration's number in one byte.
pub(crate) struct Byte<T>(T);

impl<T: From<u32>> Wire<'_> for Byte<T> {
    type Value = T;
    #[inline]
    fn least(_: PointerSize) -> usize {
        1
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<T, Short> {
        u8::read(cursor, field).map(|number| T::from(number.into()))
    }
}

/// An enumeration's number in two bytes.
pub(crate) struct Half<T>(T);

impl<T: From<u32>> Wire<'_> for Half<T> {
    type Value = T;
    #[inline]
    fn least(_: PointerSize) -> usize {
        2
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<T, Short> {
        u16::read(cursor, field).map(|number| T::from(number.into()))
    }
}

/// Two bytes in version 0, four later.
pub(crate) struct HalfInV0<T>(T);

impl<T: From<u32>> Wire<'_> for HalfInV0<T> {
    type Value = T;
    #[inline]
    fn least(_: PointerSize) -> usize {
        2
    }
    #[inline]
    fn read(cursor: &mut Cursor<'_>, field: &'static str) -> Result<T, Short> {
        if cursor.version() == 0 {
            return Half::read(cursor, field);
        }
        u32::read(cursor, field).map(T::from)
    }
}

/// How many elements the next repeated part has.
pub(crate) struct Count<T>(T);

impl<'a, T: Wire<'a, Value = T> + Copy + Into<u32>> Wire<'a> for Count<T> {
    type Value = T;
    #[inline]
    fn least(pointer: PointerSize) -> usize {
        T::least(pointer)
    }
    #[inline]
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<T, Short> {
        let count = T::read(cursor, field)?;
        cursor.count = count.into();
        Ok(count)
    }
}

/// As many bytes as the last count.
impl<'a> Wire<'a> for &'a [u8] {
    type Value = Self;
    const FIXED: bool = false;
    #[inline]
    fn least(_: PointerSize) -> usize {
        0
    }
    #[inline]
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Self, Short> {
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
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Self, Short> {
        cursor.text(field).map(Utf16::new)
    }
}

/// As many 64-bit numbers as the last count.
impl<'a> Wire<'a> for Numbers<'a> {
    type Value = Self;
    const FIXED: bool = false;
    #[inline]
    fn least(_: PointerSize) -> usize {
        0
    }
    #[inline]
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Self, Short> {
        cursor.take(u64::from(cursor.count) * 8, field).map(Numbers::new)
    }
}
