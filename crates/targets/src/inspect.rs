//! Inspects a process immediately before gcwatch attaches to it. Blocks the calling thread.

use base::run_key::RunKey;
use dotnet_diagnostics::Error;
use dotnet_diagnostics::discovery::{Process, Scan, SocketName};

use crate::facts::Facts;
use crate::heap_limit::at_limit;
use crate::lease::{Lease, LeaseError, Leases};
use crate::look::NamedSockets;

/// Facts about a process at the time of attaching.
#[derive(Debug)]
pub(crate) struct Inspection {
    pub(crate) process: Process,
    pub(crate) facts: Facts,
    pub(crate) lease: Result<Lease, LeaseError>,
    /// Reason why the first session waits; `None` if it does not.
    pub(crate) at_limit: Option<String>,
}

/// Inspects the current state of a process, and takes the lease unless it is `held`. `visible` is whether the process
/// is visible in gcwatch's `/proc`; if not, only its socket is known. `named` are the sockets at the configured paths.
/// `first` is whether its session would be the first one, which waits while memory is at a limit.
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
        // The pid belongs to another process by now, so no lease is taken.
        Err(LeaseError::Held { holder: String::new() })
    };
    let at_limit = if first { at_limit(&process, &facts) } else { None };
    Ok(Inspection {
        process,
        facts,
        lease,
        at_limit,
    })
}
