//! The service that a process belongs to.

use std::sync::Arc;

use base::run_key::RunKey;
use gc_telemetry::value::{text, texts};
use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::{Identity, Provenance};

/// Attributes for owners of a pod. Owners that outlive rollouts come first.
const OWNERS: [&str; 6] = [
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.cronjob.name",
    "k8s.job.name",
    "k8s.replicaset.name",
];

/// Identity of the service that a process belongs to. A process that replaces this one has the same identity.
///
/// In Kubernetes, the identity consists of the namespace, the owner of the pod (or the pod) and the container. Outside
/// Kubernetes, it is the `service.name` that the process set itself, with the namespace of the service. If the process
/// set no such name, the identity consists of the program, the command line and the pod or container. The name of the
/// program is not sufficient, because other services can also run this program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey(Arc<str>);

impl ServiceKey {
    /// Returns the key of a process with this resource, which includes metadata.
    pub fn for_process(identity: &Identity, resource: &[KeyValue]) -> Self {
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

    /// Returns the key as text.
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }
}

/// Returns the workload of a process, with its kind: `deployment/shop`; `pod/shop-1` without an owner; outside
/// Kubernetes, the name of the service or of the program.
pub fn workload(identity: &Identity, resource: &[KeyValue]) -> String {
    let owner = OWNERS.into_iter().chain(["k8s.pod.name"]).find_map(|key| {
        let kind = key.strip_prefix("k8s.")?.strip_suffix(".name")?;
        let name = text(resource, key).filter(|name| !name.is_empty())?;
        Some(format!("{kind}/{name}"))
    });
    let service = || text(resource, "service.name").filter(|name| !name.is_empty());
    owner.or_else(service).unwrap_or_else(|| identity.name.clone())
}

/// Returns the version of the service of a process: `service.version`, or the image of its container with tags if the
/// resource has no version. Returns `None` if both are unknown.
pub fn version(resource: &[KeyValue]) -> Option<Arc<str>> {
    let image = || {
        let tags = texts(resource, "container.image.tags").map_or_else(String::new, |tags| format!(":{tags}"));
        Some(format!("{}{tags}", text(resource, "container.image.name")?))
    };
    text(resource, "service.version").or_else(image).map(Into::into)
}

/// Returns the display name of a process within its service: its pod and container, or its pid.
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

#[cfg(test)]
mod tests {
    use super::*;
    use gc_telemetry::value::key_value;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    /// Scenario: processes belong to a deployment, to a job of a cron job, to a bare pod, to a service and to no known
    /// owner.
    /// Guarantee: the workload is the owner that outlives rollouts, with its kind, or the service or program without
    /// such an owner.
    #[test]
    fn workload_outlives_rollouts() {
        let identity = Identity::new(RunKey { pid: 1, start_time: 1 }, "shop.dll");
        let of = |attributes: &[(&str, &str)]| {
            let text = |(key, value): &(&str, &str)| key_value(key, Value::StringValue((*value).to_owned()));
            workload(&identity, &attributes.iter().map(text).collect::<Vec<_>>())
        };
        let pod = ("k8s.pod.name", "shop-6d9f-x");
        let replicas = ("k8s.replicaset.name", "shop-6d9f");
        assert_eq!(of(&[pod, replicas, ("k8s.deployment.name", "shop")]), "deployment/shop");
        let job = [pod, ("k8s.job.name", "tidy-28"), ("k8s.cronjob.name", "tidy")];
        assert_eq!(of(&job), "cronjob/tidy");
        assert_eq!(of(&[pod, ("service.name", "shop")]), "pod/shop-6d9f-x");
        assert_eq!(of(&[("service.name", "shop")]), "shop");
        assert_eq!(of(&[]), "shop.dll");
    }
}
