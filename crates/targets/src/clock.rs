//! Converts the times of a stream to [`Moment`]s. Pure.
//!
//! A runtime stamps its events with CLOCK_MONOTONIC in nanoseconds, which is also the clock of [`Moment`]s. The header
//! of a stream contains the values of that clock and of the wall clock at the start of the session, but the value of
//! the wall clock is truncated to a millisecond. gcwatch can read both clocks of the host without truncation. gcwatch
//! therefore computes the base of the stream from the host's clocks, so that spans line up with the spans of requests.
//!
//! gcwatch computes the base from the wall clock in the header instead if the frequency differs, because the runtime
//! then does not run on Linux. It does the same if a time namespace with an unreadable offset shifts the clock of the
//! runtime, or if the wall clock was set after the header was written. gcwatch detects these two cases by comparing the
//! two bases.

use base::time::{Moment, TimeBase, Wall};
use nettrace::TraceHeader;

/// Maximum difference between the two bases, in nanoseconds. Truncation makes the header's base at most 1 ms early, and
/// the runtime reads the two clocks for the header almost at the same time. A larger difference means that the runtime
/// has different clocks, or that the wall clock was set.
pub(crate) const MAX_DIFFERENCE_NS: i128 = 50_000_000;

/// Values of the host's clocks at one instant, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// Steady clock, which counts from the boot and excludes suspensions of the host (CLOCK_MONOTONIC).
    pub monotonic_ns: i128,
    /// Wall clock, as Unix time.
    pub unix_ns: i128,
    /// Difference between the wall clock and the steady clock when gcwatch started. A [`Moment`] is the value of the
    /// steady clock plus this difference.
    pub origin_ns: i128,
}

impl Clocks {
    /// Returns the values `passed_ns` later, provided that no clock is set in between.
    #[must_use]
    pub fn after(self, passed_ns: u64) -> Self {
        Self {
            monotonic_ns: self.monotonic_ns + i128::from(passed_ns),
            unix_ns: self.unix_ns + i128::from(passed_ns),
            ..self
        }
    }

    /// Returns the values at the same instant, with the wall clock moved forward by `by_ns`.
    #[must_use]
    pub fn set_by(self, by_ns: i64) -> Self {
        Self {
            unix_ns: self.unix_ns + i128::from(by_ns),
            ..self
        }
    }

    /// Returns the instant as a moment.
    pub fn moment(self) -> Moment {
        Moment::from_ns(u64::try_from(self.monotonic_ns + self.origin_ns).unwrap_or(0))
    }

    /// Returns the offset of the wall clock from the clock of [`Moment`]s.
    pub fn wall(self) -> Wall {
        let ahead = self.unix_ns - (self.monotonic_ns + self.origin_ns);
        Wall::ahead(i64::try_from(ahead).unwrap_or(0))
    }
}

/// Source of the base of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The clocks of the host. The monotonic clock of the target is ahead of gcwatch's monotonic clock by `ahead_ns`.
    Host { ahead_ns: i64 },
    /// The wall clock in the header.
    Header,
}

impl Source {
    /// Selects the source at the start of a session. `ahead_ns` is `None` if the offset of the target's clock is
    /// unknown.
    pub(crate) fn select(header: &TraceHeader, clocks: Clocks, ahead_ns: Option<i64>) -> Self {
        let host = Self::Host {
            ahead_ns: ahead_ns.unwrap_or(0),
        };
        let (Some(by_host), Some(by_header)) = (host.unix_ns_at_sync(header, clocks), header.unix_ns_of_offset(0))
        else {
            return Self::Header;
        };
        if header.frequency == 1_000_000_000 && (by_host - by_header).abs() <= MAX_DIFFERENCE_NS {
            host
        } else {
            Self::Header
        }
    }

    fn unix_ns_at_sync(self, header: &TraceHeader, clocks: Clocks) -> Option<i128> {
        match self {
            Self::Host { ahead_ns } => {
                let since_sync = clocks.monotonic_ns + i128::from(ahead_ns) - i128::from(header.sync_ticks);
                Some(clocks.unix_ns - since_sync)
            }
            Self::Header => header.unix_ns_of_offset(0),
        }
    }

    /// Returns the nanoseconds from the stream's sync point to now, or `None` if the source is the header, because
    /// gcwatch cannot read the clock of that stream.
    pub(crate) fn offset(self, header: &TraceHeader, clocks: Clocks) -> Option<i64> {
        let Self::Host { ahead_ns } = self else { return None };
        i64::try_from(clocks.monotonic_ns + i128::from(ahead_ns) - i128::from(header.sync_ticks)).ok()
    }

    /// Returns the base of the stream, or `None` if the source is the header and its time is invalid.
    pub(crate) fn base(self, header: &TraceHeader, clocks: Clocks) -> Option<TimeBase> {
        let unix_ns = self.unix_ns_at_sync(header, clocks)?;
        Some(TimeBase::at(unix_ns - i128::from(clocks.wall().ahead_ns())))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use base::time::UnixBase;
    use nettrace::SystemTime;

    use super::*;

    /// 2026-01-02 03:04:05.678 UTC.
    const SYNC_UNIX_NS: i128 = 1_767_323_045_678_000_000;

    /// Value of [`Clocks::origin_ns`] in these tests.
    const ORIGIN_NS: i128 = SYNC_UNIX_NS - 5_000_000_000;

    pub(crate) fn header(frequency: i64) -> TraceHeader {
        TraceHeader {
            system_time: SystemTime {
                year: 2026,
                month: 1,
                day_of_week: 5,
                day: 2,
                hour: 3,
                minute: 4,
                second: 5,
                millisecond: 678,
            },
            sync_ticks: 5_000_000_000,
            frequency,
            ..TraceHeader::default()
        }
    }

    fn clocks(since_sync_ns: i128, wall_ahead_ns: i128) -> Clocks {
        Clocks {
            monotonic_ns: 5_000_000_000 + since_sync_ns,
            unix_ns: SYNC_UNIX_NS + since_sync_ns + wall_ahead_ns,
            origin_ns: ORIGIN_NS,
        }
    }

    /// Scenario: gcwatch reads the header of a session 1 s after the runtime wrote the header and truncated the time by
    /// 0.6 ms. A minute after the header, the wall clock has been moved forward by 0.3 ms.
    /// Guarantee: the base is exact to the nanosecond. The move changes only the Unix time into which the base is
    /// converted.
    #[test]
    fn host_clocks_are_exact() {
        let header = header(1_000_000_000);
        let source = Source::select(&header, clocks(1_000_000_000, 600_000), Some(0));
        assert_eq!(source, Source::Host { ahead_ns: 0 });
        let at_first = clocks(1_000_000_000, 600_000);
        let base = source.base(&header, at_first).unwrap();
        assert_eq!(
            i128::from(base.unix(at_first.wall()).unix_ns(7)),
            SYNC_UNIX_NS + 600_007
        );
        let later = clocks(60_000_000_000, 900_000);
        assert_eq!(source.base(&header, later), Some(base));
        assert_eq!(i128::from(base.unix(later.wall()).unix_ns(7)), SYNC_UNIX_NS + 900_007);
    }

    /// Scenario: a time namespace shifts the target's monotonic clock by an hour, by a known or an unknown offset; the
    /// clock of a stream has a frequency of 10 MHz; the wall clock was moved by 60 ms.
    /// Guarantee: the known offset is compensated. In the other cases, the base is computed from the header.
    #[test]
    fn unknown_clocks_fall_back_to_header() {
        const HOUR: i64 = 3_600_000_000_000;
        let header_ns = header(1_000_000_000);
        let shifted = clocks(1_000_000_000 - i128::from(HOUR), i128::from(HOUR));
        let shown = |source: Source, clocks: Clocks| {
            let base = source.base(&header_ns, clocks)?;
            Some(base.unix(clocks.wall()).unix_ns(0))
        };
        let known = Source::select(&header_ns, shifted, Some(HOUR));
        assert_eq!(known, Source::Host { ahead_ns: HOUR });
        assert_eq!(shown(known, shifted), Some(UnixBase::at(SYNC_UNIX_NS).unix_ns(0)));
        let unknown = Source::select(&header_ns, shifted, None);
        assert_eq!(unknown, Source::Header);
        assert_eq!(shown(unknown, shifted), Some(UnixBase::at(SYNC_UNIX_NS).unix_ns(0)));
        assert_eq!(
            Source::select(&header(10_000_000), clocks(0, 0), Some(0)),
            Source::Header
        );
        assert_eq!(
            Source::select(&header_ns, clocks(0, 60_000_000), Some(0)),
            Source::Header
        );
    }
}
