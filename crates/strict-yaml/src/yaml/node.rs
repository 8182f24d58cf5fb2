//! The tree of values with their positions.

use std::fmt;

/// A position in a document. Line and column are counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// Position of the first character.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A fault and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {message}")]
pub struct Fault {
    /// Position of the fault.
    pub at: Position,
    /// Description of the fault, and a remedy.
    pub message: String,
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Start of the value; for a block (`|`), start of its content.
    pub at: Position,
    /// Kind and content of the value.
    pub kind: Kind,
}

/// The kinds of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A string, a number, a boolean or null. The schema determines the type.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values, in document order.
    Mapping(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    /// Start of the key.
    pub at: Position,
    pub value: Node,
}

/// A scalar as written in the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// Content of the scalar, without quotes and escapes.
    pub text: String,
    /// Whether the scalar is neither quoted nor a block, so that it can have another type than string.
    pub plain: bool,
}

impl Scalar {
    /// Returns whether the scalar is null, which is also the value of a key without a value.
    pub fn is_null(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// Returns the boolean, in the spellings of the core schema, or `None` if the scalar is not a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self.text.as_str() {
            "true" | "True" | "TRUE" if self.plain => Some(true),
            "false" | "False" | "FALSE" if self.plain => Some(false),
            _ => None,
        }
    }

    /// Returns the integer (decimal, `0x` or `0o`), or `None` if the scalar is not an integer.
    pub fn as_integer(&self) -> Option<i128> {
        if !self.plain {
            return None;
        }
        let (text, radix) = match (self.text.strip_prefix("0x"), self.text.strip_prefix("0o")) {
            (Some(digits), _) => (digits, 16),
            (_, Some(digits)) => (digits, 8),
            _ => (self.text.as_str(), 10),
        };
        // The standard library would accept a sign after the prefix.
        if radix != 10 && text.starts_with(['+', '-']) {
            return None;
        }
        i128::from_str_radix(text, radix).ok()
    }

    /// Returns the number, or `None` if the scalar is not a number. Infinity and NaN are not numbers.
    pub fn as_number(&self) -> Option<f64> {
        if let Some(integer) = self.as_integer() {
            // Integers that a double cannot represent exactly are out of every range, so exactness does not matter.
            #[allow(clippy::cast_precision_loss, reason = "see above")]
            return Some(integer as f64);
        }
        let digits = self.plain && self.text.bytes().any(|byte| byte.is_ascii_digit());
        let form = self
            .text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        (digits && form)
            .then(|| self.text.parse().ok())
            .flatten()
            .filter(|number: &f64| number.is_finite())
    }
}

impl Node {
    /// Creates a string that does not come from a file, at `at`.
    pub fn text(at: Position, text: impl Into<String>) -> Self {
        Self::scalar(at, text.into(), false)
    }

    /// Creates a plain scalar that does not come from a file, at `at`.
    pub fn plain(at: Position, text: impl Into<String>) -> Self {
        Self::scalar(at, text.into(), true)
    }

    pub(super) fn scalar(at: Position, text: String, plain: bool) -> Self {
        Self {
            at,
            kind: Kind::Scalar(Scalar { text, plain }),
        }
    }

    /// Returns whether the value is null, which is also the value of a key without a value.
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar(scalar) if scalar.is_null())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Scalar {
        Scalar {
            text: text.to_owned(),
            plain: true,
        }
    }

    /// Scenario: plain scalars belong to the core schema of YAML 1.2, or only to YAML 1.1.
    /// Guarantee: scalars of the core schema have their type, and the other scalars are strings.
    #[test]
    fn plain_scalar_follows_core_schema() {
        assert_eq!(plain("0x1F").as_integer(), Some(31));
        assert_eq!(plain("0o17").as_integer(), Some(15));
        assert_eq!(plain("-12").as_integer(), Some(-12));
        assert_eq!(plain("1e3").as_number(), Some(1000.0));
        assert_eq!(plain(".5").as_number(), Some(0.5));
        assert_eq!(plain("True").as_bool(), Some(true));
        for text in ["0x-1", "1_000", "0b1", "1:30", "", "+", "0x"] {
            assert_eq!(plain(text).as_integer(), None, "{text}");
        }
        for text in [".inf", "nan", "1e999", "e", "-", "1.2.3"] {
            assert_eq!(plain(text).as_number(), None, "{text}");
        }
        for text in ["yes", "on", "y", "tRue"] {
            assert_eq!(plain(text).as_bool(), None, "{text}");
        }
        let quoted = Scalar {
            text: "1".to_owned(),
            plain: false,
        };
        assert!(quoted.as_integer().is_none() && quoted.as_number().is_none() && !quoted.is_null());
    }
}
