//! Finds differences between two configurations that require a restart.

use serde_json::Value;

use super::document::Document;
use super::schema::schema;
use strict_yaml::path::KeyPath;

/// Returns the keys that differ and that the schema marks with `x-restart`.
pub(crate) fn restart(old: &Document, new: &Document) -> Vec<KeyPath> {
    let tree = |document: &Document| serde_json::to_value(document).unwrap_or_default();
    let mut found = Vec::new();
    differing(&tree(old), &tree(new), &KeyPath::default(), &mut found);
    found
}

fn differing(old: &Value, new: &Value, path: &KeyPath, found: &mut Vec<KeyPath>) {
    if old == new {
        return;
    }
    if needs_restart(path) {
        found.push(path.clone());
        return;
    }
    if let (Value::Object(old), Value::Object(new)) = (old, new) {
        for (key, value) in new {
            differing(old.get(key).unwrap_or(&Value::Null), value, &path.key(key), found);
        }
    }
}

/// Returns whether the schema marks exactly this key with `x-restart`.
fn needs_restart(path: &KeyPath) -> bool {
    let rule = schema().property(path);
    rule.is_some_and(|rule| rule.get("x-restart") == Some(&Value::Bool(true)))
}
