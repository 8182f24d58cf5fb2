//! A sample incident for testing receivers.

use std::sync::Arc;

use base::time::Moment;

use super::{IncidentChange, IncidentEnding, Incidents};
use rule_engine::engine::Engine;
use rule_engine::expression::Expression;
use rule_engine::field::ProcessFacts;
use rule_engine::rule::{Rule, Template, TemplatePart};
use rule_engine::rule_set::RuleSet;

const SUMMARY: &str = "No process is affected; `gcwatch alerts test` was run";

/// Returns a rule whose condition is true for every process.
fn rule() -> Rule {
    Rule {
        id: "gcwatch.test".into(),
        enabled: true,
        when: Expression::constant(true),
        title: "Test of incident receivers".into(),
        summary: Template {
            parts: vec![TemplatePart::Text(SUMMARY.into())],
        },
        description: "The connection from gcwatch to this receiver works.".into(),
        remedy: "No action is required. This incident ends automatically within minutes.".into(),
        source: "none".into(),
        ..Rule::default()
    }
}

/// Returns the start and the end of an incident without a process, both at `now`.
pub fn sample(now: Moment) -> Vec<IncidentChange> {
    let rules = Arc::new(RuleSet::new(vec![Arc::new(rule())], Vec::new(), Vec::new()));
    let facts = ProcessFacts::new(Some(1), None, None, []);
    // A tick occurs at each full second.
    let mut engine = Engine::new(Arc::clone(&rules), facts, now.before(1_000_000_000));
    let transitions = engine.advance(now);
    let mut incidents = Incidents::default();
    let mut changes = incidents.observe(&rules, &transitions, &engine.holding(), (now, engine.wall()));
    changes.extend(incidents.end(IncidentEnding::Cleared, now));
    changes
}
