//! Round trips of headers in each layout, and headers of a recording decoded by hand.

use proptest::prelude::*;

use super::*;
use crate::error::Error;

fn header(v6: bool) -> impl Strategy<Value = BlobHeader> {
    // A small set of values makes equal neighbours likely, and therefore every combination of flags.
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

fn round_trip(layout: HeaderLayout, headers: &[BlobHeader], cut: usize) -> Result<(), TestCaseError> {
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
    /// Scenario: a block contains arbitrary headers, in both V4 layouts, and is then cut at any position.
    /// Guarantee: every field round-trips; the cut block yields a prefix of the headers without a panic.
    #[test]
    fn v4_headers_round_trip(headers in prop::collection::vec(header(false), 1..20), cut: usize) {
        round_trip(HeaderLayout::V4Compressed, &headers, cut)?;
        round_trip(HeaderLayout::V4Whole, &headers, cut)?;
    }

    /// Scenario: a block contains arbitrary headers, in both V6 layouts, and is then cut at any position.
    /// Guarantee: every field round-trips; the cut block yields a prefix of the headers without a panic.
    #[test]
    fn v6_headers_round_trip(headers in prop::collection::vec(header(true), 1..20), cut: usize) {
        round_trip(HeaderLayout::V6Compressed, &headers, cut)?;
        round_trip(HeaderLayout::V6Whole, &headers, cut)?;
    }

    /// Scenario: a block contains arbitrary bytes.
    /// Guarantee: the reader does not panic and returns at most one blob per two bytes, so it terminates.
    #[test]
    fn reader_terminates_on_arbitrary_bytes(content in prop::collection::vec(any::<u8>(), 0..300)) {
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

/// Scenario: the bytes are the definition and the event of a recording without a collection (.NET 10).
/// Guarantee: the fields have the values that were decoded by hand.
#[test]
fn recorded_headers_match_values_decoded_by_hand() {
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
