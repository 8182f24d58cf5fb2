//! All known pods, by uid and by container.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::pod::Pod;
use processes::container::ContainerIdentity;
use processes::surroundings::{ContainerEnd, Surroundings};

/// Maximum number of pods that are kept. A node has a few hundred at most.
pub(crate) const MAX_PODS: usize = 4096;

#[derive(Debug, Default)]
pub struct Pods(RwLock<PodIndex>);

#[derive(Debug, Default)]
struct PodIndex {
    by_uid: HashMap<String, Arc<Pod>>,
    /// Uids by container id, and by the uid in the control group name of a static pod.
    uids: HashMap<String, String>,
}

impl PodIndex {
    fn remove(&mut self, uid: &str) -> bool {
        let Some(pod) = self.by_uid.remove(uid) else {
            return false;
        };
        for name in names(&pod) {
            if self.uids.get(name).is_some_and(|known| known == uid) {
                self.uids.remove(name);
            }
        }
        true
    }

    fn put(&mut self, pod: Pod) -> PutOutcome {
        match self.by_uid.get(&pod.uid) {
            Some(known) if **known == pod => return PutOutcome::Same,
            None if self.by_uid.len() >= MAX_PODS => return PutOutcome::Full,
            _ => {}
        }
        let uid = pod.uid.clone();
        self.remove(&uid);
        for name in names(&pod) {
            self.uids.insert(name.to_owned(), uid.clone());
        }
        self.by_uid.insert(uid, Arc::new(pod));
        PutOutcome::Changed
    }
}

/// The outcome of adding a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutOutcome {
    /// The pod was already known and has not changed.
    Same,
    /// The pod is new or has changed.
    Changed,
    /// The pod is not kept because the limit is reached.
    Full,
}

fn names(pod: &Pod) -> impl Iterator<Item = &str> {
    let containers = pod.containers.iter().filter_map(|container| container.id.as_deref());
    containers.chain(pod.hash.as_deref())
}

impl Pods {
    /// Adds a pod, or replaces the known pod with the same uid.
    pub(crate) fn put(&self, pod: Pod) -> PutOutcome {
        self.0.write().unwrap_or_else(PoisonError::into_inner).put(pod)
    }

    /// Forgets a pod, and returns whether the pod was known.
    pub(crate) fn remove(&self, uid: &str) -> bool {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(uid)
    }

    /// Replaces all pods by `pods`. Returns whether there was a change, and the number of pods beyond the limit.
    pub(crate) fn replace(&self, pods: Vec<Pod>) -> (bool, usize) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let new: std::collections::HashSet<String> = pods.iter().map(|pod| pod.uid.clone()).collect();
        let gone: Vec<String> = known.by_uid.keys().filter(|uid| !new.contains(*uid)).cloned().collect();
        let mut changed = !gone.is_empty();
        for uid in gone {
            known.remove(&uid);
        }
        let mut full = 0;
        for pod in pods {
            match known.put(pod) {
                PutOutcome::Same => {}
                PutOutcome::Changed => changed = true,
                PutOutcome::Full => full += 1,
            }
        }
        (changed, full)
    }

    /// Returns the number of known pods.
    pub fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).by_uid.len()
    }
}

impl PodIndex {
    fn pod_of(&self, container: &ContainerIdentity) -> Option<&Arc<Pod>> {
        let id = container.container_id.as_deref();
        // The container id has precedence: the uid of a static pod in its control group differs from its uid at the API
        // server.
        let by_container = id.and_then(|id| self.uids.get(id));
        let by_pod = container.pod_uid.as_ref().map(|uid| self.uids.get(uid).unwrap_or(uid));
        by_container.or(by_pod).and_then(|uid| self.by_uid.get(uid))
    }
}

impl Surroundings for Pods {
    fn attributes(&self, container: &ContainerIdentity) -> Vec<KeyValue> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let id = container.container_id.as_deref();
        known
            .pod_of(container)
            .map(|pod| pod.attributes(id))
            .unwrap_or_default()
    }

    fn ended(&self, container: &ContainerIdentity) -> Option<ContainerEnd> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.pod_of(container)?.ended(container.container_id.as_deref()?)
    }
}

#[cfg(test)]
mod tests;
