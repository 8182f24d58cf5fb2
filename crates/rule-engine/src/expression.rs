//! Checked expressions: typed trees that are evaluated without allocation.
//!
//! The language is a subset of CEL (see the reference page). Types are checked before evaluation, an unknown value is a
//! third value and not an error, and a rule costs nanoseconds. For known values, the result equals that of CEL;
//! property tests compare it with the crate `cel`.
//!
//! Two expressions are equal if their texts are equal apart from whitespace, brackets and macros.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use base::words;
use regex::Regex;

use super::field::{Field, Scope};
use super::value::{Texts, Type, Value};

/// A checked expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expression {
    pub kind: Type,
    /// The tree.
    pub node: Node,
}

/// Error returned if an expression with known values cannot be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// Integer `/` or `%` by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// An integer does not fit in 64 bits.
    #[error("a number is too large for 64 bits")]
    Overflow,
    /// The check should have rejected the tree: a defect in gcwatch.
    #[error("types do not fit")]
    Type,
}

words! {
    /// A comparison of two values.
    pub enum Comparison {
        /// `==`
        Equal = "==",
        /// `!=`
        NotEqual = "!=",
        /// `<`
        Less = "<",
        /// `<=`
        LessOrEqual = "<=",
        /// `>`
        Greater = ">",
        /// `>=`
        GreaterOrEqual = ">=",
    }
}

words! {
    /// An operation on two numbers of the same type. `+` does not apply to texts.
    pub enum Arithmetic {
        /// `+`
        Add = "+",
        /// `-`
        Subtract = "-",
        /// `*`
        Multiply = "*",
        /// `/`
        Divide = "/",
        /// `%`, integers only.
        Remainder = "%",
    }
}

/// A test of a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TextTest {
    /// `a.contains(b)`
    Contains(Box<Node>),
    /// `a.startsWith(b)`
    StartsWith(Box<Node>),
    /// `a.endsWith(b)`
    EndsWith(Box<Node>),
    /// `a.matches('...')`. The pattern is compiled when the file is read.
    Matches(Box<Pattern>),
}

/// A compiled pattern. Patterns are equal if their texts are equal.
#[derive(Debug, Clone)]
pub struct Pattern(pub Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

/// A constant double. Doubles are equal if all bits are equal, so `0.0` differs from `-0.0`.
#[derive(Debug, Clone, Copy)]
pub struct Double(pub f64);

impl PartialEq for Double {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Double {}

impl Hash for Double {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// A node of an expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Node {
    /// `true`
    Bool(bool),
    /// `5`
    Int(i64),
    /// `0.5`
    Double(Double),
    /// `'Induced'`
    Text(Box<str>),
    /// `['a', 'b']`
    Texts(Box<[Box<str>]>),
    /// `gc.pause_ms`
    Field(&'static Field),
    /// `process.attributes['k8s.namespace.name']`: an attribute of the resource, as text.
    Attribute(Box<str>),
    /// `service.firing['time.stopped']`: the number of processes of the service on which a rule fires.
    Firing(Box<str>),
    /// A window of the rule, by its index in the rule set. The value of a window is a double.
    Window(usize),
    /// `has(gc.trigger)`: whether the value is known. Never unknown itself.
    Has(Box<Node>),
    /// `!a`
    Not(Box<Node>),
    /// `-a`
    Negate(Box<Node>),
    /// `a && b && ...`
    And(Box<[Node]>),
    /// `a || b || ...`
    Or(Box<[Node]>),
    /// `a < b`
    Compare(Comparison, Box<(Node, Node)>),
    /// `a + b`
    Compute(Arithmetic, Box<(Node, Node)>),
    /// `a ? b : c`
    If(Box<(Node, Node, Node)>),
    /// `a in b`: whether a text is in a list of texts.
    In(Box<(Node, Node)>),
    /// `a.contains(b)` and similar tests.
    Test(Box<Node>, TextTest),
    /// `size(a)`: number of characters of a text, or number of texts.
    Size(Box<Node>),
    /// `double(a)`
    ToDouble(Box<Node>),
    /// `int(a)`: rounds towards zero.
    ToInt(Box<Node>),
}

/// The field with the duration of observation. This duration is never the subject of a text.
const WATCHED: &str = "process.watched_s";

/// A known value, unknown (`None`), or an error.
pub type Outcome<'a> = Result<Option<Value<'a>>, EvaluationError>;

/// Result of a condition: a known value, unknown (`None`), or an error.
pub(crate) type Truth = Result<Option<bool>, EvaluationError>;

impl Default for Expression {
    /// `false`
    fn default() -> Self {
        Self::constant(false)
    }
}

impl Expression {
    /// Creates the expression `true` or `false`.
    pub const fn constant(truth: bool) -> Self {
        Self {
            kind: Type::Bool,
            node: Node::Bool(truth),
        }
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    ///
    /// Returns an error if arithmetic fails.
    pub fn evaluate<'a>(&'a self, scope: &Scope<'a>) -> Outcome<'a> {
        self.node.evaluate(scope)
    }

    /// Evaluates a condition. Returns `None` if the value of the condition is unknown.
    ///
    /// # Errors
    ///
    /// Returns an error if arithmetic fails.
    pub fn holds(&self, scope: &Scope<'_>) -> Result<Option<bool>, EvaluationError> {
        self.node.holds(scope)
    }

    /// Returns the value, or `None` if it is unknown, is not a finite number, or cannot be computed.
    pub fn number(&self, scope: &Scope<'_>) -> Option<f64> {
        match self.evaluate(scope) {
            Ok(Some(Value::Int(number))) => Some(number as f64),
            Ok(Some(Value::Double(number))) => Some(number).filter(|number| number.is_finite()),
            _ => None,
        }
    }

    /// Returns whether the expression is a single window.
    pub(crate) fn is_window(&self) -> bool {
        matches!(self.node, Node::Window(_))
    }

    /// Returns whether the value depends on a window, or on a field other than the duration of observation.
    pub(crate) fn is_measured(&self) -> bool {
        self.node.any(&|node| match node {
            Node::Window(_) => true,
            Node::Field(field) => field.name != WATCHED,
            _ => false,
        })
    }
}

impl Node {
    /// Returns whether the predicate is true for this node or a node below it.
    pub fn any(&self, is: &dyn Fn(&Self) -> bool) -> bool {
        let any = |node: &Self| node.any(is);
        is(self)
            || match self {
                Self::Bool(_) | Self::Int(_) | Self::Double(_) | Self::Text(_) | Self::Texts(_) => false,
                Self::Field(_) | Self::Attribute(_) | Self::Firing(_) | Self::Window(_) => false,
                Self::Has(node)
                | Self::Not(node)
                | Self::Negate(node)
                | Self::Size(node)
                | Self::ToDouble(node)
                | Self::ToInt(node) => any(node),
                Self::And(nodes) | Self::Or(nodes) => nodes.iter().any(any),
                Self::Compare(_, sides) | Self::Compute(_, sides) | Self::In(sides) => any(&sides.0) || any(&sides.1),
                Self::If(parts) => any(&parts.0) || any(&parts.1) || any(&parts.2),
                Self::Test(node, test) => any(node) || test.part().is_some_and(any),
            }
    }

    /// Evaluates the tree below the node.
    ///
    /// # Errors
    ///
    /// Returns an error if arithmetic fails. As in CEL, `&&` and `||` ignore an error that does not affect the result.
    pub fn evaluate<'a>(&'a self, scope: &Scope<'a>) -> Outcome<'a> {
        let known = |value| Ok(Some(value));
        match self {
            Self::Int(number) => known(Value::Int(*number)),
            Self::Double(number) => known(Value::Double(number.0)),
            Self::Text(text) => known(Value::Text(text)),
            Self::Texts(list) => known(Value::Texts(Texts::List(list))),
            Self::Field(field) => Ok(field.read(scope)),
            Self::Attribute(name) => Ok(scope
                .process
                .attribute(name)
                .and_then(|value| value.as_text())
                .map(Value::Text)),
            Self::Firing(rule) => Ok(scope.firing(rule).map(Value::Int)),
            Self::Window(place) => Ok(scope.window(*place).map(Value::Double)),
            Self::Bool(_)
            | Self::Has(_)
            | Self::Not(_)
            | Self::And(_)
            | Self::Or(_)
            | Self::Compare(..)
            | Self::In(_)
            | Self::Test(..) => Ok(self.holds(scope)?.map(Value::Bool)),
            Self::Negate(node) => match node.evaluate(scope)? {
                None => Ok(None),
                Some(Value::Int(number)) => known(Value::Int(number.checked_neg().ok_or(EvaluationError::Overflow)?)),
                Some(Value::Double(number)) => known(Value::Double(-number)),
                Some(_) => Err(EvaluationError::Type),
            },
            Self::Compute(arithmetic, sides) => {
                let (Some(a), Some(b)) = (sides.0.operand(scope)?, sides.1.operand(scope)?) else {
                    return Ok(None);
                };
                arithmetic.compute(a, b)
            }
            Self::If(parts) => match parts.0.holds(scope)? {
                Some(true) => parts.1.evaluate(scope),
                Some(false) => parts.2.evaluate(scope),
                None => Ok(None),
            },
            Self::Size(node) => match node.evaluate(scope)? {
                None => Ok(None),
                Some(Value::Text(text)) => known(whole(text.chars().count())),
                Some(Value::Texts(texts)) => known(whole(texts.count())),
                Some(_) => Err(EvaluationError::Type),
            },
            Self::ToDouble(node) => match node.evaluate(scope)? {
                None => Ok(None),
                Some(value) => value
                    .as_number()
                    .map_or(Err(EvaluationError::Type), |number| known(Value::Double(number))),
            },
            Self::ToInt(node) => match node.evaluate(scope)? {
                None => Ok(None),
                Some(Value::Int(number)) => known(Value::Int(number)),
                Some(Value::Double(number)) => to_int(number).map(|number| Some(Value::Int(number))),
                Some(_) => Err(EvaluationError::Type),
            },
        }
    }

    /// Evaluates a condition. This path is separate from the evaluation of values because most evaluated expressions
    /// are conditions, and most conditions are decided by their first comparison.
    ///
    /// # Errors
    ///
    /// See [`Self::evaluate`].
    pub(crate) fn holds(&self, scope: &Scope<'_>) -> Truth {
        match self {
            Self::Bool(truth) => Ok(Some(*truth)),
            Self::And(nodes) => decide(nodes.iter().map(|node| node.holds(scope)), false),
            Self::Or(nodes) => decide(nodes.iter().map(|node| node.holds(scope)), true),
            Self::Not(node) => Ok(node.holds(scope)?.map(|truth| !truth)),
            Self::Has(node) => Ok(Some(node.operand(scope)?.is_some())),
            Self::Compare(comparison, sides) => {
                let (Some(a), Some(b)) = (sides.0.operand(scope)?, sides.1.operand(scope)?) else {
                    return Ok(None);
                };
                Ok(Some(comparison.holds(a.compare(b).ok_or(EvaluationError::Type)?)))
            }
            Self::In(sides) => match (sides.0.operand(scope)?, sides.1.operand(scope)?) {
                (Some(Value::Text(text)), Some(Value::Texts(texts))) => Ok(Some(texts.contains(text))),
                (None, _) | (_, None) => Ok(None),
                _ => Err(EvaluationError::Type),
            },
            Self::Test(node, test) => test.evaluate(node, scope),
            other => truth(other.evaluate(scope)?),
        }
    }

    /// Evaluates an operand. Nodes without children are evaluated without a call.
    #[inline]
    fn operand<'a>(&'a self, scope: &Scope<'a>) -> Outcome<'a> {
        match self {
            Self::Int(number) => Ok(Some(Value::Int(*number))),
            Self::Double(number) => Ok(Some(Value::Double(number.0))),
            Self::Text(text) => Ok(Some(Value::Text(text))),
            Self::Field(field) => Ok(field.read(scope)),
            Self::Window(place) => Ok(scope.window(*place).map(Value::Double)),
            tree => tree.evaluate(scope),
        }
    }
}

fn truth(value: Option<Value<'_>>) -> Truth {
    match value {
        None => Ok(None),
        Some(Value::Bool(truth)) => Ok(Some(truth)),
        Some(_) => Err(EvaluationError::Type),
    }
}

/// Rounds a number towards zero. Like CEL, this function rejects values at or beyond the limits of 64 bits.
fn to_int(number: f64) -> Result<i64, EvaluationError> {
    const I64_LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if number > -I64_LIMIT && number < I64_LIMIT {
        #[expect(clippy::cast_possible_truncation, reason = "within i64")]
        return Ok(number as i64);
    }
    Err(EvaluationError::Overflow)
}

fn whole(count: usize) -> Value<'static> {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Combines `&&` (decided by a false part) or `||` (decided by a true part). A deciding part takes precedence over a
/// failure, and a failure over unknown.
#[inline]
pub(crate) fn decide(truths: impl Iterator<Item = Truth>, decisive: bool) -> Truth {
    let mut unknown = false;
    let mut failed = None;
    for truth in truths {
        match truth {
            Ok(Some(truth)) if truth == decisive => return Ok(Some(decisive)),
            Ok(Some(_)) => {}
            Ok(None) => unknown = true,
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) => Err(error),
        None if unknown => Ok(None),
        None => Ok(Some(!decisive)),
    }
}

impl Comparison {
    /// Returns whether the comparison is true for two values in this order.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Arithmetic {
    fn compute<'a>(self, a: Value<'a>, b: Value<'a>) -> Outcome<'a> {
        match (a, b) {
            (Value::Int(a), Value::Int(b)) => {
                let by_zero = b == 0 && matches!(self, Self::Divide | Self::Remainder);
                let number = match self {
                    Self::Add => a.checked_add(b),
                    Self::Subtract => a.checked_sub(b),
                    Self::Multiply => a.checked_mul(b),
                    Self::Divide => a.checked_div(b),
                    Self::Remainder => a.checked_rem(b),
                };
                match number {
                    Some(number) => Ok(Some(Value::Int(number))),
                    None if by_zero => Err(EvaluationError::DivisionByZero),
                    None => Err(EvaluationError::Overflow),
                }
            }
            (Value::Double(a), Value::Double(b)) => {
                let number = match self {
                    Self::Add => a + b,
                    Self::Subtract => a - b,
                    Self::Multiply => a * b,
                    Self::Divide => a / b,
                    Self::Remainder => return Err(EvaluationError::Type),
                };
                // NaN, such as the result of 0.0 / 0.0, has no meaning, so the result is unknown.
                Ok((!number.is_nan()).then_some(Value::Double(number)))
            }
            _ => Err(EvaluationError::Type),
        }
    }
}

impl TextTest {
    fn evaluate<'a>(&'a self, node: &'a Node, scope: &Scope<'a>) -> Truth {
        let text = |node: &'a Node| match node.evaluate(scope)? {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(EvaluationError::Type),
        };
        let Some(whole) = text(node)? else { return Ok(None) };
        Ok(match self.part() {
            Some(part) => text(part)?.map(|part| self.passes(whole, part)),
            None => Some(self.passes(whole, "")),
        })
    }

    /// Returns the text that the test searches for, or `None` if it uses a pattern.
    pub fn part(&self) -> Option<&Node> {
        match self {
            Self::Contains(part) | Self::StartsWith(part) | Self::EndsWith(part) => Some(part),
            Self::Matches(_) => None,
        }
    }

    /// Returns the result of the test for a text. `part` is the text to search for. A test with a pattern ignores
    /// `part`.
    pub fn passes(&self, whole: &str, part: &str) -> bool {
        match self {
            Self::Contains(_) => whole.contains(part),
            Self::StartsWith(_) => whole.starts_with(part),
            Self::EndsWith(_) => whole.ends_with(part),
            Self::Matches(pattern) => pattern.0.is_match(whole),
        }
    }
}
