//! A service as rules see it: its living and dead processes, of the whole service or of one version.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use base::run_key::RunKey;
use base::time::Moment;
use gc_telemetry::definition::resource::SERVICE_NAME;
use gc_telemetry::origin::Origin;
use gc_telemetry::value::text;
use rule_engine::field::ServiceFacts;

use crate::pipeline::service::book::living::LivingProcess;
use crate::pipeline::service::death::Death;

/// Period over which deaths are counted.
const COUNTED_NS: u64 = 10 * 60 * 1_000_000_000;

/// Maximum time by which a rollout starts the new process before it ends the old one.
const OVERLAP_NS: u64 = 60 * 1_000_000_000;

/// The state of one service.
#[derive(Debug)]
pub(crate) struct Service {
    /// Name of the service's processes.
    pub(crate) name: Arc<str>,
    /// Resource of the service's newest process.
    pub(crate) resource: Arc<Origin>,
    pub(super) living: BTreeMap<RunKey, LivingProcess>,
    pub(super) deaths: VecDeque<Death>,
}

/// The selection of processes of a service.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServiceProcesses<'a> {
    All,
    /// The processes of one version.
    Version(&'a str),
}

impl ServiceProcesses<'_> {
    fn is(self, version: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Version(wanted) => version == Some(wanted),
        }
    }
}

/// Facts about a service for rules, in addition to the numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KnownOfService {
    /// The severe rule that fires on most processes; `None` if no severe rule fires.
    pub(crate) affected_rule: Option<Arc<str>>,
    /// Name of the process that most recently died because of its memory; `None` if no such death is remembered.
    pub(crate) last_death: Option<Arc<str>>,
    /// Number of processes on which each rule fires.
    pub(crate) firing: BTreeMap<Arc<str>, u64>,
}

impl Service {
    pub(super) fn is_named(&self, name: &str) -> bool {
        let own = text(&self.resource.attributes, SERVICE_NAME.name);
        own.as_deref() == Some(name) || *self.name == *name
    }

    /// Returns the earliest time since which a process that started after a death, or at most [`OVERLAP_NS`] before it,
    /// has been healthy. Without a death, any process counts. Returns `None` if no such process is healthy.
    pub(super) fn well_since(&self, death: Option<Moment>, of: ServiceProcesses<'_>) -> Option<Moment> {
        let after = death.map_or(Moment::FIRST, |death| death.before(OVERLAP_NS));
        let successors = self.living(of).filter(|living| living.began >= after);
        let well = successors.filter(|living| living.severe().next().is_none());
        well.map(|living| living.well_since.max(death.unwrap_or(Moment::FIRST)))
            .min()
    }

    fn living(&self, of: ServiceProcesses<'_>) -> impl Iterator<Item = &LivingProcess> {
        let living = self.living.values();
        living.filter(move |living| of.is(living.version.as_deref()))
    }

    fn deaths(&self, of: ServiceProcesses<'_>) -> impl DoubleEndedIterator<Item = &Death> {
        let deaths = self.deaths.iter();
        deaths.filter(move |death| of.is(death.version.as_deref()))
    }

    /// Returns the versions of the service's processes, including dead processes.
    pub(crate) fn versions(&self) -> BTreeSet<&Arc<str>> {
        let living = self.living.values().filter_map(|living| living.version.as_ref());
        living
            .chain(self.deaths.iter().filter_map(|death| death.version.as_ref()))
            .collect()
    }

    /// Returns the number of processes on which each rule fires. `severe` selects only severity error or critical.
    fn firing(&self, of: ServiceProcesses<'_>, severe: bool) -> BTreeMap<&Arc<str>, u64> {
        let mut counts: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
        for living in self.living(of) {
            let firing = living.firing.iter().filter(|firing| firing.is_severe || !severe);
            let rules: BTreeSet<&Arc<str>> = firing.map(|firing| &firing.rule).collect();
            for rule in rules {
                *counts.entry(rule).or_default() += 1;
            }
        }
        counts
    }

    /// Returns the severe rule that fires on most processes, and the number of these processes; `None` if no severe
    /// rule fires.
    fn most_affected(&self, of: ServiceProcesses<'_>) -> Option<(&Arc<str>, u64)> {
        // Among equal counts, the first rule wins.
        let counts = self.firing(of, true).into_iter().rev();
        counts.max_by_key(|(_, count)| *count)
    }

    /// Returns the facts for rules, in addition to the numbers.
    pub(crate) fn known(&self, of: ServiceProcesses<'_>) -> KnownOfService {
        let last_death = self.deaths(of).rev().find(|death| death.is_of_memory());
        KnownOfService {
            affected_rule: self.most_affected(of).map(|(rule, _)| Arc::clone(rule)),
            last_death: last_death.map(|death| Arc::clone(&death.place)),
            firing: self
                .firing(of, false)
                .into_iter()
                .map(|(rule, count)| (Arc::clone(rule), count))
                .collect(),
        }
    }

    /// Returns the process that most recently died because of its memory, or `None` if no such death has been reported.
    pub(crate) fn last_death_of_memory(&self) -> Option<RunKey> {
        let mut deaths = self.deaths.iter().rev();
        deaths.find(|death| death.passed_on).map(|death| death.run)
    }

    /// Returns the numbers for rules.
    pub(crate) fn facts(&self, of: ServiceProcesses<'_>, now: Moment) -> ServiceFacts {
        let counted = || {
            let deaths = self.deaths(of);
            deaths.filter(|death| now.since(death.at) < COUNTED_NS)
        };
        let known = || counted().filter(|death| death.is_known(now));
        let count = |which: fn(&Death) -> bool| known().filter(|death| which(death)).count() as u64;
        let deaths = counted().count() as u64;
        let knows_kills = deaths == 0 || counted().any(|death| death.oom_killed.is_some());
        ServiceFacts {
            processes: self.living(of).count() as u64,
            deaths_10m: deaths,
            deaths_in_emergency_10m: count(Death::is_in_emergency),
            oom_kills_10m: knows_kills.then(|| count(|death| death.oom_killed == Some(true))),
            sudden_oom_kills_10m: knows_kills.then(|| count(Death::is_sudden_oom_kill)),
            restarts_10m: count(Death::is_short_and_failed),
            affected: self.most_affected(of).map_or(0, |(_, count)| count),
            well_since: self.well_since(self.deaths(of).next_back().map(|death| death.at), of),
        }
    }
}
