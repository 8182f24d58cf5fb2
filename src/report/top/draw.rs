//! A frame: the overview, or one process.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row as TableRow, Sparkline, Table, TableState, Wrap};

use crate::report::table::folded;
use crate::report::top::record::{Incident, Process, Row};
use crate::report::top::state::{Connection, SORTS, State, View};

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const UNKNOWN: &str = "-";

/// Incidents that are listed above the processes.
const MOST_INCIDENTS: usize = 5;
/// Characters of a title that are shown in any case.
const LEAST_TITLE: usize = 12;
/// Characters of the bar of a limit.
const BAR: usize = 14;
/// Bars of a small chart.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws what the state says.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(heading(state), head);
    match (state.view, &state.process) {
        (View::Overview, _) => overview(frame, state, body),
        (View::Process(_), Some(process)) => one(frame, state, process, body),
        (View::Process(pid), None) => frame.render_widget(Paragraph::new(format!("process {pid} ...")), body),
    }
    frame.render_widget(footer(state, foot.width), foot);
    if state.help {
        help(frame);
    }
}

fn heading(state: &State) -> Line<'static> {
    let open = state
        .overview
        .incidents
        .iter()
        .filter(|incident| incident.until.is_none())
        .count();
    let mut spans = vec![Span::styled("gcwatch top", BOLD)];
    if let Some(host) = &state.overview.host {
        spans.push(format!("  {host}").into());
    }
    let processes = &state.overview.processes;
    let read = processes.iter().filter(|row| row.is_read()).count();
    let s = if read == 1 { "" } else { "es" };
    spans.push(format!("  {read} process{s}").into());
    // Why it is not connected needs the room.
    if processes.len() > read && !matches!(state.connection, Connection::Lost(_)) {
        spans.push(Span::styled(format!(", {} not read", processes.len() - read), DIM));
    }
    if open > 0 {
        let text = format!("  {open} incident{}", if open == 1 { "" } else { "s" });
        spans.push(Span::styled(
            text,
            Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        ));
    }
    spans.push(match &state.connection {
        Connection::Waiting => Span::styled(format!("  asking {}", state.address), DIM),
        Connection::Live => Span::styled(format!("  {}", state.address), DIM),
        Connection::Lost(why) => Span::styled(
            format!("  not connected: {why}; this is old"),
            Style::new().fg(Color::Red),
        ),
    });
    Line::from(spans)
}

/// From this width on keys have whole words.
const WHOLE_WORDS: u16 = 100;

fn footer(state: &State, width: u16) -> Line<'static> {
    if state.typing {
        return Line::from(vec![
            "/".into(),
            Span::styled(state.filter.clone(), BOLD),
            "_  Enter keeps, Esc clears".into(),
        ]);
    }
    let mut spans = Vec::new();
    let mut key = |key: &str, what: &str, on: bool| {
        spans.push(Span::styled(key.to_owned(), BOLD));
        spans.push(Span::styled(
            format!(" {what}  "),
            if on { Style::new().fg(Color::Cyan) } else { DIM },
        ));
    };
    match state.view {
        View::Overview => {
            key("?", "help", false);
            key("q", "quit", false);
            key("↵", "open", false);
            for (letter, sort, name, short) in SORTS {
                let name = if width < WHOLE_WORDS { short } else { name };
                key(&letter.to_string(), name, sort == state.sort);
            }
            key(
                "/",
                if state.filter.is_empty() {
                    "filter"
                } else {
                    &state.filter
                },
                !state.filter.is_empty(),
            );
        }
        View::Process(_) => {
            key("?", "help", false);
            key("q", "quit", false);
            key("Esc", "back", false);
            key("↑↓", "scroll", false);
        }
    }
    Line::from(spans)
}

fn help(frame: &mut Frame<'_>) {
    let lines = [
        "Enter  open the process        Esc  back, or no filter",
        "↑ ↓ j k  move                   /    filter by name, pod, pid",
        "s l g h a n  sort by stopped, longest pause, GCs, heap,",
        "             allocation, name",
        "x  show what is not read, with the reason",
        "",
        "Figures are of the last minute, the chart of half an hour.",
        "stop %: of the time. GC/s: collections of all generations.",
        "heap: after the newest collection, of its limit where known.",
    ];
    let area = centred(frame.area(), 66, 11);
    frame.render_widget(Clear, area);
    let text: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(
        Paragraph::new(text).block(Block::new().borders(Borders::ALL).title(" keys ")),
        area,
    );
}

fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

fn severity(name: &str) -> Style {
    match name {
        "critical" => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        "error" => Style::new().fg(Color::Red),
        "warning" => Style::new().fg(Color::Yellow),
        _ => Style::new().fg(Color::Blue),
    }
}

fn overview(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let open: Vec<&Incident> = state
        .overview
        .incidents
        .iter()
        .filter(|incident| incident.until.is_none())
        .collect();
    let most = MOST_INCIDENTS.min(usize::from(area.height) / 4).max(1);
    let shown = open.len().min(most);
    let more = open.len() - shown;
    let height = u16::try_from(shown + usize::from(more > 0) + usize::from(shown > 0)).unwrap_or(0);
    let [incidents, table] = Layout::vertical([Constraint::Length(height), Constraint::Min(2)]).areas(area);
    let mut lines: Vec<Line<'_>> = open
        .iter()
        .take(shown)
        .map(|one| incident_line(one, state.overview.at_ms, area.width))
        .collect();
    if more > 0 {
        lines.push(Line::styled(format!("and {more} more"), DIM));
    }
    frame.render_widget(Paragraph::new(lines), incidents);
    processes(frame, state, table);
}

/// Severity, title, whose it is and for how long: of what has no room the title gives way.
fn incident_line(incident: &Incident, now_ms: u64, width: u16) -> Line<'static> {
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
    let room = usize::from(width).saturating_sub(others).max(LEAST_TITLE);
    Line::from(vec![
        Span::styled(word, severity(&incident.severity)),
        Span::styled(cut(&incident.title, room), BOLD),
        who.into(),
        Span::styled(since, DIM),
    ])
}

/// A text of at most so many characters; one that is longer ends with `…`.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// A column of the overview.
struct Column {
    name: &'static str,
    width: u16,
    /// From this width of the terminal on.
    from: u16,
    cell: fn(&Row) -> Cell<'static>,
}

fn right(text: String) -> Cell<'static> {
    Cell::new(Text::from(text).right_aligned())
}

const COLUMNS: [Column; 10] = [
    Column {
        name: "pid",
        width: 7,
        from: 0,
        cell: |row| right(row.pid.to_string()),
    },
    Column {
        name: "stop %",
        width: 6,
        from: 0,
        cell: |row| right(percent(row.minute.and_then(|minute| minute.stopped_share))),
    },
    Column {
        name: "longest",
        width: 8,
        from: 0,
        cell: |row| right(duration(row.minute.and_then(|minute| minute.longest_ns))),
    },
    Column {
        name: "p99",
        width: 8,
        from: 92,
        cell: |row| right(duration(row.minute.and_then(|minute| minute.p99_ns))),
    },
    Column {
        name: "GC/s",
        width: 5,
        from: 0,
        cell: |row| right(rate(row.minute.and_then(|minute| minute.rate(minute.collections())))),
    },
    Column {
        name: "gen2/s",
        width: 6,
        from: 118,
        cell: |row| {
            right(rate(
                row.minute
                    .and_then(|minute| minute.rate(minute.gen2 + minute.background)),
            ))
        },
    },
    Column {
        name: "heap",
        width: 9,
        from: 0,
        cell: |row| right(bytes(row.heap_after)),
    },
    Column {
        name: "of limit",
        width: 8,
        from: 104,
        cell: |row| right(percent(share(row.heap_after, row.heap_limit))),
    },
    Column {
        name: "alloc/s",
        width: 9,
        from: 0,
        cell: |row| {
            right(bytes(row.minute.and_then(|minute| {
                minute.rate(minute.allocated?).map(|bytes| bytes as u64)
            })))
        },
    },
    Column {
        name: "half an hour",
        width: 20,
        from: 100,
        cell: |row| {
            Cell::new(
                row.spark
                    .as_ref()
                    .map_or_else(String::new, |spark| bars(&spark.stopped, 20)),
            )
        },
    },
];

fn processes(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let rows = state.rows();
    let shown: Vec<&Column> = COLUMNS.iter().filter(|column| area.width >= column.from).collect();
    let name = |row: &Row| {
        let style = row.severity.as_deref().map_or_else(Style::new, severity);
        let pod = row.pod.as_ref().filter(|_| area.width >= 140);
        let mut spans = vec![Span::styled(row.name.clone(), style)];
        spans.extend(pod.map(|pod| Span::styled(format!(" {pod}"), DIM)));
        // What is not read has no figures: why.
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
        (true, 0) => format!("nothing has {:?} in its name, pod or pid", state.filter),
        (_, 0) => String::new(),
        (_, hidden) => format!("{hidden} that are not read: x shows them"),
    };
    frame.render_widget(Line::styled(note_text, DIM), note);
}

fn one(frame: &mut Frame<'_>, state: &State, process: &Process, area: Rect) {
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
            // Between two collections the heap is as it was.
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

/// The newest ten seconds' places in the history, one for each column; `None`: nothing happened in them.
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
            "last minute: stopped {}, longest {}, p99 {}, {} GC/s, {} a second",
            percent(minute.and_then(|minute| minute.stopped_share)),
            duration(minute.and_then(|minute| minute.longest_ns)),
            duration(minute.and_then(|minute| minute.p99_ns)),
            rate(minute.and_then(|minute| minute.rate(minute.collections()))),
            bytes(minute.and_then(|minute| minute.rate(minute.allocated?).map(|bytes| bytes as u64))),
        )),
    ];
    let memory = match memory.ledger.and_then(|ledger| ledger.clause()) {
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
    lines.push(Line::default());
    lines
}

/// A text in lines that fit, each indented as the first.
fn paragraph(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let folded = folded(text, usize::from(width));
    folded
        .lines()
        .map(|line| Line::styled(line.to_owned(), style))
        .collect()
}

/// What of its limits is used; nothing without limits.
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
        // Nothing is read of it: why, and what to do.
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
        lines.extend(paragraph(&format!("  -> {}", incident.remedy), width, DIM));
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
        // Without a longest one no pause is known.
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
        let generation = line
            .generation
            .map_or_else(|| UNKNOWN.to_owned(), |generation| generation.to_string());
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

fn bars(values: &[Option<u64>], columns: usize) -> String {
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

fn share(part: Option<u64>, whole: Option<u64>) -> Option<f64> {
    let (part, whole) = (part?, whole.filter(|whole| *whole > 0)?);
    Some(part as f64 / whole as f64)
}

fn percent(share: Option<f64>) -> String {
    match share.map(|share| share * 100.0) {
        None => UNKNOWN.to_owned(),
        Some(value) if value >= 9.95 => format!("{value:.0} %"),
        Some(value) => format!("{value:.1} %"),
    }
}

fn duration(ns: Option<u64>) -> String {
    match ns {
        None => UNKNOWN.to_owned(),
        Some(ns) if ns < 100_000 => format!("{:.0} µs", ns as f64 / 1e3),
        Some(ns) if ns < 10_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        Some(ns) if ns < 1_000_000_000 => format!("{:.0} ms", ns as f64 / 1e6),
        Some(ns) => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn rate(value: Option<f64>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(value) if value >= 9.95 => format!("{value:.0}"),
        Some(value) if value > 0.0 && value < 0.095 => format!("{value:.2}"),
        Some(value) => format!("{value:.1}"),
    }
}

fn bytes(value: Option<u64>) -> String {
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

/// How long ago, in words.
fn age(since: &str, now_ms: u64) -> Option<String> {
    let since: jiff::Timestamp = since.parse().ok()?;
    let since = u64::try_from(since.as_millisecond()).ok()?;
    let seconds = now_ms.saturating_sub(since) / 1000;
    Some(match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    })
}
