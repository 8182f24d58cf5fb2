//! The parts of a pod that are kept.

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::attributes;
use super::object::{ContainerSpec, ContainerStatus, PodObject, Terminated};
use super::settings::Settings;
use processes::surroundings::Ended;
use processes::text::bounded;

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
    /// How containers in its place ended, the newest ones: by the runtime's id.
    pub(crate) ended: Vec<(String, Ended)>,
}

/// What the kubelet calls a container that was killed for memory.
const OOM_KILLED: &str = "OOMKilled";

/// The exit codes of a process that ended by itself or because it was asked to (SIGTERM).
const ORDINARY: [i32; 2] = [0, 128 + 15];

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
                let container = |spec: &ContainerSpec| {
                    let status = statuses.iter().find(|status| status.name == spec.name);
                    Container {
                        id: status.and_then(|status| id(status.container_id.as_deref()?)),
                        attributes: attributes::of_container(spec),
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
            attributes: attributes::of_pod(name, object, settings),
            containers,
        })
    }

    /// How that container ended; `None`: it runs, or its end is not known any more.
    pub(crate) fn ended(&self, container: &str) -> Option<Ended> {
        let mut ends = self.containers.iter().flat_map(|container| &container.ended);
        ends.find(|(id, _)| id == container).map(|(_, ended)| *ended)
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

/// The ends in the status of a container.
fn ended(status: &ContainerStatus) -> Vec<(String, Ended)> {
    let states = [&status.state, &status.last_state];
    let ends = states
        .into_iter()
        .flatten()
        .filter_map(|state| state.terminated.as_ref());
    let end = |end: &Terminated| {
        let oom_killed = end.reason.as_deref() == Some(OOM_KILLED);
        let failed = oom_killed || end.exit_code.is_some_and(|code| !ORDINARY.contains(&code));
        Some((id(end.container_id.as_deref()?)?, Ended { oom_killed, failed }))
    };
    ends.filter_map(end).collect()
}

/// `containerd://ID` -> `ID`.
fn id(text: &str) -> Option<String> {
    let id = text.split_once("://").map_or(text, |(_, id)| id);
    (!id.is_empty()).then(|| bounded(id))
}
