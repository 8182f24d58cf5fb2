//! Where `serde_yaml` reads a document differently: the facts of `docs/decisions/yaml.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use serde::Deserialize;
use strict_yaml::yaml::{Bounds, parse};

/// The faults of the tree with positions, a line each.
fn faults(text: &str) -> Vec<String> {
    let faults = parse(text, Bounds::default()).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

/// Scenario: headers with a duplicate key.
/// Guarantee: `serde_yaml` keeps the last value silently; the tree refuses the second one.
#[test]
fn duplicate_keys() {
    let text = "authorization: old\nauthorization: new\n";
    let headers: BTreeMap<String, String> = serde_yaml::from_str(text).unwrap();
    assert_eq!(headers["authorization"], "new");
    assert_eq!(faults(text), ["2:1: duplicate key `authorization`; first in line 1"]);
}

/// Scenario: two unknown keys and a value of another type.
/// Guarantee: `serde_yaml` reports the first error only.
#[test]
fn one_error_at_a_time() {
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

/// Scenario: an unquoted pattern that begins with an exclamation mark, and aliases.
/// Guarantee: `serde_yaml` drops the tag and expands the alias; the tree refuses both with their positions.
#[test]
fn tags_and_aliases() {
    let tagged: BTreeMap<String, serde_yaml::Value> = serde_yaml::from_str("name: !Shop\n").unwrap();
    assert_ne!(tagged["name"], "!Shop");
    assert_eq!(faults("name: !Shop\n").len(), 1);
    let text = "a: &a [x, x]\nb: [*a, *a]\n";
    let expanded: BTreeMap<String, serde_yaml::Value> = serde_yaml::from_str(text).unwrap();
    assert_eq!(expanded["b"][1][0], "x");
    assert_eq!(faults(text).len(), 3);
}

/// Scenario: scalars that look like numbers and booleans, where a string or a boolean is expected.
/// Guarantee: `serde_yaml` keeps strings as they are written, and takes `yes` for no boolean.
#[test]
fn scalars() {
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
