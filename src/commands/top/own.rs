//! The private daemon of `gcwatch top`, for hosts without a running daemon. This daemon is a child process `gcwatch
//! run` that exports no data and sends no notifications. The child exits when `gcwatch top` exits, even if `gcwatch
//! top` is killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

/// Timeout for the daemon to listen.
const START_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout for the daemon to end its sessions.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Text before the address in the log line that reports the listener.
const LISTENS: &str = "listening at ";

/// The flag that makes a daemon exit when its standard input ends.
pub(crate) const WITH_STDIN: &str = "--end-with-stdin";

/// A private daemon, which exits when this value is dropped.
pub(super) struct OwnDaemon {
    child: Child,
    /// Standard input of the daemon, open as long as the daemon is needed. The kernel closes this pipe even if this
    /// process is killed.
    wanted: Option<ChildStdin>,
    pub(super) address: String,
}

impl OwnDaemon {
    /// Starts the daemon and waits until it listens. If the daemon exits, the error contains the last line of its log.
    pub(super) fn start() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args([
            "run",
            WITH_STDIN,
            "--listen",
            "127.0.0.1:0",
            "--log-format",
            "text",
            "--log-level",
            "info",
        ]);
        command.args(["--no-traces", "--no-metrics", "--no-logs"]);
        // Remove the settings of the host's daemon. Otherwise, the private daemon would send notifications and store
        // state like the host's daemon.
        let configures =
            |name: &str| name.starts_with("GCWATCH_") || name.starts_with("OTEL_") || name == "STATE_DIRECTORY";
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(configures) {
                command.env_remove(name);
            }
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start a private daemon")?;
        let (wanted, log) = (child.stdin.take(), child.stderr.take());
        let mut daemon = Self {
            child,
            wanted,
            address: String::new(),
        };
        let (says, said) = channel();
        // The thread reads to the end, because the daemon would drop lines otherwise. The thread ends with the daemon.
        std::thread::spawn(move || {
            for line in BufReader::new(log?).split(b'\n') {
                let _nobody_waits_any_more = says.send(String::from_utf8_lossy(&line.ok()?).into_owned());
            }
            Some(())
        });
        daemon.address = address(&said, Instant::now() + START_TIMEOUT)?;
        Ok(daemon)
    }
}

/// Returns the address from the log. The error contains the last line of the log.
fn address(said: &Receiver<String>, until: Instant) -> anyhow::Result<String> {
    let mut last = String::new();
    loop {
        match said.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => match line.split_once(LISTENS).and_then(|(_, rest)| rest.split_once("/ ")) {
                Some((address, _)) => return Ok(address.to_owned()),
                None => last = line,
            },
            Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("the private daemon has exited: {last}")),
            Err(RecvTimeoutError::Timeout) => return Err(anyhow!("the private daemon does not listen: {last}")),
        }
    }
}

impl Drop for OwnDaemon {
    fn drop(&mut self) {
        drop(self.wanted.take());
        let until = Instant::now() + EXIT_TIMEOUT;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() >= until {
                let _ended_meanwhile = self.child.kill();
                let _reaped = self.child.wait();
                return;
            }
            sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one log has a line with the address; another log ends without the address.
    /// Guarantee: the address is returned without the text that follows it; otherwise the error contains the last line.
    #[test]
    fn address_is_read_from_log() {
        let (says, said) = channel();
        for line in [
            "2026-01-02T03:04:05Z  INFO gcwatch 0.1.0",
            "2026-01-02T03:04:05Z  INFO listening at http://127.0.0.1:40113/ (metrics at /metrics)",
        ] {
            says.send(line.to_owned()).unwrap();
        }
        let later = Instant::now() + START_TIMEOUT;
        assert_eq!(address(&said, later).unwrap(), "http://127.0.0.1:40113");
        says.send("ERROR no rights".to_owned()).unwrap();
        drop(says);
        let error = address(&said, later).unwrap_err().to_string();
        assert_eq!(error, "the private daemon has exited: ERROR no rights");
    }
}
