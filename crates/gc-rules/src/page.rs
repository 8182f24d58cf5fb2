//! The reference page `docs/rules-reference.md`, made from the types of rule files, the functions and the table of fields.

use std::fmt::Write as _;

use serde_json::Value;

use super::compile::{MAX_NESTING, MAX_TEXT, MAX_TOKENS};
use super::document::FunctionWord;
use super::document::schema::{SCHEMA, schema};
use super::field::{self, Field, Root};
use super::template::{MOST_LABEL_BYTES, MOST_TEXT_BYTES, UNKNOWN};
use strict_yaml::check;
use strict_yaml::reference::{default, uncapitalized, values};

const INTRODUCTION: &str = "\
# Rules: reference

<!-- Made from the types and tables in src/rules: do not edit. `GCWATCH_UPDATE_GOLDEN=1 cargo test --test suite rules` writes it. -->

A rule says on which collection, or in which state of a process, an alert fires. `gcwatch rules check FILE...` says everything that is
wrong with files of rules, each with file, line and column; `gcwatch rules list` shows the rules that ship.

";

/// The example; a test loads it.
const EXAMPLE: &str = "\
# yaml-language-server: $schema=gcwatch-rules.schema.json
apiVersion: gcwatch/v1
groups:
  pauses: The program is stopped for too long
macros:
  full_blocking: |
    gc.generation == 2 && gc.blocking
rules:
  - id: gc.pause.unusual
    title: A full collection took much longer than others of its kind
    on: gc
    severity: warning
    group: pauses
    let:
      usual: {fn: median, of: gc.pause_ms, last: 20, by: generation_and_type}
    when: |
      full_blocking && gc.pause_ms > 200.0 && gc.pause_ms > 10.0 * usual
    cooldown: 5m
    summary: \"gen{{ gc.generation }} paused {{ gc.pause_ms | ms }}, usually {{ usual | ms }}\"
    description: Much more survived than usual, or the process did not get its CPUs.
    remedy: Compare what was promoted; look at CPU throttling.
  - id: process.pauses.share
    title: Much of the time goes into pauses
    on: process
    severity: error
    group: pauses
    let:
      share: {fn: share, of: gc.pause_ns, over: 1m, min_watched: 30s}
    when: share > 0.15
    clear: share < 0.1
    for: 30s
    summary: \"{{ share | percent }} of the last minute in pauses\"
    description: The program stands still for the collector.
    remedy: Allocate less, or allow a larger generation 0.
";

const FORM: &str = "\
Files are YAML 1.2 of the plain kind: no anchors, aliases, tags or merge keys, no key twice; an empty value is a key that is not set.
Durations have a unit: `500ms`, `30s`, `5m`, `1h`. Conditions are best written as blocks (below `|`): in an unquoted text YAML takes
` #` for the beginning of a comment and a leading `!` for a tag. So an unquoted condition has to stand on one line, without a comment
after it.

Several files are read in order. Macros and lists belong to their file, groups and ids to all of them. A later file changes rules of
those before it by `overrides`:

```yaml
apiVersion: gcwatch/v1
overrides:
  - id: gc.pause.*
    replace: {severity: info, cooldown: 1h}
    add:
      exceptions:
        - {name: nightly report, when: process.name == 'Report', until: 2027-03-01}
  - id: process.pauses.share
    replace: {enabled: false}
```

## Keys

";

const EXPRESSIONS: &str = "\
## Expressions

Expressions are a part of [CEL](https://cel.dev); all of it is checked when a file is read.

| | |
|---|---|
| `&&`, `\\|\\|`, `!` | and, or, not |
| `==`, `!=`, `<`, `<=`, `>`, `>=` | numbers with numbers, texts with texts |
| `+`, `-`, `*`, `/`, `%` | numbers of one type: `2 * gc.number`, `2.0 * gc.pause_ms` |
| `a ? b : c` | a choice |
| `'Induced' in induced`, `gc.generation in [0, 1]` | one of several |
| `a.contains('b')`, `a.startsWith('b')`, `a.endsWith('b')`, `a.matches('^b+$')` | texts; a pattern stands in quotes |
| `size(a)` | characters of a text, elements of a list |
| `double(a)`, `int(a)` | a number of the other type, towards zero |
| `has(gc.trigger)` | whether a field, an attribute or a window is known |
| `process.attributes['k8s.namespace.name']` | an attribute of the process's resource, as text |
| `// ...` | a comment |

**Unknown** is a third value. What was never seen is unknown, and so is what is computed from it, unless the rest decides:
`false && unknown` is false, `true || unknown` is true. A condition that is unknown fires nothing and clears nothing at once.

";

/// What each expression may use.
const USES: &str = "\
| Where | Fields | Windows |
|---|---|---|
| `when`, `exceptions[].when`, templates of a rule `on: gc` | all but `suspension.*` | yes |
| `when`, `clear`, `exceptions[].when`, templates of a rule `on: process` | all but `gc.*`, `suspension.*` | yes |
| `select` | `process.*`, `settings.*`, `container.*` | no |
| `of`, `where` of a window | all; `gc.*` and `suspension.*` not together | no |

";

const WINDOWS: &str = "\
## Functions of windows

A window has the value of `fn` over its samples, a double; with fewer than `min_samples` it is unknown. *Least* is what `min_samples` may
be at least; where it is not set, a window with `last` asks for no more than it can have. Samples are taken at each collection where `of`
or `where` names a field of `gc.*` (or no field at all), at each stop without a collection where they name one of `suspension.*`, and once
a second else.

";

const TEMPLATES: &str = "\
## Templates

`summary`, `labels` and `annotations` are texts with values in them: `{{ expression }}` or `{{ expression | filter }}`.

| Filter | |
|---|---|
| none | a whole number as it is, a double with three digits that say something |
| `round(n)` | with n digits after the point |
| `bytes` | `1.5 GiB` |
| `percent` | of a share: `12.5 %` |
| `ms` | of milliseconds: `350 ms`, `1.2 s`, `2 min 5 s` |
| `s` | of seconds: `2 min 5 s` |

";

/// The page.
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
        "What is unknown is `{UNKNOWN}`. A text has at most {MOST_TEXT_BYTES} bytes, the value of a label {MOST_LABEL_BYTES}; more is cut. \
         Control characters in values are written as escapes.\n\n"
    );
    limits(&mut out);
    fields(&mut out);
    out
}

/// The example in the page.
#[cfg(test)]
fn example() -> &'static str {
    EXAMPLE
}

/// The sections of a file: the heading, and the path to the keys by steps; `[]` and `NAME` stand for any element.
const SECTIONS: [(&str, &str); 8] = [
    ("The file", ""),
    ("`defaults`", "/$defs/Defaults"),
    ("`requires`", "/$defs/Requires"),
    ("`family`", "/$defs/Family"),
    ("`rules[]`", "/$defs/Rule"),
    ("`rules[].let.NAME`", "/$defs/WindowKeys"),
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
            let _ = write!(out, "{description}\n\n");
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
            let value = if description == "As in a rule." {
                "see [`rules[]`](#rules)".to_owned()
            } else {
                value_of(key, property)
            };
            let _ = writeln!(out, "| `{key}` | {value} | {usual} | {} |", cell(description));
        }
        out.push('\n');
    }
}

/// What belongs under a key.
fn value_of(key: &str, property: &Value) -> String {
    let rule = schema().resolved(property);
    if property.get("x-template").is_some() {
        return "template".to_owned();
    }
    if let Some(kind) = property.get("x-expression").and_then(Value::as_str) {
        return if kind == "bool" {
            "condition"
        } else {
            "expression, a number"
        }
        .to_owned();
    }
    let words = rule.get("items").map(|items| check::words(schema().resolved(items)));
    if let Some(words) = words.filter(|words| !words.is_empty()) {
        let told = words.iter().map(|(word, told)| {
            format!(
                "`{word}`: {}",
                uncapitalized(told.unwrap_or_default().trim_end_matches('.'))
            )
        });
        return format!("list of<br>{}", told.collect::<Vec<_>>().join("<br>"));
    }
    match key {
        "fn" => "see [functions](#functions-of-windows)".to_owned(),
        "labels" | "annotations" => "names and templates".to_owned(),
        "macros" => "names and expressions".to_owned(),
        "lists" => "names and lists of texts".to_owned(),
        "fields" => "list of fields".to_owned(),
        "replace" => "keys of [a rule](#rules)".to_owned(),
        "add" => "`labels`, `annotations`, `exceptions`".to_owned(),
        "requires" | "family" | "defaults" => "section, see below".to_owned(),
        _ => values(schema(), property, rule),
    }
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn functions(out: &mut String) {
    let path = check_path();
    let words = schema()
        .at(&path)
        .map(|(rule, _)| check::words(rule))
        .unwrap_or_default();
    out.push_str("| `fn` | of | `where` | reaches back | `min_samples` | Least | |\n|---|---|---|---|---|---|---|\n");
    for function in FunctionWord::ALL {
        let (name, traits) = (function.name(), function.traits());
        let told = words
            .iter()
            .find(|(word, _)| *word == name)
            .and_then(|(_, told)| *told)
            .unwrap_or_default();
        let of = match function {
            FunctionWord::Share => "a time in ns",
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
            cell(told)
        );
    }
    out.push('\n');
}

fn check_path() -> strict_yaml::path::KeyPath {
    let rule = strict_yaml::path::KeyPath::of("rules").index(0);
    rule.key("let").key("NAME").key("fn")
}

fn limits(out: &mut String) {
    let _ = write!(
        out,
        "\
## Limits

| | At most |
|---|---|
| a file | 1 MiB, 1000 rules, 1000 overrides |
| files together | {} |
| an expression | {MAX_TEXT} bytes, {MAX_TOKENS} words and signs, {MAX_NESTING} brackets in each other |
| windows of a rule | 16 |
| a window | `over: 24h`, `last: 4096` |
| labels, annotations of a rule | 20 each |
| exceptions of a list | 50 |

",
        super::load::MOST_FILES
    );
}

fn fields(out: &mut String) {
    let sections = [
        (Root::Gc, "`gc.*`: the collection that was just told"),
        (
            Root::Suspension,
            "`suspension.*`: a stop in which no collection ran; in windows only",
        ),
        (
            Root::Process,
            "`process.*`, `settings.*`, `container.*`: what is known of the process",
        ),
        (
            Root::Stream,
            "`stream.*`, `open.*`: how well the process is read, and what is under way",
        ),
    ];
    out.push_str("## Fields\n\nEach field can be unknown; the table says when, where that is not plain.\n\n");
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
    // One line break ends a file.
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

    /// Scenario: the examples in the page, in their order.
    /// Guarantee: they load, the overrides fit the rules, and nothing is odd.
    #[test]
    fn the_examples_load() {
        let page = text();
        let examples = page
            .split("```yaml\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap());
        let files: Vec<SourceFile> = examples
            .map(|text| SourceFile {
                name: "page".to_owned(),
                text: text.to_owned(),
            })
            .collect();
        assert_eq!(files.len(), 2);
        assert_eq!(files[0].text, example());
        let loaded = load(&files).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let told: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(told, Vec::<String>::new());
        assert!(!loaded.rules.rule("process.pauses.share").unwrap().enabled);
    }

    /// Scenario: the sections of the page and the types in the schema.
    /// Guarantee: each section is there, and each type that has keys is in the page, or is said to be like another.
    #[test]
    fn every_section_is_in_the_page() {
        for (heading, pointer) in SECTIONS {
            assert!(SCHEMA.pointer(pointer).is_some(), "{heading}");
        }
        let types = SCHEMA.get("$defs").and_then(Value::as_object).unwrap();
        for (name, rule) in types {
            let told = SECTIONS
                .iter()
                .any(|(_, pointer)| pointer.ends_with(&format!("/{name}")));
            let like = ["Replace", "Add"].contains(&name.as_str());
            assert!(told || like || rule.get("properties").is_none(), "{name}");
        }
    }
}
