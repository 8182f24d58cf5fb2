//! What windows measure.

use gc_rules::rule::{Extent, Function};

use crate::compile::{Measure, Unit};

/// That of a window; `of`: that of its samples.
pub(super) fn of_window(function: Function, of: Option<Measure>, extent: Extent) -> Measure {
    let of = of.unwrap_or_default();
    let up_to = |measure: Measure, high: f64| Measure {
        high: Some(high),
        ..measure
    };
    let count = match extent {
        Extent::Last(most) => up_to(Measure::positive(Unit::Count), f64::from(most)),
        Extent::Over(_) => Measure::positive(Unit::Count),
    };
    match function {
        Function::Count | Function::Turns => count,
        Function::Ratio | Function::R2 => up_to(Measure::positive(Unit::Share), 1.0),
        // A pause that began before the window can be longer than it.
        Function::Share => Measure::positive(Unit::Share),
        Function::Rate => Measure::positive(Unit::Named("per second")),
        Function::Min | Function::Max | Function::Mean | Function::Median | Function::Newest => of,
        Function::Mad => Measure::positive(whole(of.unit)),
        Function::Sum => Measure {
            unit: whole(of.unit),
            low: of.low.filter(|low| *low >= 0.0).map(|_| 0.0),
            high: None,
        },
        Function::Change => Measure::unlimited(whole(of.unit)),
        Function::RelativeChange => Measure {
            unit: Unit::Named("ratio"),
            low: of.low.filter(|low| *low >= 0.0).map(|_| -1.0),
            high: None,
        },
        Function::Slope => Measure::unlimited(per_hour(of.unit)),
        Function::RelativeSlope => Measure::unlimited(Unit::Named("ratio per hour")),
    }
}

/// Of a sum or a difference: no longer a part of a whole.
fn whole(unit: Unit) -> Unit {
    match unit {
        Unit::Share => Unit::Named("ratio"),
        unit => unit,
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

    /// Scenario: each function over samples in ms that are not negative.
    /// Guarantee: what it yields has the unit and the ends of its function.
    #[test]
    fn a_window_has_the_unit_of_its_function() {
        let of = Measure::positive(Unit::Named("ms"));
        let say = |function: &Function| {
            let measure = of_window(*function, Some(of), Extent::Last(5));
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
