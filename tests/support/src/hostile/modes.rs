//! The behaviours of a hostile runtime, by name.

use std::time::Duration;

use nettrace::Metadata;
use nettrace::encode::{EncodeError, EventRecord, Label, ThreadRecord};

use super::forge::{Forge, UNSORTED, monotonic};

/// A way to misbehave.
#[derive(Debug, Clone, Copy)]
pub struct Mode {
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    pub does: Behaviour,
}

/// Behaviour of a mode.
#[derive(Debug, Clone, Copy)]
pub enum Behaviour {
    /// Answers each command. Each session has an endless stream of these pieces.
    Stream(Pieces),
    /// Like `Stream`, in format V6, which writers other than the runtime use.
    StreamV6(Pieces),
    /// Like `Stream`, but neither obeys nor answers a command to stop.
    NeverStops(Pieces),
    /// Like `Stream`, except for sessions with stacks: they get a burst with all samples, and many more samples when
    /// they are stopped.
    Burst(Pieces),
    /// Like `Stream`, but sessions with stacks get no stacks and do not end when they are stopped.
    HoldsBursts(Pieces),
    /// Sends these bytes, then keeps the stream open without further bytes.
    Bytes(&'static [u8]),
    /// Sends the start of a stream, then repeats these bytes.
    After(&'static [u8]),
    /// Closes each session immediately after its start.
    EndsAtOnce,
    /// Accepts connections, and answers no command.
    Silent,
    /// Answers each command with these bytes, and starts no session.
    Answers(&'static [u8]),
}

/// A function that writes the next piece of a stream, usually about 50 KB. The function takes the forge of the session
/// and the number of previous pieces. Returns the pause after the piece.
type Pieces = fn(&mut Forge, u32) -> Result<Duration, EncodeError>;

const NO_DELAY: Duration = Duration::ZERO;

/// All modes.
pub const MODES: &[Mode] = &[
    Mode {
        name: "well-behaved",
        about: "twenty complete collections per second: the neighbour that must lose nothing",
        does: Behaviour::Stream(well_behaved),
    },
    Mode {
        name: "time-stands-still",
        about: "endless complete collections, all at the same instant",
        does: Behaviour::Stream(time_stands_still),
    },
    Mode {
        name: "time-runs-back",
        about: "complete collections, each an hour before the previous",
        does: Behaviour::Stream(time_runs_back),
    },
    Mode {
        name: "flood",
        about: "complete collections as fast as they are read, one per microsecond of the stream",
        does: Behaviour::Stream(flood),
    },
    Mode {
        name: "never-stops",
        about: "a flood that continues after an unanswered stop command",
        does: Behaviour::NeverStops(flood),
    },
    Mode {
        name: "stays-open",
        about: "twenty complete collections per second that continue after an unanswered stop command",
        does: Behaviour::NeverStops(well_behaved),
    },
    Mode {
        name: "ends-without-start",
        about: "ends of collections that never started, in nine runtimes of one process",
        does: Behaviour::Stream(ends_without_start),
    },
    Mode {
        name: "open-stops",
        about: "suspensions that never end, each on another thread",
        does: Behaviour::Stream(open_stops),
    },
    Mode {
        name: "stops-without-end",
        about: "background collections with final stops without an end",
        does: Behaviour::Stream(stops_without_end),
    },
    Mode {
        name: "per-heap-histories",
        about: "collections that claim 65,535 heaps, with the histories of thousands",
        does: Behaviour::Stream(per_heap_histories),
    },
    Mode {
        name: "huge-definitions",
        about: "definitions of events with names of 60 KB",
        does: Behaviour::Stream(huge_definitions),
    },
    Mode {
        name: "endless-metadata",
        about: "a new definition for each event",
        does: Behaviour::Stream(endless_metadata),
    },
    Mode {
        name: "redefined",
        about: "one metadata id whose meaning changes repeatedly",
        does: Behaviour::Stream(redefined),
    },
    Mode {
        name: "pending-never-sorted",
        about: "events from the newest to the oldest, without a guaranteed order",
        does: Behaviour::Stream(pending_never_sorted),
    },
    Mode {
        name: "threads-without-end",
        about: "each event on another thread",
        does: Behaviour::Stream(threads_without_end),
    },
    Mode {
        name: "sequence-points",
        about: "sequence points of 32,768 new threads, each of which has lost events",
        does: Behaviour::Stream(sequence_points),
    },
    Mode {
        name: "huge-stacks",
        about: "stacks of 90 KB for events without requested stacks",
        does: Behaviour::Stream(huge_stacks),
    },
    Mode {
        name: "label-lists",
        about: "a V6 stream with a new list of labels for each event, which change its definition",
        does: Behaviour::StreamV6(label_lists),
    },
    Mode {
        name: "thread-indexes",
        about: "a V6 stream that names threads without end",
        does: Behaviour::StreamV6(thread_indexes),
    },
    Mode {
        name: "block-never-ends",
        about: "a block of 4 GB",
        does: Behaviour::After(
            b"\x05\x05\x01\x02\0\0\0\x02\0\0\0\x0a\0\0\0EventBlock\x06\xff\xff\xff\xff\0\0\0\0\0\0\0\0",
        ),
    },
    Mode {
        name: "not-a-stream",
        about: "a stream that is not nettrace",
        does: Behaviour::Bytes(b"GIF89a and so on, for long enough to be taken for a header"),
    },
    Mode {
        name: "half-header",
        about: "the first eleven bytes of a stream, and nothing after them",
        does: Behaviour::Bytes(b"Nettrace\x14\0\0"),
    },
    Mode {
        name: "no-header",
        about: "a session that starts and sends no byte",
        does: Behaviour::Bytes(b""),
    },
    Mode {
        name: "ends-at-once",
        about: "sessions that end immediately after their start",
        does: Behaviour::EndsAtOnce,
    },
    Mode {
        name: "silent",
        about: "accepts connections, and answers nothing",
        does: Behaviour::Silent,
    },
    Mode {
        name: "burst",
        about: "behaves well except in sessions with stacks: 1,500 stacks of 100 frames, with method names of 6 KB",
        does: Behaviour::Burst(well_behaved),
    },
    Mode {
        name: "holds-bursts",
        about: "behaves well, but sessions with stacks do not end when they are stopped",
        does: Behaviour::HoldsBursts(well_behaved),
    },
    Mode {
        name: "answers-garbage",
        about: "answers each command with bytes that are not an answer",
        does: Behaviour::Answers(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"),
    },
    Mode {
        name: "answers-without-end",
        about: "answers that claim 65,535 bytes and have twenty",
        does: Behaviour::Answers(b"DOTNET_IPC_V1\0\xff\xff\xff\0\0\0"),
    },
];

fn well_behaved(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    let now = monotonic();
    for in_piece in 0..2 {
        let at = now - i64::from(1 - in_piece) * 20_000_000;
        forge.collection(piece * 2 + in_piece as u32 + 1, at, 1_000_000)?;
    }
    Ok(Duration::from_millis(100))
}

fn time_stands_still(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    (1..=150).try_for_each(|number| forge.collection(piece * 150 + number, 1_000_000_000, 0))?;
    Ok(NO_DELAY)
}

fn time_runs_back(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for number in piece * 150 + 1..=piece * 150 + 150 {
        forge.collection(number, monotonic() - i64::from(number) * 3_600_000_000_000, 1_000_000)?;
    }
    Ok(NO_DELAY)
}

/// Number of stacks that one call of [`samples`] writes. Each stack has [`FRAMES`] frames.
const STACKS: u64 = 1500;
const FRAMES: u64 = 100;

/// Writes samples of allocations, each with a unique stack. `number` is the number of the call; `at` is the time of the
/// samples.
pub(super) fn samples(forge: &mut Forge, number: u64, at: i64) -> Result<(), EncodeError> {
    for stack in number * STACKS..(number + 1) * STACKS {
        let frames = (0..FRAMES).map(|frame| METHODS + frame * METHOD_BYTES + stack % METHOD_BYTES);
        let frames: Vec<u8> = frames.flat_map(u64::to_le_bytes).collect();
        let id = stack as u32 + 1;
        forge.encoder.stack_block(id, &[&frames])?;
        let mut payload = vec![0; 4 + 2 + 8];
        payload.extend(text(&format!("Type{stack}")));
        payload.extend([0; 8]);
        payload.extend(100_u64.to_le_bytes());
        payload.extend([0; 8]);
        forge.sample(id, at, &payload)?;
        forge.flush()?;
    }
    Ok(())
}

/// Address of the first method. Each method has [`METHOD_BYTES`] bytes.
const METHODS: u64 = 1 << 32;
const METHOD_BYTES: u64 = 1 << 20;

/// Writes the addresses and names of the methods of all stacks.
pub(super) fn methods(forge: &mut Forge) -> Result<(), EncodeError> {
    let at = monotonic();
    for method in 0..FRAMES {
        let mut payload = Vec::new();
        for word in [method, 1, METHODS + method * METHOD_BYTES] {
            payload.extend(word.to_le_bytes());
        }
        for word in [METHOD_BYTES as u32, 0x0600_0001, 0] {
            payload.extend(word.to_le_bytes());
        }
        for name in [format!("N{method:03}"), format!("M{method:03}"), String::new()] {
            payload.extend(text(&format!("{name}{}", "語".repeat(1020))));
        }
        forge.method(at, &payload)?;
        forge.flush()?;
    }
    Ok(())
}

fn text(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

fn flood(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for number in piece * 150 + 1..=piece * 150 + 150 {
        forge.collection(number, 1_000_000_000 + i64::from(number) * 1000, 100)?;
    }
    Ok(NO_DELAY)
}

fn ends_without_start(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for number in piece * 2000 + 1..=piece * 2000 + 2000 {
        forge.end(number, (number % 9) as u16, 1_000_000_000)?;
    }
    Ok(NO_DELAY)
}

fn open_stops(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for number in piece * 800 + 1..=piece * 800 + 800 {
        forge.suspend(1, number, number.into(), 1_000_000_000)?;
    }
    Ok(NO_DELAY)
}

fn stops_without_end(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for number in piece * 500 + 1..=piece * 500 + 500 {
        if number % 70 == 1 {
            forge.start(number, 1, 1_000_000_000)?;
        }
        forge.suspend(6, number, 1, 1_000_000_000)?;
        forge.restart(1, 1_000_000_002)?;
    }
    Ok(NO_DELAY)
}

fn per_heap_histories(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for number in piece * 2 + 1..=piece * 2 + 2 {
        forge.suspend(1, number - 1, 1, 1_000_000_000)?;
        forge.start(number, 0, 1_000_000_001)?;
        forge.histories(65_535, (0..4096).step_by(13).chain(65_000..65_010), 1_000_000_001)?;
        forge.restart(1, 1_000_000_002)?;
    }
    Ok(NO_DELAY)
}

/// Writes a definition of the event GCStart of the collector, which gcwatch processes.
fn define(forge: &mut Forge, id: u32, name: String) -> Result<(), EncodeError> {
    forge.encoder.metadata(&Metadata {
        id,
        provider: super::forge::PROVIDER.into(),
        event_id: 1,
        name,
        version: Some(2),
        ..Metadata::default()
    })
}

fn huge_definitions(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    define(forge, 1000 + piece, "n".repeat(30_000))?;
    Ok(NO_DELAY)
}

fn endless_metadata(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for id in 0..500 {
        define(forge, 1000 + piece * 500 + id, String::new())?;
    }
    Ok(NO_DELAY)
}

fn redefined(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for number in 0..500 {
        define(forge, 1000, format!("{piece}.{number}"))?;
    }
    Ok(NO_DELAY)
}

fn pending_never_sorted(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for number in piece * 2000..piece * 2000 + 2000 {
        let at = 1_000_000_000_000_000 - i64::from(number);
        forge.event(7, 1, at, UNSORTED, &[0; 2])?;
    }
    Ok(NO_DELAY)
}

fn threads_without_end(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for number in piece * 1500..piece * 1500 + 1500 {
        let thread = u64::from(number) << 32 | 1;
        forge.encoder.event(&EventRecord {
            metadata_id: 7,
            sequence: 5,
            capture_thread: thread,
            thread,
            timestamp: 1_000_000_000,
            is_sorted: true,
            payload: &[0; 2],
            ..EventRecord::default()
        })?;
    }
    Ok(NO_DELAY)
}

fn sequence_points(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    let first = u64::from(piece) << 32;
    let threads: Vec<(u64, u32)> = (first..first + (1 << 15)).map(|thread| (thread, 9)).collect();
    forge
        .encoder
        .sequence_point(1_000_000_000 + i64::from(piece), &threads)?;
    Ok(NO_DELAY)
}

fn huge_stacks(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    forge.encoder.stack_block(piece + 1, &[&[8; 90_000]])?;
    forge.event(7, 1, 1_000_000_000, UNSORTED, &[0; 2])?;
    Ok(NO_DELAY)
}

fn label_lists(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    for number in piece * 500..piece * 500 + 500 {
        forge.encoder.event(&EventRecord {
            metadata_id: 7,
            timestamp: 1_000_000_000,
            is_sorted: true,
            labels: &[Label::Keywords(number.into())],
            payload: &[0; 2],
            ..EventRecord::default()
        })?;
    }
    Ok(NO_DELAY)
}

fn thread_indexes(forge: &mut Forge, piece: u32) -> Result<Duration, EncodeError> {
    let name = "n".repeat(50);
    for index in 0..500 {
        let thread = ThreadRecord {
            index: u64::from(piece * 500 + index) + 1,
            thread: Some(7),
            process: Some(u64::from(piece)),
            name: Some(&name),
        };
        forge.encoder.threads(&[thread])?;
    }
    Ok(NO_DELAY)
}
