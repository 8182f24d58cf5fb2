//! Parses texts with the crate `cel`, and converts the result to trees of this crate.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;
use std::thread;

use cel::Env;
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};

use crate::compile::Mistake;
use crate::compile::syntax::{Call, Operator, Shape, Tree};
use crate::compile::token::{Token, tokens};

/// Result of `cel` for a text.
#[derive(Debug)]
pub(super) enum Reading {
    /// An expression that rules support.
    Tree(Tree),
    /// An expression with parts that rules do not support.
    Refused(Vec<Mistake>),
    /// An invalid text: an error, or a panic.
    No,
}

/// Parses without macros, so that `has(a)` and `a.all(b, c)` remain calls.
static LANGUAGE: LazyLock<Env> = LazyLock::new(|| Env::default().with_optional_support(false));

/// Parses a text with `cel`. The text must consist of valid tokens.
pub(super) fn read(text: &str) -> Reading {
    let Ok(words) = tokens(text) else { return Reading::No };
    let parsed = on_large_stack(|| {
        let parse = AssertUnwindSafe(|| LANGUAGE.parser().parse_with_source_info(text));
        catch_unwind(parse).ok().and_then(Result::ok)
    });
    let Some((expression, positions)) = parsed else {
        return Reading::No;
    };
    let mut reader = Reader {
        text,
        words,
        positions,
        mistakes: Vec::new(),
    };
    match reader.tree(expression) {
        Some(tree) => Reading::Tree(tree),
        None => Reading::Refused(reader.mistakes),
    }
}

/// Runs `work` on a stack that is large enough for `cel`, which takes 190 KiB per level of brackets.
pub(super) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(16 << 20).spawn_scoped(scope, work);
        thread.unwrap().join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

struct Reader<'a> {
    text: &'a str,
    words: Vec<Token<'a>>,
    positions: SourceInfo,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn refuse<T>(&mut self, at: usize, message: impl Into<String>) -> Option<T> {
        self.mistakes.push(Mistake::at(self.text, at, message.into()));
        None
    }

    /// Returns the first byte of a construct whose position `cel` records: a name, a literal without its sign, an
    /// operator, the bracket of a call.
    fn at(&self, id: u64) -> usize {
        self.positions.offset_for(id).unwrap().0 as usize
    }

    fn tree(&mut self, expression: IdedExpr) -> Option<Tree> {
        let at = self.at(expression.id);
        let shape = match expression.expr {
            Expr::Literal(literal) => self.literal(at, literal)?,
            Expr::Ident(name) => Shape::Name(name.into()),
            Expr::Select(select) => {
                let operand = self.tree(*select.operand)?;
                let Shape::Name(path) = operand.shape else {
                    let message = format!("nothing has a field `{}` here: only names have dots", select.field);
                    return self.refuse(at, message);
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
            Expr::Comprehension(_) | Expr::Unspecified => panic!("{}: {:?}", self.text, expression.expr),
        };
        Some(Tree { at, shape })
    }

    /// Converts all expressions, even after one of them is refused.
    fn trees(&mut self, expressions: Vec<IdedExpr>) -> Option<Vec<Tree>> {
        let trees: Vec<Option<Tree>> = expressions
            .into_iter()
            .map(|expression| self.tree(expression))
            .collect();
        trees.into_iter().collect()
    }

    fn literal(&mut self, at: usize, literal: LiteralValue) -> Option<Shape> {
        let refusal = match literal {
            LiteralValue::Boolean(truth) => return Some(Shape::Bool(*truth.inner())),
            LiteralValue::Int(number) => return Some(Shape::Int(*number.inner())),
            LiteralValue::Double(number) => return Some(Shape::Double(*number.inner())),
            LiteralValue::String(text) => return Some(Shape::Text(text.inner().into())),
            LiteralValue::UInt(number) => format!("rules have no unsigned numbers; write `{}`", number.inner()),
            LiteralValue::Null => "there is no null; `has(gc.trigger)` tests whether a value is known".to_owned(),
            LiteralValue::Bytes(_) => "rules have no bytes; write a string: 'a'".to_owned(),
        };
        self.refuse(at, refusal)
    }

    fn call(&mut self, at: usize, call: CallExpr) -> Option<Tree> {
        if let Some(tree) = self.operator(at, &call) {
            return tree;
        }
        let receiver = call.target.map(|target| self.tree(*target));
        let arguments = self.trees(call.args);
        let name = self.words.iter().take_while(|word| word.at < at).last()?;
        let (name_at, receiver) = match receiver {
            Some(receiver) => (name.at, Some(Box::new(receiver?))),
            None => (name.at, None),
        };
        Some(Tree {
            at: receiver.as_ref().map_or(name_at, |receiver| receiver.at),
            shape: Shape::Call(Call {
                name: call.func_name.into(),
                receiver,
                arguments: arguments?,
            }),
        })
    }

    /// Converts calls that `cel` uses for operators.
    fn operator(&mut self, at: usize, call: &CallExpr) -> Option<Option<Tree>> {
        let operator = match call.func_name.as_str() {
            operators::LOGICAL_NOT | operators::NEGATE | operators::INDEX | operators::CONDITIONAL => None,
            name => {
                // `_&&_`, `@in`
                let between = name.strip_prefix('_').and_then(|name| name.strip_suffix('_'));
                let text = between.or(name.strip_prefix('@'))?;
                Some(Operator::from_token(text)?.0)
            }
        };
        let operands = self.trees(call.args.clone());
        Some(operands.map(|operands| {
            let mut operands = operands.into_iter();
            let first = operands.next().unwrap();
            let second = operands.next();
            let first_at = first.at;
            let (at, shape) = match (operator, second, operands.next()) {
                (Some(operator), Some(second), None) => return operator.join(first, second),
                (None, None, None) if call.func_name == operators::LOGICAL_NOT => (at, Shape::Not(Box::new(first))),
                (None, None, None) => (at, Shape::Negate(Box::new(first))),
                (None, Some(second), None) => (first_at, Shape::Index(Box::new((first, second)))),
                (None, Some(second), Some(third)) => (first_at, Shape::If(Box::new((first, second, third)))),
                other => panic!("{}: {other:?}", self.text),
            };
            Tree { at, shape }
        }))
    }
}
