//! Which service a process is one of.

use std::sync::Arc;

use base::run_key::RunKey;
use gc_telemetry::value::{text, texts};
use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::{Identity, Provenance};

/// What owns a pod, the one that outlives rollouts first.
const OWNERS: [&str; 6] = [
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.cronjob.name",
    "k8s.job.name",
    "k8s.replicaset.name",
];

/// Which service a process is one of; the same for the process that comes in its place.
///
/// In Kubernetes: namespace, owner of the pod (else the pod) and container. Else the `service.name` that the process
/// gave itself, with its namespace. Else its command line and its pod or container: a name that gcwatch made up is that
/// of the program, which others may run for something else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey(Arc<str>);

impl ServiceKey {
    /// That of a process with this resource, metadata included.
    pub fn of(identity: &Identity, resource: &[KeyValue]) -> Self {
        let attribute = |name: &str| text(resource, name).unwrap_or_default();
        let Provenance {
            own_names,
            container,
            command,
            ..
        } = &identity.provenance;
        let namespace = attribute("k8s.namespace.name");
        let key = if !namespace.is_empty() {
            let owner = OWNERS.into_iter().map(attribute).find(|owner| !owner.is_empty());
            let owner = owner.unwrap_or_else(|| attribute("k8s.pod.name"));
            format!("pod/{namespace}/{owner}/{}", attribute("k8s.container.name"))
        } else if own_names.iter().any(|name| name == "service.name") {
            format!(
                "service/{}/{}",
                attribute("service.namespace"),
                attribute("service.name")
            )
        } else {
            let place = container.pod_uid.as_deref().or(container.container_id.as_deref());
            let command = command.unwrap_or_default();
            format!("command/{}/{command:x}/{}", identity.name, place.unwrap_or_default())
        };
        Self(key.into())
    }

    /// The key as text.
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }
}

/// The version of the service that a process is one of: `service.version`, else the image of its container with tags.
pub fn version(resource: &[KeyValue]) -> Option<Arc<str>> {
    let image = || {
        let tags = texts(resource, "container.image.tags").map_or_else(String::new, |tags| format!(":{tags}"));
        Some(format!("{}{tags}", text(resource, "container.image.name")?))
    };
    text(resource, "service.version").or_else(image).map(Into::into)
}

/// Which process of a service it is, for people: its pod and container, else its pid.
pub fn place(run: RunKey, resource: &[KeyValue]) -> Arc<str> {
    let place = match text(resource, "k8s.pod.name") {
        Some(pod) => {
            let container = text(resource, "k8s.container.name");
            let container = container.map_or_else(String::new, |name| format!(" (container {name})"));
            format!("pod {pod}{container}")
        }
        None => format!("pid {}", run.pid),
    };
    place.into()
}
