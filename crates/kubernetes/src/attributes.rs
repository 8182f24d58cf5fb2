//! Resource attributes of a pod, according to the semantic conventions and their page on Kubernetes (non-normative,
//! 1.44).
//!
//! `service.name` is the first of: the annotation `resource.opentelemetry.io/service.name`; by option, the labels
//! `app.kubernetes.io/instance` and `app.kubernetes.io/name`; the deployment, replica set, stateful set, daemon set,
//! cron job or job; the pod. The environment of the process (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`) takes
//! precedence over all of these, except for `k8s.*` and `container.*`.
//!
//! `service.instance.id` remains the id of the run, because the page's `namespace.pod.container` is the same for all
//! processes of a container.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use super::object::{ContainerSpec, ObjectMeta, OwnerReference, PodObject};
use super::settings::Settings;
use gc_telemetry::definition::{Attribute, resource as row};
use gc_telemetry::value::{key_value, list};
use processes::text::bounded;

/// Prefix of annotations that become resource attributes.
const RESOURCE: &str = "resource.opentelemetry.io/";

/// Maximum number of annotations that become resource attributes.
const MAX_ANNOTATED: usize = 32;

/// Attributes that annotations cannot set: attributes of the producer of the data, and attributes that gcwatch detects.
const NOT_ANNOTATED: [&str; 5] = ["telemetry.", "process.", "container.id", "k8s.pod.uid", "gcwatch."];

const INSTANCE: &str = "app.kubernetes.io/instance";
const NAME: &str = "app.kubernetes.io/name";
const VERSION: &str = "app.kubernetes.io/version";

/// The label by which a deployment distinguishes its replica sets.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Returns the attributes shared by all containers of a pod, each name once.
pub(crate) fn describe_pod(name: &str, object: &PodObject, settings: &Settings) -> Vec<KeyValue> {
    let meta = &object.metadata;
    let mut out = Attributes::default();
    if let Some(annotations) = &meta.annotations {
        let named = annotations
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(RESOURCE)?, value)));
        let named =
            named.filter(|(key, _)| !key.is_empty() && !NOT_ANNOTATED.iter().any(|start| key.starts_with(start)));
        for (key, value) in named.take(MAX_ANNOTATED) {
            out.named(key, value);
        }
    }
    let label = |key: &str| meta.labels.as_ref()?.get(key).filter(|value| !value.is_empty());
    let well_known = |key: &str| label(key).filter(|_| settings.well_known_labels).cloned();
    let owner = owner(meta);
    let owner_name = owner.iter().map(|(_, name)| name.clone()).next();
    let service = well_known(INSTANCE).or_else(|| well_known(NAME)).or(owner_name);
    out.text(&row::SERVICE_NAME, Some(&service.unwrap_or_else(|| name.to_owned())));
    out.text(&row::SERVICE_NAMESPACE, meta.namespace.as_deref());
    out.text(&row::SERVICE_VERSION, well_known(VERSION).as_deref());
    out.text(&row::K8S_NODE_NAME, object.spec.node_name.as_deref());
    out.text(&row::K8S_NAMESPACE_NAME, meta.namespace.as_deref());
    out.text(&row::K8S_POD_NAME, Some(name));
    out.text(&row::K8S_POD_UID, meta.uid.as_deref());
    for (attribute, name) in &owner {
        out.text(attribute, Some(name));
    }
    let chosen = [
        ("k8s.pod.label.", &settings.labels, &meta.labels),
        ("k8s.pod.annotation.", &settings.annotations, &meta.annotations),
    ];
    for (prefix, names, known) in chosen {
        let value =
            |name: &String| -> Option<&String> { known.as_ref().and_then(|known: &BTreeMap<_, _>| known.get(name)) };
        for (name, value) in names.iter().filter_map(|name| Some((name, value(name)?))) {
            out.named(&format!("{prefix}{name}"), value);
        }
    }
    out.0
}

/// Returns the attributes of one container.
pub(crate) fn describe_container(container: &ContainerSpec) -> Vec<KeyValue> {
    let mut out = Attributes::default();
    out.text(&row::K8S_CONTAINER_NAME, Some(&container.name));
    if let Some(image) = &container.image {
        let image = Image::parse(image);
        out.text(&row::CONTAINER_IMAGE_NAME, Some(image.name));
        if let Some(tag) = image.tag {
            let tags = list([bounded(tag)]);
            out.0.push(key_value(row::CONTAINER_IMAGE_TAGS.name, tags));
        }
        out.text(&row::SERVICE_VERSION, image.tag.or(image.digest));
    }
    out.0
}

/// Returns the owners of a pod that the metadata of the pod names, outermost first.
fn owner(meta: &ObjectMeta) -> Vec<(&'static Attribute, String)> {
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    let Some(OwnerReference { kind, name, .. }) = owners.iter().find(|owner| owner.controller == Some(true)) else {
        return Vec::new();
    };
    let own = |attribute| vec![(attribute, name.clone())];
    match kind.as_str() {
        "ReplicaSet" => {
            let hash = meta.labels.as_ref().and_then(|labels| labels.get(TEMPLATE_HASH));
            let deployment = hash.and_then(|hash| name.strip_suffix(hash.as_str())?.strip_suffix('-'));
            let deployment = deployment.map(|name| (&row::K8S_DEPLOYMENT_NAME, name.to_owned()));
            deployment.into_iter().chain(own(&row::K8S_REPLICASET_NAME)).collect()
        }
        "StatefulSet" => own(&row::K8S_STATEFULSET_NAME),
        "DaemonSet" => own(&row::K8S_DAEMONSET_NAME),
        "Job" => {
            let cron = cron_job(name).map(|name| (&row::K8S_CRONJOB_NAME, name.to_owned()));
            cron.into_iter().chain(own(&row::K8S_JOB_NAME)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the cron job that created a job, or `None` if the name of the job does not end with a time. The name
/// consists of the name of the cron job and the minutes since 1970 (8 digits until 2160). Before Kubernetes 1.21, the
/// time is in seconds (10 digits).
fn cron_job(job: &str) -> Option<&str> {
    let (name, time) = job.rsplit_once('-')?;
    let is_time = matches!(time.len(), 8 | 10) && time.bytes().all(|byte| byte.is_ascii_digit());
    (is_time && !name.is_empty()).then_some(name)
}

/// The parts of `registry:5000/shop/web:1.2@sha256:...`.
#[derive(Debug, PartialEq, Eq)]
struct Image<'a> {
    name: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Image<'a> {
    fn parse(text: &'a str) -> Self {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        // A colon before the last slash belongs to a port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        Self { name, tag, digest }
    }
}

/// Attributes. The first value of each name is kept.
#[derive(Debug, Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn text(&mut self, attribute: &Attribute, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.named(attribute.name, value);
        }
    }

    fn named(&mut self, name: &str, value: &str) {
        if self.0.iter().all(|known| known.key != name) {
            self.0
                .push(key_value(&bounded(name), Value::StringValue(bounded(value))));
        }
    }
}

#[cfg(test)]
mod tests;
