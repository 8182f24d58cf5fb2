//! Resource limits of a gcwatch process that processes untrusted bytes, set by the process itself.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Assumed size of the process's mappings if `/proc/self/statm` is not readable, in bytes.
const OWN_BYTES: u64 = 256 << 20;

/// Limits this process to `more_bytes` beyond its current mappings and to `cpu_seconds` of CPU time. The kernel kills
/// this process first if memory is scarce. A limit that the system refuses is not set.
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
