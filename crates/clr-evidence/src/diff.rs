//! Two outputs of `gcwatch allocations` side by side, per second: bursts are of different lengths.
//!
//! A difference is `clear` when the two 95 % intervals do not overlap; where one has no interval (ticks), nobody can
//! say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Bytes of one line that are read.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Types and sites of one output that are read.
const MAX_RECORDS: usize = 1 << 18;

/// Why a text is no output of `gcwatch allocations`.
#[derive(Debug, thiserror::Error)]
pub enum NoOutput {
    /// A line is no record.
    #[error("line {line} is no record of `gcwatch allocations --format ndjson`: {problem}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// The first record is missing, or has no times.
    #[error("there is no record of kind \"allocations\" with start_ns and end_ns")]
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

/// What one output says of a type or a site, bytes a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Estimate.
    pub rate: f64,
    /// Lower limit; `None`: unknown.
    pub low: Option<f64>,
    /// Upper limit.
    pub high: Option<f64>,
}

/// One output.
#[derive(Debug, Default, PartialEq)]
pub struct Output {
    total: Rate,
    rates: BTreeMap<(What, Option<String>), Rate>,
}

/// What a row of a difference is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// All of it.
    Total,
    /// A type.
    Type,
    /// A site, whoever calls it.
    Site,
}

/// The record of one difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    kind: &'static str,
    /// What it is about.
    pub of: What,
    /// Its name; `None`: unknown.
    pub name: Option<String>,
    /// Bytes a second in the first output.
    pub before: Rate,
    /// In the second.
    pub after: Rate,
    /// The second minus the first.
    pub change: f64,
    /// The intervals do not overlap; `None`: there is none.
    pub clear: Option<bool>,
}

impl Output {
    /// Reads an output.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(text: &str) -> Result<Self, NoOutput> {
        let mut output = Self::default();
        let mut seconds = None;
        let mut records = 0;
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let no_line = |problem: String| NoOutput::Line {
                line: index + 1,
                problem,
            };
            records += 1;
            if line.len() > MAX_LINE_BYTES || records > MAX_RECORDS {
                return Err(no_line("there is too much of it".to_owned()));
            }
            let line: Line = serde_json::from_str(line).map_err(|error| no_line(error.to_string()))?;
            if line.kind == "allocations" {
                let times = line.start_ns.zip(line.end_ns).filter(|(start, end)| end > start);
                seconds = times.map(|(start, end)| end.saturating_sub(start) as f64 / 1e9);
            }
            let Some(seconds) = seconds else {
                return Err(NoOutput::NoFirst);
            };
            let key = match line.kind.as_str() {
                "allocation_type" => (What::Type, line.type_name),
                "allocation_site" => (What::Site, line.site),
                "allocations" => (What::Total, None),
                _ => continue,
            };
            let per_second = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / seconds);
            let rate = Rate {
                rate: per_second(line.estimate).unwrap_or(0.0),
                low: per_second(line.low),
                high: per_second(line.high),
            };
            let sum = match key.0 {
                What::Total => &mut output.total,
                _ => output.rates.entry(key).or_insert(Rate {
                    low: Some(0.0),
                    high: Some(0.0),
                    rate: 0.0,
                }),
            };
            if *sum == Rate::default() {
                *sum = rate;
            } else {
                // Limits of a sum are within the sum of the limits.
                sum.rate += rate.rate;
                sum.low = sum.low.zip(rate.low).map(|(a, b)| a + b);
                sum.high = sum.high.zip(rate.high).map(|(a, b)| a + b);
            }
        }
        if seconds.is_none() {
            return Err(NoOutput::NoFirst);
        }
        Ok(output)
    }
}

/// What changed, the total first, then the largest changes.
pub fn diff(before: &Output, after: &Output) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let keys: std::collections::BTreeSet<_> = before.rates.keys().chain(after.rates.keys()).collect();
    for (of, name) in keys.into_iter() {
        let of_one = |output: &Output| output.rates.get(&(*of, name.clone())).copied();
        changes.push(change(*of, name.clone(), of_one(before), of_one(after)));
    }
    changes.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
    changes.insert(0, change(What::Total, None, Some(before.total), Some(after.total)));
    changes
}

fn change(of: What, name: Option<String>, before: Option<Rate>, after: Option<Rate>) -> Change {
    // What one output does not have at all was not sampled in it: its upper limit is unknown here.
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

    /// Scenario: bursts of 1 s and 2 s, a type that doubled, one that stayed, one that is new.
    /// Guarantee: rates are per second, and a change is clear only where the intervals do not overlap.
    #[test]
    fn bursts_of_different_lengths_compare() {
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
                (What::Total, None, -5.0, None),
                (What::Type, Some("A"), 100.0, Some(true)),
                (What::Type, Some("C"), 10.0, None),
                (What::Type, Some("B"), 0.0, Some(false)),
            ]
        );
    }

    /// Scenario: texts that are no outputs.
    /// Guarantee: an error that names the line, or what is missing.
    #[test]
    fn other_texts_are_refused() {
        assert!(matches!(Output::read("x"), Err(NoOutput::Line { line: 1, .. })));
        assert!(matches!(Output::read(""), Err(NoOutput::NoFirst)));
        assert!(matches!(Output::read("{\"kind\":\"gc\"}"), Err(NoOutput::NoFirst)));
        let times = "{\"kind\":\"allocations\",\"start_ns\":5,\"end_ns\":5}";
        assert!(matches!(Output::read(times), Err(NoOutput::NoFirst)));
    }
}
