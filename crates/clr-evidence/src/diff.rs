//! Compares two outputs of `gcwatch allocations`. Values are per second, because bursts have different lengths.
//!
//! A difference is `clear` if the 95 % intervals of the two outputs do not overlap. Without an interval (ticks),
//! `clear` is unknown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Maximum size of a line, in bytes.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Maximum number of records in an output.
const MAX_RECORDS: usize = 1 << 18;

/// Error returned if a text is not an output of `gcwatch allocations`.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A line is not a record.
    #[error("line {line} is not a record of `gcwatch allocations --format ndjson`: {problem}")]
    Line {
        /// Line number, counted from 1.
        line: usize,
        /// Description of the problem.
        problem: String,
    },
    /// The first record is missing, or has no times.
    #[error("the output has no record of kind \"allocations\" with start_ns and end_ns")]
    NoFirst,
}

#[derive(Debug, Deserialize)]
struct Line {
    kind: String,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    #[serde(rename = "type")]
    type_name: Option<String>,
    site: Option<String>,
    estimate: Option<u64>,
    low: Option<u64>,
    high: Option<u64>,
}

/// The rate of a type or a site in one output, in bytes per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Estimate, in bytes per second.
    pub rate: f64,
    /// Lower limit, in bytes per second; `None` if unknown.
    pub low: Option<f64>,
    /// Upper limit, in bytes per second; `None` if unknown.
    pub high: Option<f64>,
}

/// An output of `gcwatch allocations`.
#[derive(Debug, Default, PartialEq)]
pub struct Output {
    total: Rate,
    rates: BTreeMap<(DiffSubject, Option<String>), Rate>,
}

/// The subject of a row in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiffSubject {
    /// The sum of all allocations.
    Total,
    /// A type.
    Type,
    /// A site, regardless of its callers.
    Site,
}

/// The record of one difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    kind: &'static str,
    /// Subject of the row.
    pub of: DiffSubject,
    /// Name of the type or site; `None` if unknown.
    pub name: Option<String>,
    /// Rate in the first output.
    pub before: Rate,
    /// Rate in the second output.
    pub after: Rate,
    /// Difference of the rates, second minus first, in bytes per second.
    pub change: f64,
    /// Whether the intervals do not overlap; `None` if an interval is unknown.
    pub clear: Option<bool>,
}

impl Output {
    /// Parses an output.
    ///
    /// # Errors
    /// Returns an error if the text is not an output of `gcwatch allocations`.
    pub fn read(text: &str) -> Result<Self, OutputError> {
        let mut output = Self::default();
        let mut seconds = None;
        let mut records = 0;
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let no_line = |problem: String| OutputError::Line {
                line: index + 1,
                problem,
            };
            records += 1;
            if line.len() > MAX_LINE_BYTES || records > MAX_RECORDS {
                return Err(no_line("the line or the output is too large".to_owned()));
            }
            let line: Line = serde_json::from_str(line).map_err(|error| no_line(error.to_string()))?;
            if line.kind == "allocations" {
                let times = line.start_ns.zip(line.end_ns).filter(|(start, end)| end > start);
                seconds = times.map(|(start, end)| end.saturating_sub(start) as f64 / 1e9);
            }
            let Some(seconds) = seconds else {
                return Err(OutputError::NoFirst);
            };
            let key = match line.kind.as_str() {
                "allocation_type" => (DiffSubject::Type, line.type_name),
                "allocation_site" => (DiffSubject::Site, line.site),
                "allocations" => (DiffSubject::Total, None),
                _ => continue,
            };
            let per_second = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / seconds);
            let rate = Rate {
                rate: per_second(line.estimate).unwrap_or(0.0),
                low: per_second(line.low),
                high: per_second(line.high),
            };
            let sum = match key.0 {
                DiffSubject::Total => &mut output.total,
                _ => output.rates.entry(key).or_insert(Rate {
                    low: Some(0.0),
                    high: Some(0.0),
                    rate: 0.0,
                }),
            };
            if *sum == Rate::default() {
                *sum = rate;
            } else {
                // The interval between the summed limits is at least as wide as the interval of the sum.
                sum.rate += rate.rate;
                sum.low = sum.low.zip(rate.low).map(|(a, b)| a + b);
                sum.high = sum.high.zip(rate.high).map(|(a, b)| a + b);
            }
        }
        if seconds.is_none() {
            return Err(OutputError::NoFirst);
        }
        Ok(output)
    }
}

/// Returns the differences: the total first, then the largest changes.
pub fn diff(before: &Output, after: &Output) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let keys: std::collections::BTreeSet<_> = before.rates.keys().chain(after.rates.keys()).collect();
    for (of, name) in keys.into_iter() {
        let of_one = |output: &Output| output.rates.get(&(*of, name.clone())).copied();
        changes.push(change(*of, name.clone(), of_one(before), of_one(after)));
    }
    changes.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
    changes.insert(
        0,
        change(DiffSubject::Total, None, Some(before.total), Some(after.total)),
    );
    changes
}

fn change(of: DiffSubject, name: Option<String>, before: Option<Rate>, after: Option<Rate>) -> Change {
    // An item that is missing in an output was not sampled there, so its upper limit is unknown.
    let clear = match (before, after) {
        (
            Some(Rate {
                low: Some(b_low),
                high: Some(b_high),
                ..
            }),
            Some(Rate {
                low: Some(a_low),
                high: Some(a_high),
                ..
            }),
        ) => Some(b_high < a_low || a_high < b_low),
        _ => None,
    };
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    Change {
        kind: "allocation_change",
        of,
        name,
        before,
        after,
        change: after.rate - before.rate,
        clear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(seconds: i64, types: &[(&str, u64, u64, u64)]) -> Output {
        let mut text = format!(
            "{{\"kind\":\"allocations\",\"start_ns\":0,\"end_ns\":{},\"estimate\":10}}\n",
            seconds * 1_000_000_000
        );
        for (name, estimate, low, high) in types {
            text += &format!(
                "{{\"kind\":\"allocation_type\",\"type\":\"{name}\",\"estimate\":{estimate},\"low\":{low},\"high\":{high}}}\n"
            );
        }
        Output::read(&text).unwrap()
    }

    /// Scenario: bursts take 1 s and 2 s; one type has doubled, one is unchanged, and one is new.
    /// Guarantee: rates are per second, and a change is clear only if the intervals do not overlap.
    #[test]
    fn bursts_of_different_lengths_are_compared() {
        let before = output(1, &[("A", 100, 90, 110), ("B", 50, 40, 60)]);
        let after = output(2, &[("A", 400, 380, 420), ("B", 100, 80, 120), ("C", 20, 1, 100)]);
        let changes = diff(&before, &after);
        let rows: Vec<_> = changes
            .iter()
            .map(|change| (change.of, change.name.as_deref(), change.change, change.clear))
            .collect();
        assert_eq!(
            rows,
            [
                (DiffSubject::Total, None, -5.0, None),
                (DiffSubject::Type, Some("A"), 100.0, Some(true)),
                (DiffSubject::Type, Some("C"), 10.0, None),
                (DiffSubject::Type, Some("B"), 0.0, Some(false)),
            ]
        );
    }

    /// Scenario: texts are not outputs.
    /// Guarantee: the error contains the line, or the missing record.
    #[test]
    fn foreign_text_is_refused() {
        assert!(matches!(Output::read("x"), Err(OutputError::Line { line: 1, .. })));
        assert!(matches!(Output::read(""), Err(OutputError::NoFirst)));
        assert!(matches!(Output::read("{\"kind\":\"gc\"}"), Err(OutputError::NoFirst)));
        let times = "{\"kind\":\"allocations\",\"start_ns\":5,\"end_ns\":5}";
        assert!(matches!(Output::read(times), Err(OutputError::NoFirst)));
    }
}
