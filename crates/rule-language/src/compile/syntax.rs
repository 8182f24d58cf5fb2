//! What an expression is: trees with positions, and the operators that join them.

use gc_rules::expression::{Arithmetic, Comparison};

/// A part of an expression, and the byte at which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tree {
    pub(super) at: usize,
    pub(super) shape: Shape,
}

/// What a part is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Box<str>),
    /// `gc.pause_ms`: names with dots between them, or one name.
    Name(Box<str>),
    List(Vec<Tree>),
    Not(Box<Tree>),
    Negate(Box<Tree>),
    /// Two or more, as many as stand in a row.
    And(Vec<Tree>),
    /// Two or more.
    Or(Vec<Tree>),
    Compare(Comparison, Box<(Tree, Tree)>),
    Compute(Arithmetic, Box<(Tree, Tree)>),
    In(Box<(Tree, Tree)>),
    If(Box<(Tree, Tree, Tree)>),
    /// `a[b]`
    Index(Box<(Tree, Tree)>),
    /// `f(a)`, `a.f(b)`
    Call(Call),
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) name: Box<str>,
    pub(super) receiver: Option<Box<Tree>>,
    pub(super) arguments: Vec<Tree>,
}

/// An operator between two operands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operator {
    Or,
    And,
    Compare(Comparison),
    In,
    Compute(Arithmetic),
}

/// The level of `||`.
pub(super) const LOOSEST: u8 = 1;

impl Operator {
    /// That of a word, and how tightly it holds its operands together.
    pub(super) fn of(word: &str) -> Option<(Self, u8)> {
        Some(match word {
            "||" => (Self::Or, LOOSEST),
            "&&" => (Self::And, 2),
            "==" => (Self::Compare(Comparison::Equal), 3),
            "!=" => (Self::Compare(Comparison::NotEqual), 3),
            "<" => (Self::Compare(Comparison::Less), 3),
            "<=" => (Self::Compare(Comparison::LessOrEqual), 3),
            ">" => (Self::Compare(Comparison::Greater), 3),
            ">=" => (Self::Compare(Comparison::GreaterOrEqual), 3),
            "in" => (Self::In, 3),
            "+" => (Self::Compute(Arithmetic::Add), 4),
            "-" => (Self::Compute(Arithmetic::Subtract), 4),
            "*" => (Self::Compute(Arithmetic::Multiply), 5),
            "/" => (Self::Compute(Arithmetic::Divide), 5),
            "%" => (Self::Compute(Arithmetic::Remainder), 5),
            _ => return None,
        })
    }

    /// The two operands as one part, which begins where the first one does.
    pub(super) fn join(self, left: Tree, right: Tree) -> Tree {
        let at = left.at;
        let shape = match self {
            Self::Or => Shape::Or(row(left, right, |shape| match shape {
                Shape::Or(parts) => Ok(parts),
                other => Err(other),
            })),
            Self::And => Shape::And(row(left, right, |shape| match shape {
                Shape::And(parts) => Ok(parts),
                other => Err(other),
            })),
            Self::Compare(comparison) => Shape::Compare(comparison, Box::new((left, right))),
            Self::In => Shape::In(Box::new((left, right))),
            Self::Compute(arithmetic) => Shape::Compute(arithmetic, Box::new((left, right))),
        };
        Tree { at, shape }
    }
}

/// `a && b` where either may be a row itself: one row.
fn row(first: Tree, second: Tree, parts: impl Fn(Shape) -> Result<Vec<Tree>, Shape>) -> Vec<Tree> {
    let flat = |tree: Tree| match parts(tree.shape) {
        Ok(row) => row,
        Err(shape) => vec![Tree { at: tree.at, shape }],
    };
    let mut row = flat(first);
    row.extend(flat(second));
    row
}
