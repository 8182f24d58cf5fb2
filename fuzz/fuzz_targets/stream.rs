//! Reads any bytes as a stream, as the rest of a complete stream, and as changes of a complete stream. Reading ends
//! without a panic, with the same result for every piece size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace::encode::{Encoder, EventRecord, Label, ThreadRecord};
use nettrace::limits::Limits;
use nettrace::{Decoder, Ending, Error, Format, Item, Metadata, Options, Order, Stats, TraceHeader};

/// Builds a stream with every kind of block.
fn whole(format: Format, compressed: bool) -> Option<Vec<u8>> {
    let header = TraceHeader {
        format,
        process_id: Some(1),
        ..TraceHeader::default()
    };
    let v6 = format != Format::V4;
    let mut encoder = Encoder::new(format, &header).ok()?.compressed(compressed);
    for id in 1..3 {
        encoder
            .metadata(&Metadata {
                id,
                event_id: id,
                opcode: Some(1),
                ..Metadata::default()
            })
            .ok()?;
    }
    if v6 {
        encoder
            .threads(&[ThreadRecord {
                index: 1,
                thread: Some(5),
                process: Some(6),
                name: Some("t"),
            }])
            .ok()?;
    }
    for point in 0..2_i64 {
        encoder.stack_block(1, &[b"", b"12345678"]).ok()?;
        for event in 0..6_u32 {
            let labels: &[Label] = if v6 && event == 4 {
                &[Label::Version(2), Label::Span(1)]
            } else {
                &[]
            };
            let record = EventRecord {
                metadata_id: 1 + event % 2,
                sequence: point as u32 * 8 + event + 1,
                capture_thread: 1 + u64::from(event / 3),
                thread: 1,
                processor: None,
                stack_id: event % 3,
                timestamp: point * 100 + i64::from(event % 3) * 10,
                activity_id: (event == 5).then_some([3; 16]),
                related_activity_id: None,
                is_sorted: event == 0,
                labels,
                payload: b"payload",
            };
            encoder.event(&record).ok()?;
        }
        encoder.sequence_point(point * 100 + 50, &[(1, 9), (2, 9)]).ok()?;
    }
    if v6 {
        encoder.remove_threads(&[(1, 20)]).ok()?;
    }
    encoder.finish().ok()
}

/// The result of reading a stream: a checksum of the items, the counts, and the end.
#[derive(Debug, PartialEq)]
struct Delivered {
    sum: u64,
    stats: Stats,
    error: Option<Error>,
    ending: Option<Ending>,
}

fn read(bytes: &[u8], piece: usize, how: u8) -> Delivered {
    let mut decoder = Decoder::new(Options {
        order: if how & 1 == 0 { Order::Time } else { Order::File },
        stacks: how & 2 != 0,
        limits: if how & 4 == 0 {
            Limits::for_one_live_process()
        } else {
            Limits {
                max_pending_bytes: 500,
                ..Limits::for_files()
            }
        },
        interest: if how & 8 == 0 {
            Box::new(|_| Some(7))
        } else {
            Box::new(|metadata| (metadata.event_id != 2).then_some(metadata.event_id))
        },
    });
    let (mut sum, mut pieces) = (0_u64, bytes.chunks(piece));
    let error = loop {
        let waits = match decoder.next_item() {
            Ok(Some(Item::Event(event))) => {
                let frames = event.stack.map_or(0, |stack| stack.frames().fold(0, u64::wrapping_add));
                let bytes = event
                    .payload
                    .iter()
                    .fold(0, |sum, byte| sum * 31 % 65_537 + u64::from(*byte));
                sum = sum
                    .wrapping_mul(31)
                    .wrapping_add(frames ^ bytes ^ event.thread ^ event.timestamp as u64);
                false
            }
            Ok(Some(Item::Gap(gap))) => {
                sum = sum.wrapping_mul(37).wrapping_add(gap.lost ^ gap.before as u64);
                false
            }
            Ok(Some(_)) => {
                sum = sum.wrapping_mul(41);
                false
            }
            Ok(None) => true,
            // The error contains the number of available bytes, which depends on the pieces.
            Err(Error::NotNettrace { .. }) => break Some(Error::NotNettrace { start: Vec::new() }),
            Err(error) => break Some(error),
        };
        if waits && decoder.ending().is_some() {
            break None;
        }
        if waits {
            match pieces.next() {
                Some(piece) => decoder.push(piece),
                None => decoder.finish(),
            }
        }
    };
    // The number of bytes at which the end was found depends on the size of the pieces.
    let mut stats = *decoder.stats();
    (stats.bytes, stats.trailing_bytes) = (0, 0);
    assert!(stats.delivered + stats.uninteresting + stats.unknown_metadata == stats.events);
    Delivered {
        sum,
        stats,
        error,
        ending: decoder.ending(),
    }
}

fuzz_target!(|input: &[u8]| {
    let [kind, how, piece, rest @ ..] = input else {
        return;
    };
    let format = if kind & 1 == 0 {
        Format::V4
    } else {
        Format::V6 { minor: 0 }
    };
    let bytes = match kind >> 1 & 3 {
        // The stream consists of the bytes.
        0 => rest.to_vec(),
        // The bytes follow a complete stream without its end.
        1 => {
            let mut bytes = whole(format, kind & 8 == 0).unwrap_or_default();
            bytes.truncate(bytes.len().saturating_sub(if format == Format::V4 { 1 } else { 4 }));
            bytes.extend(rest);
            bytes
        }
        // The bytes replace some bytes of a complete stream.
        _ => {
            let mut bytes = whole(format, kind & 8 == 0).unwrap_or_default();
            for change in rest.chunks_exact(3) {
                let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
                bytes[place] = change[2];
            }
            bytes
        }
    };
    let at_once = read(&bytes, bytes.len().max(1), *how);
    let in_pieces = read(&bytes, usize::from(*piece) + 1, *how);
    assert_eq!(at_once, in_pieces);
});
