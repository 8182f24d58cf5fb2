//! Schedules scans of `/proc` and tracks the current scan. Times are arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::run_key::RunKey;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::look::{
    FileSystemGroup, LookPart, LookSubject, OngoingLook, PlainProcesses, STEP_TIMEOUT, ScanResult, ScanScope,
};
use crate::options::TargetOptions;
use crate::threads::Threads;
use crate::watch::Watches;

/// Minimum interval between two full scans triggered by events. Any user can create files in `/tmp`.
const SCAN_PAUSE: Duration = Duration::from_secs(2);
/// Maximum interval between scans of `/proc` if directories cannot be watched.
const SCAN_UNWATCHED: Duration = Duration::from_secs(5);
/// Interval between checks whether a scan makes progress.
const CHECK: Duration = Duration::from_millis(500);
/// Time after which a stuck subject is tried again on another thread. Another file system can be mounted by then.
const TRIED_AGAIN: Duration = Duration::from_secs(600);
/// Number of blocked threads at which all processes related to a blocked file system are skipped.
const STUCK_THREADS_BEFORE_SKIPPING: usize = 8;
/// Minimum interval between scans, even if a shorter interval is configured.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Scope of the next scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScanRequest {
    /// Whether to scan all processes.
    pub(crate) all: bool,
    /// Processes to scan as soon as possible.
    pub(crate) pids: BTreeSet<u32>,
}

/// The current scan.
#[derive(Debug)]
struct OngoingScan {
    job: Arc<OngoingLook>,
    found: oneshot::Receiver<ScanResult>,
    check_at: Instant,
}

/// A subject whose step has not returned.
#[derive(Debug)]
struct StuckSubject {
    since: Instant,
    groups: Vec<FileSystemGroup>,
}

/// The schedule of scans, and the current scan.
#[derive(Debug)]
pub(crate) struct Scans {
    pub(crate) request: ScanRequest,
    /// Whether the next full scan evaluates the filters for known runs, because the options have changed.
    judge_all: bool,
    under_way: Option<OngoingScan>,
    threads: Threads,
    stuck: BTreeMap<LookSubject, StuckSubject>,
    /// Number of blocked threads.
    hanging: usize,
    /// Subjects of blocked threads that have returned.
    returned: Arc<Mutex<Vec<LookSubject>>>,
    plain: Arc<Mutex<PlainProcesses>>,
    /// Whether skipped processes were logged.
    left_out_reported: bool,
    /// Time of the next full scan if no event requests one.
    next_at: Instant,
    /// Time of the last full scan.
    last_at: Option<Instant>,
}

impl Scans {
    pub(crate) fn new(now: Instant, threads: Threads) -> Self {
        Self {
            request: ScanRequest::default(),
            judge_all: false,
            under_way: None,
            threads,
            stuck: BTreeMap::new(),
            hanging: 0,
            returned: Arc::default(),
            plain: Arc::default(),
            left_out_reported: false,
            next_at: now,
            last_at: None,
        }
    }

    /// Requests that all processes are evaluated, because the options have changed.
    pub(crate) fn judge_all(&mut self) {
        self.request.all = true;
        self.judge_all = true;
    }

    /// Returns the time at which the next scan starts or the current scan is checked.
    pub(crate) fn next_due(&self, now: Instant) -> Instant {
        // While a scan runs, the next scan waits.
        match &self.under_way {
            Some(look) => look.check_at,
            None => self.next_scan(now),
        }
    }

    /// Returns the time of the next full scan.
    fn next_scan(&self, now: Instant) -> Instant {
        if !self.request.all {
            return self.next_at;
        }
        let soonest = self.last_at.map_or(now, |at| at + SCAN_PAUSE);
        soonest.min(self.next_at)
    }

    /// Returns the scope of the next scan and whether this scan evaluates all runs, or `None` if no scan is due or a
    /// scan is running.
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

    /// Starts a scan if one is due. If `watches` are given, new sockets are announced, and the configured interval is
    /// sufficient. `known` states for each run whether it is visible in gcwatch's `/proc`. `connected` contains the
    /// pids of runtimes that have connected to gcwatch.
    pub(crate) fn begin_if_due(
        &mut self,
        now: Instant,
        options: &Arc<TargetOptions>,
        watches: Option<Arc<Watches>>,
        known: impl Iterator<Item = (RunKey, bool)>,
        connected: impl Iterator<Item = u32>,
    ) {
        let interval = if watches.is_some() {
            options.scan_interval
        } else {
            options.scan_interval.min(SCAN_UNWATCHED)
        };
        let Some((ScanRequest { all, pids }, judge_all)) = self.take_due(now, interval) else {
            return;
        };
        self.take_returned();
        let is_skipped =
            |stuck: &StuckSubject| now < stuck.since + TRIED_AGAIN || self.hanging >= STUCK_THREADS_BEFORE_SKIPPING;
        let skipped = self.stuck.iter().filter(|(_, stuck)| is_skipped(stuck));
        let crowd = self
            .stuck
            .values()
            .filter(|_| self.hanging >= STUCK_THREADS_BEFORE_SKIPPING);
        let asked = ScanScope {
            all,
            pids,
            known: known.collect(),
            judge_all,
            connected: connected.collect(),
            stuck: skipped.map(|(place, _)| place.clone()).collect(),
            left_alone: crowd.flat_map(|stuck| stuck.groups.iter().copied()).collect(),
            plain: Arc::clone(&self.plain),
            watches,
            options: Arc::clone(options),
        };
        let (job, found) = OngoingLook::new(asked);
        let job = Arc::new(job);
        self.go_on(&job, 0);
        self.under_way = Some(OngoingScan {
            job,
            found,
            check_at: now + CHECK,
        });
    }

    /// Executes the remaining steps on a thread. If no thread can be started, the scan ends with the results so far.
    fn go_on(&self, job: &Arc<OngoingLook>, thread: u32) {
        let (of_thread, returned) = (Arc::clone(job), Arc::clone(&self.returned));
        let part = self.threads.run(move || {
            if let LookPart::Left(place) = of_thread.run(thread) {
                returned.lock().unwrap_or_else(PoisonError::into_inner).push(place);
            }
        });
        if let Err(error) = part {
            log!(error: "cannot scan all processes: {error}");
            job.finish(false);
        }
    }

    /// Removes subjects from the stuck subjects if their threads have returned.
    fn take_returned(&mut self) {
        let returned = std::mem::take(&mut *self.returned.lock().unwrap_or_else(PoisonError::into_inner));
        for place in returned {
            self.hanging = self.hanging.saturating_sub(1);
            self.stuck.remove(&place);
            log!(info: "{place} responds again");
        }
    }

    /// Waits for the current scan, or forever if no scan runs. Returns `None` if the scan failed. This method is cancel
    /// safe.
    pub(crate) async fn ended(&mut self) -> Option<ScanResult> {
        let Some(look) = &mut self.under_way else {
            return std::future::pending().await;
        };
        let ended = (&mut look.found).await.ok();
        self.under_way = None;
        if let Some(ScanResult {
            all_pids: Some(pids),
            left_out,
            ..
        }) = &ended
        {
            self.stuck.retain(|place, _| match place {
                LookSubject::Process(pid) => pids.contains(pid),
                LookSubject::Path(_) => true,
            });
            if *left_out > 0 && !std::mem::replace(&mut self.left_out_reported, true) {
                log!(
                    error: "{left_out} processes are skipped: {} file systems do not respond, and these have the \
                     same user or mount namespace",
                    self.hanging
                );
            }
        }
        ended
    }

    /// If the current step takes too long, leaves this step to its thread and continues the scan on another thread.
    pub(crate) fn check(&mut self, now: Instant) {
        let Some(under_way) = self.under_way.as_mut().filter(|look| look.check_at <= now) else {
            return;
        };
        under_way.check_at = now + CHECK;
        let job = Arc::clone(&under_way.job);
        let Some((place, thread)) = job.late(now) else { return };
        let what = match &place {
            LookSubject::Process(_) => "the files of this process do not respond",
            LookSubject::Path(_) => "this directory does not respond",
        };
        log!(
            error: "{place}: {what} within {STEP_TIMEOUT:?}; skipping until then; retrying every {} min",
            TRIED_AGAIN.as_secs() / 60
        );
        let groups = match &place {
            LookSubject::Process(pid) => FileSystemGroup::for_process(*pid),
            LookSubject::Path(_) => Vec::new(),
        };
        self.stuck.insert(place, StuckSubject { since: now, groups });
        self.hanging += 1;
        self.go_on(&job, thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    /// Scenario: the first scan runs; then single processes and full scans are requested repeatedly; then nothing is
    /// requested.
    /// Guarantee: single processes are scanned immediately; events cause at most one full scan per [`SCAN_PAUSE`];
    /// without events, full scans run at the interval.
    #[test]
    fn full_scans_keep_minimum_interval() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut scans = Scans::new(start, Threads::default());
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

    /// Scenario: the options change; then a scan of single processes and full scans follow.
    /// Guarantee: the next full scan evaluates all runs, and later scans do not.
    #[test]
    fn changed_options_evaluate_all_runs_once() {
        let start = Instant::now();
        let mut scans = Scans::new(start, Threads::default());
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
