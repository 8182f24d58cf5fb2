//! Streams that arrive in chunks, and streams that end in the middle.

use nettrace::{Ending, Error, Order};

use crate::decoded::{Digest, digest, everything, story, story_in_pieces};
use crate::recordings::{self, Seeded};

/// Maximum size of recordings that are cut at every byte, in bytes.
const SMALL: usize = 20_000;

/// Scenario: recordings arrive in chunks of 1, 2, 3, 7, 64 and 4096 bytes, and as a whole.
/// Guarantee: items, order, counters and ending are equal.
#[test]
fn chunk_size_does_not_change_result() {
    let names = [
        "net10-idle",
        "net31-fin",
        "net10b-attach-in-bgc",
        "net10-threads-server",
        "net10b-loss",
        "net8-sigkill",
    ];
    for name in names.into_iter().filter(|name| recordings::has(name)) {
        let bytes = recordings::bytes(name);
        let whole = story(&bytes, everything(Order::Time));
        for piece in [1, 2, 3, 7, 64, 4096] {
            assert!(
                story_in_pieces(&bytes, everything(Order::Time), piece) == whole,
                "{name} in chunks of {piece}"
            );
        }
    }
}

/// Compares a cut stream with the whole stream. Returns the number of events before the cut.
fn check_cut(name: &str, bytes: &[u8], cut: usize, whole: &Digest) -> usize {
    let part = digest(&bytes[..cut], everything(Order::File));
    if cut == 0 {
        assert_eq!(part.error, Some(Error::Empty));
        return 0;
    }
    assert_eq!(part.error, None, "{name} cut at {cut}");
    match part.ending {
        Some(Ending::Truncated { offset, reading }) => {
            assert_eq!(offset, cut as u64, "{name}");
            assert!(!reading.is_empty());
        }
        other => assert_eq!((other, cut), (Some(Ending::Clean), bytes.len()), "{name} cut at {cut}"),
    }
    assert!(whole.events.starts_with(&part.events), "{name} cut at {cut}");
    part.events.len()
}

/// Checks that a cut stream has the same number of events in order of time.
fn check_cut_by_time(name: &str, bytes: &[u8], cut: usize, expected: usize) {
    let part = digest(&bytes[..cut], everything(Order::Time));
    assert_eq!(part.events.len(), expected, "{name} cut at {cut}");
}

/// Scenario: each recording of at most 20 KB is cut at every byte.
/// Guarantee: no cut causes a panic, and only an empty stream is an error. The delivered events are the first events of
/// the stream, and never fewer for a later cut. The ending contains the position of the cut.
#[test]
fn small_recording_can_end_at_every_byte() {
    let mut small = 0;
    for name in recordings::names() {
        let bytes = recordings::bytes(&name);
        if bytes.len() > SMALL {
            continue;
        }
        small += 1;
        let whole = digest(&bytes, everything(Order::File));
        let mut before = 0;
        for cut in 0..=bytes.len() {
            let events = check_cut(&name, &bytes, cut, &whole);
            assert!(events >= before, "{name} cut at {cut}");
            check_cut_by_time(&name, &bytes, cut, events);
            before = events;
        }
        assert_eq!(before, whole.events.len());
    }
    assert!(small >= 4);
}

/// Scenario: each larger recording is cut at seeded positions.
/// Guarantee: no cut causes a panic, and only an empty stream is an error. The delivered events are the first events of
/// the stream, and never fewer for a later cut. The ending contains the position of the cut.
#[test]
fn large_recording_can_end_anywhere() {
    let mut seeded = Seeded::new(20);
    for name in recordings::names() {
        let bytes = recordings::bytes(&name);
        if bytes.len() <= SMALL {
            continue;
        }
        let whole = digest(&bytes, everything(Order::File));
        // 500 cuts per recording: the largest recordings take milliseconds per cut.
        let mut cuts: Vec<_> = (0..500).map(|_| seeded.below(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let mut before = 0;
        for (place, cut) in cuts.into_iter().enumerate() {
            let events = check_cut(&name, &bytes, cut, &whole);
            assert!(events >= before, "{name} cut at {cut}");
            if place % 10 == 0 {
                check_cut_by_time(&name, &bytes, cut, events);
            }
            before = events;
        }
    }
}
