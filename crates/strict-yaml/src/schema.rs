//! JSON schemas as `schemars` makes them from types, made fit for editors and for [`crate::check`].

use serde_json::Value;

/// Takes away defaults that say nothing: of sections, whose keys have their own, of empty maps, and `null`; and the line breaks of
/// doc comments.
pub fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if matches!(map.get("default"), Some(Value::Object(_) | Value::Null)) {
                map.shift_remove("default");
            }
            // Where a doc comment's lines break says nothing.
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}
