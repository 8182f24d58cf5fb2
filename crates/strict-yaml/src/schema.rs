//! Prepares JSON schemas from `schemars` for editors and for [`crate::check`].

use serde_json::Value;

/// Removes defaults without information (of sections, whose keys have their own defaults; empty maps; `null`) and the
/// line breaks of doc comments.
pub fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if matches!(map.get("default"), Some(Value::Object(_) | Value::Null)) {
                map.shift_remove("default");
            }
            // Line breaks of doc comments have no meaning.
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}
