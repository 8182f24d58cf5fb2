//! Allocations of a decoder in steady state.

use nettrace::encode::EventRecord;
use nettrace::{Decoder, Format, Options, Order};

use crate::round_trip::encoder;

/// Builds a stream with 100,000 events of eight threads in overlapping runs, with sequence points.
fn stream() -> Vec<u8> {
    let mut encoder = encoder(Format::V4);
    let mut sequences = [0_u32; 8];
    for pass in 0..100_i64 {
        for (thread, sequence) in sequences.iter_mut().enumerate() {
            for event in 0..125_i64 {
                *sequence += 1;
                let record = EventRecord {
                    metadata_id: 1,
                    sequence: *sequence,
                    capture_thread: thread as u64 + 1,
                    thread: thread as u64 + 1,
                    timestamp: pass * 1000 + thread as i64 + event * 8,
                    is_sorted: event == 0,
                    activity_id: (event % 2 == 0).then_some([1; 16]),
                    payload: &[3; 40],
                    ..EventRecord::default()
                };
                encoder.event(&record).unwrap();
            }
        }
        if pass % 10 == 9 {
            let threads: Vec<_> = (1..).zip(sequences).collect();
            encoder.sequence_point((pass + 1) * 1000, &threads).unwrap();
        }
    }
    encoder.finish().unwrap()
}

fn allocations(bytes: &[u8], order: Order) -> (u64, u64) {
    let mut decoder = Decoder::new(Options {
        order,
        ..Options::default()
    });
    let mut feed = |bytes: &[u8]| {
        let mut events = 0;
        for piece in bytes.chunks(64 << 10) {
            let space = decoder.space(64 << 10);
            space[..piece.len()].copy_from_slice(piece);
            decoder.filled(piece.len());
            while let Some(item) = decoder.next_item().unwrap() {
                events += u64::from(matches!(item, nettrace::Item::Event(_)));
            }
        }
        events
    };
    let (warm, measured) = bytes.split_at(bytes.len() / 2);
    feed(warm);
    let mut events = 0;
    let used = allocation_counter::measure(|| events = feed(measured));
    (events, used.count_total)
}

/// Scenario: the second half of a stream is read, after all buffers have reached their size in the first half.
/// Guarantee: delivering more than 45,000 events allocates no memory.
#[test]
fn steady_state_does_not_allocate() {
    let bytes = stream();
    for order in [Order::Time, Order::File] {
        let (events, allocations) = allocations(&bytes, order);
        assert!(events > 45_000, "{events}");
        assert_eq!(allocations, 0, "{order:?}");
    }
}
