//! Why threads that collect had no CPU.

/// Why the threads that collected had no CPU in the stops of a collection. How long that was is in the account, as
/// [`Cause::NoCpu`](crate::gc::Cause::NoCpu). No event says so: whoever reads a live process sets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuWait {
    /// So much of it, at most, the CPU limit of the container kept them from it. `None`: not known, or there is no
    /// limit.
    pub throttled_ns: Option<i64>,
    /// How often the thread that waited longest needed a page that was not in memory. `None`: not known.
    pub page_faults: Option<u64>,
}
