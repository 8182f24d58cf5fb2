//! An incident to try receivers with.

use std::sync::Arc;

use super::{IncidentChange, IncidentEnding, Incidents};
use crate::engine::Engine;
use crate::field::ProcessFacts;
use crate::load::{SourceFile, load};
use crate::rule::Rule;
use crate::rule_set::RuleSet;
use crate::time::Moment;

/// Its rule holds on every process with a pid.
const RULES: &str = "\
apiVersion: gcwatch/v1
rules:
  - id: gcwatch.test
    title: Test of the receivers of incidents
    on: process
    when: process.pid > 0
    severity: info
    summary: No process is affected; somebody ran `gcwatch alerts test`
    description: The way from gcwatch to this receiver works.
    remedy: Nothing has to be done. This incident ends by itself within minutes.
    source: none
";

fn rules() -> Arc<RuleSet> {
    let file = SourceFile {
        name: "gcwatch.test.yaml".to_owned(),
        text: RULES.to_owned(),
    };
    load(&[file]).map(|loaded| Arc::new(loaded.rules)).unwrap_or_default()
}

/// Its rule. `None`: never.
pub(super) fn sample_rule() -> Option<Arc<Rule>> {
    rules().rules.first().map(Arc::clone)
}

/// The beginning and the end of an incident of no process, both at `now`. Empty: never.
pub fn sample(now: Moment) -> Vec<IncidentChange> {
    let rules = rules();
    let facts = ProcessFacts::new(Some(1), None, None, []);
    // There is a tick at each full second.
    let mut engine = Engine::new(Arc::clone(&rules), facts, now.before(1_000_000_000));
    let transitions = engine.advance(now);
    let mut incidents = Incidents::default();
    let mut changes = incidents.observe(&rules, &transitions, &engine.holding(), (now, engine.wall()));
    changes.extend(incidents.end(IncidentEnding::Cleared, now));
    changes
}
