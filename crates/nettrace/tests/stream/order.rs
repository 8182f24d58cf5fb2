//! When events are released, and what definitions they keep.

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

/// The times of the events that come now; 0 for a gap, -1 for a sequence point.
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

/// Scenario: runs of three threads that overlap in time, as the runtime's passes write them, then a sequence point.
/// Guarantee: up to the instant of each sorted event all is delivered, by time; the rest at the sequence point, before
/// it.
#[test]
fn sorted_events_release_what_is_older() {
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

/// Scenario: a live stream is idle with events waiting; after the flush an older one comes.
/// Guarantee: the flush delivers all that waits; the late one is delivered and counted.
#[test]
fn a_flush_delivers_what_waits() {
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

/// Scenario: the same stream in the order of the file.
/// Guarantee: nothing waits.
#[test]
fn in_file_order_nothing_waits() {
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

/// Scenario: a loss is seen while older events wait; and one is shown by a sequence point.
/// Guarantee: the gap comes at once, before what waits; that of a sequence point before it.
#[test]
fn gaps_do_not_wait() {
    let (mut encoder, mut decoder) = (encoder(), Decoder::new(everything(Order::Time)));
    for event in [record(1, 1, 10, true), record(1, 2, 30, false), record(1, 4, 50, false)] {
        encoder.event(&event).unwrap();
    }
    assert_eq!(feed(&mut encoder, &mut decoder), [0, 10]);
    encoder.sequence_point(60, &[(1, 5)]).unwrap();
    assert_eq!(feed(&mut encoder, &mut decoder), [0, 30, 50, -1]);
    assert_eq!(decoder.stats().lost, Some(2));
}

/// Scenario: an id is defined anew while an event of the old definition waits.
/// Guarantee: the event keeps the old one, later events have the new one.
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

/// Scenario: events without a definition, as after a lost beginning.
/// Guarantee: counted, not delivered, no error; their numbers still count.
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
