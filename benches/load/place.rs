//! The daemon under test.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::process::Signal;
pub(crate) use test_support::daemon::Daemon;
use test_support::daemon::{self, ANY, MARK};

/// Maximum time for processes to start, to be attached to and to end.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// Environment and configuration of a daemon.
#[derive(Debug)]
pub(crate) struct Place {
    /// Folder of the processes and of all files that they write.
    pub(crate) folder: PathBuf,
    /// Address of the receiver.
    pub(crate) receiver: SocketAddr,
    /// Whether the shipped rules are evaluated.
    pub(crate) rules: bool,
    /// State directory of the daemon; `None` if the daemon keeps its state in memory.
    pub(crate) state: Option<PathBuf>,
}

impl Place {
    /// Starts `gcwatch run` and waits until it listens.
    pub(crate) fn start(&self, program: &Path) -> Daemon {
        let Self {
            folder,
            receiver,
            rules,
            state,
        } = self;
        // The daemon ignores other .NET processes of the machine. Every collection becomes spans, because the bench
        // awaits each collection at the receiver.
        let mut config = format!(
            "targets: {{include: [{{environment: {{{MARK}: {folder:?}}}}}]}}\nrules: {{shipped: {rules}}}\n\
             spans: {{min_pause: 0s}}\nmetrics: {{interval: 10s}}\n\
             otlp: {{endpoint: 'http://{receiver}', protocol: grpc}}\n"
        );
        if let Some(state) = state {
            config += &format!("state: {{directory: {state:?}}}\n");
        }
        let mut command = daemon::command(Command::new(program), folder, ANY, &config);
        // The systemd unit sets this, too.
        command.env("MALLOC_ARENA_MAX", "1");
        // The daemon watches this folder permanently, but folders of processes only while a process exists.
        command.env("TMPDIR", folder);
        Daemon::start(command)
    }
}

/// Returns the last lines of the daemon's log.
pub(crate) fn log_tail(daemon: &Daemon) -> String {
    let said = daemon.said();
    let lines: Vec<&str> = said.lines().collect();
    let tail = lines.get(lines.len().saturating_sub(10)..).unwrap_or_default();
    format!("gcwatch said:\n{}\n", tail.join("\n"))
}

/// Fails if the daemon has exited.
pub(crate) fn ended(daemon: &mut Daemon) -> anyhow::Result<()> {
    match daemon.ended() {
        Some(status) => bail!("gcwatch ended by itself ({status}). {}", log_tail(daemon)),
        None => Ok(()),
    }
}

/// Stops the daemon. Returns the duration and the exit status.
pub(crate) fn stop(daemon: &mut Daemon) -> anyhow::Result<(Duration, ExitStatus)> {
    let since = Instant::now();
    daemon.signal(Signal::TERM);
    while since.elapsed() < TIMEOUT {
        if let Some(status) = daemon.ended() {
            return Ok((since.elapsed(), status));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("gcwatch did not end in {} s after SIGTERM", TIMEOUT.as_secs())
}
