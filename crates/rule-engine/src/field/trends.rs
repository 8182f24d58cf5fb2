//! Level, trend and age of the memory of a process, as facts. The module `memory` computes them.

use base::time::Moment;

/// Level, trend and age of one memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryTrend {
    /// Size of the memory, in bytes; `None` if unknown.
    pub bytes: Option<u64>,
    /// Share of the smallest applicable limit, 0 to 1 or above; `None` without a limit or if unknown.
    pub level: Option<f64>,
    /// Growth over the last five minutes in bytes per minute, 0 if the memory does not grow; `None` if the observed
    /// time is too short.
    pub per_minute: Option<f64>,
    /// Growth over the last hour in bytes per minute, like `per_minute`.
    pub slow_per_minute: Option<f64>,
    /// Start of the growth over the last five minutes, or start of the growth over the last hour if that is earlier;
    /// `None` if the memory does not grow.
    pub since: Option<Moment>,
    /// Start of the growth over the last hour; `None` if the memory does not grow.
    pub slow_since: Option<Moment>,
}

/// Trends of the three memories of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryTrends {
    /// Memory of the container that the kernel cannot reclaim.
    pub container: MemoryTrend,
    /// Private memory of the process. Without a reading, as in a recording, the trend is the trend of the heap.
    pub process: MemoryTrend,
    /// Live bytes of the heap after the newest full collection.
    pub heap: MemoryTrend,
    /// Heap bytes that no full collection has visited; `None` before the first collection.
    pub unvisited: Option<u64>,
    /// Time of the newest full collection, or of the first collection if no full one was observed.
    pub full_collection: Option<Moment>,
    /// Whether the latency mode prevents full collections; `None` before the first collection.
    pub is_full_kept_away: Option<bool>,
}

/// The limits that levels refer to, in bytes. `None` if there is no limit, or if the limit is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory limit of the container.
    pub container: Option<u64>,
    /// Limit of the heap.
    pub heap: Option<u64>,
}
