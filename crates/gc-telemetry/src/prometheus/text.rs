//! Names, values and escapes of the text formats.

use std::fmt::Write as _;

use super::Format;

/// Returns the Prometheus name of an OpenTelemetry metric.
///
/// If another exporter uses the name, the name has a prefix of gcwatch: cAdvisor exports `container_memory_*` for the
/// same containers, and a sum over the name would count containers twice. A name that ends in `_count` belongs to a
/// histogram or summary (`promtool check metrics`); such metrics have the names from the Prometheus client libraries.
pub(super) fn family_name(name: &str) -> String {
    match name {
        "process.thread.count" => "process_threads".to_owned(),
        "process.unix.file_descriptor.count" => "process_open_fds".to_owned(),
        _ if name.starts_with("container.") => format!("gcwatch_{}", metric_name(name)),
        _ => metric_name(name),
    }
}

/// Returns a name with the characters that all versions of Prometheus accept; each run of other characters becomes one
/// underscore.
pub(super) fn metric_name(name: &str) -> String {
    sanitised(name, |letter| letter == ':')
}

/// Returns the name of a label. Names with two leading underscores are reserved by Prometheus.
pub(super) fn label_name(name: &str) -> String {
    let label = sanitised(name, |_| false);
    match label.strip_prefix("__") {
        Some(rest) => format!("key_{rest}"),
        None => label,
    }
}

fn sanitised(name: &str, also: fn(char) -> bool) -> String {
    let mut text = String::with_capacity(name.len() + 1);
    for letter in name.chars() {
        if letter.is_ascii_alphanumeric() || letter == '_' || also(letter) {
            if text.is_empty() && letter.is_ascii_digit() {
                text.push('_');
            }
            text.push(letter);
        } else if !text.ends_with('_') {
            text.push('_');
        }
    }
    if text.is_empty() { "_".to_owned() } else { text }
}

/// Returns the suffix of a unit; `None` without a unit, for annotations such as `{collection}`, and for a ratio that is
/// not a gauge.
pub(super) fn unit_suffix(unit: &str, is_gauge: bool) -> Option<String> {
    let known = match unit {
        "" => return None,
        "s" => "seconds",
        "ms" => "milliseconds",
        "By" => "bytes",
        "%" => "percent",
        "1" if is_gauge => "ratio",
        "1" => return None,
        annotation if annotation.starts_with('{') => return None,
        other => return Some(metric_name(other)),
    };
    Some(known.to_owned())
}

/// Appends `name="value"`, with a leading comma unless the label is the first label.
pub(super) fn push_label(out: &mut String, name: &str, value: &str) {
    if !out.is_empty() {
        out.push(',');
    }
    out.push_str(name);
    out.push_str("=\"");
    escape(out, value, true);
    out.push('"');
}

/// Appends the text of a HELP line.
pub(super) fn push_help(format: Format, out: &mut String, text: &str) {
    escape(out, text, format == Format::OpenMetrics);
}

/// Appends a text in which no character can end the line or the value, because values come from processes and
/// containers. Control characters except tabs become the replacement character, because a parser can read a zero byte
/// as the end.
fn escape(out: &mut String, text: &str, quotes: bool) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            control if control.is_control() && control != '\t' => out.push(char::REPLACEMENT_CHARACTER),
            other => out.push(other),
        }
    }
}

/// Appends a number; infinities and NaN in the spelling of the formats.
pub(super) fn push_number(out: &mut String, number: f64) {
    if number.is_nan() {
        out.push_str("NaN");
    } else if number.is_infinite() {
        out.push_str(if number > 0.0 { "+Inf" } else { "-Inf" });
    } else {
        // A write to a string cannot fail.
        let _ = write!(out, "{number}");
    }
}

/// Returns a bound in the spelling of both formats, always with a decimal point, so that a series has the same name in
/// both formats.
pub(super) fn bound(bound: f64) -> String {
    if bound.is_infinite() {
        "+Inf".to_owned()
    } else if bound.fract() == 0.0 {
        format!("{bound:.1}")
    } else {
        bound.to_string()
    }
}

/// Appends Unix nanoseconds as exact seconds.
pub(super) fn push_time(out: &mut String, unix_ns: u64) {
    let _ = write!(out, "{}.{:09}", unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: names have dots, other characters, leading digits, or no characters.
    /// Guarantee: all versions of Prometheus accept the resulting names.
    #[test]
    fn names_are_valid_in_prometheus() {
        assert_eq!(metric_name("dotnet.gc.pause.time"), "dotnet_gc_pause_time");
        assert_eq!(metric_name("9 lives - really"), "_9_lives_really");
        assert_eq!(label_name("k8s.pod.label.app/kind"), "k8s_pod_label_app_kind");
        assert_eq!(label_name("__name__"), "key_name__");
        assert_eq!(label_name(""), "_");
        assert_eq!(label_name("größe"), "gr_e");
    }

    /// Scenario: metrics have names that other exporters use in Prometheus.
    /// Guarantee: the metrics have other names in Prometheus; all other metrics follow the rule.
    #[test]
    fn names_of_other_exporters_are_avoided() {
        assert_eq!(family_name("container.memory.usage"), "gcwatch_container_memory_usage");
        assert_eq!(
            family_name("gcwatch.container.cpu.limit"),
            "gcwatch_container_cpu_limit"
        );
        assert_eq!(family_name("process.thread.count"), "process_threads");
        assert_eq!(family_name("process.unix.file_descriptor.count"), "process_open_fds");
        assert_eq!(family_name("dotnet.gc.pause.time"), "dotnet_gc_pause_time");
    }

    /// Scenario: a value contains all characters that could end the value.
    /// Guarantee: the result is one line with one value.
    #[test]
    fn hostile_values_are_escaped() {
        let mut out = String::new();
        push_label(&mut out, "name", "a\"} 1\n# EOF\\\0\r\u{1b}[31m");
        assert_eq!(out, "name=\"a\\\"} 1\\n# EOF\\\\\u{fffd}\u{fffd}\u{fffd}[31m\"");
    }

    /// Scenario: bounds and times are written.
    /// Guarantee: the numbers are exact and have no exponent.
    #[test]
    fn numbers_are_exact() {
        assert_eq!(bound(0.000_061_035_156_25), "0.00006103515625");
        assert_eq!(bound(32.0), "32.0");
        let mut out = String::new();
        push_time(&mut out, 1_700_000_000_000_000_001);
        push_number(&mut out, f64::NEG_INFINITY);
        assert_eq!(out, "1700000000.000000001-Inf");
    }
}
