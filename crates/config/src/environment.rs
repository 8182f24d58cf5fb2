//! Environment variables and the keys that they set, in one table for the parser and the page.
//!
//! Names and formats follow the OpenTelemetry specification ("Environment Variable Specification" and "OTLP exporter
//! configuration"). A variable with an empty value is not set. An invalid value is reported and ignored, as the
//! specification requires, and never prevents the start.

use std::borrow::Cow;
use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use super::problem::{Origin, Problem, Setting};
use base::quote::quoted;
use strict_yaml::check::nearest;
use strict_yaml::path::KeyPath;
use strict_yaml::yaml::{Node, Position};

/// The environment: names and values.
pub type Environment = BTreeMap<String, String>;

/// The format of a variable's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Any text.
    Text,
    /// A word, case-insensitive.
    Word,
    /// An integer.
    Count,
    /// An integer number of milliseconds.
    Milliseconds,
    /// `true` or `false`, case-insensitive.
    Truth,
    /// Inverted boolean: `true` sets false.
    Disabled,
    /// `otlp` or `none`.
    Exporter,
    /// Headers as `name=value,name=value`, percent-encoded. Names are converted to lower case.
    Headers,
    /// Attributes as `name=value,name=value`, percent-encoded.
    Attributes,
    /// `cumulative`, `delta` or `lowmemory`.
    Temporality,
    /// `explicit_bucket_histogram` or `base2_exponential_bucket_histogram`.
    Histogram,
}

/// A variable and the key that it sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) form: Form,
}

/// Variables for one key each. If two variables for the same key are set, the first variable in this table is used.
const SINGLE: [(&str, &str, Form); 21] = [
    ("GCWATCH_LISTEN", "listen", Form::Text),
    ("GCWATCH_LOG", "log.level", Form::Text),
    ("OTEL_LOG_LEVEL", "log.level", Form::Word),
    ("GCWATCH_STATE_DIRECTORY", "state.directory", Form::Text),
    // Set by systemd for StateDirectory=.
    ("STATE_DIRECTORY", "state.directory", Form::Text),
    ("NODE_NAME", "kubernetes.node_name", Form::Text),
    ("GCWATCH_KUBELET_URL", "kubernetes.kubelet_url", Form::Text),
    ("OTEL_SDK_DISABLED", "otlp.enabled", Form::Disabled),
    ("OTEL_TRACES_EXPORTER", "otlp.traces.enabled", Form::Exporter),
    ("OTEL_METRICS_EXPORTER", "otlp.metrics.enabled", Form::Exporter),
    ("OTEL_LOGS_EXPORTER", "otlp.logs.enabled", Form::Exporter),
    ("OTEL_METRIC_EXPORT_INTERVAL", "metrics.interval", Form::Milliseconds),
    (
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
        "metrics.temporality",
        Form::Temporality,
    ),
    (
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
        "metrics.histogram",
        Form::Histogram,
    ),
    ("OTEL_BSP_MAX_QUEUE_SIZE", "otlp.limits.queue_items", Form::Count),
    ("OTEL_BLRP_MAX_QUEUE_SIZE", "otlp.limits.queue_items", Form::Count),
    ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "otlp.limits.batch_items", Form::Count),
    (
        "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
        "otlp.limits.batch_items",
        Form::Count,
    ),
    ("OTEL_BSP_SCHEDULE_DELAY", "otlp.limits.batch_delay", Form::Milliseconds),
    (
        "OTEL_BLRP_SCHEDULE_DELAY",
        "otlp.limits.batch_delay",
        Form::Milliseconds,
    ),
    ("OTEL_SERVICE_NAME", "self_telemetry.service_name", Form::Text),
];

/// Variables that exist once for all signals and once per signal: `OTEL_EXPORTER_OTLP_ENDPOINT`,
/// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
const PER_SIGNAL: [(&str, &str, Form); 9] = [
    ("ENDPOINT", "endpoint", Form::Text),
    ("PROTOCOL", "protocol", Form::Word),
    ("HEADERS", "headers", Form::Headers),
    ("TIMEOUT", "timeout", Form::Milliseconds),
    ("COMPRESSION", "compression", Form::Word),
    ("CERTIFICATE", "certificate", Form::Text),
    ("CLIENT_CERTIFICATE", "client_certificate", Form::Text),
    ("CLIENT_KEY", "client_key", Form::Text),
    ("INSECURE", "insecure", Form::Truth),
];

/// Start of the names of the variables for profiles. gcwatch sends no profiles.
const OF_PROFILES: &str = "OTEL_EXPORTER_OTLP_PROFILES_";

/// Returns all variables that set keys, in the order of precedence.
pub(crate) fn variables() -> Vec<Variable> {
    let variable = |name: String, path: String, form| Variable { name, path, form };
    let mut all: Vec<Variable> = SINGLE
        .iter()
        .map(|(name, path, form)| variable((*name).to_owned(), (*path).to_owned(), *form))
        .collect();
    for signal in ["", "traces", "metrics", "logs"] {
        let (infix, section) = if signal.is_empty() {
            (String::new(), String::new())
        } else {
            (format!("{}_", signal.to_ascii_uppercase()), format!("{signal}."))
        };
        all.extend(PER_SIGNAL.iter().map(|(name, key, form)| {
            variable(
                format!("OTEL_EXPORTER_OTLP_{infix}{name}"),
                format!("otlp.{section}{key}"),
                *form,
            )
        }));
    }
    // This variable follows OTEL_EXPORTER_OTLP_METRICS_TIMEOUT, which sets the same timeout and is more specific.
    let export_timeout = ("OTEL_METRIC_EXPORT_TIMEOUT", "otlp.metrics.timeout", Form::Milliseconds);
    let attributes = (
        "OTEL_RESOURCE_ATTRIBUTES",
        "self_telemetry.attributes",
        Form::Attributes,
    );
    for (name, path, form) in [export_timeout, attributes] {
        all.push(variable(name.to_owned(), path.to_owned(), form));
    }
    all
}

/// Returns the message about an invalid variable.
pub(crate) fn not_used(message: &str) -> String {
    format!("{message}; the variable is ignored")
}

/// Returns the settings of the environment, and warnings about invalid variables.
pub(crate) fn settings(environment: &Environment) -> (Vec<Setting>, Vec<Problem>) {
    let mut settings: Vec<Setting> = Vec::new();
    let mut warnings = Vec::new();
    let known = variables();
    for variable in &known {
        let Some(text) = environment.get(&variable.name).filter(|text| !text.trim().is_empty()) else {
            continue;
        };
        let origin = Origin::Environment(variable.name.clone());
        let mut warn = |message: String| {
            warnings.push(Problem {
                origin: origin.clone(),
                path: KeyPath::from_dotted(&variable.path),
                message,
            });
        };
        let values = values(variable, text).unwrap_or_else(|message| {
            warn(not_used(&message));
            Vec::new()
        });
        for (path, value) in values {
            let value = Some(value);
            match settings.iter_mut().find(|before| before.path == path) {
                None => settings.push(Setting {
                    origin: origin.clone(),
                    path,
                    value,
                }),
                // If one variable sets a key twice, the last value is used.
                Some(before) if before.origin == origin => before.value = value,
                // Otherwise, the first variable takes precedence, as documented. Only `OTEL_BLRP_*` needs a warning,
                // because these variables look independent of `OTEL_BSP_*` but set the same keys.
                Some(Setting {
                    origin: Origin::Environment(first),
                    path,
                    value: before,
                }) if *before != value && variable.name.starts_with("OTEL_BLRP_") => {
                    warn(format!("is ignored: {first} sets the same key `{path}`"));
                }
                Some(_) => {}
            }
        }
    }
    warnings.extend(profiles(environment));
    warnings.extend(unknown(environment, &known));
    (settings, warnings)
}

/// Returns one warning about all variables for profiles, or `None` if no such variable is set. These variables are
/// often set for all programs of a host.
fn profiles(environment: &Environment) -> Option<Problem> {
    let set = environment.iter().filter(|(_, value)| !value.is_empty());
    let mut names = set
        .map(|(name, _)| name.as_str())
        .filter(|name| name.starts_with(OF_PROFILES));
    let first = names.next()?;
    let others: String = names.map(|name| format!(", {name}")).collect();
    Some(Problem {
        origin: Origin::Environment(format!("{first}{others}")),
        path: KeyPath::default(),
        message: "ignored, because gcwatch sends no profiles over OTLP".to_owned(),
    })
}

/// Returns warnings about unknown variables: names that resemble a known name, and all other names that start with
/// `OTEL_EXPORTER_OTLP_`.
fn unknown(environment: &Environment, known: &[Variable]) -> Vec<Problem> {
    let ours = ["GCWATCH_CONFIG"];
    let names = || known.iter().map(|variable| variable.name.as_str()).chain(ours);
    let mut warnings = Vec::new();
    for (name, value) in environment {
        let exporter = name.starts_with("OTEL_EXPORTER_OTLP_");
        // Kubernetes sets GCWATCH_PORT and similar variables for a service named gcwatch, so a name that starts with
        // GCWATCH_ is reported only if it is probably misspelled.
        if value.is_empty() || !(exporter || name.starts_with("GCWATCH_")) || names().any(|known| known == name) {
            continue;
        }
        if name.starts_with(OF_PROFILES) {
            continue;
        }
        let message = match nearest(name, names()) {
            Some(near) => format!("there is no such variable; did you mean {near}?"),
            None if exporter => "there is no such variable; it is ignored".to_owned(),
            None => continue,
        };
        let origin = Origin::Environment(name.clone());
        warnings.push(Problem {
            origin,
            path: KeyPath::default(),
            message,
        });
    }
    warnings
}

/// Returns the keys that a variable sets, with their values.
fn values(variable: &Variable, text: &str) -> Result<Vec<(KeyPath, Node)>, String> {
    let path = KeyPath::from_dotted(&variable.path);
    let plain = |text: &str| Node::plain(Position::START, text);
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let value = match variable.form {
        Form::Text => Node::text(Position::START, text),
        Form::Word if variable.path == "log.level" && lower == "none" => plain("off"),
        Form::Word => Node::text(Position::START, lower),
        Form::Count => plain(digits(text).ok_or_else(|| format!("{} is not an integer", quoted(text)))?),
        Form::Milliseconds => {
            let digits =
                digits(text).ok_or_else(|| format!("{} is not an integer number of milliseconds", quoted(text)))?;
            plain(&format!("{digits}ms"))
        }
        Form::Truth => plain(if truth(text, &lower)? { "true" } else { "false" }),
        Form::Disabled => plain(if truth(text, &lower)? { "false" } else { "true" }),
        Form::Exporter => plain(exporter(text, &lower)?),
        Form::Temporality => plain(match lower.as_str() {
            "cumulative" => "cumulative",
            "delta" | "lowmemory" => "delta",
            _ => return Err(format!("{} is not one of cumulative, delta, lowmemory", quoted(text))),
        }),
        Form::Histogram => plain(match lower.as_str() {
            "explicit_bucket_histogram" => "explicit",
            "base2_exponential_bucket_histogram" => "exponential",
            _ => {
                return Err(format!(
                    "{} is not one of explicit_bucket_histogram, base2_exponential_bucket_histogram",
                    quoted(text)
                ));
            }
        }),
        Form::Headers => return pairs(text, |name| name.to_ascii_lowercase(), &path),
        Form::Attributes => return pairs(text, str::to_owned, &path),
    };
    Ok(vec![(path, value)])
}

fn digits(text: &str) -> Option<&str> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(text)
        .filter(|text| !text.is_empty())
}

fn truth(text: &str, lower: &str) -> Result<bool, String> {
    match lower {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{} is neither true nor false", quoted(text))),
    }
}

/// Parses a list of exporters. Returns `true` if the list contains `otlp`, and `false` if the list is `none`. Other
/// lists are errors.
fn exporter(text: &str, lower: &str) -> Result<&'static str, String> {
    let names: Vec<&str> = lower.split(',').map(str::trim).collect();
    if names.contains(&"otlp") {
        return Ok("true");
    }
    match names.as_slice() {
        ["none"] => Ok("false"),
        ["prometheus"] => Err("gcwatch always serves /metrics; write none to send no metrics over OTLP".to_owned()),
        _ => Err(format!("{} is not one of otlp, none", quoted(text))),
    }
}

/// Parses `name=value,name=value` with percent-encoded names and values. If one pair is invalid, all pairs are ignored,
/// as the specification requires. Messages quote neither names nor values, because an apparent name can be part of a
/// token.
fn pairs(text: &str, name: fn(&str) -> String, path: &KeyPath) -> Result<Vec<(KeyPath, Node)>, String> {
    let mut pairs = Vec::new();
    for (place, pair) in text.split(',').map(str::trim).enumerate() {
        if pair.is_empty() {
            continue;
        }
        let place = place + 1;
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("entry {place} is not name=value"))?;
        let decoded = |text: &str| {
            percent_decoded(text.trim()).ok_or_else(|| format!("entry {place} has invalid percent-encoding"))
        };
        let (key, value) = (name(&decoded(key)?), decoded(value)?);
        if key.is_empty() {
            return Err(format!("entry {place} has no name"));
        }
        pairs.push((path.key(&key), Node::text(Position::START, value)));
    }
    Ok(pairs)
}

/// Decodes percent-encoding. Returns `None` if the result is not UTF-8, or if a `%` is not followed by two hexadecimal
/// digits, which the decoder would leave unchanged.
fn percent_decoded(text: &str) -> Option<String> {
    let is_code = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    let complete = text.split('%').skip(1).all(is_code);
    let decoded = percent_decode_str(text).decode_utf8().ok();
    decoded.filter(|_| complete).map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: texts have valid, invalid and no percent-encoding.
    /// Guarantee: valid encodings are decoded, invalid encodings are refused, and `+` stays a plus.
    #[test]
    fn percent_encoding_is_decoded() {
        let decoded = |text| percent_decoded(text);
        assert_eq!(decoded("Basic%20YTpi%3D").as_deref(), Some("Basic YTpi="));
        assert_eq!(decoded("a+b").as_deref(), Some("a+b"));
        assert_eq!(decoded("%C3%BC").as_deref(), Some("ü"));
        for invalid in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decoded(invalid), None, "{invalid}");
        }
    }

    /// Scenario: the table lists all variables.
    /// Guarantee: no name appears twice.
    #[test]
    fn variable_names_are_unique() {
        let mut names: Vec<String> = variables().into_iter().map(|variable| variable.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
