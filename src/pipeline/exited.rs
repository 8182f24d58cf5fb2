//! What is remembered of processes that exited: their page, history and collections, for whoever comes by an alert.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use base::run_key::RunKey;
use base::time::Moment;

use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::service::Death;

/// So many are kept, and beyond them only those that a listed incident names. One takes about 25 KiB.
pub(crate) const MOST_EXITED: usize = 50;

/// Limit with those that incidents name.
const MOST_WITH_INCIDENTS: usize = 100;

/// How long one is kept that no incident names.
const KEPT_FOR_NS: u64 = 3600 * 1_000_000_000;

/// How long more may become known of a death.
const LEARNS_FOR_NS: u64 = 60 * 1_000_000_000;

/// A process that exited.
#[derive(Debug, Clone)]
pub(crate) struct ExitedRun {
    /// Without its rules and series.
    pub(crate) run: Arc<ObservedRun>,
    /// When that was noticed.
    pub(crate) at: Moment,
    /// Why, in a few words, as far as that is known.
    pub(crate) why: Option<&'static str>,
}

/// The newest ones, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct ExitedRuns(VecDeque<ExitedRun>);

impl ExitedRuns {
    /// Keeps one more. `listed`: the pids that listed incidents name.
    pub(crate) fn put(&mut self, run: Arc<ObservedRun>, at: Moment, listed: &BTreeSet<u32>) {
        let why = None;
        self.0.push_back(ExitedRun { run, at, why });
        self.prune(at, listed);
    }

    fn prune(&mut self, now: Moment, listed: &BTreeSet<u32>) {
        let is_listed = |exited: &ExitedRun| listed.contains(&exited.run.key().pid);
        self.0
            .retain(|exited| is_listed(exited) || now.since(exited.at) < KEPT_FOR_NS);
        while self.0.len() > MOST_EXITED {
            let unlisted = self.0.iter().position(|exited| !is_listed(exited));
            match unlisted {
                Some(place) => drop(self.0.remove(place)),
                None if self.0.len() > MOST_WITH_INCIDENTS => drop(self.0.pop_front()),
                None => break,
            }
        }
    }

    /// The newest of a pid.
    pub(crate) fn of(&self, pid: u32) -> Option<&ExitedRun> {
        self.0.iter().rfind(|exited| exited.run.key().pid == pid)
    }

    /// All of them, the newest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ExitedRun> {
        self.0.iter().rev()
    }

    /// Those of whose deaths more may become known.
    pub(crate) fn learning(&self, now: Moment) -> Vec<RunKey> {
        let young = |exited: &&ExitedRun| now.since(exited.at) < LEARNS_FOR_NS;
        self.0.iter().filter(young).map(|exited| exited.run.key()).collect()
    }

    /// How one ended.
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
        "ended in order"
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

    /// Scenario: more processes exit than are kept; two of them, the first and the tenth, are those of listed incidents.
    /// An hour later one more exits.
    /// Guarantee: the oldest without an incident leave first; after an hour only those with one are left, and the new
    /// one; no incident keeps more than the limit.
    #[test]
    fn the_oldest_without_an_incident_leave_first() {
        let listed = BTreeSet::from([1, 10]);
        let mut exited = ExitedRuns::default();
        for pid in 1..=60 {
            exited.put(run(pid), Moment::from_ns(pid.into()), &listed);
        }
        let pids = |exited: &ExitedRuns| exited.all().map(|one| one.run.key().pid).collect::<Vec<_>>();
        assert_eq!(pids(&exited).len(), MOST_EXITED);
        assert!(exited.of(1).is_some() && exited.of(10).is_some());
        assert!(exited.of(2).is_none() && exited.of(12).is_none() && exited.of(13).is_some());
        exited.put(run(61), Moment::from_ns(KEPT_FOR_NS + 60), &listed);
        assert_eq!(pids(&exited), [61, 10, 1]);
        let all: BTreeSet<u32> = (1000..1300).collect();
        for pid in &all {
            exited.put(run(*pid), Moment::from_ns(KEPT_FOR_NS * 2), &all);
        }
        assert_eq!(pids(&exited).len(), MOST_WITH_INCIDENTS);
    }
}
