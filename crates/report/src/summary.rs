//! The totals of a process's collections as a table, and a title line for a stream.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use clr_gc::gc::{Collection, OtherStops, PauseQuantiles, Totals};

use crate::table::{Column, FAINT, HEADING, MARK, chosen, fitting, head, left, right, row};
use crate::units::{Bytes, Count, Millis, Percent, Span, known, plural};
use api::gc::is_induced;
use api::gc::{StreamRecord, share, type_name};

const COLUMNS: [Column; 9] = [
    left("generation", 17),
    right("count", 7),
    right("total ms", 10),
    right("p50 ms", 9),
    right("p95 ms", 9),
    right("p99 ms", 9),
    right("max ms", 9),
    right("stopped", 8),
    left("", 0),
];

/// Importance of the columns: if not all columns fit, the columns with the highest values are kept.
const IMPORTANCE: [u8; 9] = [9, 8, 6, 2, 3, 4, 7, 5, 1];

/// Writes the summary of one process that was observed for `observed_ns`.
pub fn write(out: &mut dyn Write, totals: &Totals, others: &[OtherStops], observed_ns: i64) -> io::Result<()> {
    let shown = fitting(&COLUMNS, &IMPORTANCE, 0);
    let columns = chosen(&shown, &COLUMNS);
    if totals.count > 0 {
        writeln!(out)?;
        head(out, &columns)?;
    }
    let cells = |name: String, count: u64, unknown: u64, total: i64, quantiles: Option<PauseQuantiles>| {
        let known = |of: fn(&PauseQuantiles) -> i64| Millis(quantiles.as_ref().map(of)).to_string();
        [
            name,
            Count(count).to_string(),
            Millis(quantiles.map(|_| total)).to_string(),
            known(|quantiles| quantiles.p50),
            known(|quantiles| quantiles.p95),
            known(|quantiles| quantiles.p99),
            known(|quantiles| quantiles.max),
            Percent(quantiles.and_then(|_| share(total, observed_ns))).to_string(),
            if unknown == 0 {
                String::new()
            } else {
                format!("{MARK}{unknown} of unknown pause{MARK:#}")
            },
        ]
    };
    for group in &totals.groups {
        let name = format!("gen{} {}", known(group.generation), known(group.gc_type.map(type_name)));
        let cells = cells(
            name,
            group.count,
            group.unknown_pauses,
            group.pause_ns,
            group.quantiles(),
        );
        row(out, &columns, &chosen(&shown, &cells))?;
    }
    if totals.groups.len() > 1 {
        let unknown = totals.groups.iter().map(|group| group.unknown_pauses).sum();
        let cells = cells(
            "all".to_owned(),
            totals.count,
            unknown,
            totals.pause_ns(),
            totals.quantiles(),
        );
        row(out, &columns, &chosen(&shown, &cells))?;
    }
    writeln!(out)?;
    let stopped = Percent(share(totals.stopped_ns, observed_ns));
    // The sum excludes unknown pauses.
    let least = if totals.has_unknown_pauses() { "at least " } else { "" };
    writeln!(
        out,
        "{HEADING}{least}{}{HEADING:#} stopped in {} observed: {HEADING}{least}{stopped}{HEADING:#}",
        Span(totals.stopped_ns),
        Span(observed_ns),
    )?;
    if let Some(allocated) = totals.allocated {
        let rate = (observed_ns > 0).then(|| (allocated as f64 / (observed_ns as f64 / 1e9)) as u64);
        let rate = rate.map(|rate| format!(" ({}/s)", Bytes(rate))).unwrap_or_default();
        let promoted = totals
            .promoted
            .map(|bytes| format!(", promoted {}", Bytes(bytes)))
            .unwrap_or_default();
        let least = if totals.allocated_lower_bound { "at least " } else { "" };
        writeln!(out, "allocated {least}{}{rate}{promoted}", Bytes(allocated))?;
    }
    if totals.suspensions > 0 {
        let (stops, time) = (plural(totals.suspensions, "stop"), Span(totals.suspensions_ns));
        writeln!(
            out,
            "{stops} without a collection, {time} (no-GC regions, refreshed memory limits)"
        )?;
    }
    for other in others {
        writeln!(
            out,
            "{} for other reasons ({}), {} including the wait for a collection to end",
            plural(other.count, "stop"),
            other.reason,
            Span(other.stopped_ns),
        )?;
    }
    if totals.incomplete > 0 {
        writeln!(
            out,
            "{MARK}{} incomplete (marked !){MARK:#}",
            plural(totals.incomplete, "collection")
        )?;
    }
    if totals.lossy > 0 {
        writeln!(
            out,
            "{MARK}{} with lost events{MARK:#}",
            plural(totals.lossy, "collection")
        )?;
    }
    Ok(())
}

/// Width of the histogram of pauses, in characters.
const BINS: usize = 24;
/// Heights of the histogram's columns.
pub(crate) const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum number of reasons in the line of condemned generations.
const MAX_REASONS: usize = 5;

/// Writes figures over all collections of a process: the distribution of the pauses, the mean pause, the largest heap,
/// the number of collections requested by code, and the reasons for which generations were condemned.
pub fn write_figures(out: &mut dyn Write, collections: &[Collection]) -> io::Result<()> {
    let pauses: Vec<i64> = collections.iter().filter_map(|one| one.pause_ns).collect();
    if let (Some(shortest), Some(longest), Some(bars)) = (pauses.iter().min(), pauses.iter().max(), histogram(&pauses))
    {
        writeln!(
            out,
            "pauses {} {FAINT}{bars}{FAINT:#} {}",
            Span(*shortest),
            Span(*longest)
        )?;
    }
    let mut parts = Vec::new();
    let sum = pauses.iter().fold(0_i64, |sum, ns| sum.saturating_add(*ns));
    if let Some(mean) = sum.checked_div(pauses.len() as i64) {
        parts.push(format!("mean pause {}", Span(mean)));
    }
    let sizes = collections.iter().flat_map(|one| [one.heap_before(), one.heap_after()]);
    if let Some(largest) = sizes.flatten().max() {
        parts.push(format!("largest heap {}", Bytes(largest)));
    }
    let induced = |one: &&Collection| is_induced(one);
    let induced = collections.iter().filter(induced).count() as u64;
    if induced > 0 {
        parts.push(format!("{} asked for by code", plural(induced, "collection")));
    }
    if !parts.is_empty() {
        writeln!(out, "{}", parts.join(", "))?;
    }
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    // A background collection contains the reasons of a foreground collection, so its reasons are not counted.
    let known = collections
        .iter()
        .filter(|one| !one.is_concurrent())
        .filter_map(|one| one.global.as_ref()?.condemn_reasons1);
    for reason in known.flat_map(|reasons| reasons.names()) {
        *reasons.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<(&str, u64)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| Reverse(*count));
    if !reasons.is_empty() {
        let more = if reasons.len() > MAX_REASONS { " ..." } else { "" };
        let shown = reasons.iter().take(MAX_REASONS);
        let shown: Vec<String> = shown
            .map(|(reason, count)| format!("{reason} {}", Count(*count)))
            .collect();
        writeln!(out, "generations condemned because of {}{more}", shown.join(", "))?;
    }
    Ok(())
}

/// Returns the columns of a histogram from the shortest to the longest pause, on a logarithmic scale, or `None` if
/// there are too few pauses or all pauses are similar.
fn histogram(pauses: &[i64]) -> Option<String> {
    let log = |ns: i64| (ns.max(1) as f64).ln();
    let (least, most) = (log(*pauses.iter().min()?), log(*pauses.iter().max()?));
    if pauses.len() < 10 || most - least < 0.1 {
        return None;
    }
    let mut counts = [0_usize; BINS];
    for ns in pauses {
        let place = ((log(*ns) - least) / (most - least) * BINS as f64) as usize;
        if let Some(count) = counts.get_mut(place.min(BINS - 1)) {
            *count += 1;
        }
    }
    let highest = counts.iter().max().copied().unwrap_or(1).max(1);
    let bar = |count: usize| match count {
        0 => ' ',
        count => BARS[((count * BARS.len()).div_ceil(highest)).clamp(1, BARS.len()) - 1],
    };
    Some(counts.into_iter().map(bar).collect())
}

/// Returns the first line of a report: the file, the runtime, the pointer size, the length, the size, the counts and
/// the losses of a stream.
pub fn title(stream: &StreamRecord) -> String {
    let runtime = stream
        .runtime
        .as_deref()
        .map(|version| format!(" · .NET {version}"))
        .unwrap_or_default();
    let duration = stream
        .duration_ns
        .map(|ns| format!(" · {}", Span(ns)))
        .unwrap_or_default();
    let lost = match stream.lost_events {
        Some(0) => String::new(),
        Some(lost) => format!(" · {MARK}{} lost{MARK:#}", plural(lost, "event")),
        None => " · losses unknown: events have no sequence numbers".to_owned(),
    };
    let bits = stream
        .pointer_size
        .map(|size| format!(" · {} bit", u32::from(size) * 8))
        .unwrap_or_default();
    format!(
        "{HEADING}{}{HEADING:#}{runtime}{bits}{duration} · {} · {} · {}{lost}",
        stream.file,
        Bytes(stream.bytes),
        plural(stream.events, "event"),
        plural(stream.gcs, "collection"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a list of pauses has two lengths, and one length is frequent. Other lists have few pauses, equal
    /// pauses, or pauses without length.
    /// Guarantee: the histogram has a bar at each end, and the bar of the more frequent length is higher; there is no
    /// histogram without a spread.
    #[test]
    fn pauses_are_distributed_over_columns() {
        let mut pauses = vec![1_000_000; 30];
        pauses.extend([50_000_000; 3]);
        let bars = histogram(&pauses).unwrap();
        assert_eq!(bars.chars().count(), BINS);
        assert!(bars.starts_with("█ ") && bars.ends_with(" ▁"), "{bars}");
        assert_eq!(histogram(&pauses[..9]), None);
        assert_eq!(histogram(&[5_000; 40]), None);
        assert_eq!(histogram(&[0; 40]), None);
    }
}
