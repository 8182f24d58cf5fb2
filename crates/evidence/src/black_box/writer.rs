//! Writes recordings, on the thread of the black box.

mod recording;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::time::Moment;
use incidents::{QuotaOwner, Recordings as _};

use super::FOLLOWS;
use super::begun::RecordingRegistry;
use super::files::Files;
use base::run_key::RunKey;
use recording::{Recording, WriteError};
use targets::black_box::{BlackBoxes, StreamContinuation};

/// Interval at which new parts of the streams are written to the open recordings.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which the stream of an exited process is kept in memory. This time is sufficient, because gcwatch learns
/// within seconds whether the kernel killed the process.
const EXITED_RETENTION: Duration = Duration::from_secs(120);

/// Id under which the recordings of deaths are registered, in place of the id of a rule.
const DIED: &str = "died";

/// Maximum number of incident ids in [`Writer::seen`].
const MAX_SEEN: usize = 1024;

/// Maximum number of open recordings. Each open recording takes a file descriptor and some memory.
const MAX_OPEN: usize = 64;

#[derive(Debug)]
pub(super) struct Writer {
    boxes: Arc<BlackBoxes>,
    files: Arc<Files>,
    /// Recordings that started in the last ten minutes, with their owners and rules.
    recordings: Arc<RecordingRegistry>,
    open: Vec<Recording>,
    /// Processes that have exited and whose streams are still kept.
    dead: HashMap<RunKey, ExitedProcess>,
    /// Ids of the last incidents. No incident is recorded twice, even if the file of its recording was deleted to free
    /// space.
    seen: VecDeque<Arc<str>>,
    next_tick: Option<Instant>,
}

/// A process that has exited.
#[derive(Debug)]
struct ExitedProcess {
    /// Time until which the stream of the process is kept.
    until: Instant,
    share: QuotaOwner,
    /// Whether a recording contains the end of the stream: the recording of an incident, or the recording of the death.
    is_recorded: bool,
}

impl Writer {
    pub(super) fn new(boxes: Arc<BlackBoxes>, files: Arc<Files>, recordings: Arc<RecordingRegistry>) -> Self {
        Self {
            boxes,
            files,
            recordings,
            open: Vec::new(),
            dead: HashMap::new(),
            seen: VecDeque::new(),
            next_tick: None,
        }
    }

    /// Returns the time at which [`Self::tick`] is due, or `None` if no tick is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next_tick
    }

    /// Starts the recording of an incident of a run, unless the incident was already recorded. If [`MAX_OPEN`]
    /// recordings are open and none of them can be completed early, the incident is not recorded.
    pub(super) fn incident(&mut self, run: RunKey, id: &Arc<str>, now: Instant) {
        if self.seen.contains(id) || self.files.knows(id) {
            return;
        }
        if self.seen.len() >= MAX_SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(Arc::clone(id));
        // Complete the open recording of the run, which contains the stream up to now.
        while let Some(place) = self.open.iter().position(|open| open.run == run) {
            self.finish(place);
        }
        let share = self.recordings.share(id);
        if self.open.len() >= MAX_OPEN && !self.make_place(share.as_ref()) {
            self.files.drop_one();
            self.recordings.forget(id);
            tracing::warn!(target: "gcwatch::evidence", "cannot record {id}: already recording {MAX_OPEN} incidents");
            return;
        }
        if let Some(recording) = self.begin(run, share, id, now + FOLLOWS) {
            self.open.push(recording);
        }
    }

    /// Completes an open recording, so that a recording of `share` can start: the oldest recording of the service with
    /// the most open recordings, in the tenant with the most open recordings. Does nothing unless this tenant has at
    /// least two more open recordings than the tenant of `share`. If both are the same tenant, the service must have at
    /// least two more open recordings than the service of `share`. Returns whether a recording was completed.
    fn make_place(&mut self, share: Option<&QuotaOwner>) -> bool {
        fn tenant(share: Option<&QuotaOwner>) -> Option<&str> {
            share.map(|share| &*share.tenant)
        }
        let shares = || self.open.iter().map(|open| open.share.as_ref());
        let of_tenant = |one: Option<&QuotaOwner>| shares().filter(|other| tenant(*other) == tenant(one)).count();
        let of_service = |one: Option<&QuotaOwner>| shares().filter(|other| *other == one).count();
        let most = shares().max_by_key(|one| (of_tenant(*one), of_service(*one)));
        let gives = |one: Option<&QuotaOwner>| {
            let is_same = tenant(one) == tenant(share);
            of_tenant(one) >= of_tenant(share) + 2 || is_same && of_service(one) >= of_service(share) + 2
        };
        let Some(most) = most.filter(|most| gives(*most)) else {
            return false;
        };
        let each = self
            .open
            .iter()
            .enumerate()
            .filter(|(_, open)| open.share.as_ref() == most);
        let oldest = each.min_by_key(|(_, open)| open.until).map(|(place, _)| place);
        if let Some(place) = oldest {
            self.finish(place);
        }
        oldest.is_some()
    }

    /// Handles the exit of a process, and completes the recordings of the process.
    pub(super) fn ended(&mut self, run: RunKey, share: QuotaOwner, now: Instant) {
        let mut is_recorded = false;
        while let Some(place) = self.open.iter().position(|open| open.run == run) {
            let id = self.open.get(place).map(|open| Arc::clone(&open.id));
            self.finish(place);
            if let Some(id) = id {
                self.files.has_end(run, &id);
            }
            is_recorded = true;
        }
        let until = now + EXITED_RETENTION;
        self.dead.insert(
            run,
            ExitedProcess {
                until,
                share,
                is_recorded,
            },
        );
    }

    /// Handles the death of a process that died because of its memory: records the kept stream, unless a recording
    /// already contains the end of the stream.
    pub(super) fn died(&mut self, run: RunKey, at: Moment, id: &Arc<str>) {
        // Return if the end of the stream is already recorded, or if no exit was reported, for example because gcwatch
        // did not read the process.
        let Some(dead) = self.dead.get_mut(&run).filter(|dead| !dead.is_recorded) else {
            return;
        };
        dead.is_recorded = true;
        if self.files.knows(id) || self.recordings.begin(&dead.share, &DIED.into(), at, id).is_err() {
            return;
        }
        let share = Some(dead.share.clone());
        if let Some(recording) = self.begin(run, share, id, Instant::now()) {
            self.open.push(recording);
            self.finish(self.open.len() - 1);
            self.files.has_end(run, id);
        }
    }

    /// Writes the new parts of open recordings, completes the recordings that are due, and forgets exited processes.
    pub(super) fn tick(&mut self, now: Instant) {
        let mut place = 0;
        while let Some(open) = self.open.get_mut(place) {
            match open.go_on(&self.boxes) {
                Ok(StreamContinuation::Perhaps) if now < open.until => place += 1,
                Ok(_) => self.finish(place),
                Err(failed) => self.abandon(place, &failed),
            }
        }
        // A hostile process can send a stream of any length, so complete the largest recordings early.
        while self.open.iter().map(|open| open.bytes).sum::<u64>() > self.files.max_bytes() {
            let each = self.open.iter().enumerate();
            let Some((largest, _)) = each.max_by_key(|(_, open)| open.bytes) else {
                break;
            };
            self.finish(largest);
        }
        let boxes = &self.boxes;
        self.dead.retain(|run, dead| {
            let is_remembered = now < dead.until;
            if !is_remembered {
                boxes.forget(*run);
            }
            is_remembered
        });
        self.next_tick = if self.open.is_empty() {
            self.dead.values().map(|dead| dead.until).min()
        } else {
            Some(now + WRITE_INTERVAL)
        };
    }

    /// Completes all recordings.
    pub(super) fn stop(&mut self) {
        while !self.open.is_empty() {
            self.finish(0);
        }
    }

    fn begin(&self, run: RunKey, share: Option<QuotaOwner>, id: &Arc<str>, until: Instant) -> Option<Recording> {
        // gcwatch keeps no stream of a process that it does not read.
        let Some(kept) = self.boxes.follow(run) else {
            self.recordings.forget(id);
            return None;
        };
        match Recording::begin((run, share), id, &kept, &self.files, until) {
            Ok(recording) => Some(recording),
            Err(failed) => {
                self.boxes.unfollow(run);
                self.fail(id, &failed);
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
            Ok(text) => tracing::info!(target: "gcwatch::evidence", "{text}"),
            Err(failed) => self.fail(&id, &failed),
        }
    }

    fn abandon(&mut self, place: usize, failed: &WriteError) {
        let recording = self.open.swap_remove(place);
        self.boxes.unfollow(recording.run);
        self.fail(&recording.id, failed);
    }

    fn fail(&self, id: &str, failed: &WriteError) {
        self.files.abandon(id);
        self.recordings.forget(id);
        tracing::warn!(target: "gcwatch::evidence", "cannot write the black box recording {id}: {failed}");
    }
}

#[cfg(test)]
mod tests;
