//! The program whose CPU time is compared, and what may be attached to it.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::proc;

/// The mark by which the daemon knows its targets.
const MARK: &str = "GCWATCH_LOAD";

/// tests/workload in its mode `fixed`, on a runtime of the cache.
#[derive(Debug)]
pub(crate) struct Workload {
    runtime: String,
    folder: PathBuf,
    rounds: u32,
    gen0_size: Option<String>,
}

/// A run of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// User and system, of the work alone.
    pub(crate) cpu: Duration,
    /// Collections in it.
    pub(crate) collections: u64,
}

/// A process that waits for its work. It ends with its standard input, and after five minutes in any case.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Workload {
    pub(crate) fn find(runtime: &str, rounds: u32, gen0_size: Option<String>) -> anyhow::Result<Self> {
        let folder = runtime_folder(runtime)?;
        Ok(Self {
            runtime: runtime.to_owned(),
            folder,
            rounds,
            gen0_size,
        })
    }

    /// Starts it and waits until it could work.
    pub(crate) fn start(&self, tmp: &Path, marked: bool) -> anyhow::Result<Process> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workload/workload.dll");
        let mut command = if self.folder.join("run").exists() {
            let mut command = Command::new(self.folder.join("run"));
            command.arg(program);
            command
        } else if self.folder.join("dosai").exists() {
            let mut command = Command::new(self.folder.join("dosai"));
            command.arg("--help").env("DOTNET_STARTUP_HOOKS", program);
            command
        } else {
            bail!("{}: no program starts on this runtime", self.folder.display());
        };
        if marked {
            command.env(MARK, tmp);
        }
        if let Some(size) = &self.gen0_size {
            command.env("DOTNET_GCgen0size", size);
        }
        let mut child = command
            .env("TMPDIR", tmp)
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            // The work runs from its start as it ends: when a method is compiled again is a matter of chance.
            .env("DOTNET_TieredCompilation", "0")
            .env("WMODE", "fixed")
            .env("WROUNDS", self.rounds.to_string())
            .env("WSECS", "300")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", self.runtime))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut process = Process {
            child,
            stdin: stdin.context("no standard input")?,
            stdout: BufReader::new(stdout.context("no standard output")?),
        };
        process.await_line("ready")?;
        Ok(process)
    }
}

/// The folder of a runtime in the cache of `tests/runtimes/fetch`.
pub(crate) fn runtime_folder(runtime: &str) -> anyhow::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtimes/fetch");
    let output = Command::new(&script)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    let folder = PathBuf::from(String::from_utf8(output.stdout)?.trim()).join(runtime);
    ensure!(
        folder.join(".complete").exists(),
        "{} is not there: tests/runtimes/fetch",
        folder.display()
    );
    Ok(folder)
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} MB in arrays of 500 bytes", self.runtime, self.rounds * 2)?;
        match &self.gen0_size {
            Some(size) => write!(f, ", GCgen0size {size}"),
            None => Ok(()),
        }
    }
}

impl Process {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it do its work, and ends it.
    pub(crate) fn work(mut self) -> anyhow::Result<Run> {
        let pid = self.child.id();
        let cpu = || proc::cpu_time(pid).context("the program has ended");
        let before = cpu()?;
        self.stdin.write_all(b"go\n")?;
        let done = self.await_line("done")?;
        let after = cpu()?;
        // `done TIMESTAMP gen0 gen1 gen2 pause`: a collection of an older generation counts in the younger ones too.
        let collections = done
            .split_ascii_whitespace()
            .nth(2)
            .and_then(|count| count.parse().ok());
        self.stdin.write_all(b"stop\n")?;
        self.child.wait()?;
        Ok(Run {
            cpu: after.saturating_sub(before),
            collections: collections.with_context(|| format!("the program says {done:?}"))?,
        })
    }

    fn await_line(&mut self, begin: &str) -> anyhow::Result<String> {
        loop {
            let mut line = String::new();
            let n = self.stdout.read_line(&mut line)?;
            ensure!(n > 0, "the program ended before it was {begin}");
            if line.starts_with(begin) {
                return Ok(line);
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `gcwatch record` of one process, into nothing.
#[derive(Debug)]
pub(crate) struct Recorder {
    child: Child,
}

impl Recorder {
    pub(crate) fn attach(program: &Path, pid: u32) -> anyhow::Result<Self> {
        let child = Command::new(program)
            .args(["record", "--output", "-", "--pid", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child })
    }

    /// It ends with the process; its last line says how many collections it saw.
    pub(crate) fn finish(mut self, collections: u64) -> anyhow::Result<()> {
        let stderr = self.child.stderr.take().context("no standard error")?;
        let lines: Vec<String> = BufReader::new(stderr).lines().collect::<Result<_, _>>()?;
        self.child.wait()?;
        let last = lines.last().map(String::as_str).unwrap_or_default();
        let words: Vec<&str> = last.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let seen = words.windows(2).find_map(|pair| match pair {
            [count, "collections"] => count.parse::<u64>().ok(),
            _ => None,
        });
        let seen = seen.with_context(|| format!("gcwatch record says {lines:?}"))?;
        ensure!(seen >= collections, "of {collections} collections {seen} were recorded");
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
