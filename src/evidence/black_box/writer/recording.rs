//! One recording of an incident, from the first bytes of its file until it has its name. Which incidents have one, and
//! for how long, is the writer's.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use gc_rules::incident::Share;
use nettrace::TraceHeader;
use nettrace::encode::EncodeError;
use nettrace::keep::Rewriter;

use crate::evidence::black_box::files::Files;
use crate::process::RunKey;
use crate::targets::black_box::{BlackBoxes, Kept, More, Piece};

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
            rewriter: Rewriter::new(&kept.header)?,
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
