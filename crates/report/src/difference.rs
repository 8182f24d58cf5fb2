//! Comparison of two recordings, for all collections and by generation and type.

use std::io::{self, Write};

use clr_gc::event::GcType;
use clr_gc::gc::{Group, PauseQuantiles, Totals};
use serde::Serialize;

use crate::table::{Column, HEADING, head, left, right, row};
use crate::units::{Bytes, Millis, Percent, Span, UNKNOWN, known};
use api::gc::{share, type_name};

/// The totals of one recording in a comparison.
#[derive(Debug, Default)]
pub struct RecordingTotals {
    /// Name of the file as given on the command line.
    pub file: String,
    /// Totals over all processes of the recording.
    pub totals: Totals,
    /// Observed time, in nanoseconds.
    pub observed_ns: i64,
}

/// A figure with its values in both recordings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the figure, for example `pause p99`.
    pub name: &'static str,
    /// Value in the first recording; `None` if unknown.
    pub before: Option<f64>,
    /// Value in the second recording; `None` if unknown.
    pub after: Option<f64>,
    /// Whether the value is a lower bound, for the first and the second recording.
    #[serde(skip_serializing_if = "is_exact")]
    pub lower_bound: [bool; 2],
    #[serde(skip)]
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    Nanoseconds,
    Share,
    Bytes,
    PerSecond,
    Number,
}

/// `kind: "difference"`: the figures of one generation and type, or of all collections.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "difference")]
pub struct Difference {
    /// Generation; `None` for all collections, or if unknown.
    pub generation: Option<u32>,
    /// Type; `None` for all collections, or if unknown.
    #[serde(rename = "type")]
    pub gc_type: Option<String>,
    /// Figures in the order of the table.
    pub figures: Vec<Figure>,
}

/// Compares two recordings: all collections first, then each generation and type that occurs in either recording.
pub fn compare(before: &RecordingTotals, after: &RecordingTotals) -> Vec<Difference> {
    let figure = |name, unit, of: &dyn Fn(&RecordingTotals) -> Option<f64>| Figure {
        name,
        before: of(before),
        after: of(after),
        lower_bound: [false; 2],
        unit,
    };
    let rate = |count: u64, side: &RecordingTotals| {
        (side.observed_ns > 0).then(|| count as f64 / (side.observed_ns as f64 / 1e9))
    };
    let mut all = vec![
        figure("time stopped", Unit::Share, &|side| {
            share(side.totals.stopped_ns, side.observed_ns)
        }),
        figure("collections", Unit::Number, &|side| Some(side.totals.count as f64)),
        figure("collections per second", Unit::PerSecond, &|side| {
            rate(side.totals.count, side)
        }),
        Figure {
            lower_bound: [before, after].map(|side| side.totals.allocated_lower_bound),
            ..figure("allocated per second", Unit::Bytes, &|side| {
                rate(side.totals.allocated?, side)
            })
        },
    ];
    all.extend(quantiles(&|side| side.totals.quantiles(), before, after));
    let mut differences = vec![Difference {
        generation: None,
        gc_type: None,
        figures: all,
    }];
    let mut keys: Vec<(Option<u32>, Option<GcType>)> = before
        .totals
        .groups
        .iter()
        .chain(&after.totals.groups)
        .map(|group| (group.generation, group.gc_type))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    for (generation, gc_type) in keys {
        let of = |side: &RecordingTotals| -> Option<Group> {
            side.totals
                .groups
                .iter()
                .find(|group| (group.generation, group.gc_type) == (generation, gc_type))
                .cloned()
        };
        let mut figures = vec![
            figure("collections", Unit::Number, &|side| {
                Some(of(side).map_or(0.0, |group| group.count as f64))
            }),
            figure("collections per second", Unit::PerSecond, &|side| {
                rate(of(side).map_or(0, |group| group.count), side)
            }),
            figure("time stopped", Unit::Share, &|side| {
                share(of(side).map_or(0, |group| group.pause_ns), side.observed_ns)
            }),
        ];
        figures.extend(quantiles(&|side| of(side)?.quantiles(), before, after));
        differences.push(Difference {
            generation,
            gc_type: gc_type.map(type_name),
            figures,
        });
    }
    differences
}

fn quantiles(
    of: &dyn Fn(&RecordingTotals) -> Option<PauseQuantiles>,
    before: &RecordingTotals,
    after: &RecordingTotals,
) -> [Figure; 4] {
    let (a, b) = (of(before), of(after));
    let figure = |name, of: fn(&PauseQuantiles) -> i64| Figure {
        name,
        before: a.as_ref().map(|quantiles| of(quantiles) as f64),
        after: b.as_ref().map(|quantiles| of(quantiles) as f64),
        lower_bound: [false; 2],
        unit: Unit::Nanoseconds,
    };
    [
        figure("pause p50", |quantiles| quantiles.p50),
        figure("pause p95", |quantiles| quantiles.p95),
        figure("pause p99", |quantiles| quantiles.p99),
        figure("pause max", |quantiles| quantiles.max),
    ]
}

fn is_exact(lower_bound: &[bool; 2]) -> bool {
    *lower_bound == [false; 2]
}

const COLUMNS: [Column; 4] = [
    left("", 24),
    right("before", 12),
    right("after", 12),
    right("change", 10),
];

/// Writes the comparison of two recordings.
pub fn write(
    out: &mut dyn Write,
    before: &RecordingTotals,
    after: &RecordingTotals,
    differences: &[Difference],
) -> io::Result<()> {
    writeln!(out, "before: {} ({} observed)", before.file, Span(before.observed_ns))?;
    writeln!(out, "after:  {} ({} observed)\n", after.file, Span(after.observed_ns))?;
    if let Some(verdict) = differences.first().and_then(|all| verdict(&all.figures)) {
        writeln!(out, "{HEADING}{verdict}{HEADING:#}\n")?;
    }
    head(out, &COLUMNS)?;
    for difference in differences {
        // If only the end of a collection was observed, its type and its pause are unknown. Such collections cannot be
        // compared usefully.
        if difference.generation.is_some() && difference.gc_type.is_none() {
            continue;
        }
        let name = match (difference.generation, &difference.gc_type) {
            (None, None) => "all".to_owned(),
            (generation, gc_type) => format!("gen{} {}", known(generation), gc_type.as_deref().unwrap_or(UNKNOWN),),
        };
        writeln!(out, "{HEADING}{name}{HEADING:#}")?;
        for figure in &difference.figures {
            let value = |value: Option<f64>, least: bool| {
                let least = if least && value.is_some() { "≥ " } else { "" };
                format!("{least}{}", shown(value, figure.unit))
            };
            let cells = [
                format!("  {}", figure.name),
                value(figure.before, figure.lower_bound[0]),
                value(figure.after, figure.lower_bound[1]),
                change(figure),
            ];
            row(out, &COLUMNS, &cells)?;
        }
    }
    Ok(())
}

fn shown(value: Option<f64>, unit: Unit) -> String {
    let Some(value) = value else { return UNKNOWN.to_owned() };
    match unit {
        Unit::Nanoseconds => format!("{} ms", Millis(Some(value as i64))),
        Unit::Share => Percent(Some(value)).to_string(),
        Unit::Bytes => Bytes(value as u64).to_string(),
        Unit::PerSecond => format!("{value:.2}"),
        Unit::Number => format!("{value:.0}"),
    }
}

/// Minimum relative change that is reported.
const NOISE: f64 = 0.05;

/// Returns one line with the figures that improved, the figures that got worse, and the neutral figures that changed.
/// Lower durations and shares of time are better; counts and amounts are neutral. Returns `None` if no figure is known
/// in both recordings.
fn verdict(figures: &[Figure]) -> Option<String> {
    let (mut better, mut worse, mut other, mut known) = (Vec::new(), Vec::new(), Vec::new(), false);
    for figure in figures {
        let (Some(before), Some(after)) = (figure.before, figure.after) else {
            continue;
        };
        known = true;
        if figure.name == "collections" && before <= 0.0 && after > 0.0 {
            other.push(format!("no collections before, {after:.0} after"));
        }
        // A change from 0 has no percentage. The verdict omits the number of collections, because it depends on the
        // length of the recording, and p95, because the median, p99 and the maximum already describe the pauses.
        let is_new = before <= 0.0 && after > 0.0 && figure.unit == Unit::Share;
        let differs = before > 0.0 && (after / before - 1.0).abs() >= NOISE;
        if !(is_new || differs) || matches!(figure.name, "collections" | "pause p95") {
            continue;
        }
        let change = format!("{} {}", figure.name.trim_start_matches("pause "), change(figure));
        match figure.unit {
            Unit::Nanoseconds | Unit::Share if after < before => better.push(change),
            Unit::Nanoseconds | Unit::Share => worse.push(change),
            Unit::Bytes | Unit::PerSecond | Unit::Number => other.push(change),
        }
    }
    let of = |what, list: &[String]| (!list.is_empty()).then(|| format!("{what}: {}", list.join(", ")));
    let parts = [of("better", &better), of("worse", &worse), of("changed", &other)];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    known.then(|| {
        if text.is_empty() {
            "no difference of 5 % or more".to_owned()
        } else {
            text
        }
    })
}

/// Returns the change from the first to the second value, in percent of the first value; for shares, in percentage
/// points. Returns an empty text if a value is unknown, or if the first value is 0 and the second is not.
fn change(figure: &Figure) -> String {
    match (figure.before, figure.after) {
        (Some(before), Some(after)) if figure.unit == Unit::Share => format!("{:+.2} pp", (after - before) * 100.0),
        (Some(before), Some(after)) if before > 0.0 => format!("{:+.1} %", (after / before - 1.0) * 100.0),
        (Some(before), Some(after)) if before == after => "+0.0 %".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &'static str, unit: Unit, before: f64, after: f64) -> Figure {
        Figure {
            name,
            before: Some(before),
            after: Some(after),
            lower_bound: [false; 2],
            unit,
        }
    }

    /// Scenario: the median is shorter and the maximum is longer, more time is stopped, and more is allocated. In a
    /// second case, the figures differ little. In a third case, no figure is known. In a fourth case, there were no
    /// collections before.
    /// Guarantee: the verdict lists the better, the worse and the changed figures, with shares in percentage points.
    /// The verdict states that there is no difference, or that there were no collections before. Without figures, the
    /// verdict is `None`.
    #[test]
    fn verdict_lists_better_and_worse_figures() {
        let all = [
            figure("time stopped", Unit::Share, 0.10, 0.12),
            figure("allocated per second", Unit::Bytes, 100.0, 200.0),
            figure("pause p50", Unit::Nanoseconds, 100.0, 36.0),
            figure("pause max", Unit::Nanoseconds, 100.0, 127.0),
        ];
        assert_eq!(
            verdict(&all).as_deref(),
            Some(
                "better: p50 -64.0 %; worse: time stopped +2.00 pp, max +27.0 %; changed: allocated per second +100.0 %"
            )
        );
        let same = [figure("pause p50", Unit::Nanoseconds, 100.0, 104.0)];
        assert_eq!(verdict(&same).as_deref(), Some("no difference of 5 % or more"));
        assert_eq!(verdict(&[]), None);
        let first = [
            figure("time stopped", Unit::Share, 0.0, 0.05),
            figure("collections", Unit::Number, 0.0, 28.0),
        ];
        assert_eq!(
            verdict(&first).as_deref(),
            Some("worse: time stopped +5.00 pp; changed: no collections before, 28 after")
        );
    }
}
