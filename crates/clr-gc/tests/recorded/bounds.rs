//! Streams that try to exhaust memory: the memory of a live stream is bounded and known.

use clr_gc::event::RUNTIME_PROVIDER;
use clr_gc::gc::{Collection, LIVE_SETTLE_NS, MAX_SETTLED, Outcome, ReportTiming};
use clr_gc::stream::{AdvanceOutcome, GcStream, Scope, StreamLimits};
use nettrace::encode::{Encoder, EventRecord};
use nettrace::{Format, Metadata, TraceHeader};

/// Ids of the forged events, with the versions of their payloads.
const KINDS: [(u32, u32); 8] = [(1, 2), (2, 1), (3, 1), (4, 2), (8, 1), (9, 1), (204, 3), (205, 2)];

/// A writer of forged events.
struct Forger {
    encoder: Encoder,
    sequence: u32,
}

impl Forger {
    fn new() -> Self {
        let header = TraceHeader {
            process_id: Some(1),
            ..TraceHeader::default()
        };
        let mut encoder = Encoder::new(Format::V4, &header).unwrap();
        for (event_id, version) in KINDS {
            let metadata = Metadata {
                id: event_id,
                provider: RUNTIME_PROVIDER.into(),
                event_id,
                version: Some(version),
                ..Metadata::default()
            };
            encoder.metadata(&metadata).unwrap();
        }
        Self { encoder, sequence: 0 }
    }

    fn send(&mut self, id: u32, thread: u64, at: i64, payload: &[&[u8]]) {
        self.sequence += 1;
        let record = EventRecord {
            metadata_id: id,
            sequence: self.sequence,
            capture_thread: 1,
            thread,
            timestamp: at,
            is_sorted: true,
            payload: &payload.concat(),
            ..EventRecord::default()
        };
        self.encoder.event(&record).unwrap();
    }

    fn start(&mut self, number: u32, kind: u32, at: i64) {
        let words = [number, 2, 0, kind].map(u32::to_le_bytes).concat();
        self.send(1, 1, at, &[&words, &[0; 10]]);
    }

    fn end(&mut self, number: u32, clr_instance: u16, at: i64) {
        let words = [number, 2].map(u32::to_le_bytes).concat();
        self.send(2, 1, at, &[&words, &clr_instance.to_le_bytes()]);
    }

    fn suspend(&mut self, reason: u32, previous: u32, thread: u64, at: i64) {
        let words = [reason, previous].map(u32::to_le_bytes).concat();
        self.send(9, thread, at, &[&words, &[0; 2]]);
        self.send(8, thread, at, &[&[0; 2]]);
    }

    fn restart(&mut self, thread: u64, at: i64) {
        self.send(3, thread, at, &[&[0; 2]]);
    }

    fn histories(&mut self, heaps: u32, sent: impl Iterator<Item = u32>, at: i64) {
        let mut global = vec![0; 8];
        global.extend([heaps, 2, 0, 0, 0].map(u32::to_le_bytes).concat());
        global.extend([0; 10]);
        self.send(205, 1, at, &[&global]);
        for heap in sent {
            let mut history = vec![0; 2 + 6 * 8 + 5 * 4];
            history.extend(heap.to_le_bytes());
            history.extend([0; 8]);
            history.extend(0_u32.to_le_bytes());
            self.send(204, 1, at, &[&history]);
        }
    }

    /// Writes a whole blocking collection at one instant.
    fn collection(&mut self, number: u32, at: i64) {
        self.suspend(1, number - 1, 1, at);
        self.start(number, 0, at);
        self.histories(1, 0..1, at);
        self.end(number, 0, at);
        self.send(4, 1, at, &[&[0; 110]]);
        self.restart(1, at);
    }
}

/// Processes a stream as a live session does. Returns all collections, the maximum number of bytes allocated in
/// addition to them, and the maximum memory that the stream reported, in bytes.
fn live(mut forger: Forger) -> (Vec<Collection>, u64, u64) {
    forger.encoder.flush().unwrap();
    let bytes = forger.encoder.take();
    let (mut collections, mut said) = (Vec::with_capacity(200_000), 0);
    let used = allocation_counter::measure(|| {
        let limits = StreamLimits::one_live_process();
        let mut stream = GcStream::with_limits(Scope::Collections, ReportTiming::After(LIVE_SETTLE_NS), limits);
        let mut take = |stream: &mut GcStream| {
            loop {
                let advanced = stream.advance(|_| ()).unwrap();
                said = said.max(stream.memory_bytes());
                while let Some((_, outcome)) = stream.next_outcome() {
                    if let Outcome::Collection(collection) = outcome {
                        // The heap memory of an outcome belongs to its receiver.
                        let pauses = Vec::new();
                        collections.push(Collection { pauses, ..*collection });
                    }
                }
                if advanced == AdvanceOutcome::Drained {
                    break;
                }
            }
        };
        for piece in bytes.chunks(64 << 10) {
            stream.push(piece);
            take(&mut stream);
            stream.shrink();
        }
        stream.finish();
        take(&mut stream);
        stream.end();
        take(&mut stream);
    });
    (collections, used.bytes_max, said as u64)
}

/// Scenario: 50,000 whole collections occur at the same instant.
/// Guarantee: all collections are reported, in order, within 6 MB, and the stream reports more than half of the memory
/// that it uses. At most [`MAX_SETTLED`] collections claim to be complete and not lossy; the other collections could
/// not wait for losses.
#[test]
fn collections_at_same_instant_use_bounded_memory() {
    let mut forger = Forger::new();
    (1..=50_000).for_each(|number| forger.collection(number, 5));
    let (collections, used, said) = live(forger);
    let numbers: Vec<u32> = collections.iter().map(|collection| collection.number).collect();
    assert_eq!(numbers, (1..=50_000).collect::<Vec<_>>());
    let claimed = collections.iter().filter(|gc| gc.is_complete() && !gc.lossy).count();
    assert!(collections[0].is_complete() && collections[0].lossy);
    assert!(claimed <= MAX_SETTLED, "{claimed}");
    assert!(used < 6_000_000 && said <= used && said * 2 > used, "{said} of {used}");
}

/// Scenario: a runtime collects continuously, and produces within the settling time at most as many collections as the
/// stream keeps.
/// Guarantee: each collection waits until the end of the settling time for reports of losses, and is complete and not
/// lossy.
#[test]
fn burst_of_collections_waits_for_losses() {
    let mut forger = Forger::new();
    let each = LIVE_SETTLE_NS / MAX_SETTLED as i64 + 1_000;
    (1..=20_000).for_each(|number| forger.collection(number, i64::from(number) * each));
    let (collections, ..) = live(forger);
    assert_eq!(collections.len(), 20_000);
    assert!(collections.iter().all(|gc| gc.is_complete() && !gc.lossy));
}

/// Scenario: parts of collections that never become complete fill each store: ends of collections that neither started
/// nor restarted the threads (in one runtime and in nine), background collections with endless stops, histories of
/// endless heaps, and threads that stop and never restart.
/// Guarantee: the stream uses less than 9 MB and never reports more memory than it uses, and every reported collection
/// is incomplete.
#[test]
fn incomplete_collections_use_bounded_memory() {
    type Write<'w> = &'w dyn Fn(&mut Forger, u32);
    let forge = |write: Write<'_>| {
        let mut forger = Forger::new();
        (1..=15_000).for_each(|number| write(&mut forger, number));
        live(forger)
    };
    let cases: [(&str, Write<'_>); 5] = [
        ("ends", &|forger, number| forger.end(number, 0, 5)),
        ("ends of four", &|forger, number| {
            forger.end(number, (number % 9) as u16, 5)
        }),
        ("final stops", &|forger, number| {
            if number % 70 == 1 {
                forger.start(number, 1, 5);
            }
            forger.suspend(6, number, 1, 5);
            forger.restart(1, 5);
        }),
        ("heaps", &|forger, number| {
            forger.suspend(1, number - 1, 1, 5);
            forger.start(number, 0, 5);
            forger.histories(65_535, (number % 5..5000).step_by(1000), 5);
        }),
        ("threads", &|forger, number| forger.suspend(1, number, number.into(), 5)),
    ];
    for (name, write) in cases {
        let (collections, used, said) = forge(write);
        assert!(collections.iter().all(|gc| !gc.is_complete()), "{name}");
        assert!(used < 9_000_000 && said <= used, "{name}: {said} of {used}");
    }
}
