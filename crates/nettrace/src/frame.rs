//! Parses bytes into blocks: the prolog, V4 objects and V6 blocks.
//!
//! Every function inspects the available bytes and returns a result, requests more bytes, or rejects the bytes. No
//! function waits for bytes that cannot arrive.

use crate::cursor::Cursor;
use crate::error::Error;
use crate::header::Format;
use crate::limits::MAX_TYPE_NAME_BYTES;

/// Start of every stream.
pub(crate) const MAGIC: &[u8; 8] = b"Nettrace";
/// Text after the magic and a length in V4. Older streams (NetPerf) start with the length and this text, without the
/// magic.
pub(crate) const SERIALIZATION: &[u8; 20] = b"!FastSerialization.1";
/// Tags of V4 objects.
pub(crate) const TAG_NULL: u8 = 1;
pub(crate) const TAG_BEGIN: u8 = 5;
pub(crate) const TAG_END: u8 = 6;
/// Versions of the V4 `Trace` object and of V4 blocks.
pub(crate) const TRACE_VERSION: u32 = 4;
pub(crate) const BLOCK_VERSION: u32 = 2;
/// Major version of V6.
pub(crate) const MAJOR_VERSION: u32 = 6;

/// The outcome of parsing the available bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameProgress<T> {
    /// There are too few bytes. Contains the part of the stream that is incomplete.
    Part(&'static str),
    /// The value, and its size in bytes.
    Whole(T, usize),
}

/// A kind of block (V4: type of object).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Trace,
    Metadata,
    Event,
    Stack,
    SequencePoint,
    Thread,
    RemoveThread,
    LabelList,
    Unknown,
}

impl BlockKind {
    /// Returns the name for errors and endings.
    pub(crate) fn reading(self) -> &'static str {
        match self {
            Self::Trace => "the Trace object",
            Self::Metadata => "a metadata block",
            Self::Event => "an event block",
            Self::Stack => "a stack block",
            Self::SequencePoint => "a sequence point block",
            Self::Thread => "a thread block",
            Self::RemoveThread => "a remove-thread block",
            Self::LabelList => "a label list block",
            Self::Unknown => "a block of an unknown kind",
        }
    }

    /// Returns the type name in V4.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Trace => "Trace",
            Self::Metadata => "MetadataBlock",
            Self::Event => "EventBlock",
            Self::Stack => "StackBlock",
            Self::SequencePoint => "SPBlock",
            Self::Thread | Self::RemoveThread | Self::LabelList | Self::Unknown => "",
        }
    }

    /// Returns the number in V6; 0 is the end of the stream.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Trace => 1,
            Self::Event => 2,
            Self::Metadata => 3,
            Self::SequencePoint => 4,
            Self::Stack => 5,
            Self::Thread => 6,
            Self::RemoveThread => 7,
            Self::LabelList => 8,
            Self::Unknown => 255,
        }
    }
}

/// The next block, or the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// The stream's end tag.
    End,
    /// A block, with the size of its content in bytes. V4's `Trace` object has no length field because its size is
    /// fixed.
    Block(BlockKind, usize),
}

/// Parses the bytes before the first object or block.
pub(crate) fn prolog(bytes: &[u8]) -> Result<FrameProgress<Format>, Error> {
    const READING: &str = "the prolog";
    let length = bytes.len().min(MAGIC.len());
    if bytes.get(..length) != MAGIC.get(..length) {
        return foreign(bytes);
    }
    let mut cursor = Cursor::new(bytes, 0);
    if cursor.take(MAGIC.len(), READING).is_err() {
        return Ok(FrameProgress::Part("the magic"));
    }
    let offset = cursor.offset();
    let Ok(first) = cursor.u32(READING) else {
        return Ok(FrameProgress::Part(READING));
    };
    match first {
        0 => {
            let (Ok(major), Ok(minor)) = (cursor.u32(READING), cursor.u32(READING)) else {
                return Ok(FrameProgress::Part(READING));
            };
            if major != MAJOR_VERSION {
                return Err(Error::UnsupportedVersion { major, minor });
            }
            Ok(FrameProgress::Whole(Format::V6 { minor }, cursor.position()))
        }
        20 => {
            let there = cursor.remaining().min(SERIALIZATION.len());
            let text = cursor.take(there, READING)?;
            if SERIALIZATION.get(..there) != Some(text) {
                return Err(Error::corrupt(
                    offset,
                    READING,
                    "the serialization is not !FastSerialization.1",
                ));
            }
            if there < SERIALIZATION.len() {
                return Ok(FrameProgress::Part(READING));
            }
            Ok(FrameProgress::Whole(Format::V4, cursor.position()))
        }
        _ => Err(Error::corrupt(
            offset,
            READING,
            "it is neither the serialization of V4 nor the version of V6",
        )),
    }
}

/// Rejects bytes that do not start with the magic, or requests more bytes if the stream can still be NetPerf.
fn foreign(bytes: &[u8]) -> Result<FrameProgress<Format>, Error> {
    let mut netperf = 20_u32.to_le_bytes().to_vec();
    netperf.extend(SERIALIZATION);
    let length = bytes.len().min(netperf.len());
    if netperf.get(..length) != bytes.get(..length) {
        return Err(Error::NotNettrace {
            start: bytes.get(..bytes.len().min(8)).unwrap_or_default().to_vec(),
        });
    }
    if length < netperf.len() {
        return Ok(FrameProgress::Part("the magic"));
    }
    Err(Error::NetPerf)
}

/// Parses the head of the next V4 object, at `offset` in the stream, up to its content.
pub(crate) fn object(bytes: &[u8], offset: u64) -> Result<FrameProgress<Head>, Error> {
    const BETWEEN: &str = "the stream between two objects, before the end tag";
    const READING: &str = "the head of an object";
    let mut cursor = Cursor::new(bytes, offset);
    for (place, tag) in [TAG_BEGIN, TAG_BEGIN, TAG_NULL].into_iter().enumerate() {
        match bytes.get(place) {
            Some(&TAG_NULL) if place == 0 => return Ok(FrameProgress::Whole(Head::End, 1)),
            Some(found) if *found == tag => {}
            Some(_) => return Err(Error::corrupt(offset, READING, "no object starts here")),
            None if place == 0 => return Ok(FrameProgress::Part(BETWEEN)),
            None => return Ok(FrameProgress::Part(READING)),
        }
    }
    cursor.take(3, READING)?;
    let (Ok(version), Ok(min_reader_version)) = (cursor.u32(READING), cursor.u32(READING)) else {
        return Ok(FrameProgress::Part(READING));
    };
    let at_length = cursor.offset();
    let Ok(length) = cursor.u32(READING) else {
        return Ok(FrameProgress::Part(READING));
    };
    if length as usize > MAX_TYPE_NAME_BYTES {
        return Err(Error::limit(at_length, READING, length as usize, MAX_TYPE_NAME_BYTES));
    }
    let Ok(name) = cursor.take(length as usize, READING) else {
        return Ok(FrameProgress::Part(READING));
    };
    let at_end = cursor.offset();
    match cursor.u8(READING) {
        Ok(TAG_END) => {}
        Ok(_) => return Err(Error::corrupt(at_end, READING, "the type's end tag is missing")),
        Err(_) => return Ok(FrameProgress::Part(READING)),
    }
    let kinds = [
        BlockKind::Trace,
        BlockKind::Metadata,
        BlockKind::Event,
        BlockKind::Stack,
        BlockKind::SequencePoint,
    ];
    let kind = kinds
        .into_iter()
        .find(|kind| kind.type_name().as_bytes() == name)
        .unwrap_or(BlockKind::Unknown);
    if kind == BlockKind::Trace {
        if version < TRACE_VERSION || min_reader_version > TRACE_VERSION {
            return Err(Error::UnsupportedVersion {
                major: version.min(min_reader_version),
                minor: 0,
            });
        }
        return Ok(FrameProgress::Whole(
            Head::Block(kind, crate::TraceHeader::V4_BYTES),
            cursor.position(),
        ));
    }
    if min_reader_version > BLOCK_VERSION {
        return Err(Error::UnsupportedObject {
            offset,
            min_reader_version,
        });
    }
    let Ok(size) = cursor.u32(READING) else {
        return Ok(FrameProgress::Part(kind.reading()));
    };
    // The content is aligned to a multiple of 4 in the whole stream.
    let filling = (cursor.offset().next_multiple_of(4) - cursor.offset()) as usize;
    if cursor.take(filling, READING).is_err() {
        return Ok(FrameProgress::Part(kind.reading()));
    }
    Ok(FrameProgress::Whole(
        Head::Block(kind, size as usize),
        cursor.position(),
    ))
}

/// Parses the head of the next V6 block, up to its content.
pub(crate) fn block(bytes: &[u8]) -> FrameProgress<Head> {
    let Ok(word) = Cursor::new(bytes, 0).u32("") else {
        return FrameProgress::Part(if bytes.is_empty() {
            "the stream between two blocks, before the end"
        } else {
            "the head of a block"
        });
    };
    let kinds = [
        BlockKind::Trace,
        BlockKind::Event,
        BlockKind::Metadata,
        BlockKind::SequencePoint,
        BlockKind::Stack,
        BlockKind::Thread,
        BlockKind::RemoveThread,
        BlockKind::LabelList,
    ];
    let (number, size) = (word >> 24, (word & 0x00ff_ffff) as usize);
    if number == 0 {
        return FrameProgress::Whole(Head::End, 4);
    }
    let kind = kinds
        .into_iter()
        .find(|kind| kind.number() == number)
        .unwrap_or(BlockKind::Unknown);
    FrameProgress::Whole(Head::Block(kind, size), 4)
}

/// The header of an event block or a V4 metadata block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Length of the header, in bytes from the start of the content.
    pub(crate) bytes: usize,
    /// Whether the headers of events are delta-encoded.
    pub(crate) compressed: bool,
}

impl BlockHeader {
    /// Minimum length, in bytes: two u16 and two timestamps.
    pub(crate) const MIN_BYTES: usize = 20;
    /// Flag for compressed headers.
    pub(crate) const COMPRESSED: u16 = 1;

    pub(crate) fn read(content: &[u8], base: u64) -> Result<Self, Error> {
        const READING: &str = "the header of a block";
        let mut cursor = Cursor::new(content, base);
        let bytes = usize::from(cursor.u16(READING)?);
        let compressed = cursor.u16(READING)? & Self::COMPRESSED != 0;
        if bytes < Self::MIN_BYTES || bytes > content.len() {
            return Err(Error::corrupt(
                base,
                READING,
                "its length is below 20 or beyond the block",
            ));
        }
        Ok(Self { bytes, compressed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4_prolog() -> Vec<u8> {
        [&MAGIC[..], &20_u32.to_le_bytes(), SERIALIZATION].concat()
    }

    /// Scenario: both prologs are cut at every position.
    /// Guarantee: a prolog is complete at its full length, incomplete before, and never an error.
    #[test]
    fn prolog_is_complete_at_full_length() {
        let v6 = [&MAGIC[..], &[0; 4], &[6, 0, 0, 0], &[9, 0, 0, 0]].concat();
        for (bytes, format) in [(v4_prolog(), Format::V4), (v6, Format::V6 { minor: 9 })] {
            for cut in 0..bytes.len() {
                assert!(matches!(prolog(&bytes[..cut]), Ok(FrameProgress::Part(_))), "{cut}");
            }
            assert_eq!(prolog(&bytes), Ok(FrameProgress::Whole(format, bytes.len())));
        }
    }

    /// Scenario: a stream is gzip, NetPerf, V7, or has another serialization.
    /// Guarantee: each stream has a specific error, as soon as no other format is possible.
    #[test]
    fn foreign_stream_is_refused() {
        assert!(matches!(prolog(b"\x1f\x8b"), Err(Error::NotNettrace { .. })));
        assert!(matches!(prolog(b"NettracE"), Err(Error::NotNettrace { .. })));
        let netperf = [&20_u32.to_le_bytes()[..], SERIALIZATION].concat();
        assert!(matches!(prolog(&netperf[..23]), Ok(FrameProgress::Part(_))));
        assert_eq!(prolog(&netperf), Err(Error::NetPerf));
        let v7 = [&MAGIC[..], &[0; 4], &[7, 0, 0, 0], &[1, 0, 0, 0]].concat();
        assert_eq!(prolog(&v7), Err(Error::UnsupportedVersion { major: 7, minor: 1 }));
        assert!(matches!(
            prolog(b"Nettrace\x15\0\0\0"),
            Err(Error::Corrupt { offset: 8, .. })
        ));
        let mut other = v4_prolog();
        other[31] = b'2';
        assert!(matches!(prolog(&other), Err(Error::Corrupt { .. })));
    }

    fn head(name: &[u8], version: u32, min_reader_version: u32) -> Vec<u8> {
        let words = [version, min_reader_version, name.len() as u32]
            .map(u32::to_le_bytes)
            .concat();
        [&[TAG_BEGIN, TAG_BEGIN, TAG_NULL][..], &words, name, &[TAG_END]].concat()
    }

    /// Scenario: an event block has each possible alignment and is cut at every position.
    /// Guarantee: the content starts at a multiple of 4 in the stream, and the padding belongs to the head.
    #[test]
    fn content_is_aligned_in_the_stream() {
        for offset in 32..36 {
            let mut bytes = head(b"EventBlock", 2, 2);
            bytes.extend(77_u32.to_le_bytes());
            bytes.extend([0; 3]);
            let Ok(FrameProgress::Whole(kind, length)) = object(&bytes, offset) else {
                panic!()
            };
            assert_eq!(kind, Head::Block(BlockKind::Event, 77));
            assert_eq!((offset + length as u64) % 4, 0);
            for cut in 0..length {
                assert!(
                    matches!(object(&bytes[..cut], offset), Ok(FrameProgress::Part(_))),
                    "{cut}"
                );
            }
        }
    }

    /// Scenario: objects are invalid, too new, or unknown.
    /// Guarantee: invalid objects are errors with their offset, newer objects have a dedicated error, and unknown
    /// objects have a size to skip.
    #[test]
    fn invalid_object_is_refused() {
        assert!(matches!(object(&[9], 40), Err(Error::Corrupt { offset: 40, .. })));
        assert!(matches!(object(&[5, 4], 40), Err(Error::Corrupt { offset: 40, .. })));
        assert!(matches!(
            object(&head(&[b'x'; 65], 2, 2), 40),
            Err(Error::LimitExceeded { value: 65, .. })
        ));
        assert!(matches!(
            object(&head(b"EventBlock", 3, 3), 40),
            Err(Error::UnsupportedObject {
                min_reader_version: 3,
                ..
            })
        ));
        assert!(matches!(
            object(&head(b"Trace", 5, 5), 40),
            Err(Error::UnsupportedVersion { major: 5, .. })
        ));
        assert!(matches!(
            object(&head(b"Trace", 5, 4), 40),
            Ok(FrameProgress::Whole(Head::Block(BlockKind::Trace, 48), _))
        ));
        let mut unknown = head(b"NewBlock", 2, 0);
        unknown.extend([5, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(
            object(&unknown, 40),
            Ok(FrameProgress::Whole(Head::Block(BlockKind::Unknown, 5), _))
        ));
        assert_eq!(object(&[TAG_NULL], 40), Ok(FrameProgress::Whole(Head::End, 1)));
    }

    /// Scenario: V6 block heads have known and unknown kinds.
    /// Guarantee: each head is split into kind and size, so that unknown kinds can be skipped.
    #[test]
    fn v6_block_head_is_split() {
        assert_eq!(
            block(&[5, 1, 0, 2]),
            FrameProgress::Whole(Head::Block(BlockKind::Event, 0x105), 4)
        );
        assert_eq!(
            block(&[5, 0, 0, 200]),
            FrameProgress::Whole(Head::Block(BlockKind::Unknown, 5), 4)
        );
        assert_eq!(block(&[0, 0, 0, 0]), FrameProgress::Whole(Head::End, 4));
        assert!(matches!(block(&[0, 0, 0]), FrameProgress::Part(_)));
    }
}
