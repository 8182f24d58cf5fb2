//! A file system that does not respond affects only the process or directory on it.

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
use test_support::target::{RunningProcess, Start};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(
        tests, need;
        hung_directory_does_not_affect_others,
        commands_do_not_wait_for_hung_directory,
    );
}

/// Lock that a test holds while its file system hangs. A call that hangs in this file system holds a kernel lock.
/// Threads of other processes wait for the kernel lock, and no signal ends the wait (docs/reliability.md, what
/// remains).
static HANGS: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    HANGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Timeout for a command that examines every process.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the daemon to exit after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

fn need() -> Need {
    NET_10.need()?;
    need_hung()
}

/// Returns the requirements of [`Hung`].
pub(crate) fn need_hung() -> Need {
    if !crate::is_full() {
        return Err(Missing::Ignored(
            "only tests/attack/run runs this test: a file system that hangs forever blocks all tests".to_owned(),
        ));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::Ignored("this test needs root".to_owned()));
    }
    Hung::mount()
        .map(drop)
        .map_err(|error| Missing::Ignored(format!("no FUSE: {error}")))
}

/// A mounted file system whose server answers only the first request, which is required for the mount.
pub(crate) struct Hung {
    /// Server of the file system; `None` before the mount and after the release. Closing the server ends the file
    /// system, and all waiting calls fail.
    server: Option<File>,
    pub(crate) folder: PathBuf,
}

impl Hung {
    pub(crate) fn mount() -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("gcwatch-hung").tempdir()?.keep();
        Self::mount_at(folder, "40000")
    }

    /// Mounts the file system over a file. Accesses to this file then never return.
    pub(crate) fn over(file: PathBuf) -> std::io::Result<Self> {
        Self::mount_at(file, "100644")
    }

    fn mount_at(folder: PathBuf, mode: &str) -> std::io::Result<Self> {
        let mut server = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        // From here on, dropping `hung` unmounts the file system and removes the folder, also if a later step fails.
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
        // FUSE_INIT, as in Linux's fuse.h: a header of 40 bytes, `unique` at byte 8. The kernel sends no other request
        // before the answer.
        let mut request = [0; 16 << 10];
        let _length = server.read(&mut request)?;
        let mut answer = Vec::new();
        for number in [16 + 64_u32, 0] {
            answer.extend(number.to_ne_bytes());
        }
        answer.extend(&request[8..16]);
        // Version 7.31, no read-ahead, FUSE_PARALLEL_DIROPS as set by every library, and zeros. Without this flag, a
        // call in a directory holds a lock. Other processes (daemons of other tests) wait for this lock without
        // reacting to signals.
        for number in [7_u32, 31, 0, 1 << 18] {
            answer.extend(number.to_ne_bytes());
        }
        answer.resize(16 + 64, 0);
        // Maximum size of a write.
        answer[16 + 20..16 + 24].copy_from_slice(&4096_u32.to_ne_bytes());
        server.write_all(&answer)?;
        hung.server = Some(server);
        Ok(hung)
    }

    /// Fails all waiting calls.
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

/// Scenario: a configured socket directory, and the TMPDIR of another process, are on a file system that never answers.
/// Processes start before and after the daemon. SIGHUP adds rule files on this file system to the configuration.
/// SIGTERM arrives right after a second SIGHUP, while the daemon reads the rule files.
/// Guarantee: the daemon attaches to every other process, before and after SIGHUP, and exits within 20 s.
fn hung_directory_does_not_affect_others() {
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
    let sleep = RunningProcess(sleep.spawn().unwrap());
    let start = scene.start(NET_10, "steady");
    let before = start.start();
    let mut daemon = Daemon::start(command(program::command(), scene.folder(), ANY, &config("")));
    let is_attached = |target: &Value| target["state"] == "attached";
    daemon.await_target(before.pid(), "a process that started before the daemon", is_attached);
    let after = start.start();
    daemon.await_target(after.pid(), "a process that started after the daemon", is_attached);

    let with_rules = config(&format!("rules: {{files: ['{}']}}", hung.folder.display()));
    std::fs::write(scene.path("gcwatch.yaml"), with_rules).unwrap();
    // The new binding is dropped before the processes if the test fails. Otherwise, the test could wait for a process
    // that waits for the file system.
    let hung = hung;
    daemon.signal(Signal::HUP);
    let later = start.start();
    daemon.await_target(later.pid(), "a process that started after SIGHUP", is_attached);
    daemon.signal(Signal::HUP);
    daemon.signal(Signal::TERM);
    let since = Instant::now();
    assert!(daemon.await_end().success());
    assert!(since.elapsed() < EXIT_TIMEOUT, "{:?}", since.elapsed());
    drop((sleep, hung));
}

/// Scenario: the TMPDIR of another process is on a file system that never answers; `gcwatch ps` and `gcwatch doctor`
/// list processes.
/// Guarantee: both commands exit within 30 s and list another process.
fn commands_do_not_wait_for_hung_directory() {
    let _alone = alone();
    let hung = Hung::mount().unwrap();
    let mut sleep = Command::new("sleep");
    sleep.arg("600").env("TMPDIR", &hung.folder).stdin(Stdio::null());
    let sleep = RunningProcess(sleep.spawn().unwrap());
    let target = Start::new(NET_10, "steady").start();
    for command in [&["ps"][..], &["doctor"]] {
        let mut listing = program::command();
        listing.args(command).args(["--format", "ndjson"]);
        let mut listing = RunningProcess(listing.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
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
