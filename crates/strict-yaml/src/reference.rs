//! Cells of reference tables from a schema: the values of a key, and its default.

use serde_json::Value;

use crate::check::{self, Schema};

/// Returns the values of a key with their limits as a table cell: `duration, at least 1s`. `property` is the schema of
/// the key, and `rule` is the same schema with its reference followed.
pub fn values(schema: Schema<'_>, property: &Value, rule: &Value) -> String {
    let words = check::words(rule);
    if !words.is_empty() {
        let words = words.iter().map(|(word, described)| {
            let described = described.map(|text| format!(": {}", uncapitalized(text.trim_end_matches('.'))));
            format!("`{word}`{}", described.unwrap_or_default())
        });
        return words.collect::<Vec<_>>().join("<br>");
    }
    let format = rule.get("format").and_then(Value::as_str);
    let format = format.and_then(|name| schema.format(name));
    let kind = match (check::type_of(rule), format) {
        (_, Some(format)) => format.kind,
        (Some("boolean"), _) => "`true`, `false`",
        (Some("integer"), _) => "integer",
        (Some("number"), _) => "number",
        (Some("array"), _) if rule.get("items").is_some_and(|items| items.get("format").is_some()) => {
            "list of durations"
        }
        (Some("array"), _) if rule.get("items").and_then(check::type_of) == Some("string") => "list of strings",
        (Some("array"), _) => "list, see below",
        (Some("object"), _) if inner_is_string(rule) => "names and strings",
        (Some("object"), _) => "names, see below",
        _ => "string",
    };
    let bound = |plain: &str, own: &str| {
        let bound = property.get(own).or_else(|| property.get(plain))?;
        Some(bound.as_str().map_or_else(|| bound.to_string(), str::to_owned))
    };
    let bounds = match (bound("minimum", "x-minimum"), bound("maximum", "x-maximum")) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(", at least {least}"),
        (None, Some(most)) => format!(", at most {most}"),
        (None, None) => String::new(),
    };
    format!("{kind}{bounds}")
}

fn inner_is_string(rule: &Value) -> bool {
    rule.get("additionalProperties")
        .is_some_and(|rule| check::type_of(rule) == Some("string"))
}

/// Wraps a paragraph at 120 columns.
pub fn paragraph(text: &str) -> String {
    const COLUMNS: usize = 120;
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

/// Returns the text with a lower-case first letter, for the middle of a sentence. Names (`gRPC`, `JSON`) are unchanged.
pub fn uncapitalized(text: &str) -> String {
    let name = text.chars().nth(1).is_some_and(char::is_uppercase);
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if !name => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

/// Returns the default of a key as a table cell. `x-default` in the schema describes the default in words. The cell is
/// empty if the key has no default.
pub fn default(property: &Value) -> String {
    if let Some(words) = property.get("x-default").and_then(Value::as_str) {
        return words.to_owned();
    }
    match property.get("default") {
        Some(Value::String(text)) => format!("`{text}`"),
        Some(Value::Array(items)) if !items.is_empty() => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            format!("`[{}]`", items.join(", "))
        }
        Some(Value::Array(_)) | None => String::new(),
        Some(other) => format!("`{other}`"),
    }
}
