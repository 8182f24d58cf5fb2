//! Inspects a process immediately before gcwatch attaches to it. Blocks the calling thread.

use base::run_key::RunKey;
use dotnet_diagnostics::Error;
use dotnet_diagnostics::discovery::{Process, Scan, SocketName};

use crate::event_buffers;
use crate::facts::Facts;
use crate::heap_limit::at_limit;
use crate::lease::{Lease, LeaseError, Leases};
use crate::look::NamedSockets;

/// The facts about a process at the time of attaching.
#[derive(Debug)]
pub(crate) struct Inspection {
    pub(crate) process: Process,
    pub(crate) facts: Facts,
    pub(crate) lease: Result<Lease, LeaseError>,
    /// Reason why the first session must wait; `None` if the session can start now.
    pub(crate) at_limit: Option<String>,
    /// Size of event buffers that the heaps of the process need, in megabytes.
    pub(crate) needed_mb: u32,
}

/// Inspects the current state of a process, and takes the lease unless the caller passes it as `held`.
///
/// * `visible`: whether the process is visible in gcwatch's `/proc`. Otherwise, only its socket is known.
/// * `named`: the sockets at the configured paths.
/// * `first`: whether to check that memory is not at a limit, because the next session is the first session of the run.
///
/// Blocks the calling thread.
pub(crate) fn inspect(
    key: RunKey,
    visible: bool,
    held: Option<Lease>,
    leases: &Leases,
    named: &NamedSockets,
    first: bool,
) -> Result<Inspection, Error> {
    let named = named.iter().cloned();
    let scan = Scan::host().with_socket_directories([]).with_found_sockets(named);
    let process = if visible {
        scan.inspect(key.pid)?
    } else {
        let name = SocketName {
            pid: key.pid,
            key: key.start_time,
        };
        scan.inspect_named(name).ok_or(Error::NoProcess { pid: key.pid })?
    };
    let facts = Facts::for_process(&process);
    let lease = if process.start_time == key.start_time {
        held.map_or_else(|| leases.take(key, process.uid), Ok)
    } else {
        // The pid now belongs to another process, so the lease is not taken.
        Err(LeaseError::Held { holder: String::new() })
    };
    let at_limit = if first { at_limit(&process, &facts) } else { None };
    let needed_mb = if process.visible {
        event_buffers::needed_mb(process.pid)
    } else {
        0
    };
    Ok(Inspection {
        process,
        facts,
        lease,
        at_limit,
        needed_mb,
    })
}
