//! The forecast cost of a heap dump, estimated from outside the process. Blocks the calling thread for `/proc` and
//! control groups.

use std::time::Duration;

use clr_heap::cost::{Forecast, ProcessEstimate};
use dotnet_diagnostics::discovery::Process;

use crate::heap::session::DUMP_TIMEOUT;
use processes::container::Reader;
use targets::facts::Facts;
use targets::heap_limit;
use targets::proc_file::{MAX_STATUS_BYTES, anonymous, meminfo, read_process_file};
use targets::thread_names::names;

/// Maximum forecast suspension. A longer suspension is refused, because probes and load balancers time out after some
/// seconds.
pub const MAX_STOP: Duration = Duration::from_secs(2);
/// Time for reading, naming and healing, in addition to the suspensions.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Name of the threads of server GC.
const SERVER: &str = ".NET Server GC";

/// Facts known before a dump.
#[derive(Debug, Clone)]
pub struct Price {
    /// Forecast of the cost.
    pub forecast: Forecast,
    /// Maximum number of live bytes: the anonymous memory of the process; 0 if unknown.
    pub live_bytes: u64,
    /// Bytes that are free for the process, in its control group or on the machine, whichever has less; `None` if
    /// unknown.
    pub free_bytes: Option<u64>,
    /// Whether the container's limit determines the free memory.
    pub is_limited: bool,
    /// Size of the buffer to request, in megabytes.
    pub buffer_mb: u32,
    /// Reasons to refuse the dump unless the user insists, as sentences.
    pub refusals: Vec<String>,
    /// Reason why a dump is impossible; `None` if a dump is possible.
    pub impossible: Option<String>,
}

impl Price {
    /// Returns the timeout for the start of a dump, and for its end: four times the maximum forecast suspension, and 30
    /// s for reading and naming. Without a forecast, the timeout is [`DUMP_TIMEOUT`].
    pub fn within(&self) -> Duration {
        if self.live_bytes == 0 {
            return DUMP_TIMEOUT;
        }
        let stops = u64::from(self.forecast.stops.max(1));
        let stopped = Duration::from_nanos(self.forecast.stop_ns.high.saturating_mul(stops));
        READ_TIMEOUT.saturating_add(stopped.saturating_mul(4)).min(DUMP_TIMEOUT)
    }
}

/// Returns the price of a dump of this process. `major` is the major version of its runtime, or `None` for .NET Core 3
/// and unknown versions. With `histogram`, references are omitted if the runtime supports this (.NET 10 and later).
pub fn estimate(process: &Process, major: Option<u32>, histogram: bool) -> Price {
    let facts = Facts::for_process(process);
    let status = read_process_file(process.pid, "status", MAX_STATUS_BYTES).filter(|_| process.visible);
    let live_bytes = status.as_deref().and_then(anonymous).unwrap_or(0);
    let known = ProcessEstimate {
        live_bytes,
        server: is_server(process),
        collects_twice: major.is_none_or(|major| major < 10),
    };
    let mut forecast = known.forecast();
    // .NET 10 and later can omit references, which halves the buffer and saves a third of the suspension.
    if histogram && major.is_some_and(|major| major >= 10) {
        forecast.buffer_bytes = forecast.buffer_bytes.div_ceil(2);
    }
    let (of_group, free_bytes) = free(process.visible.then_some((process.pid, process.start_time)));
    let half = free_bytes.map_or(u64::MAX, |free| free / 2);
    let buffer = forecast.buffer_bytes.min(half).max(1 << 20);
    let mut refusals = Vec::new();
    if live_bytes == 0 {
        refusals.push("its memory cannot be read, so the cost cannot be forecast".to_owned());
    }
    if forecast.stop_ns.high > u64::try_from(MAX_STOP.as_nanos()).unwrap_or(u64::MAX) {
        refusals.push(format!(
            "it may stop all threads for more than {} s",
            MAX_STOP.as_secs()
        ));
    }
    // Usual heaps need buffers as large as the heap; heaps with few references need buffers of half this size.
    if live_bytes / 2 > half {
        refusals.push(format!(
            "the dump takes memory beside the heap, and of {} MiB that are free half may not be enough: a process that \
             meets its limit is killed",
            free_bytes.unwrap_or(0) >> 20
        ));
    }
    if let Some(limit) = heap_limit::at_limit(process, &facts) {
        refusals.push(limit);
    }
    let impossible = (facts.native_aot == Some(true))
        .then(|| "it was compiled with NativeAOT, whose runtime has no heap dumps".to_owned());
    Price {
        forecast,
        live_bytes,
        free_bytes,
        is_limited: of_group.is_some() && of_group == free_bytes,
        buffer_mb: u32::try_from(buffer >> 20).unwrap_or(u32::MAX).clamp(1, 1 << 16),
        refusals,
        impossible,
    }
}

/// Returns the free bytes for a process, which is identified by pid and start time. The first value is the free memory
/// of its control group, or `None` without a known limit. The second value is the minimum of the first value and the
/// available memory of the machine, or `None` if both are unknown.
pub(super) fn free(process: Option<(u32, u64)>) -> (Option<u64>, Option<u64>) {
    let figures = process.and_then(|(pid, started)| Reader::new().read(pid, started));
    let of_group = figures.and_then(|figures| {
        let (limit, used) = (figures.memory_limit?, figures.memory.working_set?);
        Some(limit.saturating_sub(used))
    });
    (of_group, [of_group, available()].into_iter().flatten().min())
}

/// Returns the bytes that the machine has available for new memory, or `None` if unknown.
pub fn available() -> Option<u64> {
    meminfo("MemAvailable:")
}

/// Determines server GC by the names of the threads. Returns `None` if the process is not in this `/proc`, or if its
/// runtime is too old to name its threads (before .NET 5).
fn is_server(process: &Process) -> Option<bool> {
    if !process.visible {
        return None;
    }
    let names = names(process.pid);
    if names.values().any(|name| name == SERVER) {
        return Some(true);
    }
    let is_named = names.values().any(|name| name.starts_with(".NET "));
    is_named.then_some(false)
}
