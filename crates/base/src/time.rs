//! Time as a value. Internal times are [`Moment`]s of a single clock, which runs evenly and is never set. [`Wall`]
//! converts these moments to Unix time for display, export and storage. This module reads no clock: callers pass times
//! as values.

/// Formats Unix nanoseconds in RFC 3339. Returns `None` if the time is out of range.
pub fn rfc3339(unix_ns: u64) -> Option<String> {
    let time = jiff::Timestamp::from_nanosecond(unix_ns.into()).ok()?;
    Some(time.to_string())
}

/// An instant, in nanoseconds of a clock that runs evenly. The difference of two instants is the elapsed time, even if
/// the wall clock was set in between.
///
/// For a live process, the clock is the host's monotonic clock, with an offset such that it agreed with Unix time when
/// gcwatch started. For a recording, the clock is Unix time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The earliest instant.
    pub const FIRST: Self = Self(0);

    /// The latest instant, which no clock reaches.
    pub const NEVER: Self = Self(u64::MAX);

    /// Creates an instant from nanoseconds of the clock.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds of the clock.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Returns the nanoseconds since an earlier instant, or 0 if `earlier` is the later instant.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the instant `ns` nanoseconds later.
    #[must_use]
    pub const fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Returns the instant `ns` nanoseconds earlier.
    #[must_use]
    pub const fn before(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

/// The current offset between the wall clock and the clock of [`Moment`]s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wall {
    ahead_ns: i64,
}

impl Wall {
    /// The offset for recordings, whose instants are Unix time.
    pub const UNIX: Self = Self { ahead_ns: 0 };

    /// Creates an offset in nanoseconds.
    pub const fn ahead(ahead_ns: i64) -> Self {
        Self { ahead_ns }
    }

    /// Returns the offset in nanoseconds.
    pub const fn ahead_ns(self) -> i64 {
        self.ahead_ns
    }

    /// Converts an instant to Unix nanoseconds.
    pub fn unix_ns(self, at: Moment) -> u64 {
        at.0.saturating_add_signed(self.ahead_ns)
    }

    /// Converts an instant to Unix milliseconds.
    pub fn unix_ms(self, at: Moment) -> u64 {
        self.unix_ns(at) / 1_000_000
    }

    /// Converts Unix nanoseconds to an instant.
    pub fn moment(self, unix_ns: u64) -> Moment {
        Moment(unix_ns.saturating_add_signed(self.ahead_ns.saturating_neg()))
    }

    /// Formats an instant in RFC 3339. Returns `None` if it is out of range.
    pub fn rfc3339(self, at: Moment) -> Option<String> {
        rfc3339(self.unix_ns(at))
    }
}

/// The instant of a stream's sync point, to which offsets are relative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBase {
    /// Nanoseconds of the clock of [`Moment`]s.
    at_sync: i128,
}

impl TimeBase {
    /// Creates a base with the sync point at the given nanoseconds of the clock of [`Moment`]s. For a recording, this
    /// is Unix time.
    pub fn at(ns: i128) -> Self {
        Self { at_sync: ns }
    }

    /// Converts an offset from the sync point to an instant.
    pub fn moment(self, offset_ns: i64) -> Moment {
        Moment(u64::try_from(self.at_sync + i128::from(offset_ns)).unwrap_or(0))
    }

    /// Returns the base with the sync point moved `ns` nanoseconds later.
    #[must_use]
    pub fn later(self, ns: i64) -> Self {
        Self::at(self.at_sync + i128::from(ns))
    }

    /// Returns the base for Unix times.
    pub fn unix(self, wall: Wall) -> UnixBase {
        UnixBase { base: self, wall }
    }
}

/// A [`TimeBase`] with the offset of the wall clock. This base converts a stream's offsets to Unix time for export and
/// display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixBase {
    base: TimeBase,
    wall: Wall,
}

impl UnixBase {
    /// Creates the base of a recording whose sync point has the given Unix time in nanoseconds, which is negative
    /// before 1970.
    pub fn at(unix_ns: i128) -> Self {
        TimeBase::at(unix_ns).unix(Wall::UNIX)
    }

    /// Converts an offset from the sync point to an instant.
    pub fn moment(self, offset_ns: i64) -> Moment {
        self.base.moment(offset_ns)
    }

    /// Converts an offset from the sync point to Unix nanoseconds, or to 0 before 1970 (like OTLP's "unknown").
    pub fn unix_ns(self, offset_ns: i64) -> u64 {
        let at = self.base.at_sync + i128::from(self.wall.ahead_ns) + i128::from(offset_ns);
        u64::try_from(at).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: an instant is displayed; the wall clock is set one hour forward, then two hours back.
    /// Guarantee: the instant stays the same and can be restored from displayed and stored times; elapsed times do not
    /// change. The times of a stream are displayed with the current offset.
    #[test]
    fn setting_the_clock_changes_only_displayed_times() {
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
