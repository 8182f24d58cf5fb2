//! Types for time. Internally, all times are [`Moment`]s of a clock that advances evenly and cannot be set. [`Wall`]
//! converts them to Unix time for display, export and storage. This module does not read a clock: times are values from
//! the caller.

/// Formats a time as RFC 3339. Returns `None` if it is out of range.
pub fn rfc3339(unix_ns: u64) -> Option<String> {
    let time = jiff::Timestamp::from_nanosecond(unix_ns.into()).ok()?;
    Some(time.to_string())
}

/// An instant: nanoseconds of a clock that advances evenly. The difference of two instants is the elapsed time, even if
/// the wall clock was changed in between.
///
/// For a live process, the clock is the monotonic clock of the host, with an offset so that it matched Unix time when
/// gcwatch started. For a recording, it is Unix time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The earliest instant.
    pub const FIRST: Self = Self(0);

    /// The latest instant.
    pub const NEVER: Self = Self(u64::MAX);

    /// Creates an instant from the nanoseconds of the clock.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds of the clock.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Returns the nanoseconds elapsed since an earlier instant, or 0 if that instant is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the instant that is `ns` nanoseconds later.
    #[must_use]
    pub const fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Returns the instant that is `ns` nanoseconds earlier.
    #[must_use]
    pub const fn before(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

/// The current setting of the wall clock: its offset from the clock of [`Moment`]s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wall {
    ahead_ns: i64,
}

impl Wall {
    /// The wall clock of recordings, whose instants are Unix time.
    pub const UNIX: Self = Self { ahead_ns: 0 };

    /// Creates a wall clock that is ahead by `ahead_ns` nanoseconds.
    pub const fn ahead(ahead_ns: i64) -> Self {
        Self { ahead_ns }
    }

    /// Returns the offset in nanoseconds.
    pub const fn ahead_ns(self) -> i64 {
        self.ahead_ns
    }

    /// Returns an instant in Unix nanoseconds.
    pub fn unix_ns(self, at: Moment) -> u64 {
        at.0.saturating_add_signed(self.ahead_ns)
    }

    /// Returns an instant in Unix milliseconds.
    pub fn unix_ms(self, at: Moment) -> u64 {
        self.unix_ns(at) / 1_000_000
    }

    /// Returns the instant of a Unix time.
    pub fn moment(self, unix_ns: u64) -> Moment {
        Moment(unix_ns.saturating_add_signed(self.ahead_ns.saturating_neg()))
    }

    /// Formats an instant as RFC 3339. Returns `None` if it is out of range.
    pub fn rfc3339(self, at: Moment) -> Option<String> {
        rfc3339(self.unix_ns(at))
    }
}

/// Origin of a stream's offsets: the instant of its sync point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBase {
    /// The sync point in nanoseconds of the clock of [`Moment`]s.
    at_sync: i128,
}

impl TimeBase {
    /// Creates a base whose sync point is at `ns` nanoseconds of the clock of [`Moment`]s; for a recording, at that
    /// Unix time.
    pub fn at(ns: i128) -> Self {
        Self { at_sync: ns }
    }

    /// Returns the instant of an offset from the sync point.
    pub fn moment(self, offset_ns: i64) -> Moment {
        Moment(u64::try_from(self.at_sync + i128::from(offset_ns)).unwrap_or(0))
    }

    /// Returns a base whose sync point is `ns` nanoseconds later.
    #[must_use]
    pub fn later(self, ns: i64) -> Self {
        Self::at(self.at_sync + i128::from(ns))
    }

    /// Returns the Unix time of the base's offsets.
    pub fn unix(self, wall: Wall) -> UnixBase {
        UnixBase { base: self, wall }
    }
}

/// A [`TimeBase`] with a wall clock. It converts a stream's offsets to Unix time for export and display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixBase {
    base: TimeBase,
    wall: Wall,
}

impl UnixBase {
    /// Creates the base of a recording whose sync point was at this Unix time, in nanoseconds; negative before 1970.
    pub fn at(unix_ns: i128) -> Self {
        TimeBase::at(unix_ns).unix(Wall::UNIX)
    }

    /// Returns the instant of an offset from the sync point.
    pub fn moment(self, offset_ns: i64) -> Moment {
        self.base.moment(offset_ns)
    }

    /// Returns an offset from the sync point in Unix nanoseconds, or 0 (OTLP's "unknown") if it is before 1970.
    pub fn unix_ns(self, offset_ns: i64) -> u64 {
        let at = self.base.at_sync + i128::from(self.wall.ahead_ns) + i128::from(offset_ns);
        u64::try_from(at).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: an instant is displayed; then the wall clock is set one hour forward, and two hours back.
    /// Guarantee: the instant can be recovered from its Unix time under the same wall clock, elapsed time does not
    /// change, and times of a stream follow the current wall clock.
    #[test]
    fn set_clock_changes_only_displayed_time() {
        const HOUR: i64 = 3_600_000_000_000;
        let (at, base) = (Moment::from_ns(1_767_323_045_678_000_000), TimeBase::at(1_000));
        for by in [0, HOUR, -HOUR] {
            let wall = Wall::ahead(by);
            assert_eq!(wall.unix_ns(at).cast_signed(), at.ns().cast_signed() + by);
            assert_eq!(wall.moment(wall.unix_ns(at)), at);
            assert_eq!(base.unix(wall).unix_ns(HOUR), (1_000 + HOUR + by).cast_unsigned());
            assert_eq!(base.unix(wall).moment(7), base.moment(7));
        }
        assert_eq!(at.after(7).since(at), 7);
        assert_eq!(at.since(at.after(7)), 0);
        assert_eq!(base.moment(-2_000), Moment::FIRST);
        assert_eq!(Wall::UNIX.rfc3339(at).as_deref(), Some("2026-01-02T03:04:05.678Z"));
    }
}
