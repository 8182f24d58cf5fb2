//! Reading: the fields that a header has, over those of the one before, and the payload after it. This is what most of
//! the time of a stream is spent in; that it stays fast is decided here.

use super::{BlobHeader, HeaderLayout, UNSORTED, flags};
use crate::cursor::{Cursor, varu32, varu64};
use crate::error::Error;

impl BlobHeader {
    /// Reads the compressed header at `at` over the one before it. Gives the flags and the payload's place; `None` when
    /// the header is cut off or a number in it too large (the state is invalid then).
    #[inline(always)]
    pub(crate) fn read_compressed<const V6: bool>(&mut self, bytes: &[u8], at: usize) -> Option<(u8, usize)> {
        let which = *bytes.get(at)?;
        let mut at = at + 1;
        // Within a run of equal events nothing but the time differs: nine of ten headers of a Verbose stream.
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

    /// Reads a whole header at `at`, which is relative to a place in the stream that is a multiple of 4. Gives the
    /// payload's place and that of the next blob.
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
        // The size leaves out itself; with V4 it may or may not count the zeros that fill up to the next blob.
        let mut next = (at + 4).checked_add(size)?;
        if !V6 {
            next = next.checked_next_multiple_of(4)?;
        }
        (payload.checked_add(self.payload_size as usize)? <= next).then_some((payload, next))
    }
}

/// A place in the blobs of a block: what the next header builds on, and where it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlobReader {
    pub(crate) layout: HeaderLayout,
    pub(crate) header: BlobHeader,
    /// Place of the next blob in the block's content.
    pub(crate) at: usize,
}

/// The flags that an uncompressed header stands for: it has every field.
const ALL_FIELDS: u8 = !flags::SORTED;

impl BlobReader {
    /// The next blob of `content`: which fields are new, and its payload. `None` at the end.
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
        // The last blob's filling may be left out.
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

/// Iterates over the blobs of a block's content, for tools that have such blocks. [`Decoder`](crate::Decoder) does not
/// need it.
///
/// ```
/// use nettrace::blob::{Blobs, HeaderLayout};
///
/// // Flags: metadata id, capture, thread, sorted, payload size; see the format for the rest.
/// let content = [0xc7, 1, 0, 0x50, 3, 0x50, 100, 2, b'h', b'i', /* 5 ticks later, the same */ 0, 5, b'h', b'o'];
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
    /// `content`: a block's bytes after the block's own header; `base`: where they begin in the stream (for errors).
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

    /// The next blob, `None` at the end.
    ///
    /// # Errors
    ///
    /// When a header or payload is cut off, or a number in it too large. Every later call returns the same error.
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
