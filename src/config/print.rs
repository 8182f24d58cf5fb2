//! The configuration as a YAML file with the origin of each value: `--print-config`.

use std::fmt::Write as _;

use serde_json::Value;

use super::Config;
use super::problem::Origin;
use delivery::otlp::settings::{Protocol, Receiver};
use gc_telemetry::options::HistogramBuckets;
use strict_yaml::path::KeyPath;

/// A file that says the same when it is read; only values of headers are missing.
pub(crate) fn print(config: &Config) -> String {
    let mut out = String::from("# What is in effect. A value without a remark is the default.\n");
    let tree = serde_json::to_value(&config.document).unwrap_or_default();
    section(&mut out, config, &tree, &KeyPath::default(), 0);
    out.push_str("\n# What is sent where:\n");
    let otlp = &config.otlp;
    for (name, receiver) in [
        ("traces", &otlp.traces),
        ("metrics", &otlp.metrics),
        ("logs", &otlp.logs),
    ] {
        let told = receiver.as_ref().map_or_else(|| "nowhere".to_owned(), address);
        let _ = writeln!(out, "#   {name:<8} {told}");
    }
    out
}

fn address(receiver: &Receiver) -> String {
    let protocol = match receiver.protocol {
        Protocol::Grpc => "grpc",
        Protocol::HttpProtobuf => "http/protobuf",
        Protocol::HttpJson => "http/json",
    };
    format!("{} ({protocol})", receiver.shown())
}

/// The keys of a mapping. What is not set at all is left out, so that what is there is what counts.
fn section(out: &mut String, config: &Config, tree: &Value, path: &KeyPath, depth: usize) {
    for (key, value) in tree.as_object().into_iter().flatten() {
        let path = path.key(key);
        if value.is_null() || is_empty(value) || is_unused(config, &path) {
            continue;
        }
        let indent = "  ".repeat(depth);
        let origin = match config.origins.of(&path) {
            Origin::Default => String::new(),
            origin => format!("  # from {origin}"),
        };
        match value {
            Value::Object(_) => {
                // A section that sets nothing (`otlp.traces`, all as the common keys) is left out with its heading.
                let mut inner = String::new();
                section(&mut inner, config, value, &path, depth + 1);
                if !inner.is_empty() {
                    let _ = write!(out, "{indent}{}:\n{inner}", scalar(key));
                }
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(flow).collect();
                let _ = writeln!(out, "{indent}{}: [{}]{origin}", scalar(key), items.join(", "));
            }
            value => {
                let _ = writeln!(out, "{indent}{}: {}{origin}", scalar(key), flow(value));
            }
        }
    }
}

/// The keys of the kind of histogram that is not made, unless somebody set them.
fn is_unused(config: &Config, path: &KeyPath) -> bool {
    let explicit = matches!(config.metrics.buckets, HistogramBuckets::Explicit(_));
    let unused = if explicit {
        "metrics.max_buckets"
    } else {
        "metrics.bounds"
    };
    *path == KeyPath::of(unused) && *config.origins.of(path) == Origin::Default
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries = map.iter().filter(|(_, value)| !value.is_null() && !is_empty(value));
            let entries: Vec<String> = entries
                .map(|(key, value)| format!("{}: {}", scalar(key), flow(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// A text as YAML: plain where that is safe, else in quotes as JSON writes it, which YAML reads the same.
fn scalar(text: &str) -> String {
    let first = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    // A colon within a word (`http://host:4317`) is no key.
    let colons = !text.contains(": ") && !text.ends_with(':');
    // What would be something else than a text, also for readers of YAML 1.1.
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    let number = text.parse::<f64>().is_ok() || text.starts_with("0x") || text.starts_with("0o");
    if first && colons && !word && !number && text.chars().all(|c| safe(c) || c == ':') {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}
