//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current Unix time in nanoseconds, or 0 if the clock is set before 1970.
pub fn now_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
