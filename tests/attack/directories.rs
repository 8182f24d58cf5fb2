//! A file system that does not respond costs the process or the directory that is on it, and nothing else.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use test_support::add_tests;
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::NET_10;
use test_support::target::{PATIENCE, Start};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; a_hung_directory_costs_itself_alone);
}

/// How long the daemon may take to end after SIGTERM.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

fn need() -> Need {
    NET_10.need()?;
    need_hung()
}

/// What [`Hung`] needs.
pub(crate) fn need_hung() -> Need {
    if !crate::is_full() {
        return Err(Missing::Ignored(
            "tests/attack/run runs it: what hangs for good in a file system holds up all tests".to_owned(),
        ));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::Ignored("it needs root".to_owned()));
    }
    Hung::mount()
        .map(drop)
        .map_err(|error| Missing::Ignored(format!("no FUSE: {error}")))
}

/// A mounted file system whose server answers the first request, as it must to be mounted, and no other one.
pub(crate) struct Hung {
    /// Closed, it ends the file system: whoever waits gets an error.
    server: Option<File>,
    pub(crate) folder: PathBuf,
}

impl Hung {
    pub(crate) fn mount() -> std::io::Result<Self> {
        let mut server = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let folder = tempfile::Builder::new().prefix("gcwatch-hung").tempdir()?.keep();
        // From here on it is unmounted and removed whatever fails.
        let mut hung = Self { server: None, folder };
        let mut mount = Command::new("mount");
        mount
            .args([
                "-i",
                "-t",
                "fuse",
                "-o",
                "fd=0,rootmode=40000,user_id=0,group_id=0,allow_other",
                "hung",
            ])
            .arg(&hung.folder)
            .stdin(server.try_clone()?)
            .stderr(Stdio::null());
        if !mount.status()?.success() {
            return Err(std::io::Error::other("mount refuses"));
        }
        // FUSE_INIT, as in Linux's fuse.h: header of 40 bytes, `unique` at 8. Without an answer nothing else is asked.
        let mut request = [0; 16 << 10];
        let _length = server.read(&mut request)?;
        let mut answer = Vec::new();
        for number in [16 + 64_u32, 0] {
            answer.extend(number.to_ne_bytes());
        }
        answer.extend(&request[8..16]);
        // Version 7.31, no read-ahead, FUSE_PARALLEL_DIROPS as every library sets it, and zeros. Without that flag a call in a
        // directory holds a lock for which other processes, daemons of other tests, wait in a way that no signal ends.
        for number in [7_u32, 31, 0, 1 << 18] {
            answer.extend(number.to_ne_bytes());
        }
        answer.resize(16 + 64, 0);
        // The largest write.
        answer[16 + 20..16 + 24].copy_from_slice(&4096_u32.to_ne_bytes());
        server.write_all(&answer)?;
        hung.server = Some(server);
        Ok(hung)
    }

    /// Everybody who waits for it goes on.
    fn release(&mut self) {
        self.server = None;
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        self.release();
        let _unmounted = Command::new("umount")
            .arg("-l")
            .arg(&self.folder)
            .stderr(Stdio::null())
            .status();
        let _removed = std::fs::remove_dir(&self.folder);
    }
}

/// A process that is ended.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// How it ended, if it did within this time.
    fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        let since = Instant::now();
        loop {
            let status = self.0.try_wait().unwrap();
            if status.is_some() || since.elapsed() > within {
                return status;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// The daemon with this configuration, and its address.
fn daemon(config: &Path) -> (Running, String) {
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
    daemon
        .arg("run")
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut daemon = Running(daemon.spawn().unwrap());
    let mut lines = BufReader::new(daemon.0.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let line = lines.find(|line| line.contains("listening at http://")).unwrap();
    let address = line
        .split("http://")
        .nth(1)
        .and_then(|rest| rest.split('/').next())
        .unwrap();
    let address = address.to_owned();
    // What it says later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
    (daemon, address)
}

/// The state of a process, as the daemon's API has it.
fn state(address: &str, pid: u32) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET /api/v1/targets HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let body: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()?;
    let targets = body.as_array().or_else(|| body["targets"].as_array())?;
    let target = targets.iter().find(|target| target["pid"] == pid)?;
    Some(target["state"].as_str()?.to_owned())
}

fn await_attached(address: &str, pid: u32, what: &str) {
    let since = Instant::now();
    while state(address, pid).as_deref() != Some("attached") {
        assert!(since.elapsed() < PATIENCE, "{what}: {:?}", state(address, pid));
        std::thread::yield_now();
    }
}

/// Scenario: a configured directory and another process's TMPDIR are on a file system that never answers; processes
/// start before and after the daemon; SIGHUP makes rule files on it part of the configuration; then SIGTERM, while they
/// are read.
/// Guarantee: every other process is attached to, before and after SIGHUP, and the daemon ends within seconds.
fn a_hung_directory_costs_itself_alone() {
    let hung = Hung::mount().unwrap();
    let folder = tempfile::Builder::new()
        .prefix("gcwatch-directories")
        .tempdir()
        .unwrap();
    let mark = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    let config = folder.path().join("gcwatch.yaml");
    let configure = |rules: &str| {
        let (leases, hung) = (folder.path().join("leases"), hung.folder.display());
        let text = format!(
            "targets: {{include: [{{environment: {{GCWATCH_TEST_MARK: '{mark}'}}}}], lease_folder: {}, sockets: ['{hung}'], scan_interval: 1s}}\notlp: {{enabled: false}}\n\
             listen: 127.0.0.1:0\n{rules}\n",
            leases.display()
        );
        std::fs::write(&config, text).unwrap();
    };
    configure("");
    let mut sleep = Command::new("sleep");
    sleep.arg("600").env("TMPDIR", &hung.folder).stdin(Stdio::null());
    let sleep = Running(sleep.spawn().unwrap());
    let start = Start::new(NET_10, "steady").env("GCWATCH_TEST_MARK", &mark);
    let before = start.start();
    let (mut daemon, address) = daemon(&config);
    await_attached(&address, before.pid(), "a process that was there");
    let after = start.start();
    await_attached(&address, after.pid(), "a process that starts later");

    configure(&format!("rules: {{files: ['{}']}}", hung.folder.display()));
    // Dropped first: no process that is waited for may still wait for it.
    let hung = hung;
    daemon.signal(Signal::HUP);
    let later = start.start();
    await_attached(&address, later.pid(), "a process after SIGHUP");
    daemon.signal(Signal::HUP);
    daemon.signal(Signal::TERM);
    let status = daemon.ended(ENDS_WITHIN);
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    drop((sleep, hung));
}
