//! Writes recordings: the thread of the black box.

mod recording;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::FOLLOWS;
use super::files::Files;
use crate::process::RunKey;
use crate::targets::black_box::{BlackBoxes, More};
use crate::targets::uid_of;
use recording::{Failed, Recording};

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
        if self.open.len() >= MOST_OPEN && !self.make_place(uid_of(run.pid)) {
            self.files.drop_one();
            tracing::warn!("{id} is not recorded: {MOST_OPEN} incidents are being recorded already");
            return;
        }
        if let Some(recording) = self.begin(run, id, now + FOLLOWS) {
            self.open.push(recording);
        }
    }

    /// Of the user with most places, the oldest recording ends now, if that user has at least two more than this one.
    fn make_place(&mut self, uid: Option<u32>) -> bool {
        let of = |uid: Option<u32>| self.open.iter().filter(|open| open.uid == uid).count();
        let most = self.open.iter().map(|open| open.uid).max_by_key(|other| of(*other));
        let Some(most) = most.filter(|most| of(*most) >= of(uid) + 2) else {
            return false;
        };
        let each = self.open.iter().enumerate().filter(|(_, open)| open.uid == most);
        let oldest = each.min_by_key(|(_, open)| open.until).map(|(place, _)| place);
        if let Some(place) = oldest {
            self.finish(place);
        }
        oldest.is_some()
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
        match Recording::begin(run, id, &kept, &self.files, until) {
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

#[cfg(test)]
mod tests;
