//! The living processes and the recent deaths of each service. This module does no I/O.

mod living;
mod members;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::time::Moment;
use delivery::alerts::{IncidentNotice, Notice};
use gc_telemetry::origin::Origin;
use gc_telemetry::value::text;
use incidents::IncidentChange;
use rule_engine::rule::Severity;

use crate::pipeline::service::book::living::LivingProcess;
pub(crate) use crate::pipeline::service::book::members::{KnownOfService, Service, ServiceProcesses};
use crate::pipeline::service::death::Death;
use base::run_key::RunKey;
use processes::container::ContainerIdentity;
use processes::service::{ServiceKey, place, version};
use processes::surroundings::ContainerEnd;
use run::Run;
use run::settings::Clock;

/// Maximum number of services that are remembered.
pub(crate) const MAX_SERVICES: usize = 1024;

/// Maximum number of deaths remembered per service. The oldest death is dropped first.
pub(crate) const MAX_DEATHS: usize = 32;

/// Time for which a death is remembered: the maximum duration of an incident of a dead process.
pub(crate) const DEATH_RETENTION_NS: u64 = 15 * 60 * 1_000_000_000;

/// Maximum time from the end of an alert on memory to a death that still counts as a death in an emergency.
const EMERGENCY_NS: u64 = 60 * 1_000_000_000;

/// All services of the host.
#[derive(Debug, Default)]
pub(crate) struct ServiceBook {
    services: BTreeMap<ServiceKey, Service>,
    /// The service of each living process, with the resource from which it was determined.
    of_run: BTreeMap<RunKey, (ServiceKey, Arc<Origin>)>,
    /// Number of processes without a service because of the limit.
    pub(crate) left_out: u64,
}

impl ServiceBook {
    /// Adds a run to the living processes of its service, once the run has been attached.
    pub(crate) fn enter(&mut self, run: &Run) {
        let resource = run.identity.resource();
        let Some(attached) = run.session.first_attach else {
            return;
        };
        if run.clock != Clock::Live || self.is_current(run.key(), resource) {
            return;
        }
        let who = run.identity.who();
        let key = ServiceKey::for_process(who, &resource.attributes);
        let began = text(&resource.attributes, "process.creation.time");
        let began = began.and_then(|time| time.parse::<jiff::Timestamp>().ok());
        let began = began.and_then(|time| u64::try_from(time.as_nanosecond()).ok());
        let began = began.map(|unix_ns| run.wall.moment(unix_ns));
        let who = (who.name.as_str(), resource, &who.provenance.container);
        self.belongs(run.key(), key, who, began.unwrap_or(attached));
    }

    /// Assigns a process to a service when it is first read, or when more of its identity is known. The service can
    /// differ from the previous one.
    pub(crate) fn belongs(
        &mut self,
        run: RunKey,
        key: ServiceKey,
        who: (&str, &Arc<Origin>, &ContainerIdentity),
        began: Moment,
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
        let mut living = before.unwrap_or_else(|| LivingProcess {
            began,
            container: container.clone(),
            version: None,
            place: Arc::default(),
            firing: Vec::new(),
            emergency: None,
            well_since: began,
        });
        living.version = version(&resource.attributes);
        living.place = place(run, &resource.attributes);
        service.living.insert(run, living);
        self.of_run.insert(run, (key, Arc::clone(resource)));
    }

    /// Returns whether the service of a process was determined from this resource.
    pub(crate) fn is_current(&self, run: RunKey, resource: &Arc<Origin>) -> bool {
        self.of_run
            .get(&run)
            .is_some_and(|(_, known)| Arc::ptr_eq(known, resource))
    }

    fn living(&mut self, run: RunKey) -> Option<&mut LivingProcess> {
        let (key, _) = self.of_run.get(&run)?;
        self.services.get_mut(key)?.living.get_mut(&run)
    }

    /// Records alerts that started or ended.
    pub(crate) fn notices(&mut self, notices: &[Notice], now: Moment) {
        for notice in notices {
            if let Some(living) = self.living(notice.run) {
                living.observe(&notice.transition, now);
            }
        }
    }

    /// Records the severe alerts of each incident that became more severe.
    pub(crate) fn incidents(&mut self, notices: &[IncidentNotice], now: Moment) {
        for notice in notices
            .iter()
            .filter(|notice| matches!(notice.change, IncidentChange::Worse(..)))
        {
            if let Some(living) = self.living(notice.run) {
                let incident = notice.change.incident();
                let harms = incident
                    .harms()
                    .filter(|member| member.alert.severity >= Severity::Error);
                harms.for_each(|member| living.rose(&member.rule().id, now));
            }
        }
    }

    pub(crate) fn ended(&mut self, run: RunKey, in_order: Option<bool>, now: Moment) {
        let Some((key, _)) = self.of_run.remove(&run) else {
            return;
        };
        let Some(service) = self.services.get_mut(&key) else {
            return;
        };
        let Some(living) = service.living.remove(&run) else {
            return;
        };
        let since = living.emergency.map(|at| now.since(at));
        if service.deaths.len() >= MAX_DEATHS {
            service.deaths.pop_front();
        }
        service.deaths.push_back(Death {
            run,
            at: now,
            uptime_ns: now.since(living.began),
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

    /// Records whether a dead process was killed for memory, from the kill counts of its control groups.
    pub(crate) fn oom_killed(&mut self, run: RunKey, killed: bool) {
        let mut deaths = self.services.values_mut().flat_map(|service| &mut service.deaths);
        if let Some(death) = deaths.find(|death| death.run == run)
            && death.oom_killed.is_none()
        {
            death.oom_killed = Some(killed);
        }
    }

    /// Returns the dead processes for which an OOM kill is neither confirmed nor excluded.
    pub(crate) fn unexplained(&self) -> Vec<RunKey> {
        let deaths = self.services.values().flat_map(|service| &service.deaths);
        let unexplained = deaths.filter(|death| death.oom_killed.is_none());
        unexplained.map(|death| death.run).collect()
    }

    /// Returns the processes that are newly known to have been killed for memory, or to have ended while their memory
    /// was exhausted, with their names. Each process is returned once.
    pub(crate) fn take_deaths_of_memory(&mut self) -> Vec<(Arc<str>, RunKey, Moment)> {
        let mut taken = Vec::new();
        for service in self.services.values_mut() {
            for death in service.deaths.iter_mut().filter(|death| !death.passed_on) {
                if death.is_of_memory() {
                    death.passed_on = true;
                    taken.push((Arc::clone(&service.name), death.run, death.at));
                }
            }
        }
        taken
    }

    /// Queries an orchestrator about the deaths that the orchestrator has not explained yet.
    pub(crate) fn ask(&mut self, ended: impl Fn(&ContainerIdentity) -> Option<ContainerEnd>) {
        let deaths = self.services.values_mut().flat_map(|service| &mut service.deaths);
        for death in deaths.filter(|death| death.failed.is_none()) {
            if let Some(ended) = ended(&death.container) {
                death.learn(ended);
            }
        }
    }

    /// Removes old deaths and empty services.
    pub(crate) fn forget(&mut self, now: Moment) {
        for service in self.services.values_mut() {
            let old = |death: &Death| now.since(death.at) > DEATH_RETENTION_NS;
            while service.deaths.front().is_some_and(old) {
                service.deaths.pop_front();
            }
        }
        self.services
            .retain(|_, service| !service.living.is_empty() || !service.deaths.is_empty());
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = (&ServiceKey, &Service)> {
        self.services.iter()
    }

    pub(crate) fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.services.get(key)
    }

    /// Returns the number of living processes of services with this name. The name matches the `service.name` of a
    /// service or the name of its processes.
    pub(crate) fn processes_of(&self, name: &str) -> u64 {
        let services = self.services.values().filter(|service| service.is_named(name));
        services.map(|service| service.living.len() as u64).sum()
    }

    /// Returns how a run ended, or `None` if the run is alive or its end is no longer remembered.
    pub(crate) fn death(&self, run: RunKey) -> Option<&Death> {
        let mut deaths = self.services.values().flat_map(|service| &service.deaths);
        deaths.find(|death| death.run == run)
    }

    /// Returns the time since which a successor of a dead process has been healthy, or `None` if there is no healthy
    /// successor.
    pub(crate) fn successor_well_since(&self, run: RunKey) -> Option<Moment> {
        let mut services = self.services.values();
        let service = services.find(|service| service.deaths.iter().any(|death| death.run == run))?;
        let death = service.deaths.iter().find(|death| death.run == run)?;
        service.well_since(Some(death.at), ServiceProcesses::All)
    }
}
