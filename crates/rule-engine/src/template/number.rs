//! Formats numbers in texts.

use std::fmt::Write as _;

use crate::rule::Form;
use crate::value::Value;

/// Units of size, largest first.
const SIZES: [(&str, f64); 4] = [
    ("TiB", 1_099_511_627_776.0),
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1024.0),
];

/// Appends a number. Writing to a string cannot fail.
pub(super) fn push(out: &mut String, number: Value<'_>, form: Form) {
    let value = number.as_number().unwrap_or_default();
    if value.is_infinite() {
        out.push_str(if value > 0.0 { "infinite" } else { "-infinite" });
        return;
    }
    let _ = match (form, number) {
        (Form::Plain, Value::Int(number)) => write!(out, "{number}"),
        (Form::Plain, _) => write!(out, "{}", significant(value)),
        (Form::Round(digits), _) => write!(out, "{}", rounded(value, digits.into())),
        (Form::Bytes, _) => write!(out, "{}", bytes(value)),
        (Form::Percent, _) => write!(out, "{} %", significant(value * 100.0)),
        (Form::Milliseconds, _) => write!(out, "{}", milliseconds(value)),
        (Form::Seconds, _) => write!(out, "{}", seconds(value)),
    };
}

/// Formats a number with three significant digits, or more before the decimal point if needed. Numbers below 10^-4 or
/// from 10^15 have an exponent.
fn significant(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{number:.2e}");
    }
    let decimals = match size {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        size if size >= 0.1 => 3,
        size if size >= 0.01 => 4,
        size if size >= 0.001 => 5,
        _ => 6,
    };
    let text = rounded(number, decimals);
    match text.split_once('.') {
        Some((whole, part)) => {
            let part = part.trim_end_matches('0');
            if part.is_empty() {
                whole.to_owned()
            } else {
                format!("{whole}.{part}")
            }
        }
        None => text,
    }
}

/// Rounds a number. Never returns `-0`.
fn rounded(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| b"0.".contains(&byte)) => rest.to_owned(),
        _ => text,
    }
}

fn bytes(number: f64) -> String {
    // A value of 1023.5 or more would be rounded to 1024 of the smaller unit.
    let unit = SIZES.iter().find(|(_, size)| number.abs() >= size * 0.9995);
    match unit {
        Some((unit, size)) => format!("{} {unit}", significant(number / size)),
        None => format!("{} B", rounded(number, 0)),
    }
}

fn milliseconds(number: f64) -> String {
    match number.abs() {
        size if size >= 60_000.0 => seconds(number / 1000.0),
        size if size >= 999.5 => format!("{} s", significant(number / 1000.0)),
        size if size >= 0.01 || size == 0.0 => format!("{} ms", significant(number)),
        _ => format!("{} µs", significant(number * 1000.0)),
    }
}

/// Formats a duration in its two largest units.
fn seconds(number: f64) -> String {
    let sign = if number < 0.0 { "-" } else { "" };
    let size = number.abs();
    if size < 59.95 {
        return format!("{} s", significant(number));
    }
    // Larger than any real duration. Below this value, integers are exact.
    if size > 1e12 {
        return format!("{} d", significant(number / 86_400.0));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "60 to 10^12, and rounded"
    )]
    let whole = size.round() as u64;
    let (large, small, units) = match whole {
        0..3_600 => (whole / 60, whole % 60, ("min", "s")),
        3_600..86_400 => (whole / 3_600, whole % 3_600 / 60, ("h", "min")),
        _ => (whole / 86_400, whole % 86_400 / 3_600, ("d", "h")),
    };
    if small == 0 {
        format!("{sign}{large} {}", units.0)
    } else {
        format!("{sign}{large} {} {small} {}", units.0, units.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn formatted(number: Value<'_>, form: Form) -> String {
        let mut out = String::new();
        push(&mut out, number, form);
        out
    }

    /// Scenario: numbers of all sizes are formatted in each form.
    /// Guarantee: each number has the expected text.
    #[test]
    fn numbers_are_readable() {
        use Value::{Double, Int as Integer};
        assert_eq!(formatted(Integer(1_234_567), Form::Plain), "1234567");
        for (number, text) in [
            (0.0, "0"),
            (-0.0001, "-0.0001"),
            (1.0, "1"),
            (1.2345, "1.23"),
            (12.345, "12.3"),
            (123.45, "123"),
            (0.012345, "0.0123"),
            (0.0000012, "1.20e-6"),
            (1e20, "1.00e20"),
        ] {
            assert_eq!(formatted(Double(number), Form::Plain), text);
        }
        assert_eq!(formatted(Double(-0.04), Form::Round(1)), "0.0");
        assert_eq!(formatted(Integer(3), Form::Round(2)), "3.00");
        assert_eq!(formatted(Integer(1_610_612_736), Form::Bytes), "1.5 GiB");
        assert_eq!(formatted(Integer(1_048_575), Form::Bytes), "1 MiB");
        assert_eq!(formatted(Integer(1023), Form::Bytes), "1023 B");
        assert_eq!(formatted(Double(0.125), Form::Percent), "12.5 %");
        assert_eq!(formatted(Double(1234.5), Form::Milliseconds), "1.23 s");
        assert_eq!(formatted(Double(350.0), Form::Milliseconds), "350 ms");
        assert_eq!(formatted(Double(0.0012), Form::Milliseconds), "1.2 µs");
        assert_eq!(formatted(Double(125_000.0), Form::Milliseconds), "2 min 5 s");
        assert_eq!(formatted(Double(125.0), Form::Seconds), "2 min 5 s");
        assert_eq!(formatted(Integer(7_200), Form::Seconds), "2 h");
        assert_eq!(formatted(Integer(-90_000), Form::Seconds), "-1 d 1 h");
        assert_eq!(formatted(Double(f64::INFINITY), Form::Bytes), "infinite");
    }

    proptest! {
        /// Scenario: any integer, and any double below 10^15 in magnitude, is formatted in any form.
        /// Guarantee: the text has at most 40 bytes.
        #[test]
        fn any_number_is_short(bits: u64, whole: i64, digits in 0_u8..=9) {
            let forms = [Form::Plain, Form::Round(digits), Form::Bytes, Form::Percent, Form::Milliseconds, Form::Seconds];
            let broken = f64::from_bits(bits);
            for form in forms {
                prop_assert!(formatted(Value::Int(whole), form).len() <= 40);
                if broken.is_finite() && broken.abs() < 1e15 {
                    prop_assert!(formatted(Value::Double(broken), form).len() <= 40, "{broken} {form:?}");
                }
            }
        }
    }
}
