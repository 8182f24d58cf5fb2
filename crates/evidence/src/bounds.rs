//! Bounds of a process of gcwatch that computes something of foreign bytes, set by the process itself.

use rustix::process::{Resource, Rlimit, setrlimit};

/// What a process is taken to have mapped where that cannot be read.
const OWN_BYTES: u64 = 256 << 20;

/// Bounds this process: so many bytes beyond what it has mapped, and so many seconds of CPU. It is the first that the
/// kernel kills where memory is short. A bound that the system refuses is not set.
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
