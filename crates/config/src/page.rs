//! Generates the reference page `docs/configuration.md` from the schema and the tables of variables and flags.

use std::fmt::Write as _;

use serde_json::Value;

use super::environment::{self, Form};
use super::flags::FLAGS;
use super::schema::{SCHEMA, schema};
use strict_yaml::check::words;
use strict_yaml::path::KeyPath;
use strict_yaml::reference::{default, paragraph, values};

/// The text before the tables.
const INTRODUCTION: &str = "\
# Configuration

<!-- Generated from the types in crates/config/src/document: do not edit. `GCWATCH_UPDATE_GOLDEN=1 cargo test --test suite config` writes it. -->

`gcwatch run` needs no configuration: it attaches to every .NET process on the host and sends to an OTLP receiver at
`http://localhost:4317` (gRPC). For each key, the order of precedence is

1. flags,
2. environment variables (those of the OpenTelemetry specification),
3. one YAML file (`--config FILE`, or the variable `GCWATCH_CONFIG`),
4. defaults.

`--endpoint` and `--protocol` apply to all signals: they override the keys of individual signals, too.

`gcwatch run --check-config` reports all errors with line and column, and exits; `--print-config` prints the
configuration in effect with the origin of each value, without secrets. gcwatch does not start with an invalid file or
flag. An invalid environment variable is reported and ignored, as the specification requires.

The file and the rule files are reloaded when they change and on SIGHUP. An invalid file changes nothing: the previous
values and rules stay in effect. Changes of keys marked with **restart** need a restart.

";

/// The example; a test parses it.
pub(crate) const EXAMPLE: &str = "\
# yaml-language-server: $schema=gcwatch.schema.json
otlp:
  endpoint: https://collector.example:4317
  compression: gzip
  headers_from:
    authorization: {file: /run/secrets/otlp-authorization}
  logs:
    enabled: false
targets:
  exclude:
    - name: \"*.Tests\"
    - user: nobody
      environment: {GCWATCH: \"off\"}
spans:
  min_pause: 5ms
resource:
  environment: production
rules:
  files: [/etc/gcwatch/rules]
alerts:
  alertmanagers:
    - url: http://alertmanager:9093
";

/// The text between the example and the tables.
const FORM: &str = "\
The file is YAML 1.2 without anchors, aliases, tags, merge keys and duplicate keys, at most 1 MiB. A key with an empty
value is not set. Durations have a unit: `500us`, `500ms`, `30s`, `5m`, `1h`, `1m30s`. Sizes do, too: `512KiB`, `8MiB`,
`1GB`. Relative paths are relative to gcwatch's working directory. [gcwatch.schema.json](gcwatch.schema.json) is a JSON
schema for editors.

## Keys

";

const ENVIRONMENT: &str = "\
## Environment

If several variables set one key, the first in this table is used. An empty variable is not set. `<SIGNAL>` is `TRACES`,
`METRICS` or `LOGS`.

";

const AFTER: &str = "
`OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` in gcwatch's environment apply to gcwatch itself; those of a target,
in its own environment, apply to the target.

Requests over HTTP use the proxy in `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.
";

/// Returns the page.
pub fn text() -> String {
    let mut out = String::from(INTRODUCTION);
    let _ = write!(out, "```yaml\n{EXAMPLE}```\n\n{FORM}");
    for section in sections() {
        section.write(&mut out);
    }
    out.push_str(ENVIRONMENT);
    variables(&mut out);
    out.push_str(AFTER);
    out
}

/// The keys of one type, with all locations of that type.
struct Section {
    places: Vec<String>,
    rule: &'static Value,
    /// Description of the key that contains the type; `None` for the whole file.
    description: Option<&'static str>,
}

/// Returns all sections, outer sections first. Each type has one section.
fn sections() -> Vec<Section> {
    let root = Section {
        places: vec![String::new()],
        rule: &SCHEMA,
        description: None,
    };
    let mut sections = vec![root];
    let mut next = 0;
    while let Some(section) = sections.get(next) {
        let (rule, places) = (section.rule, section.places.clone());
        let mut insert_at = next + 1;
        for (key, property) in properties(rule) {
            let Some((inner, suffix)) = inner(property) else {
                continue;
            };
            let places = places.iter().map(|place| format!("{}{suffix}", below(place, key)));
            // Equal rules are the same object of the schema.
            if let Some(known) = sections.iter_mut().find(|known| std::ptr::eq(known.rule, inner)) {
                known.places.extend(places);
            } else {
                let places = places.collect();
                let description = property.get("description").and_then(Value::as_str);
                sections.insert(
                    insert_at,
                    Section {
                        places,
                        rule: inner,
                        description,
                    },
                );
                insert_at += 1;
            }
        }
        next += 1;
    }
    sections
}

fn properties(rule: &'static Value) -> impl Iterator<Item = (&'static String, &'static Value)> {
    rule.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn below(place: &str, key: &str) -> String {
    if place.is_empty() {
        key.to_owned()
    } else {
        format!("{place}.{key}")
    }
}

/// Returns the rule of the keys in a property's value, and the suffix of the path to these keys. Returns `None` if the
/// value has no keys.
fn inner(property: &'static Value) -> Option<(&'static Value, &'static str)> {
    let rule = schema().resolved(property);
    let ways = [
        (Some(rule), ""),
        (rule.get("items"), "[]"),
        (rule.get("additionalProperties"), ".NAME"),
    ];
    ways.into_iter().find_map(|(rule, suffix)| {
        let rule = schema().resolved(rule?);
        rule.get("properties").is_some().then_some((rule, suffix))
    })
}

impl Section {
    fn write(&self, out: &mut String) {
        let rows: Vec<String> = properties(self.rule)
            // Sections have separate tables.
            .filter(|(_, property)| schema().resolved(property).get("properties").is_none())
            .map(|(key, property)| self.row(key, property))
            .collect();
        let top = self.places.iter().any(String::is_empty);
        if !top {
            let places: Vec<String> = self.places.iter().map(|place| format!("`{place}`")).collect();
            let (first, others) = places
                .split_first()
                .map_or(("", &[][..]), |(first, others)| (first.as_str(), others));
            let _ = write!(out, "### {first}\n\n");
            if !others.is_empty() {
                let _ = write!(out, "{}\n\n", paragraph(&format!("Also {}.", others.join(", "))));
            }
            // If several keys share the type, the description of the type applies to all of them.
            let shared = self.rule.get("description").and_then(Value::as_str);
            let own = self.description.filter(|_| self.places.len() == 1);
            if let Some(description) = own.or(shared) {
                let _ = write!(out, "{}\n\n", paragraph(description));
            }
        }
        if !rows.is_empty() {
            let _ = writeln!(out, "| Key | Value | Default | |\n|---|---|---|---|");
            rows.iter().for_each(|row| out.push_str(row));
            out.push('\n');
        }
    }

    fn row(&self, key: &str, property: &Value) -> String {
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        let rule = schema().resolved(property);
        let restart = if property.get("x-restart").is_some() {
            " **restart**"
        } else {
            ""
        };
        let by = self.set_by(key);
        let by = if by.is_empty() { by } else { format!("<br>{by}") };
        let (value, default) = (values(schema(), property, rule), default(property));
        format!("| `{key}` | {value} | {default} | {description}{restart}{by} |\n")
    }

    /// Returns the variables and flags of a key, at all locations.
    fn set_by(&self, key: &str) -> String {
        let mut names: Vec<String> = Vec::new();
        for place in &self.places {
            let path = below(place, key);
            let variables = environment::variables();
            let variables = variables.iter().filter(|variable| variable.path == path);
            let flags = FLAGS.iter().filter(|(_, set)| *set == path);
            let found = variables
                .map(|variable| variable.name.clone())
                .chain(flags.map(|(flag, _)| (*flag).to_owned()));
            for name in found.map(|name| any_signal(&name)) {
                let name = format!("`{name}`");
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names.join(", ")
    }
}

/// Returns one name for the variables of all signals: `OTEL_TRACES_EXPORTER` becomes `OTEL_<SIGNAL>_EXPORTER`.
fn any_signal(name: &str) -> String {
    for signal in ["TRACES", "METRICS", "LOGS"] {
        let general = name.replacen(&format!("_{signal}_"), "_<SIGNAL>_", 1);
        // Variables only for metrics are unchanged.
        let others = ["TRACES", "METRICS", "LOGS"].map(|other| general.replacen("<SIGNAL>", other, 1));
        let known = |name: &String| environment::variables().iter().any(|variable| variable.name == *name);
        if general != name && others.iter().all(known) {
            return general;
        }
    }
    match name {
        "--no-traces" | "--no-metrics" | "--no-logs" => "--no-<signal>".to_owned(),
        name => name.to_owned(),
    }
}

/// Writes the table of variables.
fn variables(out: &mut String) {
    let _ = writeln!(out, "| Variable | Value | Key |\n|---|---|---|");
    let _ = writeln!(
        out,
        "| `GCWATCH_CONFIG` | path | the configuration file, as `--config` |"
    );
    let mut listed: Vec<String> = Vec::new();
    for variable in environment::variables() {
        let name = any_signal(&variable.name);
        if listed.contains(&name) {
            continue;
        }
        let mut key = variable.path.clone();
        if name.contains("<SIGNAL>") {
            key = key.replacen("otlp.traces.", "otlp.<signal>.", 1);
        }
        let _ = writeln!(out, "| `{name}` | {} | `{key}` |", form(variable.form, &variable.path));
        listed.push(name);
    }
}

fn form(form: Form, path: &str) -> String {
    match form {
        Form::Text if path.ends_with("endpoint") => "URL",
        Form::Text if path == "listen" => "address:port or `none`",
        Form::Text if path == "log.level" => "level, also per module",
        Form::Text if path.contains("certificate") || path.ends_with("key") => "path",
        Form::Text => "string",
        Form::Word => {
            let rule = schema().at(&KeyPath::from_dotted(path)).map(|(rule, _)| words(rule));
            let words: Vec<String> = rule
                .into_iter()
                .flatten()
                .map(|(word, _)| format!("`{word}`"))
                .collect();
            return if words.is_empty() {
                "level".to_owned()
            } else {
                words.join(", ")
            };
        }
        Form::Count => "integer",
        Form::Milliseconds => "milliseconds",
        Form::Truth => "`true`, `false`",
        Form::Disabled => "`true`: disables OTLP",
        Form::Exporter => "`otlp`, `none`",
        Form::Headers | Form::Attributes => "`name=value,name=value`, percent-encoded",
        Form::Temporality => "`cumulative`, `delta`, `lowmemory` (like `delta`)",
        Form::Histogram => "`explicit_bucket_histogram`, `base2_exponential_bucket_histogram`",
    }
    .to_owned()
}
