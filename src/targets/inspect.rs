//! One process as it is right before it is attached to. Blocking.

use dotnet_diagnostics::Error;
use dotnet_diagnostics::discovery::{Process, SocketName};

use crate::process::RunKey;
use crate::targets::facts::Facts;
use crate::targets::lease::{Lease, Leases, NoLease};
use crate::targets::look::scan;
use crate::targets::options::TargetOptions;

/// What is known of a process when it is attached to.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) process: Process,
    pub(crate) facts: Facts,
    pub(crate) lease: Result<Lease, NoLease>,
}

/// Inspects a process as it is now, and takes the lease unless it is `held`; blocking. `visible`: it is in our `/proc`,
/// else its socket is all that is known of it.
pub(crate) fn inspect(
    key: RunKey,
    visible: bool,
    held: Option<Lease>,
    leases: &Leases,
    options: &TargetOptions,
) -> Result<Inspected, Error> {
    let scan = scan(options);
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
    Ok(Inspected { process, facts, lease })
}
