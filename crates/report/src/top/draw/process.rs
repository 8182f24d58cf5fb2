//! One process: its last minute and limits, charts of 30 minutes, reasons of collections and the newest collections.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline, Wrap};

use super::figure::{allocated_per_second, bytes, duration, percent, rate, share};
use super::overview::incident_line;
use super::{BOLD, DIM};
use crate::table::folded;
use crate::top::record::{Process, Row};
use crate::top::state::Screen;
use crate::units::{UNKNOWN, known};

/// Width of a limit's bar, in characters.
const BAR: usize = 14;

pub(super) fn one(frame: &mut Frame<'_>, state: &Screen, process: &Process, area: Rect) {
    let facts = facts(process, area.width);
    let height = u16::try_from(facts.len()).unwrap_or(4);
    let [top, charts, rest] =
        Layout::vertical([Constraint::Length(height), Constraint::Length(6), Constraint::Min(3)]).areas(area);
    frame.render_widget(Paragraph::new(facts), top);
    let [stopped, heap] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(charts);
    let places = |width: u16| timeline(process, usize::from(width.saturating_sub(2)));
    let per_mille = |place: Option<usize>| {
        let ns = place
            .and_then(|place| process.history.stopped_ns.get(place))
            .copied()
            .unwrap_or(0);
        let bucket = process.history.bucket_ms.max(1) * 1000;
        ns / bucket
    };
    let data: Vec<u64> = places(stopped.width).into_iter().map(per_mille).collect();
    let most = data.iter().max().copied().unwrap_or(0);
    chart(
        frame,
        stopped,
        &data,
        format!(" time stopped, most {:.1} % ", most as f64 / 10.0),
        Color::Red,
    );
    let mut last = 0;
    let sizes: Vec<u64> = places(heap.width)
        .into_iter()
        .map(|place| {
            // Between two collections the heap figure does not change.
            last = place.and_then(|place| process.history.heap.all(place)).unwrap_or(last);
            last
        })
        .collect();
    let most = sizes.iter().max().copied();
    chart(
        frame,
        heap,
        &sizes,
        format!(" heap after collections, most {} ", bytes(most)),
        Color::Cyan,
    );
    let text = Paragraph::new(details(process, rest.width))
        .wrap(Wrap { trim: false })
        .scroll((state.scroll, 0));
    frame.render_widget(text, rest);
}

fn chart(frame: &mut Frame<'_>, area: Rect, data: &[u64], title: String, colour: Color) {
    let block = Block::new().borders(Borders::ALL).border_style(DIM).title(title);
    frame.render_widget(
        Sparkline::default()
            .block(block)
            .data(data)
            .style(Style::new().fg(colour)),
        area,
    );
}

/// Returns the index in the history for each column, the newest last; `None` if the column is empty.
fn timeline(process: &Process, columns: usize) -> Vec<Option<usize>> {
    let bucket = process.history.bucket_ms.max(1);
    let newest = process.at_ms / bucket;
    let first = (newest + 1).saturating_sub(columns as u64);
    let mut places = vec![None; columns];
    for (place, start) in process.history.start_ms.iter().enumerate() {
        let column = (start / bucket)
            .checked_sub(first)
            .and_then(|column| usize::try_from(column).ok());
        if let Some(slot) = column.and_then(|column| places.get_mut(column)) {
            *slot = Some(place);
        }
    }
    places
}

fn facts(process: &Process, width: u16) -> Vec<Line<'static>> {
    let row = &process.process;
    let minute = row.minute;
    let known = |text: &Option<String>| text.as_ref().map_or_else(String::new, |text| format!("  {text}"));
    let place = match (&row.namespace, &row.pod) {
        (Some(namespace), Some(pod)) => format!("  {namespace}/{pod}"),
        (_, pod) => known(pod),
    };
    let memory = &process.memory;
    let runtime = row
        .runtime
        .as_ref()
        .map_or_else(String::new, |version| format!("  .NET {version}"));
    let mut lines = vec![
        Line::from(vec![
            Span::styled(row.name.clone(), BOLD),
            format!("  pid {}{place}", row.pid).into(),
            Span::styled(format!("{runtime}{}", known(&row.collector)), DIM),
        ]),
        Line::from(format!(
            "last minute: stopped {}, longest {}, p99 {}, {} GC/s, {}/s",
            percent(minute.and_then(|minute| minute.stopped_share)),
            duration(minute.and_then(|minute| minute.longest_ns)),
            duration(minute.and_then(|minute| minute.p99_ns)),
            rate(minute.and_then(|minute| minute.rate(minute.collections()))),
            allocated_per_second(minute.as_ref()),
        )),
    ];
    let note = memory.heap_limit_note.as_deref().map(|note| format!("limit: {note}"));
    let memory = match memory.ledger.as_ref().and_then(|ledger| ledger.clause()) {
        Some(clause) => format!("memory: {clause}"),
        None => format!(
            "heap {} live, {} free in it, {} committed, {} resident",
            bytes(memory.heap_live),
            bytes(memory.heap_free),
            bytes(memory.heap_committed),
            bytes(memory.resident),
        ),
    };
    lines.extend(paragraph(&memory, width, Style::new()));
    let limits = limits(row);
    if !limits.is_empty() {
        lines.push(Line::from(limits));
    }
    if let Some(note) = note {
        lines.extend(paragraph(&note, width, Style::new()));
    }
    lines.push(Line::default());
    lines
}

/// Folds a text into lines that fit, each indented like the first.
fn paragraph(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let folded = folded(text, usize::from(width));
    folded
        .lines()
        .map(|line| Line::styled(line.to_owned(), style))
        .collect()
}

/// Formats the used part of each limit; empty without limits.
fn limits(row: &Row) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let parts = [
        ("heap", row.heap_after, row.heap_limit),
        ("container", row.container_memory, row.container_limit),
    ];
    for (what, used, limit) in parts {
        let Some(part) = share(used, limit) else { continue };
        let full = ((part.clamp(0.0, 1.0) * BAR as f64).round() as usize).min(BAR);
        let colour = if part > 0.9 {
            Color::Red
        } else if part > 0.75 {
            Color::Yellow
        } else {
            Color::Green
        };
        spans.push(format!("{what} ").into());
        spans.push(Span::styled("█".repeat(full), Style::new().fg(colour)));
        spans.push(Span::styled("░".repeat(BAR - full), DIM));
        spans.push(format!(" {} of {}   ", percent(Some(part)), bytes(limit)).into());
    }
    spans
}

fn details(process: &Process, width: u16) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let row = &process.process;
    if row.minute.is_none() {
        // The process is not monitored: show the reason and the remedy.
        let why = row.detail.as_ref().or(row.reason.as_ref()).unwrap_or(&row.state);
        lines.extend(paragraph(why, width, BOLD));
        lines.extend(
            row.remedy
                .iter()
                .flat_map(|remedy| paragraph(&format!("-> {remedy}"), width, DIM)),
        );
    }
    for incident in process.incidents.iter().filter(|incident| incident.until.is_none()) {
        lines.push(incident_line(incident, process.at_ms, width));
        lines.extend(paragraph(&format!("  {}", incident.summary), width, Style::new()));
        for cause in &incident.causes {
            let share = cause
                .share
                .map_or_else(String::new, |share| format!(" ({:.0} %)", share * 100.0));
            lines.extend(paragraph(&format!("  cause: {}{share}", cause.title), width, BOLD));
        }
        // This evidence names the code that collects or allocates.
        for found in incident
            .evidence
            .iter()
            .filter(|found| matches!(&*found.name, "callers" | "allocations"))
        {
            lines.extend(paragraph(&format!("  {}", found.text), width, Style::new()));
        }
        lines.extend(paragraph(&format!("  -> {}", incident.remedy), width, Style::new()));
    }
    if !process.causes.is_empty() {
        lines.push(Line::styled(
            format!("{:<30} {:>8} {:>12} {:>10}", "why", "count", "stopped", "longest"),
            BOLD,
        ));
    }
    for cause in process.causes.iter().take(8) {
        let generation = cause
            .generation
            .map_or_else(String::new, |generation| format!("gen{generation} "));
        let name = if cause.rest {
            "all others".to_owned()
        } else {
            let reason = cause.reason.as_deref().unwrap_or("reason not seen");
            let kind = cause
                .gc_type
                .as_ref()
                .map_or_else(String::new, |kind| format!("{kind} "));
            format!("{generation}{kind}{reason}")
        };
        // If the longest pause is unknown, no pause is known.
        let stopped = duration(cause.longest_ns.map(|_| cause.pause_ns));
        lines.push(Line::from(format!(
            "{name:<30} {:>8} {stopped:>12} {:>10}",
            cause.count,
            duration(cause.longest_ns)
        )));
    }
    if !process.newest.is_empty() {
        let head = format!(
            "{:<9} {:>7} {:<4} {:<10} {:<14} {:>9} {:>10} {:>10}",
            "at", "GC", "gen", "type", "reason", "pause", "before", "after"
        );
        lines.push(Line::styled(head, BOLD));
    }
    for line in &process.newest {
        let at = line
            .start
            .as_deref()
            .and_then(|start| start.get(11..19))
            .unwrap_or(UNKNOWN);
        let generation = known(line.generation);
        let pause = line.pause_ns.and_then(|ns| u64::try_from(ns).ok());
        lines.push(Line::from(format!(
            "{at:<9} {:>7} {generation:<4} {:<10} {:<14} {:>9} {:>10} {:>10}",
            line.number,
            line.gc_type.as_deref().unwrap_or(UNKNOWN),
            line.reason.as_deref().unwrap_or(UNKNOWN),
            duration(pause),
            bytes(line.heap_before),
            bytes(line.heap_after),
        )));
    }
    for unseen in &process.unseen {
        lines.extend(paragraph(
            &format!("not seen: {}: {}", unseen.what, unseen.why),
            width,
            DIM,
        ));
    }
    lines
}
