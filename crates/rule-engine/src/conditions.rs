//! The conditions of all rules of a set, split at `&&`. Parts that several rules share are evaluated once per round.
//!
//! A condition is false as soon as one of its parts is false (see `expression`). The order of the parts is therefore
//! free, and the parts that most rules share come first. For example, 18 of the 60 shipped rules require that the
//! stopped time is worth an explanation, which is false in most processes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::expression::{EvaluationError, Node, Truth, decide};
use super::field::Scope;
use super::rule::Rule;

/// Maximum number of parts that are evaluated once per round. In a larger set, the remaining parts, which fewer rules
/// share, are evaluated each time.
const MAX_SHARED_PARTS: usize = 192;

/// Values of the parts at the start of a round. Rounds start many times per second, and copying a constant takes less
/// time than a loop over the parts.
const NOTHING_KNOWN: [Option<Truth>; MAX_SHARED_PARTS] = [None; MAX_SHARED_PARTS];

/// The conditions of a rule set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conditions {
    /// The distinct parts, the most shared ones first.
    parts: Box<[Node]>,
    /// For each rule of the set, the indexes of its parts in ascending order.
    of_rule: Box<[Box<[u32]>]>,
}

impl Conditions {
    /// Splits the conditions of `rules`.
    #[expect(
        clippy::mutable_key_type,
        reason = "a pattern is hashed by its text, which does not change"
    )]
    pub(crate) fn from_rules(rules: &[Arc<Rule>]) -> Self {
        let mut required: HashMap<&Node, u32> = HashMap::new();
        let mut parts: Vec<&Node> = Vec::new();
        for rule in rules.iter().filter(|rule| rule.enabled) {
            divide(&rule.when.node, &mut |part| {
                let count = required.entry(part).or_default();
                if *count == 0 {
                    parts.push(part);
                }
                *count += 1;
            });
        }
        parts.sort_by_key(|part| Reverse(required.get(part).copied()));
        let places: HashMap<&Node, u32> = parts.iter().copied().zip(0..).collect();
        let of_rule = rules.iter().map(|rule| {
            let mut own = Vec::new();
            if rule.enabled {
                divide(&rule.when.node, &mut |part| own.extend(places.get(part)));
            }
            own.sort_unstable();
            own.into_boxed_slice()
        });
        Self {
            of_rule: of_rule.collect(),
            parts: parts.into_iter().cloned().collect(),
        }
    }

    /// Starts a round in which no part has been evaluated.
    pub(crate) fn round(&self) -> Truths<'_> {
        Truths {
            conditions: self,
            known: NOTHING_KNOWN,
        }
    }
}

/// Calls `part` for each part of a condition. The condition is true if all its parts are true.
pub(crate) fn divide<'n>(condition: &'n Node, part: &mut impl FnMut(&'n Node)) {
    match condition {
        Node::And(nodes) => nodes.iter().for_each(|node| divide(node, part)),
        other => part(other),
    }
}

/// Known values of the parts in one round. Facts do not change within a round.
#[derive(Debug)]
pub(crate) struct Truths<'c> {
    conditions: &'c Conditions,
    known: [Option<Truth>; MAX_SHARED_PARTS],
}

impl Truths<'_> {
    /// Evaluates the condition of a rule, given the rule's index in the set.
    pub(crate) fn evaluate(&mut self, rule: usize, scope: &Scope<'_>) -> Truth {
        let parts = self.conditions.of_rule.get(rule).ok_or(EvaluationError::Type)?;
        decide(parts.iter().map(|place| self.part(*place as usize, scope)), false)
    }

    fn part(&mut self, place: usize, scope: &Scope<'_>) -> Truth {
        let evaluate = || {
            let part = self.conditions.parts.get(place).ok_or(EvaluationError::Type)?;
            part.holds(scope)
        };
        match self.known.get_mut(place) {
            Some(known) => *known.get_or_insert_with(evaluate),
            None => evaluate(),
        }
    }
}

#[cfg(test)]
mod tests;
