//! Labels of a process: labels of each series, and `target_info`.

use std::collections::{BTreeMap, HashMap};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::Format;
use super::text::{label_name, push_label};
use crate::definition::Attribute;
use crate::definition::resource::{
    K8S_CONTAINER_NAME, K8S_NAMESPACE_NAME, K8S_POD_NAME, PROCESS_PID, SERVICE_INSTANCE_ID, SERVICE_NAME,
    SERVICE_NAMESPACE,
};

/// Attributes for frequent queries, on every series.
static ON_SERIES: [&Attribute; 5] = [
    &SERVICE_NAME,
    &PROCESS_PID,
    &K8S_NAMESPACE_NAME,
    &K8S_POD_NAME,
    &K8S_CONTAINER_NAME,
];

/// Labels of one process in their written form.
#[derive(Debug)]
pub(super) struct TargetLabels {
    /// Labels of every series, without braces.
    pub(super) series: String,
    /// Other attributes of the resource, without braces.
    info: String,
}

/// Returns the labels of each process. If two processes have equal labels, and so the same series (a service instance
/// id from the environment of both), the later process has the label `duplicate`.
pub(super) fn target_labels<'a>(resources: impl Iterator<Item = &'a Resource>) -> Vec<TargetLabels> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    resources
        .map(|resource| {
            let mut labels = build_labels(resource);
            let count = seen.entry(labels.series.clone()).or_default();
            *count += 1;
            if *count > 1 {
                push_label(&mut labels.series, "duplicate", &count.to_string());
            }
            labels
        })
        .collect()
}

fn build_labels(resource: &Resource) -> TargetLabels {
    let value = |attribute: &Attribute| {
        let named = |pair: &&KeyValue| pair.key == attribute.name;
        let pair = resource.attributes.iter().find(named)?;
        Some(text(pair.value.as_ref()?)).filter(|text| !text.is_empty())
    };
    let mut series = String::new();
    let job = value(&SERVICE_NAME).map(|name| match value(&SERVICE_NAMESPACE) {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    });
    for (name, value) in [("job", job), ("instance", value(&SERVICE_INSTANCE_ID))] {
        if let Some(value) = value {
            push_label(&mut series, name, &value);
        }
    }
    for attribute in ON_SERIES {
        if let Some(value) = value(attribute) {
            push_label(&mut series, &label_name(attribute.name), &value);
        }
    }
    let on_series = |key: &str| {
        let also = [&SERVICE_NAMESPACE, &SERVICE_INSTANCE_ID];
        ON_SERIES.iter().chain(&also).any(|attribute| attribute.name == key)
    };
    let others = resource.attributes.iter().filter(|pair| !on_series(&pair.key));
    let mut info = String::new();
    for (name, value) in merged(others) {
        // A process can choose any attribute names, but not the names of gcwatch's labels.
        let ours = matches!(name.as_str(), "job" | "instance" | "duplicate")
            || ON_SERIES.iter().any(|attribute| label_name(attribute.name) == name);
        let name = if ours { format!("exported_{name}") } else { name };
        push_label(&mut info, &name, &value);
    }
    TargetLabels { series, info }
}

/// Returns attributes as labels, in the order of their names. If several attributes have the same label name, their
/// values are joined by `;`, in the order of the attribute keys.
pub(super) fn merged<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> BTreeMap<String, String> {
    let mut sorted: Vec<&KeyValue> = attributes.collect();
    sorted.sort_by(|a, b| a.key.cmp(&b.key));
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for pair in sorted {
        let value = pair.value.as_ref().map(text).unwrap_or_default();
        labels
            .entry(label_name(&pair.key))
            .and_modify(|joined| {
                joined.push(';');
                joined.push_str(&value);
            })
            .or_insert(value);
    }
    // An empty label is omitted.
    labels.retain(|_, value| !value.is_empty());
    labels
}

/// Returns a value as the text of a label; lists as JSON.
fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(bool)) => bool.to_string(),
        Some(Value::IntValue(int)) => int.to_string(),
        Some(Value::DoubleValue(double)) => double.to_string(),
        Some(other) => json(other).to_string(),
        None => String::new(),
    }
}

fn json(value: &Value) -> serde_json::Value {
    let of = |value: &AnyValue| value.value.as_ref().map_or(serde_json::Value::Null, json);
    match value {
        Value::StringValue(text) => text.as_str().into(),
        Value::BoolValue(bool) => (*bool).into(),
        Value::IntValue(int) => (*int).into(),
        Value::DoubleValue(double) => (*double).into(),
        Value::ArrayValue(array) => array.values.iter().map(of).collect(),
        Value::KvlistValue(list) => {
            let pair = |pair: &KeyValue| {
                let value = pair.value.as_ref().map_or(serde_json::Value::Null, of);
                (pair.key.clone(), value)
            };
            serde_json::Value::Object(list.values.iter().map(pair).collect())
        }
        // gcwatch creates no bytes and no references to a table.
        Value::BytesValue(_) | Value::StringValueStrindex(_) => serde_json::Value::Null,
    }
}

/// Writes the family `target_info`: one series per process with its whole resource.
pub(super) fn write_target_info(format: Format, targets: &[TargetLabels], out: &mut String) {
    if targets.is_empty() {
        return;
    }
    out.push_str(match format {
        Format::Text => "# HELP target_info Resource of the process.\n# TYPE target_info gauge\n",
        Format::OpenMetrics => "# HELP target Resource of the process.\n# TYPE target info\n",
    });
    for target in targets {
        out.push_str("target_info{");
        out.push_str(&target.series);
        if !target.series.is_empty() && !target.info.is_empty() {
            out.push(',');
        }
        out.push_str(&target.info);
        out.push_str("} 1\n");
    }
}
