//! Writes recordings: the thread of the black box.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nettrace::TraceHeader;
use nettrace::encode::EncodeError;
use nettrace::keep::Rewriter;

use super::FOLLOWS;
use super::files::Files;
use crate::process::RunKey;
use crate::targets::black_box::{BlackBoxes, More, Piece};

/// How often what follows an incident is written.
const EVERY: Duration = Duration::from_secs(1);

/// How long what is left of a dead process is kept in memory: whether the kernel killed it is known within seconds.
const REMEMBERED: Duration = Duration::from_secs(120);

/// Most incidents that are remembered.
const MOST_SEEN: usize = 1024;

/// Most recordings at a time; each takes a file and some memory.
const MOST_OPEN: usize = 64;

/// The writer.
#[derive(Debug)]
pub(super) struct Writer {
    boxes: Arc<BlackBoxes>,
    files: Arc<Files>,
    open: Vec<Recording>,
    /// Processes that exited, until when they are remembered, and whether an incident was recorded to their end.
    dead: HashMap<RunKey, (Instant, bool)>,
    /// The newest incidents: none is recorded twice, also when its file was deleted for others.
    seen: VecDeque<Arc<str>>,
    next_tick: Option<Instant>,
}

/// A file that is being written.
#[derive(Debug)]
struct Recording {
    run: RunKey,
    id: Arc<str>,
    file: File,
    rewriter: Rewriter,
    header: Arc<TraceHeader>,
    /// Ticks of the newest event before the incident.
    incident: Option<i64>,
    until: Instant,
    bytes: u64,
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Write(#[from] io::Error),
    #[error("{0}")]
    Encode(#[from] EncodeError),
}

impl Writer {
    pub(super) fn new(boxes: Arc<BlackBoxes>, files: Arc<Files>) -> Self {
        Self {
            boxes,
            files,
            open: Vec::new(),
            dead: HashMap::new(),
            seen: VecDeque::new(),
            next_tick: None,
        }
    }

    /// When [`Self::tick`] is due; `None`: never.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next_tick
    }

    /// An incident of the run began.
    pub(super) fn incident(&mut self, run: RunKey, id: &Arc<str>, now: Instant) {
        if self.seen.contains(id) || self.files.knows(id) {
            return;
        }
        if self.seen.len() >= MOST_SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(Arc::clone(id));
        // The one before is complete: it has what was up to now.
        while let Some(place) = self.open.iter().position(|open| open.run == run) {
            self.finish(place);
        }
        if self.open.len() >= MOST_OPEN {
            self.files.drop_one();
            tracing::warn!("{id} is not recorded: {MOST_OPEN} incidents are being recorded already");
            return;
        }
        if let Some(recording) = self.begin(run, id, now + FOLLOWS) {
            self.open.push(recording);
        }
    }

    /// The process exited.
    pub(super) fn ended(&mut self, run: RunKey, now: Instant) {
        let mut is_recorded = false;
        while let Some(place) = self.open.iter().position(|open| open.run == run) {
            let id = self.open.get(place).map(|open| Arc::clone(&open.id));
            self.finish(place);
            if let Some(id) = id {
                self.files.has_end(run, &id);
            }
            is_recorded = true;
        }
        self.dead.insert(run, (now + REMEMBERED, is_recorded));
    }

    /// The process died of its memory.
    pub(super) fn died(&mut self, run: RunKey, id: &Arc<str>) {
        match self.dead.get_mut(&run) {
            Some((_, is_recorded)) if !*is_recorded => *is_recorded = true,
            // Recorded already, or its stream was not read.
            _ => return,
        }
        if self.files.knows(id) {
            return;
        }
        if let Some(recording) = self.begin(run, id, Instant::now()) {
            self.open.push(recording);
            self.finish(self.open.len() - 1);
            self.files.has_end(run, id);
        }
    }

    /// Time passed.
    pub(super) fn tick(&mut self, now: Instant) {
        let mut place = 0;
        while let Some(open) = self.open.get_mut(place) {
            match open.go_on(&self.boxes) {
                Ok(More::Perhaps) if now < open.until => place += 1,
                Ok(_) => self.finish(place),
                Err(failed) => self.abandon(place, &failed),
            }
        }
        // Hostile streams may be long.
        while self.open.iter().map(|open| open.bytes).sum::<u64>() > self.files.max_bytes() {
            let each = self.open.iter().enumerate();
            let Some((largest, _)) = each.max_by_key(|(_, open)| open.bytes) else {
                break;
            };
            self.finish(largest);
        }
        let boxes = &self.boxes;
        self.dead.retain(|run, (until, _)| {
            let is_remembered = now < *until;
            if !is_remembered {
                boxes.forget(*run);
            }
            is_remembered
        });
        self.next_tick = if self.open.is_empty() {
            self.dead.values().map(|(until, _)| *until).min()
        } else {
            Some(now + EVERY)
        };
    }

    /// Completes all.
    pub(super) fn stop(&mut self) {
        while !self.open.is_empty() {
            self.finish(0);
        }
    }

    fn begin(&self, run: RunKey, id: &Arc<str>, until: Instant) -> Option<Recording> {
        // Nothing is kept of a process that is not read.
        let kept = self.boxes.follow(run)?;
        let begun = (|| {
            let mut recording = Recording {
                run,
                id: Arc::clone(id),
                file: self.files.create(id)?,
                rewriter: Rewriter::new(&kept.header)?,
                header: Arc::clone(&kept.header),
                incident: None,
                until,
                bytes: 0,
            };
            recording.write(&kept.pieces)?;
            recording.incident = recording.rewriter.span().map(|(_, newest)| newest);
            Ok::<_, Failed>(recording)
        })();
        match begun {
            Ok(recording) => Some(recording),
            Err(failed) => {
                self.boxes.unfollow(run);
                self.files.abandon(id);
                warn(id, &failed);
                None
            }
        }
    }

    fn finish(&mut self, place: usize) {
        let mut recording = self.open.swap_remove(place);
        let last = recording.go_on(&self.boxes);
        self.boxes.unfollow(recording.run);
        let id = Arc::clone(&recording.id);
        match last.and_then(|_| recording.complete(&self.files)) {
            Ok(text) => tracing::info!("{text}"),
            Err(failed) => {
                self.files.abandon(&id);
                warn(&id, &failed);
            }
        }
    }

    fn abandon(&mut self, place: usize, failed: &Failed) {
        let recording = self.open.swap_remove(place);
        self.boxes.unfollow(recording.run);
        self.files.abandon(&recording.id);
        warn(&recording.id, failed);
    }
}

fn warn(id: &str, failed: &Failed) {
    tracing::warn!("the recording {id} of the black box cannot be written: {failed}");
}

impl Recording {
    /// Writes what came since.
    fn go_on(&mut self, boxes: &BlackBoxes) -> Result<More, Failed> {
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
    fn complete(mut self, files: &Files) -> Result<String, Failed> {
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
    use std::path::Path;

    use nettrace::encode::{Encoder, EventRecord};
    use nettrace::{Decoder, Ending, Format, Options, PointerSize, SystemTime};

    use super::super::BlackBoxOptions;
    use super::*;

    const RUN: RunKey = RunKey { pid: 7, start_time: 1 };
    const ID: &str = "20261123T114742Z-shop-7-0000000000000001";

    /// A stream of events, one a second, a block for each.
    fn stream(count: u32) -> Vec<u8> {
        let header = TraceHeader {
            format: Format::V4,
            system_time: SystemTime::default(),
            sync_ticks: 0,
            frequency: 1,
            pointer_size: PointerSize::Eight,
            process_id: Some(7),
            processors: Some(2),
            sampling_rate_ns: None,
            properties: Vec::new(),
        };
        let mut encoder = Encoder::new(Format::V4, &header).unwrap();
        for sequence in 1..=count {
            let event = EventRecord {
                metadata_id: 1,
                sequence,
                capture_thread: 5,
                timestamp: sequence.into(),
                is_sorted: true,
                payload: &[7; 4000],
                ..EventRecord::default()
            };
            encoder.event(&event).unwrap();
            encoder.flush().unwrap();
        }
        encoder.finish().unwrap()
    }

    fn read(decoder: &mut Decoder, bytes: &[u8]) {
        decoder.push(bytes);
        while decoder.next_item().unwrap().is_some() {}
    }

    struct Setting {
        state: tempfile::TempDir,
        boxes: Arc<BlackBoxes>,
        files: Arc<Files>,
        writer: Writer,
    }

    fn setting() -> Setting {
        let state = tempfile::tempdir().unwrap();
        let boxes = BlackBoxes::new().unwrap();
        let files = Arc::new(Files::open(state.path(), &BlackBoxOptions::default()).unwrap());
        let writer = Writer::new(Arc::clone(&boxes), Arc::clone(&files));
        Setting {
            state,
            boxes,
            files,
            writer,
        }
    }

    fn tapped(boxes: &Arc<BlackBoxes>) -> Decoder {
        let mut decoder = Decoder::new(Options::default());
        decoder.keep(boxes.tap(RUN));
        decoder
    }

    /// Events, losses, and that it ends in order.
    fn counts(file: &Path) -> (u64, Option<u64>) {
        let mut decoder = Decoder::new(Options::default());
        read(&mut decoder, &std::fs::read(file).unwrap());
        decoder.finish();
        assert!(decoder.next_item().unwrap().is_none());
        assert_eq!(decoder.ending(), Some(Ending::Clean));
        (decoder.stats().events, decoder.stats().lost)
    }

    /// Scenario: an incident on a live stream, the same one again, time.
    /// Guarantee: what was there is on disk at once, what follows is added, and after ten seconds the file is complete,
    /// with a name that says how much is in it; the same incident is not recorded twice.
    #[test]
    fn a_recording_has_what_was_before_and_after() {
        let Setting {
            state,
            boxes,
            files,
            mut writer,
        } = setting();
        let mut decoder = tapped(&boxes);
        let bytes = stream(30);
        let now = Instant::now();
        read(&mut decoder, &bytes[..bytes.len() / 3 * 2]);
        writer.incident(RUN, &ID.into(), now);
        let partial = state.path().join(format!("black-box/{ID}.partial"));
        assert!(std::fs::metadata(&partial).unwrap().len() > 70_000);
        writer.tick(now);
        writer.incident(RUN, &ID.into(), now);
        read(&mut decoder, &bytes[bytes.len() / 3 * 2..]);
        writer.tick(now + EVERY);
        assert_eq!(writer.next(), Some(now + 2 * EVERY));
        assert!(files.list().unwrap().is_empty());
        writer.tick(now + FOLLOWS);
        let list = files.list().unwrap();
        assert_eq!(
            (list.len(), list[0].seconds_before, list[0].seconds_after),
            (1, Some(19), Some(10))
        );
        assert_eq!(counts(&files.folder().join(&list[0].file)), (30, Some(0)));
        assert_eq!(writer.next(), None);
        writer.incident(RUN, &ID.into(), now);
        assert_eq!(files.list().unwrap(), list);
        assert!(!partial.exists());
    }

    /// Scenario: a process is killed during a recording; another one without an incident is killed for memory; a third
    /// one exits, and nothing more is heard of it.
    /// Guarantee: the first recording is complete at once and no other is made; the second leaves one, once; of the third
    /// nothing is kept after two minutes.
    #[test]
    fn the_dead_leave_a_recording() {
        let Setting {
            state: _state,
            boxes,
            files,
            mut writer,
        } = setting();
        let now = Instant::now();
        let cut = stream(20);
        let mut decoder = tapped(&boxes);
        read(&mut decoder, &cut[..cut.len() - 3000]);
        writer.incident(RUN, &ID.into(), now);
        drop(decoder);
        writer.ended(RUN, now);
        let died: Arc<str> = "20261123T114742Z-shop-7-died".into();
        writer.died(RUN, &died);
        let list = files.list().unwrap();
        assert_eq!((list.len(), list[0].id.as_str()), (1, ID));
        assert_eq!(counts(&files.folder().join(&list[0].file)), (19, Some(0)));

        let Setting {
            state: _state,
            boxes,
            files,
            mut writer,
        } = setting();
        drop({
            let mut decoder = tapped(&boxes);
            read(&mut decoder, &cut);
            decoder
        });
        // Before it is known that it exited.
        writer.died(RUN, &died);
        assert!(files.list().unwrap().is_empty());
        writer.ended(RUN, now);
        writer.died(RUN, &died);
        writer.died(RUN, &died);
        let list = files.list().unwrap();
        assert_eq!(
            (list.len(), list[0].seconds_before, list[0].seconds_after),
            (1, Some(19), Some(0))
        );

        let Setting {
            state: _state,
            boxes,
            files,
            mut writer,
        } = setting();
        read(&mut tapped(&boxes), &cut);
        writer.ended(RUN, now);
        writer.tick(now);
        assert!(boxes.held() > 0 && writer.next() == Some(now + REMEMBERED));
        writer.tick(now + REMEMBERED);
        assert_eq!((boxes.held(), writer.next()), (0, None));
        assert!(files.list().unwrap().is_empty());
    }

    /// Scenario: the directory is gone when an incident begins, and while one is being recorded; an incident of a process
    /// that is not read.
    /// Guarantee: nothing is made, nothing is held, and the next incident is recorded.
    #[test]
    fn a_disk_that_fails_costs_the_recording() {
        let Setting {
            state,
            boxes,
            files,
            mut writer,
        } = setting();
        let now = Instant::now();
        let mut decoder = tapped(&boxes);
        let id = |number: u32| format!("{ID}{number}").into();
        writer.incident(RUN, &id(1), now);
        assert!(files.list().unwrap().is_empty());
        read(&mut decoder, &stream(20));
        let folder = state.path().join("black-box");
        std::fs::remove_dir(&folder).unwrap();
        writer.incident(RUN, &id(2), now);
        std::fs::create_dir(&folder).unwrap();
        writer.incident(RUN, &id(3), now);
        std::fs::remove_dir_all(&folder).unwrap();
        writer.tick(now + FOLLOWS);
        std::fs::create_dir(&folder).unwrap();
        writer.incident(RUN, &id(4), now);
        writer.stop();
        let list = files.list().unwrap();
        assert_eq!((list.len(), list[0].id.as_str()), (1, &*format!("{ID}4")));
    }
}
