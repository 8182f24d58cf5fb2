//! Finds the .NET processes on this host and their diagnostics sockets.
//!
//! A runtime listens on `{TMPDIR or /tmp}/dotnet-diagnostic-{pid}-{key}-socket`. The directory and the pid are from the
//! perspective of the runtime's own mount and pid namespaces, and the key is the start time of the process. `/proc`
//! contains all these values, so the exact name is known before a directory is read. An old socket of another process
//! with the same pid is never mistaken for the socket of the process. If the environment cannot be read, the directory
//! is taken from the kernel's table of listening sockets. Directories configured by the operator
//! ([`Scan::with_sockets`]) can also contain sockets of processes that are not in `/proc`.
//!
//! ```no_run
//! use dotnet_diagnostics::discovery::Scan;
//!
//! for process in Scan::host().list()?.processes {
//!     match &process.obstacle {
//!         Some(obstacle) => println!("{} {}: {obstacle}", process.pid, process.name),
//!         None => println!("{} {}", process.pid, process.name),
//!     }
//! }
//! # Ok::<(), dotnet_diagnostics::Error>(())
//! ```
//!
//! Invariants:
//! * Discovery does not connect to sockets, with one exception: for each socket file in the directories of the scan
//!   that belongs to no visible process, it connects once to check whether a process listens
//!   ([`StaleSocket::refused`]).
//! * A path that a process chose is resolved only inside the root directory of that process ([`SocketAddress::open`]).
//! * Every read is bounded. A process that exits during the scan is omitted, which is not an error.
//! * A process that cannot be attached to is listed with the reason ([`Obstacle`]), not omitted.
//!
//! All functions of this module block while file systems respond slowly. Call them outside the threads of an async
//! executor (`tokio::task::spawn_blocking`).

#[expect(
    clippy::disallowed_methods,
    reason = "opens directories, and sockets as places (`O_PATH`)"
)]
mod address;
mod candidate;
mod credentials;
mod directory;
mod examine;
mod host;
mod missing;
mod proc_files;
mod process;
mod program;
mod scan;
mod socket_name;
mod unix_table;

pub use address::SocketAddress;
pub(crate) use address::descriptor_path;
pub use credentials::{Capabilities, Capability, Credentials};
pub use proc_files::{
    Environ, ListeningSockets, Stat, Status, display_name, parse_environ, parse_stat, parse_status, parse_uptime,
};
pub use process::{Evidence, Process};
pub use program::{Machine, Program};
pub use scan::{Listing, Scan, StaleSocket};
pub use socket_name::{MAX_SOCKET_PATH_BYTES, SocketName};
pub use unix_table::{AcceptedConnection, AcceptedConnections};

pub use crate::obstacle::{Obstacle, Reason};
