//! The time of a stream as Unix time. Nothing reads a clock: times are values from the caller.

/// RFC 3339; `None` if it is out of range.
pub fn rfc3339(unix_ns: u64) -> Option<String> {
    let time = jiff::Timestamp::from_nanosecond(unix_ns.into()).ok()?;
    Some(time.to_string())
}

/// A time of the wall clock after that was set by so much. `u64::MAX`, which means never, stays.
pub fn moved(unix_ns: u64, by_ns: i64) -> u64 {
    match unix_ns {
        u64::MAX => u64::MAX,
        time => time.saturating_add_signed(by_ns),
    }
}

/// Unix time of a stream's offsets: nanoseconds since the epoch at the stream's sync point.
///
/// A stream's own sync time has a resolution of one millisecond. On the host where the process runs, the offsets are
/// ticks of the host's monotonic clock, and the base is better taken from the host's clocks: then spans align with the
/// traces of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBase {
    /// Unix nanoseconds of the stream's sync point; negative before 1970.
    unix_ns_at_sync: i128,
}

impl TimeBase {
    /// A base that puts the sync point at `unix_ns_at_sync`.
    pub fn at(unix_ns_at_sync: i128) -> Self {
        Self { unix_ns_at_sync }
    }

    /// Unix nanoseconds of an offset from the sync point; 0 if that is before 1970 (as OTLP's "unknown").
    pub fn unix_ns(self, offset_ns: i64) -> u64 {
        u64::try_from(self.unix_ns_at_sync + i128::from(offset_ns)).unwrap_or(0)
    }
}
