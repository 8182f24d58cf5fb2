//! Prepares JSON schemas from `schemars` for editors and for [`crate::check`].

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Generates the schema of a document from its type.
pub fn for_document<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    schema
}

/// Returns a schema as the text of a file.
pub fn file_text(schema: &Value) -> String {
    // `{:#}` formats a `Value` with line breaks and indentation.
    format!("{schema:#}\n")
}

/// Removes the line breaks of doc comments, and defaults without information: `null`, empty maps, and the defaults of
/// sections, whose keys have their own defaults.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if matches!(map.get("default"), Some(Value::Object(_) | Value::Null)) {
                map.shift_remove("default");
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}
