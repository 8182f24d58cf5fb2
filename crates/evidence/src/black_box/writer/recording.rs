//! One recording of an incident, from the first bytes of its file until it has its name. Which incidents have one, and
//! for how long, is the writer's.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use gc_rules::incident::Share;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nettrace::encode::EncodeError;
use nettrace::keep::Rewriter;
use nettrace::{SystemTime, TraceHeader};

use crate::black_box::files::Files;
use base::run_key::RunKey;
use targets::black_box::{BlackBoxes, Kept, More, Piece};

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) run: RunKey,
    /// Whose it is; `None`: unknown.
    pub(super) share: Option<Share>,
    pub(super) id: Arc<str>,
    file: File,
    rewriter: Rewriter,
    header: Arc<TraceHeader>,
    /// Ticks of the newest event before the incident.
    incident: Option<i64>,
    pub(super) until: Instant,
    pub(super) bytes: u64,
}

/// The header of a recording: its clock begins with the oldest event that is kept. The session may have begun long
/// before, and whoever reads the recording takes that for time in which nothing happened.
fn beginning(kept: &Kept) -> TraceHeader {
    let header = &*kept.header;
    later(header, oldest(kept)).unwrap_or_else(|| header.clone())
}

/// Ticks of the oldest event that is kept; `None`: there is none yet.
fn oldest(kept: &Kept) -> Option<i64> {
    let mut reading = Rewriter::new(&kept.header).ok()?;
    for frames in kept.pieces.iter().filter_map(Piece::frames) {
        reading.frames(&frames).ok()?;
        if let Some((oldest, _)) = reading.span() {
            return Some(oldest);
        }
    }
    None
}

/// The same clock with a later beginning, by whole milliseconds, as the wall clock of a stream has them; `None`: it is
/// not later, or the wall clock is no valid time.
fn later(header: &TraceHeader, ticks: Option<i64>) -> Option<TraceHeader> {
    let ms = i128::from(header.offset_ns(ticks?)).div_euclid(1_000_000);
    // Where a millisecond is no integer of ticks, a second is.
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
pub(super) enum Failed {
    #[error("{0}")]
    Write(#[from] io::Error),
    #[error("{0}")]
    Encode(#[from] EncodeError),
}

impl Recording {
    /// Makes the file and writes what is kept of the process.
    pub(super) fn begin(
        (run, share): (RunKey, Option<Share>),
        id: &Arc<str>,
        kept: &Kept,
        files: &Files,
        until: Instant,
    ) -> Result<Self, Failed> {
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

    /// Writes what came since.
    pub(super) fn go_on(&mut self, boxes: &BlackBoxes) -> Result<More, Failed> {
        let next = boxes.next(self.run);
        self.write(&next.pieces)?;
        Ok(next.more)
    }

    fn write(&mut self, pieces: &[Piece]) -> Result<(), Failed> {
        for piece in pieces {
            if let Some(frames) = piece.frames() {
                self.rewriter.frames(&frames)?;
                self.put()?;
            }
        }
        Ok(())
    }

    fn put(&mut self) -> Result<(), Failed> {
        let bytes = self.rewriter.take()?;
        self.file.write_all(&bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Ends the stream, and gives the file its name. Returns a sentence for the log.
    pub(super) fn complete(mut self, files: &Files) -> Result<String, Failed> {
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
            "recorded {name}: {events} events, {lost} of them lost, {} bytes; gcwatch analyze opens it",
            self.bytes
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a stream that began at the end of February of a leap year, whose oldest kept event is later by a
    /// millisecond, a day and an hour; clocks of a nanosecond, of a hundred, and of a third of a microsecond; then an
    /// event before the beginning, and none.
    /// Guarantee: every instant is the same time as before, and the oldest event lies in the first millisecond, or
    /// second; without a later event nothing changes.
    #[test]
    fn a_recording_begins_with_what_is_kept() {
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
