//! Which container a process is in, what that container may use, and what it does use: from its control groups alone.
//!
//! ```text
//! /proc/PID/cgroup ----> membership --> identity: container id, pod uid
//!                             |
//! /proc/PID/mountinfo -> mount: where the group's files are --> read --> level: one group's files --> figures
//! /proc/PID/smaps -----> ledger: where the memory is, with figures and the newest collection
//! ```
//!
//! Everything but `group`, `read`, `others`, `ledger::read` and `kills` is pure: texts of the kernel in, values out.
//! `group` opens files in other processes' roots, and only files of a control group: a file that a container put in
//! their place is not read.
//!
//! What is not there is unknown, never zero: outside of a container, without a limit, on a kernel that does not have
//! it.

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
