//! Pauses and phases drawn as bars of characters.

use std::io::{self, Write};

use clr_gc::gc::{Collection, Pause};

use crate::table::{FAINT, columns};
use crate::units::{Millis, Span};

/// Width of a bar, in characters.
const WIDTH: usize = 48;

/// Writes the suspensions of a collection, one bar each: `s` for suspending the threads, `#` for the part of this
/// collection, `.` for the part of other collections in a shared suspension.
pub fn write(out: &mut dyn Write, gc: &Collection) -> io::Result<()> {
    if gc.pauses.is_empty() {
        return writeln!(out, "none");
    }
    for pause in &gc.pauses {
        writeln!(out, "{}", bar(gc, pause))?;
    }
    if gc.is_concurrent()
        && let (Some(start), Some(end)) = (gc.start, gc.end)
    {
        writeln!(
            out,
            "{FAINT}from GCStart to GCEnd {}, most of it concurrent with the program{FAINT:#}",
            Span(end - start)
        )?;
    }
    Ok(())
}

fn bar(gc: &Collection, pause: &Pause) -> String {
    let ms = |ns: Option<i64>| Millis(ns).to_string();
    let first = gc
        .pauses
        .first()
        .and_then(|pause| pause.edges.suspend_begin.or(pause.edges.suspend_end));
    let after = pause.edges.suspend_begin.zip(first).map(|(begin, first)| begin - first);
    let mut line = format!(
        "{:<8} +{} ms  suspend {} ms, own part {} ms of {} ms",
        pause.kind.name(),
        ms(after),
        ms(pause.suspend_ns),
        ms(pause.pause_ns),
        ms(pause.stopped_ns),
    );
    if !pause.shared_with.is_empty() {
        let numbers: Vec<String> = pause.shared_with.iter().map(|number| format!("#{number}")).collect();
        line.push_str(&format!(", shared with {}", numbers.join(" ")));
    }
    if let (Some(begin), Some(end)) = (pause.edges.suspend_begin, pause.edges.restart_end)
        && end > begin
    {
        let place = |at: i64| ((at - begin).max(0) as f64 / (end - begin) as f64 * WIDTH as f64).round() as usize;
        // The rest belongs to the other collections of the suspension.
        let mut cells = ['.'; WIDTH];
        for &(from, to) in &pause.spans {
            fill(&mut cells, place(from), place(to), '#');
        }
        if pause.spans.first().is_some_and(|span| span.0 == begin) {
            fill(&mut cells, 0, place(pause.edges.suspend_end.unwrap_or(begin)), 's');
        }
        let bar: String = cells.iter().collect();
        let end = ms(pause.edges.restart_begin.map(|restart| end - restart));
        line.push_str(&format!("\n         [{bar}]  restart {end} ms"));
    }
    line
}

fn fill(cells: &mut [char], from: usize, to: usize, with: char) {
    for cell in cells.iter_mut().take(to).skip(from) {
        *cell = with;
    }
}

/// Writes named durations as bars on one scale.
pub fn bars(out: &mut dyn Write, spans: &[(&str, i64)]) -> io::Result<()> {
    let longest = spans.iter().map(|(_, ns)| *ns).max().unwrap_or(0).max(1);
    // Leave space for the name and the length, so that no bar starts on the next line.
    let most = columns().map_or(WIDTH, |columns| columns.saturating_sub(34).clamp(8, WIDTH));
    for (name, ns) in spans {
        let width = (*ns as f64 / longest as f64 * most as f64).round() as usize;
        let line = format!("{name:<18} {:>12}  {}", Span(*ns), "#".repeat(width));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
