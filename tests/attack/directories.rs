//! A file system that does not respond costs the process or the directory that is on it, and nothing else.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::{ANY, Daemon, MARK, command};
use test_support::harness::{Missing, Need, Tests};
use test_support::program;
use test_support::runtimes::NET_10;
use test_support::scene::Scene;
use test_support::target::{Running, Start};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(
        tests, need;
        a_hung_directory_costs_itself_alone,
        commands_do_not_wait_for_a_hung_directory,
    );
}

/// Held by a test while a file system hangs. A call that waits there holds a lock of the kernel, for which the threads
/// of other processes wait until it returns, and which no signal ends (docs/reliability.md, what remains).
static HANGS: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    HANGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a command may take that looks at every process.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the daemon may take to end after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

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
        let folder = tempfile::Builder::new().prefix("gcwatch-hung").tempdir()?.keep();
        Self::mount_at(folder, "40000")
    }

    /// The same in the place of a file, which is a file that never answers.
    pub(crate) fn over(file: PathBuf) -> std::io::Result<Self> {
        Self::mount_at(file, "100644")
    }

    fn mount_at(folder: PathBuf, mode: &str) -> std::io::Result<Self> {
        let mut server = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        // From here on it is unmounted and removed whatever fails.
        let mut hung = Self { server: None, folder };
        let mut mount = Command::new("mount");
        mount
            .args(["-i", "-t", "fuse", "-o"])
            .arg(format!("fd=0,rootmode={mode},user_id=0,group_id=0,allow_other"))
            .arg("hung")
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

/// Scenario: a configured directory and another process's TMPDIR are on a file system that never answers; processes
/// start before and after the daemon; SIGHUP makes rule files on it part of the configuration; then SIGTERM, while they
/// are read.
/// Guarantee: every other process is attached to, before and after SIGHUP, and the daemon ends within seconds.
fn a_hung_directory_costs_itself_alone() {
    let _alone = alone();
    let hung = Hung::mount().unwrap();
    let scene = Scene::begin();
    let config = |rules: &str| {
        let hung = hung.folder.display();
        format!(
            "targets: {{include: [{{environment: {{{MARK}: '{}'}}}}], sockets: ['{hung}'], scan_interval: 1s}}\n{rules}\n",
            scene.mark()
        )
    };
    let mut sleep = Command::new("sleep");
    sleep.arg("600").env("TMPDIR", &hung.folder).stdin(Stdio::null());
    let sleep = Running(sleep.spawn().unwrap());
    let start = scene.start(NET_10, "steady");
    let before = start.start();
    let mut daemon = Daemon::start(command(program::command(), scene.folder(), ANY, &config("")));
    let is_attached = |target: &Value| target["state"] == "attached";
    daemon.await_target(before.pid(), "a process that was there", is_attached);
    let after = start.start();
    daemon.await_target(after.pid(), "a process that starts later", is_attached);

    let with_rules = config(&format!("rules: {{files: ['{}']}}", hung.folder.display()));
    std::fs::write(scene.path("gcwatch.yaml"), with_rules).unwrap();
    // Dropped first: no process that is waited for may still wait for it.
    let hung = hung;
    daemon.signal(Signal::HUP);
    let later = start.start();
    daemon.await_target(later.pid(), "a process after SIGHUP", is_attached);
    daemon.signal(Signal::HUP);
    daemon.signal(Signal::TERM);
    let since = Instant::now();
    assert!(daemon.await_end().success());
    assert!(since.elapsed() < EXIT_TIMEOUT, "{:?}", since.elapsed());
    drop((sleep, hung));
}

/// Scenario: another process's TMPDIR is on a file system that never answers; `gcwatch ps` and `gcwatch doctor` list
/// processes.
/// Guarantee: both end, and say the same of the other processes as ever.
fn commands_do_not_wait_for_a_hung_directory() {
    let _alone = alone();
    let hung = Hung::mount().unwrap();
    let mut sleep = Command::new("sleep");
    sleep.arg("600").env("TMPDIR", &hung.folder).stdin(Stdio::null());
    let sleep = Running(sleep.spawn().unwrap());
    let target = Start::new(NET_10, "steady").start();
    for command in [&["ps"][..], &["doctor"]] {
        let mut listing = program::command();
        listing.args(command).args(["--format", "ndjson"]);
        let mut listing = Running(listing.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
        let mut output = listing.0.stdout.take().unwrap();
        let (sender, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).unwrap();
            sender.send(text).unwrap();
        });
        let Ok(text) = said.recv_timeout(ANSWER_TIMEOUT) else {
            panic!("{command:?} waits");
        };
        let of_target = format!("\"pid\":{},", target.pid());
        assert!(text.contains(&of_target), "{command:?}: {text}");
    }
    drop((sleep, hung));
}
