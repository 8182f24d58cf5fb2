//! Processes that have exited. Their page, history and collections stay available to a reader who follows an alert.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use base::run_key::RunKey;
use base::time::Moment;

use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::service::Death;

/// Number of exited runs that are kept. More runs are kept only if listed incidents name them. A run takes about 25
/// KiB.
pub(crate) const MAX_EXITED: usize = 50;

/// Maximum number of exited runs, including the runs that incidents name.
const MAX_WITH_INCIDENTS: usize = 100;

/// Time for which a run that no incident names is kept.
const KEPT_FOR_NS: u64 = 3600 * 1_000_000_000;

/// Time after an exit during which more information about the exit can arrive.
const LEARNS_FOR_NS: u64 = 60 * 1_000_000_000;

/// A process that has exited.
#[derive(Debug, Clone)]
pub(crate) struct ExitedRun {
    /// The run, without its rules and series.
    pub(crate) run: Arc<ObservedRun>,
    /// Time at which the exit was noticed.
    pub(crate) at: Moment,
    /// Cause of the exit, in a few words; `None` if unknown.
    pub(crate) why: Option<&'static str>,
}

/// The most recent exits, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ExitedRuns(VecDeque<ExitedRun>);

impl ExitedRuns {
    /// Adds an exited run. `listed` contains the pids that listed incidents name.
    pub(crate) fn put(&mut self, run: Arc<ObservedRun>, at: Moment, listed: &BTreeSet<u32>) {
        let why = None;
        self.0.push_back(ExitedRun { run, at, why });
        self.prune(at, listed);
    }

    fn prune(&mut self, now: Moment, listed: &BTreeSet<u32>) {
        let is_listed = |exited: &ExitedRun| listed.contains(&exited.run.key().pid);
        self.0
            .retain(|exited| is_listed(exited) || now.since(exited.at) < KEPT_FOR_NS);
        while self.0.len() > MAX_EXITED {
            let unlisted = self.0.iter().position(|exited| !is_listed(exited));
            match unlisted {
                Some(place) => drop(self.0.remove(place)),
                None if self.0.len() > MAX_WITH_INCIDENTS => drop(self.0.pop_front()),
                None => break,
            }
        }
    }

    /// Returns the run with a pid that exited most recently, or `None` if no such run is kept.
    pub(crate) fn find(&self, pid: u32) -> Option<&ExitedRun> {
        self.0.iter().rfind(|exited| exited.run.key().pid == pid)
    }

    /// Returns all runs, newest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ExitedRun> {
        self.0.iter().rev()
    }

    /// Returns the runs about whose exits more information can arrive.
    pub(crate) fn learning(&self, now: Moment) -> Vec<RunKey> {
        let young = |exited: &&ExitedRun| now.since(exited.at) < LEARNS_FOR_NS;
        self.0.iter().filter(young).map(|exited| exited.run.key()).collect()
    }

    /// Records how a run ended.
    pub(crate) fn learn(&mut self, death: &Death) {
        if let Some(exited) = self.0.iter_mut().find(|exited| exited.run.key() == death.run) {
            exited.why = Some(words(death));
        }
    }
}

fn words(death: &Death) -> &'static str {
    if death.oom_killed == Some(true) {
        "killed by the kernel, out of memory"
    } else if death.is_in_emergency() {
        "out of memory"
    } else if death.failed == Some(true) {
        "failed"
    } else if death.in_order == Some(true) {
        "exited cleanly"
    } else {
        "killed or crashed"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::observed_run::tests::observed;

    fn run(pid: u32) -> Arc<ObservedRun> {
        Arc::new(observed(pid, &Arc::default()))
    }

    /// Scenario: more processes exit than are kept. Listed incidents name the first and the tenth process. One hour
    /// later, another process exits.
    /// Guarantee: the oldest runs without an incident are removed first. After one hour, only the new run and the runs
    /// with an incident are left. Runs with incidents never exceed the limit.
    #[test]
    fn oldest_runs_without_incident_leave_first() {
        let listed = BTreeSet::from([1, 10]);
        let mut exited = ExitedRuns::default();
        for pid in 1..=60 {
            exited.put(run(pid), Moment::from_ns(pid.into()), &listed);
        }
        let pids = |exited: &ExitedRuns| exited.all().map(|one| one.run.key().pid).collect::<Vec<_>>();
        assert_eq!(pids(&exited).len(), MAX_EXITED);
        assert!(exited.find(1).is_some() && exited.find(10).is_some());
        assert!(exited.find(2).is_none() && exited.find(12).is_none() && exited.find(13).is_some());
        exited.put(run(61), Moment::from_ns(KEPT_FOR_NS + 60), &listed);
        assert_eq!(pids(&exited), [61, 10, 1]);
        let all: BTreeSet<u32> = (1000..1300).collect();
        for pid in &all {
            exited.put(run(*pid), Moment::from_ns(KEPT_FOR_NS * 2), &all);
        }
        assert_eq!(pids(&exited).len(), MAX_WITH_INCIDENTS);
    }
}
