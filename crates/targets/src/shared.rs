//! State shared by the tasks of all processes.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::buffer::SharedBuffer;
use crate::host::Host;
use crate::look::NamedSockets;
use crate::memory::StreamMemory;
use crate::others::WatchedProcesses;
use crate::rounds::Readers;
use crate::threads::Threads;

/// State shared by all tasks.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    pub(crate) sink: S,
    pub(crate) host: Host,
    /// Limits concurrent inspections, each of which occupies a thread.
    pub(crate) inspections: Semaphore,
    /// Whether unavailable leases were logged.
    pub(crate) lease_reported: AtomicBool,
    pub(crate) readers: Readers,
    /// Threads that read files provided by other users.
    pub(crate) threads: Threads,
    /// The sockets at the configured paths, as found by the last scan.
    pub(crate) named: Mutex<Arc<NamedSockets>>,
    /// Executor for commands to runtimes, which are sent immediately and not in rounds.
    pub(crate) commands: Handle,
    /// Memory held by all streams.
    pub(crate) memory: Arc<StreamMemory>,
    /// Processes whose connections to other tools are tracked.
    pub(crate) watching: WatchedProcesses,
    /// Buffer through which all sessions are read.
    pub(crate) buffer: SharedBuffer,
}
