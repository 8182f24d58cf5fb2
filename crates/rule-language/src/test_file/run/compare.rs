//! Compares a review with the expectations of a test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incidents::review::Review;
use rule_engine::rule::Severity;
use rule_engine::rule_set::RuleSet;

use crate::test_file::document::Expectation;

pub(super) fn compare_fires(fires: &[String], from: Option<Severity>, review: &Review) -> Option<String> {
    let least = from.unwrap_or(Severity::Info);
    let fired: BTreeSet<&str> = review
        .alerts()
        .filter(|reviewed| reviewed.alert.severity >= least)
        .map(|reviewed| &*reviewed.alert.rule.id)
        .collect();
    let wanted: BTreeSet<&str> = fires.iter().map(String::as_str).collect();
    if fired == wanted {
        return None;
    }
    let list = |ids: Vec<&&str>| ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    let missing: Vec<&&str> = wanted.difference(&fired).collect();
    let beyond: Vec<&&str> = fired.difference(&wanted).collect();
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("never fired: {}", list(missing)));
    }
    if !beyond.is_empty() {
        parts.push(format!("fired unexpectedly: {}", list(beyond)));
    }
    Some(format!("fires: {}", parts.join("; ")))
}

/// Returns the first difference from an expectation, or `None` if the expectation is met, or if its rule does not
/// exist.
pub(super) fn compare(expectation: &Expectation, review: &Review, rules: &RuleSet) -> Option<String> {
    let place = rules.rules.iter().position(|rule| *rule.id == *expectation.rule)?;
    let state = review.engine().states().get(place)?.state;
    let said = format!("at {}s `{}`", expectation.at.0.as_secs_f64(), expectation.rule);
    if state != expectation.state {
        return Some(format!(
            "{said} is {}, expected {}",
            state.name(),
            expectation.state.name()
        ));
    }
    let Some(alert) = review
        .engine()
        .alerts()
        .into_iter()
        .find(|alert| *alert.rule.id == *expectation.rule)
    else {
        let asked = expectation.count.is_some() || expectation.labels.is_some() || expectation.summary.is_some();
        return asked.then(|| format!("{said} does not fire, so it has no count, labels or summary"));
    };
    let mut differences = Vec::new();
    if let Some(count) = expectation.count.filter(|count| *count != alert.count) {
        differences.push(format!("count is {}, expected {count}", alert.count));
    }
    if let Some(severity) = expectation.severity.filter(|severity| *severity != alert.severity) {
        differences.push(format!(
            "severity is {}, expected {}",
            alert.severity.name(),
            severity.name()
        ));
    }
    if let Some(summary) = expectation
        .summary
        .as_deref()
        .filter(|summary| *summary != &*alert.summary)
    {
        differences.push(format!("summary is \"{}\", expected \"{summary}\"", alert.summary));
    }
    compare_texts("labels", expectation.labels.as_ref(), &alert.labels, &mut differences);
    compare_texts(
        "annotations",
        expectation.annotations.as_ref(),
        &alert.annotations,
        &mut differences,
    );
    (!differences.is_empty()).then(|| format!("{said}: {}", differences.join("; ")))
}

fn compare_texts(
    what: &str,
    expected: Option<&BTreeMap<String, String>>,
    found: &[(Arc<str>, Box<str>)],
    differences: &mut Vec<String>,
) {
    let Some(expected) = expected else { return };
    let expected: BTreeMap<&str, &str> = expected.iter().map(|(name, text)| (&**name, &**text)).collect();
    let found: BTreeMap<&str, &str> = found.iter().map(|(name, text)| (&**name, &**text)).collect();
    if expected != found {
        differences.push(format!("{what} are {found:?}, expected {expected:?}"));
    }
}
