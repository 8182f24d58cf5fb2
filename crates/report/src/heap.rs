//! Live objects and their holders, as text.

use std::io::{self, Write};

use clr_heap::cost::Range;
use clr_heap::diff::Growth;
use clr_heap::survey::{Survey, root_shown};

use crate::table::{Column, FAINT, HEADING, head, left, more, right, row};
use crate::units::{Bytes, Count, Span, known, plural};

/// Maximum number of steps shown per path.
const MAX_STEPS: usize = 12;

/// Writes a survey. `only` restricts the output to the holders of types with this text in their names.
pub fn write(out: &mut dyn Write, survey: &Survey, only: Option<&str>, top: usize) -> io::Result<()> {
    let heap = &survey.heap;
    let stops: Vec<String> = heap.stopped_ns.iter().map(|ns| Span(*ns).to_string()).collect();
    let stopped = match stops.is_empty() {
        true => "an unknown time".to_owned(),
        false => stops.join(" and "),
    };
    writeln!(
        out,
        "{HEADING}{} objects live, {}, threads stopped for {stopped}{HEADING:#}",
        Count(heap.objects),
        Bytes(heap.bytes)
    )?;
    if only.is_none() {
        types(out, survey, top)?;
        roots(out, survey, top)?;
        suspects(out, survey)?;
    }
    if let Some(only) = only {
        paths(out, survey, only, top)?;
    }
    notes(out, survey)
}

fn types(out: &mut dyn Write, survey: &Survey, top: usize) -> io::Result<()> {
    let is_graph = survey.types.iter().any(|row| row.retained.is_some());
    writeln!(out)?;
    let mut columns: Vec<Column> = Vec::new();
    if is_graph {
        columns.push(right("retained", 9));
    }
    columns.extend([right("own", 9), right("objects", 11), left("type", 20)]);
    head(out, &columns)?;
    for one in survey.types.iter().take(top) {
        let mut cells = Vec::new();
        if is_graph {
            cells.push(known(one.retained.map(Bytes)));
        }
        cells.extend([
            Bytes(one.bytes).to_string(),
            Count(one.objects).to_string(),
            one.r#type.clone(),
        ]);
        row(out, &columns, &cells)?;
    }
    more(out, survey.types.len(), top, "type")
}

fn roots(out: &mut dyn Write, survey: &Survey, top: usize) -> io::Result<()> {
    let held = survey.roots.iter().filter(|root| root.retained > 0 || root.reached > 0);
    if survey.roots.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let columns = [
        right("retained", 9),
        right("reached", 9),
        right("objects", 11),
        left("held by", 20),
    ];
    head(out, &columns)?;
    for one in held.clone().take(top) {
        let name = root_shown(one.root_kind, one.name.as_deref().unwrap_or_default());
        row(
            out,
            &columns,
            &[
                Bytes(one.retained).to_string(),
                Bytes(one.reached).to_string(),
                Count(one.objects).to_string(),
                name,
            ],
        )?;
    }
    more(out, held.count(), top, "root")
}

fn suspects(out: &mut dyn Write, survey: &Survey) -> io::Result<()> {
    if survey.roots.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    if survey.suspects.is_empty() {
        return writeln!(out, "no holder retains 10 % of the live bytes");
    }
    writeln!(out, "{HEADING}where it accumulates{HEADING:#}")?;
    for one in &survey.suspects {
        writeln!(out, "{}", one.text)?;
        let root = one.root.iter().cloned();
        writeln!(out, "    {FAINT}{}{FAINT:#}", way(root.chain(one.path.iter().cloned())))?;
    }
    Ok(())
}

fn paths(out: &mut dyn Write, survey: &Survey, only: &str, top: usize) -> io::Result<()> {
    writeln!(out)?;
    if survey.paths.is_empty() {
        return writeln!(out, "no live type has \"{only}\" in its name");
    }
    let columns = [right("own", 9), right("objects", 11), left("held by", 20)];
    head(out, &columns)?;
    for one in survey.paths.iter().take(top) {
        let path = way(std::iter::once(one.root.clone()).chain(one.path.iter().cloned()));
        row(
            out,
            &columns,
            &[Bytes(one.bytes).to_string(), Count(one.objects).to_string(), path],
        )?;
    }
    more(out, survey.paths.len(), top, "way")
}

/// Formats a path, for example `static entries > List<Leaked> > Leaked[] > Leaked`. The middle of a long path is
/// omitted.
fn way(steps: impl Iterator<Item = String>) -> String {
    let mut steps: Vec<String> = steps.collect();
    if steps.len() > MAX_STEPS {
        let extra = steps.len() - MAX_STEPS;
        let half = MAX_STEPS / 2;
        steps.splice(half..half + extra, [format!("({extra} more)")]);
    }
    steps.join(" > ")
}

fn notes(out: &mut dyn Write, survey: &Survey) -> io::Result<()> {
    let heap = &survey.heap;
    let mut note = |text: String| writeln!(out, "{FAINT}note: {text}{FAINT:#}");
    if let Some(reason) = &heap.reason {
        note(format!("{reason}: only types are counted"))?;
    }
    if heap.unnamed_types > 0 {
        note(format!(
            "the runtime did not name {}: another tool's session has named them already; retry after that session",
            plural(heap.unnamed_types, "type")
        ))?;
    }
    Ok(())
}

/// Writes the growth, the largest first.
pub fn write_growth(out: &mut dyn Write, growth: &[Growth], top: usize) -> io::Result<()> {
    for (is_root, own, heading) in [(false, "own", "type"), (true, "reached", "held by")] {
        let rows: Vec<&Growth> = growth.iter().filter(|one| one.root.is_some() == is_root).collect();
        if rows.is_empty() {
            continue;
        }
        let columns = [
            right("retained", 10),
            right(own, 10),
            right("objects", 11),
            left(heading, 20),
        ];
        head(out, &columns)?;
        let bytes = |change: Option<i64>| known(change.map(signed_bytes));
        for one in rows.iter().take(top) {
            let sign = if one.objects < 0 { "-" } else { "+" };
            let name = one.r#type.as_ref().or(one.root.as_ref());
            let cells = [
                bytes(one.retained),
                bytes(one.bytes),
                format!("{sign}{}", Count(one.objects.unsigned_abs())),
                name.cloned().unwrap_or_default(),
            ];
            row(out, &columns, &cells)?;
        }
        more(out, rows.len(), top, "row")?;
        writeln!(out)?;
    }
    if growth.is_empty() {
        writeln!(out, "nothing changed")?;
    }
    Ok(())
}

fn signed_bytes(change: i64) -> String {
    let sign = if change < 0 { "-" } else { "+" };
    format!("{sign}{}", Bytes(change.unsigned_abs()))
}

/// Formats a range of nanoseconds for a sentence, for example `2 to 40 ms` or `0.40 to 1.2 s`.
pub fn seconds(range: Range) -> String {
    let of = |ns: u64| ns as f64 / 1e9;
    if of(range.high) < 0.1 {
        return format!(
            "{:.0} to {:.0} ms",
            of(range.low) * 1e3,
            (of(range.high) * 1e3).max(1.0)
        );
    }
    format!("{:.2} to {:.1} s", of(range.low), of(range.high).max(0.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: ranges of stops are short and long; paths are short and long.
    /// Guarantee: ranges have suitable units, and long paths are shortened.
    #[test]
    fn ranges_and_paths_are_readable() {
        let range = |low, high| seconds(Range { low, high });
        assert_eq!(range(2_000_000, 40_000_000), "2 to 40 ms");
        assert_eq!(range(400_000_000, 1_200_000_000), "0.40 to 1.2 s");
        assert_eq!(range(0, 10), "0 to 1 ms");
        let steps = |count: usize| way((0..count).map(|step| step.to_string()));
        assert_eq!(steps(3), "0 > 1 > 2");
        assert_eq!(
            steps(20),
            "0 > 1 > 2 > 3 > 4 > 5 > (8 more) > 14 > 15 > 16 > 17 > 18 > 19"
        );
    }
}
