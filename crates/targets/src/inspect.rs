//! One process as it is right before it is attached to. Blocking.

use base::run_key::RunKey;
use dotnet_diagnostics::Error;
use dotnet_diagnostics::discovery::{Process, Scan, SocketName};

use crate::facts::Facts;
use crate::heap_limit::at_limit;
use crate::lease::{Lease, Leases, NoLease};
use crate::look::NamedSockets;

/// What is known of a process when it is attached to.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) process: Process,
    pub(crate) facts: Facts,
    pub(crate) lease: Result<Lease, NoLease>,
    /// Why its first session waits.
    pub(crate) at_limit: Option<String>,
}

/// Inspects a process as it is now, and takes the lease unless it is `held`; blocking. `visible`: it is in our `/proc`,
/// else its socket is all that is known of it. `named`: sockets at the paths of the configuration.
/// `first`: its session would be its first one, which waits while its memory stands at a limit.
pub(crate) fn inspect(
    key: RunKey,
    visible: bool,
    held: Option<Lease>,
    leases: &Leases,
    named: &NamedSockets,
    first: bool,
) -> Result<Inspected, Error> {
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
    let facts = Facts::of(&process);
    let lease = if process.start_time == key.start_time {
        held.map_or_else(|| leases.take(key, process.uid), Ok)
    } else {
        // Another process has its pid by now: nothing is taken for it.
        Err(NoLease::Held { holder: String::new() })
    };
    let at_limit = if first { at_limit(&process, &facts) } else { None };
    Ok(Inspected {
        process,
        facts,
        lease,
        at_limit,
    })
}
