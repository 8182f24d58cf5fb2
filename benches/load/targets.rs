//! The processes that the driver starts: fake runtimes and the daemon.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

/// The variable by which the daemon knows the processes of this run.
const MARK: &str = "GCWATCH_LOAD";

/// What a fake runtime does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Collections a second.
    pub(crate) rate: f64,
    /// Between two writes of a session's events.
    pub(crate) flush: Duration,
}

/// A fake runtime. It ends with its standard input.
#[derive(Debug)]
pub(crate) struct Target {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    read: String,
    pub(crate) rate: f64,
}

/// Totals of one target, as it reports them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) pid: u32,
    pub(crate) rate: f64,
    /// Collections written into sessions.
    pub(crate) sent: u64,
    /// Collections for which the session's buffer had no room.
    pub(crate) dropped: u64,
    /// Sessions that were begun, short ones included.
    pub(crate) sessions: u64,
}

impl Target {
    pub(crate) fn start(folder: &Path, pace: Pace, recording: &Path) -> anyhow::Result<Self> {
        let rate = pace.rate;
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .args([
                "--instance",
                "--rate",
                &rate.to_string(),
                "--flush",
                &pace.flush.as_millis().to_string(),
                "--recording",
            ])
            .arg(recording)
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
            rate,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops its collections; [`Target::totals`] follows.
    pub(crate) fn quiet(&mut self) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("standard input is closed")?;
        stdin
            .write_all(b"quiet\n")
            .with_context(|| format!("process {} ended", self.child.id()))
    }

    pub(crate) fn totals(&mut self, patience: Duration) -> anyhow::Result<Sent> {
        let line = self.await_line("sent", Instant::now() + patience)?;
        let mut numbers = line.split_ascii_whitespace().filter_map(|word| word.parse().ok());
        let (Some(sent), Some(dropped), Some(sessions)) = (numbers.next(), numbers.next(), numbers.next()) else {
            bail!("process {} says {line:?}", self.pid());
        };
        Ok(Sent {
            pid: self.pid(),
            rate: self.rate,
            sent,
            dropped,
            sessions,
        })
    }

    /// The next line that begins so; others are skipped.
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

/// Waits until every process has said this.
pub(crate) fn await_all(targets: &mut [Target], line: &str, patience: Duration) -> anyhow::Result<()> {
    let until = Instant::now() + patience;
    for target in targets {
        target.await_line(line, until)?;
    }
    Ok(())
}

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

/// `gcwatch run`, set up by its environment alone.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
    started: Instant,
}

impl Daemon {
    pub(crate) fn start(program: &Path, place: &Place) -> anyhow::Result<Self> {
        let Place {
            folder,
            receiver,
            rules,
            state,
        } = place;
        let (log, config, leases) = (
            folder.join("gcwatch.log"),
            folder.join("gcwatch.yaml"),
            folder.join("leases"),
        );
        // Other .NET processes of the machine are none of its business.
        let include = format!("{{environment: {{{MARK}: {:?}}}}}", folder.display().to_string());
        // Every collection becomes spans: each is awaited at the receiver.
        let mut keys = "spans: {min_pause: 0s}\n".to_owned();
        keys += &format!("targets:\n  include: [{include}]\n  lease_folder: {leases:?}\nrules:\n  shipped: {rules}\n");
        if let Some(state) = state {
            keys.push_str(&format!("state:\n  directory: {state:?}\n"));
        }
        fs::write(&config, keys).with_context(|| format!("cannot write {}", config.display()))?;
        // Another one may have written into it before.
        let stderr = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new(program)
            .arg("run")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{receiver}"))
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
            .env("OTEL_METRIC_EXPORT_INTERVAL", "10000")
            .env("GCWATCH_CONFIG", &config)
            .env("GCWATCH_LISTEN", "127.0.0.1:0")
            // As the systemd unit has it.
            .env("MALLOC_ARENA_MAX", "1")
            // It watches this folder all the time; those of processes only as long as there is one.
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self {
            child,
            log,
            started: Instant::now(),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens, as its log has it.
    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        let log = fs::read_to_string(&self.log).context("cannot read gcwatch's log")?;
        let address = log
            .split("listening at http://")
            .nth(1)
            .and_then(|rest| rest.split('/').next());
        let address = address.with_context(|| format!("no listener. {}", self.log_tail()))?;
        address.parse().with_context(|| format!("{address:?} is no address"))
    }

    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Its last words.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(10)..).unwrap_or_default();
        format!("gcwatch said:\n{}\n", tail.join("\n"))
    }

    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ends it as a crash or the kernel does.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("cannot kill gcwatch")?;
        self.child.wait().context("cannot wait for gcwatch")?;
        Ok(())
    }

    /// Stops it; returns how long that took and the exit status.
    pub(crate) fn stop(&mut self, patience: Duration) -> anyhow::Result<(Duration, ExitStatus)> {
        let since = Instant::now();
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a pid")?, Signal::TERM).context("cannot stop gcwatch")?;
        while since.elapsed() < patience {
            if let Some(status) = self.child.try_wait()? {
                return Ok((since.elapsed(), status));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("gcwatch did not end in {} s after SIGTERM", patience.as_secs())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
