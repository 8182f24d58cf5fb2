//! Facts about real recordings, counted by an independent reader (a script that shares no code with this crate).

use std::collections::BTreeSet;

use nettrace::{BlockCounts, Decoder, Ending, Error, Format, Gap, Item, Options, Order, PointerSize, SystemTime};

use crate::decoded::{OwnedItem, everything, story};
use crate::recordings;

/// Name, numbers of events, sorted events and lost events, numbers of metadata, stack, event and sequence point blocks,
/// and whether the end is clean.
type Facts = (&'static str, u64, usize, u64, [u64; 4], bool);

const FACTS: &[Facts] = &[
    ("aot9-steady", 1962, 58, 0, [5, 1, 50, 1], true),
    ("net10-idle", 1, 1, 0, [1, 1, 1, 1], true),
    ("net10-lohoos", 9582, 35, 0, [2, 1, 31, 1], true),
    ("net10-nogc", 2597, 32, 0, [2, 2, 31, 1], true),
    ("net10-steady", 1310, 36, 0, [4, 1, 30, 1], true),
    ("net10-steady-verbose", 11718, 38, 0, [6, 3, 31, 1], true),
    ("net10-threads-server", 1679, 168, 0, [4, 3, 32, 2], true),
    ("net10-threads-server-datas", 3582, 230, 0, [3, 3, 33, 3], true),
    ("net10b-attach-in-bgc", 271, 50, 0, [5, 2, 41, 1], true),
    ("net10b-loss", 10384, 53, 44806, [4, 2, 10, 1], true),
    ("net10b-private", 4736, 217, 0, [3, 3, 42, 3], true),
    ("net31-fin", 92, 16, 0, [4, 2, 14, 1], true),
    ("net31-steady", 192, 15, 0, [2, 1, 13, 1], true),
    ("net8-sigkill", 2938, 173, 0, [2, 2, 30, 1], false),
    ("net8-threads-dotnettrace-default", 14069, 356, 0, [7, 22, 68, 4], true),
    ("svc8-workstation", 1694, 165, 0, [4, 26, 55, 2], true),
];

/// Returns the facts about the available recordings.
fn facts() -> impl Iterator<Item = &'static Facts> {
    FACTS.iter().filter(|(name, ..)| recordings::has(name))
}

/// Scenario: recordings are of .NET Core 3.1, .NET 8, 9, 10 and NativeAOT, with losses, with stacks and rundown, and of
/// a killed process.
/// Guarantee: the numbers of events, sorted events, losses and blocks are those of an independent reader; each event
/// has its definition; no event is late, so the guarantee of sorted events holds.
#[test]
fn counts_match_independent_reader() {
    for (name, events, sorted, lost, [metadata, stack, event, sequence_point], clean) in facts() {
        let story = story(&recordings::bytes(name), everything(Order::Time));
        assert_eq!(story.error, None, "{name}");
        assert_eq!(
            (story.stats.events, story.stats.delivered),
            (*events, *events),
            "{name}"
        );
        assert_eq!(
            story.events().iter().filter(|event| event.is_sorted).count(),
            *sorted,
            "{name}"
        );
        assert_eq!(story.stats.lost, Some(*lost), "{name}");
        assert_eq!(story.gaps().iter().map(|gap| gap.lost).sum::<u64>(), *lost, "{name}");
        let blocks = BlockCounts {
            metadata: *metadata,
            stack: *stack,
            event: *event,
            sequence_point: *sequence_point,
            ..BlockCounts::default()
        };
        assert_eq!(story.stats.blocks, blocks, "{name}");
        assert_eq!(story.ending == Some(Ending::Clean), *clean, "{name}");
        assert_eq!(
            (
                story.stats.unknown_metadata,
                story.stats.late,
                story.stats.released_early
            ),
            (0, 0, 0),
            "{name}"
        );
        assert_eq!(story.stats.uninteresting, 0, "{name}");
    }
}

/// Scenario: every available recording is read in order of time and in order of the stream.
/// Guarantee: a stable sort of the events in stream order by time yields the events in time order; the gaps are equal.
#[test]
fn time_order_is_a_stable_sort() {
    for name in recordings::names() {
        let bytes = recordings::bytes(&name);
        let (by_time, by_file) = (
            story(&bytes, everything(Order::Time)),
            story(&bytes, everything(Order::File)),
        );
        let mut expected = by_file.events();
        expected.sort_by_key(|event| event.timestamp);
        assert!(by_time.events() == expected, "{name}");
        assert_eq!(by_time.gaps(), by_file.gaps(), "{name}");
    }
}

/// Scenario: a recording of 806 bytes contains a session without a collection (.NET 10).
/// Guarantee: header, definition, event, sequence point and end have the values that were decoded from the bytes by
/// hand.
#[test]
fn idle_recording_matches_values_decoded_by_hand() {
    let bytes = recordings::bytes("net10-idle");
    assert_eq!(bytes.len(), 806);
    let story = story(&bytes, everything(Order::Time));
    let [
        OwnedItem::Header(header),
        OwnedItem::Event(event),
        OwnedItem::SequencePoint(point),
    ] = &story.items[..]
    else {
        panic!("{:?}", story.items)
    };
    assert_eq!(
        (header.format, header.pointer_size, header.frequency),
        (Format::V4, PointerSize::Eight, 1_000_000_000)
    );
    assert!(matches!(
        header.system_time,
        SystemTime {
            month: 11,
            day_of_week: 6,
            day: 21,
            ..
        }
    ));
    assert_eq!(
        (header.process_id, header.processors),
        (
            Some(u32::from_le_bytes(bytes[0x35 + 36..][..4].try_into().unwrap())),
            Some(2)
        )
    );
    assert_eq!(
        (&*event.metadata.provider, event.metadata.event_id),
        ("Microsoft-DotNETCore-EventPipe", 1)
    );
    assert_eq!(event.metadata.name, "ProcessInfo");
    let fields: Vec<_> = event.metadata.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(fields, ["CommandLine", "OSInformation", "ArchInformation"]);
    assert_eq!(
        (event.sequence, event.capture_thread, event.thread, event.is_sorted),
        (1, 12368, 12368, true)
    );
    assert_eq!(
        (event.payload.len(), event.processor, event.stack.as_deref()),
        (246, None, Some(&[][..]))
    );
    assert!(*point >= event.timestamp);
    assert_eq!(
        (story.stats.bytes, story.stats.lost, story.ending),
        (806, Some(0), Some(Ending::Clean))
    );
}

/// Scenario: the buffers of threads were full; 44,806 events were lost, 46 of them before a thread's first event.
/// Guarantee: each gap has losses and starts no later than it ends, and losses before a thread's first event are
/// counted.
#[test]
fn gap_is_between_two_times() {
    let story = story(&recordings::bytes("net10b-loss"), everything(Order::Time));
    let gaps = story.gaps();
    assert!(gaps.iter().all(
        |Gap {
             after, before, lost, ..
         }| after.is_none_or(|after| after <= *before) && *lost > 0
    ));
    assert_eq!(gaps.iter().map(|gap| gap.lost).sum::<u64>(), 44_806);
    let before_the_first = gaps
        .iter()
        .filter(|gap| gap.after.is_none())
        .map(|gap| gap.lost)
        .sum::<u64>();
    assert_eq!(before_the_first, 46);
}

/// Scenario: a consumer wants only some events of the recording with losses.
/// Guarantee: exactly the wanted events are delivered, with their tag; the other events are counted, and their losses
/// are detected.
#[test]
fn losses_are_found_among_uninteresting_events() {
    let bytes = recordings::bytes("net10b-loss");
    let all = story(&bytes, everything(Order::Time));
    let options = Options {
        interest: Box::new(|metadata| [1, 2].contains(&metadata.event_id).then_some(metadata.event_id + 100)),
        ..everything(Order::Time)
    };
    let some = story(&bytes, options);
    let mut expected: Vec<_> = all.events().into_iter().cloned().collect();
    expected.retain(|event| [1, 2].contains(&event.metadata.event_id));
    expected
        .iter_mut()
        .for_each(|event| event.tag = event.metadata.event_id + 100);
    assert!(!expected.is_empty());
    assert!(some.events() == expected.iter().collect::<Vec<_>>());
    assert_eq!(some.gaps(), all.gaps());
    assert_eq!(some.stats.delivered + some.stats.uninteresting, all.stats.delivered);
    assert_eq!(
        some.stats.first_event.zip(some.stats.last_event),
        all.stats.first_event.zip(all.stats.last_event)
    );
}

/// Scenario: the recordings in [`FACTS`] are searched for dynamic GC events.
/// Guarantee: the payload lengths are the lengths of the known kinds.
#[test]
fn dynamic_events_have_known_lengths() {
    let mut lengths = BTreeSet::new();
    for (name, ..) in facts() {
        let options = Options {
            interest: Box::new(|metadata| {
                (metadata.provider == "Microsoft-Windows-DotNETRuntime" && metadata.event_id == 39).then_some(0)
            }),
            ..everything(Order::Time)
        };
        lengths.extend(
            story(&recordings::bytes(name), options)
                .events()
                .iter()
                .map(|event| event.payload.len()),
        );
    }
    let known = BTreeSet::from([78, 86, 104]);
    assert!(lengths.is_subset(&known), "{lengths:?}");
    assert!(!recordings::are_all_there() || lengths == known, "{lengths:?}");
}

/// Scenario: input is not a nettrace stream, or is in an unsupported format.
/// Guarantee: each input has a specific error, never the ending of a truncated stream. The error is returned as soon as
/// the bytes reveal it.
#[test]
fn foreign_input_has_specific_error() {
    let error = |bytes: &[u8]| story(bytes, Options::default()).error;
    assert_eq!(error(b""), Some(Error::Empty));
    assert!(matches!(error(b"\x1f\x8b\x08\0\0"), Some(Error::NotNettrace { start }) if start == b"\x1f\x8b\x08\0\0"));
    assert!(matches!(error(&[0; 100]), Some(Error::NotNettrace { .. })));
    assert_eq!(error(b"\x14\0\0\0!FastSerialization.1\x05"), Some(Error::NetPerf));
    let v7 = b"Nettrace\0\0\0\0\x07\0\0\0\0\0\0\0";
    assert_eq!(error(v7), Some(Error::UnsupportedVersion { major: 7, minor: 0 }));
    // The error is detected before the end of the input.
    let mut decoder = Decoder::new(Options::default());
    decoder.push(b"GIF89a");
    assert!(matches!(decoder.next_item(), Err(Error::NotNettrace { .. })));
}

/// Scenario: bytes follow the end tag.
/// Guarantee: the bytes are ignored and counted separately, and the ending is clean.
#[test]
fn bytes_after_the_end_are_ignored() {
    let mut bytes = recordings::bytes("net10-idle");
    bytes.extend([7; 1000]);
    for piece in [1, 100, 5000] {
        let story = crate::decoded::story_in_pieces(&bytes, everything(Order::Time), piece);
        assert_eq!((story.stats.bytes, story.stats.trailing_bytes), (806, 1000));
        assert_eq!((story.ending, story.error), (Some(Ending::Clean), None));
    }
}

/// Scenario: a consumer reads the header first.
/// Guarantee: the header is the first item, occurs once, and remains available.
#[test]
fn header_is_first_item() {
    let mut decoder = Decoder::new(Options::default());
    decoder.push(&recordings::bytes("net31-fin"));
    assert_eq!(decoder.header(), None);
    let first = match decoder.next_item() {
        Ok(Some(Item::Header(header))) => header.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(decoder.header(), Some(&first));
    decoder.finish();
    while let Some(item) = decoder.next_item().unwrap() {
        assert!(!matches!(item, Item::Header(_)));
    }
    assert_eq!(decoder.ending(), Some(Ending::Clean));
}
