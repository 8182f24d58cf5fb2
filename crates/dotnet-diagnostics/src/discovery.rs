//! Which .NET processes there are on this host, and where their sockets are.
//!
//! A runtime listens on `{TMPDIR or /tmp}/dotnet-diagnostic-{pid}-{key}-socket`, where the directory and the pid are
//! those of its own mount and pid namespace and the key is its start time. All four are found in `/proc`, so that the
//! exact name is known before any directory is read: an old socket of another process with the same pid is never
//! mistaken for it. Where the environment cannot be read, the kernel's table of listening sockets has the directory.
//! Directories that the operator names ([`Scan::with_sockets`]) may also hold sockets of processes that are not in
//! `/proc`.
//!
//! Invariants:
//! * nothing is connected to, with one exception: a socket file in the host's own directory that belongs to no visible
//!   process is connected to once, to see whether a process listens ([`StaleSocket::refused`]);
//! * a path given by a process is only followed inside that process's root ([`SocketAddress::open`]);
//! * every read is bounded, and a process that ends in the middle is left out, which is no error;
//! * a process that cannot be attached to is listed with the reason ([`Obstacle`]), not left out.
//!
//! Everything here blocks for as long as the file systems do: call it outside of an executor's threads
//! (`tokio::task::spawn_blocking`).

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
