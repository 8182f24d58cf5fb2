//! Syntax of expressions: trees with positions, their operators, and their text in messages.

use std::fmt;

use rule_engine::expression::{Arithmetic, Comparison};

/// A part of an expression, and the byte at which it starts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tree {
    pub(super) at: usize,
    pub(super) shape: Shape,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Box<str>),
    /// `gc.pause_ms`: one name, or several names with dots between them.
    Name(Box<str>),
    List(Vec<Tree>),
    Not(Box<Tree>),
    Negate(Box<Tree>),
    /// Two or more consecutive operands.
    And(Vec<Tree>),
    /// Two or more consecutive operands.
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

/// The precedence of `||`.
pub(super) const LOOSEST: u8 = 1;

impl Operator {
    /// Returns the operator of a token and its precedence, or `None` if the token is not an operator.
    pub(super) fn from_token(word: &str) -> Option<(Self, u8)> {
        let comparison = Comparison::ALL.iter().find(|known| known.name() == word);
        let arithmetic = Arithmetic::ALL.iter().find(|known| known.name() == word);
        Some(match (word, comparison, arithmetic) {
            ("||", ..) => (Self::Or, LOOSEST),
            ("&&", ..) => (Self::And, 2),
            ("in", ..) => (Self::In, 3),
            (_, Some(comparison), _) => (Self::Compare(*comparison), 3),
            (_, _, Some(sign @ (Arithmetic::Add | Arithmetic::Subtract))) => (Self::Compute(*sign), 4),
            (_, _, Some(sign)) => (Self::Compute(*sign), 5),
            _ => return None,
        })
    }

    /// Joins two operands to one part, which starts at the first operand.
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

/// Flattens `a && b`, where `a` and `b` can be rows themselves, to one row.
fn row(first: Tree, second: Tree, parts: impl Fn(Shape) -> Result<Vec<Tree>, Shape>) -> Vec<Tree> {
    let flat = |tree: Tree| match parts(tree.shape) {
        Ok(row) => row,
        Err(shape) => vec![Tree { at: tree.at, shape }],
    };
    let mut row = flat(first);
    row.extend(flat(second));
    row
}

/// Formats the tree as CEL text, with no more brackets than needed.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Shape::Bool(truth) => write!(f, "{truth}"),
            Shape::Int(number) => write!(f, "{number}"),
            // Debug output contains the decimal point of an integral number.
            Shape::Double(number) => write!(f, "{number:?}"),
            Shape::Text(text) => write!(f, "'{}'", text.escape_debug()),
            Shape::Name(name) => f.write_str(name),
            Shape::List(list) => {
                f.write_str("[")?;
                write_list(f, list, ", ", 0)?;
                f.write_str("]")
            }
            Shape::Not(operand) => {
                f.write_str("!")?;
                operand.write(f, 7)
            }
            Shape::Negate(operand) => {
                f.write_str("-")?;
                operand.write(f, 7)
            }
            Shape::And(parts) => write_list(f, parts, " && ", 3),
            Shape::Or(parts) => write_list(f, parts, " || ", 2),
            Shape::Compare(comparison, sides) => write_sides(f, sides, comparison.name(), (3, 4)),
            Shape::In(sides) => write_sides(f, sides, "in", (3, 4)),
            Shape::Compute(arithmetic, sides) => {
                let level = self.level();
                write_sides(f, sides, arithmetic.name(), (level, level + 1))
            }
            Shape::If(parts) => {
                parts.0.write(f, 1)?;
                f.write_str(" ? ")?;
                parts.1.write(f, 1)?;
                f.write_str(" : ")?;
                parts.2.write(f, 0)
            }
            Shape::Index(sides) => {
                sides.0.write(f, 7)?;
                write!(f, "[{}]", sides.1)
            }
            Shape::Call(call) => {
                if let Some(receiver) = &call.receiver {
                    receiver.write(f, 7)?;
                    f.write_str(".")?;
                }
                write!(f, "{}(", call.name)?;
                write_list(f, &call.arguments, ", ", 0)?;
                f.write_str(")")
            }
        }
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, list: &[Tree], between: &str, level: u8) -> fmt::Result {
    for (index, tree) in list.iter().enumerate() {
        if index > 0 {
            f.write_str(between)?;
        }
        tree.write(f, level)?;
    }
    Ok(())
}

fn write_sides(f: &mut fmt::Formatter<'_>, sides: &(Tree, Tree), sign: &str, levels: (u8, u8)) -> fmt::Result {
    sides.0.write(f, levels.0)?;
    write!(f, " {sign} ")?;
    sides.1.write(f, levels.1)
}

impl Tree {
    /// Returns the precedence of the tree: 0 for a choice, 7 for a name.
    fn level(&self) -> u8 {
        match &self.shape {
            Shape::If(_) => 0,
            Shape::Or(_) => 1,
            Shape::And(_) => 2,
            Shape::Compare(..) | Shape::In(_) => 3,
            Shape::Compute(Arithmetic::Add | Arithmetic::Subtract, _) => 4,
            Shape::Compute(..) => 5,
            Shape::Not(_) | Shape::Negate(_) => 6,
            _ => 7,
        }
    }

    /// Writes the tree, in brackets if the context has a higher precedence.
    fn write(&self, f: &mut fmt::Formatter<'_>, level: u8) -> fmt::Result {
        if self.level() < level {
            write!(f, "({self})")
        } else {
            write!(f, "{self}")
        }
    }
}
