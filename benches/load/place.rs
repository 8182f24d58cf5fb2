//! The daemon that is measured.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::process::Signal;
pub(crate) use test_support::daemon::Daemon;
use test_support::daemon::{self, ANY, MARK};

/// How long processes may take to start, to be attached to and to end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Where a daemon runs, and what it is configured with.
#[derive(Debug)]
pub(crate) struct Place {
    /// Folder of the processes and of everything that it writes.
    pub(crate) folder: PathBuf,
    /// Where it sends to.
    pub(crate) receiver: SocketAddr,
    /// Whether it evaluates the rules that ship.
    pub(crate) rules: bool,
    /// Its directory; `None`: it has none.
    pub(crate) state: Option<PathBuf>,
}

impl Place {
    /// Starts `gcwatch run`, and waits until it listens.
    pub(crate) fn start(&self, program: &Path) -> Daemon {
        let Self {
            folder,
            receiver,
            rules,
            state,
        } = self;
        // Other .NET processes of the machine are none of its business. Every collection becomes spans: each is awaited
        // at the receiver.
        let mut config = format!(
            "targets: {{include: [{{environment: {{{MARK}: {folder:?}}}}}]}}\nrules: {{shipped: {rules}}}\n\
             spans: {{min_pause: 0s}}\nmetrics: {{interval: 10s}}\n\
             otlp: {{endpoint: 'http://{receiver}', protocol: grpc}}\n"
        );
        if let Some(state) = state {
            config += &format!("state: {{directory: {state:?}}}\n");
        }
        let mut command = daemon::command(Command::new(program), folder, ANY, &config);
        // As the systemd unit has it.
        command.env("MALLOC_ARENA_MAX", "1");
        // It watches this folder all the time; those of processes only as long as there is one.
        command.env("TMPDIR", folder);
        Daemon::start(command)
    }
}

/// Its last words.
pub(crate) fn log_tail(daemon: &Daemon) -> String {
    let said = daemon.said();
    let lines: Vec<&str> = said.lines().collect();
    let tail = lines.get(lines.len().saturating_sub(10)..).unwrap_or_default();
    format!("gcwatch said:\n{}\n", tail.join("\n"))
}

/// It has not ended by itself.
pub(crate) fn ended(daemon: &mut Daemon) -> anyhow::Result<()> {
    match daemon.ended() {
        Some(status) => bail!("gcwatch ended by itself ({status}). {}", log_tail(daemon)),
        None => Ok(()),
    }
}

/// Stops it; returns how long that took and the exit status.
pub(crate) fn stop(daemon: &mut Daemon) -> anyhow::Result<(Duration, ExitStatus)> {
    let since = Instant::now();
    daemon.signal(Signal::TERM);
    while since.elapsed() < PATIENCE {
        if let Some(status) = daemon.ended() {
            return Ok((since.elapsed(), status));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("gcwatch did not end in {} s after SIGTERM", PATIENCE.as_secs())
}
