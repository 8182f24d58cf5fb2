//! The fake runtimes that the driver starts.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use test_support::daemon::MARK;

use crate::Arguments;

/// A fake runtime, which exits when its standard input closes.
#[derive(Debug)]
pub(crate) struct Target {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    read: String,
}

/// Totals of one target, as the target reports them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentTotals {
    pub(crate) pid: u32,
    /// Collections that were written to sessions.
    pub(crate) sent: u64,
    /// Collections that did not fit into the session's buffer.
    pub(crate) dropped: u64,
    /// Sessions that were started, including short ones.
    pub(crate) sessions: u64,
}

impl Target {
    pub(crate) fn start(folder: &Path, arguments: &Arguments) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .args(["--instance", "--rate", &arguments.rate.to_string(), "--recording"])
            .arg(&arguments.recording)
            .env("TMPDIR", folder)
            .env(MARK, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process")?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            child,
            stdin,
            stdout: stdout.context("a process has no standard output")?,
            read: String::new(),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops the collections of the target. The target then reports its totals, which [`Target::totals`] reads.
    pub(crate) fn quiet(&mut self) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("standard input is closed")?;
        stdin
            .write_all(b"quiet\n")
            .with_context(|| format!("process {} ended", self.child.id()))
    }

    pub(crate) fn totals(&mut self, patience: Duration) -> anyhow::Result<SentTotals> {
        let line = self.await_line("sent", Instant::now() + patience)?;
        let mut numbers = line.split_ascii_whitespace().filter_map(|word| word.parse().ok());
        let (Some(sent), Some(dropped), Some(sessions)) = (numbers.next(), numbers.next(), numbers.next()) else {
            bail!("process {} says {line:?}", self.pid());
        };
        Ok(SentTotals {
            pid: self.pid(),
            sent,
            dropped,
            sessions,
        })
    }

    /// Waits for the next line that starts with `begin`. Other lines are skipped.
    fn await_line(&mut self, begin: &str, until: Instant) -> anyhow::Result<String> {
        loop {
            while let Some((line, rest)) = self.read.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.read = rest;
                if line.starts_with(begin) {
                    return Ok(line);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            let patience = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut waiting = [PollFd::new(&self.stdout, PollFlags::IN)];
            if poll(&mut waiting, Some(&patience)).context("cannot poll")? == 0 {
                bail!("process {} was not {begin:?} in time", self.pid());
            }
            let mut bytes = [0; 1024];
            let n = self.stdout.read(&mut bytes)?;
            if n == 0 {
                bail!("process {} ended: {:?}", self.pid(), self.child.wait());
            }
            self.read
                .push_str(&String::from_utf8_lossy(bytes.get(..n).unwrap_or_default()));
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until every process has printed a line that starts with `line`.
pub(crate) fn await_all(targets: &mut [Target], line: &str, patience: Duration) -> anyhow::Result<()> {
    let until = Instant::now() + patience;
    for target in targets {
        target.await_line(line, until)?;
    }
    Ok(())
}
