//! The frames of `gcwatch top`, and the effects of its keys.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use report::top::{Action, Connection, Overview, Process, Screen, View, draw};
use test_support::golden;

fn state() -> Screen {
    let mut state = Screen::new("http://127.0.0.1:9464".to_owned());
    state.overview = serde_json::from_str::<Overview>(include_str!("../top/overview.json")).unwrap();
    state.connection = Connection::Live;
    state
}

fn process() -> Process {
    serde_json::from_str(include_str!("../top/process.json")).unwrap()
}

/// Returns a frame as text.
fn frame(state: &Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width));
    let rows = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    rows.map(|row| format!("{}\n", row.trim_end())).collect()
}

/// Scenario: the overview and a process are drawn on small and large terminals, also with the memory columns, with the
/// help open, after the daemon has become unreachable, and before its first answer.
/// Guarantee: the frames equal the committed frames. The faulty process comes first, each unknown value is a dash, and
/// no control character of a name is printed.
#[test]
fn frames_match_committed_frames() {
    let mut all = String::new();
    let mut add = |title: &str, state: &Screen, width, height| {
        all += &format!("=== {title}, {width} x {height}\n{}", frame(state, width, height));
    };
    let mut shown = state();
    add("overview", &shown, 80, 24);
    add("overview", &shown, 140, 16);
    add("tiny terminal", &shown, 40, 6);
    shown.key(KeyCode::Char('m'));
    add("memory breakdown", &shown, 80, 12);
    add("memory breakdown", &shown, 140, 12);
    shown.key(KeyCode::Char('s'));
    shown.key(KeyCode::Char('x'));
    add("with processes that are not monitored", &shown, 100, 12);
    shown.key(KeyCode::Char('?'));
    add("help", &shown, 80, 24);
    shown.key(KeyCode::Esc);
    assert_eq!(shown.key(KeyCode::Enter), Action::Ask);
    assert_eq!(shown.view, View::Process(4711));
    shown.process = Some(process());
    add("a process", &shown, 80, 24);
    add("a process", &shown, 140, 36);
    shown.connection = Connection::Lost("nothing listens there".to_owned());
    add("the daemon is unreachable", &shown, 100, 24);
    add(
        "before the first answer",
        &Screen::new("http://127.0.0.1:9464".to_owned()),
        80,
        8,
    );
    assert!(!all.contains('\u{1b}'));
    golden::compare("tests/top/frames.txt", &all);
}

/// Scenario: the user presses keys to move, sort, open, go back, filter and quit.
/// Guarantee: each key has the effect that the footer states; the selected process stays selected when the order
/// changes.
#[test]
fn keys_match_footer_texts() {
    let mut state = state();
    let names = |state: &Screen| {
        let text = frame(state, 80, 24);
        let place = |name: &str| text.lines().position(|line| line.starts_with(name));
        (place("checkout"), place("<b>evil"))
    };
    let (checkout, evil) = names(&state);
    assert!(checkout < evil, "the process with the longest stopped time is first");
    state.key(KeyCode::Down);
    state.key(KeyCode::Char('n'));
    let (checkout, evil) = names(&state);
    assert!(evil < checkout, "the processes are sorted by name");
    assert_eq!(
        (state.key(KeyCode::Enter), state.view),
        (Action::Ask, View::Process(99))
    );
    assert_eq!((state.key(KeyCode::Esc), state.view), (Action::Ask, View::Overview));
    // Only the first incident is open. The second has ended, so its digit opens no process.
    assert_eq!(state.key(KeyCode::Char('2')), Action::Draw);
    assert_eq!(
        (state.key(KeyCode::Char('1')), state.view),
        (Action::Ask, View::Process(4711))
    );
    state.key(KeyCode::Esc);
    for letter in ['/', 'C', 'H', 'E'] {
        state.key(KeyCode::Char(letter));
    }
    let (checkout, evil) = names(&state);
    assert!(checkout.is_some() && evil.is_none());
    // While the user types a filter, `q` does not quit: it becomes part of the filter.
    assert_eq!(state.key(KeyCode::Char('q')), Action::Draw);
    state.key(KeyCode::Esc);
    assert!(names(&state).1.is_some());
    assert_eq!(state.key(KeyCode::Char('q')), Action::Quit);
}

/// Scenario: an older or newer daemon sends records with missing, null or unknown fields.
/// Guarantee: the known values are drawn.
#[test]
fn records_of_other_versions_are_drawn() {
    let mut state = state();
    for text in [
        "{}",
        r#"{"processes": [{"pid": 1, "name": null, "minute": null, "new": 7}], "incidents": [{}]}"#,
    ] {
        state.overview = serde_json::from_str(text).unwrap();
        frame(&state, 80, 24);
        state.view = View::Process(1);
        state.process = Some(serde_json::from_str(text).unwrap_or_default());
        frame(&state, 80, 24);
        state.view = View::Overview;
    }
}
