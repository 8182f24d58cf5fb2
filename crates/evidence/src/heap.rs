//! Heap dumps: what one will cost, the session that has it, and the process that computes what it shows.
//!
//! ```text
//! price    what is known from outside, a range, and why it is refused by default
//! session  begun, stopped at once, read to the end, healed (docs/heap.md has why each)
//!    |bytes
//! child    the same program with a limit of its own memory: events -> graph -> records, pprof, .heapsnapshot
//! files    one more, which reads the target's assemblies for the child, and is left behind if they do not respond
//! ```
//!
//! The child is the first that the kernel would kill, and takes at most [`MOST_BYTES`] and half of what is free in
//! gcwatch's own control group: a hostile process, or a heap that is too large, costs an answer.

pub mod child;
pub mod files;
pub mod price;
pub mod session;

use dotnet_diagnostics::discovery::parse_stat;

/// The most memory of the process that computes, unless a person says otherwise.
pub const MOST_BYTES: u64 = 512 << 20;

/// The memory that a child may take: half of what is free for gcwatch itself; blocking.
pub fn free_half() -> u64 {
    let own = std::process::id();
    let stat = std::fs::read(format!("/proc/{own}/stat")).ok();
    let started = stat.and_then(|stat| Some(parse_stat(&stat)?.start_time));
    let (_, free) = price::free(started.map(|started| (own, started)));
    free.unwrap_or(2 * MOST_BYTES) / 2
}
