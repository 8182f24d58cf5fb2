//! Determines which rules could be evaluated for a history.
//!
//! "No anomaly" means little if the rules had no data: a window over minutes is unknown in a recording of seconds, and
//! a recording contains neither settings nor container data.

use std::sync::Arc;

use rule_engine::engine::{Engine, State};
use rule_engine::rule::{EvaluationTrigger, Function, Rule, Severity, Window};
use rule_engine::rule_set::RuleSet;

/// Maximum number of collections after which the rules are checked. Afterwards, the rules are checked only at other
/// times, such as the end of the history. The limit exists because a check costs as much as an evaluation, and it
/// suffices because the reasons why a rule is unknown exist from the start.
const MAX_LOOKS: u32 = 2048;

/// Enabled rules that were unknown or not selected from start to end, or that are unknown at the end because the time
/// was too short.
#[derive(Debug, Clone, Default)]
pub struct UnjudgedRules {
    /// Rules with a window that requires more time than the process was observed for.
    pub too_short: Vec<Arc<Rule>>,
    /// Rules that need values, settings or limits that were never known, or more samples than were available.
    pub unknown: Vec<Arc<Rule>>,
    /// Rules of `too_short` whose condition is true for the observed time, with their summaries: the most severe rule
    /// of each group, without consequences of firing rules. The list contains only rules `on: process` of severity
    /// warning or above, without rules on trends, because growth within seconds of start-up is not a trend.
    pub so_far: Vec<(Arc<Rule>, String)>,
}

impl UnjudgedRules {
    /// Returns the number of rules.
    pub fn count(&self) -> usize {
        self.too_short.len() + self.unknown.len()
    }
}

/// The rules that were known at any time so far.
#[derive(Debug, Default)]
pub(super) struct KnownRules {
    known: Vec<bool>,
    looks: u32,
}

impl KnownRules {
    /// Checks the rules after a collection, up to [`MAX_LOOKS`] times.
    pub(super) fn at_collection(&mut self, engine: &Engine) {
        if self.looks < MAX_LOOKS {
            self.looks += 1;
            self.look(engine);
        }
    }

    /// Checks the rules at any other time.
    pub(super) fn look(&mut self, engine: &Engine) {
        let states = engine.states();
        self.known.resize(states.len(), false);
        for (known, state) in self.known.iter_mut().zip(states) {
            *known |= !matches!(state.state, State::Unknown | State::NotSelected);
        }
    }

    /// Returns the rules that could not be evaluated in a process that was observed for `watched_ns` nanoseconds.
    pub(super) fn others(&self, engine: &Engine, watched_ns: u64) -> UnjudgedRules {
        let rules = engine.rules();
        let is_too_short = |rule: &Rule, state: State| {
            state == State::Unknown && windows(rules, rule).map(|window| window.min_watched_ns).max() > Some(watched_ns)
        };
        let is_trend = |rule: &Rule| {
            let trends = [Function::Slope, Function::R2, Function::Change];
            windows(rules, rule).any(|window| trends.contains(&window.function))
        };
        let mut others = UnjudgedRules::default();
        let states = engine.states().into_iter().map(|state| state.state);
        for ((rule, known), state) in rules.rules.iter().zip(&self.known).zip(states) {
            // Such a rule can have been known to be false at the start, when there was no data yet.
            if rule.enabled && is_too_short(rule, state) {
                others.too_short.push(Arc::clone(rule));
            } else if rule.enabled && !known {
                others.unknown.push(Arc::clone(rule));
            }
        }
        let mut candidates = others.too_short.clone();
        candidates.retain(|rule| {
            rule.on == EvaluationTrigger::Process && rule.severity >= Severity::Warning && !is_trend(rule)
        });
        candidates.sort_by_key(|rule| std::cmp::Reverse(rule.severity));
        let reported = engine.alerts();
        for rule in candidates {
            let known = rule.group.is_some_and(|group| {
                let mut reported = reported.iter().filter_map(|alert| alert.rule.group);
                reported.any(|other| other == group || rules.follows(group, other))
                    || others.so_far.iter().any(|(other, _)| other.group == Some(group))
            });
            if let Some(summary) = engine.so_far(&rule).filter(|_| !known) {
                others.so_far.push((rule, summary));
            }
        }
        others
    }
}

fn windows<'r>(rules: &'r RuleSet, rule: &'r Rule) -> impl Iterator<Item = &'r Window> {
    rule.windows.iter().filter_map(|(_, place)| rules.windows.get(*place))
}
