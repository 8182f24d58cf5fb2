//! The living processes of each service, and its last deaths. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use delivery::alerts::Notice;
use gc_rules::alert::{Ending, Transition};
use gc_rules::field::ServiceFacts;
use gc_rules::rule::{Rule, Severity};
use gc_rules::time::moved;
use gc_telemetry::definition::resource::SERVICE_NAME;
use gc_telemetry::origin::Origin;
use gc_telemetry::value::text;

use crate::container::ContainerIdentity;
use crate::pipeline::service::death::{Death, Ended};
use crate::pipeline::service::key::{ServiceKey, place, version};
use crate::process::RunKey;

/// Limit of services that are remembered.
pub(crate) const MAX_SERVICES: usize = 1024;

/// Limit of deaths that are remembered of a service: the oldest gives way.
pub(crate) const MAX_DEATHS: usize = 32;

/// How long a death is remembered: as long as the incident of a dead process may last.
pub(crate) const KEPT_NS: u64 = 15 * 60 * 1_000_000_000;

/// The time over which deaths are counted.
const COUNTED_NS: u64 = 10 * 60 * 1_000_000_000;

/// So long before its end an alert on memory is part of it.
const EMERGENCY_NS: u64 = 60 * 1_000_000_000;

/// A rollout starts the new process before it ends the old one, at most so long before.
const OVERLAP_NS: u64 = 60 * 1_000_000_000;

/// Limit of rules that are remembered of a process at once.
const MAX_FIRING: usize = 128;

/// The families whose alerts are about memory.
const OF_MEMORY: [&str; 3] = ["memory.", "limits.", "leaks."];

/// A process that lives.
#[derive(Debug)]
pub(crate) struct Living {
    /// When the process began, Unix nanoseconds.
    began_unix_ns: u64,
    container: ContainerIdentity,
    /// The version of its service.
    version: Option<Arc<str>>,
    /// Which process it is, for people.
    place: Arc<str>,
    /// The rules that fire.
    firing: Vec<Firing>,
    /// When one of them that is about memory fired last; `u64::MAX`: it fires now.
    emergency_unix_ns: Option<u64>,
    /// Since when none of them fires.
    well_since_unix_ns: u64,
}

/// A rule that fires.
#[derive(Debug)]
struct Firing {
    rule: Arc<str>,
    /// Of severity error or critical.
    is_severe: bool,
}

/// Everything that is remembered of one service.
#[derive(Debug)]
pub(crate) struct Service {
    /// The name of its processes.
    pub(crate) name: Arc<str>,
    /// The resource of its newest process.
    pub(crate) resource: Arc<Origin>,
    living: BTreeMap<RunKey, Living>,
    deaths: VecDeque<Death>,
}

/// Which processes of a service.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Of<'a> {
    /// All of them.
    All,
    /// Those of one version.
    Version(&'a str),
}

impl Of<'_> {
    fn is(self, version: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Version(wanted) => version == Some(wanted),
        }
    }
}

/// What rules know of a service beside the numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KnownOfService {
    /// The severe rule that fires on most processes.
    pub(crate) affected_rule: Option<Arc<str>>,
    /// Which process died of its memory last.
    pub(crate) last_death: Option<Arc<str>>,
    /// On how many processes each rule fires.
    pub(crate) firing: BTreeMap<Arc<str>, u64>,
}

/// All services of the host.
#[derive(Debug, Default)]
pub(crate) struct ServiceBook {
    services: BTreeMap<ServiceKey, Service>,
    /// The service of each process that lives, with the resource that it was found by.
    of_run: BTreeMap<RunKey, (ServiceKey, Arc<Origin>)>,
    /// Processes that belong to none because of the limit.
    pub(crate) left_out: u64,
}

impl ServiceBook {
    /// A process is read, or more is known of who it is: it may belong to another service than before.
    pub(crate) fn belongs(
        &mut self,
        run: RunKey,
        key: ServiceKey,
        who: (&str, &Arc<Origin>, &ContainerIdentity),
        began_unix_ns: u64,
    ) {
        let (name, resource, container) = who;
        let before = self.of_run.remove(&run);
        let before = before.and_then(|(key, _)| self.services.get_mut(&key)?.living.remove(&run));
        if !self.services.contains_key(&key) && self.services.len() >= MAX_SERVICES {
            self.left_out += 1;
            return;
        }
        let service = self.services.entry(key.clone()).or_insert_with(|| Service {
            name: name.into(),
            resource: Arc::clone(resource),
            living: BTreeMap::new(),
            deaths: VecDeque::new(),
        });
        service.resource = Arc::clone(resource);
        let mut living = before.unwrap_or_else(|| Living {
            began_unix_ns,
            container: container.clone(),
            version: None,
            place: Arc::default(),
            firing: Vec::new(),
            emergency_unix_ns: None,
            well_since_unix_ns: began_unix_ns,
        });
        living.version = version(&resource.attributes);
        living.place = place(run, &resource.attributes);
        service.living.insert(run, living);
        self.of_run.insert(run, (key, Arc::clone(resource)));
    }

    /// Nothing more is known of who it is than by this resource.
    pub(crate) fn is_current(&self, run: RunKey, resource: &Arc<Origin>) -> bool {
        self.of_run
            .get(&run)
            .is_some_and(|(_, known)| Arc::ptr_eq(known, resource))
    }

    fn living(&mut self, run: RunKey) -> Option<&mut Living> {
        let (key, _) = self.of_run.get(&run)?;
        self.services.get_mut(key)?.living.get_mut(&run)
    }

    /// Alerts of a process began or ended.
    pub(crate) fn notices(&mut self, notices: &[Notice], now_unix_ns: u64) {
        for notice in notices {
            if let Some(living) = self.living(notice.run) {
                living.observe(&notice.transition, now_unix_ns);
            }
        }
    }

    /// A process ended.
    pub(crate) fn ended(&mut self, run: RunKey, in_order: Option<bool>, now_unix_ns: u64) {
        let Some((key, _)) = self.of_run.remove(&run) else {
            return;
        };
        let Some(service) = self.services.get_mut(&key) else {
            return;
        };
        let Some(living) = service.living.remove(&run) else {
            return;
        };
        let since = living.emergency_unix_ns.map(|at| now_unix_ns.saturating_sub(at));
        if service.deaths.len() >= MAX_DEATHS {
            service.deaths.pop_front();
        }
        service.deaths.push_back(Death {
            run,
            at_unix_ns: now_unix_ns,
            uptime_ns: now_unix_ns.saturating_sub(living.began_unix_ns),
            oom_killed: (in_order == Some(true)).then_some(false),
            in_emergency: since.is_some_and(|since| since <= EMERGENCY_NS),
            in_order,
            failed: None,
            version: living.version,
            place: living.place,
            passed_on: false,
            container: living.container,
        });
    }

    /// The kill counts of the groups that a dead process was in say whether it was killed for memory.
    pub(crate) fn oom_killed(&mut self, run: RunKey, killed: bool) {
        let mut deaths = self.services.values_mut().flat_map(|service| &mut service.deaths);
        if let Some(death) = deaths.find(|death| death.run == run)
            && death.oom_killed.is_none()
        {
            death.oom_killed = Some(killed);
        }
    }

    /// The dead processes of which it is not known whether they were killed for memory.
    pub(crate) fn unexplained(&self) -> Vec<RunKey> {
        let deaths = self.services.values().flat_map(|service| &service.deaths);
        let unexplained = deaths.filter(|death| death.oom_killed.is_none());
        unexplained.map(|death| death.run).collect()
    }

    /// The dead of which it became known that they were killed for memory, or ended while it was out, with the names of
    /// their processes: each once.
    pub(crate) fn take_deaths_of_memory(&mut self) -> Vec<(Arc<str>, RunKey, u64)> {
        let mut taken = Vec::new();
        for service in self.services.values_mut() {
            for death in service.deaths.iter_mut().filter(|death| !death.passed_on) {
                if death.is_of_memory() {
                    death.passed_on = true;
                    taken.push((Arc::clone(&service.name), death.run, death.at_unix_ns));
                }
            }
        }
        taken
    }

    /// Asks an orchestrator of deaths of which it has said nothing yet.
    pub(crate) fn ask(&mut self, ended: impl Fn(&ContainerIdentity) -> Option<Ended>) {
        let deaths = self.services.values_mut().flat_map(|service| &mut service.deaths);
        for death in deaths.filter(|death| death.failed.is_none()) {
            if let Some(ended) = ended(&death.container) {
                death.learn(ended);
            }
        }
    }

    /// The wall clock was set by so much.
    pub(crate) fn clock_was_set(&mut self, by_ns: i64) {
        for service in self.services.values_mut() {
            for living in service.living.values_mut() {
                for time in [&mut living.began_unix_ns, &mut living.well_since_unix_ns] {
                    *time = moved(*time, by_ns);
                }
                living.emergency_unix_ns = living.emergency_unix_ns.map(|at| moved(at, by_ns));
            }
            for death in &mut service.deaths {
                death.at_unix_ns = moved(death.at_unix_ns, by_ns);
            }
        }
    }

    /// Forgets what is old.
    pub(crate) fn forget(&mut self, now_unix_ns: u64) {
        for service in self.services.values_mut() {
            let old = |death: &Death| now_unix_ns.saturating_sub(death.at_unix_ns) > KEPT_NS;
            while service.deaths.front().is_some_and(old) {
                service.deaths.pop_front();
            }
        }
        self.services
            .retain(|_, service| !service.living.is_empty() || !service.deaths.is_empty());
    }

    /// Each service.
    pub(crate) fn services(&self) -> impl Iterator<Item = (&ServiceKey, &Service)> {
        self.services.iter()
    }

    /// That service.
    pub(crate) fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.services.get(key)
    }

    /// How many processes live of the services with this name: their `service.name`, or the name of their processes.
    pub(crate) fn processes_of(&self, name: &str) -> u64 {
        let services = self.services.values().filter(|service| service.is_named(name));
        services.map(|service| service.living.len() as u64).sum()
    }

    /// How a run ended; `None`: it lives, or that was long ago.
    pub(crate) fn death(&self, run: RunKey) -> Option<&Death> {
        let mut deaths = self.services.values().flat_map(|service| &service.deaths);
        deaths.find(|death| death.run == run)
    }

    /// Since when a process lives that came in the place of a dead one, and is well.
    pub(crate) fn successor_well_since(&self, run: RunKey) -> Option<u64> {
        let mut services = self.services.values();
        let service = services.find(|service| service.deaths.iter().any(|death| death.run == run))?;
        let death = service.deaths.iter().find(|death| death.run == run)?;
        service.well_since(Some(death.at_unix_ns), Of::All)
    }
}

impl Living {
    fn observe(&mut self, transition: &Transition, now_unix_ns: u64) {
        let alert = transition.alert();
        let rule: &Arc<Rule> = &alert.rule;
        let is_severe = alert.severity() >= Severity::Error;
        match transition {
            Transition::Fired(_) => {
                if self.firing.len() < MAX_FIRING {
                    let rule = Arc::clone(&rule.id);
                    self.firing.push(Firing { rule, is_severe });
                }
            }
            // It fired until the end.
            Transition::Ended(_, Ending::ProcessEnded) => return,
            Transition::Ended(..) => {
                if let Some(place) = self.firing.iter().position(|firing| firing.rule == rule.id) {
                    self.firing.swap_remove(place);
                }
            }
        }
        if !is_severe {
            return;
        }
        let is_of_memory = |id: &str| OF_MEMORY.iter().any(|family| id.starts_with(family));
        if is_of_memory(&rule.id) {
            let fires = self.severe().any(is_of_memory);
            self.emergency_unix_ns = Some(if fires { u64::MAX } else { now_unix_ns });
        }
        let is_well = self.severe().next().is_none();
        self.well_since_unix_ns = if is_well { now_unix_ns } else { u64::MAX };
    }

    /// The rules of severity error or critical that fire.
    fn severe(&self) -> impl Iterator<Item = &str> {
        let severe = self.firing.iter().filter(|firing| firing.is_severe);
        severe.map(|firing| &*firing.rule)
    }
}

impl Service {
    fn is_named(&self, name: &str) -> bool {
        let own = text(&self.resource.attributes, SERVICE_NAME.name);
        own.as_deref() == Some(name) || *self.name == *name
    }

    /// The time since when a process lives that began after a death and is well; without a death any process.
    fn well_since(&self, death_unix_ns: Option<u64>, of: Of<'_>) -> Option<u64> {
        let after = death_unix_ns.map_or(0, |death| death.saturating_sub(OVERLAP_NS));
        let successors = self.living(of).filter(|living| living.began_unix_ns >= after);
        let well = successors.filter(|living| living.severe().next().is_none());
        well.map(|living| living.well_since_unix_ns.max(death_unix_ns.unwrap_or(0)))
            .min()
    }

    fn living(&self, of: Of<'_>) -> impl Iterator<Item = &Living> {
        let living = self.living.values();
        living.filter(move |living| of.is(living.version.as_deref()))
    }

    fn deaths(&self, of: Of<'_>) -> impl DoubleEndedIterator<Item = &Death> {
        let deaths = self.deaths.iter();
        deaths.filter(move |death| of.is(death.version.as_deref()))
    }

    /// The versions of its processes, dead ones included.
    pub(crate) fn versions(&self) -> BTreeSet<&Arc<str>> {
        let living = self.living.values().filter_map(|living| living.version.as_ref());
        living
            .chain(self.deaths.iter().filter_map(|death| death.version.as_ref()))
            .collect()
    }

    /// On how many processes each rule fires; `severe`: only those of severity error or critical.
    fn firing(&self, of: Of<'_>, severe: bool) -> BTreeMap<&Arc<str>, u64> {
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

    /// The severe rule of which most processes have an alert, and how many.
    fn most_affected(&self, of: Of<'_>) -> Option<(&Arc<str>, u64)> {
        // Of equals the first.
        let counts = self.firing(of, true).into_iter().rev();
        counts.max_by_key(|(_, count)| *count)
    }

    /// What rules know of it beside the numbers.
    pub(crate) fn known(&self, of: Of<'_>) -> KnownOfService {
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

    /// The newest of its processes that died of their memory.
    pub(crate) fn last_death_of_memory(&self) -> Option<RunKey> {
        let mut deaths = self.deaths.iter().rev();
        deaths.find(|death| death.passed_on).map(|death| death.run)
    }

    /// What rules know of it.
    pub(crate) fn facts(&self, of: Of<'_>, now_unix_ns: u64) -> ServiceFacts {
        let counted = || {
            let deaths = self.deaths(of);
            deaths.filter(|death| now_unix_ns.saturating_sub(death.at_unix_ns) < COUNTED_NS)
        };
        let known = || counted().filter(|death| death.is_known(now_unix_ns));
        let count = |which: fn(&Death) -> bool| known().filter(|death| which(death)).count() as u64;
        let deaths = counted().count() as u64;
        let knows_kills = deaths == 0 || counted().any(|death| death.oom_killed.is_some());
        ServiceFacts {
            processes: self.living(of).count() as u64,
            deaths_10m: deaths,
            deaths_in_emergency_10m: count(Death::is_in_emergency),
            oom_kills_10m: knows_kills.then(|| count(|death| death.oom_killed == Some(true))),
            restarts_10m: count(Death::is_short_and_failed),
            affected: self.most_affected(of).map_or(0, |(_, count)| count),
            well_since_unix_ns: self.well_since(self.deaths(of).next_back().map(|death| death.at_unix_ns), of),
        }
    }
}
