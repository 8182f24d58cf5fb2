//! When `/proc` is looked through, and the look that is under way. Times are given.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::Instant;

use crate::process::RunKey;
use crate::targets::look::{Asked, LOOK_WITHIN, Look, look};
use crate::targets::options::TargetOptions;

/// Shortest time between two looks through all of `/proc` because of events: any user may make files in `/tmp`.
const SCAN_PAUSE: Duration = Duration::from_secs(2);
/// How often `/proc` is read when directories cannot be watched, at most.
const SCAN_UNWATCHED: Duration = Duration::from_secs(5);
/// However short the configured interval is.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// What the next look is to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScanRequest {
    /// All processes.
    pub(crate) all: bool,
    /// These, as soon as possible.
    pub(crate) pids: BTreeSet<u32>,
}

/// A look that is under way.
#[derive(Debug)]
struct UnderWay {
    task: JoinHandle<Look>,
    until: Instant,
    /// The process that is looked at.
    at: Arc<AtomicU32>,
}

/// When `/proc` is looked through, and the look that is under way.
#[derive(Debug)]
pub(crate) struct Scans {
    pub(crate) request: ScanRequest,
    /// The next look through all asks again whether known runs are wanted: the options are new.
    judge_all: bool,
    under_way: Option<UnderWay>,
    /// Processes that a look did not return from.
    stuck: BTreeSet<u32>,
    /// When all is looked through though nothing asks for it.
    next_at: Instant,
    /// When all was looked through last.
    last_at: Option<Instant>,
}

impl Scans {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            request: ScanRequest::default(),
            judge_all: false,
            under_way: None,
            stuck: BTreeSet::new(),
            next_at: now,
            last_at: None,
        }
    }

    /// The options are new: all processes are judged by them.
    pub(crate) fn judge_all(&mut self) {
        self.request.all = true;
        self.judge_all = true;
    }

    /// When the next look begins, or the present one is given up.
    pub(crate) fn next_due(&self, now: Instant) -> Instant {
        // While a look is under way, the next one waits for it.
        match &self.under_way {
            Some(look) => look.until,
            None => self.next_scan(now),
        }
    }

    /// When all is looked through next.
    fn next_scan(&self, now: Instant) -> Instant {
        if !self.request.all {
            return self.next_at;
        }
        let soonest = self.last_at.map_or(now, |at| at + SCAN_PAUSE);
        soonest.min(self.next_at)
    }

    /// What to look at now, if a look is due and none is under way.
    fn take_due(&mut self, now: Instant, interval: Duration) -> Option<(ScanRequest, bool)> {
        if self.under_way.is_some() {
            return None;
        }
        let all = now >= self.next_scan(now);
        if !all && self.request.pids.is_empty() {
            return None;
        }
        let pids = std::mem::take(&mut self.request.pids);
        let judge_all = all && std::mem::take(&mut self.judge_all);
        if all {
            self.request.all = false;
            self.last_at = Some(now);
            self.next_at = now + interval.max(SHORTEST_INTERVAL);
        }
        Some((ScanRequest { all, pids }, judge_all))
    }

    /// Begins a look, if one is due. `watched`: new sockets are announced, so that the configured interval suffices.
    pub(crate) fn begin_if_due(
        &mut self,
        now: Instant,
        options: &Arc<TargetOptions>,
        watched: bool,
        known: impl Iterator<Item = RunKey>,
        connected: impl Iterator<Item = u32>,
    ) {
        let interval = if watched {
            options.scan_interval
        } else {
            options.scan_interval.min(SCAN_UNWATCHED)
        };
        let Some((ScanRequest { all, pids }, judge_all)) = self.take_due(now, interval) else {
            return;
        };
        let at = Arc::new(AtomicU32::new(0));
        let asked = Asked {
            all,
            pids,
            known: known.collect(),
            judge_all,
            connected: connected.collect(),
            stuck: self.stuck.clone(),
            at: Arc::clone(&at),
        };
        let options = Arc::clone(options);
        self.under_way = Some(UnderWay {
            task: spawn_blocking(move || look(asked, &options)),
            until: now + LOOK_WITHIN,
            at,
        });
    }

    /// Waits for the look that is under way; for ever, when there is none. Cancel safe.
    pub(crate) async fn ended(&mut self) -> Result<Look, JoinError> {
        let Some(look) = &mut self.under_way else {
            return std::future::pending().await;
        };
        let ended = (&mut look.task).await;
        self.under_way = None;
        if let Ok(Look {
            all_pids: Some(pids), ..
        }) = &ended
        {
            self.stuck.retain(|pid| pids.contains(pid));
        }
        ended
    }

    /// A look that takes too long is at a process whose files block: that one is skipped from now on.
    pub(crate) fn give_up_late(&mut self, now: Instant) {
        let Some(look) = self.under_way.take_if(|look| look.until <= now) else {
            return;
        };
        let pid = look.at.load(Ordering::Relaxed);
        tracing::error!(
            target: "gcwatch::targets", pid,
            "reading the files of this process took more than {LOOK_WITHIN:?}: they block; it is skipped from now on"
        );
        self.stuck.insert(pid);
        self.request.all = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    /// Scenario: the first look, single processes that are asked for, all of them asked for again and again, then
    /// nothing.
    /// Guarantee: single processes are looked at at once, all of them at most once in [`SCAN_PAUSE`] because of events,
    /// and at the interval without any.
    #[test]
    fn looks_through_all_keep_their_distance() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut scans = Scans::new(start);
        let due = |scans: &mut Scans, now: Instant| {
            let due = scans.take_due(now, INTERVAL);
            due.map(|(request, _)| (request.all, request.pids.into_iter().collect::<Vec<_>>()))
        };
        assert_eq!(due(&mut scans, start), Some((true, vec![])));
        assert_eq!(due(&mut scans, at(0.1)), None);
        scans.request.pids.insert(7);
        scans.request.all = true;
        assert_eq!(due(&mut scans, at(0.2)), Some((false, vec![7])));
        assert_eq!(scans.next_due(at(0.2)), start + SCAN_PAUSE);
        assert_eq!(due(&mut scans, at(2.0)), Some((true, vec![])));
        assert_eq!(scans.next_due(at(2.0)), at(2.0) + INTERVAL);
        assert_eq!(due(&mut scans, at(31.9)), None);
        assert_eq!(due(&mut scans, at(32.0)), Some((true, vec![])));
    }

    /// Scenario: new options come, while only single processes are looked at, then all.
    /// Guarantee: the next look through all judges all runs, once.
    #[test]
    fn new_options_judge_all_runs_once() {
        let start = Instant::now();
        let mut scans = Scans::new(start);
        assert!(scans.take_due(start, INTERVAL).is_some());
        scans.judge_all();
        scans.request.pids.insert(7);
        let judged = |due: Option<(ScanRequest, bool)>| due.map(|(request, judge_all)| (request.all, judge_all));
        assert_eq!(judged(scans.take_due(start, INTERVAL)), Some((false, false)));
        let later = start + SCAN_PAUSE;
        assert_eq!(judged(scans.take_due(later, INTERVAL)), Some((true, true)));
        assert_eq!(judged(scans.take_due(later + INTERVAL, INTERVAL)), Some((true, false)));
    }
}
