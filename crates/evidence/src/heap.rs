//! Heap dumps: the forecast of their cost, the session, and the process that computes the results.
//!
//! ```text
//! price    forecast of the cost from outside the process, as a range, and reasons to refuse the dump by default
//! session  started, stopped at once, read to the end, healed (docs/heap.md has the reasons)
//!    |bytes
//! child    the same program with a memory limit: events -> graph -> records, pprof, .heapsnapshot
//! files    another process, which reads the target's assemblies for the child, and is left behind if they do not
//!          respond
//! ```
//!
//! If memory is scarce, the kernel kills the child first. The child uses at most [`MAX_BYTES`] and half of the free
//! memory in gcwatch's control group. A hostile process, or a heap that is too large, therefore only prevents the
//! answer.

pub mod child;
pub mod files;
pub mod price;
pub mod session;

use dotnet_diagnostics::discovery::parse_stat;

/// Maximum memory of the computing process, in bytes, unless the user sets another limit.
pub const MAX_BYTES: u64 = 512 << 20;

/// Returns the maximum memory of a child: half of the memory that is free for gcwatch itself, or [`MAX_BYTES`] if the
/// free memory is unknown. Blocks the calling thread.
pub fn free_half() -> u64 {
    let own = std::process::id();
    let stat = std::fs::read(format!("/proc/{own}/stat")).ok();
    let started = stat.and_then(|stat| Some(parse_stat(&stat)?.start_time));
    let (_, free) = price::free(started.map(|started| (own, started)));
    free.unwrap_or(2 * MAX_BYTES) / 2
}
