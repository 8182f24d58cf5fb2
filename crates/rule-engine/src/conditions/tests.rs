use base::time::Moment;

use super::*;
use crate::expression::{Comparison, Double, Expression};
use crate::field::{ProcessFacts, StreamFacts};

/// Returns a condition that is true if a window is above 1.
fn above(window: usize) -> Node {
    Node::Compare(
        Comparison::Greater,
        Box::new((Node::Window(window), Node::Double(Double(1.0)))),
    )
}

/// Returns a condition whose evaluation fails because a window is a number.
fn failing() -> Node {
    Node::Not(Box::new(Node::Window(0)))
}

fn rule(condition: Node) -> Arc<Rule> {
    let mut rule = Rule {
        enabled: true,
        ..Rule::default()
    };
    rule.when.node = condition;
    Arc::new(rule)
}

fn all(parts: impl Into<Box<[Node]>>) -> Node {
    Node::And(parts.into())
}

/// Scenario: rules combine false, unknown, true and failing parts in all ways, with and without brackets, and share
/// parts.
/// Guarantee: a condition evaluated from its parts has the same value as the whole tree.
#[test]
fn parts_have_the_value_of_the_whole() {
    let (process, stream) = (ProcessFacts::default(), StreamFacts::default());
    let windows = [Some(0.0), Some(2.0), None];
    let scope = Scope {
        windows: &windows,
        ..Scope::new(&process, &stream, Moment::FIRST)
    };
    let parts = || (0..3).map(above).chain([failing()]);
    let mut rules: Vec<Arc<Rule>> = parts().map(rule).collect();
    for a in parts() {
        for b in parts() {
            rules.push(rule(all([a.clone(), b.clone()])));
            for c in parts() {
                rules.push(rule(all([a.clone(), all([b.clone(), c])])));
                rules.push(rule(Node::Or([a.clone(), b.clone()].into())));
            }
        }
    }
    let conditions = Conditions::from_rules(&rules);
    let mut truths = conditions.round();
    for (place, rule) in rules.iter().enumerate() {
        let Expression { node, .. } = &rule.when;
        assert_eq!(truths.evaluate(place, &scope), node.holds(&scope), "{node:?}");
    }
}

/// Scenario: several rules share parts, and one rule is disabled.
/// Guarantee: each part exists once, the most shared part is first, and the disabled rule adds no parts.
#[test]
fn most_shared_part_comes_first() {
    let off = Rule {
        enabled: false,
        ..Rule::clone(&rule(above(7)))
    };
    let rules = [
        rule(all([above(1), above(0)])),
        rule(all([above(2), above(0)])),
        Arc::new(off),
    ];
    let conditions = Conditions::from_rules(&rules);
    assert_eq!(*conditions.parts, [above(0), above(1), above(2)]);
    assert_eq!(*conditions.of_rule, [[0, 1].into(), [0, 2].into(), [].into()]);
}
