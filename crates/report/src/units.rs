//! Number formats for tables. An unknown value is `-`.

use std::fmt;

/// Text of an unknown value.
pub const UNKNOWN: &str = "-";

/// Formats a value, or returns `-` if it is unknown.
pub fn known(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
}

/// Nanoseconds as milliseconds with three decimals.
#[derive(Debug, Clone, Copy)]
pub struct Millis(pub Option<i64>);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&known(self.0.map(|ns| format!("{:.3}", ns as f64 / 1e6))))
    }
}

/// Nanoseconds as seconds with three decimals.
#[derive(Debug, Clone, Copy)]
pub struct Seconds(pub Option<i64>);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&known(self.0.map(|ns| format!("{:.3}", ns as f64 / 1e9))))
    }
}

/// Bytes as mebibytes (2^20) with one decimal. Values below 100 KiB have three decimals, and 0 is written without
/// decimals.
#[derive(Debug, Clone, Copy)]
pub struct Mebibytes(pub Option<u64>);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(0) => f.pad("0"),
            Some(bytes) if bytes < 100 << 10 => f.pad(&format!("{:.3}", bytes as f64 / MEBI)),
            Some(bytes) => f.pad(&format!("{:.1}", bytes as f64 / MEBI)),
            None => f.pad(UNKNOWN),
        }
    }
}

/// A share from 0 to 1 as percent with two decimals.
#[derive(Debug, Clone, Copy)]
pub struct Percent(pub Option<f64>);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&known(self.0.map(|part| format!("{:.2} %", part * 100.0))))
    }
}

/// A duration in a suitable unit: `12.345 s`, `4.567 ms`, `1.5 µs`, `789 ns`.
#[derive(Debug, Clone, Copy)]
pub struct Span(pub i64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let text = match self.0.unsigned_abs() {
            0..1_000 => format!("{} ns", self.0),
            1_000..1_000_000 => format!("{:.1} µs", ns / 1e3),
            1_000_000..1_000_000_000 => format!("{:.3} ms", ns / 1e6),
            _ => format!("{:.3} s", ns / 1e9),
        };
        f.pad(&text)
    }
}

/// 2^20.
const MEBI: f64 = (1 << 20) as f64;

/// Bytes in a suitable unit (powers of two, as in rules and on the page): `1.25 GiB`, `34.5 MiB`, `678 B`.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let text = match self.0 {
            0..0x400 => format!("{} B", self.0),
            0x400..0x10_0000 => format!("{:.1} KiB", bytes / 1024.0),
            0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes / MEBI),
            _ => format!("{:.2} GiB", bytes / MEBI / 1024.0),
        };
        f.pad(&text)
    }
}

/// A number with thousands separators: `1,234,567`.
#[derive(Debug, Clone, Copy)]
pub struct Count(pub u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// Formats a count with its noun: `1 collection`, `2 collections`.
pub fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", Count(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: numbers of every size, and unknown numbers, are formatted.
    /// Guarantee: the numbers are readable, and unknown is never 0.
    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            format!("{:>9}|{:>5}", Millis(Some(76_819_315)), Millis(None)),
            "   76.819|    -"
        );
        assert_eq!(Mebibytes(Some(235_302_192)).to_string(), "224.4");
        assert_eq!(Mebibytes(Some(8_184)).to_string(), "0.008");
        assert_eq!(Mebibytes(None).to_string(), "-");
        assert_eq!(Count(1_234_567).to_string(), "1,234,567");
        assert_eq!(Count(12).to_string(), "12");
        assert_eq!(
            (Span(999).to_string(), Span(1_500).to_string()),
            ("999 ns".to_owned(), "1.5 µs".to_owned())
        );
        assert_eq!(Bytes(5 << 28).to_string(), "1.25 GiB");
        assert_eq!(
            (plural(1, "collection"), plural(0, "stop")),
            ("1 collection".to_owned(), "0 stops".to_owned())
        );
    }
}
