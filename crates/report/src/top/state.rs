//! State of the display, and its reaction to keys.

use std::cmp::Ordering;

use ratatui::crossterm::event::KeyCode;

use crate::top::record::{Overview, Process, Row};

/// Action after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Draw a new frame.
    Draw,
    /// Query the daemon immediately, because the view has changed.
    Ask,
    /// Exit.
    Quit,
}

/// The current view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum View {
    /// All processes.
    #[default]
    Overview,
    Process(u32),
}

/// State of the connection to the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Connection {
    /// No response has been received yet.
    #[default]
    Waiting,
    /// The last request was answered.
    Live,
    /// The last request failed, with the given reason.
    Lost(String),
}

/// Sort order of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Stopped,
    Longest,
    Collections,
    Heap,
    Allocated,
    /// The sum of the limit that was never reached and the memory beyond working room. With this order, the table shows
    /// the columns of the memory breakdown.
    Memory,
    Name,
}

/// Keys of the sort orders, with their names for wide and for narrow terminals.
pub(super) const SORTS: [(char, Sort, &str, &str); 7] = [
    ('s', Sort::Stopped, "stopped", "stop"),
    ('l', Sort::Longest, "longest", "long"),
    ('g', Sort::Collections, "GCs", "GCs"),
    ('h', Sort::Heap, "heap", "heap"),
    ('a', Sort::Allocated, "allocation", "alloc"),
    ('m', Sort::Memory, "memory", "mem"),
    ('n', Sort::Name, "name", "name"),
];

/// Number of rows that a page key moves.
const PAGE: usize = 10;

/// All state that determines a frame.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    /// Current view.
    pub view: View,
    /// Most recent overview.
    pub overview: Overview,
    /// Most recent record of the shown process.
    pub process: Option<Process>,
    /// State of the connection.
    pub connection: Connection,
    /// Address of the daemon.
    pub address: String,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) typing: bool,
    pub(super) help: bool,
    /// Whether processes that are not monitored are shown as well.
    pub(super) all: bool,
    /// Pid of the selected row, because the index of a row can change; `None` before the first selection.
    chosen: Option<u32>,
    /// First visible line of the shown process.
    pub(super) scroll: u16,
}

impl Screen {
    /// Creates the state before the first response.
    pub fn new(address: String) -> Self {
        Self {
            address,
            ..Self::default()
        }
    }

    /// Returns the visible rows in their order.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let needle = self.filter.to_lowercase();
        let is_read = |row: &Row| self.all || row.is_read();
        let is_found = |row: &Row| {
            needle.is_empty()
                || row.name.to_lowercase().contains(&needle)
                || row.pid.to_string().contains(&needle)
                || row.pod.as_ref().is_some_and(|pod| pod.to_lowercase().contains(&needle))
        };
        let processes = self.overview.processes.iter();
        let mut rows: Vec<&Row> = processes.filter(|row| is_read(row) && is_found(row)).collect();
        rows.sort_by(|one, other| self.order(one, other).then(one.pid.cmp(&other.pid)));
        rows
    }

    /// Returns the number of processes that are hidden because they are not monitored.
    pub(super) fn hidden(&self) -> usize {
        let unread = |row: &&Row| !row.is_read();
        if self.all {
            0
        } else {
            self.overview.processes.iter().filter(unread).count()
        }
    }

    fn order(&self, one: &Row, other: &Row) -> Ordering {
        let most = |of: fn(&Row) -> Option<f64>| {
            let value = |row: &Row| of(row).unwrap_or(-1.0);
            value(other).total_cmp(&value(one))
        };
        match self.sort {
            Sort::Stopped => most(|row| row.minute?.stopped_share),
            Sort::Longest => most(|row| row.minute?.longest_ns.map(|ns| ns as f64)),
            Sort::Collections => most(|row| row.minute.map(|minute| minute.collections() as f64)),
            Sort::Heap => most(|row| row.heap_after.map(|bytes| bytes as f64)),
            Sort::Allocated => most(|row| row.minute?.allocated.map(|bytes| bytes as f64)),
            Sort::Memory => most(|row| row.memory?.order().map(|bytes| bytes as f64)),
            Sort::Name => one.name.to_lowercase().cmp(&other.name.to_lowercase()),
        }
    }

    /// Returns the number of visible rows plus the number of all incidents.
    pub fn lines(&self) -> usize {
        self.rows().len() + self.overview.incidents.len()
    }

    /// Returns the index of the selected row, or 0 if the selected process is not among the rows.
    pub(super) fn place(&self, rows: &[&Row]) -> usize {
        let chosen = rows.iter().position(|row| Some(row.pid) == self.chosen);
        chosen.unwrap_or(0)
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyCode) -> Action {
        if self.typing {
            return self.type_key(key);
        }
        if self.help {
            self.help = false;
            return Action::Draw;
        }
        match key {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?') => self.help = true,
            KeyCode::Esc if self.view != View::Overview => return self.back(),
            KeyCode::Backspace | KeyCode::Char('o') if self.view != View::Overview => return self.back(),
            KeyCode::Esc => self.filter.clear(),
            _ if self.view != View::Overview => self.scroll_key(key),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('x') => self.all = !self.all,
            KeyCode::Enter => {
                let rows = self.rows();
                if let Some(pid) = rows.get(self.place(&rows)).map(|row| row.pid) {
                    return self.open(pid);
                }
            }
            // A digit opens the process of the incident with that number in the list.
            KeyCode::Char(digit @ '1'..='9') => {
                let mut open = self
                    .overview
                    .incidents
                    .iter()
                    .filter(|incident| incident.until.is_none());
                let place = digit.to_digit(10).map_or(0, |digit| digit as usize - 1);
                if let Some(pid) = open.nth(place).and_then(|incident| incident.pid) {
                    return self.open(pid);
                }
            }
            KeyCode::Char(letter) if !matches!(letter, 'j' | 'k') => {
                if let Some((_, sort, ..)) = SORTS.iter().find(|(known, ..)| *known == letter) {
                    self.sort = *sort;
                }
            }
            _ => self.move_key(key),
        }
        Action::Draw
    }

    fn open(&mut self, pid: u32) -> Action {
        self.chosen = Some(pid);
        self.view = View::Process(pid);
        (self.process, self.scroll) = (None, 0);
        Action::Ask
    }

    fn back(&mut self) -> Action {
        self.view = View::Overview;
        self.process = None;
        Action::Ask
    }

    fn type_key(&mut self, key: KeyCode) -> Action {
        match key {
            KeyCode::Char(letter) if self.filter.chars().count() < 40 => self.filter.push(letter),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.typing = false;
            }
            KeyCode::Enter => self.typing = false,
            _ => {}
        }
        Action::Draw
    }

    fn move_key(&mut self, key: KeyCode) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let place = self.place(&rows);
        let to = match key {
            KeyCode::Up | KeyCode::Char('k') => place.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => (place + 1).min(last),
            KeyCode::PageUp => place.saturating_sub(PAGE),
            KeyCode::PageDown => (place + PAGE).min(last),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => place,
        };
        self.chosen = rows.get(to).map(|row| row.pid);
    }

    fn scroll_key(&mut self, key: KeyCode) {
        let page = u16::try_from(PAGE).unwrap_or(1);
        self.scroll = match key {
            KeyCode::Up | KeyCode::Char('k') => self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll.saturating_add(1),
            KeyCode::PageUp => self.scroll.saturating_sub(page),
            KeyCode::PageDown => self.scroll.saturating_add(page),
            KeyCode::Home => 0,
            _ => self.scroll,
        };
    }
}
