//! Progress of a recording and its summary: figures of the stream, from the same reconstruction that later reads it.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use clr_gc::gc::{LIVE_SETTLE_NS, Outcome, ReportTiming};
use clr_gc::stream::{AdvanceOutcome, GcStream, Scope};
use nettrace::Ending;

use report::units::{Bytes, Span, plural};

/// Figures of the stream so far, from the same reconstruction that later reads it.
pub(super) struct Progress {
    stream: GcStream,
    since: Instant,
    pub(super) bytes: u64,
    collections: u64,
    longest_ns: Option<i64>,
    on_terminal: bool,
    shown: bool,
    damaged: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            stream: GcStream::new(Scope::Collections, ReportTiming::After(LIVE_SETTLE_NS)),
            since: Instant::now(),
            bytes: 0,
            collections: 0,
            longest_ns: None,
            on_terminal: io::stderr().is_terminal(),
            shown: false,
            damaged: false,
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if self.damaged {
            return;
        }
        let space = self.stream.space(bytes.len());
        if let Some(space) = space.get_mut(..bytes.len()) {
            space.copy_from_slice(bytes);
            self.stream.filled(bytes.len());
            loop {
                match self.stream.advance(|_| ()) {
                    Ok(AdvanceOutcome::Paused) => self.count(),
                    Ok(AdvanceOutcome::Drained) => break,
                    Err(_) => {
                        self.damaged = true;
                        break;
                    }
                }
            }
        }
        self.count();
    }

    fn count(&mut self) {
        while let Some((_, outcome)) = self.stream.next_outcome() {
            if let Outcome::Collection(collection) = outcome {
                self.collections += 1;
                self.longest_ns = self.longest_ns.max(collection.pause_ns);
            }
        }
    }

    fn figures(&self) -> String {
        let longest = self
            .longest_ns
            .map(|ns| format!(", longest pause {}", Span(ns)))
            .unwrap_or_default();
        let lost = self.stream.decoder().stats().lost.filter(|lost| *lost > 0);
        let lost = lost
            .map(|lost| format!(", {} LOST", plural(lost, "event")))
            .unwrap_or_default();
        format!(
            "{}, {}{longest}{lost}",
            Bytes(self.bytes),
            plural(self.collections, "collection")
        )
    }

    /// Rewrites the progress line if standard error is a terminal.
    pub(super) fn show(&mut self, stopping: bool) {
        if !self.on_terminal {
            return;
        }
        let seconds = self.since.elapsed().as_secs_f64();
        let state = if stopping { "stopping" } else { "recording" };
        let _ignored = write!(io::stderr(), "\r\x1b[K{state} {seconds:.1} s: {}", self.figures());
        self.shown = true;
    }

    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ignored = write!(io::stderr(), "\r\x1b[K");
        }
    }

    pub(super) fn summary(mut self, name: &str, asked: bool) -> String {
        self.stream.finish();
        self.damaged |= self.stream.advance(|_| ()).is_err();
        self.stream.end();
        self.count();
        let seconds = self.since.elapsed().as_secs_f64();
        let end = match self.stream.decoder().ending() {
            Some(Ending::Clean) if asked => "",
            Some(Ending::Clean) => "; the process exited",
            _ => "; the process exited without finishing the stream: everything complete in it can be read",
        };
        format!("wrote {name}: {seconds:.1} s, {}{end}", self.figures())
    }
}
