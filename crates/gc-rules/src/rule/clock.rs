//! Times of day at which an exception applies.

/// A day, seconds.
const DAY: i64 = 86_400;
/// All days of the week.
pub const EVERY_DAY: u8 = 0x7f;

/// A part of the day, on some days of the week, in a fixed offset from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Clock {
    /// Days on which it begins; bit 0 is Monday.
    pub days: u8,
    /// Its beginning, seconds of the day.
    pub from: u32,
    /// Its end, which is not in it, seconds of the day; at most 86,400. If it is not after the beginning, that of the
    /// next day.
    pub to: u32,
    /// Local time minus UTC, seconds.
    pub offset: i32,
}

impl Clock {
    /// Whether a time is in it, Unix nanoseconds.
    pub fn contains(&self, unix_ns: u64) -> bool {
        let unix = i64::try_from(unix_ns / 1_000_000_000).unwrap_or(i64::MAX - DAY);
        let local = unix.saturating_add(self.offset.into());
        let (day, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (from, to) = (i64::from(self.from), i64::from(self.to));
        if from < to {
            return (from..to).contains(&second) && self.begins_on(day);
        }
        (second >= from && self.begins_on(day)) || (second < to && self.begins_on(day - 1))
    }

    /// `day`: days since 1970-01-01, a Thursday.
    fn begins_on(&self, day: i64) -> bool {
        let weekday = (day + 3).rem_euclid(7);
        self.days >> weekday & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-11-02, a Monday, 00:00 UTC, Unix seconds.
    const MONDAY: u64 = 1_793_577_600;

    fn at(clock: Clock, hours: u64) -> bool {
        clock.contains((MONDAY + hours * 3600) * 1_000_000_000)
    }

    /// Scenario: from 22:00 to 04:00, on Mondays, in UTC and two hours ahead of it.
    /// Guarantee: the night that begins on Monday is in it until Tuesday morning, and none that begins on another day.
    #[test]
    fn a_night_belongs_to_the_day_on_which_it_begins() {
        let night = Clock {
            days: 1,
            from: 22 * 3600,
            to: 4 * 3600,
            offset: 0,
        };
        let inside: Vec<u64> = (0..7 * 24).filter(|hour| at(night, *hour)).collect();
        assert_eq!(inside, [22, 23, 24, 25, 26, 27]);
        let ahead = Clock { offset: 7200, ..night };
        let inside: Vec<u64> = (0..7 * 24).filter(|hour| at(ahead, *hour)).collect();
        assert_eq!(inside, [20, 21, 22, 23, 24, 25]);
    }

    proptest! {
        /// Scenario: any part of the day, on any days, in any offset, and any time.
        /// Guarantee: the time is in it exactly if it lies between the beginning and the end of one that begins on one
        /// of its days.
        #[test]
        fn it_holds_what_lies_between_its_ends(
            days in 0..=EVERY_DAY, from in 0..86_400_u32, to in 1..=86_400_u32, offset in -50_400..=50_400_i32,
            unix in 1_000_000_u64..5_000_000_000,
        ) {
            let clock = Clock { days, from, to, offset };
            let local = i64::try_from(unix).unwrap() + i64::from(offset);
            let length = if from < to { to - from } else { to + 86_400 - from };
            let expected = (-1..=1).any(|near| {
                let day = local.div_euclid(86_400) + near;
                let begin = day * 86_400 + i64::from(from);
                let weekday = (day + 3).rem_euclid(7);
                days >> weekday & 1 == 1 && (begin..begin + i64::from(length)).contains(&local)
            });
            prop_assert_eq!(clock.contains(unix * 1_000_000_000), expected);
        }
    }
}
