//! Evidence requests of open incidents, with the facts that decide whether a burst or a heap dump runs.

use incidents::id_of;
use rule_engine::rule::{Evidence, Severity};

use evidence::automatic::Condition;
use evidence::schedule::EvidenceRequest;
use processes::RunState;
use run::Run;

/// Kinds of evidence that need a burst or a heap dump.
pub(crate) const OF_BURSTS: [Evidence; 4] = [
    Evidence::Callers,
    Evidence::Allocations,
    Evidence::Stacks,
    Evidence::Census,
];

/// Returns the requests of the open incidents of a run for bursts and heap dumps, each with the severity of its
/// incident.
pub(crate) fn for_run(run: &Run) -> Vec<(Severity, EvidenceRequest)> {
    let Some(rules) = &run.rules else { return Vec::new() };
    let mut requests = Vec::new();
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
            requests.push((
                incident.severity,
                EvidenceRequest {
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
    requests
}
