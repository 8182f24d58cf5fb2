//! The steps of a scan and their subjects. All blocking calls are in this module. The scan itself ([`OngoingLook`])
//! handles only the order, the timing and the results of the steps.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use dotnet_diagnostics::discovery::{Process, Scan, SocketName};

use crate::facts::Facts;
use crate::filter::Subject;
use crate::identity::{key_of, service_of};
use crate::look::file_system_group::FileSystemGroup;
use crate::look::{NamedSockets, OngoingLook, ScannedProcess, plain};
use crate::options::TargetOptions;
use crate::watch::{DirectoryId, WatchError, directory_id, open_directory};

/// Subject of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LookSubject {
    /// A process, and the file systems that contain its socket.
    Process(u32),
    /// A configured path, or gcwatch's own socket directory.
    Path(PathBuf),
}

impl fmt::Display for LookSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum LookStep {
    /// Watches a directory that can contain sockets of any process.
    Watch(PathBuf),
    /// Lists the sockets at a configured path.
    List(PathBuf),
    Process(u32),
    /// Finds processes behind the sockets at a configured path that are not visible in gcwatch's `/proc`.
    Behind(PathBuf),
}

impl LookStep {
    pub(super) fn place(&self) -> LookSubject {
        match self {
            Self::Watch(path) | Self::List(path) | Self::Behind(path) => LookSubject::Path(path.clone()),
            Self::Process(pid) => LookSubject::Process(*pid),
        }
    }
}

/// Result of a step.
#[derive(Debug, Default)]
pub(super) struct StepResult {
    pub(super) seen: Vec<ScannedProcess>,
    pub(super) watched: Option<Result<(DirectoryId, bool), WatchError>>,
    pub(super) sockets: Option<(PathBuf, NamedSockets)>,
    pub(super) left_out: bool,
}

impl OngoingLook {
    /// Executes one step. Blocks the calling thread while the file system of the subject does not respond.
    pub(super) fn take(&self, step: &LookStep, scan: &mut Option<Scan>) -> StepResult {
        match step {
            LookStep::Watch(path) => StepResult {
                watched: self.watch(open_directory(path).ok()),
                ..StepResult::default()
            },
            LookStep::List(path) => {
                let sockets = Scan::sockets_at(path);
                // For the path of a single socket, watch its directory.
                let is_socket = |path: &Path| SocketName::parse(path.file_name()?.to_str()?);
                let directory = if is_socket(path).is_some() {
                    path.parent()
                } else {
                    Some(&**path)
                };
                let directory = directory.filter(|_| self.asked.all);
                StepResult {
                    watched: self.watch(directory.and_then(|path| open_directory(path).ok())),
                    sockets: Some((path.clone(), sockets)),
                    ..StepResult::default()
                }
            }
            LookStep::Process(pid) => {
                let scan = scan.get_or_insert_with(|| {
                    let named = self.lock().sockets.values().flatten().cloned().collect::<Vec<_>>();
                    Scan::host().with_socket_directories([]).with_found_sockets(named)
                });
                self.process(*pid, scan)
            }
            LookStep::Behind(path) => {
                let sockets = self.lock().sockets.get(path).cloned().unwrap_or_default();
                if sockets.is_empty() {
                    return StepResult::default();
                }
                let scan = Scan::host().with_socket_directories([]).with_found_sockets(sockets);
                let seen = scan.list_named().into_iter().map(|process| self.judged(process));
                StepResult {
                    seen: seen.collect(),
                    ..StepResult::default()
                }
            }
        }
    }

    fn process(&self, pid: u32, scan: &Scan) -> StepResult {
        let asked = &self.asked;
        let connected = asked.connected.contains(&pid);
        let expected = connected || asked.pids.contains(&pid);
        if !asked.left_alone.is_empty()
            && FileSystemGroup::for_process(pid)
                .iter()
                .any(|group| asked.left_alone.contains(group))
        {
            return StepResult {
                left_out: true,
                ..StepResult::default()
            };
        }
        let mark = plain::mark(pid);
        if !expected && asked.plain().is_plain(pid, mark) {
            return StepResult::default();
        }
        let Ok(process) = scan.inspect(pid) else {
            return StepResult::default();
        };
        if process.evidence.is_none() && !connected {
            asked.plain().add(pid, mark);
            return StepResult::default();
        }
        let socket = process.socket.as_ref().filter(|_| asked.all);
        StepResult {
            watched: self.watch(socket.and_then(|socket| socket.open_parent().ok())),
            seen: vec![self.judged(process)],
            ..StepResult::default()
        }
    }

    fn judged(&self, process: Process) -> ScannedProcess {
        let asked = &self.asked;
        let judged = (asked.judge_all || !asked.known.contains_key(&key_of(&process))).then(|| {
            let facts = Facts::for_process(&process);
            let subject = Subject {
                name: &process.name,
                facts: &facts,
            };
            let TargetOptions { include, exclude, .. } = &*asked.options;
            (subject.is_wanted(include, exclude), service_of(&facts))
        });
        let (wanted, service) = judged.unzip();
        ScannedProcess {
            process,
            wanted,
            service: service.flatten(),
        }
    }

    fn watch(&self, directory: Option<OwnedFd>) -> Option<Result<(DirectoryId, bool), WatchError>> {
        let (directory, watches) = directory.zip(self.asked.watches.as_ref())?;
        let watched = watches.add(&directory);
        Some(watched.and_then(|new| Ok((directory_id(&directory)?, new))))
    }
}
