//! Finds conditions that can never be true or are always true.
//!
//! A comparison with constants divides the values of its subject (a field, a window, an attribute) into groups, and has
//! the same result for all values of a group. Therefore one value of each group is tried, for each subject separately,
//! while all other subjects can be true or false.
//!
//! "Always" ignores unknown values: a condition that is true for every known value only states that the value is known,
//! and `has` exists for this statement.

use std::cmp::Ordering;

use rule_engine::expression::{Comparison, Node};
use rule_engine::value::{Texts, Type, Value};

use super::measure::Measure;

/// Returns whether a condition has the same outcome for all values of one of its subjects: `Some(true)` if it is always
/// true, `Some(false)` if it is never true. Returns `None` if both outcomes are possible, or if this cannot be
/// determined. `windows` are the measures of the windows by index.
pub(crate) fn certain(condition: &Node, windows: &[Measure]) -> Option<bool> {
    let mut leaves = Vec::new();
    let any = Outcomes::evaluate(condition, &mut |leaf| {
        leaves.push(leaf);
        Outcomes::BOTH_OUTCOMES
    });
    // Leaves are visited in the same order each time, so their positions identify them.
    let mut subjects = Vec::new();
    let of_leaves: Vec<usize> = leaves
        .iter()
        .map(|leaf| {
            let known = subjects.iter().position(|known| *known == subject(leaf));
            known.unwrap_or_else(|| {
                subjects.push(subject(leaf));
                subjects.len() - 1
            })
        })
        .collect();
    let of_subject = |(place, asked): (usize, &&Node)| {
        let about = leaves.iter().zip(&of_leaves).filter(|(_, of)| **of == place);
        let about: Vec<&Node> = about.map(|(leaf, _)| *leaf).collect();
        let mut outcomes = Outcomes::NONE;
        for sample in samples(asked, &about, windows) {
            let mut of_leaves = of_leaves.iter();
            outcomes = outcomes.or(Outcomes::evaluate(
                condition,
                &mut |leaf| match of_leaves.next() == Some(&place) {
                    true => answer(leaf, sample),
                    false => Outcomes::BOTH_OUTCOMES,
                },
            ));
            if outcomes == Outcomes::BOTH_OUTCOMES {
                break;
            }
        }
        outcomes
    };
    let by_subject = subjects.iter().enumerate().map(of_subject);
    let certain = |outcomes: Outcomes| (!outcomes.yes || !outcomes.no).then_some(!outcomes.no);
    std::iter::once(any).chain(by_subject).find_map(certain)
}

/// The possible outcomes of a condition, apart from unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcomes {
    yes: bool,
    no: bool,
}

impl Outcomes {
    const NONE: Self = Self { yes: false, no: false };
    const BOTH_OUTCOMES: Self = Self { yes: true, no: true };

    fn only(truth: bool) -> Self {
        Self { yes: truth, no: !truth }
    }

    fn not(self) -> Self {
        Self {
            yes: self.no,
            no: self.yes,
        }
    }

    /// Returns the outcomes of `a && b`.
    fn and(self, other: Self) -> Self {
        Self {
            yes: self.yes && other.yes,
            no: self.no || other.no,
        }
    }

    /// Returns the union of two sets of outcomes.
    fn or(self, other: Self) -> Self {
        Self {
            yes: self.yes || other.yes,
            no: self.no || other.no,
        }
    }

    /// Returns the outcomes of a condition. `leaf` is called for its leaves from left to right.
    fn evaluate<'n>(node: &'n Node, leaf: &mut dyn FnMut(&'n Node) -> Self) -> Self {
        match node {
            Node::Bool(truth) => Self::only(*truth),
            Node::Not(inner) => Self::evaluate(inner, leaf).not(),
            Node::And(parts) => parts
                .iter()
                .fold(Self::only(true), |all, part| all.and(Self::evaluate(part, leaf))),
            Node::Or(parts) => parts
                .iter()
                .fold(Self::only(true), |none, part| {
                    none.and(Self::evaluate(part, leaf).not())
                })
                .not(),
            Node::If(parts) => {
                let [when, this, that] = [&parts.0, &parts.1, &parts.2].map(|part| Self::evaluate(part, leaf));
                Self {
                    yes: (when.yes && this.yes) || (when.no && that.yes),
                    no: (when.yes && this.no) || (when.no && that.no),
                }
            }
            other => leaf(other),
        }
    }
}

/// Returns the subject of a leaf: its operand if it is a comparison with constants, otherwise the leaf.
fn subject(leaf: &Node) -> &Node {
    match leaf {
        Node::Has(subject) => subject,
        Node::Compare(_, sides) if is_constant(&sides.1) => &sides.0,
        Node::Compare(_, sides) if is_constant(&sides.0) => &sides.1,
        Node::In(sides) if is_constant(&sides.1) => &sides.0,
        Node::Test(subject, test) if test.part().is_none_or(is_constant) => subject,
        _ => leaf,
    }
}

/// A value that represents its group.
#[derive(Debug, Clone, Copy)]
enum Sample<'n> {
    Unknown,
    Known(Value<'n>),
    /// A text that differs from all texts in the condition.
    Other,
}

/// Returns at least one value of each group. Unknown is a group only if `has` tests for it, because an unknown value
/// makes no other leaf true or false.
fn samples<'n>(subject: &'n Node, leaves: &[&'n Node], windows: &[Measure]) -> Vec<Sample<'n>> {
    let (mut unknown, mut texts, mut others) = (None, Vec::new(), Vec::new());
    for leaf in leaves {
        match leaf {
            Node::Has(_) => unknown = Some(Sample::Unknown),
            Node::Compare(_, sides) => match constant(&sides.1).or_else(|| constant(&sides.0)) {
                Some(Value::Text(text)) => texts.push(text),
                Some(number @ (Value::Int(_) | Value::Double(_))) => {
                    others.extend(around(subject, number, windows));
                }
                _ => others.extend([Value::Bool(true), Value::Bool(false)]),
            },
            Node::In(sides) => match &sides.1 {
                Node::Texts(list) => texts.extend(list.iter().map(|text| &**text)),
                _ => others.extend([Value::Bool(true), Value::Bool(false)]),
            },
            Node::Test(..) if *leaf != subject => {}
            _ => others.extend([Value::Bool(true), Value::Bool(false)]),
        }
    }
    let own = match subject {
        Node::Field(field) if field.kind == Type::Text => field.texts(),
        _ => Vec::new(),
    };
    let other = (own.is_empty() && others.is_empty()).then_some(Sample::Other);
    let texts = if own.is_empty() { texts } else { own };
    let known = texts.into_iter().map(Value::Text).chain(others).map(Sample::Known);
    known.chain(other).chain(unknown).collect()
}

/// Returns the number, its neighbours and the limits of a subject, restricted to possible values of the subject.
fn around<'n>(subject: &Node, number: Value<'n>, windows: &[Measure]) -> impl Iterator<Item = Value<'n>> + use<'n> {
    let Measure { low, high, .. } = Measure::for_node(subject, windows);
    let is_int = matches!(subject, Node::Field(field) if field.kind == Type::Int);
    let double = number.as_number().unwrap_or_default();
    let int = match number {
        Value::Int(number) => number,
        // Casts of floats saturate.
        _ => double.floor() as i64,
    };
    let ints = [-1, 0, 1].map(|step| Value::Int(int.saturating_add(step)));
    let doubles = [double.next_down(), double, double.next_up()].map(Value::Double);
    let ends = [low, high].into_iter().flatten().map(Value::Double);
    let near = ints.into_iter().chain(doubles.into_iter().filter(move |_| !is_int));
    near.chain(ends).filter(move |value| {
        let number = value.as_number().unwrap_or_default();
        low.is_none_or(|low| number >= low) && high.is_none_or(|high| number <= high)
    })
}

/// Returns the outcomes of a leaf for a value of its subject.
fn answer(leaf: &Node, sample: Sample<'_>) -> Outcomes {
    let value = match sample {
        Sample::Unknown if matches!(leaf, Node::Has(_)) => return Outcomes::only(false),
        Sample::Unknown => return Outcomes::NONE,
        Sample::Known(value) => Some(value),
        Sample::Other => None,
    };
    let truth = match (leaf, value) {
        (Node::Has(_), _) => Some(true),
        // A comparison with itself.
        (Node::Compare(comparison, sides), _) if sides.0 == sides.1 => Some(comparison.holds(Ordering::Equal)),
        (Node::Compare(comparison, sides), Some(value)) => match (constant(&sides.0), constant(&sides.1)) {
            (_, Some(constant)) => value.compare(constant).map(|order| comparison.holds(order)),
            (Some(constant), _) => constant.compare(value).map(|order| comparison.holds(order)),
            _ => None,
        },
        (Node::Compare(Comparison::Equal, _), None) => Some(false),
        (Node::Compare(Comparison::NotEqual, _), None) => Some(true),
        (Node::In(sides), Some(Value::Text(text))) => match &sides.1 {
            Node::Texts(list) => Some(list.iter().any(|one| **one == *text)),
            _ => None,
        },
        (Node::In(_), None) => Some(false),
        (Node::Test(_, test), Some(Value::Text(text))) => match test.part() {
            Some(Node::Text(part)) => Some(test.passes(text, part)),
            Some(_) => None,
            None => Some(test.passes(text, "")),
        },
        _ => None,
    };
    match (truth, value) {
        (Some(truth), _) | (None, Some(Value::Bool(truth))) => Outcomes::only(truth),
        _ => Outcomes::BOTH_OUTCOMES,
    }
}

/// Returns the reason why a comparison has only one outcome, if the limits of its subject are the reason: whether the
/// subject is the left side, and its possible values.
pub(super) fn reason(node: &Node, windows: &[Measure]) -> Option<(bool, String)> {
    let Node::Compare(_, sides) = node else { return None };
    let is_left = is_constant(&sides.1);
    let subject = if is_left { &sides.0 } else { &sides.1 };
    match Measure::for_node(subject, windows) {
        _ if is_constant(subject) || !is_left && !is_constant(&sides.0) => None,
        Measure {
            low: Some(low),
            high: Some(high),
            ..
        } => Some((is_left, format!("{low} to {high}"))),
        Measure { low: Some(low), .. } => Some((is_left, format!("at least {low}, where it is known"))),
        _ => None,
    }
}

fn constant(node: &Node) -> Option<Value<'_>> {
    Some(match node {
        Node::Bool(truth) => Value::Bool(*truth),
        Node::Int(number) => Value::Int(*number),
        Node::Double(number) => Value::Double(number.0),
        Node::Text(text) => Value::Text(text),
        Node::Texts(texts) => Value::Texts(Texts::List(texts)),
        _ => return None,
    })
}

/// Returns whether the node is a constant.
pub(super) fn is_constant(node: &Node) -> bool {
    constant(node).is_some()
}

/// Returns whether the node can be computed now. The operands have been folded before, so only the operands are
/// checked.
pub(super) fn has_constant_operands(node: &Node) -> bool {
    match node {
        Node::Not(a) | Node::Negate(a) | Node::Size(a) | Node::ToDouble(a) | Node::ToInt(a) => is_constant(a),
        Node::Compare(_, sides) | Node::Compute(_, sides) | Node::In(sides) => {
            is_constant(&sides.0) && is_constant(&sides.1)
        }
        Node::Test(a, test) => is_constant(a) && test.part().is_none_or(is_constant),
        _ => false,
    }
}
