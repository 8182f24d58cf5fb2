use std::io::Read as _;

use flate2::read::GzDecoder;
use nettrace::encode::{Encoder, EventRecord};
use nettrace::keep::Rewriter;
use nettrace::{Decoder, Format, Item, Metadata, Options};
use proptest::prelude::*;

use super::ring::{MAX_BLOCK, MAX_DEFINITIONS, MAX_FOLLOWED, MAX_UNPACKED, ONE, PIECE};
use super::*;

const RUN: RunKey = RunKey { pid: 7, start_time: 1 };

fn header() -> TraceHeader {
    TraceHeader {
        sync_ticks: 0,
        ..crate::clock::tests::header(1000)
    }
}

/// Returns a stream of events with these payloads and times, one block per event.
fn made(events: impl IntoIterator<Item = (i64, Vec<u8>)>) -> Vec<u8> {
    let mut encoder = Encoder::new(Format::V4, &header()).unwrap();
    encoder
        .metadata(&Metadata {
            id: 1,
            provider: "Some-Provider".into(),
            event_id: 1,
            ..Metadata::default()
        })
        .unwrap();
    for (sequence, (timestamp, payload)) in events.into_iter().enumerate() {
        let event = EventRecord {
            metadata_id: 1,
            sequence: u32::try_from(sequence).unwrap() + 1,
            capture_thread: 5,
            thread: 5,
            timestamp,
            is_sorted: true,
            payload: &payload,
            ..EventRecord::default()
        };
        encoder.event(&event).unwrap();
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}

/// Returns bytes that cannot be compressed.
fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) + 1;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(next).collect()
}

/// Returns a decoder of a run's next stream whose blocks are kept.
fn tapped(boxes: &Arc<BlackBoxes>, run: RunKey) -> Decoder {
    let mut decoder = Decoder::new(Options::default());
    decoder.keep(boxes.tap(run));
    decoder
}

/// Decodes bytes until an error.
fn push(decoder: &mut Decoder, bytes: &[u8]) {
    for piece in bytes.chunks(3000) {
        decoder.push(piece);
        while let Ok(Some(_)) = decoder.next_item() {}
    }
}

/// Returns the times of the events in pieces, and the number of lost events.
fn written(header: &TraceHeader, pieces: &[Piece]) -> (Vec<i64>, u64) {
    let mut rewriter = Rewriter::new(header).unwrap();
    for piece in pieces {
        rewriter.frames(&piece.frames().unwrap()).unwrap();
    }
    let mut decoder = Decoder::new(Options::default());
    decoder.push(&rewriter.finish().unwrap());
    decoder.finish();
    let mut times = Vec::new();
    while let Some(item) = decoder.next_item().unwrap() {
        if let Item::Event(event) = item {
            times.push(event.timestamp);
        }
    }
    (times, decoder.stats().lost.unwrap())
}

/// Returns the result of [`written`] for all kept blocks of a run.
fn kept_of(boxes: &BlackBoxes, run: RunKey) -> (Vec<i64>, u64) {
    let kept = boxes.follow(run).unwrap();
    written(&kept.header, &kept.pieces)
}

/// Scenario: black boxes keep an hour of a busy process, whose blocks cannot be compressed, and of a quiet process.
/// Guarantee: the busy stream is kept up to the size limit, and the quiet stream for the last 30 s and one more piece.
/// No event is lost in either stream, and both streams end with the newest event.
#[test]
fn newest_blocks_are_kept() {
    let busy = |index: i64| (index * 10, noise(2000, index.unsigned_abs()));
    let quiet = |index: i64| (index * 1000, vec![1; 4000]);
    for (stream, least, most) in [(made((0..1000).map(busy)), 55, 66), (made((0..300).map(quiet)), 30, 40)] {
        let boxes = BlackBoxes::new().unwrap();
        let mut decoder = tapped(&boxes, RUN);
        push(&mut decoder, &stream);
        let (times, lost) = kept_of(&boxes, RUN);
        assert_eq!((lost, times.last().copied()), (0, decoder.stats().last_event));
        assert!((least..=most).contains(&times.len()), "{}", times.len());
        assert!(boxes.held() <= ONE + PIECE + 10_000, "{}", boxes.held());
        boxes.forget(RUN);
        assert_eq!(boxes.held(), 0);
    }
}

/// Scenario: a recording starts in the middle of a stream, whose rest arrives later; the process is killed in the
/// middle of a block.
/// Guarantee: kept and new blocks form the stream without a gap, including blocks that were not packed yet; then the
/// end is reported.
#[test]
fn recording_continues_without_gap() {
    let stream = made((0..200).map(|index| (index, vec![2; 300])));
    let boxes = BlackBoxes::new().unwrap();
    let mut decoder = tapped(&boxes, RUN);
    push(&mut decoder, &stream[..stream.len() / 2]);
    let kept = boxes.follow(RUN).unwrap();
    let mut pieces = kept.pieces.clone();
    let none = boxes.next(RUN);
    assert!(none.pieces.is_empty() && none.more == StreamContinuation::Perhaps);
    for part in stream[stream.len() / 2..stream.len() - 200].chunks(5000) {
        push(&mut decoder, part);
        pieces.extend(boxes.next(RUN).pieces);
    }
    drop(decoder);
    let last = boxes.next(RUN);
    pieces.extend(last.pieces);
    assert_eq!(last.more, StreamContinuation::Over);
    let (times, lost) = written(&kept.header, &pieces);
    assert_eq!(lost, 0);
    assert_eq!(times, (0..times.len() as i64).collect::<Vec<_>>());
    assert!(times.len() > 190, "{}", times.len());
    boxes.unfollow(RUN);
    // The kept part of an exited process is still available.
    assert_eq!(kept_of(&boxes, RUN).0, times);
    assert_eq!(boxes.next(RUN).more, StreamContinuation::Over);
}

/// Scenario: a session ends during a recording, and another session starts.
/// Guarantee: the recording contains the whole first session and ends with it; blocks kept afterwards belong to the
/// second session.
#[test]
fn recording_covers_one_session() {
    let boxes = BlackBoxes::new().unwrap();
    let mut first = tapped(&boxes, RUN);
    push(&mut first, &made((0..20).map(|index| (index, vec![1; 50]))));
    boxes.follow(RUN).unwrap();
    let mut second = tapped(&boxes, RUN);
    push(&mut second, &made((100..110).map(|index| (index, vec![1; 50]))));
    drop(first);
    let next = boxes.next(RUN);
    assert!(next.pieces.is_empty() && next.more == StreamContinuation::Over);
    assert_eq!(kept_of(&boxes, RUN), ((100..110).collect(), 0));
}

/// Scenario: a writer does not read because its disk hangs, while many blocks arrive.
/// Guarantee: the waiting blocks are bounded, and the writer learns that the end is missing.
#[test]
fn slow_disk_cuts_end_of_recording() {
    let boxes = BlackBoxes::new().unwrap();
    let mut decoder = tapped(&boxes, RUN);
    let stream = made((0_i64..1000).map(|index| (index, noise(2000, index.unsigned_abs()))));
    push(&mut decoder, &stream[..100_000]);
    let kept = boxes.follow(RUN).unwrap();
    push(&mut decoder, &stream[100_000..]);
    assert!(
        boxes.held() <= ONE + MAX_FOLLOWED + 2 * PIECE + 20_000,
        "{}",
        boxes.held()
    );
    let next = boxes.next(RUN);
    assert_eq!(next.more, StreamContinuation::Cut);
    let all: Vec<Piece> = kept.pieces.into_iter().chain(next.pieces).collect();
    let (times, lost) = written(&kept.header, &all);
    assert_eq!((times.first(), lost), (Some(&0), 0));
    assert!((100..300).contains(&times.len()), "{}", times.len());
    assert_eq!(boxes.next(RUN).more, StreamContinuation::Cut);
}

/// Scenario: there are two hundred busy processes and a quiet process.
/// Guarantee: the total limit is respected; the busy processes share the total, and the quiet process keeps its blocks.
#[test]
fn total_size_is_limited() {
    let boxes = BlackBoxes::new().unwrap();
    let stream = made((0_i64..100).map(|index| (index, noise(2000, index.unsigned_abs()))));
    let quiet = made([(1, vec![1; 300])]);
    push(&mut tapped(&boxes, RUN), &quiet);
    let run = |pid| RunKey { pid, start_time: 9 };
    for pid in 1000..1200 {
        push(&mut tapped(&boxes, run(pid)), &stream);
        assert!(boxes.held() <= ALL, "{}", boxes.held());
    }
    assert!(boxes.held() > ALL / 2);
    assert_eq!(kept_of(&boxes, RUN), (vec![1], 0));
    for pid in 1000..1200 {
        let (times, lost) = kept_of(&boxes, run(pid));
        assert_eq!((lost, times.last()), (0, Some(&99)));
        boxes.forget(run(pid));
    }
}

/// Scenario: streams have an event that is too large, more definitions than any runtime has, or many zeros.
/// Guarantee: data that cannot be kept empties the black box of its stream, and never costs more memory.
#[test]
fn hostile_stream_harms_own_black_box_only() {
    let boxes = BlackBoxes::new().unwrap();
    let mut events: Vec<(i64, Vec<u8>)> = (0..10).map(|index| (index, vec![1; 50])).collect();
    events.insert(5, (4, noise(300_000, 1)));
    push(&mut tapped(&boxes, RUN), &made(events));
    assert_eq!(kept_of(&boxes, RUN), (vec![5, 6, 7, 8, 9], 0));

    let mut encoder = Encoder::new(Format::V4, &header()).unwrap();
    for id in 1..3000 {
        let provider = format!("Provider-{id}");
        let metadata = Metadata {
            id,
            provider: provider.into(),
            ..Metadata::default()
        };
        encoder.metadata(&metadata).unwrap();
    }
    push(&mut tapped(&boxes, RUN), &encoder.finish().unwrap());
    assert!(boxes.follow(RUN).unwrap().pieces.is_empty());

    let zeros = made((0..400).map(|index| (index, vec![0; 90_000])));
    push(&mut tapped(&boxes, RUN), &zeros);
    let kept = boxes.follow(RUN).unwrap();
    let unpacked: usize = kept.pieces.iter().map(|piece| piece.unpacked).sum();
    assert!(unpacked <= MAX_UNPACKED + MAX_DEFINITIONS + MAX_BLOCK, "{unpacked}");
    assert_eq!(written(&kept.header, &kept.pieces).1, 0);
}

fn recording(name: &str) -> Vec<u8> {
    let path = format!(
        "{}/../../tests/recordings/{name}.nettrace.gz",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut bytes = Vec::new();
    GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Scenario: a real recording has flipped bytes, is truncated anywhere, and is recorded from any position.
    /// Guarantee: the kept blocks form a stream that is readable to its end, and the memory is bounded and released.
    #[test]
    fn damaged_streams_are_kept_up_to_damage(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 0..4),
        cut in any::<prop::sample::Index>(),
        from in any::<prop::sample::Index>(),
    ) {
        let mut bytes = recording("net10-threads-server");
        for (place, bit) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
        }
        bytes.truncate(cut.index(bytes.len()));
        let boxes = BlackBoxes::new().unwrap();
        let mut decoder = tapped(&boxes, RUN);
        let (before, after) = bytes.split_at(from.index(bytes.len().max(1)).min(bytes.len()));
        push(&mut decoder, before);
        let kept = boxes.follow(RUN);
        push(&mut decoder, after);
        drop(decoder);
        let next = boxes.next(RUN);
        if let Some(kept) = kept {
            let all: Vec<Piece> = kept.pieces.into_iter().chain(next.pieces).collect();
            written(&kept.header, &all);
        }
        prop_assert!(boxes.held() <= ONE + MAX_FOLLOWED + 2 * PIECE + 20_000);
        boxes.forget(RUN);
        prop_assert_eq!(boxes.held(), 0);
    }
}
