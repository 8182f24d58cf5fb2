//! Collects the attributes of a process's resource, from the table of names and from the process's own environment.
//! Ensures that each name occurs once.

use gc_telemetry::definition::{Attribute, resource as row};
use gc_telemetry::value::{key_value, set};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use crate::host::Host;

/// The attributes of a resource. A later value replaces an earlier value of the same key.
#[derive(Debug, Default)]
pub(super) struct Resource(pub(super) Vec<KeyValue>);

impl Resource {
    pub(super) fn set(&mut self, key: &str, value: Value) {
        set(&mut self.0, key_value(key, value));
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|attribute| attribute.key == key)
    }

    pub(super) fn host(&mut self, host: &Host) {
        self.text(&row::HOST_NAME, host.name.clone());
        self.text(&row::HOST_ID, host.id.clone());
        self.text(&row::HOST_ARCH, Some(host.arch.to_owned()));
        self.text(&row::OS_TYPE, Some("linux".to_owned()));
    }

    pub(super) fn text(&mut self, attribute: &Attribute, value: Option<String>) {
        if let Some(value) = value {
            self.set(attribute.name, Value::StringValue(value));
        }
    }

    pub(super) fn int(&mut self, attribute: &Attribute, value: Option<i64>) {
        if let Some(value) = value {
            self.set(attribute.name, Value::IntValue(value));
        }
    }
}
