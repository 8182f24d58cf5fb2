//! Time. Inside it is one clock's, which passes evenly and which nobody sets: [`Moment`]. Unix time is made of it where
//! something is shown, exported or stored, by [`Wall`]. Nothing reads a clock: times are values from the caller.

/// RFC 3339; `None` if it is out of range.
pub fn rfc3339(unix_ns: u64) -> Option<String> {
    let time = jiff::Timestamp::from_nanosecond(unix_ns.into()).ok()?;
    Some(time.to_string())
}

/// An instant: nanoseconds of a clock that passes evenly. What two of them are apart is time that passed, however the
/// wall clock was set meanwhile.
///
/// Of a live process the clock is the host's monotonic one, counted so that it agreed with Unix time when gcwatch
/// started; of a recording it is Unix time itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Before everything.
    pub const FIRST: Self = Self(0);

    /// After everything.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many nanoseconds of the clock.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds of the clock.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds that passed since an earlier instant; 0 since a later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// So many nanoseconds later.
    #[must_use]
    pub const fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// So many nanoseconds earlier.
    #[must_use]
    pub const fn before(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

/// What the wall clock shows at an instant: by how much it is ahead of the clock of [`Moment`]s, as it is set now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wall {
    ahead_ns: i64,
}

impl Wall {
    /// That of recordings: their instants are Unix time.
    pub const UNIX: Self = Self { ahead_ns: 0 };

    /// Ahead by so much.
    pub const fn ahead(ahead_ns: i64) -> Self {
        Self { ahead_ns }
    }

    /// By how much it is ahead, nanoseconds.
    pub const fn ahead_ns(self) -> i64 {
        self.ahead_ns
    }

    /// Unix nanoseconds of an instant.
    pub fn unix_ns(self, at: Moment) -> u64 {
        at.0.saturating_add_signed(self.ahead_ns)
    }

    /// Unix milliseconds of an instant.
    pub fn unix_ms(self, at: Moment) -> u64 {
        self.unix_ns(at) / 1_000_000
    }

    /// The instant of that Unix time.
    pub fn moment(self, unix_ns: u64) -> Moment {
        Moment(unix_ns.saturating_add_signed(self.ahead_ns.saturating_neg()))
    }

    /// An instant in RFC 3339; `None` if it is out of range.
    pub fn rfc3339(self, at: Moment) -> Option<String> {
        rfc3339(self.unix_ns(at))
    }
}

/// Where a stream's offsets lie: the instant of its sync point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBase {
    /// Nanoseconds of the clock of [`Moment`]s.
    at_sync: i128,
}

impl TimeBase {
    /// A base that puts the sync point at so many nanoseconds of the clock of [`Moment`]s: of a recording, at that Unix
    /// time.
    pub fn at(ns: i128) -> Self {
        Self { at_sync: ns }
    }

    /// The instant of an offset from the sync point.
    pub fn moment(self, offset_ns: i64) -> Moment {
        Moment(u64::try_from(self.at_sync + i128::from(offset_ns)).unwrap_or(0))
    }

    /// The same base, its sync point later by so much.
    #[must_use]
    pub fn later(self, ns: i64) -> Self {
        Self::at(self.at_sync + i128::from(ns))
    }

    /// The Unix time of its offsets.
    pub fn unix(self, wall: Wall) -> UnixBase {
        UnixBase { base: self, wall }
    }
}

/// A [`TimeBase`] with what the wall clock shows: the Unix time of a stream's offsets, for what is exported and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixBase {
    base: TimeBase,
    wall: Wall,
}

impl UnixBase {
    /// That of a recording whose sync point was at that Unix time, nanoseconds; negative before 1970.
    pub fn at(unix_ns: i128) -> Self {
        TimeBase::at(unix_ns).unix(Wall::UNIX)
    }

    /// The instant of an offset from the sync point.
    pub fn moment(self, offset_ns: i64) -> Moment {
        self.base.moment(offset_ns)
    }

    /// Unix nanoseconds of an offset from the sync point; 0 if that is before 1970 (as OTLP's "unknown").
    pub fn unix_ns(self, offset_ns: i64) -> u64 {
        let at = self.base.at_sync + i128::from(self.wall.ahead_ns) + i128::from(offset_ns);
        u64::try_from(at).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: an instant, shown; the wall clock is set an hour forward, then two back.
    /// Guarantee: it is the same instant whatever the wall clock shows, which is found again of what was shown and
    /// stored; what passed since then is what passed. The times of a stream are shown as the clock is now.
    #[test]
    fn a_set_clock_moves_what_is_shown_alone() {
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
