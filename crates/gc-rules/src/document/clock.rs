//! Times of day: `22:00-04:00`, `+02:00`, days of the week.

use std::str::FromStr;

use strict_yaml::quote::quoted;
use strict_yaml::{read_from_text, words};

/// A part of the day, seconds of it: `22:00-04:00` ends on the next day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Between {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Local time minus UTC, seconds: `UTC`, `+02:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offset(pub(crate) i32);

words! {
    /// A day of the week.
    pub(crate) enum Day {
        /// Monday.
        Monday = "mon",
        /// Tuesday.
        Tuesday = "tue",
        /// Wednesday.
        Wednesday = "wed",
        /// Thursday.
        Thursday = "thu",
        /// Friday.
        Friday = "fri",
        /// Saturday.
        Saturday = "sat",
        /// Sunday.
        Sunday = "sun",
    }
}

impl Day {
    /// Its bit in [`crate::rule::Clock::days`].
    pub(crate) fn bit(self) -> u8 {
        let place = Self::ALL.iter().position(|day| *day == self).unwrap_or_default();
        1 << place
    }
}

/// `22:00` as seconds of the day; up to 24:00.
fn seconds(text: &str) -> Option<u32> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let number = |text: &str| -> Option<u32> {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok())?
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let seconds = hours * 3600 + minutes * 60;
    (minutes < 60 && seconds <= 86_400).then_some(seconds)
}

impl FromStr for Between {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ends = text.split_once('-');
        let ends = ends.and_then(|(from, to)| Some((seconds(from)?, seconds(to)?)));
        match ends {
            Some((from, to)) if from == to || (from == 0 && to == 86_400) => Err(format!(
                "{} is all of the day; for whole days leave `between` out and set `days`",
                quoted(text)
            )),
            Some((from, to)) if from < 86_400 && to > 0 => Ok(Self { from, to }),
            Some((from, 0)) if from < 86_400 => Ok(Self { from, to: 86_400 }),
            _ => Err(format!(
                "{} is no part of the day; write its beginning and its end, in quotes: \"22:00-04:00\"",
                quoted(text)
            )),
        }
    }
}

impl FromStr for Offset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST: u32 = 14 * 3600;
        let text = text.trim();
        if matches!(text, "UTC" | "Z") {
            return Ok(Self(0));
        }
        let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(rest), _) => (1, rest),
            (_, Some(rest)) => (-1, rest),
            _ => (0, text),
        };
        let seconds = seconds(rest).filter(|seconds| *seconds <= MOST && sign != 0);
        let seconds = seconds.and_then(|seconds| i32::try_from(seconds).ok());
        seconds.map(|seconds| Self(sign * seconds)).ok_or_else(|| {
            format!(
                "{} is no offset from UTC; write UTC, or \"+02:00\" in quotes (names of zones are not known, and summer time \
                 is not followed)",
                quoted(text)
            )
        })
    }
}

read_from_text!(
    Between,
    "clock-range",
    "^[0-9]{2}:[0-9]{2} *- *[0-9]{2}:[0-9]{2}$",
    ["22:00-04:00"]
);
read_from_text!(
    Offset,
    "utc-offset",
    "^(UTC|Z|[+-][0-9]{2}:[0-9]{2})$",
    ["UTC", "+02:00"]
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Scenario: any two times of day, any offset, and any text.
        /// Guarantee: what is written is read as it is; no text does harm, and what is read is within a day.
        #[test]
        fn times_of_day_are_read(from in 0..1440_u32, to in 1..=1440_u32, offset in -840..=840_i32, any in "\\PC{0,14}") {
            let time = |minutes: u32| format!("{:02}:{:02}", minutes / 60, minutes % 60);
            let read = format!("{}-{}", time(from), time(to)).parse::<Between>();
            match read {
                Ok(between) => prop_assert_eq!(between, Between { from: from * 60, to: to * 60 }),
                Err(_) => prop_assert!(from == to || (from == 0 && to == 1440)),
            }
            let sign = if offset < 0 { '-' } else { '+' };
            let read = format!("{sign}{}", time(offset.unsigned_abs())).parse::<Offset>();
            prop_assert_eq!(read, Ok(Offset(offset * 60)));
            if let Ok(between) = any.parse::<Between>() {
                prop_assert!(between.from < 86_400 && between.to <= 86_400);
            }
            let _ = any.parse::<Offset>();
        }
    }

    /// Scenario: texts that are no times of day.
    /// Guarantee: they are refused.
    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "22-04",
            "22:00",
            "24:01-25:00",
            "22:60-23:00",
            "2:00-3:00",
            "08:00-08:00",
            "00:00-24:00",
        ] {
            assert!(text.parse::<Between>().is_err(), "{text}");
        }
        assert_eq!(
            "22:00-00:00".parse(),
            Ok(Between {
                from: 79_200,
                to: 86_400
            })
        );
        for text in ["", "02:00", "+15:00", "+2", "Europe/Berlin", "CET"] {
            assert!(text.parse::<Offset>().is_err(), "{text}");
        }
    }
}
