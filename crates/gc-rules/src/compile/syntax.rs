//! The only module that knows the crate `cel`: its tree becomes ours, with positions and without what rules do not have.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};
use cel::{Env, ParseErrors};

use super::order::check_order;
use super::token::tokens;
use super::{MAX_TEXT, Mistake};
use crate::expression::{Arithmetic, Comparison};

/// A part of an expression, and the byte at which it begins.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) at: usize,
    pub(super) shape: Shape,
}

/// What a part is.
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) name: Box<str>,
    pub(super) receiver: Option<Box<Tree>>,
    pub(super) arguments: Vec<Tree>,
}

/// Parses without macros of its own: `has(a)` and `a.all(b, c)` come out as the calls that they are written as.
static LANGUAGE: LazyLock<Env> = LazyLock::new(|| Env::default().with_optional_support(false));

/// The tree of a text.
///
/// # Errors
///
/// What makes it no expression, or what CEL has and rules have not.
pub(super) fn parse(text: &str) -> Result<Tree, Vec<Mistake>> {
    if text.len() > MAX_TEXT {
        let message = format!(
            "the expression is too long: {} bytes, at most {MAX_TEXT}; move parts of it to macros",
            text.len()
        );
        return Err(vec![Mistake::at(text, 0, message)]);
    }
    let words = tokens(text).map_err(|mistake| vec![mistake])?;
    check_order(text, &words).map_err(|mistake| vec![mistake])?;
    // Foreign code on foreign text: should it panic, this text is refused and nothing else happens.
    let parsed = catch_unwind(AssertUnwindSafe(|| LANGUAGE.parser().parse_with_source_info(text)));
    let (expression, positions) = match parsed {
        Ok(Ok(parsed)) => parsed,
        Ok(Err(errors)) => return Err(vec![refusal(text, &errors)]),
        Err(_) => {
            let message = "the expression cannot be read; write it in another way".to_owned();
            return Err(vec![Mistake::at(text, 0, message)]);
        }
    };
    let mut reader = Reader {
        text,
        positions,
        mistakes: Vec::new(),
    };
    match reader.tree(expression) {
        Some(tree) if reader.mistakes.is_empty() => Ok(tree),
        _ => Err(reader.mistakes),
    }
}

/// The first error of the parser, in words. Later ones follow from it.
fn refusal(text: &str, errors: &ParseErrors) -> Mistake {
    let Some(error) = errors.errors.first() else {
        return Mistake::at(text, 0, "the expression cannot be read".to_owned());
    };
    let (line, column) = error.pos;
    let line = usize::try_from(line).unwrap_or(1).max(1);
    let column = usize::try_from(column).unwrap_or(1).max(1);
    let rest: String = text
        .lines()
        .nth(line - 1)
        .unwrap_or("")
        .chars()
        .skip(column - 1)
        .collect();
    let word = tokens(&rest).ok().and_then(|words| words.first().map(|word| word.text));
    let word = word.unwrap_or("");
    let message = if error.msg.starts_with("invalid int literal") {
        format!("`{word}` does not fit into 64 bits")
    } else if error.msg.starts_with("invalid double literal") {
        format!("`{word}` is too large for a double")
    } else if error.msg.starts_with("invalid string literal") {
        "a backslash in this text means nothing; write two, or r'...'".to_owned()
    } else if error.msg.starts_with("reserved identifier") {
        format!("`{word}` is a reserved word of CEL and no name")
    } else if word.is_empty() {
        "the expression ends too early".to_owned()
    } else {
        format!("unexpected `{word}` here; round brackets may help")
    };
    Mistake { line, column, message }
}

struct Reader<'a> {
    text: &'a str,
    positions: SourceInfo,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn refuse<T>(&mut self, at: usize, message: impl Into<String>) -> Option<T> {
        self.mistakes.push(Mistake::at(self.text, at, message.into()));
        None
    }

    /// The first byte of what the parser keeps a place of: a name, a literal, an operator, the bracket of a call.
    fn at(&self, id: u64) -> usize {
        let offset = self.positions.offset_for(id).map_or(0, |(start, _)| start);
        usize::try_from(offset).unwrap_or(0)
    }

    fn tree(&mut self, expression: IdedExpr) -> Option<Tree> {
        let at = self.at(expression.id);
        let shape = match expression.expr {
            Expr::Literal(literal) => self.literal(at, literal)?,
            Expr::Ident(name) => Shape::Name(name.into()),
            Expr::Select(select) => {
                let operand = self.tree(*select.operand)?;
                let Shape::Name(path) = operand.shape else {
                    return self.refuse(
                        at,
                        format!("nothing has a field `{}` here: only names have dots", select.field),
                    );
                };
                return Some(Tree {
                    at: operand.at,
                    shape: Shape::Name(format!("{path}.{}", select.field).into()),
                });
            }
            Expr::List(list) => Shape::List(self.trees(list.elements)?),
            Expr::Call(call) => return self.call(at, call),
            Expr::Map(_) => return self.refuse(at, "rules have no maps"),
            Expr::Struct(_) => return self.refuse(at, "rules have no messages"),
            Expr::Comprehension(_) | Expr::Unspecified => return self.refuse(at, "the expression cannot be read"),
        };
        Some(Tree { at, shape })
    }

    /// All of them, also after one that is refused: every mistake is told.
    fn trees(&mut self, expressions: Vec<IdedExpr>) -> Option<Vec<Tree>> {
        let trees: Vec<Option<Tree>> = expressions
            .into_iter()
            .map(|expression| self.tree(expression))
            .collect();
        trees.into_iter().collect()
    }

    fn literal(&mut self, at: usize, literal: LiteralValue) -> Option<Shape> {
        Some(match literal {
            LiteralValue::Boolean(truth) => Shape::Bool(*truth.inner()),
            LiteralValue::Int(number) => Shape::Int(*number.inner()),
            LiteralValue::Double(number) => Shape::Double(*number.inner()),
            LiteralValue::String(text) => Shape::Text(text.inner().into()),
            LiteralValue::UInt(number) => {
                return self.refuse(
                    at,
                    format!("rules have no unsigned numbers; write `{}`", number.inner()),
                );
            }
            LiteralValue::Null => {
                return self.refuse(at, "there is no null; `has(gc.trigger)` says whether a value is known");
            }
            LiteralValue::Bytes(_) => return self.refuse(at, "rules have no bytes; write a text: 'a'"),
        })
    }

    fn call(&mut self, at: usize, call: CallExpr) -> Option<Tree> {
        let name = call.func_name;
        let Some(operator) = Operator::of(&name) else {
            let receiver = match call.target {
                Some(target) => Some(Box::new(self.tree(*target)?)),
                None => None,
            };
            let arguments = self.trees(call.args)?;
            // The parser keeps the place of the bracket; the name stands before it.
            let before = self.text.get(..at).unwrap_or("").trim_end().len();
            let at = receiver
                .as_ref()
                .map_or(before.saturating_sub(name.len()), |receiver| receiver.at);
            return Some(Tree {
                at,
                shape: Shape::Call(Call {
                    name: name.into(),
                    receiver,
                    arguments,
                }),
            });
        };
        let mut operands = self.trees(call.args)?.into_iter();
        let (first, second, third) = (operands.next()?, operands.next(), operands.next());
        // A sign stands before its operand; all others after their first.
        let at = if second.is_none() { at } else { first.at };
        let shape = match (operator, second, third) {
            (Operator::Not, None, _) => Shape::Not(Box::new(first)),
            (Operator::Negate, None, _) => Shape::Negate(Box::new(first)),
            (Operator::And, Some(second), _) => Shape::And(row(first, second, |shape| match shape {
                Shape::And(parts) => Ok(parts),
                other => Err(other),
            })),
            (Operator::Or, Some(second), _) => Shape::Or(row(first, second, |shape| match shape {
                Shape::Or(parts) => Ok(parts),
                other => Err(other),
            })),
            (Operator::Compare(comparison), Some(second), _) => Shape::Compare(comparison, Box::new((first, second))),
            (Operator::Compute(arithmetic), Some(second), _) => Shape::Compute(arithmetic, Box::new((first, second))),
            (Operator::In, Some(second), _) => Shape::In(Box::new((first, second))),
            (Operator::Index, Some(second), _) => Shape::Index(Box::new((first, second))),
            (Operator::If, Some(second), Some(third)) => Shape::If(Box::new((first, second, third))),
            _ => return self.refuse(at, "the expression cannot be read"),
        };
        Some(Tree { at, shape })
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

/// What the parser writes as a call and is an operator.
#[derive(Debug, Clone, Copy)]
enum Operator {
    Not,
    Negate,
    And,
    Or,
    Compare(Comparison),
    Compute(Arithmetic),
    In,
    If,
    Index,
}

impl Operator {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            operators::LOGICAL_NOT => Self::Not,
            operators::NEGATE => Self::Negate,
            operators::LOGICAL_AND => Self::And,
            operators::LOGICAL_OR => Self::Or,
            operators::EQUALS => Self::Compare(Comparison::Equal),
            operators::NOT_EQUALS => Self::Compare(Comparison::NotEqual),
            operators::LESS => Self::Compare(Comparison::Less),
            operators::LESS_EQUALS => Self::Compare(Comparison::LessOrEqual),
            operators::GREATER => Self::Compare(Comparison::Greater),
            operators::GREATER_EQUALS => Self::Compare(Comparison::GreaterOrEqual),
            operators::ADD => Self::Compute(Arithmetic::Add),
            operators::SUBSTRACT => Self::Compute(Arithmetic::Subtract),
            operators::MULTIPLY => Self::Compute(Arithmetic::Multiply),
            operators::DIVIDE => Self::Compute(Arithmetic::Divide),
            operators::MODULO => Self::Compute(Arithmetic::Remainder),
            operators::IN => Self::In,
            operators::CONDITIONAL => Self::If,
            operators::INDEX => Self::Index,
            _ => return None,
        })
    }
}
