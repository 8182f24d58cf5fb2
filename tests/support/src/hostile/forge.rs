//! Forged events of a runtime.

use nettrace::encode::{EncodeError, Encoder, EventRecord};
use nettrace::{Format, Metadata, SystemTime, TraceHeader};
use rustix::time::{ClockId, clock_gettime};

pub(super) const PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";

const RUNDOWN_PROVIDER: &str = "Microsoft-Windows-DotNETRuntimeRundown";

/// Ids of the metadata for `AllocationSampled` and `MethodDCEndVerbose`.
const SAMPLED: u32 = 303;
const METHOD: u32 = 9144;

/// Ids of the events of a collection, with the versions that newer runtimes send.
const KINDS: [(u32, u32); 9] = [
    (1, 2),
    (2, 1),
    (3, 1),
    (4, 2),
    (7, 1),
    (8, 1),
    (9, 1),
    (204, 3),
    (205, 2),
];

/// Flag of an event whose position in the stream's order is not certain.
pub(super) const UNSORTED: bool = false;
const SORTED: bool = true;

/// Returns CLOCK_MONOTONIC in nanoseconds, which are the ticks of a runtime on Linux.
pub(super) fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Returns the current time in UTC.
fn now() -> SystemTime {
    let now = clock_gettime(ClockId::Realtime);
    let (days, second) = (now.tv_sec / 86_400 + 719_468, now.tv_sec % 86_400);
    // Years start in March and are grouped into eras of 400 years, so that leap days are at their ends.
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let in_january = month >= 10;
    SystemTime {
        year: (era * 400 + year + i64::from(in_january)) as u16,
        month: (if in_january { month - 9 } else { month + 3 }) as u16,
        day: (day - (153 * month + 2) / 5 + 1) as u16,
        hour: (second / 3_600) as u16,
        minute: (second / 60 % 60) as u16,
        second: (second % 60) as u16,
        millisecond: (now.tv_nsec / 1_000_000) as u16,
        ..SystemTime::default()
    }
}

/// A forge that writes a stream with events of collections.
pub struct Forge {
    pub encoder: Encoder,
    /// Last sequence number of capture thread 1.
    sequence: u32,
}

impl Forge {
    pub fn new(format: Format) -> Result<Self, EncodeError> {
        let header = TraceHeader {
            format,
            // The current time is necessary, because the end of an alert depends on the time of day.
            system_time: now(),
            sync_ticks: monotonic(),
            process_id: Some(std::process::id()),
            processors: Some(2),
            ..TraceHeader::default()
        };
        let mut encoder = Encoder::new(format, &header)?;
        for (event_id, version) in KINDS {
            encoder.metadata(&Metadata {
                id: event_id,
                provider: PROVIDER.into(),
                event_id,
                version: Some(version),
                ..Metadata::default()
            })?;
        }
        for (id, provider, event_id) in [(SAMPLED, PROVIDER, 303), (METHOD, RUNDOWN_PROVIDER, 144)] {
            encoder.metadata(&Metadata {
                id,
                provider: provider.to_owned().into(),
                event_id,
                version: Some(0),
                ..Metadata::default()
            })?;
        }
        Ok(Self { encoder, sequence: 0 })
    }

    /// Writes a sample of an allocation.
    pub fn sample(&mut self, stack: u32, at: i64, payload: &[u8]) -> Result<(), EncodeError> {
        self.with_stack(SAMPLED, stack, at, payload)
    }

    /// Writes a method of the rundown.
    pub fn method(&mut self, at: i64, payload: &[u8]) -> Result<(), EncodeError> {
        self.with_stack(METHOD, 0, at, payload)
    }

    fn with_stack(&mut self, id: u32, stack_id: u32, at: i64, payload: &[u8]) -> Result<(), EncodeError> {
        self.sequence = self.sequence.wrapping_add(1);
        self.encoder.event(&EventRecord {
            metadata_id: id,
            sequence: self.sequence,
            capture_thread: 1,
            thread: 1,
            timestamp: at,
            is_sorted: true,
            stack_id,
            payload,
            ..EventRecord::default()
        })
    }

    /// Completes a block.
    pub fn flush(&mut self) -> Result<(), EncodeError> {
        self.encoder.flush()
    }

    /// Writes an event on capture thread 1.
    pub fn event(&mut self, id: u32, thread: u64, at: i64, is_sorted: bool, payload: &[u8]) -> Result<(), EncodeError> {
        self.sequence = self.sequence.wrapping_add(1);
        self.encoder.event(&EventRecord {
            metadata_id: id,
            sequence: self.sequence,
            capture_thread: 1,
            thread,
            timestamp: at,
            is_sorted,
            payload,
            ..EventRecord::default()
        })
    }

    pub fn start(&mut self, number: u32, kind: u32, at: i64) -> Result<(), EncodeError> {
        let words = [number, 2, 0, kind].map(u32::to_le_bytes).concat();
        self.event(1, 1, at, SORTED, &[&words[..], &[0; 10]].concat())
    }

    pub fn end(&mut self, number: u32, clr_instance: u16, at: i64) -> Result<(), EncodeError> {
        let words = [number, 2].map(u32::to_le_bytes).concat();
        self.event(2, 1, at, SORTED, &[&words[..], &clr_instance.to_le_bytes()].concat())
    }

    pub fn suspend(&mut self, reason: u32, previous: u32, thread: u64, at: i64) -> Result<(), EncodeError> {
        let words = [reason, previous].map(u32::to_le_bytes).concat();
        self.event(9, thread, at, SORTED, &[&words[..], &[0; 2]].concat())?;
        self.event(8, thread, at + 1, SORTED, &[0; 2])
    }

    pub fn restart(&mut self, thread: u64, at: i64) -> Result<(), EncodeError> {
        self.event(7, thread, at - 1, SORTED, &[0; 2])?;
        self.event(3, thread, at, SORTED, &[0; 2])
    }

    /// Writes the histories of a collection with `heaps` heaps, of which only the heaps in `sent` are included.
    pub fn histories(&mut self, heaps: u32, sent: impl Iterator<Item = u32>, at: i64) -> Result<(), EncodeError> {
        let mut global = vec![0; 8];
        global.extend([heaps, 2, 0, 0, 0].map(u32::to_le_bytes).concat());
        global.extend([0; 10]);
        self.event(205, 1, at, SORTED, &global)?;
        for heap in sent {
            let mut history = vec![0; 2 + 6 * 8 + 5 * 4];
            history.extend(heap.to_le_bytes());
            history.extend([0; 8]);
            history.extend(0_u32.to_le_bytes());
            self.event(204, 1, at, SORTED, &history)?;
        }
        Ok(())
    }

    /// Writes a complete blocking collection that lasts `ns` nanoseconds and ends at `at`.
    pub fn collection(&mut self, number: u32, at: i64, ns: i64) -> Result<(), EncodeError> {
        let begin = at - ns;
        self.suspend(1, number.wrapping_sub(1), 1, begin)?;
        self.start(number, 0, at - ns / 2)?;
        self.histories(1, 0..1, at - ns / 4)?;
        self.end(number, 0, at - ns / 4)?;
        self.event(4, 1, at - ns / 4, SORTED, &[0; 110])?;
        self.restart(1, at)
    }

    /// Returns the bytes that were written since the last call, in complete blocks.
    pub fn take(&mut self) -> Result<Vec<u8>, EncodeError> {
        self.encoder.flush()?;
        Ok(self.encoder.take())
    }
}
