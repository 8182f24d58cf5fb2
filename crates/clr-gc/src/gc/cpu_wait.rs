//! Reasons why collecting threads had no CPU.

/// Reasons why the threads that collected had no CPU in the stops of a collection. The length of that time is in the
/// account, as [`Cause::NoCpu`](crate::gc::Cause::NoCpu). No event reports it; the reader of a live process sets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuWait {
    /// Maximum part of that time during which the CPU limit of the container throttled the threads; `None` if unknown
    /// or if there is no limit.
    pub throttled_ns: Option<i64>,
    /// Number of page faults of the thread that waited longest; `None` if unknown.
    pub page_faults: Option<u64>,
}
