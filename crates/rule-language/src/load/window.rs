//! The windows of a rule, and the windows of all rules together.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use rule_engine::expression::{Expression, Node, TextTest};
use rule_engine::rule::{Rule, TemplatePart, Window};

use super::memory::Origin;

/// Returns a hash that is the same in every run, and long enough to distinguish some thousand meanings.
pub(super) fn digest(meaning: &impl Hash) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    let mut hasher = Fnv(OFFSET);
    meaning.hash(&mut hasher);
    hasher.finish()
}

/// 64-bit FNV-1a.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The windows of the rule set, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Windows {
    pub(super) windows: Vec<Window>,
    /// First position of each window.
    pub(super) origins: Vec<Origin>,
    places: HashMap<Window, usize>,
}

impl Windows {
    /// Returns the place of the window in the set.
    pub(super) fn place(&mut self, window: &Window, origin: impl FnOnce() -> Origin) -> usize {
        if let Some(place) = self.places.get(window) {
            return *place;
        }
        let place = self.windows.len();
        self.windows.push(window.clone());
        self.origins.push(origin());
        self.places.insert(window.clone(), place);
        place
    }

    /// Returns the hash of the meaning of a window.
    pub(super) fn meaning(&self, place: usize) -> u64 {
        self.windows.get(place).map(digest).unwrap_or_default()
    }
}

/// Returns a copy of an expression with new indexes of windows.
pub(super) fn moved(expression: &Expression, to: &impl Fn(usize) -> usize) -> Expression {
    let mut moved = expression.clone();
    move_node(&mut moved.node, to);
    moved
}

/// Replaces the indexes of windows in a rule.
pub(super) fn move_rule(rule: &mut Rule, to: &impl Fn(usize) -> usize) {
    move_node(&mut rule.when.node, to);
    let worse = rule.worse.iter_mut().map(|(_, condition)| condition);
    let amounts = rule.amount.iter_mut().chain(&mut rule.lasting);
    let exceptions = rule.exceptions.iter_mut().map(|exception| &mut exception.when);
    let keys = rule.select.iter_mut().chain(&mut rule.clear).chain(amounts);
    for expression in keys.chain(worse).chain(exceptions) {
        move_node(&mut expression.node, to);
    }
    let texts = rule.labels.iter_mut().chain(&mut rule.annotations);
    for template in texts.map(|(_, template)| template).chain([&mut rule.summary]) {
        move_parts(&mut template.parts, to);
    }
}

/// Replaces the indexes of windows in the parts of a template. Clauses are not nested, so the recursion is at most two
/// levels deep.
fn move_parts(parts: &mut [TemplatePart], to: &impl Fn(usize) -> usize) {
    for part in parts {
        match part {
            TemplatePart::Text(_) => {}
            TemplatePart::Value(expression, _) => move_node(&mut expression.node, to),
            TemplatePart::Clause(parts) => move_parts(parts, to),
        }
    }
}

/// Replaces the indexes of windows in a tree. The recursion is bounded because the check limits the depth of trees.
fn move_node(node: &mut Node, to: &impl Fn(usize) -> usize) {
    match node {
        Node::Window(place) => *place = to(*place),
        Node::Bool(_)
        | Node::Int(_)
        | Node::Double(_)
        | Node::Text(_)
        | Node::Texts(_)
        | Node::Field(_)
        | Node::Attribute(_)
        | Node::Firing(_) => {}
        Node::Has(one)
        | Node::Not(one)
        | Node::Negate(one)
        | Node::Size(one)
        | Node::ToDouble(one)
        | Node::ToInt(one) => move_node(one, to),
        Node::And(nodes) | Node::Or(nodes) => nodes.iter_mut().for_each(|node| move_node(node, to)),
        Node::Compare(_, two) | Node::Compute(_, two) | Node::In(two) => {
            move_node(&mut two.0, to);
            move_node(&mut two.1, to);
        }
        Node::If(three) => {
            move_node(&mut three.0, to);
            move_node(&mut three.1, to);
            move_node(&mut three.2, to);
        }
        Node::Test(one, test) => {
            move_node(one, to);
            match test {
                TextTest::Contains(other) | TextTest::StartsWith(other) | TextTest::EndsWith(other) => {
                    move_node(other, to);
                }
                TextTest::Matches(_) => {}
            }
        }
    }
}
