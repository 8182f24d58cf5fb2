//! The time at which events are released, and the definitions that waiting events keep.

use nettrace::encode::{Encoder, EventRecord};
use nettrace::{Decoder, Format, Options, Order};

use crate::decoded::{OwnedItem, drain, everything};
use crate::round_trip::{self, define};

fn record(thread: u64, sequence: u32, timestamp: i64, is_sorted: bool) -> EventRecord<'static> {
    EventRecord {
        metadata_id: 1,
        sequence,
        capture_thread: thread,
        thread,
        timestamp,
        is_sorted,
        ..EventRecord::default()
    }
}

fn encoder() -> Encoder {
    round_trip::encoder(Format::V4)
}

/// Returns the times of the events that are delivered now; 0 for a gap, -1 for a sequence point.
fn times(decoder: &mut Decoder) -> Vec<i64> {
    let mut items = Vec::new();
    assert_eq!(drain(decoder, &mut items), None);
    let time = |item| match item {
        OwnedItem::Header(_) => None,
        OwnedItem::Event(event) => Some(event.timestamp),
        OwnedItem::Gap(_) => Some(0),
        OwnedItem::SequencePoint(_) => Some(-1),
    };
    items.into_iter().filter_map(time).collect()
}

fn feed(encoder: &mut Encoder, decoder: &mut Decoder) -> Vec<i64> {
    encoder.flush().unwrap();
    decoder.push(&encoder.take());
    times(decoder)
}

/// Scenario: the runs of three threads overlap in time, as written by the scans of the runtime, and a sequence point
/// follows.
/// Guarantee: a sorted event releases all events up to its timestamp, in order of time; the sequence point releases the
/// other events before itself.
#[test]
fn sorted_event_releases_older_events() {
    let (mut encoder, mut decoder) = (encoder(), Decoder::new(everything(Order::Time)));
    for event in [record(1, 1, 10, true), record(1, 2, 30, false), record(1, 3, 50, false)] {
        encoder.event(&event).unwrap();
    }
    assert_eq!(feed(&mut encoder, &mut decoder), [10]);
    for event in [record(2, 1, 20, true), record(2, 2, 40, false)] {
        encoder.event(&event).unwrap();
    }
    assert_eq!(feed(&mut encoder, &mut decoder), [20]);
    encoder.event(&record(3, 1, 40, true)).unwrap();
    assert_eq!(feed(&mut encoder, &mut decoder), [30, 40, 40]);
    encoder.sequence_point(60, &[(1, 3), (2, 2), (3, 1)]).unwrap();
    assert_eq!(feed(&mut encoder, &mut decoder), [50, -1]);
    assert_eq!(decoder.stats().late, 0);
}

/// Scenario: a live stream is idle while events wait; an older event arrives after the flush.
/// Guarantee: the flush delivers all waiting events; the late event is delivered and counted.
#[test]
fn flush_delivers_waiting_events() {
    let (mut encoder, mut decoder) = (encoder(), Decoder::new(everything(Order::Time)));
    for event in [record(1, 1, 10, true), record(1, 2, 30, false)] {
        encoder.event(&event).unwrap();
    }
    assert_eq!(feed(&mut encoder, &mut decoder), [10]);
    decoder.flush();
    assert_eq!(times(&mut decoder), [30]);
    decoder.flush();
    assert_eq!(times(&mut decoder), []);
    encoder.event(&record(2, 1, 20, true)).unwrap();
    assert_eq!(feed(&mut encoder, &mut decoder), [20]);
    assert_eq!((decoder.stats().late, decoder.stats().delivered), (1, 3));
}

/// Scenario: a stream with unsorted events is read in the order of the file.
/// Guarantee: every event is delivered immediately, in the order of the stream.
#[test]
fn event_does_not_wait_in_file_order() {
    let (mut encoder, mut decoder) = (encoder(), Decoder::new(everything(Order::File)));
    for event in [
        record(1, 1, 10, true),
        record(1, 2, 30, false),
        record(2, 1, 20, false),
        record(2, 2, 5, false),
    ] {
        encoder.event(&event).unwrap();
    }
    assert_eq!(feed(&mut encoder, &mut decoder), [10, 30, 20, 5]);
    assert_eq!(decoder.stats().late, 0);
}

/// Scenario: a loss is detected while older events wait; a sequence point reveals another loss.
/// Guarantee: the first gap is delivered immediately, before the waiting events; the second gap is delivered before the
/// events that the sequence point releases.
#[test]
fn gap_does_not_wait() {
    let (mut encoder, mut decoder) = (encoder(), Decoder::new(everything(Order::Time)));
    for event in [record(1, 1, 10, true), record(1, 2, 30, false), record(1, 4, 50, false)] {
        encoder.event(&event).unwrap();
    }
    assert_eq!(feed(&mut encoder, &mut decoder), [0, 10]);
    encoder.sequence_point(60, &[(1, 5)]).unwrap();
    assert_eq!(feed(&mut encoder, &mut decoder), [0, 30, 50, -1]);
    assert_eq!(decoder.stats().lost, Some(2));
}

/// Scenario: an id is redefined while an event of the old definition waits.
/// Guarantee: the event keeps the old definition, and later events have the new definition.
#[test]
fn waiting_events_keep_their_definition() {
    let (mut encoder, mut decoder) = (encoder(), Decoder::new(everything(Order::Time)));
    encoder.event(&record(1, 1, 10, false)).unwrap();
    define(&mut encoder, 1, 2);
    encoder.event(&record(1, 2, 20, false)).unwrap();
    decoder.push(&encoder.finish().unwrap());
    let mut items = Vec::new();
    assert_eq!(drain(&mut decoder, &mut items), None);
    let ids = items.iter().filter_map(OwnedItem::event);
    assert!(ids.map(|event| event.metadata.event_id).eq([1, 2]));
}

/// Scenario: events have no definition, as in a stream whose start was lost.
/// Guarantee: the events are counted and not delivered, without an error; their sequence numbers count.
#[test]
fn events_without_definition_are_counted() {
    let (mut encoder, mut decoder) = (encoder(), Decoder::new(Options::default()));
    encoder.event(&record(1, 1, 10, true)).unwrap();
    encoder
        .event(&EventRecord {
            metadata_id: 9,
            ..record(1, 2, 20, false)
        })
        .unwrap();
    encoder
        .event(&EventRecord {
            metadata_id: 1 << 30,
            ..record(1, 3, 30, false)
        })
        .unwrap();
    encoder.event(&record(1, 4, 40, true)).unwrap();
    assert_eq!(feed(&mut encoder, &mut decoder), [10, 40]);
    assert_eq!(
        (
            decoder.stats().unknown_metadata,
            decoder.stats().events,
            decoder.stats().lost
        ),
        (2, 4, Some(0))
    );
}
