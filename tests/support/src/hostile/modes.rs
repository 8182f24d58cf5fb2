//! The behaviours of a hostile runtime, by name.

use std::time::Duration;

use nettrace::Metadata;
use nettrace::encode::{EncodeError, EventRecord, Label, ThreadRecord};

use super::forge::{Forge, UNSORTED, monotonic};

/// A named behaviour of the hostile runtime. All modes except `well-behaved` attack the client.
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
    /// Answers each command. Each session streams these pieces until a client stops the session.
    Stream(Pieces),
    /// Like `Stream`, but in format V6. Writers other than the runtime use this format.
    StreamV6(Pieces),
    /// Like `Stream`, but neither obeys nor answers a command to stop a session.
    NeverStops(Pieces),
    /// Like `Stream`, except for sessions with stacks. Such a session gets samples at its start. After a client has
    /// stopped the session, nine times as many samples and the names of the methods follow.
    Burst(Pieces),
    /// Like `Stream`, except for sessions with stacks. Such a session gets no event, and its stream stays open after a
    /// client has stopped the session.
    HoldsBursts(Pieces),
    /// Sends these bytes in each session, and then keeps the stream open until a client stops the session.
    Bytes(&'static [u8]),
    /// Sends the start of a stream in each session, and then repeats these bytes until a client stops the session.
    After(&'static [u8]),
    /// Closes the stream of each session immediately after the start of the session.
    EndsAtOnce,
    /// Accepts connections, but answers no command.
    Silent,
    /// Answers each command with these bytes, and starts no session.
    Answers(&'static [u8]),
}

/// A function that writes the next piece of a stream, usually about 50 KB. The function takes the forge of the session
/// and the number of previous pieces, and returns the pause after the piece.
type Pieces = fn(&mut Forge, u32) -> Result<Duration, EncodeError>;

const NO_DELAY: Duration = Duration::ZERO;

/// All modes.
pub const MODES: &[Mode] = &[
    Mode {
        name: "well-behaved",
        about: "20 complete collections per second, from a neighbour whose collections must all be reported",
        does: Behaviour::Stream(well_behaved),
    },
    Mode {
        name: "time-stands-still",
        about: "endless complete collections, all at the same instant",
        does: Behaviour::Stream(time_stands_still),
    },
    Mode {
        name: "time-runs-back",
        about: "complete collections, each one hour before the previous collection",
        does: Behaviour::Stream(time_runs_back),
    },
    Mode {
        name: "flood",
        about: "complete collections as fast as the client reads, one per microsecond of stream time",
        does: Behaviour::Stream(flood),
    },
    Mode {
        name: "never-stops",
        about: "like `flood`, but the stream continues after a stop command, which is not answered",
        does: Behaviour::NeverStops(flood),
    },
    Mode {
        name: "stays-open",
        about: "like `well-behaved`, but the stream continues after a stop command, which is not answered",
        does: Behaviour::NeverStops(well_behaved),
    },
    Mode {
        name: "ends-without-start",
        about: "ends of collections that never started, in nine runtimes of one process",
        does: Behaviour::Stream(ends_without_start),
    },
    Mode {
        name: "open-stops",
        about: "suspensions that never end, each on a different thread",
        does: Behaviour::Stream(open_stops),
    },
    Mode {
        name: "stops-without-end",
        about: "background collections that never end, each with 70 final stops",
        does: Behaviour::Stream(stops_without_end),
    },
    Mode {
        name: "per-heap-histories",
        about: "collections that claim 65,535 heaps, with the histories of 326 heaps",
        does: Behaviour::Stream(per_heap_histories),
    },
    Mode {
        name: "huge-definitions",
        about: "definitions of events with names of 60 KB",
        does: Behaviour::Stream(huge_definitions),
    },
    Mode {
        name: "endless-metadata",
        about: "definitions with new metadata ids, without end and without events",
        does: Behaviour::Stream(endless_metadata),
    },
    Mode {
        name: "redefined",
        about: "endless definitions of one metadata id, each with a different event name",
        does: Behaviour::Stream(redefined),
    },
    Mode {
        name: "pending-never-sorted",
        about: "events from the newest to the oldest, all marked as unsorted",
        does: Behaviour::Stream(pending_never_sorted),
    },
    Mode {
        name: "threads-without-end",
        about: "each event on a different thread",
        does: Behaviour::Stream(threads_without_end),
    },
    Mode {
        name: "sequence-points",
        about: "sequence points with 32,768 new threads, each with lost events",
        does: Behaviour::Stream(sequence_points),
    },
    Mode {
        name: "huge-stacks",
        about: "stacks of 90 KB, also in sessions that request no stacks",
        does: Behaviour::Stream(huge_stacks),
    },
    Mode {
        name: "label-lists",
        about: "a V6 stream in which each event has new labels that override its definition",
        does: Behaviour::StreamV6(label_lists),
    },
    Mode {
        name: "thread-indexes",
        about: "a V6 stream that describes new threads without end",
        does: Behaviour::StreamV6(thread_indexes),
    },
    Mode {
        name: "block-never-ends",
        about: "a block with a claimed size of 4 GB",
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
        about: "the first 11 bytes of a stream, and no further bytes",
        does: Behaviour::Bytes(b"Nettrace\x14\0\0"),
    },
    Mode {
        name: "no-header",
        about: "sessions that start but send no bytes",
        does: Behaviour::Bytes(b""),
    },
    Mode {
        name: "ends-at-once",
        about: "sessions that end immediately after their start",
        does: Behaviour::EndsAtOnce,
    },
    Mode {
        name: "silent",
        about: "accepts connections, but answers no command",
        does: Behaviour::Silent,
    },
    Mode {
        name: "burst",
        about: "like `well-behaved`, but sessions with stacks get 15,000 stacks of 100 frames, with names of 6 KB",
        does: Behaviour::Burst(well_behaved),
    },
    Mode {
        name: "holds-bursts",
        about: "like `well-behaved`, but sessions with stacks are empty and do not end when they are stopped",
        does: Behaviour::HoldsBursts(well_behaved),
    },
    Mode {
        name: "answers-garbage",
        about: "answers each command with an HTTP response",
        does: Behaviour::Answers(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"),
    },
    Mode {
        name: "answers-without-end",
        about: "answers that claim 65,535 bytes and contain 20",
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

/// Writes [`STACKS`] samples of allocations, each with a unique stack. `number` is the number of previous calls. `at`
/// is the time of the samples, in nanoseconds of CLOCK_MONOTONIC.
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

/// Address of the first method. The code of each method has [`METHOD_BYTES`] bytes.
const METHODS: u64 = 1 << 32;
const METHOD_BYTES: u64 = 1 << 20;

/// Writes the address and the name of each method that occurs in the stacks.
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

/// Writes a definition of the collector's event GCStart. gcwatch processes this event.
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
