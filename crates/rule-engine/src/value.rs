//! Values of expressions.

use std::cmp::Ordering;

use base::words;
use clr_gc::event::CondemnReasons1;
use clr_gc::gc::MissingParts;

words! {
    /// The type of a field or an expression. The names of the types are the names in CEL.
    pub enum Type {
        /// A boolean.
        Bool = "bool",
        /// A signed 64-bit integer.
        Int = "int",
        /// A floating-point number.
        Double = "double",
        /// A string.
        Text = "string",
        /// Several strings.
        Texts = "list(string)",
    }
}

impl Type {
    /// Returns whether the type is a number.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Double)
    }
}

/// A known value. Unknown values are `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number; never NaN.
    Double(f64),
    Text(&'a str),
    /// Several strings.
    Texts(Texts<'a>),
}

/// Several strings, from a fixed set or from a list in the rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Texts<'a> {
    /// Reasons why a generation was condemned.
    Condemned(CondemnReasons1),
    /// Missing parts of a collection.
    Missing(MissingParts),
    /// A list in a rule.
    List(&'a [Box<str>]),
}

impl<'a> Texts<'a> {
    pub fn for_each(self, mut each: impl FnMut(&'a str)) {
        match self {
            Self::Condemned(reasons) => {
                for name in reasons.names() {
                    each(name);
                }
            }
            Self::Missing(missing) => {
                for part in missing.iter() {
                    each(part.name());
                }
            }
            Self::List(list) => list.iter().for_each(|text| each(text)),
        }
    }

    /// Returns whether `text` is one of the strings.
    pub fn contains(self, text: &str) -> bool {
        match self {
            Self::Condemned(reasons) => reasons.names().any(|name| name == text),
            Self::Missing(missing) => missing.iter().any(|part| part.name() == text),
            Self::List(list) => list.iter().any(|one| **one == *text),
        }
    }

    /// Returns the number of strings.
    pub fn count(self) -> usize {
        let mut count = 0;
        self.for_each(|_| count += 1);
        count
    }
}

impl<'a> Value<'a> {
    pub fn kind(self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Double(_) => Type::Double,
            Self::Text(_) => Type::Text,
            Self::Texts(_) => Type::Texts,
        }
    }

    /// Returns the number, or `None` for another type.
    pub fn as_number(self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(number as f64),
            Self::Double(number) => Some(number),
            _ => None,
        }
    }

    /// Compares two values like CEL: numbers of both types by value, strings by code points. Returns `None` if the
    /// values are not comparable.
    pub fn compare(self, other: Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Value::Bool(b)) => Some(a.cmp(&b)),
            (Self::Int(a), Value::Int(b)) => Some(a.cmp(&b)),
            (Self::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            (Self::Double(a), Value::Double(b)) => a.partial_cmp(&b),
            (Self::Int(a), Value::Double(b)) => compare_mixed(a, b),
            (Self::Double(a), Value::Int(b)) => compare_mixed(b, a).map(Ordering::reverse),
            _ => None,
        }
    }
}

/// Compares an integer with a double, without rounding the integer.
fn compare_mixed(int: i64, double: f64) -> Option<Ordering> {
    // 2^63: the first double beyond every i64.
    const I64_LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if double.is_nan() {
        return None;
    }
    if double >= I64_LIMIT {
        return Some(Ordering::Less);
    }
    if double < -I64_LIMIT {
        return Some(Ordering::Greater);
    }
    let truncated = double.trunc();
    #[expect(clippy::cast_possible_truncation, reason = "within i64, and without a fraction")]
    let order = int.cmp(&(truncated as i64));
    Some(order.then_with(|| 0.0_f64.partial_cmp(&(double - truncated)).unwrap_or(Ordering::Equal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: integers are compared with doubles, including integers that no double represents.
    /// Guarantee: numbers compare by value, without rounding.
    #[test]
    fn numbers_compare_by_value() {
        let compare = |a, b| Value::Int(a).compare(Value::Double(b));
        assert_eq!(compare(2, 2.0), Some(Ordering::Equal));
        assert_eq!(compare(2, 2.5), Some(Ordering::Less));
        assert_eq!(compare(-2, -2.5), Some(Ordering::Greater));
        assert_eq!(compare(i64::MAX, 9_223_372_036_854_775_808.0), Some(Ordering::Less));
        assert_eq!(
            compare(9_007_199_254_740_993, 9_007_199_254_740_992.0),
            Some(Ordering::Greater)
        );
        assert_eq!(compare(0, f64::NAN), None);
        assert_eq!(Value::Double(2.5).compare(Value::Int(2)), Some(Ordering::Greater));
        assert_eq!(Value::Text("a").compare(Value::Int(1)), None);
    }
}
