//! Expressions after the check: trees whose types fit, evaluated without allocation.
//!
//! The language is CEL, a part of it (see the reference page). Types are checked before anything runs, an unknown value
//! is a third value and no error, and a rule costs nanoseconds. For known values the result is that of CEL; property
//! tests compare it with the crate `cel`.
//!
//! Two expressions are equal when they are written the same, apart from space, brackets and macros.

mod evaluate;

use std::hash::{Hash, Hasher};

use regex::Regex;

use super::field::{Field, Scope};
use super::value::{Type, Value};

/// A checked expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expression {
    /// Its type.
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

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// As it is written.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// How two numbers are combined. Both have one type; texts know `+` not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`, integers only.
    Remainder,
}

impl Arithmetic {
    /// As it is written.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
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
                Self::Compare(_, sides) => any(&sides.0) || any(&sides.1),
                Self::Compute(_, sides) => any(&sides.0) || any(&sides.1),
                Self::In(sides) => any(&sides.0) || any(&sides.1),
                Self::If(parts) => any(&parts.0) || any(&parts.1) || any(&parts.2),
                Self::Test(node, test) => {
                    any(node)
                        || match test {
                            TextTest::Contains(part) | TextTest::StartsWith(part) | TextTest::EndsWith(part) => {
                                any(part)
                            }
                            TextTest::Matches(_) => false,
                        }
                }
            }
    }
}
