//! Damaged and hostile streams.

use nettrace::encode::{Encoder, EventRecord};
use nettrace::{Decoder, Error, Format, Metadata, Options, Order, limits};

use crate::decoded::{drain, everything, story, story_in_pieces};
use crate::recordings::{self, Seeded};
use crate::round_trip::{encoder, header};

/// Scenario: recordings have one to eight flipped bits each, at seeded positions.
/// Guarantee: decoding ends without a panic, with no more events than the bytes can contain.
#[test]
fn flipped_bytes_do_not_break_decoding() {
    let mut seeded = Seeded::new(7);
    for name in [
        "net10-idle",
        "net31-fin",
        "net10b-attach-in-bgc",
        "net8-leak",
        "net10-threads-server",
    ] {
        let bytes = recordings::bytes(name);
        for _ in 0..400 {
            let mut damaged = bytes.clone();
            for _ in 0..=seeded.below(8) {
                let place = seeded.below(damaged.len());
                damaged[place] ^= 1 << seeded.below(8);
            }
            let story = story_in_pieces(&damaged, everything(Order::Time), 1 + seeded.below(5000));
            assert!(story.stats.events <= bytes.len() as u64 / 2, "{name}");
        }
    }
}

/// Returns the positions of a type name in a stream.
fn places(bytes: &[u8], name: &[u8]) -> Vec<usize> {
    (0..bytes.len())
        .filter(|place| bytes[*place..].starts_with(name))
        .collect()
}

/// Scenario: the start of a later block is damaged, or an event in this block.
/// Guarantee: all events before the damage are delivered first, including events that waited for their order;
/// afterwards, every call returns the error, which contains the offset.
#[test]
fn events_before_damage_are_delivered() {
    let bytes = recordings::bytes("net31-fin");
    let whole = story(&bytes, everything(Order::File));
    let blocks = places(&bytes, b"EventBlock");
    let block = blocks[7];
    let mut damaged = bytes.clone();
    damaged[block - 15] = 9;
    let cut = story(&bytes[..block - 15], everything(Order::Time));
    for order in [Order::Time, Order::File] {
        let story = story(&damaged, everything(order));
        assert_eq!(
            story.error.as_ref().and_then(Error::offset),
            Some(block as u64 - 15),
            "{:?}",
            story.error
        );
        assert_eq!(story.events().len(), cut.events().len());
        assert_eq!(story.ending, None);
        if order == Order::File {
            assert!(story.events() == whole.events()[..cut.events().len()]);
        }
    }
    // The payload of the first event becomes longer than the block. 10 bytes of name, the tag, the size, the padding
    // and 20 bytes of header precede this event.
    let content = (block + 10 + 1 + 4).next_multiple_of(4) + 20;
    let mut damaged = bytes;
    damaged[content..content + 30].fill(0xff);
    let story = story(&damaged, everything(Order::Time));
    assert_eq!(story.events(), cut.events());
    let error = story.error.unwrap();
    assert_eq!(error.offset(), Some(content as u64));
    assert_eq!(
        error.to_string(),
        format!("damaged at byte {content}, in an event of a block: its header or payload does not fit into the block")
    );
}

/// Scenario: an end tag is missing.
/// Guarantee: the events of the complete block are delivered, and the error follows.
#[test]
fn missing_end_tag_is_an_error_after_its_block() {
    let bytes = recordings::bytes("net10-idle");
    let block = places(&bytes, b"SPBlock")[0];
    let mut damaged = bytes.clone();
    assert_eq!(damaged[block - 16], 6);
    damaged[block - 16] = 7;
    let story = story(&damaged, everything(Order::Time));
    assert_eq!(story.events().len(), 1);
    assert_eq!(story.error.and_then(|error| error.offset()), Some(block as u64 - 16));
}

/// Returns the prolog of V4 and a complete `Trace` object.
fn v4_start() -> Vec<u8> {
    let mut encoder = Encoder::new(Format::V4, &header(Format::V4)).unwrap();
    encoder.take()
}

fn v4_object(name: &[u8], size: u32) -> Vec<u8> {
    let mut out = v4_start();
    out.extend([5, 5, 1]);
    out.extend([2, 2, name.len() as u32].map(u32::to_le_bytes).concat());
    out.extend(name);
    out.push(6);
    out.extend(size.to_le_bytes());
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn v6_start() -> Vec<u8> {
    let format = Format::V6 { minor: 0 };
    let mut encoder = Encoder::new(format, &header(format)).unwrap();
    encoder.take()
}

fn v6_block(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut out = v6_start();
    out.extend((kind << 24 | content.len() as u32).to_le_bytes());
    out.extend(content);
    out
}

/// Scenario: streams claim four billion bytes or items in each place that has a count.
/// Guarantee: the decoder returns an error or waits for bytes, and allocates no memory for the claim.
#[test]
fn claimed_sizes_allocate_no_memory() {
    let huge = u32::MAX.to_le_bytes();
    let mut hostile = vec![
        v4_object(b"EventBlock", u32::MAX),
        v4_object(b"EventBlock", limits::MAX_BLOCK_BYTES as u32 + 1),
        v4_object(b"SPBlock", 12),
        v4_object(b"NewBlock", u32::MAX),
        v6_block(1, &[0; 44]),
        v6_block(4, &[&[0; 12][..], &huge].concat()),
        v6_block(5, &[huge, huge].concat()),
        v6_block(8, &[huge, huge].concat()),
    ];
    hostile[2].extend([&[0; 8][..], &huge].concat());
    hostile[0].extend([0; 1000]);
    let mut type_name = v4_start();
    type_name.extend([5, 5, 1, 2, 0, 0, 0, 2, 0, 0, 0, 255, 255, 255, 255]);
    hostile.push(type_name);
    for (place, bytes) in hostile.iter().enumerate() {
        let mut result = Ok(0);
        let used = allocation_counter::measure(|| {
            let mut decoder = Decoder::new(everything(Order::Time));
            decoder.push(bytes);
            result = loop {
                match decoder.next_item() {
                    Ok(None) => break Ok(decoder.stats().events),
                    Ok(Some(_)) => {}
                    Err(error) => break Err(error),
                }
            };
        });
        assert!(used.bytes_max < 64 << 10, "{place}: {} bytes", used.bytes_max);
        // The decoder waits for the end of a skipped block of any size, and refuses all other claims immediately.
        assert_eq!(result.is_ok(), place == 3, "{place}: {result:?}");
    }
}

/// Feeds `stream` to a decoder for live processes in chunks as they arrive from a socket, and takes all items. Returns
/// the maximum number of bytes that the decoder allocated beyond the chunks, the maximum memory that the decoder
/// reported, in bytes, and the error, if any.
fn live(stream: &[u8]) -> (u64, usize, Option<Error>) {
    let (mut said, mut error) = (0, None);
    let used = allocation_counter::measure(|| {
        let mut decoder = Decoder::new(Options {
            limits: limits::Limits::for_one_live_process(),
            ..everything(Order::Time)
        });
        for piece in stream.chunks(64 << 10) {
            decoder.push(piece);
            while let Some(item) = decoder.next_item().transpose() {
                if let Err(problem) = item {
                    error = Some(problem);
                    return;
                }
            }
            said = said.max(decoder.memory_bytes());
            decoder.shrink();
        }
    });
    (used.bytes_max, said, error)
}

/// Builds a V4 stream from blocks.
fn v4_of(blocks: impl IntoIterator<Item = (&'static [u8], Vec<u8>)>) -> Vec<u8> {
    let mut stream = Encoder::new(Format::V4, &header(Format::V4)).unwrap().take();
    for (name, content) in blocks {
        stream.extend([5, 5, 1]);
        for word in [2_u32, 2, name.len() as u32] {
            stream.extend(word.to_le_bytes());
        }
        stream.extend(name);
        stream.push(6);
        stream.extend((content.len() as u32).to_le_bytes());
        stream.resize(stream.len().next_multiple_of(4), 0);
        stream.extend(content);
        stream.push(6);
    }
    stream
}

/// Builds the content of a sequence point with `count` thread ids, starting with `first`. Each thread has lost events.
fn lossy_point(first: u64, count: u32) -> Vec<u8> {
    let mut content = 5_i64.to_le_bytes().to_vec();
    content.extend(count.to_le_bytes());
    for id in first..first + u64::from(count) {
        content.extend(id.to_le_bytes());
        content.extend(7_u32.to_le_bytes());
    }
    content
}

/// Scenario: streams of a live process fill each store of the decoder: large blocks, definitions, definitions with long
/// names, events that are never sorted, an unlimited number of threads, and losses of all threads.
/// Guarantee: a decoder for live processes allocates less than the limit of each case, and never reports more than the
/// allocated bytes. Without an error, the decoder reports more than a third of the allocated bytes. Blocks, definitions
/// and sequence points over a limit are errors.
#[test]
fn live_decoder_stays_within_memory_limits() {
    let encoded = |write: &dyn Fn(&mut Encoder)| {
        let mut encoder = Encoder::new(Format::V4, &header(Format::V4)).unwrap();
        write(&mut encoder);
        encoder.flush().unwrap();
        encoder.take()
    };
    let define = |encoder: &mut Encoder, id: u32, name: &str| {
        let metadata = Metadata {
            id,
            name: name.to_owned(),
            ..Metadata::default()
        };
        encoder.metadata(&metadata).unwrap();
    };
    let unsorted = |threads: u64, payload: usize| {
        encoded(&move |encoder| {
            define(encoder, 1, "");
            let payload = vec![1; payload];
            for sequence in 1..=200_000_u32 {
                let record = EventRecord {
                    metadata_id: 1,
                    sequence,
                    capture_thread: u64::from(sequence) % threads,
                    timestamp: 1_000_000 - i64::from(sequence),
                    payload: &payload,
                    ..EventRecord::default()
                };
                encoder.event(&record).unwrap();
            }
        })
    };
    let long_name = "n".repeat(20_000);
    let cases = [
        (
            "a long block",
            v4_of([(&b"EventBlock"[..], vec![0; (1 << 20) + 1])]),
            3,
            true,
        ),
        (
            "the longest block",
            v4_of([(
                &b"MetadataBlock"[..],
                [&[20_u8, 0, 1, 0][..], &vec![0; (1 << 20) - 4]].concat(),
            )]),
            6,
            true,
        ),
        (
            "definitions",
            encoded(&|encoder| (1..9000).for_each(|id| define(encoder, id, "e"))),
            5,
            true,
        ),
        (
            "sparse ones",
            encoded(&|encoder| (1..9000).for_each(|id| define(encoder, u32::MAX - id, "e"))),
            5,
            true,
        ),
        (
            "long names",
            encoded(&|encoder| (1..900).for_each(|id| define(encoder, id, &long_name))),
            5,
            true,
        ),
        ("unsorted events", unsorted(3, 0), 8, false),
        ("unsorted with payload", unsorted(3, 100), 8, false),
        ("threads", unsorted(1 << 40, 0), 10, false),
        (
            "losses",
            v4_of((0..20).map(|at| (&b"SPBlock"[..], lossy_point(at << 32, 1 << 15)))),
            8,
            false,
        ),
        (
            "too many losses",
            v4_of([(&b"SPBlock"[..], lossy_point(0, (1 << 15) + 1))]),
            3,
            true,
        ),
    ];
    for (name, stream, most, fails) in cases {
        let (used, said, error) = live(&stream);
        assert_eq!(error.is_some(), fails, "{name}: {error:?}");
        assert!(used < most * 1_000_000, "{name}: {used} bytes");
        assert!(
            said as u64 <= used && (fails || said as u64 * 3 > used),
            "{name}: {said} of {used}"
        );
    }
}

/// Scenario: a stream contains events without a sorted event, a sequence point or an end.
/// Guarantee: `max_pending_bytes` limits the waiting events; the oldest events are delivered early and counted, and no
/// event is lost.
#[test]
fn waiting_events_are_bounded() {
    let mut encoder = encoder(Format::V4);
    let mut decoder = Decoder::new(Options {
        limits: limits::Limits {
            max_pending_bytes: 100_000,
            ..limits::Limits::for_files()
        },
        ..everything(Order::Time)
    });
    let (mut events, mut most) = (0, 0);
    let payload = [9; 500];
    let used = allocation_counter::measure(|| {
        for sequence in 1..=20_000_u32 {
            let record = EventRecord {
                metadata_id: 1,
                sequence,
                capture_thread: 5,
                thread: 5,
                timestamp: i64::from(sequence),
                payload: &payload,
                ..EventRecord::default()
            };
            encoder.event(&record).unwrap();
            if sequence % 500 == 0 {
                encoder.flush().unwrap();
                decoder.push(&encoder.take());
                let mut items = Vec::new();
                assert_eq!(drain(&mut decoder, &mut items), None);
                events += items.len();
                most = most.max(sequence as usize - events);
            }
        }
    });
    // One of the items is the header.
    assert!(most <= 1 + 100_000 / 500, "{most} events waited");
    assert!(used.bytes_max < 16 << 20, "{} bytes", used.bytes_max);
    decoder.push(&encoder.finish().unwrap());
    decoder.finish();
    let mut items = Vec::new();
    assert_eq!(drain(&mut decoder, &mut items), None);
    assert_eq!(decoder.stats().delivered, 20_000);
    assert!(decoder.stats().released_early > 19_000, "{:?}", decoder.stats());
    assert_eq!(decoder.stats().late, 0);
}

/// Scenario: each of 20,000 events in a block follows a loss.
/// Guarantee: every gap is delivered before the event that reveals it, and no gap is dropped.
#[test]
fn every_gap_is_delivered() {
    let mut encoder = encoder(Format::V4);
    for event in 1..=20_000_u32 {
        let record = EventRecord {
            metadata_id: 1,
            sequence: event * 3,
            capture_thread: 5,
            timestamp: i64::from(event),
            ..EventRecord::default()
        };
        encoder.event(&record).unwrap();
    }
    let story = story(&encoder.finish().unwrap(), everything(Order::Time));
    assert_eq!(story.gaps().len(), 20_000);
    assert_eq!(story.stats.lost, Some(40_000));
    assert_eq!(story.events().len(), 20_000);
    assert_eq!(story.error, None);
}

/// Scenario: a V4 stream contains an object of an unknown type, and a V6 stream contains a block of an unknown kind.
/// Guarantee: the object or block is skipped and counted, and the rest of the stream is read, in chunks of any size.
#[test]
fn unknown_blocks_are_skipped() {
    for format in [Format::V4, Format::V6 { minor: 1 }] {
        let mut encoder = Encoder::new(format, &header(format)).unwrap();
        let mut stream = encoder.take();
        if format == Format::V4 {
            stream = v4_object(b"NewBlock", 1001);
            stream.resize(stream.len() + 1001, 5);
            stream.push(6);
        } else {
            stream.extend((77_u32 << 24 | 1001).to_le_bytes());
            stream.resize(stream.len() + 1001, 5);
        }
        if format == Format::V4 {
            stream.push(1);
        } else {
            stream.extend([0; 4]);
        }
        for piece in [1, 100, stream.len()] {
            let story = story_in_pieces(&stream, everything(Order::Time), piece);
            assert_eq!((story.error, story.stats.blocks.unknown), (None, 1));
            assert_eq!(story.ending, Some(nettrace::Ending::Clean));
        }
    }
}

/// Scenario: events precede the `Trace` object, or a second `Trace` object follows.
/// Guarantee: each stream causes an error with the offset of the wrong object.
#[test]
fn trace_object_must_be_first_and_unique() {
    let start = v4_start();
    let mut second = start.clone();
    second.extend(&start[32..]);
    let error = story(&second, Options::default()).error.unwrap();
    assert_eq!(error.offset(), Some(start.len() as u64));
    let mut early = start[..32].to_vec();
    early.extend(&v4_object(b"EventBlock", 0)[start.len()..]);
    early.extend([0; 8]);
    assert_eq!(story(&early, Options::default()).error.unwrap().offset(), Some(32));
}
