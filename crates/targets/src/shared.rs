//! What the tasks of all processes share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::buffer::SharedBuffer;
use crate::host::Host;
use crate::look::NamedSockets;
use crate::memory::StreamMemory;
use crate::others::Watching;
use crate::rounds::Readers;
use crate::threads::Threads;

/// What all tasks share.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    pub(crate) sink: S,
    pub(crate) host: Host,
    /// Inspections at a time: each takes a thread.
    pub(crate) inspections: Semaphore,
    /// That leases cannot be taken was logged.
    pub(crate) lease_reported: AtomicBool,
    pub(crate) readers: Readers,
    /// What reads files that others provide.
    pub(crate) threads: Threads,
    /// The sockets at the paths of the configuration, as the last look found them.
    pub(crate) named: Mutex<Arc<NamedSockets>>,
    /// Where commands are given to runtimes: at once, not in rounds.
    pub(crate) commands: Handle,
    /// What all streams hold.
    pub(crate) memory: Arc<StreamMemory>,
    /// The processes that are looked at for other tools' connections.
    pub(crate) watching: Watching,
    /// What all sessions are read through.
    pub(crate) buffer: SharedBuffer,
}
