//! Streams rewritten from the last blocks of a stream.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nettrace::encode::{Encoder, EventRecord};
use nettrace::keep::{Block, BlockContent, Keeper, Rewriter};
use nettrace::{Decoder, Ending, Format, Metadata, Options, Order, TraceHeader};
use proptest::prelude::*;

use crate::decoded::{OwnedEvent, Story, everything, story, story_of};
use crate::recordings::{self, Seeded};
use crate::round_trip::header;

/// The values that a keeper received in its calls.
#[derive(Debug, Default)]
struct ReceivedCalls {
    header: Option<TraceHeader>,
    frames: Vec<(BlockContent, Vec<u8>)>,
}

#[derive(Debug)]
struct All(Arc<Mutex<ReceivedCalls>>);

impl Keeper for All {
    fn begin(&mut self, header: &TraceHeader) {
        self.0.lock().unwrap().header = Some(header.clone());
    }

    fn block(&mut self, block: &Block<'_>) {
        let mut frame = Vec::new();
        block.put(&mut frame);
        assert!(frame.len() >= block.bytes());
        self.0.lock().unwrap().frames.push((block.is(), frame));
    }
}

/// Returns all blocks of a stream, and the items that a decoder delivers for it.
fn kept(bytes: &[u8], options: Options, piece: usize) -> (ReceivedCalls, Story) {
    let kept = Arc::new(Mutex::new(ReceivedCalls::default()));
    let mut decoder = Decoder::new(options);
    decoder.keep(Box::new(All(Arc::clone(&kept))));
    let story = story_of(decoder, bytes, piece);
    let kept = Arc::into_inner(kept).unwrap().into_inner().unwrap();
    (kept, story)
}

/// Writes the frames starting at `first` as a stream, including all definitions before these frames. Returns the stream
/// and the numbers of its events and of its lost events.
fn written(kept: &ReceivedCalls, first: usize) -> (Vec<u8>, u64, u64) {
    let mut rewriter = Rewriter::new(kept.header.as_ref().unwrap()).unwrap();
    for (is, frame) in &kept.frames[..first] {
        if *is == BlockContent::Definitions {
            rewriter.frames(frame).unwrap();
        }
    }
    let mut out = Vec::new();
    for (_, frame) in &kept.frames[first..] {
        rewriter.frames(frame).unwrap();
        out.extend(rewriter.take().unwrap());
    }
    assert!(!rewriter.is_damaged());
    let counts = (rewriter.events(), rewriter.lost());
    out.extend(rewriter.finish().unwrap());
    (out, counts.0, counts.1)
}

/// Returns the events of a story without the values that differ in a rewritten stream: sequence numbers and stacks.
fn events(story: &Story) -> Vec<OwnedEvent> {
    let events = story.events().into_iter().map(|event| OwnedEvent {
        sequence: 0,
        stack: None,
        ..event.clone()
    });
    events.collect()
}

/// Scenario: every V4 recording is rewritten starting at its first block, at several later blocks, and at its last
/// blocks.
/// Guarantee: the result is a complete stream with exactly the last events of the recording, with the same definitions
/// and in the same file order; in time order, no event is late. The stream has no more losses than the recording, and
/// the same losses if it starts at the first block. No blocks of V6 recordings are retained.
#[test]
fn last_blocks_form_complete_recording() {
    for name in recordings::names() {
        let bytes = recordings::bytes(&name);
        let (kept, original) = kept(&bytes, everything(Order::File), 4096);
        if !matches!(kept.header, Some(TraceHeader { format: Format::V4, .. })) {
            assert!(kept.frames.is_empty(), "{name}");
            continue;
        }
        let (all, lost) = (events(&original), original.stats.lost.unwrap());
        let count = kept.frames.len();
        for first in [0, 1, count / 3, count / 2, count - count.min(2), count] {
            let (stream, written, rewritten_lost) = written(&kept, first);
            let again = story(&stream, everything(Order::File));
            assert_eq!((again.ending, &again.error), (Some(Ending::Clean), &None), "{name}");
            let last = &all[all.len() - usize::try_from(written).unwrap()..];
            assert!(events(&again) == last, "{name} starting at block {first}");
            assert_eq!(
                again.stats.lost,
                Some(rewritten_lost),
                "{name} starting at block {first}"
            );
            assert!(
                rewritten_lost <= lost && (first > 0 || rewritten_lost == lost),
                "{name}"
            );
            let by_time = story(&stream, everything(Order::Time));
            assert_eq!((by_time.stats.late, by_time.stats.unknown_metadata), (0, 0), "{name}");
        }
    }
}

/// Thread that writes an event, and the number of events of this thread that are lost before the event.
type Step = (u64, u32);

/// Builds a stream with a block for each element, followed by a sequence point if the second value of the element is
/// true.
fn made(blocks: &[(Vec<Step>, bool)]) -> Vec<u8> {
    let mut encoder = Encoder::new(Format::V4, &header(Format::V4)).unwrap();
    let (mut numbers, mut ticks) = (BTreeMap::new(), 0);
    for (id, (steps, point)) in blocks.iter().enumerate() {
        let id = id as u32 + 1;
        encoder
            .metadata(&Metadata {
                id,
                provider: "Some-Provider".into(),
                event_id: id,
                ..Metadata::default()
            })
            .unwrap();
        for (thread, lost) in steps {
            let sequence: &mut u32 = numbers.entry(*thread).or_default();
            *sequence += lost + 1;
            ticks += 1;
            encoder
                .event(&EventRecord {
                    metadata_id: id,
                    sequence: *sequence,
                    capture_thread: *thread,
                    thread: *thread,
                    timestamp: ticks,
                    is_sorted: true,
                    payload: &ticks.to_le_bytes(),
                    ..EventRecord::default()
                })
                .unwrap();
        }
        encoder.flush().unwrap();
        if *point {
            let each: Vec<(u64, u32)> = numbers.iter().map(|(id, number)| (*id, *number)).collect();
            encoder.sequence_point(ticks, &each).unwrap();
        }
    }
    encoder.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Scenario: a stream of several threads with losses at any position is cut between any two blocks.
    /// Guarantee: the new stream has exactly as many events as the stream has after the cut, and exactly the losses of
    /// each thread after the last event of this thread before the cut.
    #[test]
    fn rewritten_stream_has_losses_after_cut(
        blocks in prop::collection::vec(
            (prop::collection::vec((1_u64..6, prop::sample::select(vec![0_u32, 0, 0, 1, 7])), 1..20), any::<bool>()),
            1..8,
        ),
        cut in 0_usize..8,
    ) {
        let bytes = made(&blocks);
        let (kept, _) = kept(&bytes, everything(Order::File), 100);
        let cut = cut.min(blocks.len());
        // Find the frame of the first event block after the cut.
        let mut seen = 0;
        let place = kept.frames.iter().position(|(is, _)| {
            seen += usize::from(*is == BlockContent::Events);
            seen > cut
        });
        let (stream, count, lost) = written(&kept, place.unwrap_or(kept.frames.len()));
        let rest = || blocks[cut..].iter().flat_map(|(steps, _)| steps);
        prop_assert_eq!(count, rest().count() as u64);
        prop_assert_eq!(lost, rest().map(|(_, lost)| u64::from(*lost)).sum::<u64>());
        let again = story(&stream, everything(Order::Time));
        prop_assert_eq!(again.stats.lost, Some(lost));
        prop_assert_eq!(again.stats.unknown_metadata, 0);
        prop_assert_eq!(again.ending, Some(Ending::Clean));
        prop_assert_eq!(events(&again).len() as u64, count);
    }

    /// Scenario: arbitrary bytes are passed as frames.
    /// Guarantee: the result is a readable stream of bounded length.
    #[test]
    fn arbitrary_frames_yield_stream(bytes in prop::collection::vec(any::<u8>(), 0..3000), kind in 0_u8..4, count in 0_u32..3) {
        let framed = [&[kind][..], &count.to_le_bytes(), &vec![1; count as usize * 13], &(bytes.len() as u32).to_le_bytes(), &bytes];
        for frames in [bytes.clone(), framed.concat()] {
            let mut rewriter = Rewriter::new(&header(Format::V4)).unwrap();
            rewriter.frames(&frames).unwrap();
            let stream = rewriter.finish().unwrap();
            prop_assert!(stream.len() <= 400 + 8 * frames.len());
            let again = story(&stream, everything(Order::Time));
            prop_assert_eq!((again.error, again.ending), (None, Some(Ending::Clean)));
        }
    }
}

/// Scenario: truncated recordings with flipped bits are read with a keeper, and some retained frames are damaged again.
/// Guarantee: rewriting does not panic; the written stream is readable to its end, with no more events than the bytes
/// can contain.
#[test]
fn damaged_frames_are_omitted() {
    let mut seeded = Seeded::new(11);
    for name in [
        "net10-idle",
        "net31-fin",
        "net10b-attach-in-bgc",
        "net10-threads-server",
    ] {
        let bytes = recordings::bytes(name);
        for _ in 0..100 {
            let mut damaged = bytes.clone();
            for _ in 0..seeded.below(4) {
                let place = seeded.below(damaged.len());
                damaged[place] ^= 1 << seeded.below(8);
            }
            damaged.truncate(1 + seeded.below(damaged.len()));
            let (mut kept, _) = kept(&damaged, everything(Order::Time), 1 + seeded.below(5000));
            let Some(header) = kept.header.take() else { continue };
            let mut rewriter = Rewriter::new(&header).unwrap();
            for (_, frame) in &mut kept.frames {
                if seeded.below(10) == 0 {
                    let place = seeded.below(frame.len());
                    frame[place] ^= 1 << seeded.below(8);
                }
                if seeded.below(30) == 0 {
                    frame.truncate(seeded.below(frame.len()));
                }
                rewriter.frames(frame).unwrap();
            }
            let stream = rewriter.finish().unwrap();
            let again = story(&stream, everything(Order::Time));
            assert_eq!((again.error, again.ending), (None, Some(Ending::Clean)), "{name}");
            assert!(again.stats.events <= bytes.len() as u64 / 2, "{name}");
        }
    }
}
