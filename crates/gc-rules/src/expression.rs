//! Expressions after the check: trees whose types fit, evaluated without allocation.
//!
//! The language is CEL, a part of it (see the reference page). Types are checked before anything runs, an unknown value
//! is a third value and no error, and a rule costs nanoseconds. For known values the result is that of CEL; property
//! tests compare it with the crate `cel`.
//!
//! Two expressions are equal when they are written the same, apart from space, brackets and macros.

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

/// Why an expression could not be evaluated although all of its values are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// `/` or `%` by zero, of integers.
    #[error("division by zero")]
    DivisionByZero,
    /// An integer beyond 64 bits.
    #[error("a number is too large for 64 bits")]
    Overflow,
    /// The tree is not what the check lets through: a defect of gcwatch.
    #[error("types do not fit")]
    Type,
}

words! {
    /// How two values are compared.
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
    /// How two numbers are combined. Both have one type; texts know `+` not.
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

/// What is asked of a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TextTest {
    /// `a.contains(b)`
    Contains(Box<Node>),
    /// `a.startsWith(b)`
    StartsWith(Box<Node>),
    /// `a.endsWith(b)`
    EndsWith(Box<Node>),
    /// `a.matches('...')`, compiled when the file was read.
    Matches(Box<Pattern>),
}

/// A compiled pattern; equal to another one that is written the same.
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

/// A constant double; equal to another one when all bits are, so `0.0` is not `-0.0`.
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
    /// `service.firing['time.stopped']`: the number of the service's processes on which that rule fires.
    Firing(Box<str>),
    /// A window of the rule: its place in the rule set. A double.
    Window(usize),
    /// `has(gc.trigger)`: the value is known. Never unknown.
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
    /// `a in b`: a text in texts.
    In(Box<(Node, Node)>),
    /// `a.contains(b)` and its like.
    Test(Box<Node>, TextTest),
    /// `size(a)`: characters of a text, how many texts.
    Size(Box<Node>),
    /// `double(a)`
    ToDouble(Box<Node>),
    /// `int(a)`: towards zero.
    ToInt(Box<Node>),
}

/// The field that says over how much of a window a value is; never what a text is about.
const WATCHED: &str = "process.watched_s";

/// Known, unknown, or failed.
pub type Outcome<'a> = Result<Option<Value<'a>>, EvaluationError>;

/// The same of a condition.
pub(crate) type Truth = Result<Option<bool>, EvaluationError>;

impl Default for Expression {
    /// `false`
    fn default() -> Self {
        Self::constant(false)
    }
}

impl Expression {
    /// `true` or `false`.
    pub const fn constant(truth: bool) -> Self {
        Self {
            kind: Type::Bool,
            node: Node::Bool(truth),
        }
    }

    /// Evaluates it.
    ///
    /// # Errors
    ///
    /// Where arithmetic fails.
    pub fn evaluate<'a>(&'a self, scope: &Scope<'a>) -> Outcome<'a> {
        self.node.evaluate(scope)
    }

    /// Evaluates a condition: `None` is unknown.
    ///
    /// # Errors
    ///
    /// Where arithmetic fails.
    pub fn holds(&self, scope: &Scope<'_>) -> Result<Option<bool>, EvaluationError> {
        self.node.holds(scope)
    }

    /// Its value, if it is a finite number and known.
    pub fn number(&self, scope: &Scope<'_>) -> Option<f64> {
        match self.evaluate(scope) {
            Ok(Some(Value::Int(number))) => Some(number as f64),
            Ok(Some(Value::Double(number))) => Some(number).filter(|number| number.is_finite()),
            _ => None,
        }
    }

    /// Whether it is one window and nothing else.
    pub(crate) fn is_window(&self) -> bool {
        matches!(self.node, Node::Window(_))
    }

    /// Whether its value comes from a window, or from a field but for how long the process was watched.
    pub(crate) fn is_measured(&self) -> bool {
        self.node.any(&|node| match node {
            Node::Window(_) => true,
            Node::Field(field) => field.name != WATCHED,
            _ => false,
        })
    }
}

impl Node {
    /// Whether it, or a node below it, is as asked.
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

    /// Evaluates the tree below it.
    ///
    /// # Errors
    ///
    /// Where arithmetic fails. As in CEL, `&&` and `||` pass over an error that does not decide.
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

    /// The same for a condition, apart from values: most of what is evaluated is conditions, and most of those are
    /// decided by their first comparison.
    ///
    /// # Errors
    ///
    /// As for [`Self::evaluate`].
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

    /// The same; what is no tree without a call.
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

/// CEL refuses what lies on or beyond the ends of 64 bits.
fn to_int(number: f64) -> Result<i64, EvaluationError> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if number > -BEYOND && number < BEYOND {
        #[expect(clippy::cast_possible_truncation, reason = "within i64")]
        return Ok(number as i64);
    }
    Err(EvaluationError::Overflow)
}

fn whole(count: usize) -> Value<'static> {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// `&&` (decided by a false one) and `||` (decided by a true one): what decides goes before failure, failure before
/// unknown.
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
    /// Whether two values in this order compare so.
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
                // 0.0 / 0.0 says nothing: it is not known.
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

    /// The text that it looks for; `None`: it looks for a pattern.
    pub fn part(&self) -> Option<&Node> {
        match self {
            Self::Contains(part) | Self::StartsWith(part) | Self::EndsWith(part) => Some(part),
            Self::Matches(_) => None,
        }
    }

    /// Its outcome for a text, where it looks for this part.
    pub fn passes(&self, whole: &str, part: &str) -> bool {
        match self {
            Self::Contains(_) => whole.contains(part),
            Self::StartsWith(_) => whole.starts_with(part),
            Self::EndsWith(_) => whole.ends_with(part),
            Self::Matches(pattern) => pattern.0.is_match(whole),
        }
    }
}
