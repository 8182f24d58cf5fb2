//! Measures of numbers: the unit and, for a field or a window, the limits.

use rule_engine::expression::{Arithmetic, Node};
use rule_engine::field::Field;
use rule_engine::rule::{Extent, Function};
use rule_engine::value::Type;

/// The measure of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    pub unit: Unit,
    /// Minimum possible value; `None` if there is no minimum.
    pub low: Option<f64>,
    /// Maximum possible value; `None` if there is no maximum.
    pub high: Option<f64>,
}

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// The unit of the other operand, for a constant.
    Any,
    /// The unit cannot be determined, for example for a product or a converted number.
    Unknown,
    /// No unit: a number, an index, a frequency.
    Count,
    /// A share of a whole, 0 to 1.
    Share,
    /// A named unit. Quotients of two values of one unit have the unit `ratio`.
    Named(&'static str),
}

impl Unit {
    /// Returns the name, such as `ms`, or `None` if the unit fits any other unit.
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

    /// Returns the text for a message: `in ms`.
    pub(crate) fn phrase(self) -> String {
        match self {
            Self::Any | Self::Unknown | Self::Count => "a number without a unit".to_owned(),
            Self::Share => "a share, 0 to 1".to_owned(),
            Self::Named("percent") => "in percent, 0 to 100".to_owned(),
            Self::Named("ratio") => "a ratio".to_owned(),
            Self::Named(name) => format!("in {name}"),
        }
    }
}

impl Default for Measure {
    /// Returns the measure of a number without known properties.
    fn default() -> Self {
        Self {
            unit: Unit::Unknown,
            low: None,
            high: None,
        }
    }
}

impl Measure {
    /// Returns the measure of a number with this unit that is not negative.
    pub(crate) fn positive(unit: Unit) -> Self {
        Self {
            unit,
            low: Some(0.0),
            high: None,
        }
    }

    /// Returns the measure of a number. `windows` are the measures of windows by index.
    pub(crate) fn for_node(node: &Node, windows: &[Self]) -> Self {
        match node {
            Node::Int(number) => Self::constant(*number as f64),
            Node::Double(number) => Self::constant(number.0),
            Node::Field(field) => Self::for_field(field),
            Node::Window(place) => windows.get(*place).copied().unwrap_or_default(),
            Node::Size(_) => Self::positive(Unit::Count),
            Node::ToDouble(node) => Self::for_node(node, windows),
            Node::ToInt(node) | Node::Negate(node) => Self::unlimited(Self::for_node(node, windows).unit),
            Node::If(parts) => {
                let (this, that) = (Self::for_node(&parts.1, windows), Self::for_node(&parts.2, windows));
                Self::unlimited(joined(this.unit, that.unit))
            }
            Node::Compute(arithmetic, sides) => {
                let (first, second) = (Self::for_node(&sides.0, windows), Self::for_node(&sides.1, windows));
                Self::unlimited(match arithmetic {
                    Arithmetic::Add | Arithmetic::Subtract => joined(first.unit, second.unit),
                    Arithmetic::Multiply => product(first, second),
                    Arithmetic::Divide => quotient(first, second),
                    Arithmetic::Remainder => Unit::Unknown,
                })
            }
            _ => Self::default(),
        }
    }

    /// Returns the measure of a window. `of` is the measure of its samples.
    pub(crate) fn for_window(function: Function, of: Option<Self>, extent: Extent) -> Self {
        let of = of.unwrap_or_default();
        let up_to = |measure: Self, high: f64| Self {
            high: Some(high),
            ..measure
        };
        let count = match extent {
            Extent::Last(most) => up_to(Self::positive(Unit::Count), f64::from(most)),
            Extent::Over(_) => Self::positive(Unit::Count),
        };
        match function {
            Function::Count | Function::Turns => count,
            Function::Ratio | Function::R2 => up_to(Self::positive(Unit::Share), 1.0),
            // A pause that started before the window can be longer than the window.
            Function::Share => Self::positive(Unit::Share),
            Function::Rate => Self::positive(Unit::Named("per second")),
            Function::Min | Function::Max | Function::Mean | Function::Median | Function::Newest => of,
            Function::Mad => Self::positive(unlimited(of.unit)),
            Function::Sum => Self {
                unit: unlimited(of.unit),
                low: of.low.filter(|low| *low >= 0.0).map(|_| 0.0),
                high: None,
            },
            Function::Change => Self::unlimited(unlimited(of.unit)),
            Function::RelativeChange => Self {
                unit: Unit::Named("ratio"),
                low: of.low.filter(|low| *low >= 0.0).map(|_| -1.0),
                high: None,
            },
            Function::Slope => Self::unlimited(per_hour(of.unit)),
            Function::RelativeSlope => Self::unlimited(Unit::Named("ratio per hour")),
        }
    }

    /// Returns the measure of a number with this unit and without limits.
    fn unlimited(unit: Unit) -> Self {
        Self {
            unit,
            ..Self::default()
        }
    }

    fn constant(number: f64) -> Self {
        Self {
            unit: Unit::Any,
            low: Some(number),
            high: Some(number),
        }
    }

    fn for_field(field: &Field) -> Self {
        let (low, high) = match field.name {
            "gc.generation" => (Some(0.0), Some(2.0)),
            "gc.memory_load_percent" => (Some(0.0), Some(100.0)),
            // Settings are reported by the process, and `since_last` is a difference of times of two stops, so no
            // limits are guaranteed.
            name if name.starts_with("settings.") || name.starts_with("gc.since_last") => (None, None),
            _ => (field.kind.is_number().then_some(0.0), None),
        };
        let unit = match (field.unit, field.kind) {
            ("ratio", _) => Unit::Share,
            ("", Type::Int | Type::Double) => Unit::Count,
            ("", _) => Unit::Unknown,
            (name, _) => Unit::Named(name),
        };
        Self { unit, low, high }
    }

    /// Returns the value of a constant, or `None` if the number is not a constant.
    fn number(self) -> Option<f64> {
        self.low.filter(|low| self.unit == Unit::Any && self.high == Some(*low))
    }
}

/// Returns the unit of a sum, or of one of two values.
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

fn product(a: Measure, b: Measure) -> Unit {
    match (a.unit, b.unit) {
        (Unit::Any, Unit::Any) => Unit::Any,
        (Unit::Any, unit) => scaled(unit, a.number()),
        (unit, Unit::Any) => scaled(unit, b.number()),
        // A multiple or a part of the other value.
        (Unit::Count | Unit::Share | Unit::Named("ratio"), unit)
        | (unit, Unit::Count | Unit::Share | Unit::Named("ratio")) => unlimited(unit),
        _ => Unit::Unknown,
    }
}

fn quotient(a: Measure, b: Measure) -> Unit {
    match (a.unit, b.unit) {
        (Unit::Any, Unit::Any) => Unit::Any,
        (unit, Unit::Any) => scaled(unit, b.number()),
        (Unit::Named(a), Unit::Named(b)) if a == b => Unit::Named("ratio"),
        (Unit::Share, Unit::Share) => Unit::Named("ratio"),
        (unit @ Unit::Named(_), Unit::Count | Unit::Share | Unit::Named("ratio")) => unit,
        _ => Unit::Unknown,
    }
}

/// Returns the unit of a multiple. A factor between two units can convert the value to another unit.
fn scaled(unit: Unit, factor: Option<f64>) -> Unit {
    let converts = factor.is_none_or(|factor| {
        let factor = factor.abs();
        let factor = if factor < 1.0 { 1.0 / factor } else { factor };
        let of_time = [60.0, 3600.0, 86_400.0];
        let of_ten = factor >= 100.0 && (factor.log10() - factor.log10().round()).abs() < 1e-9;
        let of_two = factor >= 1024.0 && (factor.log2() - factor.log2().round()).abs() < 1e-9;
        of_ten || of_two || of_time.contains(&factor)
    });
    if converts { Unit::Unknown } else { unlimited(unit) }
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

    /// Scenario: each function is applied to samples in ms that are not negative.
    /// Guarantee: the value has the unit and the limits of its function.
    #[test]
    fn window_has_unit_of_its_function() {
        let of = Measure::positive(Unit::Named("ms"));
        let say = |function: &Function| {
            let measure = Measure::for_window(*function, Some(of), Extent::Last(5));
            let end = |end: Option<f64>| end.map_or("..".to_owned(), |end| end.to_string());
            format!(
                "{} {:?} {} {}",
                function.name(),
                measure.unit,
                end(measure.low),
                end(measure.high)
            )
        };
        let said: Vec<String> = Function::ALL.iter().map(say).collect();
        assert_eq!(
            said.join("\n"),
            "\
count Count 0 5
ratio Share 0 1
rate Named(\"per second\") 0 ..
sum Named(\"ms\") 0 ..
share Share 0 ..
min Named(\"ms\") 0 ..
max Named(\"ms\") 0 ..
mean Named(\"ms\") 0 ..
median Named(\"ms\") 0 ..
mad Named(\"ms\") 0 ..
slope Named(\"ms per hour\") .. ..
relative_slope Named(\"ratio per hour\") .. ..
r2 Share 0 1
change Named(\"ms\") .. ..
relative_change Named(\"ratio\") -1 ..
newest Named(\"ms\") 0 ..
turns Count 0 5"
        );
    }
}
