//! Tests of V6 streams as one-collect writes them, and of features that only V6 has.

use nettrace::encode::{EncodeError, Encoder, EventRecord, Forget, Label, ThreadRecord};
use nettrace::{Ending, Field, FieldType, Format, Gap, Metadata, Options, Order};

use crate::decoded::{OwnedItem, everything, story, story_in_pieces};
use crate::round_trip::{define, header};

const V6: Format = Format::V6 { minor: 0 };

const FORGET_THREADS: Forget = Forget {
    threads: true,
    metadata: false,
};
const FORGET_METADATA: Forget = Forget {
    threads: false,
    metadata: true,
};

fn encoder() -> Encoder {
    let mut encoder = Encoder::new(V6, &header(V6)).unwrap();
    let metadata = Metadata {
        id: 1,
        provider: "Microsoft-Windows-DotNETRuntime".into(),
        event_id: 1,
        name: "GCStart".to_owned(),
        fields: vec![Field {
            name: "Count".to_owned(),
            kind: FieldType::U32,
        }],
        ..Metadata::default()
    };
    encoder.metadata(&metadata).unwrap();
    encoder
}

fn record(thread: u64, sequence: u32, timestamp: i64) -> EventRecord<'static> {
    EventRecord {
        metadata_id: 1,
        sequence,
        thread,
        timestamp,
        is_sorted: true,
        payload: b"pay",
        ..EventRecord::default()
    }
}

fn thread(index: u64, process: u64, thread: u64) -> ThreadRecord<'static> {
    ThreadRecord {
        index,
        process: Some(process),
        thread: Some(thread),
        name: Some("worker"),
    }
}

/// Scenario: blocks are as one-collect writes them: a sequence point that forgets the threads, then stacks, threads and
/// events with labels. The capture thread is 0, and the sequence numbers restart with each block.
/// Guarantee: events have the threads and processes of their block, although indexes are reused. Activities and stacks
/// are present. Version, level, keywords and losses are unknown.
#[test]
fn one_collect_stream_is_read() {
    let mut encoder = encoder();
    for block in 0..3_u64 {
        let ticks = block as i64 * 100;
        encoder.sequence_point_and_forget(ticks, &[], FORGET_THREADS).unwrap();
        encoder.stack_block(1, &[b"12345678", &block.to_le_bytes()]).unwrap();
        encoder
            .threads(&[thread(1, 1000 + block, 10 + block), thread(2, 2000, 20)])
            .unwrap();
        for event in 0..=block as u32 {
            let activity_id = (event == 1).then_some([block as u8 + 1; 16]);
            let event = record(1 + u64::from(event % 2), event + 1, ticks + i64::from(event));
            encoder
                .event(&EventRecord {
                    activity_id,
                    stack_id: 2,
                    ..event
                })
                .unwrap();
        }
    }
    let story = story(&encoder.finish().unwrap(), everything(Order::Time));
    assert_eq!((story.error.clone(), story.ending), (None, Some(Ending::Clean)));
    assert_eq!((story.stats.lost, story.gaps().len()), (None, 0));
    let events = story.events();
    let who: Vec<_> = events.iter().map(|event| (event.process, event.thread)).collect();
    let (a, b, c, d) = ((Some(1000), 10), (Some(1001), 11), (Some(2000), 20), (Some(1002), 12));
    assert_eq!(who, [a, b, c, d, c, d]);
    assert_eq!(events[2].activity_id, Some([2; 16]));
    assert_eq!(events[1].activity_id, None);
    assert_eq!(events[5].stack, Some(2_u64.to_le_bytes().to_vec()));
    let metadata = &events[0].metadata;
    assert_eq!(
        (metadata.version, metadata.level, metadata.keywords),
        (None, None, None)
    );
    assert_eq!((metadata.name.as_str(), metadata.fields.len()), ("GCStart", 1));
}

/// Scenario: a thread loses events before its first event and before its removal. A new thread reuses the index, and
/// loses an event before the next sequence point.
/// Guarantee: each loss is reported with the OS id of its thread, between the last event of the thread and the next
/// event or sequence point. The sequence numbers of the new thread start at 1.
#[test]
fn removed_thread_reports_its_losses() {
    let mut encoder = encoder();
    encoder.threads(&[thread(3, 1000, 33)]).unwrap();
    let event = |sequence, timestamp| EventRecord {
        capture_thread: 3,
        ..record(3, sequence, timestamp)
    };
    encoder.event(&event(2, 10)).unwrap();
    encoder.remove_threads(&[(3, 5)]).unwrap();
    encoder.threads(&[thread(3, 1000, 44)]).unwrap();
    encoder.event(&event(1, 20)).unwrap();
    encoder.sequence_point(30, &[(3, 2)]).unwrap();
    let story = story(&encoder.finish().unwrap(), everything(Order::Time));
    let gap = |thread, lost, after, before| Gap {
        capture_thread: 3,
        thread,
        lost,
        after,
        before,
    };
    assert_eq!(
        story.gaps(),
        [gap(33, 1, None, 10), gap(33, 3, Some(10), 30), gap(44, 1, Some(20), 30)]
    );
    assert_eq!(story.stats.lost, Some(5));
    assert_eq!(
        story.events().iter().map(|event| event.thread).collect::<Vec<_>>(),
        [33, 44]
    );
}

/// Scenario: labels set version, level, keywords and opcode of some events; the interest depends on the version.
/// Guarantee: events with labels have a definition with the overrides, and the other events have the original
/// definition. `interest` is called for each of these definitions.
#[test]
fn label_overrides_definition() {
    let mut encoder = encoder();
    let labels = [
        Label::Version(3),
        Label::Level(4),
        Label::Keywords(1 << 63),
        Label::Opcode(1),
        Label::Span(5),
    ];
    let more = [
        Label::Text("k".to_owned(), "v".to_owned()),
        Label::Number("n".to_owned(), -1),
        Label::Trace([9; 16]),
        Label::Version(9),
    ];
    encoder.event(&record(1, 1, 1)).unwrap();
    encoder
        .event(&EventRecord {
            labels: &labels,
            related_activity_id: Some([7; 16]),
            ..record(1, 2, 2)
        })
        .unwrap();
    encoder
        .event(&EventRecord {
            labels: &more,
            ..record(1, 3, 3)
        })
        .unwrap();
    encoder
        .event(&EventRecord {
            labels: &labels,
            ..record(1, 4, 4)
        })
        .unwrap();
    encoder.event(&record(1, 5, 5)).unwrap();
    let bytes = encoder.finish().unwrap();
    let options = Options {
        interest: Box::new(|metadata| (metadata.version != Some(9)).then(|| metadata.version.unwrap_or(77))),
        ..everything(Order::Time)
    };
    let story = story(&bytes, options);
    let tags: Vec<_> = story
        .events()
        .iter()
        .map(|event| (event.timestamp, event.tag))
        .collect();
    assert_eq!(tags, [(1, 77), (2, 3), (4, 3), (5, 77)]);
    assert_eq!(story.stats.uninteresting, 1);
    let changed = &story.events()[1];
    assert_eq!(changed.related_activity_id, Some([7; 16]));
    let metadata = &changed.metadata;
    assert_eq!(
        (metadata.level, metadata.keywords, metadata.opcode),
        (Some(4), Some(1 << 63), Some(1))
    );
    assert_eq!((metadata.id, metadata.name.as_str()), (1, "GCStart"));
}

/// Scenario: a sequence point forgets the definitions, and ids are reused.
/// Guarantee: the event before the sequence point has the old definition, and the first event afterwards has the new
/// definition. The event whose id is not defined again counts as an event without a definition.
#[test]
fn forgotten_definition_is_not_used() {
    let mut encoder = encoder();
    define(&mut encoder, 2, 2);
    encoder.event(&record(1, 1, 10)).unwrap();
    encoder.sequence_point_and_forget(20, &[], FORGET_METADATA).unwrap();
    define(&mut encoder, 1, 50);
    encoder.event(&record(1, 2, 30)).unwrap();
    encoder
        .event(&EventRecord {
            metadata_id: 2,
            ..record(1, 3, 40)
        })
        .unwrap();
    let story = story(&encoder.finish().unwrap(), everything(Order::Time));
    assert_eq!(
        story
            .events()
            .iter()
            .map(|event| event.metadata.event_id)
            .collect::<Vec<_>>(),
        [1, 50]
    );
    assert_eq!(story.stats.unknown_metadata, 1);
}

/// Scenario: the stream does not describe the thread of an event.
/// Guarantee: the thread id of the event is the index of the thread, and the process is unknown.
#[test]
fn unknown_thread_keeps_its_index() {
    let mut encoder = encoder();
    encoder.event(&record(7, 1, 10)).unwrap();
    let story = story(&encoder.finish().unwrap(), everything(Order::Time));
    assert_eq!((story.events()[0].thread, story.events()[0].process), (7, None));
}

/// Scenario: a V4 encoder gets items that only V6 has, and encoders get items that are too long for their length
/// fields.
/// Guarantee: the encoder returns an error for each item.
#[test]
fn unencodable_item_is_refused() {
    let mut v4 = Encoder::new(Format::V4, &header(Format::V4)).unwrap();
    assert!(matches!(
        v4.threads(&[thread(1, 1, 1)]),
        Err(EncodeError::NotInV4 { .. })
    ));
    assert!(matches!(v4.remove_threads(&[]), Err(EncodeError::NotInV4 { .. })));
    let labelled = EventRecord {
        labels: &[Label::Level(1)],
        ..record(1, 1, 1)
    };
    assert!(matches!(v4.event(&labelled), Err(EncodeError::NotInV4 { .. })));
    assert!(matches!(
        v4.sequence_point_and_forget(1, &[], FORGET_THREADS),
        Err(EncodeError::NotInV4 { .. })
    ));
    let huge = vec![0; 1 << 24];
    let too_long = EventRecord {
        payload: &huge,
        ..record(1, 1, 1)
    };
    assert!(matches!(v4.event(&too_long), Err(EncodeError::TooLong { .. })));
    let long = "x".repeat(70_000);
    let metadata = Metadata {
        provider: long.clone().into(),
        ..Metadata::default()
    };
    assert!(matches!(
        encoder().metadata(&metadata),
        Err(EncodeError::TooLong { .. })
    ));
    let named = ThreadRecord {
        name: Some(&long),
        ..thread(1, 1, 1)
    };
    assert!(matches!(encoder().threads(&[named]), Err(EncodeError::TooLong { .. })));
}

/// Output of one-collect (revision a8e3fd0): twelve synthetic samples of three processes. The stream reports that one
/// of these processes existed before the recording and exited during the recording.
const ONE_COLLECT: &[u8] = include_bytes!("one-collect.nettrace");

/// Scenario: a program reads the output of one-collect.
/// Guarantee: each sample has its process, thread, processor, time, stack, payload and event id, and an unknown
/// version. The events of the provider `Universal.System` have their process. The header has the number of processors
/// and the clock, and no process id. The number of lost events is unknown.
#[test]
fn one_collect_output_is_read() {
    let story = story(ONE_COLLECT, everything(Order::Time));
    assert_eq!((story.error.clone(), story.ending), (None, Some(Ending::Clean)));
    let Some(OwnedItem::Header(header)) = story.items.first() else {
        panic!("no header")
    };
    assert_eq!(
        (header.format, header.process_id, header.processors),
        (V6, None, Some(2))
    );
    assert_eq!((header.sync_ticks, header.system_time.millisecond), (1_000_000, 250));
    let events = story.events();
    let (system, samples): (Vec<_>, Vec<_>) = events
        .into_iter()
        .partition(|event| event.metadata.provider == "Universal.System");
    let system: Vec<_> = system
        .iter()
        .map(|event| (event.metadata.name.as_str(), event.process))
        .collect();
    assert_eq!(system, [("ExistingProcess", Some(77)), ("ProcessExit", Some(77))]);
    assert_eq!(samples.len(), 12);
    for (number, event) in (0_u64..).zip(samples) {
        let (process, thread) = if number % 3 == 0 {
            (77, 78)
        } else {
            (90 + number % 2, 1000 + number % 5)
        };
        assert_eq!((event.process, event.thread), (Some(process), thread));
        assert_eq!(event.processor, Some((number % 4) as u32));
        assert_eq!(event.timestamp, 1_000_000 + number as i64 * 10);
        let payload = [&(number as u32).to_le_bytes()[..], &(number * 7).to_le_bytes()].concat();
        assert_eq!(event.payload, payload);
        let stack = [0x1000 + number % 4, 0x2000].map(u64::to_le_bytes).concat();
        assert_eq!(event.stack.as_ref(), Some(&stack));
        assert_eq!(
            (&*event.metadata.provider, event.metadata.event_id),
            ("Microsoft-Windows-DotNETRuntime", 1)
        );
        assert_eq!(event.metadata.version, None);
    }
    assert_eq!((story.stats.lost, story.stats.late), (None, 0));
}

/// Scenario: the output of one-collect is truncated after each byte and read in chunks of one byte.
/// Guarantee: the items are the first items of the whole stream, and the ending contains the position of the
/// truncation.
#[test]
fn one_collect_output_can_end_anywhere() {
    let whole = story(ONE_COLLECT, everything(Order::File));
    let mut before = 0;
    for cut in 1..ONE_COLLECT.len() {
        let part = story_in_pieces(&ONE_COLLECT[..cut], everything(Order::File), 1);
        assert_eq!(part.error, None);
        assert!(
            matches!(part.ending, Some(Ending::Truncated { offset, .. }) if offset == cut as u64),
            "{cut}"
        );
        assert!(whole.items.starts_with(&part.items), "{cut}");
        assert!(part.items.len() >= before);
        before = part.items.len();
    }
}
