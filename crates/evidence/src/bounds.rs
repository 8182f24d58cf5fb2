//! Resource limits that a gcwatch process sets for itself before it processes untrusted bytes.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Assumed size of the process's mappings, in bytes, if `/proc/self/statm` is not readable.
const OWN_BYTES: u64 = 256 << 20;

/// Limits the address space of this process to `more_bytes` beyond its current mappings, and its CPU time to
/// `cpu_seconds`. Marks this process as the first that the kernel kills if memory is scarce. A setting that the kernel
/// refuses is not applied.
pub fn bound(more_bytes: u64, cpu_seconds: u64) {
    let _not_the_first = std::fs::write("/proc/self/oom_score_adj", "1000");
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    let own = pages.map_or(OWN_BYTES, |pages| {
        pages.saturating_mul(rustix::param::page_size() as u64)
    });
    let of = |most| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    let _unlimited = setrlimit(Resource::As, of(own.saturating_add(more_bytes)));
    let _unlimited = setrlimit(Resource::Cpu, of(cpu_seconds));
}
