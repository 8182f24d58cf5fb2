//! Parses any bytes as a definition. A parsed definition round-trips unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace::encode::{Encoder, EventRecord};
use nettrace::{Decoder, Format, Item, Metadata, Options, PointerSize, TraceHeader};

/// Writes a definition to a stream and reads it back. Returns `None` if the definition cannot be written.
fn again(metadata: &Metadata, format: Format) -> Option<Metadata> {
    let header = TraceHeader {
        format,
        frequency: 1,
        pointer_size: PointerSize::Four,
        ..TraceHeader::default()
    };
    let mut encoder = Encoder::new(format, &header).ok()?;
    encoder.metadata(metadata).ok()?;
    encoder
        .event(&EventRecord {
            metadata_id: metadata.id,
            ..EventRecord::default()
        })
        .ok()?;
    let mut decoder = Decoder::new(Options::default());
    decoder.push(&encoder.finish().ok()?);
    decoder.finish();
    let mut found = None;
    while let Some(item) = decoder.next_item().expect("a written stream can be read") {
        if let Item::Event(event) = item {
            found = Some(event.metadata.clone());
        }
    }
    assert!(found.is_some());
    found
}

fuzz_target!(|input: &[u8]| {
    if let Ok(mut metadata) = Metadata::read_v4(input, 0) {
        // Uncompressed headers have 31 bits for an id, and opcode 0 means no opcode.
        metadata.opcode = metadata.opcode.filter(|opcode| *opcode != 0);
        if let Some(again) = again(&metadata, Format::V4) {
            assert_eq!(again, metadata);
        }
    }
    if let Ok(metadata) = Metadata::read_v6(input, 0) {
        if let Some(again) = again(&metadata, Format::V6 { minor: 0 }) {
            assert_eq!(again, metadata);
        }
    }
});
