//! Repeated parts of payloads.

use std::fmt;
use std::marker::PhantomData;

use super::fields::{Fields, Table, ToValue, Value};
use super::reader::{Cursor, PayloadTooShort, Wire};
use super::record::Record;
use nettrace::PointerSize;

/// The rows of a repeated part, borrowed from the payload and read one at a time.
///
/// The number of rows was checked against the length of the payload when the event was decoded, so `len` rows exist.
pub struct Rows<'a, R> {
    bytes: &'a [u8],
    count: u32,
    pointer: PointerSize,
    row: PhantomData<fn() -> R>,
}

/// A record that occurs in [`Rows`].
pub trait Row<'a>: Fields + fmt::Debug + Sized {
    /// Returns the row at the start of `bytes` and the remaining bytes, or `None` if the row does not fit.
    fn first(bytes: &'a [u8], pointer: PointerSize) -> Option<(Self, &'a [u8])>;
}

impl<'a, R: Record<'a> + Fields + fmt::Debug> Row<'a> for R {
    #[inline]
    fn first(bytes: &'a [u8], pointer: PointerSize) -> Option<(Self, &'a [u8])> {
        // Rows have one layout in all versions of their event.
        let mut cursor = Cursor::new(bytes, u8::MAX, pointer);
        let row = R::read(&mut cursor).ok()?;
        Some((row, cursor.rest()))
    }
}

impl<'a, R: Row<'a>> Rows<'a, R> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the rows in payload order.
    pub fn iter(&self) -> Iter<'a, R> {
        Iter { rows: *self }
    }

    /// Returns the row with this index.
    pub fn get(&self, index: usize) -> Option<R> {
        self.iter().nth(index)
    }
}

/// Iterator over [`Rows`].
pub struct Iter<'a, R> {
    rows: Rows<'a, R>,
}

impl<'a, R: Row<'a>> Iterator for Iter<'a, R> {
    type Item = R;

    #[inline]
    fn next(&mut self) -> Option<R> {
        self.rows.count = self.rows.count.checked_sub(1)?;
        let (row, rest) = R::first(self.rows.bytes, self.rows.pointer)?;
        self.rows.bytes = rest;
        Some(row)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rows.count as usize, Some(self.rows.count as usize))
    }
}

impl<'a, R: Row<'a>> ExactSizeIterator for Iter<'a, R> {}

impl<'a, R: Row<'a>> IntoIterator for Rows<'a, R> {
    type Item = R;
    type IntoIter = Iter<'a, R>;

    fn into_iter(self) -> Iter<'a, R> {
        self.iter()
    }
}

impl<'a, R: Row<'a>> IntoIterator for &Rows<'a, R> {
    type Item = R;
    type IntoIter = Iter<'a, R>;

    fn into_iter(self) -> Iter<'a, R> {
        self.iter()
    }
}

impl<'a, R: Record<'a>> Wire<'a> for Rows<'a, R> {
    type Value = Self;
    const FIXED: bool = false;

    #[inline]
    fn least(_: PointerSize) -> usize {
        0
    }

    #[inline]
    fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Self, PayloadTooShort> {
        let (count, pointer) = (cursor.count(), cursor.pointer());
        let least = u64::from(count) * R::least(pointer) as u64;
        let bytes = if R::FIXED {
            cursor.take(least, field)?
        } else {
            // A count that the payload cannot hold is rejected before any row is read.
            let rest = cursor.rest();
            cursor.clone().take(least, field)?;
            for _ in 0..count {
                R::read(cursor)?;
            }
            rest.get(..rest.len() - cursor.rest().len()).unwrap_or(rest)
        };
        Ok(Self {
            bytes,
            count,
            pointer,
            row: PhantomData,
        })
    }
}

impl<'a, R: Row<'a>> Table for Rows<'a, R> {
    fn rows(&self) -> usize {
        self.len()
    }

    fn each(&self, visit: &mut dyn FnMut(&dyn Fields)) {
        self.iter().for_each(|row| visit(&row));
    }
}

impl<'a, R: Row<'a>> ToValue for Rows<'a, R> {
    fn to_value(&self) -> Value<'_> {
        Value::Rows(self)
    }
}

impl<R> Clone for Rows<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Rows<'_, R> {}

impl<R> PartialEq for Rows<'_, R> {
    fn eq(&self, other: &Self) -> bool {
        (self.bytes, self.count, self.pointer) == (other.bytes, other.count, other.pointer)
    }
}

impl<'a, R: Row<'a>> fmt::Debug for Rows<'a, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, R: Row<'a>> fmt::Debug for Iter<'a, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.fmt(f)
    }
}
