//! Parses any bytes as the events of a block. Parsing ends in every layout, and a stream delivers exactly the events of
//! the block up to the first damage.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace::blob::{Blobs, HeaderLayout};
use nettrace::{Decoder, Item, Options, Order};

/// Builds a V4 stream with the definition of id 1 and one block with the given content.
fn stream(content: &[u8]) -> Vec<u8> {
    let mut out = b"Nettrace\x14\0\0\0!FastSerialization.1".to_vec();
    let trace = [&[0; 24][..], &1_i64.to_le_bytes(), &8_u32.to_le_bytes(), &[0; 12]].concat();
    object(&mut out, b"Trace", 4, &trace);
    let definition = [&1_u32.to_le_bytes()[..], &[0; 2], &[0; 4], &[0; 2], &[0; 20]].concat();
    let blob = [&[0x80, 0, definition.len() as u8][..], &definition].concat();
    object(&mut out, b"MetadataBlock", 2, &[&block_header()[..], &blob].concat());
    object(&mut out, b"EventBlock", 2, &[&block_header()[..], content].concat());
    out.push(1);
    out
}

fn block_header() -> Vec<u8> {
    [&20_u16.to_le_bytes()[..], &1_u16.to_le_bytes(), &[0; 16]].concat()
}

fn object(out: &mut Vec<u8>, name: &[u8], version: u32, content: &[u8]) {
    out.extend([5, 5, 1]);
    for number in [version, version, name.len() as u32] {
        out.extend(number.to_le_bytes());
    }
    out.extend(name);
    out.push(6);
    if name != b"Trace" {
        out.extend((content.len() as u32).to_le_bytes());
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out.extend(content);
    out.push(6);
}

fuzz_target!(|content: &[u8]| {
    for layout in [HeaderLayout::V4Whole, HeaderLayout::V6Compressed, HeaderLayout::V6Whole] {
        let mut blobs = Blobs::new(layout, content, 0);
        while let Ok(Some((header, payload))) = blobs.next_blob() {
            assert_eq!(header.payload_size as usize, payload.len());
        }
    }
    let mut decoder = Decoder::new(Options {
        order: Order::File,
        ..Options::default()
    });
    decoder.push(&stream(content));
    decoder.finish();
    let mut blobs = Blobs::new(HeaderLayout::V4Compressed, content, 0);
    loop {
        match decoder.next_item() {
            Ok(Some(Item::Event(event))) => {
                let expected = loop {
                    match blobs.next_blob() {
                        Ok(Some((header, payload))) if header.metadata_id == 1 => break (header, payload),
                        Ok(Some(_)) => {}
                        other => panic!("{other:?}"),
                    }
                };
                assert_eq!((event.timestamp, event.payload), (expected.0.timestamp, expected.1));
                assert_eq!((event.sequence, event.thread), (expected.0.sequence, expected.0.thread));
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                while let Some((header, _)) = blobs.next_blob().expect("the decoder found no damage") {
                    assert_ne!(header.metadata_id, 1);
                }
                break;
            }
            Err(_) => break,
        }
    }
});
