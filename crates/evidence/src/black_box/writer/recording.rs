//! One recording of an incident, from its first bytes until it has its final name. The writer decides which incidents
//! are recorded, and the duration.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use incidents::QuotaOwner;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nettrace::encode::EncodeError;
use nettrace::keep::Rewriter;
use nettrace::{SystemTime, TraceHeader};

use crate::black_box::files::Files;
use base::run_key::RunKey;
use targets::black_box::{BlackBoxes, Piece, RetainedEvents, StreamContinuation};

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) run: RunKey,
    /// Owner of the recording; `None` if unknown.
    pub(super) share: Option<QuotaOwner>,
    pub(super) id: Arc<str>,
    file: File,
    rewriter: Rewriter,
    header: Arc<TraceHeader>,
    /// Ticks of the last event before the incident; `None` if no earlier event was kept.
    incident: Option<i64>,
    pub(super) until: Instant,
    pub(super) bytes: u64,
}

/// Returns the header of a recording, whose clock starts with the oldest kept event. The session can have started much
/// earlier, and readers of the recording would take the time before this event for a period without events.
fn beginning(kept: &RetainedEvents) -> TraceHeader {
    let header = &*kept.header;
    later(header, oldest(kept)).unwrap_or_else(|| header.clone())
}

/// Returns the ticks of the oldest kept event; `None` if there is no event yet.
fn oldest(kept: &RetainedEvents) -> Option<i64> {
    let mut reading = Rewriter::new(&kept.header).ok()?;
    for frames in kept.pieces.iter().filter_map(Piece::frames) {
        reading.frames(&frames).ok()?;
        if let Some((oldest, _)) = reading.span() {
            return Some(oldest);
        }
    }
    None
}

/// Moves the start of a clock by whole milliseconds, which is the resolution of a stream's wall clock. Returns `None`
/// if the new start is not later, or if the wall clock is invalid.
fn later(header: &TraceHeader, ticks: Option<i64>) -> Option<TraceHeader> {
    let ms = i128::from(header.offset_ns(ticks?)).div_euclid(1_000_000);
    // If a millisecond is not an integer number of ticks, a second is.
    let ms = if header.frequency % 1000 == 0 {
        ms
    } else {
        ms - ms.rem_euclid(1000)
    };
    let moved = ms * i128::from(header.frequency) / 1000;
    let sync_ticks = i64::try_from(i128::from(header.sync_ticks) + moved).ok()?;
    let unix_ns = header.system_time.unix_ns()? + ms * 1_000_000;
    let time = Timestamp::from_nanosecond(unix_ns).ok()?.to_zoned(TimeZone::UTC);
    let of = |part: i8| u16::try_from(part).ok();
    let system_time = SystemTime {
        year: u16::try_from(time.year()).ok()?,
        month: of(time.month())?,
        day_of_week: of(time.weekday().to_sunday_zero_offset())?,
        day: of(time.day())?,
        hour: of(time.hour())?,
        minute: of(time.minute())?,
        second: of(time.second())?,
        millisecond: u16::try_from(time.millisecond()).ok()?,
    };
    (ms > 0).then(|| TraceHeader {
        system_time,
        sync_ticks,
        ..header.clone()
    })
}

#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("{0}")]
    Write(#[from] io::Error),
    #[error("{0}")]
    Encode(#[from] EncodeError),
}

impl Recording {
    /// Creates the file and writes the kept part of the stream.
    pub(super) fn begin(
        (run, share): (RunKey, Option<QuotaOwner>),
        id: &Arc<str>,
        kept: &RetainedEvents,
        files: &Files,
        until: Instant,
    ) -> Result<Self, WriteError> {
        let file = files.create(id, share.clone())?;
        let mut recording = Self {
            run,
            share,
            id: Arc::clone(id),
            file,
            rewriter: Rewriter::new(&beginning(kept))?,
            header: Arc::clone(&kept.header),
            incident: None,
            until,
            bytes: 0,
        };
        recording.write(&kept.pieces)?;
        recording.incident = recording.rewriter.span().map(|(_, newest)| newest);
        Ok(recording)
    }

    /// Writes the blocks that have arrived since the last call. Returns whether the stream can continue.
    pub(super) fn go_on(&mut self, boxes: &BlackBoxes) -> Result<StreamContinuation, WriteError> {
        let next = boxes.next(self.run);
        self.write(&next.pieces)?;
        Ok(next.more)
    }

    fn write(&mut self, pieces: &[Piece]) -> Result<(), WriteError> {
        for piece in pieces {
            if let Some(frames) = piece.frames() {
                self.rewriter.frames(&frames)?;
                self.put()?;
            }
        }
        Ok(())
    }

    fn put(&mut self) -> Result<(), WriteError> {
        let bytes = self.rewriter.take()?;
        self.file.write_all(&bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Completes the stream, and gives the file its final name. Returns a sentence for the log.
    pub(super) fn complete(mut self, files: &Files) -> Result<String, WriteError> {
        self.put()?;
        let (events, lost, span) = (self.rewriter.events(), self.rewriter.lost(), self.rewriter.span());
        let last = self.rewriter.finish()?;
        self.file.write_all(&last)?;
        self.bytes += last.len() as u64;
        self.file.sync_all()?;
        let frequency = self.header.frequency.max(1);
        let seconds = |from: i64, to: i64| u64::try_from(to.saturating_sub(from) / frequency).unwrap_or(0);
        let (before, after) = match (span, self.incident) {
            (Some((oldest, newest)), Some(incident)) => (seconds(oldest, incident), seconds(incident, newest)),
            (Some((oldest, newest)), None) => (0, seconds(oldest, newest)),
            (None, _) => (0, 0),
        };
        let name = files.complete(&self.id, (before, after))?;
        Ok(format!(
            "recorded {name}: {events} events, {lost} of them lost, {} bytes; open it with gcwatch analyze",
            self.bytes
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a stream starts at the end of February of a leap year; its oldest kept event is later by some seconds,
    /// an hour, or a day and a millisecond; clocks have ticks of a nanosecond, 100 ns, and a third of a microsecond;
    /// another event is before the start; then there is no event.
    /// Guarantee: every instant has the same time as before, and the oldest event is in the first millisecond, or
    /// second; without a later event, the header does not change.
    #[test]
    fn recording_starts_with_oldest_kept_event() {
        let system_time = SystemTime {
            year: 2028,
            month: 2,
            day_of_week: 2,
            day: 29,
            hour: 22,
            minute: 59,
            second: 59,
            millisecond: 999,
        };
        for (frequency, within_ns) in [
            (1_000_000_000, 1_000_000),
            (10_000_000, 1_000_000),
            (2_999_999, 1_000_000_000),
        ] {
            let header = TraceHeader {
                system_time,
                sync_ticks: 77_000_000_123,
                frequency,
                process_id: Some(1),
                processors: Some(2),
                ..TraceHeader::default()
            };
            for ms in [1_000, 1_501, 3_600_000, 86_400_001] {
                let oldest = header.sync_ticks + (ms * frequency + 999) / 1000;
                let moved = later(&header, Some(oldest)).unwrap();
                assert!((0..within_ns).contains(&moved.offset_ns(oldest)), "{frequency} {ms}");
                for ticks in [oldest, oldest + 12_345_678_901, header.sync_ticks] {
                    let difference = header.unix_ns(ticks).unwrap() - moved.unix_ns(ticks).unwrap();
                    assert!(difference.abs() <= 1, "{frequency} {ms}: {difference}");
                }
            }
            let day = later(&header, Some(header.sync_ticks + 86_400 * frequency)).unwrap();
            let time = day.system_time;
            assert_eq!((time.month, time.day, time.day_of_week, time.hour), (3, 1, 3, 22));
            assert_eq!(later(&header, Some(header.sync_ticks - 1)), None);
            assert_eq!(later(&header, None), None);
        }
    }
}
