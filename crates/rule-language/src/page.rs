//! Generates the reference page `docs/rules-reference.md` from the types of rule files, the functions and the table of
//! fields.

use std::fmt::Write as _;

use rule_engine::field::{self, Field, Root};
use rule_engine::rule::Function;
use rule_engine::template::{MAX_LABEL_BYTES, MAX_TEXT_BYTES, UNKNOWN};
use serde_json::Value;
use strict_yaml::check;
use strict_yaml::path::KeyPath;
use strict_yaml::reference::{default, paragraph, uncapitalized, values};

use super::compile::{MAX_NESTING, MAX_TEXT, MAX_TOKENS};
use super::document::schema::{SCHEMA, schema};

pub mod catalogue;
mod prose;

use prose::{EXAMPLE, EXPRESSIONS, FORM, INTRODUCTION, TEMPLATES, USES, WINDOWS};

/// Returns the page.
pub fn text() -> String {
    let mut out = String::from(INTRODUCTION);
    let _ = write!(out, "```yaml\n{EXAMPLE}```\n\n{FORM}");
    keys(&mut out);
    out.push_str(EXPRESSIONS);
    out.push_str(USES);
    out.push_str(WINDOWS);
    functions(&mut out);
    out.push_str(TEMPLATES);
    let _ = write!(
        out,
        "Unknown values are `{UNKNOWN}`. A string has at most {MAX_TEXT_BYTES} bytes, the value of a label {MAX_LABEL_BYTES}; the rest is\n\
         truncated. Control characters in values are escaped.\n\n"
    );
    limits(&mut out);
    fields(&mut out);
    out
}

/// The sections of a file: the heading, and the location in the schema. `[]` and `NAME` stand for any element.
const SECTIONS: [(&str, &str); 10] = [
    ("The file", ""),
    ("`defaults`", "/$defs/Defaults"),
    ("`requires`", "/$defs/Requires"),
    ("`family`", "/$defs/Family"),
    ("`rules[]`", "/$defs/Rule"),
    ("`rules[].let.NAME`", "/$defs/WindowKeys"),
    ("`rules[].worse`", "/$defs/Worse"),
    ("`rules[].params_for[]`", "/$defs/ParamsFor"),
    ("`rules[].exceptions[]`", "/$defs/ExceptionKeys"),
    ("`overrides[]`", "/$defs/Override"),
];

fn keys(out: &mut String) {
    for (heading, pointer) in SECTIONS {
        let Some(rule) = SCHEMA.pointer(pointer) else { continue };
        let _ = write!(out, "### {heading}\n\n");
        if let Some(description) = rule.get("description").and_then(Value::as_str)
            && !pointer.is_empty()
        {
            let _ = write!(out, "{}\n\n", paragraph(description));
        }
        out.push_str("| Key | Value | Default | |\n|---|---|---|---|\n");
        let required: Vec<&str> = rule
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = rule.get("properties").and_then(Value::as_object).into_iter().flatten();
        for (key, property) in properties {
            let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
            let usual = if required.contains(&key.as_str()) {
                "**required**".to_owned()
            } else {
                default(property)
            };
            let value = if description == "See the key of a rule." {
                "see [`rules[]`](#rules)".to_owned()
            } else {
                value_of(key, property)
            };
            let _ = writeln!(out, "| `{key}` | {value} | {usual} | {} |", cell(description));
        }
        out.push('\n');
    }
}

/// Returns the possible values of a key.
fn value_of(key: &str, property: &Value) -> String {
    let rule = schema().resolved(property);
    if property.get("x-template").is_some() {
        return "template".to_owned();
    }
    if let Some(kind) = property.get("x-expression").and_then(Value::as_str) {
        let is_condition = kind == "bool";
        return String::from(if is_condition {
            "condition"
        } else {
            "expression, a number"
        });
    }
    let words = rule.get("items").map(|items| check::words(schema().resolved(items)));
    if let Some(words) = words.filter(|words| !words.is_empty()) {
        let words = words.iter().map(|(word, description)| {
            format!(
                "`{word}`: {}",
                uncapitalized(description.unwrap_or_default().trim_end_matches('.'))
            )
        });
        return format!("list of<br>{}", words.collect::<Vec<_>>().join("<br>"));
    }
    match key {
        "fn" => "see [functions](#functions-of-windows)".to_owned(),
        "labels" | "annotations" => "names and templates".to_owned(),
        "params" => "names and values".to_owned(),
        "macros" => "names and expressions".to_owned(),
        "fields" => "list of fields".to_owned(),
        "evidence" => "list of `ledger`, `black-box`, `callers`, `allocations`".to_owned(),
        "replace" => "keys of [a rule](#rules)".to_owned(),
        "add" => "`labels`, `annotations`, `exceptions`, `params`, `params_for`".to_owned(),
        "requires" | "family" | "defaults" | "worse" => "section, see below".to_owned(),
        _ => values(schema(), property, rule),
    }
}

/// Escapes a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn functions(out: &mut String) {
    let path = KeyPath::from_dotted("rules").index(0).key("let").key("NAME").key("fn");
    let words = schema()
        .at(&path)
        .map(|(rule, _)| check::words(rule))
        .unwrap_or_default();
    out.push_str("| `fn` | `of` | `where` | Length | `min_samples` | Minimum | |\n|---|---|---|---|---|---|---|\n");
    for function in Function::ALL.iter().copied() {
        let (name, traits) = (function.name(), function.traits());
        let description = words
            .iter()
            .find(|(word, _)| *word == name)
            .and_then(|(_, description)| *description)
            .unwrap_or_default();
        let of = match function {
            Function::Share => "a duration in ns",
            _ if traits.of => "a number",
            _ => "",
        };
        let filter = if traits.needs_where { "required" } else { "" };
        let extent = if traits.needs_over {
            "`over`"
        } else {
            "`over` or `last`"
        };
        let _ = writeln!(
            out,
            "| `{name}` | {of} | {filter} | {extent} | {} | {} | {} |",
            traits.usual_samples,
            traits.least_samples,
            cell(description)
        );
    }
    out.push('\n');
}

fn limits(out: &mut String) {
    let _ = write!(
        out,
        "\
## Limits

| | At most |
|---|---|
| a file | 1 MiB, 1000 rules, 1000 overrides |
| files | {} |
| an expression | {MAX_TEXT} bytes, {MAX_TOKENS} tokens, {MAX_NESTING} nested brackets |
| windows of a rule | 16 |
| a window | `over: 24h`, `last: 4096` |
| labels, annotations of a rule | 20 each |
| exceptions of a rule or override | 50 |

",
        super::load::MAX_FILES
    );
}

fn fields(out: &mut String) {
    let sections = [
        (Root::Gc, "`gc.*`: the current collection"),
        (
            Root::Suspension,
            "`suspension.*`: a suspension without a collection; only in windows",
        ),
        (Root::Process, "`process.*`, `settings.*`, `container.*`: the process"),
        (
            Root::Stream,
            "`stream.*`, `open.*`: health of the event stream, and operations in progress",
        ),
        (
            Root::Service,
            "`service.*`: a service on this host; only in rules `on: service`",
        ),
        (
            Root::Watcher,
            "`watcher.*`: gcwatch itself; only in rules `on: watcher`",
        ),
    ];
    out.push_str("## Fields\n\nEach field can be unknown. The table states when, unless it is obvious.\n\n");
    for (root, heading) in sections {
        let _ = write!(out, "### {heading}\n\n| Field | Type | Unit | |\n|---|---|---|---|\n");
        for field in field::ALL.iter().filter(|field| field.root == root) {
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} |",
                field.name,
                field.kind.name(),
                field.unit,
                meaning(field)
            );
        }
        out.push('\n');
    }
    // A file ends with one line break.
    out.pop();
}

fn meaning(field: &Field) -> String {
    let mut text = cell(field.description);
    if !field.words.is_empty() {
        let words: Vec<String> = field.words.iter().map(|word| format!("`{word}`")).collect();
        let _ = write!(text, " One of {}.", words.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{SourceFile, load};

    /// Scenario: the examples of the page are loaded in their order.
    /// Guarantee: the examples load without warnings, and the overrides match the rules.
    #[test]
    fn examples_of_page_load() {
        let page = text();
        let examples = page
            .split("```yaml\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap());
        let files: Vec<SourceFile> = examples.map(|text| SourceFile::new("page", text)).collect();
        assert_eq!(files.len(), 2);
        assert_eq!(files[0].text, EXAMPLE);
        let loaded = load(&files).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, Vec::<String>::new());
        assert!(!loaded.rules.rule("process.pauses.share").unwrap().enabled);
    }

    /// Scenario: the sections of the page are compared with the types in the schema.
    /// Guarantee: each section exists in the schema. Each type with keys has a section, except `Replace` and `Add`,
    /// whose keys other sections describe.
    #[test]
    fn every_section_is_on_page() {
        for (heading, pointer) in SECTIONS {
            assert!(SCHEMA.pointer(pointer).is_some(), "{heading}");
        }
        let types = SCHEMA.get("$defs").and_then(Value::as_object).unwrap();
        for (name, rule) in types {
            let described = SECTIONS
                .iter()
                .any(|(_, pointer)| pointer.ends_with(&format!("/{name}")));
            let like = ["Replace", "Add"].contains(&name.as_str());
            assert!(described || like || rule.get("properties").is_none(), "{name}");
        }
    }
}
