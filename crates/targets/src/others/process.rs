//! A process that is read, with the connections to it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dotnet_diagnostics::discovery::{Process, SocketName};
use dotnet_diagnostics::{Connections, Endpoint};
use tokio::sync::Notify;

use crate::others::ForeignConnections;

/// A process that is read, with the state of its connections.
#[derive(Debug)]
pub(crate) struct WatchedProcess {
    /// Pid that locates the process's table; `None` if the process is not visible in gcwatch's `/proc`.
    pub(crate) pid: Option<u32>,
    /// Name of the socket.
    pub(crate) name: SocketName,
    /// Path to which the socket is bound; `None` if unknown.
    pub(crate) path: Option<PathBuf>,
    /// Connections of gcwatch to the process.
    pub(crate) connections: Connections,
    others: Mutex<ForeignConnections>,
    due: Notify,
}

impl WatchedProcess {
    /// Creates the state of a process. Returns `None` if the process has no socket with a runtime's name, for example
    /// because the process connects to gcwatch.
    pub(super) fn new(process: &Process, endpoint: &Endpoint) -> Option<Self> {
        let at = Self::at(process.visible.then_some(process.pid), endpoint.address()?.path())?;
        Some(Self {
            connections: endpoint.connections().clone(),
            ..at
        })
    }

    /// Creates the state of a process that listens on this path, without connections of gcwatch. Returns `None` if the
    /// path does not have the name of a runtime's socket.
    pub(crate) fn at(pid: Option<u32>, path: &Path) -> Option<Self> {
        Some(Self {
            pid,
            name: SocketName::parse(path.file_name()?.to_str()?)?,
            path: pid.map(|_| path.to_path_buf()),
            connections: Connections::default(),
            others: Mutex::default(),
            due: Notify::new(),
        })
    }

    pub(crate) fn others(&self) -> MutexGuard<'_, ForeignConnections> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task that waits for [`WatchedProcess::is_due`].
    pub(super) fn set_due(&self) {
        self.due.notify_one();
    }

    /// Waits until a healing is probably due. This method is cancel safe.
    pub(crate) async fn is_due(&self) {
        self.due.notified().await;
    }
}
