//! Which process a span is of: pure, but for the lock.
//!
//! Who reports spans names its process by its container, its pod, its pid, or by a `service.instance.id` that was seen
//! with one of these. Where two processes fit, it is unknown which one is meant: two processes of a pod are told apart
//! by their pids only.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gc_requests::span::{Reported, Source};

use crate::container::ContainerIdentity;
use crate::process::RunKey;

/// Requests of one process that wait to be laid over its stops. They are taken every second.
const MAX_WAITING: usize = 8_192;
/// The same of all processes: about 10 MB.
const MAX_WAITING_IN_ALL: usize = 65_536;
/// Instances that are remembered.
const MAX_INSTANCES: usize = 8_192;

/// By what a process is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Its pid here and in its own namespace.
    pub(crate) pids: (u32, u32),
    pub(crate) container: ContainerIdentity,
    /// The host that it takes itself to be on; `None`: unknown.
    pub(crate) host: Option<String>,
}

/// What became of a resource's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// One process was meant; so many requests found no room.
    To {
        /// They found no room.
        dropped: usize,
    },
    /// No process that is attached to is meant.
    Nobody,
    /// Two or more fit.
    Several,
}

#[derive(Debug)]
struct Entry {
    names: Names,
    waiting: VecDeque<Reported>,
}

#[derive(Debug, Default)]
struct Inner {
    runs: BTreeMap<RunKey, Entry>,
    /// Requests that wait.
    waiting: usize,
    /// `service.instance.id` to the run that it was seen with, oldest first in `order`.
    instances: BTreeMap<String, RunKey>,
    order: VecDeque<String>,
}

/// The processes that take requests by their spans.
#[derive(Debug, Default)]
pub struct Directory(Mutex<Inner>);

impl Directory {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process takes requests until what is returned is dropped.
    pub(crate) fn register(self: &Arc<Self>, key: RunKey, names: Names) -> Registered {
        let entry = Entry {
            names,
            waiting: VecDeque::new(),
        };
        self.inner().runs.insert(key, entry);
        Registered {
            directory: Arc::clone(self),
            key,
        }
    }

    /// Gives the requests of a resource to the process that is meant.
    pub fn deliver(&self, source: &Source, requests: Vec<Reported>) -> Delivered {
        let mut guard = self.inner();
        let inner = &mut *guard;
        let key = match inner.find(source) {
            Ok(key) => key,
            Err(not) => return not,
        };
        if let Some(instance) = &source.instance {
            inner.learn(instance, key);
        }
        let Some(entry) = inner.runs.get_mut(&key) else {
            return Delivered::Nobody;
        };
        let room = MAX_WAITING.saturating_sub(entry.waiting.len());
        let room = room.min(MAX_WAITING_IN_ALL.saturating_sub(inner.waiting));
        let taken = requests.len().min(room);
        let dropped = requests.len() - taken;
        inner.waiting += taken;
        entry.waiting.extend(requests.into_iter().take(taken));
        Delivered::To { dropped }
    }
}

impl Inner {
    fn find(&self, source: &Source) -> Result<RunKey, Delivered> {
        let is_named = source.pid.is_some() || source.container_id.is_some() || source.pod_uid.is_some();
        if !is_named {
            let known = source
                .instance
                .as_ref()
                .and_then(|instance| self.instances.get(instance));
            return known
                .copied()
                .filter(|key| self.runs.contains_key(key))
                .ok_or(Delivered::Nobody);
        }
        let mut fitting = self.runs.iter().filter(|(_, entry)| fits(&entry.names, source));
        match (fitting.next(), fitting.next()) {
            (Some((key, _)), None) => Ok(*key),
            (Some(_), Some(_)) => Err(Delivered::Several),
            (None, _) => Err(Delivered::Nobody),
        }
    }

    fn learn(&mut self, instance: &str, key: RunKey) {
        if self.instances.insert(instance.to_owned(), key).is_none() {
            self.order.push_back(instance.to_owned());
            if self.order.len() > MAX_INSTANCES
                && let Some(oldest) = self.order.pop_front()
            {
                self.instances.remove(&oldest);
            }
        }
    }
}

/// Whether a process is the one that a resource names, as far as it does.
fn fits(names: &Names, source: &Source) -> bool {
    let same = |theirs: &Option<String>, ours: &Option<String>| theirs.is_none() || theirs == ours;
    if !same(&source.container_id, &names.container.container_id) || !same(&source.pod_uid, &names.container.pod_uid) {
        return false;
    }
    if let Some(pid) = source.pid
        && pid != names.pids.0
        && names.pids.1 != pid
    {
        return false;
    }
    // A pid alone may be another host's.
    let is_placed = source.container_id.is_some() || source.pod_uid.is_some();
    is_placed || source.host.is_none() || names.host.is_none() || source.host == names.host
}

/// A process's place in the [`Directory`].
#[derive(Debug)]
pub(crate) struct Registered {
    directory: Arc<Directory>,
    key: RunKey,
}

impl Registered {
    /// The requests that came since.
    pub(crate) fn take(&self) -> VecDeque<Reported> {
        let mut inner = self.directory.inner();
        let entry = inner.runs.get_mut(&self.key);
        let taken = entry
            .map(|entry| std::mem::take(&mut entry.waiting))
            .unwrap_or_default();
        inner.waiting -= taken.len();
        taken
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut inner = self.directory.inner();
        if let Some(entry) = inner.runs.remove(&self.key) {
            inner.waiting -= entry.waiting.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use gc_requests::payload::Ended;

    use super::*;

    const NOBODY: Delivered = Delivered::Nobody;
    const DELIVERED: Delivered = Delivered::To { dropped: 0 };

    fn key(pid: u32) -> RunKey {
        RunKey { pid, start_time: 1 }
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn requests(count: usize) -> Vec<Reported> {
        let request = Reported {
            ended: Ended::default(),
            end_unix_ns: 1,
        };
        vec![request; count]
    }

    /// Two processes of one pod in containers of their own, a third in the container of the second, and one of the host.
    fn host(directory: &Arc<Directory>) -> Vec<Registered> {
        let pod = |pid: u32, ns_pid: u32, container: &str| Names {
            pids: (pid, ns_pid),
            container: ContainerIdentity {
                container_id: text(container),
                pod_uid: text("pod"),
            },
            host: text("pod-name"),
        };
        let outside = Names {
            pids: (400, 400),
            container: ContainerIdentity::default(),
            host: text("node"),
        };
        vec![
            directory.register(key(100), pod(100, 1, "a")),
            directory.register(key(200), pod(200, 1, "b")),
            directory.register(key(300), pod(300, 7, "b")),
            directory.register(key(400), outside),
        ]
    }

    /// Scenario: spans that name their process by container, pod and pid, in every combination that is seen.
    /// Guarantee: it is found where one fits; where two fit nobody gets them.
    #[test]
    fn a_process_is_found_where_one_fits() {
        let directory = Arc::new(Directory::default());
        let registered = host(&directory);
        let of = |container: Option<&str>, pod: Option<&str>, pid: Option<u32>| Source {
            pid,
            container_id: container.map(str::to_owned),
            pod_uid: pod.map(str::to_owned),
            ..Source::default()
        };
        for (source, expected) in [
            (of(Some("a"), None, None), DELIVERED),
            (of(Some("b"), None, None), Delivered::Several),
            (of(Some("b"), None, Some(7)), DELIVERED),
            (of(None, Some("pod"), Some(7)), DELIVERED),
            (of(None, Some("pod"), Some(1)), Delivered::Several),
            (of(None, Some("pod"), None), Delivered::Several),
            (of(None, Some("other"), Some(1)), NOBODY),
            (of(None, None, Some(400)), DELIVERED),
            (of(None, None, Some(1)), Delivered::Several),
            (of(None, None, None), NOBODY),
        ] {
            assert_eq!(directory.deliver(&source, requests(1)), expected, "{source:?}");
        }
        let taken: Vec<usize> = registered.iter().map(|run| run.take().len()).collect();
        assert_eq!(taken, [1, 0, 2, 1]);
    }

    /// Scenario: a pid of this host, said by a process of another one.
    /// Guarantee: it is nobody's; where no host is said, it is taken for this one's.
    #[test]
    fn a_pid_of_another_host_is_nobodys() {
        let directory = Arc::new(Directory::default());
        let _registered = host(&directory);
        let of = |host: Option<&str>| Source {
            pid: Some(400),
            host: host.map(str::to_owned),
            ..Source::default()
        };
        assert_eq!(directory.deliver(&of(Some("elsewhere")), requests(1)), NOBODY);
        assert_eq!(directory.deliver(&of(Some("node")), requests(1)), DELIVERED);
        assert_eq!(directory.deliver(&of(None), requests(1)), DELIVERED);
    }

    /// Scenario: an instance's spans with its pid, then without; its process exits.
    /// Guarantee: they find it by the instance once it was seen, and nobody after its end.
    #[test]
    fn an_instance_is_learned() {
        let directory = Arc::new(Directory::default());
        let mut registered = host(&directory);
        let instance = Source {
            instance: text("i-1"),
            ..Source::default()
        };
        assert_eq!(directory.deliver(&instance, requests(1)), NOBODY);
        let named = Source {
            pid: Some(400),
            ..instance.clone()
        };
        assert_eq!(directory.deliver(&named, requests(1)), DELIVERED);
        assert_eq!(directory.deliver(&instance, requests(1)), DELIVERED);
        registered.pop();
        assert_eq!(directory.deliver(&instance, requests(1)), NOBODY);
    }

    /// Scenario: more requests than wait at most, and more instances than are remembered.
    /// Guarantee: the rest is dropped and said; the oldest instances are forgotten.
    #[test]
    fn what_waits_is_bounded() {
        let directory = Arc::new(Directory::default());
        let registered = host(&directory);
        let source = Source {
            pid: Some(400),
            ..Source::default()
        };
        assert_eq!(directory.deliver(&source, requests(MAX_WAITING - 1)), DELIVERED);
        assert_eq!(directory.deliver(&source, requests(3)), Delivered::To { dropped: 2 });
        assert_eq!(registered[3].take().len(), MAX_WAITING);
        for number in 0..MAX_INSTANCES + 5 {
            let source = Source {
                instance: Some(number.to_string()),
                ..source.clone()
            };
            directory.deliver(&source, Vec::new());
        }
        let inner = directory.inner();
        assert_eq!(
            (inner.instances.len(), inner.order.len()),
            (MAX_INSTANCES, MAX_INSTANCES)
        );
        assert!(!inner.instances.contains_key("4") && inner.instances.contains_key("5"));
    }
}
