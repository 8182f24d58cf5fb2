//! Compiles CEL text to a checked [`Expression`].
//!
//! ```text
//! text -> tokens, literals, bounds (token, literal) -> tree with positions (syntax, parser)
//!      -> types, names, macros, units (check) -> Expression
//! ```
//!
//! All mistakes are reported at once, each with its position. A syntax mistake hides all later mistakes, so it is the
//! only reported mistake of its text.
//!
//! Texts are parsed and trees are evaluated recursively. Therefore texts are limited ([`MAX_TEXT`], [`MAX_TOKENS`],
//! [`MAX_NESTING`], and after macro expansion [`MAX_DEPTH`] and [`MAX_NODES`]). A test verifies that a stack of 512 KiB
//! suffices for any text.

mod attribute;
mod check;
mod literal;
mod parser;
mod syntax;
mod token;
mod unit;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rule_engine::expression::Expression;
use rule_engine::field::{Field, Root};
use syntax::Tree;

pub(crate) use attribute::attribute_of_label;
pub use attribute::{Access, RESOURCE_ATTRIBUTES};
pub use unit::Unit;

/// Maximum length of a text, in bytes.
pub const MAX_TEXT: usize = 2048;
/// Maximum number of tokens in a text.
pub const MAX_TOKENS: usize = 200;
/// Maximum nesting of brackets and `?`.
pub const MAX_NESTING: usize = 32;
/// Maximum depth of a tree after macro expansion, so that a stack of the usual size suffices for the evaluation.
pub const MAX_DEPTH: usize = 128;
/// Maximum number of nodes after macro expansion. A macro that uses another macro twice doubles the number.
pub const MAX_NODES: usize = 1000;

/// The names that a text can use in addition to fields.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Macros by name.
    pub macros: &'a BTreeMap<String, Macro>,
    /// Names of the removed section `lists`.
    pub lists: &'a BTreeSet<String>,
    /// Windows by name, with their indexes in the rule set.
    pub windows: &'a BTreeMap<String, usize>,
    /// Units of the windows by index. The unit of a window beyond the end of the slice is unknown.
    pub units: &'a [Unit],
    /// Parameters by name.
    pub params: &'a BTreeMap<String, Expression>,
    /// Roots of the fields that the text can use.
    pub roots: &'a [Root],
}

/// Required type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredType {
    /// A condition.
    Bool,
    /// An int or a double.
    Number,
    /// Any type.
    Any,
}

/// A checked expression, and the names that it uses.
#[derive(Debug, Clone)]
pub struct CompiledExpression {
    pub expression: Expression,
    /// Unit of the expression; [`Unit::Unknown`] if the expression is not a number.
    pub unit: Unit,
    /// The distinct fields in the expression, in the order of their first use.
    pub fields: Vec<&'static Field>,
    /// Indexes of the distinct windows in the expression.
    pub windows: Vec<usize>,
    /// The distinct macros and parameters in the expression, including names that only macros use.
    pub used: Vec<String>,
    /// Constructs that are allowed but probably wrong.
    pub warnings: Vec<Mistake>,
}

/// A mistake in a text, and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Line, starting at 1.
    pub line: usize,
    /// Character in the line, starting at 1.
    pub column: usize,
    /// The mistake and its remedy, in one sentence without a full stop.
    pub message: String,
    /// Whether the construct was valid in an earlier version.
    pub is_removed: bool,
}

impl Mistake {
    /// Creates a mistake at a byte of a text.
    pub(crate) fn at(text: &str, at: usize, message: String) -> Self {
        let (line, column) = place(text, at);
        Self {
            line,
            column,
            message,
            is_removed: false,
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// Returns line and column of a byte, starting at 1.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(begin..).unwrap_or("").chars().count() + 1;
    (line, column)
}

/// A named expression that can be inserted into other expressions. A macro is inserted as a tree, so that the context
/// does not change the meaning of the macro.
#[derive(Debug, Clone)]
pub struct Macro {
    text: Box<str>,
    tree: Tree,
}

/// Parses a macro. Names and types are checked at each use, where the context is known.
///
/// # Errors
///
/// Returns an error if the text is not an expression.
pub fn parse_macro(text: &str) -> Result<Macro, Vec<Mistake>> {
    Ok(Macro {
        text: text.into(),
        tree: parser::parse(text)?,
    })
}

/// Parses and checks an expression.
///
/// # Errors
///
/// Returns all mistakes, sorted by position.
pub fn compile(text: &str, names: &Names<'_>, wanted: RequiredType) -> Result<CompiledExpression, Vec<Mistake>> {
    let tree = parser::parse(text)?;
    check::check(text, &tree, names, wanted, true)
}
