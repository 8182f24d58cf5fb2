//! Round trips through the encoder and the decoder.

use std::collections::{BTreeMap, BTreeSet};

use nettrace::encode::{Encoder, EventRecord, ThreadRecord};
use nettrace::{Ending, Format, Metadata, Order, PointerSize, SystemTime, TraceHeader};
use proptest::prelude::*;

use crate::decoded::{OwnedEvent, OwnedItem, Story, everything, story, story_in_pieces};
use crate::recordings;

/// Returns a header with a value in every field.
pub(crate) fn header(format: Format) -> TraceHeader {
    TraceHeader {
        format,
        system_time: SystemTime {
            year: 2025,
            month: 12,
            day_of_week: 3,
            day: 31,
            hour: 23,
            minute: 59,
            second: 58,
            millisecond: 999,
        },
        sync_ticks: 0,
        frequency: 10_000_000,
        pointer_size: PointerSize::Four,
        process_id: Some(77),
        processors: Some(65_535),
        sampling_rate_ns: Some(1_000_000),
        properties: if format == Format::V4 {
            vec![]
        } else {
            vec![("SystemPageSize".to_owned(), "4096".to_owned())]
        },
    }
}

/// Creates an encoder with [`header`] and one definition with id 1.
pub(crate) fn encoder(format: Format) -> Encoder {
    let mut encoder = Encoder::new(format, &header(format)).unwrap();
    define(&mut encoder, 1, 1);
    encoder
}

pub(crate) fn define(encoder: &mut Encoder, id: u32, event_id: u32) {
    let metadata = Metadata {
        id,
        event_id,
        ..Metadata::default()
    };
    encoder.metadata(&metadata).unwrap();
}

const FORMATS: [Format; 2] = [Format::V4, Format::V6 { minor: 2 }];

/// Encodes the events of a stream in file order. In V6, each thread gets an index.
fn encode_again(items: &[OwnedItem], format: Format, compressed: bool) -> Vec<u8> {
    let Some(OwnedItem::Header(header)) = items.first() else {
        panic!("no header")
    };
    let mut encoder = Encoder::new(format, header).unwrap().compressed(compressed);
    let mut defined = BTreeMap::new();
    let mut indexes: BTreeMap<u64, u64> = BTreeMap::new();
    for item in items {
        let event = match item {
            OwnedItem::SequencePoint(ticks) => {
                encoder.sequence_point(*ticks, &[]).unwrap();
                continue;
            }
            OwnedItem::Event(event) => event,
            OwnedItem::Header(_) | OwnedItem::Gap(_) => continue,
        };
        if defined.insert(event.metadata.id, event.metadata.clone()).as_ref() != Some(&event.metadata) {
            encoder.metadata(&event.metadata).unwrap();
        }
        let mut index = |thread: u64| {
            if format == Format::V4 {
                return thread;
            }
            let next = indexes.len() as u64 + 1;
            *indexes.entry(thread).or_insert_with(|| {
                let record = ThreadRecord {
                    index: next,
                    thread: Some(thread),
                    process: Some(4711),
                    name: None,
                };
                encoder.threads(&[record]).unwrap();
                next
            })
        };
        let (capture_thread, thread) = (index(event.capture_thread), index(event.thread));
        let record = EventRecord {
            metadata_id: event.metadata.id,
            sequence: event.sequence,
            capture_thread,
            thread,
            processor: event.processor,
            stack_id: 0,
            timestamp: event.timestamp,
            activity_id: event.activity_id,
            related_activity_id: event.related_activity_id,
            is_sorted: event.is_sorted,
            labels: &[],
            payload: &event.payload,
        };
        encoder.event(&record).unwrap();
    }
    encoder.finish().unwrap()
}

/// Scenario: every recording is re-encoded in both formats, with compressed and uncompressed headers.
/// Guarantee: the events are equal except for their stacks, in order of time and in file order; the losses between
/// events are equal; the ending is clean.
#[test]
fn recording_round_trips_in_every_format() {
    for name in recordings::names() {
        let bytes = recordings::bytes(&name);
        let (original, by_time) = (
            story(&bytes, everything(Order::File)),
            story(&bytes, everything(Order::Time)),
        );
        for format in FORMATS {
            for compressed in [true, false] {
                let again = encode_again(&original.items, format, compressed);
                let expect = |order, original: Vec<&OwnedEvent>| {
                    let story = story(&again, everything(order));
                    assert_eq!(
                        (story.error.clone(), story.ending),
                        (None, Some(Ending::Clean)),
                        "{name}"
                    );
                    let mut events = story.events().into_iter();
                    for original in &original {
                        let event = events.next().unwrap();
                        let process = if format == Format::V4 { None } else { Some(4711) };
                        let capture_thread = if format == Format::V4 {
                            original.capture_thread
                        } else {
                            event.capture_thread
                        };
                        let expected = OwnedEvent {
                            process,
                            capture_thread,
                            stack: None,
                            ..(*original).clone()
                        };
                        assert_eq!(*event, expected, "{name} {format:?}");
                    }
                    assert_eq!(events.next(), None, "{name}");
                    story
                };
                let story = expect(Order::File, original.events());
                expect(Order::Time, by_time.events());
                // Losses that only a sequence point reveals are not re-encoded.
                let between_events = |story: &Story| -> Vec<_> {
                    let at: BTreeSet<_> = story
                        .events()
                        .iter()
                        .map(|event| (event.thread, event.timestamp))
                        .collect();
                    let gaps = story
                        .gaps()
                        .into_iter()
                        .filter(|gap| at.contains(&(gap.thread, gap.before)));
                    gaps.map(|gap| (gap.thread, gap.lost, gap.before)).collect()
                };
                assert_eq!(between_events(&story), between_events(&original), "{name} {format:?}");
            }
        }
    }
}

/// Scenario: a header has a value in every field.
/// Guarantee: the header round-trips, in V6 including the keys without a dedicated field.
#[test]
fn header_round_trips() {
    for format in FORMATS {
        let bytes = Encoder::new(format, &header(format)).unwrap().finish().unwrap();
        let story = story(&bytes, everything(Order::Time));
        assert_eq!(story.items, [OwnedItem::Header(header(format))]);
        assert_eq!(story.ending, Some(Ending::Clean));
    }
}

/// A generated event without timestamp and sequence number.
#[derive(Debug, Clone)]
struct GeneratedEvent {
    thread: u64,
    metadata_id: u32,
    /// Number of events lost before this event.
    lost: u32,
    step: i64,
    processor: Option<u32>,
    activity: [Option<[u8; 16]>; 2],
    stack_id: u32,
    payload: Vec<u8>,
    /// Whether a sequence point precedes this event.
    point: bool,
}

fn made() -> impl Strategy<Value = GeneratedEvent> {
    let activity = || prop::option::of(prop::sample::select(vec![[1; 16], [2; 16]]));
    let numbers = (
        1_u64..5,
        1_u32..4,
        prop::sample::select(vec![0, 0, 0, 0, 1, 70_000]),
        0_i64..1000,
    );
    let rest = (prop::option::of(0_u32..3), activity(), activity(), 0_u32..3);
    let payload = prop::collection::vec(any::<u8>(), 0..300);
    (numbers, rest, payload, 0..20).prop_map(|(numbers, rest, payload, point)| GeneratedEvent {
        thread: numbers.0,
        metadata_id: numbers.1,
        lost: numbers.2,
        step: numbers.3,
        processor: rest.0,
        activity: [rest.1, rest.2],
        stack_id: rest.3,
        payload,
        point: point == 0,
    })
}

proptest! {
    /// Scenario: arbitrary events of four threads have losses, stacks, activities and sequence points; they are encoded
    /// in both formats with compressed and uncompressed headers, and read in chunks of any size.
    /// Guarantee: every field of every event round-trips in order, and the number of losses is exact.
    #[test]
    fn stream_round_trips(
        made in prop::collection::vec(made(), 0..80),
        v6: bool,
        compressed: bool,
        piece in 1_usize..2000,
    ) {
        let format = FORMATS[usize::from(v6)];
        let mut encoder = Encoder::new(format, &header(format)).unwrap().compressed(compressed);
        for id in 1..4 {
            encoder.metadata(&Metadata { id, event_id: id * 10, version: Some(id), ..Metadata::default() }).unwrap();
        }
        let stacks: [&[u8]; 2] = [b"", b"stack..."];
        encoder.stack_block(1, &stacks).unwrap();
        if v6 {
            let thread = |index| ThreadRecord { index, thread: Some(index + 100), process: Some(9), name: Some("t") };
            encoder.threads(&[1, 2, 3, 4].map(thread)).unwrap();
        }
        let (mut now, mut expected, mut lost) = (0, Vec::new(), 0);
        let mut sequences = BTreeMap::new();
        for made in &made {
            now += made.step;
            if made.point {
                let threads: Vec<_> = sequences.iter().map(|(thread, sequence)| (*thread, *sequence)).collect();
                encoder.sequence_point(now, &threads).unwrap();
                encoder.stack_block(1, &stacks).unwrap();
            }
            let sequence = sequences.entry(made.thread).or_insert(0_u32);
            *sequence += 1 + made.lost;
            lost += u64::from(made.lost);
            encoder.event(&EventRecord {
                metadata_id: made.metadata_id,
                sequence: *sequence,
                capture_thread: made.thread,
                thread: made.thread,
                processor: made.processor,
                stack_id: made.stack_id,
                timestamp: now,
                activity_id: made.activity[0],
                related_activity_id: made.activity[1],
                is_sorted: false,
                labels: &[],
                payload: &made.payload,
            }).unwrap();
            expected.push((now, made.thread, *sequence, made.metadata_id * 10, made.processor, made.activity, made.stack_id, made.payload.clone()));
        }
        let bytes = encoder.finish().unwrap();
        for order in [Order::File, Order::Time] {
            let story = story_in_pieces(&bytes, everything(order), piece);
            prop_assert_eq!((story.error.clone(), story.ending), (None, Some(Ending::Clean)));
            let delivered: Vec<_> = story.events().into_iter().map(|event| {
                let stack_id = event.stack.as_ref().map_or(0, |stack| if stack.is_empty() { 1 } else { 2 });
                let thread = if v6 { event.thread - 100 } else { event.thread };
                (event.timestamp, thread, event.sequence, event.metadata.event_id, event.processor, [event.activity_id, event.related_activity_id], stack_id, event.payload.clone())
            }).collect();
            prop_assert_eq!(&delivered, &expected);
            let numbered = !v6 || !made.is_empty();
            prop_assert_eq!(story.stats.lost, numbered.then_some(lost));
        }
    }
}
