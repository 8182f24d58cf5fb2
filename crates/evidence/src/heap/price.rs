//! What a heap dump will cost a process, as far as can be known from outside of it. Blocking: `/proc` and control
//! groups.

use std::time::Duration;

use clr_heap::cost::{Forecast, Known};
use dotnet_diagnostics::discovery::Process;

use crate::heap::session::WITHIN;
use processes::container::Reader;
use targets::facts::Facts;
use targets::heap_limit;
use targets::proc_file::{MAX_STATUS_BYTES, anonymous, meminfo, of_process};
use targets::thread_names::names;

/// A stop that is forecast to be longer is refused: probes and load balancers give up after some seconds.
pub const MOST_STOP: Duration = Duration::from_secs(2);
/// Time for reading, naming and healing, beside the stops.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// The name of the server collector's threads.
const SERVER: &str = ".NET Server GC";

/// What is known before a dump.
#[derive(Debug, Clone)]
pub struct Price {
    /// What it will cost.
    pub forecast: Forecast,
    /// Bytes that live, at most: the process's anonymous memory.
    pub live_bytes: u64,
    /// Bytes that are free for the process, by its control group or else the machine.
    pub free_bytes: Option<u64>,
    /// The container's limit is what bounds it.
    pub is_limited: bool,
    /// Megabytes of the buffer to ask for.
    pub buffer_mb: u32,
    /// Why it is refused unless a person insists: sentences.
    pub refusals: Vec<String>,
    /// Why it cannot be at all.
    pub impossible: Option<String>,
}

impl Price {
    /// Returns the time that the beginning of a dump, and its end, may take each: four times the stops that are forecast
    /// at most, and 30 s for reading and naming. If nothing can be forecast, it is [`WITHIN`].
    pub fn within(&self) -> Duration {
        if self.live_bytes == 0 {
            return WITHIN;
        }
        let stops = u64::from(self.forecast.stops.max(1));
        let stopped = Duration::from_nanos(self.forecast.stop_ns.high.saturating_mul(stops));
        READ_WITHIN.saturating_add(stopped.saturating_mul(4)).min(WITHIN)
    }
}

/// The price of a dump of this process; `major`: the first number of its runtime, `None`: .NET Core 3 or unknown.
/// `histogram`: without references.
pub fn of(process: &Process, major: Option<u32>, histogram: bool) -> Price {
    let facts = Facts::of(process);
    let status = of_process(process.pid, "status", MAX_STATUS_BYTES).filter(|_| process.visible);
    let live_bytes = status.as_deref().and_then(anonymous).unwrap_or(0);
    let known = Known {
        live_bytes,
        server: is_server(process),
        collects_twice: major.is_none_or(|major| major < 10),
    };
    let mut forecast = known.forecast();
    // From .NET 10 on the references can be left out: half of the buffer, two thirds of the stop.
    if histogram && major.is_some_and(|major| major >= 10) {
        forecast.buffer_bytes = forecast.buffer_bytes.div_ceil(2);
    }
    let (of_group, free_bytes) = free(process.visible.then_some((process.pid, process.start_time)));
    let half = free_bytes.map_or(u64::MAX, |free| free / 2);
    let buffer = forecast.buffer_bytes.min(half).max(1 << 20);
    let mut refusals = Vec::new();
    if live_bytes == 0 {
        refusals.push("its memory cannot be read, so that nothing can be forecast".to_owned());
    }
    if forecast.stop_ns.high > u64::try_from(MOST_STOP.as_nanos()).unwrap_or(u64::MAX) {
        refusals.push(format!(
            "it may stop all threads for more than {} s",
            MOST_STOP.as_secs()
        ));
    }
    // Usual heaps need their own size in buffers, those with few references half of it.
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
        .then(|| "it was compiled with NativeAOT, whose runtime makes no heap dump".to_owned());
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

/// Bytes that are free for a process, by pid and start time: by its control group; and by that or the machine.
pub(super) fn free(process: Option<(u32, u64)>) -> (Option<u64>, Option<u64>) {
    let figures = process.and_then(|(pid, started)| Reader::new().read(pid, started));
    let of_group = figures.and_then(|figures| {
        let (limit, used) = (figures.memory_limit?, figures.memory.working_set?);
        Some(limit.saturating_sub(used))
    });
    (of_group, [of_group, available()].into_iter().flatten().min())
}

/// Bytes that the machine has for new memory.
pub fn available() -> Option<u64> {
    meminfo("MemAvailable:")
}

/// By the names of its threads; `None`: not in our `/proc`, or too old to name them (before .NET 5).
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
