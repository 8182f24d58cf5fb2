//! The parts of a pod that are kept.

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::attributes;
use super::object::{ContainerSpec, ContainerStatus, PodObject, TerminatedState};
use super::settings::Settings;
use processes::surroundings::ContainerEnd;
use processes::text::bounded;

/// Maximum number of containers that are kept per pod.
const MAX_CONTAINERS: usize = 64;

/// Annotation of a mirror pod that contains the uid used by the kubelet for the static pod.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// The parts of a pod that are kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    /// UID in the control group name of a static pod.
    pub(crate) hash: Option<String>,
    /// Attributes shared by all containers of the pod.
    pub(crate) attributes: Vec<KeyValue>,
    pub(crate) containers: Vec<Container>,
}

/// The parts of a container that are kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Container {
    /// Id from the container runtime; `None` before the container was started.
    pub(crate) id: Option<String>,
    /// Attributes of only this container.
    pub(crate) attributes: Vec<KeyValue>,
    /// The last ends of containers with this name, by their ids from the runtime.
    pub(crate) ended: Vec<(String, ContainerEnd)>,
}

/// The kubelet's reason for a container that was killed for memory.
const OOM_KILLED: &str = "OOMKilled";

/// Exit codes of a process that ended by itself or because of SIGTERM.
const ORDINARY: [i32; 2] = [0, 128 + 15];

impl Pod {
    /// Creates a pod, or returns `None` if the object has no uid or no name.
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
                let container = |spec: &ContainerSpec| {
                    let status = statuses.iter().find(|status| status.name == spec.name);
                    Container {
                        id: status.and_then(|status| id(status.container_id.as_deref()?)),
                        attributes: attributes::describe_container(spec),
                        ended: status.map(ended).unwrap_or_default(),
                    }
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
            attributes: attributes::describe_pod(name, object, settings),
            containers,
        })
    }

    /// Returns the end of a container, or `None` if the container runs or its end is no longer known.
    pub(crate) fn ended(&self, container: &str) -> Option<ContainerEnd> {
        let mut ends = self.containers.iter().flat_map(|container| &container.ended);
        ends.find(|(id, _)| id == container).map(|(_, ended)| *ended)
    }

    /// Returns the attributes of a process in one of the pod's containers. The id of the container can be unknown
    /// (`None`), or missing in the status of the pod. In both cases, the attributes of the container are used only if
    /// the pod has no other container.
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

/// Returns the ends in the status of a container.
fn ended(status: &ContainerStatus) -> Vec<(String, ContainerEnd)> {
    let states = [&status.state, &status.last_state];
    let ends = states
        .into_iter()
        .flatten()
        .filter_map(|state| state.terminated.as_ref());
    let end = |end: &TerminatedState| {
        let oom_killed = end.reason.as_deref() == Some(OOM_KILLED);
        let failed = oom_killed || end.exit_code.is_some_and(|code| !ORDINARY.contains(&code));
        Some((id(end.container_id.as_deref()?)?, ContainerEnd { oom_killed, failed }))
    };
    ends.filter_map(end).collect()
}

/// Removes the scheme: `containerd://ID` becomes `ID`.
fn id(text: &str) -> Option<String> {
    let id = text.split_once("://").map_or(text, |(_, id)| id);
    (!id.is_empty()).then(|| bounded(id))
}
