//! From the path of a control group to the ids of the container and the pod.
//!
//! Runtimes name a container's group by its id: bare below a folder of theirs (`/docker/ID`,
//! `/kubepods/burstable/podUID/ID`), or with their name before it where systemd keeps the groups
//! (`cri-containerd-ID.scope`, or `SLICE:cri-containerd:ID` where only one of the two sides believes in systemd).
//!
//! The outermost container of a path counts, and a pod only outside of it: the groups within are made by whoever is
//! inside, who could name them after another pod. Of a cluster in containers (kind), the node's own view has the pods;
//! the host's has the nodes.

use super::membership::{Membership, memberships};

/// The ids in the path of a control group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerIdentity {
    /// The container's id, as its runtime gave it.
    pub container_id: Option<String>,
    /// The pod's uid with hyphens. Of a static pod it is the hash of its manifest, without hyphens.
    pub pod_uid: Option<String>,
}

impl ContainerIdentity {
    fn is_empty(&self) -> bool {
        self.container_id.is_none() && self.pod_uid.is_none()
    }
}

/// Reads it from the text of `/proc/PID/cgroup`. Nothing is known of a process outside of containers, and of one in the
/// reader's own container where that has a control group namespace (`0::/`).
pub fn identity(cgroup: &str) -> ContainerIdentity {
    let mut identities: Vec<(u8, ContainerIdentity)> = memberships(cgroup)
        .map(|line| (rank(&line), of_path(line.path)))
        .filter(|(_, identity)| !identity.is_empty())
        .collect();
    identities.sort_by_key(|(rank, identity)| (identity.container_id.is_none(), *rank));
    identities
        .into_iter()
        .next()
        .map(|(_, identity)| identity)
        .unwrap_or_default()
}

/// Whose a process is, in words that it cannot choose; empty: unknown. What is below a user's slice is that user's, who
/// may make groups there with the name of any container, and have other uids in them.
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

/// Which lines are asked first: runtimes put a container into the hierarchies that limit it, not always into the
/// others.
fn rank(line: &Membership<'_>) -> u8 {
    match () {
        () if line.has("memory") => 0,
        () if line.has("cpu") => 1,
        () if line.has("name=systemd") => 2,
        () if line.is_unified() => 3,
        () => 4,
    }
}

/// How many parts of a path lie outside of the container or are its own group: what comes after them was made inside.
pub(crate) fn container_depth(path: &str) -> Option<usize> {
    find(path).2
}

fn of_path(path: &str) -> ContainerIdentity {
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

/// The container's id in one part of a path. `next`: the part after it.
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
        // Podman without systemd puts a pod's containers into a group with the pod's id.
        return Some(part).filter(|_| !next.starts_with("libpod-"));
    }
    let (runtime, id) = part.rsplit_once('-')?;
    // `crio-conmon-ID`, `libpod-conmon-ID`: the process that watches the container, which is outside of it.
    let is_container = is_hexadecimal(id, 64) && !runtime.ends_with("conmon");
    is_container.then_some(id)
}

/// The id of a container in a task of ECS on Fargate: the task's 32 hexadecimal digits and a number.
fn is_task_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(task, number)| {
        is_hexadecimal(task, 32) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn is_hexadecimal(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The pod's uid in one part of a path: `podUID`, `kubepods-burstable-podUID.slice`, and the same before `:RUNTIME:ID`.
/// Names of slices have no hyphens of their own, so that there the uid has `_` for them.
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
