//! Text of `gcwatch advise`: the memory that a process needs, and advice about its settings.

use std::io::{self, Write};

use base::text::shown;
use gc_advice::advice::{AdviceRecord, Expected, Measures};
use gc_advice::sizing::{Ends, Point, Prospect, SizingRecord};

use crate::table::{HEADING, wrapped};
use crate::units::{Bytes, plural};

const UNKNOWN: &str = "unknown";
/// Column at which the text of the lines below a setting starts.
const INDENT: usize = 12;

/// Converts a figure to bytes, rounded down. A negative figure becomes 0.
fn bytes(value: f64) -> Bytes {
    Bytes(value.max(0.0) as u64)
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn millis(ns: f64) -> String {
    format!("{:.2} ms", ns / 1e6)
}

/// Formats a change in bytes with its sign.
fn signed(change: f64) -> String {
    let sign = if change < 0.0 { '-' } else { '+' };
    format!("{sign}{}", bytes(change.abs()))
}

/// Writes a sizing record: the bound or the reason why it is unknown, the gaps, and the price curve.
pub fn write_sizing(out: &mut dyn Write, record: &SizingRecord) -> io::Result<()> {
    let name = record.process.as_deref().map(shown);
    let pid = record.pid.map(|pid| format!("pid {pid}"));
    let window = &record.window;
    let title = [
        name,
        pid,
        Some(format!("{:.1} s", window.observed_ns as f64 / 1e9)),
        Some(format!(
            "{}, {} of generation 1",
            plural(window.young, "young collection"),
            window.gen1
        )),
        Some(format!("{} full, {} blocking", window.full, window.full_blocking)),
    ];
    let title: Vec<String> = title.into_iter().flatten().collect();
    writeln!(out, "{HEADING}{}{HEADING:#}", title.join(" · "))?;
    match (&record.not_less_than, &record.unknown_because) {
        (Some(bound), _) => writeln!(
            out,
            "memory limit: not less than {}, of which the heap needs {}",
            Bytes(bound.memory_limit),
            Bytes(bound.heap_limit)
        )?,
        (None, reason) => writeln!(
            out,
            "memory limit: unknown, because {}",
            reason.as_deref().unwrap_or("a fact is missing")
        )?,
    }
    let gaps: Vec<&str> = record.gaps.iter().map(|gap| gap.title()).collect();
    if !gaps.is_empty() {
        writeln!(out, "{}", wrapped(&format!("not seen: {}", gaps.join("; ")), 0))?;
    }
    curve(out, &record.curve)
}

/// Writes the price curve as a table. Writes nothing if the curve is empty.
fn curve(out: &mut dyn Write, points: &[Point]) -> io::Result<()> {
    if points.is_empty() {
        return Ok(());
    }
    let mebibytes = |bytes: u64| format!("{}", bytes >> 20);
    writeln!(
        out,
        "{HEADING}{:>9}  {:>8}  {:>16}  {:>18}  outcome{HEADING:#}",
        "limit MiB", "heap MiB", "full per minute", "stopped"
    )?;
    for point in points {
        let range = |ends: Option<Ends>, scale: f64, unit: &str, digits: usize| {
            ends.map_or_else(
                || "-".to_owned(),
                |[low, high]| format!("{:.digits$} to {:.digits$}{unit}", low * scale, high * scale),
            )
        };
        let outcome = match point.prospect {
            Prospect::Works => "works",
            Prospect::Doubtful => "may end: less than a tenth of the heap is free",
            Prospect::ThrashesOrEnds => "thrashes or ends: the live heap does not fit",
        };
        let beyond = if point.extrapolated { ", never tried" } else { "" };
        writeln!(
            out,
            "{:>9}  {:>8}  {:>16}  {:>18}  {outcome}{beyond}",
            mebibytes(point.memory_limit),
            mebibytes(point.heap_limit),
            range(point.full_per_minute_range, 1.0, "", 1),
            range(point.stopped_share, 100.0, " %", 2)
        )?;
    }
    Ok(())
}

/// Writes five items for each piece of advice (setting, stopped share, price, reason, check), and then one item for
/// each refusal. If all kinds are refused for the same reason, the reason is written once.
pub fn write(out: &mut dyn Write, records: &[AdviceRecord]) -> io::Result<()> {
    for record in records {
        if let (Some(setting), Some(expected)) = (&record.setting, &record.expected) {
            let mark = if record.unproven { "unproven: " } else { "" };
            writeln!(out, "\n{HEADING}{mark}{}{HEADING:#}", setting.line())?;
            let mut line =
                |name: &str, text: &str| writeln!(out, "  {name:<width$}{}", wrapped(text, INDENT), width = INDENT - 2);
            line("stopped", &gain(&record.now, expected))?;
            line("price", &price(&record.now, expected))?;
            line("because", &record.because.text)?;
            let check = record.check.as_ref().map_or(UNKNOWN, |check| check.text.as_str());
            line("check", check)?;
        }
    }
    let refusals: Vec<&AdviceRecord> = records.iter().filter(|record| record.is_refusal()).collect();
    if refusals.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}no advice{HEADING:#}")?;
    let Some(first) = refusals.first() else { return Ok(()) };
    if refusals.len() > 1 && refusals.iter().all(|record| record.because.text == first.because.text) {
        // The window is unsuitable for predictions of any kind, so the reason is stated once.
        let kinds: Vec<&str> = refusals.iter().map(|record| record.advice.title()).collect();
        return writeln!(out, "  {}: {}", kinds.join(", "), wrapped(&first.because.text, 4));
    }
    for record in refusals {
        let title = record.advice.title();
        writeln!(out, "  {title:<24}{}", wrapped(&record.because.text, 26))?;
    }
    Ok(())
}

/// Returns the text for the measured and the expected stopped share.
fn gain(now: &Measures, expected: &Expected) -> String {
    let before = now.stopped_share.map_or_else(|| UNKNOWN.to_owned(), percent);
    match expected.stopped_share {
        Some([low, high]) => format!(
            "{before} of the time now, {} to {} expected",
            percent(low),
            percent(high)
        ),
        None => format!("{before} of the time now, not predictable afterwards"),
    }
}

/// Returns the text for the measured and expected values of the other measures.
fn price(now: &Measures, expected: &Expected) -> String {
    let range = |ends: Option<Ends>, show: &dyn Fn(f64) -> String| match ends {
        Some([low, high]) => format!("{} to {}", show(low), show(high)),
        None => "not predictable".to_owned(),
    };
    let known = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map_or_else(|| UNKNOWN.to_owned(), show);
    let memory: &dyn Fn(f64) -> String = &|value| bytes(value).to_string();
    let cores: &dyn Fn(f64) -> String = &|value| format!("{value:.2} cores");
    format!(
        "median pause {} now, {}; memory {} now, change {}; CPU {} now, {} (longest pauses are not predictable)",
        known(now.median_pause_ns, &millis),
        range(expected.median_pause_ns, &millis),
        known(now.memory, memory),
        range(expected.memory_change, &signed),
        known(now.cpu, cores),
        range(expected.cpu, cores)
    )
}
