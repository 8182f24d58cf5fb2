//! Facts about the host for the examination of processes: its `/proc`, the sockets that the operator configured, and
//! the permissions of this process.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::address::SocketAddress;
use super::credentials::Credentials;
use super::proc_files::ListeningSockets;
use super::socket_name::SocketName;

/// Maximum number of bytes that are read from a file in `/proc/self`.
const MAX_OWN_BYTES: u64 = 64 << 10;
const MAX_NET_UNIX_BYTES: u64 = 8 << 20;

/// A `/proc` with values that are read once for all processes.
#[derive(Clone, Debug)]
pub(super) struct Host {
    proc_root: PathBuf,
    /// Sockets that the operator configured.
    given: BTreeMap<SocketName, SocketAddress>,
    seen: Arc<ScanCache>,
}

/// Values that are read once per scan, on demand.
#[derive(Debug, Default)]
struct ScanCache {
    /// Paths on which runtimes listen, by device and inode of the table in `/proc`. All processes of a network
    /// namespace share one table.
    listeners: Mutex<HashMap<(u64, u64), Arc<Listeners>>>,
    credentials: OnceLock<Credentials>,
}

/// The paths on which runtimes listen.
type Listeners = HashMap<SocketName, PathBuf>;

impl Host {
    pub(super) fn new(proc_root: PathBuf) -> Self {
        Self {
            proc_root,
            given: BTreeMap::new(),
            seen: Arc::default(),
        }
    }

    /// Switches to another `/proc` and discards the cached values.
    pub(super) fn move_to(&mut self, proc_root: PathBuf) {
        self.proc_root = proc_root;
        self.seen = Arc::default();
    }

    pub(super) fn proc_root(&self) -> &Path {
        &self.proc_root
    }

    /// Adds a configured socket for the process in its name.
    pub(super) fn give(&mut self, name: SocketName, address: SocketAddress) {
        self.given.insert(name, address);
    }

    /// Returns the configured socket with this name, or `None` if the operator configured no such socket.
    pub(super) fn given(&self, name: SocketName) -> Option<&SocketAddress> {
        self.given.get(&name)
    }

    /// Returns all configured sockets.
    pub(super) fn all_given(&self) -> &BTreeMap<SocketName, SocketAddress> {
        &self.given
    }

    /// Returns gcwatch's pid in this `/proc`, or `None` if this `/proc` does not contain gcwatch.
    pub(super) fn own_pid(&self) -> Option<u32> {
        let link = std::fs::read_link(self.proc_root.join("self")).ok()?;
        link.to_str()?.parse().ok()
    }

    /// Returns the permissions of this process.
    pub(super) fn credentials(&self) -> &Credentials {
        self.seen.credentials.get_or_init(|| {
            let read = |name: &str| read_bounded(&self.proc_root.join("self").join(name), MAX_OWN_BYTES);
            let map = read("uid_map").ok();
            read("status").map_or_else(
                |_| Credentials::default(),
                |status| Credentials::parse(&status, map.as_deref()),
            )
        })
    }

    /// Returns the path on which the runtime with this name listens, from the table of a process's network namespace
    /// (`/proc/PID/net/unix`). The table is read once per scan, which requires no permissions. Returns `None` if the
    /// table cannot be read or does not contain the name.
    pub(super) fn listens_at(&self, table: &Path, name: SocketName) -> Option<PathBuf> {
        let file = rustix::fs::stat(table).ok()?;
        let namespace = (file.st_dev, file.st_ino);
        let known = || self.seen.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let listeners = known().get(&namespace).map(Arc::clone);
        let listeners = match listeners {
            Some(listeners) => listeners,
            None => {
                let text = read_bounded(table, MAX_NET_UNIX_BYTES).ok()?;
                let listeners = Arc::new(ListeningSockets(&text).runtimes().collect());
                known().insert(namespace, Arc::clone(&listeners));
                listeners
            }
        };
        listeners.get(&name).cloned()
    }
}

pub(super) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
