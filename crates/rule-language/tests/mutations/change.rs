//! Changes to a rule file.

use serde_json::{Map, Value};
use strict_yaml::yaml::{Bounds, Kind, Node, parse};

use crate::expression::{moved, shorter};

/// A file with one change.
pub(crate) struct ChangedFile {
    /// Id of the changed rule; `None` if the change is in a macro.
    pub(crate) rule: Option<String>,
    /// Description: the rule, the key and the change.
    pub(crate) what: String,
    /// Text of the changed file.
    pub(crate) text: String,
}

/// Returns the file in the format of the changed files: JSON, which is also YAML.
pub(crate) fn unchanged(text: &str) -> String {
    written(&tree(text))
}

/// Returns all changes to a file.
pub(crate) fn changes(text: &str) -> Vec<ChangedFile> {
    let tree = tree(text);
    let mut changes = Vec::new();
    for (name, pointer) in expressions(&tree) {
        let Some(expression) = tree.pointer(&pointer).and_then(Value::as_str) else {
            continue;
        };
        let others = moved(expression).into_iter().chain(shorter(expression));
        changes.extend(others.map(|(what, other)| {
            let mut tree = tree.clone();
            *tree.pointer_mut(&pointer).unwrap() = Value::String(other);
            ChangedFile {
                rule: name.split_once(": ").map(|(rule, _)| rule.to_owned()),
                what: format!("{name}: {what}"),
                text: written(&tree),
            }
        }));
    }
    for (place, rule) in rules(&tree).iter().enumerate() {
        if rule.get("clear").is_some() {
            let mut tree = tree.clone();
            let rule = tree.pointer_mut(&format!("/rules/{place}")).unwrap();
            let id = rule["id"].as_str().unwrap().to_owned();
            rule.as_object_mut().unwrap().remove("clear");
            changes.push(ChangedFile {
                rule: Some(id.clone()),
                what: format!("{id}: without clear"),
                text: written(&tree),
            });
        }
    }
    changes
}

fn rules(tree: &Value) -> &[Value] {
    tree["rules"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the name of each condition, and its location in the tree.
fn expressions(tree: &Value) -> Vec<(String, String)> {
    let names = |value: &Value| -> Vec<String> {
        value
            .as_object()
            .map(|object| object.keys().cloned().collect())
            .unwrap_or_default()
    };
    // Macros and windows that only templates use are not conditions.
    let conditions: Vec<String> = rules(tree).iter().flat_map(conditions).collect();
    let is_used = |name: &String| {
        let is_word = |text: &String| {
            text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .any(|word| word == name)
        };
        conditions.iter().any(is_word)
            || names(&tree["macros"]).iter().any(|other| {
                tree["macros"][other]
                    .as_str()
                    .is_some_and(|text| is_word(&text.to_owned()))
            })
    };
    let mut found: Vec<(String, String)> = names(&tree["macros"])
        .into_iter()
        .filter(is_used)
        .map(|name| (format!("macro {name}"), format!("/macros/{name}")))
        .collect();
    for (place, rule) in rules(tree).iter().enumerate() {
        let id = rule["id"].as_str().unwrap();
        for key in ["select", "when", "clear"] {
            found.push((format!("{id}: {key}"), format!("/rules/{place}/{key}")));
        }
        for name in names(&rule["let"]) {
            found.push((
                format!("{id}: {name}: where"),
                format!("/rules/{place}/let/{name}/where"),
            ));
        }
    }
    found
}

/// Returns the texts of the conditions of a rule.
fn conditions(rule: &Value) -> Vec<String> {
    let keys = ["select", "when", "clear"].iter().map(|key| &rule[*key]);
    let windows = rule["let"].as_object().into_iter().flat_map(Map::values);
    let all = keys.chain(windows.flat_map(|window| [&window["where"], &window["of"]]));
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn written(tree: &Value) -> String {
    format!("{tree:#}\n")
}

fn tree(text: &str) -> Value {
    value(&parse(text, Bounds::default()).unwrap().unwrap())
}

fn value(node: &Node) -> Value {
    match &node.kind {
        Kind::Scalar(scalar) if scalar.is_null() => Value::Null,
        Kind::Scalar(scalar) => {
            let integer = scalar.as_integer().and_then(|integer| i64::try_from(integer).ok());
            match (scalar.as_bool(), integer, scalar.as_number()) {
                (Some(boolean), _, _) => Value::Bool(boolean),
                (_, Some(integer), _) => integer.into(),
                (_, _, Some(number)) => number.into(),
                _ => Value::String(scalar.text.clone()),
            }
        }
        Kind::Sequence(items) => Value::Array(items.iter().map(value).collect()),
        Kind::Mapping(entries) => {
            let entries = entries.iter().map(|entry| (entry.key.clone(), value(&entry.value)));
            Value::Object(entries.collect::<Map<String, Value>>())
        }
    }
}
