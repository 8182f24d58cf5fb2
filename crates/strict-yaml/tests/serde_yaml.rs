//! Differences from `serde_yaml`: the facts of `docs/decisions/yaml.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use serde::Deserialize;
use strict_yaml::yaml::{Bounds, parse};

/// Returns the faults of a document with their positions, one per line.
fn faults(text: &str) -> Vec<String> {
    let faults = parse(text, Bounds::default()).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

/// Scenario: headers have a duplicate key.
/// Guarantee: `serde_yaml` silently keeps the last value; the tree rejects the second key.
#[test]
fn duplicate_key_is_rejected() {
    let text = "authorization: old\nauthorization: new\n";
    let headers: BTreeMap<String, String> = serde_yaml::from_str(text).unwrap();
    assert_eq!(headers["authorization"], "new");
    assert_eq!(faults(text), ["2:1: duplicate key `authorization`; first in line 1"]);
}

/// Scenario: a document has two unknown keys and a value of the wrong type.
/// Guarantee: `serde_yaml` reports only the first error.
#[test]
fn serde_yaml_reports_one_error() {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its errors matter")]
    struct Keys {
        timeout: Option<u32>,
    }
    let text = "timeout: soon\nendpiont: x\nprotcol: y\n";
    let error = serde_yaml::from_str::<Keys>(text).unwrap_err().to_string();
    assert!(error.contains("timeout") && !error.contains("endpiont"), "{error}");
}

/// Scenario: a document has an unquoted pattern that starts with an exclamation mark, and aliases.
/// Guarantee: `serde_yaml` drops the tag and expands the alias; the tree rejects both with their positions.
#[test]
fn tag_and_alias_are_rejected() {
    let tagged: BTreeMap<String, serde_yaml::Value> = serde_yaml::from_str("name: !Shop\n").unwrap();
    assert_ne!(tagged["name"], "!Shop");
    assert_eq!(faults("name: !Shop\n").len(), 1);
    let text = "a: &a [x, x]\nb: [*a, *a]\n";
    let expanded: BTreeMap<String, serde_yaml::Value> = serde_yaml::from_str(text).unwrap();
    assert_eq!(expanded["b"][1][0], "x");
    assert_eq!(faults(text).len(), 3);
}

/// Scenario: scalars look like numbers and booleans, where a string or a boolean is expected.
/// Guarantee: `serde_yaml` keeps strings unchanged, does not accept `yes` as a boolean, and rejects an unquoted `*`.
#[test]
fn scalar_types_follow_serde_yaml() {
    let version: BTreeMap<String, String> = serde_yaml::from_str("version: 1.10\nanswer: yes\n").unwrap();
    assert_eq!(
        (version["version"].as_str(), version["answer"].as_str()),
        ("1.10", "yes")
    );
    let value: serde_yaml::Value = serde_yaml::from_str("version: 1.10\n").unwrap();
    assert_eq!(value["version"], 1.1);
    assert!(serde_yaml::from_str::<BTreeMap<String, bool>>("enabled: yes\n").is_err());
    assert!(serde_yaml::from_str::<BTreeMap<String, String>>("name: *.Tests\n").is_err());
}
