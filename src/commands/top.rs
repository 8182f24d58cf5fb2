//! `gcwatch top`: shows the overview and single processes of a daemon, live in a terminal.

use std::io::{self, IsTerminal, Write as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::commands::cli::TopArgs;
use crate::commands::executor;
use crate::commands::listener::Listener;
use crate::commands::output::{say, terminal_width};
use crate::commands::top::own::OwnDaemon;
use report::top::{Action, Connection, Overview, Process, Screen, View, draw};

mod own;

/// Timeout for a private daemon to find the processes before a single frame is printed.
const SCAN_TIMEOUT: Duration = Duration::from_secs(10);
const SETTLES_STEP: Duration = Duration::from_millis(50);
/// Time for which a private daemon observes the processes before the frame.
const SEEN_FOR: Duration = Duration::from_secs(3);
/// Refresh interval of a demonstration.
const FRAME_INTERVAL: Duration = Duration::from_secs(1);
/// Number of lines in the frame of `--once`, in addition to the lines of processes.
const EXTRA_LINES: usize = 12;

pub(crate) fn run(args: &TopArgs) -> anyhow::Result<bool> {
    let on_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if !(args.once || on_terminal) {
        return Err(anyhow!(
            "standard output is not a terminal; use --once to print one frame"
        ));
    }
    let runtime = executor()?;
    let listener = Listener::new(args.connect.as_deref(), args.token_file.as_deref())?;
    let mut daemon = Daemon { listener, own: None };
    if args.connect.is_none() && !runtime.block_on(daemon.listener.listens()) {
        daemon.attach_itself()?;
    }
    if args.once {
        return runtime.block_on(once(&daemon, args.memory)).map(|()| true);
    }
    // The terminal is restored even after a panic.
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let state = daemon.begin(args.memory);
    let done = runtime.block_on(live(&Arc::new(daemon), &mut terminal, state, args.interval));
    ratatui::restore();
    // Do not wait for the thread that reads keys, because this thread waits for the next key.
    runtime.shutdown_background();
    done.map(|()| true)
}

/// Shows the processes of the daemon at an address, until the user quits.
pub(crate) async fn show(address: String) -> anyhow::Result<()> {
    let listener = Listener::at(address, None)?;
    let daemon = Daemon { listener, own: None };
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let state = daemon.begin(false);
    let done = live(&Arc::new(daemon), &mut terminal, state, FRAME_INTERVAL).await;
    ratatui::restore();
    done
}

/// The daemon that provides the data.
struct Daemon {
    listener: Listener,
    /// The private daemon; `None` if a daemon already listens or `--connect` names one.
    own: Option<OwnDaemon>,
}

impl Daemon {
    /// Starts a private daemon.
    fn attach_itself(&mut self) -> anyhow::Result<()> {
        let own = OwnDaemon::start()?;
        self.listener.address.clone_from(&own.address);
        self.own = Some(own);
        Ok(())
    }

    /// Returns the initial screen: the overview, or the memory breakdown.
    fn begin(&self, memory: bool) -> Screen {
        let mut state = Screen::new(self.shown());
        if memory {
            state.key(KeyCode::Char('m'));
        }
        state
    }

    /// Returns the source of the data, for the title.
    fn shown(&self) -> String {
        match &self.own {
            Some(_) => "private daemon: none runs on this host".to_owned(),
            None => self.listener.address.clone(),
        }
    }

    /// Waits until the processes of this host are attached and have sent data.
    async fn settled(&self) {
        let until = Instant::now() + SCAN_TIMEOUT;
        let mut is_ready = false;
        while !is_ready && Instant::now() < until {
            sleep(SETTLES_STEP).await;
            is_ready = self.listener.is_ready().await;
        }
        sleep(SEEN_FOR).await;
    }

    /// Queries the data for a view.
    async fn ask(&self, view: View) -> Result<Answer, String> {
        let overview = self.listener.record("/api/v1/overview").await?;
        let process = match view {
            View::Overview => None,
            View::Process(pid) => Some(self.listener.record(&format!("/api/v1/processes/{pid}")).await),
        };
        Ok(Answer { overview, process })
    }
}

/// Data for a view.
struct Answer {
    overview: Overview,
    /// The process; `None` if the view shows no process.
    process: Option<Result<Process, String>>,
}

/// Applies an answer. Data that the answer lacks stays unchanged.
fn answered(state: &mut Screen, answer: Result<Answer, String>) {
    let process = match answer {
        Ok(answer) => {
            state.overview = answer.overview;
            answer.process
        }
        Err(why) => Some(Err(why)),
    };
    state.connection = Connection::Live;
    match process {
        Some(Ok(process)) => state.process = Some(process),
        Some(Err(why)) => state.connection = Connection::Lost(why),
        None => {}
    }
}

/// Prints one frame as text.
async fn once(daemon: &Daemon, memory: bool) -> anyhow::Result<()> {
    let mut state = daemon.begin(memory);
    if daemon.own.is_some() {
        say("no daemon listens on this host: attaching for a few seconds");
        daemon.settled().await;
    }
    let answer = daemon.ask(state.view).await;
    answered(&mut state, answer);
    if let Connection::Lost(why) = &state.connection {
        return Err(anyhow!("{}: {why}", daemon.listener.address));
    }
    let stdout = io::stdout();
    let of_terminal = stdout.is_terminal().then(|| terminal_width(&stdout)).flatten();
    let of_terminal = of_terminal.and_then(|columns| u16::try_from(columns).ok());
    let width = of_terminal.or_else(|| std::env::var("COLUMNS").ok()?.parse().ok());
    let lines = u16::try_from(state.lines() + EXTRA_LINES).unwrap_or(u16::MAX);
    let mut terminal = Terminal::new(TestBackend::new(width.unwrap_or(140).max(80), lines))?;
    terminal.draw(|frame| draw(frame, &state))?;
    let buffer = terminal.backend().buffer();
    let mut out = stdout.lock();
    let rows = buffer.content().chunks(usize::from(buffer.area.width));
    let rows = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
    // Omit the key hints at the bottom, which do not apply here.
    for row in rows
        .iter()
        .take(rows.len().saturating_sub(1))
        .filter(|row| !row.is_empty())
    {
        writeln!(out, "{row}")?;
    }
    Ok(())
}

async fn live(
    daemon: &Arc<Daemon>,
    terminal: &mut DefaultTerminal,
    mut state: Screen,
    every: Duration,
) -> anyhow::Result<()> {
    let mut terminated = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut hung_up = signal(SignalKind::hangup()).context("cannot handle SIGHUP")?;
    let (sender, mut events) = mpsc::channel(16);
    // Reading keys blocks, so a separate thread reads them. The thread ends with the program.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // At most one query runs at a time, in a separate task, so that a daemon that hangs does not block the keys.
    let mut asked = JoinSet::new();
    loop {
        terminal.draw(|frame| draw(frame, &state))?;
        tokio::select! {
            _ = ticks.tick() => if asked.is_empty() {
                let (daemon, view) = (Arc::clone(daemon), state.view);
                asked.spawn(async move { daemon.ask(view).await });
            },
            Some(Ok(answer)) = asked.join_next() => answered(&mut state, answer),
            _ = terminated.recv() => return Ok(()),
            _ = hung_up.recv() => return Ok(()),
            event = events.recv() => match event.map(|event| meaning(&event)) {
                None | Some(Meaning::Quit) => return Ok(()),
                Some(Meaning::Suspend) => suspend(terminal)?,
                Some(Meaning::Nothing) => {}
                Some(Meaning::Key(key)) => match state.key(key) {
                    Action::Quit => return Ok(()),
                    Action::Ask => {
                        // The current query is for a view that is no longer shown.
                        asked = JoinSet::new();
                        ticks.reset_immediately();
                    }
                    Action::Draw => {}
                },
            },
        }
    }
}

/// Stops the process like Ctrl-Z, with the terminal restored. Sets up the terminal again when the process continues.
fn suspend(terminal: &mut DefaultTerminal) -> anyhow::Result<()> {
    ratatui::restore();
    kill_process(getpid(), Signal::TSTP).context("cannot stop")?;
    *terminal = ratatui::try_init().context("cannot use this terminal")?;
    Ok(())
}

/// Meaning of a terminal event.
enum Meaning {
    Key(KeyCode),
    Quit,
    /// Return to the shell, until `fg`.
    Suspend,
    /// A resize, which the next frame handles, or an event without meaning.
    Nothing,
}

fn meaning(event: &Event) -> Meaning {
    let Event::Key(KeyEvent {
        code, modifiers, kind, ..
    }) = event
    else {
        return Meaning::Nothing;
    };
    if *kind == KeyEventKind::Release {
        return Meaning::Nothing;
    }
    if modifiers.contains(KeyModifiers::CONTROL) {
        return match code {
            KeyCode::Char('c' | 'd') => Meaning::Quit,
            KeyCode::Char('z') => Meaning::Suspend,
            _ => Meaning::Nothing,
        };
    }
    match code {
        KeyCode::Char(_) | KeyCode::Enter | KeyCode::Esc | KeyCode::Backspace => Meaning::Key(*code),
        KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown => Meaning::Key(*code),
        KeyCode::Home | KeyCode::End => Meaning::Key(*code),
        _ => Meaning::Nothing,
    }
}
