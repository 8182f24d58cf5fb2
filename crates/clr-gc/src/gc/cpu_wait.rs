//! Reasons why collecting threads had no CPU.

/// Reasons why the threads that collected had no CPU in the stops of a collection. The account contains the length of
/// the time without CPU, as [`Cause::NoCpu`](crate::gc::Cause::NoCpu). No event reports these reasons; the reader of a
/// live process sets them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuWait {
    /// Upper bound of the time for which the CPU limit of the container throttled the threads, in nanoseconds; `None`
    /// if unknown or if there is no limit.
    pub throttled_ns: Option<i64>,
    /// Number of page faults of the thread that waited longest; `None` if unknown.
    pub page_faults: Option<u64>,
}
