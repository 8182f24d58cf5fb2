//! The labels of an alert, in the form that Prometheus and Alertmanager accept. Pure.
//!
//! Alertmanager identifies, routes and groups alerts by their labels. The labels therefore name the rule and the
//! process, are few, and do not change while an alert is firing.

use std::collections::BTreeMap;

use incidents::id_of;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;

use gc_telemetry::notice::IncidentNotice;

/// Labels, sorted by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// Name of the label with the id of the symptom.
pub(crate) const RULE: &str = "alertname";

/// Name of the label with the id of the incident.
pub(crate) const INCIDENT: &str = "incident";

/// Name of the label that changes when the severity rises.
pub(crate) const SEVERITY: &str = "severity";

/// Maximum number of labels of one alert. Further labels are omitted.
const MAX_LABELS: usize = 64;

/// Maximum length of a value, in bytes.
const MAX_VALUE_BYTES: usize = 512;

/// Prefixes of the attributes of a resource that do not become labels, because the attributes change, are long, or
/// repeat other labels.
const LEFT_OUT: [&str; 7] = [
    "process.",
    "gcwatch.",
    "telemetry.",
    "os.",
    "host.id",
    "host.arch",
    "service.instance.id",
];

/// Returns the labels of an incident as an alert: `alertname` (the id of its symptom), `severity`, `incident` (its id),
/// `process`, `pid`, `instance`, then the labels of the rule, then the attributes of the process's resource. If a name
/// occurs again, a number is appended to the name.
pub(crate) fn labels(notice: &IncidentNotice, resource: &Resource) -> Labels {
    let incident = notice.change.incident();
    // An incident of a service does not have a process.
    let pid = (notice.run.pid != 0).then(|| notice.run.pid.to_string());
    let attribute = |key: &str| {
        let mut attributes = resource.attributes.iter();
        attributes.find(|attribute| attribute.key == key).and_then(text)
    };
    let fixed = [
        (RULE, Some(incident.symptom.id.to_string())),
        (SEVERITY, Some(incident.severity.name().to_owned())),
        (INCIDENT, Some(id_of(incident, Some(notice.run)))),
        ("process", Some(notice.process.to_string())),
        ("pid", pid),
        ("instance", attribute("service.instance.id")),
    ];
    let mut labels = Labels::new();
    for (name, value) in fixed {
        put(&mut labels, name, value.unwrap_or_default());
    }
    for (name, value) in incident.labels.iter() {
        put(&mut labels, name, value.to_string());
    }
    let mut of_resource: Vec<(&str, String)> = resource
        .attributes
        .iter()
        .filter(|attribute| !LEFT_OUT.iter().any(|start| attribute.key.starts_with(start)))
        .filter_map(|attribute| Some((attribute.key.as_str(), text(attribute)?)))
        .collect();
    of_resource.sort();
    for (name, value) in of_resource {
        put(&mut labels, name, value);
    }
    labels
}

pub(crate) fn text(attribute: &opentelemetry_proto::tonic::common::v1::KeyValue) -> Option<String> {
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        Value::BoolValue(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// Adds a label. An empty value is omitted, because Prometheus treats it like a missing label.
fn put(labels: &mut Labels, name: &str, value: String) {
    if value.is_empty() || labels.len() >= MAX_LABELS {
        return;
    }
    let name = legal(name);
    let mut free = name.clone();
    for number in 2.. {
        if !labels.contains_key(&free) {
            break;
        }
        free = format!("{name}_{number}");
    }
    labels.insert(free, cut(value));
}

/// Converts a name to `[a-zA-Z_][a-zA-Z0-9_]*`: other characters become `_`.
fn legal(name: &str) -> String {
    let mut legal: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if legal.is_empty() || legal.starts_with(|c: char| c.is_ascii_digit()) {
        legal.insert(0, '_');
    }
    legal
}

fn cut(mut value: String) -> String {
    let mut end = MAX_VALUE_BYTES.min(value.len());
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value.truncate(end);
    value
}

/// Returns the fingerprint of labels as in Alertmanager and Prometheus: FNV-1a of names and values, each followed by
/// 0xff (`LabelSet.Fingerprint` of prometheus/common).
pub(crate) fn fingerprint(labels: &Labels) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for (name, value) in labels {
        add(name);
        add(value);
    }
    hash
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Scenario: names and values are arbitrary, and many names become equal.
        /// Guarantee: every name is valid for Prometheus; no value is empty or replaces another value; number and
        /// length are bounded; equal input gives equal labels.
        #[test]
        fn names_are_valid_and_distinct(given in prop::collection::vec((".{0,12}", ".{0,700}"), 0..90)) {
            let all = || {
                let mut labels = Labels::new();
                given.iter().for_each(|(name, value)| put(&mut labels, name, value.clone()));
                labels
            };
            let labels = all();
            let sent = given.iter().filter(|(_, value)| !value.is_empty()).count();
            prop_assert_eq!(labels.len(), sent.min(MAX_LABELS));
            for (name, value) in &labels {
                prop_assert!(!value.is_empty() && value.len() <= MAX_VALUE_BYTES);
                let first = name.chars().next().unwrap_or('0');
                prop_assert!(first == '_' || first.is_ascii_alphabetic(), "{}", name);
                prop_assert!(name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()), "{}", name);
            }
            prop_assert_eq!(&labels, &all());
        }
    }

    /// Scenario: several names become equal.
    /// Guarantee: the first label keeps the name, and the following labels are numbered in order.
    #[test]
    fn equal_names_are_numbered() {
        let mut labels = Labels::new();
        for (name, value) in [("a.b", "1"), ("a_b", "2"), ("a-b", "3"), ("1", "4"), ("", "5")] {
            put(&mut labels, name, value.to_owned());
        }
        let names: Vec<(&str, &str)> = labels
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            names,
            [("_", "5"), ("_1", "4"), ("a_b", "1"), ("a_b_2", "2"), ("a_b_3", "3")]
        );
    }

    /// Scenario: fingerprints are computed for an empty set and for one label.
    /// Guarantee: the results equal FNV-1a: the offset basis for the empty set, and the definition for the label.
    #[test]
    fn fingerprints_are_fnv_1a() {
        assert_eq!(fingerprint(&Labels::new()), 0xcbf2_9ce4_8422_2325);
        let labels = Labels::from([("a".to_owned(), "b".to_owned())]);
        let by_hand = [0x61u64, 0xff, 0x62, 0xff]
            .iter()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
                (hash ^ byte).wrapping_mul(0x0100_0000_01b3)
            });
        assert_eq!(fingerprint(&labels), by_hand);
    }
}
