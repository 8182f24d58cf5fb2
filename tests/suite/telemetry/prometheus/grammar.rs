//! Parses an exposition, and panics at the first violation of its format.

use std::collections::{BTreeMap, HashSet};

/// A line with a value.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
    pub(crate) exemplar: Option<String>,
}

/// All samples of an exposition.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    pub(crate) samples: Vec<Sample>,
}

fn is_name(text: &str, also: &str) -> bool {
    let first = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || also.contains(letter);
    text.starts_with(first) && text.chars().all(|letter| first(letter) || letter.is_ascii_digit())
}

impl Exposition {
    pub(crate) fn parse(text: &str, open_metrics: bool) -> Self {
        assert!(text.ends_with('\n') || text.is_empty());
        let mut lines = text.split_terminator('\n');
        let mut exposition = Self::default();
        let (mut families, mut family, mut kind) = (HashSet::new(), String::new(), String::new());
        let mut series = HashSet::new();
        let mut ended = false;
        for line in &mut lines {
            assert!(!ended, "{line:?} precedes the end marker");
            if let Some(comment) = line.strip_prefix("# ") {
                let mut words = comment.splitn(3, ' ');
                match (words.next().unwrap(), words.next(), words.next()) {
                    ("EOF", None, None) => ended = true,
                    ("HELP", Some(name), Some(_)) => {
                        assert!(families.insert(name.to_owned()), "{name} is contiguous");
                        assert!(is_name(name, ":"), "{name}");
                        family = name.to_owned();
                    }
                    ("TYPE", Some(name), Some(of)) => {
                        assert_eq!(name, family);
                        kind = of.to_owned();
                    }
                    ("UNIT", Some(name), Some(unit)) => {
                        assert!(
                            open_metrics && name == family && name.ends_with(&format!("_{unit}")),
                            "{line}"
                        );
                    }
                    _ => panic!("{line:?}"),
                }
                continue;
            }
            let sample = Sample::parse(line);
            let suffix = sample
                .name
                .strip_prefix(&family)
                .unwrap_or_else(|| panic!("{line} in {family}"));
            let allowed: &[&str] = match (kind.as_str(), open_metrics) {
                ("counter", true) => &["_total", "_created"],
                ("counter", false) => &[""],
                ("gauge", _) => &[""],
                ("info", true) => &["_info"],
                ("histogram", true) => &["_bucket", "_sum", "_count", "_created"],
                ("histogram", false) => &["_bucket", "_sum", "_count"],
                other => panic!("{other:?}"),
            };
            assert!(allowed.contains(&suffix), "{line} in a {kind}");
            if kind == "counter" && !open_metrics {
                assert!(sample.name.ends_with("_total"));
            }
            assert!(sample.exemplar.is_none() || open_metrics && suffix == "_bucket");
            assert!(
                series.insert(format!("{}{:?}", sample.name, sample.labels)),
                "{line} is unique"
            );
            exposition.samples.push(sample);
        }
        assert_eq!(ended, open_metrics);
        exposition
    }
}

impl Sample {
    fn parse(line: &str) -> Self {
        let end = line.find(['{', ' ']).unwrap();
        let (name, rest) = line.split_at(end);
        assert!(is_name(name, ":"), "{name:?}");
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => parse_labels(rest),
            None => (BTreeMap::new(), rest),
        };
        let rest = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line:?}"));
        let (value, exemplar) = match rest.split_once(" # ") {
            Some((value, exemplar)) => (value, Some(exemplar)),
            None => (rest, None),
        };
        if let Some(exemplar) = exemplar {
            let (labels, rest) = parse_labels(exemplar.strip_prefix('{').unwrap());
            let runes: usize = labels
                .iter()
                .map(|(name, value)| name.len() + value.chars().count())
                .sum();
            assert!(runes <= 128);
            assert_eq!((labels["trace_id"].len(), labels["span_id"].len()), (32, 16));
            let numbers: Vec<f64> = rest.trim().split(' ').map(|number| number.parse().unwrap()).collect();
            assert_eq!(numbers.len(), 2, "{line}");
        }
        Self {
            name: name.to_owned(),
            labels,
            value: value.parse().unwrap_or_else(|_| panic!("{line:?}")),
            exemplar: exemplar.map(str::to_owned),
        }
    }
}

/// Returns the labels up to the closing brace, and the rest of the line.
fn parse_labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return (labels, rest);
        }
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(is_name(name, "") && !name.starts_with("__"), "{name:?}");
        let (mut value, mut letters) = (String::new(), after.char_indices());
        let end = loop {
            match letters.next().unwrap() {
                (place, '"') => break place,
                (_, '\\') => value.push(match letters.next().unwrap().1 {
                    'n' => '\n',
                    escaped @ ('\\' | '"') => escaped,
                    other => panic!("\\{other}"),
                }),
                (_, letter) => {
                    assert!(!letter.is_control() || letter == '\t', "{letter:?}");
                    value.push(letter);
                }
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} is unique");
        rest = after.get(end + 1..).unwrap();
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}
