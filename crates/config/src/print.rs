//! Formats the configuration as a YAML file with the origin of each value: `--print-config`.
//!
//! `serde_yaml` cannot write comments. Therefore, the YAML parser reads its output again to find the line of each
//! value, and the origin of the value is appended to this line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::Config;
use super::problem::Origin;
use delivery::otlp::settings::Receiver;
use gc_telemetry::options::HistogramBuckets;
use strict_yaml::path::KeyPath;
use strict_yaml::yaml::{self, Bounds, Kind, Node};

/// Returns a file with the same meaning as the configuration in effect, but without secrets.
pub(crate) fn print(config: &Config) -> String {
    let mut document = serde_json::to_value(&config.document).unwrap_or_default();
    prune(&mut document, config, &KeyPath::default());
    // A JSON tree can always be written as YAML.
    let values = serde_yaml::to_string(&document).unwrap_or_default();
    let origins = origins(&values, config);
    let mut out = String::from("# Configuration in effect. Values without a comment are defaults.\n");
    for (line, text) in (1..).zip(values.lines()) {
        out.push_str(text);
        if let Some(origin) = origins.get(&line) {
            let _ = write!(out, "  # from {origin}");
        }
        out.push('\n');
    }
    out.push_str("\n# Endpoints:\n");
    let otlp = &config.options.otlp;
    for (name, receiver) in [
        ("traces", &otlp.traces),
        ("metrics", &otlp.metrics),
        ("logs", &otlp.logs),
    ] {
        let endpoint = receiver.as_ref().map_or_else(|| "none".to_owned(), endpoint);
        let _ = writeln!(out, "#   {name:<7} {endpoint}");
    }
    out
}

fn endpoint(receiver: &Receiver) -> String {
    format!("{} ({})", receiver.shown(), receiver.protocol)
}

/// Removes keys that are not set or not used, so that only keys in effect remain.
fn prune(value: &mut Value, config: &Config, path: &KeyPath) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                prune(value, config, &path.key(key));
            }
            map.retain(|key, value| !is_empty(value) && !is_unused(config, &path.key(key)));
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune(item, config, &path.index(index));
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Returns whether a key belongs to the kind of histogram that is not in use, and was not set.
fn is_unused(config: &Config, path: &KeyPath) -> bool {
    let explicit = matches!(config.options.pipeline.metrics.buckets, HistogramBuckets::Explicit(_));
    let unused = if explicit {
        "metrics.max_buckets"
    } else {
        "metrics.bounds"
    };
    *path == KeyPath::from_dotted(unused) && *config.origins.get(path) == Origin::Default
}

/// Returns the origin of each value that is not a default, by the line of its key.
fn origins<'c>(values: &str, config: &'c Config) -> BTreeMap<usize, &'c Origin> {
    let unbounded = Bounds {
        bytes: usize::MAX,
        nodes: usize::MAX,
        ..Bounds::default()
    };
    let mut found = BTreeMap::new();
    if let Ok(Some(root)) = yaml::parse(values, unbounded) {
        collect(&root, config, &KeyPath::default(), &mut found);
    }
    found
}

fn collect<'c>(node: &Node, config: &'c Config, path: &KeyPath, found: &mut BTreeMap<usize, &'c Origin>) {
    let Kind::Mapping(entries) = &node.kind else { return };
    for entry in entries {
        let path = path.key(&entry.key);
        if matches!(entry.value.kind, Kind::Mapping(_)) {
            collect(&entry.value, config, &path, found);
        } else if *config.origins.get(&path) != Origin::Default {
            found.insert(entry.at.line, config.origins.get(&path));
        }
    }
}
