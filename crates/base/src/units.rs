//! Durations and sizes with units: `500ms`, `1m30s`, `8MiB`. Files, environment and flags use the same grammar.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::quote::quoted;
use crate::written_as_text;

/// A duration: `500ms`, `30s`, `5m`, `1h`, `1m30s`, `1.5s`. Accurate to the nanosecond, at most 10,000 days.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(pub Duration);

/// A size in bytes: `8MiB`, `512KiB`, `1GB`, `4096B`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Units of time in nanoseconds, longest first.
const TIMES: [(&str, u128); 8] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// Units of size in bytes, compared case-insensitively.
const SIZES: [(&str, u128); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Examples of durations for messages.
pub const DURATION_EXAMPLES: &str = "500ms, 30s, 5m or 1h";
/// Examples of sizes for messages.
pub const SIZE_EXAMPLES: &str = "512KiB, 8MiB or 1GiB";

const MAX_DURATION_NS: u64 = 10_000 * 86_400_000_000_000;

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut total: u128 = 0;
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(format!("a duration is missing; write {DURATION_EXAMPLES}"));
        }
        while !rest.is_empty() {
            let (number, tail) = number(rest);
            let next = tail.find(|c: char| c.is_ascii_digit() || c == '.');
            let (unit, after) = tail.split_at(next.unwrap_or(tail.len()));
            let unit = unit.trim();
            let scale = TIMES.iter().find(|(name, _)| *name == unit);
            let part = scale.and_then(|(_, ns)| scaled(number, *ns));
            let wrong = || wrong(text, number, unit, "duration", DURATION_EXAMPLES);
            total = total.saturating_add(part.ok_or_else(wrong)?);
            rest = after;
        }
        let total = u64::try_from(total).ok().filter(|total| *total <= MAX_DURATION_NS);
        let total = total.ok_or_else(|| format!("{} is too long; at most 10000d", quoted(text)))?;
        Ok(Self(Duration::from_nanos(total)))
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = number(text.trim());
        let unit = unit.trim();
        let scale = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let bytes = scale.and_then(|(_, scale)| u64::try_from(scaled(number, *scale)?).ok());
        bytes
            .map(Self)
            .ok_or_else(|| wrong(text, number, unit, "size", SIZE_EXAMPLES))
    }
}

/// Splits a text into the number at its start and the rest.
fn number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns the message for an invalid number or unit.
fn wrong(text: &str, number: &str, unit: &str, what: &str, examples: &str) -> String {
    let shown = quoted(text);
    if unit.is_empty() && !number.is_empty() {
        format!("{shown} has no unit; write {examples}")
    } else {
        format!("{shown} is not a {what}; write {examples}")
    }
}

/// Returns a decimal number times `scale`, rounded down, or `None` if `number` is not a decimal number, or if the
/// product is too large.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || whole.len() > 20 || part.len() > 18 || number.ends_with('.') {
        return None;
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let whole: u128 = whole.parse().ok()?;
    let fraction = if part.is_empty() {
        0
    } else {
        let tens = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
        part.parse::<u128>().ok()?.checked_mul(scale)? / tens
    };
    whole.checked_mul(scale)?.checked_add(fraction)
}

impl fmt::Display for HumanDuration {
    /// Writes the duration in the longest unit (up to hours) without a remainder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        let (unit, scale) = TIMES
            .into_iter()
            .filter(|(unit, _)| !matches!(*unit, "d" | "µs"))
            .find(|(_, scale)| ns > 0 && ns.is_multiple_of(*scale))
            .unwrap_or(("s", 1_000_000_000));
        write!(f, "{}{unit}", ns / scale)
    }
}

impl fmt::Display for ByteSize {
    /// Writes the size in the largest binary unit without a remainder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = u128::from(self.0);
        let (unit, scale) = SIZES
            .into_iter()
            .filter(|(unit, _)| unit.contains('i'))
            .find(|(_, scale)| bytes > 0 && bytes.is_multiple_of(*scale))
            .unwrap_or(("B", 1));
        write!(f, "{}{unit}", bytes / scale)
    }
}

written_as_text!(
    HumanDuration,
    "duration-with-unit",
    r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+$",
    ["500ms", "30s", "5m", "1h"]
);
written_as_text!(
    ByteSize,
    "size-with-unit",
    r"^[0-9]+(\.[0-9]+)? ?([KkMmGg][Ii]?)?[Bb]$",
    ["512KiB", "8MiB", "1GiB"]
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Scenario: durations and sizes are valid.
    /// Guarantee: each is parsed to its value.
    #[test]
    fn valid_value_is_parsed() {
        let time = |text: &str| text.parse::<HumanDuration>().unwrap().0;
        assert_eq!(time("500ms"), Duration::from_millis(500));
        assert_eq!(time("1.5s"), Duration::from_millis(1500));
        assert_eq!(time("1h30m"), Duration::from_secs(5400));
        assert_eq!(time("250us"), Duration::from_micros(250));
        assert_eq!(time("0s"), Duration::ZERO);
        let size = |text: &str| text.parse::<ByteSize>().unwrap().0;
        assert_eq!(size("8MiB"), 8 << 20);
        assert_eq!(size("8 MiB"), 8 << 20);
        assert_eq!(size("1gb"), 1_000_000_000);
        assert_eq!(size("0.5KiB"), 512);
    }

    /// Scenario: durations and sizes are invalid.
    /// Guarantee: each is refused with a message that contains an example.
    #[test]
    fn invalid_value_is_refused() {
        let time = |text: &str| text.parse::<HumanDuration>().unwrap_err().to_string();
        assert_eq!(time("30"), "`30` has no unit; write 500ms, 30s, 5m or 1h");
        assert_eq!(time("soon"), "`soon` is not a duration; write 500ms, 30s, 5m or 1h");
        assert_eq!(time("-3s"), "`-3s` is not a duration; write 500ms, 30s, 5m or 1h");
        assert_eq!(time("999999d"), "`999999d` is too long; at most 10000d");
        for invalid in [
            "",
            "s",
            "1.s",
            ".5s",
            "1..5s",
            "5 minutes",
            "99999999999999999999s",
            "1s2",
        ] {
            assert!(invalid.parse::<HumanDuration>().is_err(), "{invalid}");
        }
        let size = |text: &str| text.parse::<ByteSize>().unwrap_err().to_string();
        assert_eq!(size("8"), "`8` has no unit; write 512KiB, 8MiB or 1GiB");
        assert_eq!(size("8MiBs"), "`8MiBs` is not a size; write 512KiB, 8MiB or 1GiB");
    }

    proptest! {
        /// Scenario: any duration and any size is displayed and parsed.
        /// Guarantee: the value round-trips.
        #[test]
        fn displayed_value_round_trips(ns in 0..10_000 * 86_400_000_000_000_u64, bytes: u64) {
            let time = HumanDuration(Duration::from_nanos(ns));
            prop_assert_eq!(time.to_string().parse::<HumanDuration>(), Ok(time));
            let size = ByteSize(bytes);
            prop_assert_eq!(size.to_string().parse::<ByteSize>(), Ok(size));
        }
    }
}
