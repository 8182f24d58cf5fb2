//! Between which numbers a value is.

use crate::expression::{Arithmetic, Comparison, Node};
use crate::value::Value;

/// Between which numbers a value is, ends included; `None`: no end is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
}

impl Range {
    const ANY: Self = Self { low: None, high: None };
    const FROM_ZERO: Self = Self {
        low: Some(0.0),
        high: None,
    };

    /// Of what a number can be, where it is known.
    pub(super) fn of(node: &Node) -> Self {
        match node {
            Node::Field(field) => match field.name {
                "gc.generation" => Self {
                    low: Some(0.0),
                    high: Some(2.0),
                },
                "gc.memory_load_percent" => Self {
                    low: Some(0.0),
                    high: Some(100.0),
                },
                // From the process's own words, and differences of times of two stops: who knows.
                name if name.starts_with("settings.") || name.starts_with("gc.since_last") => Self::ANY,
                _ if field.kind.is_number() => Self::FROM_ZERO,
                _ => Self::ANY,
            },
            Node::Size(_) => Self::FROM_ZERO,
            Node::ToDouble(inner) => Self::of(inner),
            Node::Compute(Arithmetic::Add | Arithmetic::Multiply, sides) => {
                // Sums and products of what is not negative are not either. More is not looked into.
                let from_zero = |node| Self::of(node).low.is_some_and(|low| low >= 0.0);
                if from_zero(&sides.0) && from_zero(&sides.1) {
                    Self::FROM_ZERO
                } else {
                    Self::ANY
                }
            }
            Node::Int(number) => Self::exactly(*number as f64),
            Node::Double(number) => Self::exactly(*number),
            _ => Self::ANY,
        }
    }

    fn exactly(number: f64) -> Self {
        Self {
            low: Some(number),
            high: Some(number),
        }
    }
}

/// Whole numbers from one to another, without some.
#[derive(Debug)]
pub(super) struct Whole {
    low: i128,
    high: i128,
    without: Vec<i128>,
}

impl Whole {
    pub(super) fn new(range: Range) -> Self {
        // Casts of floats stop at the ends.
        Self {
            low: range.low.map_or(i128::from(i64::MIN), |low| low.ceil() as i128),
            high: range.high.map_or(i128::from(i64::MAX), |high| high.floor() as i128),
            without: Vec::new(),
        }
    }

    pub(super) fn narrow(&mut self, comparison: Comparison, value: Value<'_>) {
        // The largest whole number not above, the smallest not below.
        let (floor, ceil) = match value {
            Value::Int(number) => (i128::from(number), i128::from(number)),
            Value::Double(number) if !number.is_nan() => (number.floor() as i128, number.ceil() as i128),
            _ => return,
        };
        match comparison {
            Comparison::Less => self.high = self.high.min(ceil.saturating_sub(1)),
            Comparison::LessOrEqual => self.high = self.high.min(floor),
            Comparison::Greater => self.low = self.low.max(floor.saturating_add(1)),
            Comparison::GreaterOrEqual => self.low = self.low.max(ceil),
            Comparison::Equal => {
                self.low = self.low.max(ceil);
                self.high = self.high.min(floor);
            }
            Comparison::NotEqual if floor == ceil && !self.without.contains(&floor) => self.without.push(floor),
            Comparison::NotEqual => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let within = self
            .without
            .iter()
            .filter(|number| (self.low..=self.high).contains(*number))
            .count();
        let left = self.high.saturating_sub(self.low).saturating_add(1);
        left <= i128::try_from(within).unwrap_or(i128::MAX)
    }
}

/// Numbers between two others, without some.
#[derive(Debug)]
pub(super) struct Between {
    low: f64,
    /// The end itself is left out.
    above: bool,
    high: f64,
    below: bool,
    without: Vec<f64>,
}

impl Between {
    pub(super) fn new(range: Range) -> Self {
        Self {
            low: range.low.unwrap_or(f64::NEG_INFINITY),
            above: false,
            high: range.high.unwrap_or(f64::INFINITY),
            below: false,
            without: Vec::new(),
        }
    }

    pub(super) fn narrow(&mut self, comparison: Comparison, value: Value<'_>) {
        /// Beyond it not every whole number is a double.
        const EXACT: u64 = 1 << 53;
        let number = match value {
            Value::Int(number) if number.unsigned_abs() <= EXACT => number as f64,
            Value::Double(number) if !number.is_nan() => number,
            _ => return,
        };
        match comparison {
            Comparison::Less => self.end(number, true),
            Comparison::LessOrEqual => self.end(number, false),
            Comparison::Greater => self.begin(number, true),
            Comparison::GreaterOrEqual => self.begin(number, false),
            Comparison::Equal => {
                self.begin(number, false);
                self.end(number, false);
            }
            Comparison::NotEqual => self.without.push(number),
        }
    }

    fn begin(&mut self, number: f64, above: bool) {
        if number > self.low {
            (self.low, self.above) = (number, above);
        } else if number == self.low {
            self.above |= above;
        }
    }

    fn end(&mut self, number: f64, below: bool) {
        if number < self.high {
            (self.high, self.below) = (number, below);
        } else if number == self.high {
            self.below |= below;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let point = self.low == self.high;
        self.low > self.high || (point && (self.above || self.below || self.without.contains(&self.low)))
    }
}
