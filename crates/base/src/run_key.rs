//! The key of a process run.

/// The identity of one run of a process. Pids are reused, but the combination of a pid and a start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// Pid on the host, or the pid in the stream if the run is recorded.
    pub pid: u32,
    /// Start time in clock ticks after boot (field 22 of `/proc/PID/stat`), or the sync time of the stream if the run
    /// is recorded.
    pub start_time: u64,
}
