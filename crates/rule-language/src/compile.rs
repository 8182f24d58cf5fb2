//! From CEL text to a checked [`Expression`].
//!
//! ```text
//! text -> words, literals, bounds (token, literal) -> tree with positions (syntax, parser)
//!      -> types, names, macros (check) -> can it be true, can it be false (lint) -> Expression
//! ```
//!
//! All mistakes are reported at once, each where it is. A syntax mistake hides those after it: there is one.
//!
//! Texts are parsed and trees are walked recursively. So texts are bounded ([`MAX_TEXT`], [`MAX_TOKENS`],
//! [`MAX_NESTING`], after macros [`MAX_DEPTH`] and [`MAX_NODES`]); a test holds that a stack of 512 KiB is enough for
//! any text.

mod attribute;
mod check;
mod lint;
mod literal;
mod measure;
mod parser;
mod syntax;
mod token;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use gc_rules::expression::Expression;
use gc_rules::field::{Field, Root};
use syntax::Tree;

pub(crate) use attribute::attribute_of_label;
pub use attribute::{Access, RESOURCE_ATTRIBUTES};
pub(crate) use lint::certain;
pub use measure::{Measure, Unit};

/// Longest text, bytes.
pub const MAX_TEXT: usize = 2048;
/// Most words and signs in a text.
pub const MAX_TOKENS: usize = 200;
/// Most brackets and `?` in each other.
pub const MAX_NESTING: usize = 32;
/// Deepest tree after macros are put in: what evaluates it has a stack of the usual size.
pub const MAX_DEPTH: usize = 128;
/// Most nodes after macros are put in: macros of macros double.
pub const MAX_NODES: usize = 1000;

/// What a text may name besides fields.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Macros by name.
    pub macros: &'a BTreeMap<String, Macro>,
    /// Lists of texts by name.
    pub lists: &'a BTreeMap<String, Vec<Box<str>>>,
    /// Windows by name: their places in the rule set.
    pub windows: &'a BTreeMap<String, usize>,
    /// What they measure, by place; of those beyond, nothing is known.
    pub measures: &'a [Measure],
    /// Parameters by name.
    pub params: &'a BTreeMap<String, Expression>,
    /// What fields may belong to here.
    pub roots: &'a [Root],
}

/// What an expression has to yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A condition.
    Bool,
    /// A number, of either type.
    Number,
    /// Anything.
    Any,
}

/// A checked expression, and what it uses.
#[derive(Debug, Clone)]
pub struct Compiled {
    pub expression: Expression,
    /// What it measures, where it is a number.
    pub measure: Measure,
    /// The fields in it, each once, in the order of their first use.
    pub fields: Vec<&'static Field>,
    /// The windows in it, each once: their places.
    pub windows: Vec<usize>,
    /// The macros and lists in it, also those in macros, each once.
    pub used: Vec<String>,
    /// What is allowed and looks wrong.
    pub warnings: Vec<Mistake>,
}

/// What is wrong, and where in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong and what to do; one sentence without an end.
    pub message: String,
}

impl Mistake {
    /// A mistake at a byte of a text.
    pub(crate) fn at(text: &str, at: usize, message: String) -> Self {
        let (line, column) = place(text, at);
        Self { line, column, message }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// Line and column, from 1, of a byte.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(begin..).unwrap_or("").chars().count() + 1;
    (line, column)
}

/// An expression with a name, to be put into others: as a tree, so that what stands around it does not change its
/// meaning.
#[derive(Debug, Clone)]
pub struct Macro {
    text: Box<str>,
    tree: Tree,
}

/// Reads a macro. Names and types are checked where it is used: there it is known what it stands beside.
///
/// # Errors
///
/// What makes the text no expression.
pub fn parse_macro(text: &str) -> Result<Macro, Vec<Mistake>> {
    Ok(Macro {
        text: text.into(),
        tree: parser::parse(text)?,
    })
}

/// Reads and checks an expression.
///
/// # Errors
///
/// Every mistake in it, by place.
pub fn compile(text: &str, names: &Names<'_>, wanted: Wanted) -> Result<Compiled, Vec<Mistake>> {
    let tree = parser::parse(text)?;
    check::check(text, &tree, names, wanted, true)
}
