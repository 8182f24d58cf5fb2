//! Functions on parts of a schema: words, types, and supported keywords.

use serde_json::{Map, Value};

use super::Format;

/// Returns the words that a rule allows (`enum`, or `oneOf` of constants), each with its description. The list is empty
/// if the rule does not define words.
pub fn words(rule: &Value) -> Vec<(&str, Option<&str>)> {
    let plain = rule.get("enum").and_then(Value::as_array).into_iter().flatten();
    let described = rule.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let plain = plain.filter_map(|word| Some((word.as_str()?, None)));
    plain
        .chain(described.flat_map(|one| {
            let description = one.get("description").and_then(Value::as_str);
            let constant = one.get("const").and_then(Value::as_str);
            let several = one.get("enum").and_then(Value::as_array).into_iter().flatten();
            constant
                .into_iter()
                .chain(several.filter_map(Value::as_str))
                .map(move |word| (word, description))
        }))
        .collect()
}

/// Returns the type of a rule, ignoring `null`, or `None` if the rule has no type.
pub fn type_of(rule: &Value) -> Option<&str> {
    match rule.get("type") {
        Some(Value::String(name)) => Some(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ => None,
    }
}

/// Returns the element of `known` that `text` probably misspells, or `None` if no element is similar.
pub fn nearest<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Long texts are not misspellings, and the time of the comparison is the product of both lengths.
    if text.len() > 80 {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let text = plain(text);
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&text, &plain(known)), known))
        .filter(|(distance, known)| *distance <= (known.len() / 3).clamp(1, 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Returns a question that suggests the [`nearest`] word, or `None` if no word is similar.
pub fn did_you_mean<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> Option<String> {
    nearest(text, known).map(|near| format!("did you mean `{near}`?"))
}

/// Returns the keywords of a schema that [`super::Schema::check`] does not support. With such a keyword, the check
/// would accept documents that the schema rejects. Intended for tests of schemas.
pub fn unknown_keywords(schema: &Value, formats: &[Format]) -> Vec<String> {
    const CHECKED: [&str; 23] = [
        "type",
        "properties",
        "additionalProperties",
        "required",
        "items",
        "enum",
        "const",
        "oneOf",
        "anyOf",
        "$ref",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "x-minimum",
        "x-maximum",
        "x-secret",
        "x-removed",
        "$defs",
    ];
    const INFORMATIVE: [&str; 7] = [
        "$schema",
        "$id",
        "title",
        "description",
        "default",
        "examples",
        "x-default",
    ];
    const INTEGERS: [&str; 8] = [
        "uint8", "uint16", "uint32", "uint64", "uint", "int32", "int64", "double",
    ];
    let mut unknown = Vec::new();
    let mut rules = vec![schema];
    while let Some(rule) = rules.pop() {
        for (keyword, value) in rule.as_object().into_iter().flatten() {
            let format = rule.get("format").and_then(Value::as_str).unwrap_or_default();
            let checked = formats.iter().any(|known| known.name == format);
            match keyword.as_str() {
                "properties" | "$defs" => rules.extend(value.as_object().into_iter().flat_map(Map::values)),
                "items" | "additionalProperties" => rules.push(value),
                "oneOf" | "anyOf" => rules.extend(value.as_array().into_iter().flatten()),
                "format" if checked || INTEGERS.contains(&format) => {}
                // The pattern is for editors. The format performs the same check with better messages.
                "pattern" if checked => {}
                known if CHECKED.contains(&known) || INFORMATIVE.contains(&known) => {}
                "x-restart" | "x-expression" | "x-template" => {}
                other => unknown.push(format!("{other}: {value}")),
            }
        }
    }
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Schema;
    use crate::path::KeyPath;
    use crate::yaml::{Bounds, parse};
    use serde_json::json;

    /// Returns the value of a document, and its findings with one line each.
    fn checked(schema: &Value, text: &str) -> (Option<Value>, Vec<String>) {
        let node = parse(text, Bounds::default()).unwrap().unwrap();
        let (value, findings) = Schema::new(schema, &[]).check(&node, &KeyPath::default());
        let line = |finding: &crate::check::Finding| format!("{} {}", finding.path, finding.fault);
        (value, findings.iter().map(line).collect())
    }

    /// Scenario: a schema has required keys, lists of a type that refers to itself, and words.
    /// Guarantee: valid parts become values in the types of the schema; faults have their position.
    #[test]
    fn recursive_schema_is_checked() {
        let schema = json!({
            "$ref": "#/$defs/Rule",
            "$defs": { "Rule": {
                "type": "object",
                "additionalProperties": false,
                "required": ["id"],
                "properties": {
                    "id": { "type": "string" },
                    "severity": { "enum": ["info", "error"] },
                    "limit": { "anyOf": [{ "type": "integer", "format": "uint8" }, { "type": "null" }] },
                    "rules": { "type": "array", "items": { "$ref": "#/$defs/Rule" } }
                }
            }}
        });
        assert_eq!(unknown_keywords(&schema, &[]), Vec::<String>::new());
        let text = "id: 7\nseverity: error\nlimit: 0xff\nrules: [{id: a}]";
        let value = json!({ "id": "7", "severity": "error", "limit": 255, "rules": [{ "id": "a" }] });
        assert_eq!(checked(&schema, text), (Some(value), vec![]));
        let (_, faults) = checked(&schema, "severity: eror\nlimit: 256\nrules:\n  - {id: }\n  - {idd: a}");
        assert_eq!(
            faults,
            [
                "severity 1:11: `eror` is not one of info, error; did you mean `error`?",
                "limit 2:8: `256` is too large; at most 255",
                "rules[0].id 4:6: a value is missing here",
                "rules[1] 5:6: unknown key `idd`; did you mean `id`?",
                "rules[1] 5:5: the key `id` is missing",
                " 1:1: the key `id` is missing",
            ]
        );
    }

    /// Scenario: a document contains a removed key and a removed word.
    /// Guarantee: each fault contains the replacement and the position.
    #[test]
    fn removed_key_fault_contains_replacement() {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "mode": { "$ref": "#/$defs/Mode", "x-removed": { "port": "use `pull`" } },
                "mood": { "type": "string" }
            },
            "x-removed": { "moode": "there is `mode`" },
            "$defs": { "Mode": { "enum": ["pull", "push"] } }
        });
        let (_, faults) = checked(&schema, "mode: port\nmoode: a\nmodes: b");
        assert_eq!(
            faults,
            [
                "mode 1:7: `port` was removed: use `pull`",
                " 2:1: `moode` was removed: there is `mode`",
                " 3:1: unknown key `modes`; did you mean `mode`?",
            ]
        );
    }

    /// Scenario: schemas have a keyword, a pattern and a format that the check does not support.
    /// Guarantee: each is listed.
    #[test]
    fn unsupported_keyword_is_listed() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": { "type": "string", "pattern": "^x$" },
                "b": { "type": "string", "format": "uuid" },
                "c": { "type": "array", "items": { "not": {} } }
            }
        });
        let mut unknown = unknown_keywords(&schema, &[]);
        unknown.sort();
        assert_eq!(unknown, ["format: \"uuid\"", "not: {}", "pattern: \"^x$\""]);
    }

    /// Scenario: words are misspelled, or have nothing in common with known words.
    /// Guarantee: a misspelled word finds the intended word, and the other words find no word.
    #[test]
    fn misspelled_word_finds_intended_word() {
        let known = ["endpoint", "timeout", "headers_from", "id"];
        let near = |text| nearest(text, known);
        assert_eq!(near("endpiont"), Some("endpoint"));
        assert_eq!(near("Headers-From"), Some("headers_from"));
        assert_eq!(near("colour"), None);
        assert_eq!(near(&"x".repeat(10_000)), None);
    }
}
