//! What open incidents ask bursts and the census for, and what those found.

use std::sync::Arc;

use gc_rules::incident::{Finding, Share, id_of};
use gc_rules::ledger::Ledger;
use gc_rules::rule::{Evidence, Severity};

use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::registry::Pipeline;
use evidence::automatic::Condition;
use gc_telemetry::origin::Origin;
use processes::{RunKey, RunState};
use run::Input;
use run::settings::Clock;
use targets::host::now;

/// The kinds of evidence that take a burst, or a heap dump.
const OF_BURSTS: [Evidence; 4] = [
    Evidence::Callers,
    Evidence::Allocations,
    Evidence::Stacks,
    Evidence::Census,
];

/// What an open incident asks for, and has not got yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// Of which process.
    pub run: RunKey,
    /// The number of the incident.
    pub incident: u64,
    /// Its id, as its records have it.
    pub incident_id: String,
    /// What.
    pub evidence: Evidence,
    /// Whose turn it takes.
    pub share: Share,
    /// What is known of the process.
    pub condition: Condition,
    /// Where its memory is, and what of it grows; `None`: unknown, or nothing asks for it.
    pub account: Option<Arc<Ledger>>,
}

impl Want {
    /// Which one it is.
    pub fn key(&self) -> (RunKey, u64, Evidence) {
        (self.run, self.incident, self.evidence)
    }
}

impl Pipeline {
    /// What open incidents of live processes ask bursts for, the most severe first.
    pub fn wants(&self) -> Vec<Want> {
        let runs = self.runs();
        let live = runs.iter().filter(|run| run.clock() == Clock::Live);
        let mut wants: Vec<_> = live.flat_map(|run| of_run(run)).collect();
        wants.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
        wants.into_iter().map(|(_, want)| want).collect()
    }

    /// Whom the telemetry of a run is of; `None`: it is gone.
    pub fn resource(&self, run: RunKey) -> Option<Arc<Origin>> {
        let run = self.shared().processes().runs.get(&run).map(Arc::clone)?;
        let run = run.look();
        Some(Arc::clone(run.identity.resource()))
    }

    /// gcwatch begins a heap dump of a run (`true`), or has ended one: its collections are not the program's.
    pub fn dumps(&self, run: RunKey, begins: bool) {
        let run = self.shared().processes().runs.get(&run).map(Arc::clone);
        let Some(run) = run else { return };
        let shared = self.shared();
        run.hand(shared.at(now()), Input::OwnDump(begins));
    }

    /// A burst for an incident is over, or there is none. An incident that ended meanwhile does not get it.
    pub fn found(&self, run: RunKey, incident: u64, mut finding: Finding) {
        finding.dated(self.wall().unix_ns(now()));
        let run = self.shared().processes().runs.get(&run).map(Arc::clone);
        let Some(run) = run else { return };
        let (shared, finding) = (self.shared(), Box::new(finding));
        run.hand(shared.at(now()), Input::Found { incident, finding });
    }
}

fn of_run(run: &ObservedRun) -> Vec<(Severity, Want)> {
    let run = run.look();
    let Some(rules) = &run.rules else { return Vec::new() };
    let mut wants = Vec::new();
    for incident in rules.incidents() {
        if incident.process_ended.is_some() {
            continue;
        }
        for evidence in OF_BURSTS {
            let has_it = incident.found.as_ref().is_some_and(|found| found.has(evidence));
            if has_it || !incident.gathers(evidence) {
                continue;
            }
            let newest = run.history.figures();
            let group = run.group_figures();
            let memory = group.memory;
            wants.push((
                incident.severity,
                Want {
                    run: run.key(),
                    incident: incident.number,
                    incident_id: id_of(incident, Some(run.key())),
                    evidence,
                    share: run.identity.share(),
                    condition: Condition {
                        is_attached: run.session.state == RunState::Attached,
                        is_behind: run.session.is_behind(),
                        major: run.identity.major(),
                        heap: newest.committed.max(newest.heap_after()),
                        heap_limit: run.heap_limit(),
                        container: memory.working_set.or(memory.usage),
                        container_limit: group.memory_limit,
                        pinned_objects: newest.pinned_objects,
                        live: newest.heap_after(),
                        server: run.identity.is_server(),
                        native_aot: run.identity.who().native_aot,
                        available: None,
                    },
                    account: incident.ledger.clone(),
                },
            ));
        }
    }
    wants
}
