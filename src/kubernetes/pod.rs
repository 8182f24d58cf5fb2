//! What is kept of a pod.

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::attributes;
use super::object::{ContainerSpec, ContainerStatus, PodObject};
use super::settings::Settings;
use crate::process::text::bounded;

/// Most containers of a pod that are kept.
const MAX_CONTAINERS: usize = 64;

/// The annotation of a mirror pod with the uid by which the kubelet knows the static pod.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// What is kept of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    /// Of a static pod, the uid that its control group has.
    pub(crate) hash: Option<String>,
    /// Attributes of all its containers.
    pub(crate) attributes: Vec<KeyValue>,
    pub(crate) containers: Vec<Container>,
}

/// What is kept of a container.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Container {
    /// The runtime's id; `None` before it was started.
    pub(crate) id: Option<String>,
    /// Its attributes.
    pub(crate) attributes: Vec<KeyValue>,
}

impl Pod {
    /// `None`: the object has no uid or no name, so that it is nothing.
    pub(crate) fn new(object: &PodObject, settings: &Settings) -> Option<Self> {
        let meta = &object.metadata;
        let uid = meta.uid.as_deref().filter(|uid| !uid.is_empty())?;
        let name = meta.name.as_deref().filter(|name| !name.is_empty())?;
        let annotations = meta.annotations.as_ref();
        let hash = annotations.and_then(|annotations| annotations.get(CONFIG_HASH));
        let (spec, status) = (&object.spec, &object.status);
        let of =
            |specs: &'_ Option<Vec<ContainerSpec>>, statuses: &'_ Option<Vec<ContainerStatus>>| -> Vec<Container> {
                let statuses = statuses.as_deref().unwrap_or_default();
                let container = |spec: &ContainerSpec| Container {
                    id: statuses
                        .iter()
                        .find(|status| status.name == spec.name)
                        .and_then(|status| id(status.container_id.as_deref()?)),
                    attributes: attributes::of_container(spec),
                };
                specs.as_deref().unwrap_or_default().iter().map(container).collect()
            };
        let mut containers = of(&spec.containers, &status.container_statuses);
        containers.extend(of(&spec.init_containers, &status.init_container_statuses));
        containers.extend(of(&spec.ephemeral_containers, &status.ephemeral_container_statuses));
        containers.truncate(MAX_CONTAINERS);
        Some(Self {
            uid: bounded(uid),
            hash: hash.map(|hash| bounded(hash)),
            attributes: attributes::of_pod(name, object, settings),
            containers,
        })
    }

    /// The attributes of a process in one of its containers. Which one is not known (`None`) where the status is not there yet; it is
    /// where there is but one.
    pub(crate) fn attributes(&self, container: Option<&str>) -> Vec<KeyValue> {
        let mut containers = self.containers.iter();
        let known = containers.find(|known| container.is_some() && known.id.as_deref() == container);
        let only = match &*self.containers {
            [only] => Some(only),
            _ => None,
        };
        let mut attributes = self.attributes.clone();
        // What the annotations of the pod say stands.
        for attribute in known.or(only).into_iter().flat_map(|container| &container.attributes) {
            if attributes.iter().all(|of_pod| of_pod.key != attribute.key) {
                attributes.push(attribute.clone());
            }
        }
        attributes
    }
}

/// `containerd://ID` -> `ID`.
fn id(text: &str) -> Option<String> {
    let id = text.split_once("://").map_or(text, |(_, id)| id);
    (!id.is_empty()).then(|| bounded(id))
}
