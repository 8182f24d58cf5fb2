//! Units of numbers.

use rule_engine::expression::{Arithmetic, Node};
use rule_engine::field::Field;
use rule_engine::rule::Function;
use rule_engine::value::Type;

/// The unit of a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unit {
    /// The number is a constant, which takes the unit of the other operand.
    Any,
    /// The unit cannot be determined, for example for a product or a converted number.
    #[default]
    Unknown,
    /// The number has no unit, such as a count or an index.
    Count,
    /// A share of a whole, 0 to 1.
    Share,
    /// A named unit. Quotients of two values of one unit have the unit `ratio`.
    Named(&'static str),
}

impl Unit {
    /// Returns the name, such as `ms`, which is empty for [`Self::Count`]; or `None` if the unit fits every other unit.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Any | Self::Unknown => None,
            Self::Count => Some(""),
            Self::Share => Some("ratio"),
            Self::Named(name) => Some(name),
        }
    }

    /// Returns whether values of the two units can be compared and added.
    pub(super) fn fits(self, other: Self) -> bool {
        match (self.name(), other.name()) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
    }

    /// Returns a phrase for a message, such as `in ms`.
    pub(crate) fn phrase(self) -> String {
        match self {
            Self::Any | Self::Unknown | Self::Count => "a number without a unit".to_owned(),
            Self::Share => "a share, 0 to 1".to_owned(),
            Self::Named("percent") => "in percent, 0 to 100".to_owned(),
            Self::Named("ratio") => "a ratio".to_owned(),
            Self::Named(name) => format!("in {name}"),
        }
    }

    /// Returns the unit of a number. `windows` are the units of windows by index.
    pub(crate) fn for_node(node: &Node, windows: &[Self]) -> Self {
        match node {
            Node::Int(_) | Node::Double(_) => Self::Any,
            Node::Field(field) => Self::for_field(field),
            Node::Window(place) => windows.get(*place).copied().unwrap_or_default(),
            Node::Size(_) => Self::Count,
            Node::ToDouble(node) | Node::ToInt(node) | Node::Negate(node) => Self::for_node(node, windows),
            Node::If(parts) => joined(Self::for_node(&parts.1, windows), Self::for_node(&parts.2, windows)),
            Node::Compute(arithmetic, sides) => {
                let [first, second] = [&sides.0, &sides.1].map(|side| Self::for_node(side, windows));
                match arithmetic {
                    Arithmetic::Add | Arithmetic::Subtract => joined(first, second),
                    Arithmetic::Multiply => product((first, &sides.0), (second, &sides.1)),
                    Arithmetic::Divide => quotient(first, (second, &sides.1)),
                    Arithmetic::Remainder => Self::Unknown,
                }
            }
            _ => Self::Unknown,
        }
    }

    /// Returns the unit of a window. `of` is the unit of its samples.
    pub(crate) fn for_window(function: Function, of: Option<Self>) -> Self {
        let of = of.unwrap_or_default();
        match function {
            Function::Count | Function::Turns => Self::Count,
            Function::Ratio | Function::R2 | Function::Share => Self::Share,
            Function::Rate => Self::Named("per second"),
            Function::Min | Function::Max | Function::Mean | Function::Median | Function::Newest => of,
            Function::Sum | Function::Change => unlimited(of),
            Function::Slope => per_hour(of),
        }
    }

    fn for_field(field: &Field) -> Self {
        match (field.unit, field.kind) {
            ("ratio", _) => Self::Share,
            ("", Type::Int | Type::Double) => Self::Count,
            ("", _) => Self::Unknown,
            (name, _) => Self::Named(name),
        }
    }
}

/// Returns the unit of a sum, a difference, or a choice between two values.
fn joined(a: Unit, b: Unit) -> Unit {
    match (a, b) {
        (Unit::Any, unit) | (unit, Unit::Any) => unlimited(unit),
        _ if a == b => unlimited(a),
        _ => Unit::Unknown,
    }
}

/// Returns the unit of a value that can exceed 1: a sum, a difference or a multiple of shares.
fn unlimited(unit: Unit) -> Unit {
    match unit {
        Unit::Share => Unit::Named("ratio"),
        unit => unit,
    }
}

fn product(a: (Unit, &Node), b: (Unit, &Node)) -> Unit {
    match (a.0, b.0) {
        (Unit::Any, Unit::Any) => Unit::Any,
        (Unit::Any, unit) => scaled(unit, a.1),
        (unit, Unit::Any) => scaled(unit, b.1),
        // The product is a multiple or a part of the other value.
        (Unit::Count | Unit::Share | Unit::Named("ratio"), unit)
        | (unit, Unit::Count | Unit::Share | Unit::Named("ratio")) => unlimited(unit),
        _ => Unit::Unknown,
    }
}

fn quotient(a: Unit, b: (Unit, &Node)) -> Unit {
    match (a, b.0) {
        (Unit::Any, Unit::Any) => Unit::Any,
        (unit, Unit::Any) => scaled(unit, b.1),
        (Unit::Named(a), Unit::Named(b)) if a == b => Unit::Named("ratio"),
        (Unit::Share, Unit::Share) => Unit::Named("ratio"),
        (unit @ Unit::Named(_), Unit::Count | Unit::Share | Unit::Named("ratio")) => unit,
        _ => Unit::Unknown,
    }
}

/// Returns the unit of a value that is multiplied or divided by `factor`. The result is unknown if the factor can
/// convert a unit, such as 1000, 1024 or 3600.
fn scaled(unit: Unit, factor: &Node) -> Unit {
    let factor = match factor {
        Node::Int(number) => *number as f64,
        Node::Double(number) => number.0,
        _ => return Unit::Unknown,
    };
    let factor = factor.abs();
    let factor = if factor < 1.0 { 1.0 / factor } else { factor };
    let of_time = [60.0, 3600.0, 86_400.0];
    let of_ten = factor >= 100.0 && (factor.log10() - factor.log10().round()).abs() < 1e-9;
    let of_two = factor >= 1024.0 && (factor.log2() - factor.log2().round()).abs() < 1e-9;
    if of_ten || of_two || of_time.contains(&factor) {
        Unit::Unknown
    } else {
        unlimited(unit)
    }
}

fn per_hour(unit: Unit) -> Unit {
    match unit {
        Unit::Named("bytes") => Unit::Named("bytes per hour"),
        Unit::Named("ms") => Unit::Named("ms per hour"),
        Unit::Named("ns") => Unit::Named("ns per hour"),
        Unit::Count => Unit::Named("a number per hour"),
        _ => Unit::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: each function is applied to samples in ms.
    /// Guarantee: each window has its expected unit: no unit, a share, `per second`, the unit of the samples, or this
    /// unit per hour.
    #[test]
    fn window_has_unit_of_its_function() {
        let say = |function: &Function| {
            let unit = Unit::for_window(*function, Some(Unit::Named("ms")));
            format!("{} {unit:?}", function.name())
        };
        let said: Vec<String> = Function::ALL.iter().map(say).collect();
        assert_eq!(
            said.join("\n"),
            "\
count Count
ratio Share
rate Named(\"per second\")
sum Named(\"ms\")
share Share
min Named(\"ms\")
max Named(\"ms\")
mean Named(\"ms\")
median Named(\"ms\")
slope Named(\"ms per hour\")
r2 Share
change Named(\"ms\")
newest Named(\"ms\")
turns Count"
        );
    }
}
