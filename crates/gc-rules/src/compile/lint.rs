//! Conditions that can never be true, or always are.
//!
//! A condition is never true when each of its alternatives is a contradiction: asks for two things of one value that no value is
//! ([`super::domain`]). It is always true when its negation never is. "Always" leaves the unknown out: what holds of every value that can
//! be known says nothing but that it is known, and `has` says that.

use super::domain;
use super::range::Range;
use crate::expression::{Node, TextTest};

/// Most parts of all alternatives together; beyond, nothing is said.
const MAX_PARTS: usize = 512;

/// A part, and whether it is asked to be true or false.
pub(super) type Asked<'n> = (&'n Node, bool);

/// Whether a condition has one outcome whatever is known: `Some(true)`, always true; `Some(false)`, never. `None`: both are possible, or it
/// cannot be told.
pub(super) fn certain(node: &Node) -> Option<bool> {
    [true, false].into_iter().find(|truth| {
        alternatives(node, !truth)
            .is_some_and(|alternatives| alternatives.iter().all(|asked| domain::is_contradiction(asked)))
    })
}

/// What makes the condition true (or false): any of these, each all of its parts. `None`: too many.
fn alternatives(node: &Node, truth: bool) -> Option<Vec<Vec<Asked<'_>>>> {
    Some(match node {
        Node::Bool(constant) if *constant == truth => vec![Vec::new()],
        Node::Bool(_) => Vec::new(),
        Node::Not(inner) => return alternatives(inner, !truth),
        Node::And(nodes) if truth => return together(nodes.iter().map(|node| (node, true))),
        Node::Or(nodes) if !truth => return together(nodes.iter().map(|node| (node, false))),
        Node::And(nodes) | Node::Or(nodes) => {
            let mut all = Vec::new();
            for node in nodes {
                all.extend(alternatives(node, truth)?);
            }
            bounded(all)?
        }
        Node::If(parts) => {
            let mut all = together([(&parts.0, true), (&parts.1, truth)])?;
            all.extend(together([(&parts.0, false), (&parts.2, truth)])?);
            bounded(all)?
        }
        leaf => vec![vec![(leaf, truth)]],
    })
}

/// All of several: each alternative of the one with each of the next.
fn together<'n>(asked: impl IntoIterator<Item = Asked<'n>>) -> Option<Vec<Vec<Asked<'n>>>> {
    let mut all: Vec<Vec<Asked<'n>>> = vec![Vec::new()];
    for (node, truth) in asked {
        let next = alternatives(node, truth)?;
        let parts = |all: &[Vec<Asked<'n>>]| all.iter().map(|asked| asked.len() + 1).sum::<usize>();
        if parts(&all).saturating_mul(parts(&next)) > MAX_PARTS * 4 {
            return None;
        }
        all = all
            .iter()
            .flat_map(|asked| next.iter().map(move |more| asked.iter().chain(more).copied().collect()))
            .collect();
        all = bounded(all)?;
    }
    Some(all)
}

fn bounded(all: Vec<Vec<Asked<'_>>>) -> Option<Vec<Vec<Asked<'_>>>> {
    (all.iter().map(|asked| asked.len() + 1).sum::<usize>() <= MAX_PARTS).then_some(all)
}

/// Why a comparison has one outcome, where a field's range is the reason: the field, and what it can be.
pub(super) fn reason(node: &Node) -> Option<(&'static str, String)> {
    let Node::Compare(_, sides) = node else { return None };
    let ((Node::Field(field), constant) | (constant, Node::Field(field))) = (&sides.0, &sides.1) else {
        return None;
    };
    if !is_constant(constant) {
        return None;
    }
    let range = match Range::of(&Node::Field(field)) {
        Range {
            low: Some(low),
            high: Some(high),
        } => format!("{low} to {high}"),
        Range { low: Some(low), .. } => format!("at least {low}, where it is known"),
        _ => return None,
    };
    Some((field.name, range))
}

/// Whether nothing has to be known for it.
pub(super) fn is_constant(node: &Node) -> bool {
    matches!(
        node,
        Node::Bool(_) | Node::Int(_) | Node::Double(_) | Node::Text(_) | Node::Texts(_)
    )
}

/// Whether it can be computed now. Operands were, so only they are looked at.
pub(super) fn has_constant_operands(node: &Node) -> bool {
    match node {
        Node::Not(a) | Node::Negate(a) | Node::Size(a) | Node::ToDouble(a) | Node::ToInt(a) => is_constant(a),
        Node::Compare(_, sides) | Node::Compute(_, sides) => is_constant(&sides.0) && is_constant(&sides.1),
        Node::In(sides) => is_constant(&sides.0) && is_constant(&sides.1),
        Node::Test(a, TextTest::Contains(b) | TextTest::StartsWith(b) | TextTest::EndsWith(b)) => {
            is_constant(a) && is_constant(b)
        }
        Node::Test(a, TextTest::Matches(_)) => is_constant(a),
        _ => false,
    }
}
