//! Attributes as messages of `opentelemetry-proto`.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};

use rule_engine::field::FactValue;

use super::definition::Attribute;

/// Builder for a list of attributes. Unknown values are omitted.
#[derive(Debug, Default)]
pub struct Attributes(Vec<KeyValue>);

impl Attributes {
    /// Creates an empty list with space for `capacity` attributes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    /// Adds a string if known.
    pub fn text(&mut self, attribute: &Attribute, value: Option<impl Into<String>>) -> &mut Self {
        self.add(attribute, value.map(|text| Value::StringValue(text.into())))
    }

    /// Adds an integer if known. An integer that does not fit becomes `i64::MAX`.
    pub fn int(&mut self, attribute: &Attribute, value: Option<impl Into<u64>>) -> &mut Self {
        let int = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.add(attribute, value.map(|number| Value::IntValue(int(number.into()))))
    }

    pub fn into_list(self) -> Vec<KeyValue> {
        self.0
    }

    fn add(&mut self, attribute: &Attribute, value: Option<Value>) -> &mut Self {
        if let Some(value) = value {
            self.0.push(key_value(attribute.name, value));
        }
        self
    }
}

/// Returns an attribute.
pub fn key_value(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// Returns a list of strings.
pub fn list(texts: impl IntoIterator<Item = String>) -> Value {
    let values = texts.into_iter().map(|text| AnyValue {
        value: Some(Value::StringValue(text)),
    });
    Value::ArrayValue(ArrayValue {
        values: values.collect(),
    })
}

/// Sets an attribute: replaces the value of an existing attribute, or adds the attribute.
pub fn set(attributes: &mut Vec<KeyValue>, new: KeyValue) {
    match attributes.iter_mut().find(|known| known.key == new.key) {
        Some(known) => *known = new,
        None => attributes.push(new),
    }
}

/// Returns the string value of the attribute `key`; `None` if it is missing or not a string.
pub fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    match value(attributes, key)? {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

/// Returns the boolean value of the attribute `key`; `None` if it is missing or not a boolean.
pub fn flag(attributes: &[KeyValue], key: &str) -> Option<bool> {
    match value(attributes, key)? {
        Value::BoolValue(flag) => Some(*flag),
        _ => None,
    }
}

/// Returns the value of the attribute `key`; `None` if it is missing.
pub fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    attribute.value.as_ref()?.value.as_ref()
}

/// Returns the value of the attribute `key` as strings joined by commas; `None` if it is missing or not a list of
/// strings.
pub fn texts(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    joined(attribute)
}

/// Returns a list of strings joined by commas; `None` if the value is empty or not a list of strings.
pub fn joined(attribute: &KeyValue) -> Option<String> {
    let Value::ArrayValue(list) = attribute.value.as_ref()?.value.as_ref()? else {
        return None;
    };
    let texts = list.values.iter().filter_map(|value| match value.value.as_ref()? {
        Value::StringValue(text) => Some(text.as_str()),
        _ => None,
    });
    let joined = texts.collect::<Vec<_>>().join(", ");
    (!joined.is_empty()).then_some(joined)
}

/// Returns the attributes of a resource as facts for rules. Lists and bytes are skipped, because rules have no such
/// values.
pub fn facts(attributes: &[KeyValue]) -> impl Iterator<Item = (Box<str>, FactValue)> + '_ {
    attributes.iter().filter_map(|attribute| {
        let value = match attribute.value.as_ref()?.value.as_ref()? {
            Value::StringValue(text) => FactValue::Text(text.as_str().into()),
            Value::IntValue(number) => FactValue::Int(*number),
            Value::DoubleValue(number) => FactValue::Double(*number),
            Value::BoolValue(boolean) => FactValue::Bool(*boolean),
            _ => return None,
        };
        Some((attribute.key.as_str().into(), value))
    })
}
