//! The overview: open incidents, and a table of the processes.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState};

use super::figure::{age, allocated_per_second, bars, bytes, duration, percent, rate, share};
use super::{BOLD, DIM};
use crate::top::record::{Incident, MemoryLines, Minute, Row};
use crate::top::state::{Screen, Sort};

/// Maximum number of incidents listed above the processes.
const MAX_INCIDENTS: usize = 5;
/// Minimum number of characters of a title.
const MIN_TITLE: usize = 12;

pub(super) fn overview(frame: &mut Frame<'_>, state: &Screen, area: Rect) {
    let open: Vec<&Incident> = state
        .overview
        .incidents
        .iter()
        .filter(|incident| incident.until.is_none())
        .collect();
    let most = MAX_INCIDENTS.min(usize::from(area.height) / 4).max(1);
    let shown = open.len().min(most);
    let more = open.len() - shown;
    let height = u16::try_from(shown + usize::from(more > 0) + usize::from(shown > 0)).unwrap_or(0);
    let [incidents, table] = Layout::vertical([Constraint::Length(height), Constraint::Min(2)]).areas(area);
    let mut lines: Vec<Line<'_>> = open
        .iter()
        .take(shown)
        .zip(1..)
        .map(|(one, number)| numbered(one, number, state.overview.at_ms, area.width))
        .collect();
    if more > 0 {
        lines.push(Line::styled(format!("and {more} more"), DIM));
    }
    frame.render_widget(Paragraph::new(lines), incidents);
    processes(frame, state, table);
}

/// Formats the line of an incident, with the key that opens its process.
fn numbered(incident: &Incident, number: usize, now_ms: u64, width: u16) -> Line<'static> {
    let mut line = incident_line(incident, now_ms, width.saturating_sub(2));
    let key = if incident.pid.is_some() {
        format!("{number} ")
    } else {
        "  ".to_owned()
    };
    line.spans.insert(0, Span::styled(key, BOLD));
    line
}

/// Formats severity, title, owner and duration. The title is shortened if the line does not fit.
pub(super) fn incident_line(incident: &Incident, now_ms: u64, width: u16) -> Line<'static> {
    let who = incident.service.as_ref().or(incident.process.as_ref());
    let who = who.map_or_else(String::new, |who| format!("  {who}"));
    let pid = incident
        .pid
        .filter(|pid| *pid > 0)
        .map_or_else(String::new, |pid| format!(" ({pid})"));
    let since = incident.since.as_deref().and_then(|since| age(since, now_ms));
    let since = since.map_or_else(String::new, |since| format!("  {since}"));
    let word = format!("{:<9}", incident.severity);
    let who = format!("{who}{pid}");
    let others = word.chars().count() + who.chars().count() + since.chars().count();
    let room = usize::from(width).saturating_sub(others).max(MIN_TITLE);
    Line::from(vec![
        Span::styled(word, severity(&incident.severity)),
        Span::styled(cut(&incident.title, room), BOLD),
        who.into(),
        Span::styled(since, DIM),
    ])
}

/// Truncates a text to at most `most` characters; a truncated text ends with `…`.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

fn severity(name: &str) -> Style {
    match name {
        "critical" => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        "error" => Style::new().fg(Color::Red),
        "warning" => Style::new().fg(Color::Yellow),
        _ => Style::new().fg(Color::Blue),
    }
}

/// A column of the overview.
struct Column {
    name: &'static str,
    width: u16,
    /// Minimum width of the terminal for this column.
    from: u16,
    cell: fn(&Row) -> Cell<'static>,
}

fn right(text: String) -> Cell<'static> {
    Cell::new(Text::from(text).right_aligned())
}

const fn column(name: &'static str, width: u16, from: u16, cell: fn(&Row) -> Cell<'static>) -> Column {
    Column {
        name,
        width,
        from,
        cell,
    }
}

fn read_minute<T>(row: &Row, figure: impl Fn(&Minute) -> Option<T>) -> Option<T> {
    row.minute.as_ref().and_then(figure)
}

fn draw_memory(row: &Row, figure: impl Fn(&MemoryLines) -> Option<u64>) -> Cell<'static> {
    right(bytes(row.memory.as_ref().and_then(figure)))
}

const COLUMNS: [Column; 10] = [
    column("pid", 7, 0, |row| right(row.pid.to_string())),
    column("stop %", 6, 0, |row| {
        right(percent(read_minute(row, |minute| minute.stopped_share)))
    }),
    column("longest", 8, 0, |row| {
        right(duration(read_minute(row, |minute| minute.longest_ns)))
    }),
    column("p99", 8, 92, |row| {
        right(duration(read_minute(row, |minute| minute.p99_ns)))
    }),
    column("GC/s", 5, 0, |row| {
        right(rate(read_minute(row, |minute| minute.rate(minute.collections()))))
    }),
    column("gen2/s", 6, 118, |row| {
        right(rate(read_minute(row, |minute| {
            minute.rate(minute.gen2 + minute.background)
        })))
    }),
    column("heap", 9, 0, |row| right(bytes(row.heap_after))),
    column("of limit", 8, 104, |row| {
        right(percent(share(row.heap_after, row.heap_limit)))
    }),
    column("alloc/s", 9, 0, |row| right(allocated_per_second(row.minute.as_ref()))),
    column("30 minutes", 20, 100, |row| {
        let spark = row.spark.as_ref();
        Cell::new(spark.map_or_else(String::new, |spark| bars(&spark.stopped, 20)))
    }),
];

/// The columns of the memory breakdown.
const MEMORY_COLUMNS: [Column; 11] = [
    column("pid", 7, 0, |row| right(row.pid.to_string())),
    column("unreached", 9, 0, |row| {
        draw_memory(row, |memory| memory.limit_never_reached)
    }),
    column("room", 9, 0, |row| draw_memory(row, |memory| memory.working_room)),
    column("beyond", 9, 0, |row| {
        draw_memory(row, |memory| memory.beyond_working_room)
    }),
    column("limit", 9, 0, |row| draw_memory(row, |memory| memory.limit)),
    column("peak", 9, 0, |row| draw_memory(row, |memory| memory.peak)),
    column("used", 9, 92, |row| draw_memory(row, |memory| memory.usage)),
    column("objects", 9, 0, |row| draw_memory(row, MemoryLines::objects)),
    column("free", 9, 102, |row| draw_memory(row, |memory| memory.free)),
    column("unused", 9, 112, |row| {
        draw_memory(row, |memory| memory.committed_unused)
    }),
    column("native", 9, 122, |row| draw_memory(row, |memory| memory.native)),
];

fn processes(frame: &mut Frame<'_>, state: &Screen, area: Rect) {
    let rows = state.rows();
    let columns = match state.sort {
        Sort::Memory => &MEMORY_COLUMNS[..],
        _ => &COLUMNS[..],
    };
    let shown: Vec<&Column> = columns.iter().filter(|column| area.width >= column.from).collect();
    let name = |row: &Row| {
        let style = row.severity.as_deref().map_or_else(Style::new, severity);
        let pod = row.pod.as_ref().filter(|_| area.width >= 140);
        let mut spans = vec![Span::styled(row.name.clone(), style)];
        spans.extend(pod.map(|pod| Span::styled(format!(" {pod}"), DIM)));
        // A process that is not monitored has no figures, so the reason is shown.
        if row.minute.is_none() {
            let why = row
                .reason
                .as_ref()
                .or(row.detail.as_ref())
                .unwrap_or(&row.state)
                .clone();
            spans.push(Span::styled(format!(" {why}"), DIM));
        }
        if row.lost_events.is_some_and(|lost| lost > 0) {
            spans.push(Span::styled(" !", Style::new().fg(Color::Yellow)));
        }
        Cell::new(Line::from(spans))
    };
    let heads = std::iter::once(Cell::new("name")).chain(shown.iter().map(|column| right(column.name.to_owned())));
    let header = TableRow::new(heads).style(Style::new().add_modifier(Modifier::REVERSED));
    let lines = rows.iter().map(|row| {
        let cells = shown.iter().map(|column| (column.cell)(row));
        TableRow::new(std::iter::once(name(row)).chain(cells))
    });
    let widths =
        std::iter::once(Constraint::Min(12)).chain(shown.iter().map(|column| Constraint::Length(column.width)));
    let table = Table::new(lines, widths)
        .header(header)
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut chosen = TableState::default().with_selected((!rows.is_empty()).then(|| state.place(&rows)));
    let [list, note] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(area);
    frame.render_stateful_widget(table, list, &mut chosen);
    let note_text = match (rows.is_empty(), state.hidden()) {
        (true, 0) if state.filter.is_empty() => "no .NET process is known yet".to_owned(),
        (true, 0) => format!("no process has {:?} in its name, pod or pid", state.filter),
        (_, 0) => String::new(),
        (_, hidden) => format!("{hidden} not monitored (press x)"),
    };
    frame.render_widget(Line::styled(note_text, DIM), note);
}
