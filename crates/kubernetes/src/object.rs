//! The fields of Kubernetes objects that gcwatch reads. Each field can be absent or null in the JSON.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A page of a list of pods.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodList {
    pub(crate) metadata: ListMeta,
    pub(crate) items: Option<Vec<PodObject>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListMeta {
    pub(crate) resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub(crate) token: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodObject {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ObjectMeta {
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) labels: Option<BTreeMap<String, String>>,
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    pub(crate) owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OwnerReference {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) node_name: Option<String>,
    pub(crate) containers: Option<Vec<ContainerSpec>>,
    pub(crate) init_containers: Option<Vec<ContainerSpec>>,
    pub(crate) ephemeral_containers: Option<Vec<ContainerSpec>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerSpec {
    pub(crate) name: String,
    pub(crate) image: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) container_statuses: Option<Vec<ContainerStatus>>,
    pub(crate) init_container_statuses: Option<Vec<ContainerStatus>>,
    pub(crate) ephemeral_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    /// Id with its scheme: `containerd://ID`.
    #[serde(rename = "containerID")]
    pub(crate) container_id: Option<String>,
    /// Current state. Contains the end of the container if the container has ended and has not been restarted.
    pub(crate) state: Option<ContainerState>,
    /// State of the previous container, which contains its end.
    #[serde(rename = "lastState")]
    pub(crate) last_state: Option<ContainerState>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) terminated: Option<TerminatedState>,
}

/// The end of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TerminatedState {
    /// `OOMKilled`, `Error`, `Completed` ...
    pub(crate) reason: Option<String>,
    pub(crate) exit_code: Option<i32>,
    #[serde(rename = "containerID")]
    pub(crate) container_id: Option<String>,
}

/// The type of a line of a watch.
#[derive(Debug, Deserialize)]
pub(crate) struct EventKind {
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

/// A line of a watch about a pod.
#[derive(Debug, Deserialize)]
pub(crate) struct PodEvent {
    pub(crate) object: PodObject,
}

/// A line of a watch that is an error.
#[derive(Debug, Deserialize)]
pub(crate) struct ErrorEvent {
    pub(crate) object: Status,
}

/// Reason why a request was refused, in the body of the answer or in a line of a watch.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) code: Option<u16>,
    pub(crate) message: Option<String>,
    pub(crate) details: Option<StatusDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StatusDetails {
    pub(crate) retry_after_seconds: Option<u64>,
}
