//! An incident to try receivers with.

use std::sync::Arc;

use base::time::Moment;

use super::{IncidentChange, IncidentEnding, Incidents};
use crate::engine::Engine;
use crate::expression::Expression;
use crate::field::ProcessFacts;
use crate::rule::{Rule, Template, TemplatePart};
use crate::rule_set::RuleSet;

const SUMMARY: &str = "No process is affected; somebody ran `gcwatch alerts test`";

/// Its rule holds on every process.
fn rule() -> Rule {
    Rule {
        id: "gcwatch.test".into(),
        enabled: true,
        when: Expression::constant(true),
        title: "Test of the receivers of incidents".into(),
        summary: Template {
            parts: vec![TemplatePart::Text(SUMMARY.into())],
        },
        description: "The way from gcwatch to this receiver works.".into(),
        remedy: "Nothing has to be done. This incident ends by itself within minutes.".into(),
        source: "none".into(),
        ..Rule::default()
    }
}

/// The beginning and the end of an incident of no process, both at `now`.
pub fn sample(now: Moment) -> Vec<IncidentChange> {
    let rules = Arc::new(RuleSet::new(vec![Arc::new(rule())], Vec::new(), Vec::new()));
    let facts = ProcessFacts::new(Some(1), None, None, []);
    // There is a tick at each full second.
    let mut engine = Engine::new(Arc::clone(&rules), facts, now.before(1_000_000_000));
    let transitions = engine.advance(now);
    let mut incidents = Incidents::default();
    let mut changes = incidents.observe(&rules, &transitions, &engine.holding(), (now, engine.wall()));
    changes.extend(incidents.end(IncidentEnding::Cleared, now));
    changes
}
