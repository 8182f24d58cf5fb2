//! Figures as text: shares, durations, rates, sizes, ages, and small charts.

use crate::summary::BARS;
use crate::top::record::Minute;
use crate::units::UNKNOWN;

pub(super) fn bars(values: &[Option<u64>], columns: usize) -> String {
    let most = values.iter().flatten().max().copied().unwrap_or(0).max(10);
    let each = values.len().div_ceil(columns.max(1)).max(1);
    let column = |chunk: &[Option<u64>]| match chunk.iter().flatten().max() {
        None => ' ',
        Some(value) => {
            let place = (*value as usize * (BARS.len() - 1)).div_ceil(most as usize);
            BARS.get(place).copied().unwrap_or('█')
        }
    };
    values.chunks(each).map(column).collect()
}

pub(super) fn share(part: Option<u64>, whole: Option<u64>) -> Option<f64> {
    let (part, whole) = (part?, whole.filter(|whole| *whole > 0)?);
    Some(part as f64 / whole as f64)
}

pub(super) fn percent(share: Option<f64>) -> String {
    match share.map(|share| share * 100.0) {
        None => UNKNOWN.to_owned(),
        Some(value) if value >= 9.95 => format!("{value:.0} %"),
        Some(value) => format!("{value:.1} %"),
    }
}

pub(super) fn duration(ns: Option<u64>) -> String {
    match ns {
        None => UNKNOWN.to_owned(),
        Some(ns) if ns < 100_000 => format!("{:.0} µs", ns as f64 / 1e3),
        Some(ns) if ns < 10_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        Some(ns) if ns < 1_000_000_000 => format!("{:.0} ms", ns as f64 / 1e6),
        Some(ns) => format!("{:.2} s", ns as f64 / 1e9),
    }
}

pub(super) fn rate(value: Option<f64>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(value) if value >= 9.95 => format!("{value:.0}"),
        Some(value) if value > 0.0 && value < 0.095 => format!("{value:.2}"),
        Some(value) => format!("{value:.1}"),
    }
}

/// Formats the bytes allocated per second in the last minute, with `≥` if the value is a lower bound.
pub(super) fn allocated_per_second(minute: Option<&Minute>) -> String {
    let rate = minute
        .and_then(|minute| minute.rate(minute.allocated?))
        .map(|bytes| bytes as u64);
    let least = match (rate, minute) {
        (Some(_), Some(minute)) if minute.allocated_lower_bound => "≥",
        _ => "",
    };
    format!("{least}{}", bytes(rate))
}

pub(super) fn bytes(value: Option<u64>) -> String {
    let Some(value) = value else { return UNKNOWN.to_owned() };
    let mebi = value as f64 / f64::from(1 << 20);
    if mebi >= 10_240.0 {
        format!("{:.1} GiB", mebi / 1024.0)
    } else if mebi >= 99.95 {
        format!("{mebi:.0} MiB")
    } else if mebi >= 0.05 || value == 0 {
        format!("{mebi:.1} MiB")
    } else {
        format!("{:.1} KiB", value as f64 / 1024.0)
    }
}

/// Formats the time since a timestamp, or returns `None` if the timestamp is invalid.
pub(super) fn age(since: &str, now_ms: u64) -> Option<String> {
    let since: jiff::Timestamp = since.parse().ok()?;
    let since = u64::try_from(since.as_millisecond()).ok()?;
    let seconds = now_ms.saturating_sub(since) / 1000;
    Some(match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    })
}
