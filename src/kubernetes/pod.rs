//! The parts of a pod that are kept.

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::attributes;
use super::object::{ContainerSpec, ContainerStatus, PodObject};
use super::settings::Settings;
use crate::process::text::bounded;

/// Limit of containers kept of a pod.
const MAX_CONTAINERS: usize = 64;

/// The annotation of a mirror pod with the uid that the kubelet uses for the static pod.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// The parts of a pod that are kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    /// Of a static pod, the uid in the name of its control group.
    pub(crate) hash: Option<String>,
    /// Attributes of all its containers.
    pub(crate) attributes: Vec<KeyValue>,
    pub(crate) containers: Vec<Container>,
}

/// The parts of a container that are kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Container {
    /// The container runtime's id; `None` before the container was started.
    pub(crate) id: Option<String>,
    /// Attributes of this container alone.
    pub(crate) attributes: Vec<KeyValue>,
}

impl Pod {
    /// `None`: the object has no uid or no name.
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

    /// The attributes of a process in one of the pod's containers. The container's id may be unknown (`None`), or not
    /// yet be in the pod's status; a pod's only container is found nevertheless.
    pub(crate) fn attributes(&self, container: Option<&str>) -> Vec<KeyValue> {
        let mut containers = self.containers.iter();
        let known = containers.find(|known| container.is_some() && known.id.as_deref() == container);
        let only = match &*self.containers {
            [only] => Some(only),
            _ => None,
        };
        let mut attributes = self.attributes.clone();
        // Annotations of the pod take precedence.
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
