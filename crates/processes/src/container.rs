//! Identity, limits and usage of the container of a process, derived from its control groups.
//!
//! ```text
//! /proc/PID/cgroup ----> membership --> identity: container id, pod uid
//!                             |
//! /proc/PID/mountinfo -> mount: where the group's files are --> read --> level: one group's files --> figures
//! /proc/PID/smaps -----> ledger: memory by kind, with figures and the last collection
//! ```
//!
//! All modules except `group`, `read`, `others`, `ledger::read` and `kills` are pure: they convert texts of the kernel
//! to values. `group` opens files in the roots of other processes, but only files of a control group. A file that a
//! container put in their place is not read.
//!
//! Missing values are unknown, never zero: outside a container, without a limit, or on a kernel that does not provide
//! the value.

mod figures;
#[expect(
    clippy::disallowed_methods,
    reason = "opens directories, and files of a file system that only the kernel writes"
)]
mod group;
mod identity;
mod kills;
pub mod ledger;
mod level;
mod membership;
mod mount;
mod others;
mod read;
mod usage;

pub use figures::{Cpu, Figures, Memory, OtherProcesses};
pub use identity::{ContainerIdentity, identity, tenant};
pub use kills::KillCounts;
pub use read::{ProcessScan, Reader, Throttling};
pub use usage::Usage;
