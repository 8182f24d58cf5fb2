//! A .NET process that a test starts, queries and stops.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::runtimes::{Host, MUSL_LIBRARIES, Runtime};

/// Timeout for a process to start, to answer or to exit. Only a hanging process takes this long.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a loopback port for a service that binds it later.
///
/// The port is below the range that the kernel uses for outgoing connections and for listeners on port 0
/// (`net.ipv4.ip_local_port_range`). A port in that range could be taken between this call and the service's own
/// `bind`.
pub fn service_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let first: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
    // Test programs that run at the same time start at different ports.
    let own = u16::try_from(std::process::id() % 97).unwrap() * 64;
    loop {
        let place = own.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (first - 1024);
        let port = first - 1 - place;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Waits until a service accepts connections at `port`. Panics if the service exits first.
pub fn await_listening(service: &mut Child, port: u16) {
    let until = Instant::now() + TIMEOUT;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let ended = service.try_wait().unwrap();
        assert!(ended.is_none(), "the service ended before it listened: {ended:?}");
        assert!(Instant::now() < until, "the service does not listen at port {port}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a process exits. Returns its exit status, or `None` if the process does not exit in time.
pub fn await_end(child: &mut Child, within: Duration) -> Option<ExitStatus> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if since.elapsed() > within {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A line `tick TIMESTAMP gen0 gen1 gen2 total_pause_us` as printed by the process.
#[derive(Debug, Clone, Copy)]
pub struct Tick {
    /// Time on the clock of the stream's events, in nanoseconds.
    pub at: i64,
    /// GC.CollectionCount(n) for generations 0 to 2. A collection of generation 2 counts in all three values.
    pub counts: [i64; 3],
    /// GC.GetTotalPauseDuration, in microseconds; `None` if the runtime does not provide the duration.
    pub pause_us: Option<i64>,
}

/// A running workload, which is killed when this value is dropped. Most workloads also exit when their standard input
/// ends, so that they do not outlive an aborted test.
#[derive(Debug)]
pub struct Target {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    tmp: TempDir,
    ticks: Vec<Tick>,
    /// Whether the workload exits when its standard input ends. NativeAOT programs and the programs of
    /// `tests/workload/known` do not exit.
    ends_with_stdin: bool,
}

/// A process that is killed at the end of its test.
#[derive(Debug)]
pub struct RunningProcess(pub Child);

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// The parameters of a process start.
#[derive(Debug, Clone)]
pub struct Start {
    pub runtime: Runtime,
    pub mode: &'static str,
    /// Names without prefix and values of collector settings, for example `("gcServer", "1")`. Numbers are hexadecimal,
    /// with `0x`.
    pub knobs: Vec<(&'static str, &'static str)>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    pub seconds: u32,
    /// Whether the process runs in its own mount namespace, in which the folder of its socket is a private file system.
    /// This needs root.
    pub own_folder: bool,
    /// A program of `tests/workload/known` that replaces the workload, and its arguments; only for [`Host::Run`].
    /// `None` for the workload.
    pub program: Option<(&'static str, Vec<String>)>,
}

impl Start {
    pub fn new(runtime: Runtime, mode: &'static str) -> Self {
        Self {
            runtime,
            mode,
            knobs: Vec::new(),
            env: Vec::new(),
            seconds: 60,
            own_folder: false,
            program: None,
        }
    }

    pub fn knobs(mut self, knobs: &[(&'static str, &'static str)]) -> Self {
        self.knobs.extend_from_slice(knobs);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns a start of a program of `tests/workload/known`, which prints `ready` once it is ready.
    pub fn known(runtime: Runtime, program: &'static str, arguments: &[&str]) -> Self {
        let mut start = Self::new(runtime, "known");
        start.program = Some((program, arguments.iter().map(|&one| one.to_owned()).collect()));
        start
    }

    /// Returns a start of a program with many pinned objects. The program collects every 100 ms, prints the time and
    /// the pause of each collection in microseconds, and needs .NET 8 or later.
    pub fn pins(runtime: Runtime, objects: u32) -> Self {
        Self::known(runtime, "pins.dll", &["300", &objects.to_string()])
    }

    /// Starts the process, and does not wait until it works.
    pub fn spawn(&self) -> Target {
        let tmp = tempfile::Builder::new().prefix("gcw").tempdir().unwrap();
        let mut command = self.command(&tmp);
        if self.own_folder {
            command = in_own_folder(&command);
        } else if self.runtime.is_musl() {
            command = in_musl_root(&command, self.runtime);
        }
        command
            .env("TMPDIR", tmp.path())
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            .env("WMODE", self.mode)
            .env("WSECS", self.seconds.to_string())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        for (name, value) in &self.knobs {
            let prefix = if self.runtime.is_core_3() {
                "COMPlus_"
            } else {
                "DOTNET_"
            };
            // NativeAOT reads hexadecimal numbers without 0x and silently ignores others.
            let value = if self.runtime.is_native_aot() {
                value.trim_start_matches("0x")
            } else {
                value
            };
            command.env(format!("{prefix}{name}"), value);
        }
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.runtime.name));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        Target {
            child,
            stdin,
            lines,
            tmp,
            ticks: Vec::new(),
            ends_with_stdin: !self.runtime.is_native_aot() && self.program.is_none(),
        }
    }

    fn command(&self, tmp: &TempDir) -> Command {
        let folder = self.runtime.folder();
        if let Some((program, arguments)) = &self.program {
            assert_eq!(self.runtime.host, Host::Run, "{program} on {}", self.runtime.name);
            let mut command = Command::new(folder.join("run"));
            let known = crate::repository("tests/workload/known");
            command.arg(known.join(program)).args(arguments);
            return command;
        }
        let workload = crate::repository("tests/workload/workload.dll");
        match self.runtime.host {
            Host::Dotnet => {
                let config = tmp.path().join("w.runtimeconfig.json");
                let framework =
                    r#"{"runtimeOptions":{"framework":{"name":"Microsoft.NETCore.App","version":"3.1.0"}}}"#;
                std::fs::write(&config, framework).unwrap();
                let mut command = Command::new(folder.join("dotnet"));
                command.args(["exec", "--runtimeconfig"]).arg(config).arg(workload);
                command
            }
            Host::StartupHook => {
                let mut command = Command::new(folder.join("dosai"));
                command.arg("--help").env("DOTNET_STARTUP_HOOKS", workload);
                command
            }
            Host::Run => {
                let mut command = Command::new(folder.join("run"));
                command.arg(workload);
                command
            }
            Host::NativeAot => Command::new(folder.join("work-aot")),
        }
    }

    /// Starts the process and waits until it works.
    pub fn start(&self) -> Target {
        let mut target = self.spawn();
        // A NativeAOT runtime does not print `ready`; its socket exists before the program runs.
        if !self.runtime.is_native_aot() {
            target.await_line(&format!("{} {}", self.runtime.name, self.mode), |line| {
                line.split(' ').next() == Some("ready")
            });
        }
        if self.runtime.is_native_aot() || self.program.is_some() {
            target.await_socket();
        }
        target
    }
}

/// Returns a command that runs `command` in its own mount namespace. The program of `command` runs with the pid of the
/// child, because `unshare` and `sh` use `exec`.
fn in_own_folder(command: &Command) -> Command {
    let mut inside = Command::new("unshare");
    inside
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg("mount -t tmpfs t \"$TMPDIR\" && exec \"$@\"")
        .arg("sh")
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            inside.env(name, value);
        }
    }
    inside
}

/// Returns a command that runs `command` in a root with musl as the C library. The program of `command` runs with the
/// pid of the child. The runtime, programs and the folder for temporary files have the same paths as on the host.
fn in_musl_root(command: &Command, runtime: Runtime) -> Command {
    const SCRIPT: &str = "set -e
        seen() { mkdir -p \"/mnt$1\"; mount --rbind \"$1\" \"/mnt$1\"; }
        mount -t tmpfs root /mnt
        for folder in /proc /dev \"$RUNTIME\" \"$PROGRAMS\" \"${TMPDIR%/*}\"; do seen \"$folder\"; done
        mkdir /mnt/lib; mount --bind \"$LIBRARIES\" /mnt/lib
        exec chroot /mnt \"$@\"";
    let mut inside = Command::new("unshare");
    inside
        .args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .env("RUNTIME", runtime.folder())
        .env("PROGRAMS", crate::repository("tests/workload"))
        .env("LIBRARIES", MUSL_LIBRARIES.folder());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            inside.env(name, value);
        }
    }
    inside
}

impl Target {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the folder of the socket.
    pub fn tmp(&self) -> &Path {
        self.tmp.path()
    }

    /// Returns the path of the diagnostics socket, or `None` if the process has no socket yet.
    pub fn socket(&self) -> Option<PathBuf> {
        let prefix = format!("dotnet-diagnostic-{}-", self.pid());
        let entries = std::fs::read_dir(self.tmp.path()).ok()?;
        let is_socket = |name: &str| name.starts_with(&prefix) && name.ends_with("-socket");
        entries
            .filter_map(Result::ok)
            .find(|entry| entry.file_name().to_str().is_some_and(is_socket))
            .map(|entry| entry.path())
    }

    pub fn await_socket(&mut self) {
        let since = Instant::now();
        while self.socket().is_none() {
            assert!(since.elapsed() < TIMEOUT, "process {} opens a socket", self.pid());
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "process {} runs until it has a socket",
                self.pid()
            );
            std::thread::yield_now();
        }
    }

    /// Sends a command to the process as a line on its standard input.
    pub fn write_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    }

    /// Reads the output until a line fits.
    pub fn await_line(&mut self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.take(&line);
                    if fits(&line) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("{what}: no line within {TIMEOUT:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("{what}: the process exited: {:?}", self.child.wait()),
            }
        }
    }

    /// Reads the output so far, and waits for `n` further ticks, which show that the process still works.
    pub fn await_ticks(&mut self, n: usize) {
        while let Ok(line) = self.lines.try_recv() {
            self.take(&line);
        }
        for _ in 0..n {
            self.await_line("tick", |line| line.starts_with("tick "));
        }
    }

    /// Returns the next `n` lines that the process prints after this call.
    pub fn lines_from_now(&mut self, n: usize) -> Vec<String> {
        while let Ok(line) = self.lines.try_recv() {
            self.take(&line);
        }
        (0..n).map(|_| self.await_line("a line", |_| true)).collect()
    }

    /// Returns the shortest of the next `of` pauses in microseconds, as printed by a program with pinned objects. Other
    /// programs that use the CPU can make single pauses longer; a costly session makes all pauses longer.
    pub fn shortest_pause(&mut self, of: usize) -> u64 {
        let lines = self.lines_from_now(of);
        let pause = |line: &String| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
        lines.iter().map(pause).min().unwrap()
    }

    fn take(&mut self, line: &str) {
        let Some(numbers) = line.strip_prefix("tick ") else {
            return;
        };
        let numbers: Vec<i64> = numbers
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        if let [at, gen0, gen1, gen2, pause] = numbers[..] {
            self.ticks.push(Tick {
                at,
                counts: [gen0, gen1, gen2],
                pause_us: Some(pause).filter(|pause| *pause >= 0),
            });
        }
    }

    /// Returns all ticks read so far.
    pub fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    /// Sends a signal to this process only.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Suspends all threads and waits until they are suspended, because a thread can still answer for a moment.
    pub fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        let stands = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(')')
                .next()
                .is_none_or(|rest| rest.trim_start().starts_with('T'))
        };
        let since = Instant::now();
        while !std::fs::read_dir(&tasks).unwrap().filter_map(Result::ok).all(stands) {
            assert!(since.elapsed() < TIMEOUT, "process {} does not stop", self.pid());
            std::thread::yield_now();
        }
    }

    /// Waits until the process has exited. Returns its exit status, or `None` if the process does not exit in time.
    pub fn await_exit(&mut self, within: Duration) -> Option<ExitStatus> {
        await_end(&mut self.child, within)
    }

    /// Closes the standard input of the process, and waits at most [`TIMEOUT`] for the end of its output. A process
    /// that ignores its standard input, or does not exit in time, is killed.
    pub fn stop(mut self) {
        if !self.ends_with_stdin {
            return;
        }
        self.stdin = None;
        // The output ends with the process.
        let until = Instant::now() + TIMEOUT;
        let left = || until.saturating_duration_since(Instant::now());
        loop {
            match self.lines.recv_timeout(left()) {
                Ok(_rest) => {}
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let _status = self.child.wait();
    }

    /// Kills the process with SIGKILL, like the kernel when memory is exhausted.
    pub fn kill(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.kill();
    }
}
