//! What is asked of one value, and whether any value is all of that.

use super::lint::{Asked, is_constant};
use super::name::words;
use super::range::{Between, Range, Whole};
use crate::expression::{Comparison, Node, TextTest};
use crate::value::{Type, Value};

/// Whether several parts, each asked to be true or false, cannot be so at once. False also where it cannot be told.
pub(super) fn is_contradiction(asked: &[Asked<'_>]) -> bool {
    let demands: Vec<Demand<'_>> = asked.iter().map(|(node, truth)| Demand::of(node, *truth)).collect();
    demands.iter().enumerate().any(|(index, demand)| {
        // Each subject once: at its first demand.
        let seen = demands.iter().take(index).any(|other| other.is_about(demand));
        let one: Vec<&Demand<'_>> = demands.iter().filter(|other| other.is_about(demand)).collect();
        (!seen && is_empty(&one)) || demand.is_of_unknown(asked)
    })
}

/// What is asked of a value.
#[derive(Debug, Clone, Copy)]
struct Demand<'n> {
    subject: &'n Node,
    /// The other side, where two values are compared with each other.
    other: Option<&'n Node>,
    what: What<'n>,
}

#[derive(Debug, Clone, Copy)]
enum What<'n> {
    /// To be true or false.
    Truth(bool),
    /// To compare so with a constant.
    Order(Comparison, Value<'n>),
    /// Less, equal, greater than the other side: which may be.
    Sides([bool; 3]),
    /// To be one of these texts, or (`false`) none of them.
    Among(&'n [Box<str>], bool),
    /// To pass a test, or (`false`) not.
    Test(&'n TextTest, bool),
}

impl<'n> Demand<'n> {
    fn of(node: &'n Node, truth: bool) -> Self {
        let about = |subject, what| Self {
            subject,
            other: None,
            what,
        };
        match node {
            Node::Compare(comparison, sides) => {
                let comparison = if truth { *comparison } else { comparison.negated() };
                match (constant(&sides.0), constant(&sides.1)) {
                    (_, Some(value)) => about(&sides.0, order(comparison, value)),
                    (Some(value), None) => about(&sides.1, order(comparison.mirrored(), value)),
                    (None, None) => Self {
                        subject: &sides.0,
                        other: Some(&sides.1),
                        what: What::Sides(comparison.may_be()),
                    },
                }
            }
            Node::In(sides) => match &sides.1 {
                Node::Texts(texts) => about(&sides.0, What::Among(texts, truth)),
                _ => about(node, What::Truth(truth)),
            },
            Node::Test(subject, test) => match test {
                TextTest::Contains(part) | TextTest::StartsWith(part) | TextTest::EndsWith(part)
                    if !is_constant(part) =>
                {
                    about(node, What::Truth(truth))
                }
                _ => about(subject, What::Test(test, truth)),
            },
            _ => about(node, What::Truth(truth)),
        }
    }

    /// Both are about the same value, or the same two.
    fn is_about(&self, other: &Self) -> bool {
        match (self.other, other.other) {
            (None, None) => is_same(self.subject, other.subject),
            (Some(a), Some(b)) => {
                (is_same(self.subject, other.subject) && is_same(a, b))
                    || (is_same(self.subject, b) && is_same(a, other.subject))
            }
            _ => false,
        }
    }

    /// It asks that a value be unknown which another part needs: `!has(a) && a > 1`.
    fn is_of_unknown(&self, asked: &[Asked<'_>]) -> bool {
        match (self.subject, self.what) {
            (Node::Has(unknown), What::Truth(false)) => asked.iter().any(|(node, _)| needs(node, unknown)),
            _ => false,
        }
    }
}

fn order(comparison: Comparison, value: Value<'_>) -> What<'_> {
    match (comparison, value) {
        (Comparison::Equal, Value::Bool(truth)) => What::Truth(truth),
        (Comparison::NotEqual, Value::Bool(truth)) => What::Truth(!truth),
        _ => What::Order(comparison, value),
    }
}

fn constant(node: &Node) -> Option<Value<'_>> {
    Some(match node {
        Node::Bool(truth) => Value::Bool(*truth),
        Node::Int(number) => Value::Int(*number),
        Node::Double(number) => Value::Double(*number),
        Node::Text(text) => Value::Text(text),
        _ => return None,
    })
}

/// Whether a node is unknown whenever `what` is.
fn needs(node: &Node, what: &Node) -> bool {
    if is_same(node, what) {
        return true;
    }
    match node {
        Node::Not(a) | Node::Negate(a) | Node::Size(a) | Node::ToDouble(a) | Node::ToInt(a) => needs(a, what),
        Node::Compare(_, sides) | Node::Compute(_, sides) => needs(&sides.0, what) || needs(&sides.1, what),
        Node::In(sides) => needs(&sides.0, what) || needs(&sides.1, what),
        Node::Test(a, _) => needs(a, what),
        Node::If(parts) => needs(&parts.0, what),
        _ => false,
    }
}

/// Whether two nodes are one value. False also where it is not looked into.
fn is_same(a: &Node, b: &Node) -> bool {
    match (a, b) {
        (Node::Field(a), Node::Field(b)) => a == b,
        (Node::Attribute(a), Node::Attribute(b)) => a == b,
        (Node::Window(a), Node::Window(b)) => a == b,
        (Node::Bool(a), Node::Bool(b)) => a == b,
        (Node::Int(a), Node::Int(b)) => a == b,
        (Node::Double(a), Node::Double(b)) => a == b,
        (Node::Text(a), Node::Text(b)) => a == b,
        (Node::Has(a), Node::Has(b))
        | (Node::Not(a), Node::Not(b))
        | (Node::Negate(a), Node::Negate(b))
        | (Node::Size(a), Node::Size(b))
        | (Node::ToDouble(a), Node::ToDouble(b))
        | (Node::ToInt(a), Node::ToInt(b)) => is_same(a, b),
        (Node::Compute(sign, a), Node::Compute(other, b)) => {
            sign == other && is_same(&a.0, &b.0) && is_same(&a.1, &b.1)
        }
        (Node::Compare(sign, a), Node::Compare(other, b)) => {
            sign == other && is_same(&a.0, &b.0) && is_same(&a.1, &b.1)
        }
        (Node::In(a), Node::In(b)) => is_same(&a.0, &b.0) && is_same(&a.1, &b.1),
        _ => false,
    }
}

/// Whether no value is all of what is asked of one.
fn is_empty(demands: &[&Demand<'_>]) -> bool {
    let Some(first) = demands.first() else { return false };
    if let Some(other) = first.other {
        return is_empty_of_sides(first, other, demands);
    }
    let asks = |truth| {
        demands
            .iter()
            .any(|demand| matches!(demand.what, What::Truth(asked) if asked == truth))
    };
    if asks(true) && asks(false) {
        return true;
    }
    let is_text = demands.iter().any(|demand| {
        matches!(
            demand.what,
            What::Among(..) | What::Test(..) | What::Order(_, Value::Text(_))
        )
    });
    if is_text {
        is_empty_of_texts(first.subject, demands)
    } else {
        is_empty_of_numbers(first.subject, demands)
    }
}

/// Two values that are compared with each other: less, equal, greater, in the order of the first demand.
fn is_empty_of_sides(first: &Demand<'_>, other: &Node, demands: &[&Demand<'_>]) -> bool {
    let mut may_be = if is_same(first.subject, other) {
        [false, true, false]
    } else {
        [true; 3]
    };
    for demand in demands {
        if let What::Sides([less, equal, greater]) = demand.what {
            let turned = !is_same(demand.subject, first.subject);
            let asked = if turned {
                [greater, equal, less]
            } else {
                [less, equal, greater]
            };
            for (may, asked) in may_be.iter_mut().zip(asked) {
                *may &= asked;
            }
        }
    }
    may_be == [false; 3]
}

/// Texts are tried one by one, where there are finitely many: those of the field, or those that something asks it to be.
fn is_empty_of_texts(subject: &Node, demands: &[&Demand<'_>]) -> bool {
    let own = match subject {
        Node::Field(field) => words(field),
        _ => Vec::new(),
    };
    let named = demands.iter().find_map(|demand| match demand.what {
        What::Order(Comparison::Equal, Value::Text(text)) => Some(vec![text]),
        What::Among(texts, true) => Some(texts.iter().map(|text| &**text).collect()),
        _ => None,
    });
    let candidates: Vec<&str> = match named {
        Some(named) => named,
        None if own.is_empty() => return false,
        None => own.clone(),
    };
    let is_own = |text: &str| own.is_empty() || own.contains(&text);
    !candidates
        .into_iter()
        .any(|text| is_own(text) && demands.iter().all(|demand| demand.what.lets(text)))
}

impl What<'_> {
    /// Whether a text is what is asked. True where it cannot be told.
    fn lets(self, text: &str) -> bool {
        match self {
            Self::Order(comparison, value) => Value::Text(text)
                .compare(value)
                .is_none_or(|order| comparison.holds(order)),
            Self::Among(texts, truth) => texts.iter().any(|one| **one == *text) == truth,
            Self::Test(test, truth) => test.passes(text).is_none_or(|passes| passes == truth),
            Self::Truth(_) | Self::Sides(_) => true,
        }
    }
}

impl TextTest {
    /// Its outcome for a text; `None` where its other side is no constant.
    fn passes(&self, text: &str) -> Option<bool> {
        let part = |node: &Node| match node {
            Node::Text(part) => Some(part.to_string()),
            _ => None,
        };
        Some(match self {
            Self::Contains(node) => text.contains(&part(node)?),
            Self::StartsWith(node) => text.starts_with(&part(node)?),
            Self::EndsWith(node) => text.ends_with(&part(node)?),
            Self::Matches(pattern) => pattern.is_match(text),
        })
    }
}

/// Whole numbers lie apart; other numbers between any two.
fn is_empty_of_numbers(subject: &Node, demands: &[&Demand<'_>]) -> bool {
    let range = Range::of(subject);
    let orders = demands.iter().filter_map(|demand| match demand.what {
        What::Order(comparison, value) => Some((comparison, value)),
        _ => None,
    });
    if kind(subject) == Some(Type::Int) {
        let mut whole = Whole::new(range);
        orders.for_each(|(comparison, value)| whole.narrow(comparison, value));
        whole.is_empty()
    } else {
        let mut between = Between::new(range);
        orders.for_each(|(comparison, value)| between.narrow(comparison, value));
        between.is_empty()
    }
}

/// The type of a number.
fn kind(node: &Node) -> Option<Type> {
    match node {
        Node::Field(field) => Some(field.kind),
        Node::Int(_) | Node::Size(_) | Node::ToInt(_) => Some(Type::Int),
        Node::Compute(_, sides) => kind(&sides.0),
        Node::Negate(inner) => kind(inner),
        Node::If(parts) => kind(&parts.1),
        _ => None,
    }
}

impl Comparison {
    /// What holds when it does not.
    fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }

    /// The same with the sides changed.
    fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }

    /// Which orders it lets: less, equal, greater.
    fn may_be(self) -> [bool; 3] {
        match self {
            Self::Equal => [false, true, false],
            Self::NotEqual => [true, false, true],
            Self::Less => [true, false, false],
            Self::LessOrEqual => [true, true, false],
            Self::Greater => [false, false, true],
            Self::GreaterOrEqual => [false, true, true],
        }
    }
}
