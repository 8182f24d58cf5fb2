//! What open incidents ask bursts and the census for, and what those found.

use std::sync::Arc;

use gc_rules::incident::{Share, id_of};
use gc_rules::ledger::Ledger;
use gc_rules::rule::{Evidence, Severity};

use base::run_key::RunKey;
use evidence::automatic::Condition;
use processes::RunState;
use run::Run;

/// The kinds of evidence that take a burst, or a heap dump.
pub(crate) const OF_BURSTS: [Evidence; 4] = [
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

/// What the open incidents of a run ask bursts for, each with its severity.
pub(crate) fn of_run(run: &Run) -> Vec<(Severity, Want)> {
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
            let newest = &run.history.figures;
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
