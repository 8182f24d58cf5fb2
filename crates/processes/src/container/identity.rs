//! Container and pod ids from the path of a control group.
//!
//! Runtimes name the group of a container by its id. The id is bare below a folder of the runtime (`/docker/ID`,
//! `/kubepods/burstable/podUID/ID`). If systemd manages the groups, the name of the runtime precedes the id
//! (`cri-containerd-ID.scope`, or `SLICE:cri-containerd:ID` if only one of kubelet and runtime uses systemd).
//!
//! The outermost container of a path counts, and a pod only outside it. Groups inside a container are created by its
//! processes, which could name them after another pod. For a cluster in containers (kind), the view of the node shows
//! the pods, and the view of the host shows the nodes.

use super::membership::{Membership, memberships};

/// Ids in the path of a control group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerIdentity {
    /// Id of the container, as assigned by its runtime.
    pub container_id: Option<String>,
    /// UID of the pod with hyphens. For a static pod it is the hash of the manifest, without hyphens.
    pub pod_uid: Option<String>,
}

impl ContainerIdentity {
    fn is_empty(&self) -> bool {
        self.container_id.is_none() && self.pod_uid.is_none()
    }
}

/// Reads the ids from the text of `/proc/PID/cgroup`. The ids are unknown for a process outside containers, and for a
/// process in the reader's own container if this container has a control group namespace (`0::/`).
pub fn identity(cgroup: &str) -> ContainerIdentity {
    let mut identities: Vec<(u8, ContainerIdentity)> = memberships(cgroup)
        .map(|line| (rank(&line), parse_path(line.path)))
        .filter(|(_, identity)| !identity.is_empty())
        .collect();
    identities.sort_by_key(|(rank, identity)| (identity.container_id.is_none(), *rank));
    identities
        .into_iter()
        .next()
        .map(|(_, identity)| identity)
        .unwrap_or_default()
}

/// Returns the owner of a process, in words that the process cannot choose. The text is empty if the owner is unknown.
/// Groups below a user's slice belong to that user, who can create groups there with the name of any container and with
/// other uids.
pub fn tenant(cgroup: &str, container: &ContainerIdentity, uid: Option<u32>) -> String {
    let slice = memberships(cgroup).find_map(|line| {
        let mut parts = line.path.split('/').filter(|part| !matches!(*part, "" | ".."));
        let is_of_users = parts.next()? == "user.slice";
        let user = parts.next()?.strip_prefix("user-")?.strip_suffix(".slice")?;
        is_of_users.then(|| format!("user {user}"))
    });
    let pod = || Some(format!("pod {}", container.pod_uid.as_deref()?));
    let container = || Some(format!("container {}", container.container_id.as_deref()?));
    let user = || Some(format!("user {}", uid?));
    slice.or_else(pod).or_else(container).or_else(user).unwrap_or_default()
}

/// Returns the order in which lines are tried. Runtimes add a container to the hierarchies that limit it, but not
/// always to the others.
fn rank(line: &Membership<'_>) -> u8 {
    match () {
        () if line.has("memory") => 0,
        () if line.has("cpu") => 1,
        () if line.has("name=systemd") => 2,
        () if line.is_unified() => 3,
        () => 4,
    }
}

/// Returns the number of parts of a path up to the container's own group, or `None` if the path has no container. Later
/// parts were created inside the container.
pub(crate) fn container_depth(path: &str) -> Option<usize> {
    find(path).2
}

fn parse_path(path: &str) -> ContainerIdentity {
    let (container, pod, _) = find(path);
    ContainerIdentity {
        container_id: container.map(str::to_owned),
        pod_uid: pod,
    }
}

fn find(path: &str) -> (Option<&str>, Option<String>, Option<usize>) {
    let mut pod = None;
    let mut parts = path.split('/').skip(1).enumerate().peekable();
    while let Some((place, part)) = parts.next() {
        if pod.is_none() {
            pod = pod_uid(part);
        }
        let next = parts.peek().map_or("", |(_, next)| *next);
        if let Some(id) = container_id(part, next) {
            return (Some(id), pod, Some(place + 1));
        }
    }
    (None, pod, None)
}

/// Returns the container id in one part of a path, or `None` if the part has no id. `next` is the part after `part`.
fn container_id<'a>(part: &'a str, next: &str) -> Option<&'a str> {
    if part.ends_with(".slice") || part.ends_with(".service") {
        return None;
    }
    let part = part.strip_suffix(".scope").unwrap_or(part);
    // `SLICE:RUNTIME:ID`.
    if let Some((_, id)) = part.rsplit_once(':') {
        return Some(id).filter(|id| is_hexadecimal(id, 64));
    }
    if is_hexadecimal(part, 64) || is_task_id(part) {
        // Podman without systemd puts the containers of a pod into a group with the id of the pod.
        return Some(part).filter(|_| !next.starts_with("libpod-"));
    }
    let (runtime, id) = part.rsplit_once('-')?;
    // `crio-conmon-ID` and `libpod-conmon-ID` contain the process that monitors the container from outside.
    let is_container = is_hexadecimal(id, 64) && !runtime.ends_with("conmon");
    is_container.then_some(id)
}

/// Returns whether a text is the id of a container in a task of ECS on Fargate: the task's 32 hexadecimal digits and a
/// number.
fn is_task_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(task, number)| {
        is_hexadecimal(task, 32) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn is_hexadecimal(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the uid of the pod in one part of a path, or `None` if the part has no uid. The forms are `podUID`,
/// `kubepods-burstable-podUID.slice`, and either of them before `:RUNTIME:ID`. Names of slices use hyphens as
/// separators, so their uids contain `_` instead of hyphens.
fn pod_uid(part: &str) -> Option<String> {
    let slice = part.split(':').next().unwrap_or(part);
    let (name, in_slice) = slice.strip_suffix(".slice").map_or((slice, false), |name| (name, true));
    let last = if in_slice {
        name.rsplit('-').next().unwrap_or(name)
    } else {
        name
    };
    let uid = last.strip_prefix("pod")?;
    let uid = if in_slice {
        uid.replace('_', "-")
    } else {
        uid.to_owned()
    };
    (is_uuid(&uid) || is_hexadecimal(&uid, 32)).then_some(uid)
}

fn is_uuid(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    let sound = lengths
        .into_iter()
        .all(|length| parts.next().is_some_and(|part| is_hexadecimal(part, length)));
    sound && parts.next().is_none()
}

#[cfg(test)]
mod tests;
