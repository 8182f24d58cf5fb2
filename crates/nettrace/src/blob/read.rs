//! Reads blobs: applies the fields of a header to the previous header, then reads the payload. Decoding spends most of
//! its time here, so this code determines the decoding speed.

use super::{BlobHeader, HeaderLayout, UNSORTED, flags};
use crate::cursor::{Cursor, varu32, varu64};
use crate::error::Error;

impl BlobHeader {
    /// Reads the compressed header at `at` and applies it to the previous header. Returns the flags and the position of
    /// the payload, or `None` if the header is truncated or contains a number that is too large. After `None`, the
    /// values of this header are invalid.
    #[inline(always)]
    pub(crate) fn read_compressed<const V6: bool>(&mut self, bytes: &[u8], at: usize) -> Option<(u8, usize)> {
        let which = *bytes.get(at)?;
        let mut at = at + 1;
        // In a run of similar events only the time differs. This applies to 90 % of the headers in a Verbose stream.
        if which & !flags::SORTED == 0 {
            self.sequence = self.sequence.wrapping_add(u32::from(self.metadata_id != 0));
            self.timestamp = self.timestamp.wrapping_add(varu64(bytes, &mut at)? as i64);
        } else {
            self.read_fields::<V6>(which, bytes, &mut at)?;
        }
        self.is_sorted = which & flags::SORTED != 0;
        Some((which, at))
    }

    #[inline(always)]
    fn read_fields<const V6: bool>(&mut self, which: u8, bytes: &[u8], at: &mut usize) -> Option<()> {
        if which & flags::METADATA_ID != 0 {
            self.metadata_id = varu32(bytes, at)?;
        }
        if which & flags::CAPTURE != 0 {
            let delta = varu32(bytes, at)?;
            self.sequence = self.sequence.wrapping_add(delta).wrapping_add(1);
            self.capture_thread = varu64(bytes, at)?;
            self.processor = varu32(bytes, at)?;
        } else {
            self.sequence = self.sequence.wrapping_add(u32::from(self.metadata_id != 0));
        }
        if which & flags::THREAD != 0 {
            self.thread = varu64(bytes, at)?;
        }
        if which & flags::STACK_ID != 0 {
            self.stack_id = varu32(bytes, at)?;
        }
        self.timestamp = self.timestamp.wrapping_add(varu64(bytes, at)? as i64);
        if V6 {
            if which & flags::ACTIVITY_OR_LABELS != 0 {
                self.label_list = varu32(bytes, at)?;
            }
        } else if which & (flags::ACTIVITY_OR_LABELS | flags::RELATED_ACTIVITY) != 0 {
            self.read_activities(which, bytes, at)?;
        }
        if which & flags::PAYLOAD_SIZE != 0 {
            self.payload_size = varu32(bytes, at)?;
        }
        Some(())
    }

    #[cold]
    fn read_activities(&mut self, which: u8, bytes: &[u8], at: &mut usize) -> Option<()> {
        if which & flags::ACTIVITY_OR_LABELS != 0 {
            self.activity_id = *bytes.get(*at..)?.first_chunk()?;
            *at += 16;
        }
        if which & flags::RELATED_ACTIVITY != 0 {
            self.related_activity_id = *bytes.get(*at..)?.first_chunk()?;
            *at += 16;
        }
        Some(())
    }

    /// Reads a complete header at `at`, which is relative to a position in the stream that is a multiple of 4. Returns
    /// the position of the payload and the position of the next blob, or `None` if the header is truncated or its sizes
    /// are inconsistent.
    fn read_whole<const V6: bool>(&mut self, bytes: &[u8], at: usize) -> Option<(usize, usize)> {
        let mut cursor = Cursor::new(bytes.get(at..)?, 0);
        let (size, metadata_id) = (cursor.u32("").ok()? as usize, cursor.u32("").ok()?);
        self.is_sorted = metadata_id & UNSORTED == 0;
        self.metadata_id = metadata_id & !UNSORTED;
        self.sequence = cursor.u32("").ok()?;
        self.thread = cursor.u64("").ok()?;
        self.capture_thread = cursor.u64("").ok()?;
        self.processor = cursor.u32("").ok()?;
        self.stack_id = cursor.u32("").ok()?;
        self.timestamp = cursor.i64("").ok()?;
        if V6 {
            self.label_list = cursor.u32("").ok()?;
        } else {
            self.activity_id = cursor.array("").ok()?;
            self.related_activity_id = cursor.array("").ok()?;
        }
        self.payload_size = cursor.u32("").ok()?;
        let payload = at + cursor.position();
        // The size does not include the size field. In V4, the size includes the padding before the next blob or
        // excludes the padding, depending on the writer.
        let mut next = (at + 4).checked_add(size)?;
        if !V6 {
            next = next.checked_next_multiple_of(4)?;
        }
        (payload.checked_add(self.payload_size as usize)? <= next).then_some((payload, next))
    }
}

/// A position in the blobs of a block, with the previous header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlobReader {
    pub(crate) layout: HeaderLayout,
    pub(crate) header: BlobHeader,
    /// Position of the next blob in the content of the block.
    pub(crate) at: usize,
}

/// Flags equivalent to an uncompressed header, which contains every field.
const ALL_FIELDS: u8 = !flags::SORTED;

impl BlobReader {
    /// Returns the next blob of `content` as its flags and its payload, or `None` at the end.
    #[inline(always)]
    pub(crate) fn next<'a>(&mut self, content: &'a [u8], base: u64) -> Result<Option<(u8, &'a [u8])>, Error> {
        if self.at >= content.len() {
            return Ok(None);
        }
        let read = match self.layout {
            HeaderLayout::V4Compressed => self.compressed::<false>(content),
            HeaderLayout::V6Compressed => self.compressed::<true>(content),
            HeaderLayout::V4Whole => self.whole::<false>(content),
            HeaderLayout::V6Whole => self.whole::<true>(content),
        };
        match read {
            Some(read) => Ok(Some(read)),
            None => Err(malformed(base + self.at as u64)),
        }
    }

    #[inline(always)]
    pub(crate) fn compressed<'a, const V6: bool>(&mut self, content: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let (which, at) = self.header.read_compressed::<V6>(content, self.at)?;
        let payload = content.get(at..)?.get(..self.header.payload_size as usize)?;
        self.at = at + payload.len();
        Some((which, payload))
    }

    pub(crate) fn whole<'a, const V6: bool>(&mut self, content: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let (at, next) = self.header.read_whole::<V6>(content, self.at)?;
        let payload = content.get(at..)?.get(..self.header.payload_size as usize)?;
        // The padding of the last blob can be missing.
        self.at = next;
        let sorted = if self.header.is_sorted { flags::SORTED } else { 0 };
        Some((ALL_FIELDS | sorted, payload))
    }
}

#[cold]
pub(crate) fn malformed(offset: u64) -> Error {
    Error::corrupt(
        offset,
        "an event of a block",
        "its header or payload does not fit into the block",
    )
}

/// An iterator over the blobs in the content of a block, for tools that handle separate blocks. Users of a
/// [`Decoder`](crate::Decoder) do not need this type.
///
/// ```
/// use nettrace::blob::{Blobs, HeaderLayout};
///
/// // Flags: metadata id, capture, thread, sorted, payload size. The format defines the remaining bytes.
/// let content = [0xc7, 1, 0, 0x50, 3, 0x50, 100, 2, b'h', b'i', /* repeated 5 ticks later */ 0, 5, b'h', b'o'];
/// let mut blobs = Blobs::new(HeaderLayout::V4Compressed, &content, 0);
/// let (header, payload) = blobs.next_blob()?.unwrap();
/// assert_eq!((header.metadata_id, header.sequence, header.timestamp, payload), (1, 1, 100, &b"hi"[..]));
/// let (header, payload) = blobs.next_blob()?.unwrap();
/// assert_eq!((header.metadata_id, header.sequence, header.timestamp, payload), (1, 2, 105, &b"ho"[..]));
/// assert!(blobs.next_blob()?.is_none());
/// # Ok::<(), nettrace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Blobs<'a> {
    content: &'a [u8],
    base: u64,
    reader: BlobReader,
}

impl<'a> Blobs<'a> {
    /// Creates an iterator. `content` contains the bytes of a block after the block header. `base` is the offset of
    /// these bytes in the stream, for errors.
    pub fn new(layout: HeaderLayout, content: &'a [u8], base: u64) -> Self {
        Self {
            content,
            base,
            reader: BlobReader {
                layout,
                header: BlobHeader::default(),
                at: 0,
            },
        }
    }

    /// Returns the next blob, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns an error if a header or payload is truncated, or if a number in a header is too large. Every later call
    /// returns the same error.
    pub fn next_blob(&mut self) -> Result<Option<(BlobHeader, &'a [u8])>, Error> {
        let before = self.reader;
        match self.reader.next(self.content, self.base) {
            Ok(next) => Ok(next.map(|(_, payload)| (self.reader.header, payload))),
            Err(error) => {
                self.reader = before;
                Err(error)
            }
        }
    }
}
