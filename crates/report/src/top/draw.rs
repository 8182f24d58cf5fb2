//! A frame: the overview, or one process.

mod figure;
mod overview;
mod process;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use self::overview::overview;
use self::process::one;
use crate::top::state::{Connection, SORTS, Screen, View};

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws the current state.
pub fn draw(frame: &mut Frame<'_>, state: &Screen) {
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

fn heading(state: &Screen) -> Line<'static> {
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
    // The reason for a lost connection needs the space.
    if processes.len() > read && !matches!(state.connection, Connection::Lost(_)) {
        spans.push(Span::styled(format!(", {} not monitored", processes.len() - read), DIM));
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
        Connection::Lost(why) => Span::styled(format!("  disconnected: {why}"), Style::new().fg(Color::Red)),
    });
    Line::from(spans)
}

/// Minimum width of the terminal for keys with full names.
const WHOLE_WORDS: u16 = 112;

fn footer(state: &Screen, width: u16) -> Line<'static> {
    if state.typing {
        return Line::from(vec![
            "/".into(),
            Span::styled(state.filter.clone(), BOLD),
            "_  Enter keeps, Esc clears".into(),
        ]);
    }
    let mut spans = Vec::new();
    let gap = if width < WHOLE_WORDS { " " } else { "  " };
    let mut key = |key: &str, what: &str, on: bool| {
        spans.push(Span::styled(key.to_owned(), BOLD));
        spans.push(Span::styled(
            format!(" {what}{gap}"),
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
        "1 to 9 open the process of an incident",
        "↑ ↓ j k  move                   /    filter by name, pod, pid",
        "s l g h a n  sort by stopped, longest pause, GCs, heap,",
        "             allocation, name",
        "m  memory breakdown. unreached: part of the limit never used;",
        "   room: free and unused, the collector's working room;",
        "   beyond: unused by every cycle between full collections",
        "x  show what is not monitored, with the reason",
        "",
        "Figures cover the last minute, the chart 30 minutes.",
        "stop %: share of time. GC/s: collections of all generations.",
        "heap: after the last collection, with its share of the limit.",
    ];
    let area = centred(frame.area(), 66, 15);
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
