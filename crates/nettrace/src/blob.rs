//! Blobs: the events (and definitions) inside a block, one header and one payload each.
//!
//! Headers of one block build on each other: a flag says which fields differ from the blob before, so the state begins
//! at zero with each block and a block can only be read from its front. Uncompressed headers are whole each time; no
//! runtime writes them, but the format allows them.

use crate::cursor::{Cursor, put_varu32, put_varu64, varu32, varu64};
use crate::error::Error;

/// Bits of a compressed header's first byte: which fields follow.
pub mod flags {
    /// The metadata id follows.
    pub const METADATA_ID: u8 = 0x01;
    /// Sequence delta, capture thread and processor follow.
    pub const CAPTURE: u8 = 0x02;
    /// The thread follows.
    pub const THREAD: u8 = 0x04;
    /// The stack id follows.
    pub const STACK_ID: u8 = 0x08;
    /// V4: the activity id follows; V6: the label list id.
    pub const ACTIVITY_OR_LABELS: u8 = 0x10;
    /// V4: the related activity id follows.
    pub const RELATED_ACTIVITY: u8 = 0x20;
    /// The event is sorted. Nothing follows.
    pub const SORTED: u8 = 0x40;
    /// The payload's size follows.
    pub const PAYLOAD_SIZE: u8 = 0x80;
}

/// Bit of an uncompressed header's metadata id: the event is not sorted. (The V5 document says the opposite; the
/// runtime and TraceEvent agree on this.)
const UNSORTED: u32 = 1 << 31;

/// How the headers of a block are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderLayout {
    /// V4, each header on the one before. What runtimes send.
    V4Compressed,
    /// V4, whole headers of 80 bytes, blobs aligned to 4.
    V4Whole,
    /// V6, each header on the one before. What one-collect writes.
    V6Compressed,
    /// V6, whole headers of 52 bytes.
    V6Whole,
}

/// The header of a blob. The default is the state at the beginning of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobHeader {
    /// Which definition the event has; 0 in blobs that are definitions.
    pub metadata_id: u32,
    /// Number of the event among those of its capture thread.
    pub sequence: u32,
    /// The thread that wrote the event into its buffer. V4: OS thread id, V6: thread index.
    pub capture_thread: u64,
    /// Processor; all bits set when unknown.
    pub processor: u32,
    /// The thread that the event is about. V4: OS thread id, V6: thread index.
    pub thread: u64,
    /// Which stack, see [`Stack`](crate::Stack).
    pub stack_id: u32,
    /// Ticks.
    pub timestamp: i64,
    /// V6: which label list; 0 is the empty one.
    pub label_list: u32,
    /// V4: zero when there is none.
    pub activity_id: [u8; 16],
    /// V4: zero when there is none.
    pub related_activity_id: [u8; 16],
    /// No event later in the stream is older than this one.
    pub is_sorted: bool,
    /// Bytes of payload.
    pub payload_size: u32,
}

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

    /// Appends this header in compressed form, `before` being the header before it in its block.
    pub(crate) fn write_compressed<const V6: bool>(&self, before: &Self, out: &mut Vec<u8>) {
        let expected = before.sequence.wrapping_add(u32::from(self.metadata_id != 0));
        let capture = self.capture_thread != before.capture_thread
            || self.processor != before.processor
            || self.sequence != expected;
        let mut which = 0;
        let mut set = |flag: u8, differs: bool| which |= if differs { flag } else { 0 };
        set(flags::METADATA_ID, self.metadata_id != before.metadata_id);
        set(flags::CAPTURE, capture);
        set(flags::THREAD, self.thread != before.thread);
        set(flags::STACK_ID, self.stack_id != before.stack_id);
        if V6 {
            set(flags::ACTIVITY_OR_LABELS, self.label_list != before.label_list);
        } else {
            set(flags::ACTIVITY_OR_LABELS, self.activity_id != before.activity_id);
            set(
                flags::RELATED_ACTIVITY,
                self.related_activity_id != before.related_activity_id,
            );
        }
        set(flags::SORTED, self.is_sorted);
        set(flags::PAYLOAD_SIZE, self.payload_size != before.payload_size);
        out.push(which);
        if which & flags::METADATA_ID != 0 {
            put_varu32(out, self.metadata_id);
        }
        if capture {
            put_varu32(out, self.sequence.wrapping_sub(before.sequence).wrapping_sub(1));
            put_varu64(out, self.capture_thread);
            put_varu32(out, self.processor);
        }
        if which & flags::THREAD != 0 {
            put_varu64(out, self.thread);
        }
        if which & flags::STACK_ID != 0 {
            put_varu32(out, self.stack_id);
        }
        put_varu64(out, self.timestamp.wrapping_sub(before.timestamp) as u64);
        if which & flags::ACTIVITY_OR_LABELS != 0 {
            if V6 {
                put_varu32(out, self.label_list);
            } else {
                out.extend(self.activity_id);
            }
        }
        if which & flags::RELATED_ACTIVITY != 0 {
            out.extend(self.related_activity_id);
        }
        if which & flags::PAYLOAD_SIZE != 0 {
            put_varu32(out, self.payload_size);
        }
    }

    /// Appends this header whole. The payload follows, and in V4 zeros up to a multiple of 4.
    pub(crate) fn write_whole<const V6: bool>(&self, out: &mut Vec<u8>) {
        let header: u32 = if V6 { 52 } else { 80 };
        out.extend((header - 4).saturating_add(self.payload_size).to_le_bytes());
        let marker = if self.is_sorted { 0 } else { UNSORTED };
        out.extend((self.metadata_id & !UNSORTED | marker).to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.thread.to_le_bytes());
        out.extend(self.capture_thread.to_le_bytes());
        out.extend(self.processor.to_le_bytes());
        out.extend(self.stack_id.to_le_bytes());
        out.extend(self.timestamp.to_le_bytes());
        if V6 {
            out.extend(self.label_list.to_le_bytes());
        } else {
            out.extend(self.activity_id);
            out.extend(self.related_activity_id);
        }
        out.extend(self.payload_size.to_le_bytes());
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(v6: bool) -> impl Strategy<Value = BlobHeader> {
        // Few values, so that equal neighbours, and with them every set of flags, come often.
        let small = |values: [u64; 4]| prop::sample::select(values.to_vec());
        let words = (
            small([0, 1, 2, 0x7fff_ffff]),
            small([0, 1, 2, u64::from(u32::MAX)]),
            small([0, 3, 5, u64::MAX]),
        );
        let more = (
            small([0, 3, 128, u64::MAX]),
            small([0, 1, 300, u64::from(u32::MAX)]),
            small([0, 7, 8, 1 << 40]),
        );
        let ids = (
            prop::bool::ANY,
            prop::bool::ANY,
            prop::bool::ANY,
            prop::sample::select(vec![0, 1, 3, 200]),
        );
        (words, more, ids).prop_map(move |(words, more, ids)| BlobHeader {
            metadata_id: words.0 as u32,
            sequence: words.1 as u32,
            capture_thread: words.2,
            thread: more.0,
            processor: more.1 as u32,
            timestamp: more.2 as i64,
            stack_id: u32::from(ids.0),
            label_list: if v6 { u32::from(ids.1) * 129 } else { 0 },
            activity_id: if v6 { [0; 16] } else { [u8::from(ids.1); 16] },
            related_activity_id: if v6 { [0; 16] } else { [u8::from(ids.2) * 9; 16] },
            is_sorted: ids.0 != ids.2,
            payload_size: ids.3,
        })
    }

    fn write(layout: HeaderLayout, headers: &[BlobHeader]) -> Vec<u8> {
        let (mut out, mut before) = (Vec::new(), BlobHeader::default());
        for header in headers {
            match layout {
                HeaderLayout::V4Compressed => header.write_compressed::<false>(&before, &mut out),
                HeaderLayout::V6Compressed => header.write_compressed::<true>(&before, &mut out),
                HeaderLayout::V4Whole => header.write_whole::<false>(&mut out),
                HeaderLayout::V6Whole => header.write_whole::<true>(&mut out),
            }
            out.extend(std::iter::repeat_n(0xAA, header.payload_size as usize));
            if layout == HeaderLayout::V4Whole {
                out.resize(out.len().next_multiple_of(4), 0);
            }
            before = *header;
        }
        out
    }

    fn read(layout: HeaderLayout, content: &[u8]) -> (Vec<BlobHeader>, Option<Error>) {
        let mut blobs = Blobs::new(layout, content, 0);
        let mut headers = Vec::new();
        loop {
            match blobs.next_blob() {
                Ok(Some((header, payload))) => {
                    assert!(payload.iter().all(|byte| *byte == 0xAA));
                    headers.push(header);
                }
                Ok(None) => return (headers, None),
                Err(error) => return (headers, Some(error)),
            }
        }
    }

    fn comes_back(layout: HeaderLayout, headers: &[BlobHeader], cut: usize) -> Result<(), TestCaseError> {
        let content = write(layout, headers);
        let (read_back, error) = read(layout, &content);
        prop_assert_eq!(error, None);
        prop_assert_eq!(&read_back[..], headers);
        let cut = cut % (content.len() + 1);
        let (fewer, _) = read(layout, &content[..cut]);
        prop_assert!(fewer.len() <= headers.len());
        prop_assert_eq!(&fewer[..], &headers[..fewer.len()]);
        Ok(())
    }

    proptest! {
        /// Scenario: any headers after each other in one block, in V4's two layouts; then the block is cut anywhere.
        /// Guarantee: every field comes back; the cut block gives a prefix and no panic.
        #[test]
        fn v4_headers_come_back(headers in prop::collection::vec(header(false), 1..20), cut: usize) {
            comes_back(HeaderLayout::V4Compressed, &headers, cut)?;
            comes_back(HeaderLayout::V4Whole, &headers, cut)?;
        }

        /// Scenario: the same in V6's two layouts.
        /// Guarantee: the same.
        #[test]
        fn v6_headers_come_back(headers in prop::collection::vec(header(true), 1..20), cut: usize) {
            comes_back(HeaderLayout::V6Compressed, &headers, cut)?;
            comes_back(HeaderLayout::V6Whole, &headers, cut)?;
        }

        /// Scenario: bytes that are no headers.
        /// Guarantee: no panic, and at most one blob per two bytes (so it ends).
        #[test]
        fn any_bytes_end(content in prop::collection::vec(any::<u8>(), 0..300)) {
            for layout in [
                HeaderLayout::V4Compressed, HeaderLayout::V4Whole, HeaderLayout::V6Compressed, HeaderLayout::V6Whole,
            ] {
                let mut blobs = Blobs::new(layout, &content, 0);
                let mut count = 0;
                while let Ok(Some(_)) = blobs.next_blob() {
                    count += 1;
                }
                prop_assert!(count * 2 <= content.len());
            }
        }
    }

    /// Scenario: the definition and the event of a recording without a collection (.NET 10), as bytes.
    /// Guarantee: the fields that were read from them by hand.
    #[test]
    fn the_worked_example_is_read() {
        let definition = [
            0xC6, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0xD0, 0x60, 0xFE, 0xCF, 0xF6, 0xA3,
            0xF7, 0x21, 0x00,
        ];
        let (headers, error) = read(HeaderLayout::V4Compressed, &definition);
        assert_eq!(error, None);
        assert_eq!(
            headers,
            [BlobHeader {
                sequence: 0,
                processor: u32::MAX,
                thread: 12368,
                timestamp: 0x0021 << 35 | 0x77 << 28 | 0x23 << 21 | 0x76 << 14 | 0x4f << 7 | 0x7e,
                is_sorted: true,
                ..BlobHeader::default()
            }]
        );
        let event = [
            0xCF, 0x01, 0x00, 0xD0, 0x60, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0xD0, 0x60, 0x01, 0xFE, 0xCF, 0xF6, 0xA3, 0xF7,
            0x21, 0x00,
        ];
        let (headers, error) = read(HeaderLayout::V4Compressed, &event);
        assert_eq!(error, None);
        assert_eq!(
            (headers[0].metadata_id, headers[0].sequence, headers[0].capture_thread),
            (1, 1, 12368)
        );
        assert_eq!((headers[0].thread, headers[0].stack_id), (12368, 1));
    }
}
