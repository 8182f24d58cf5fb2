//! Attributes as the messages of `opentelemetry-proto` have them.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

use super::definition::Attribute;

/// A list of attributes that is being made. What is not known is left out.
#[derive(Debug, Default)]
pub(crate) struct Attributes(Vec<KeyValue>);

impl Attributes {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    pub(crate) fn text(&mut self, attribute: &Attribute, value: Option<impl Into<String>>) -> &mut Self {
        self.add(attribute, value.map(|text| Value::StringValue(text.into())))
    }

    /// A number that does not fit is as large as can be said.
    pub(crate) fn int(&mut self, attribute: &Attribute, value: Option<impl Into<u64>>) -> &mut Self {
        let int = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.add(attribute, value.map(|number| Value::IntValue(int(number.into()))))
    }

    pub(crate) fn into_list(self) -> Vec<KeyValue> {
        self.0
    }

    fn add(&mut self, attribute: &Attribute, value: Option<Value>) -> &mut Self {
        if let Some(value) = value {
            self.0.push(key_value(attribute.name, value));
        }
        self
    }
}

/// One attribute.
pub(crate) fn key_value(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
