//! Files that a process names: gcwatch opens only regular files that the process itself can read.

use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader};
use std::mem::MaybeUninit;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, openat};
use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::{MARK, await_that};
use test_support::harness::{Missing, Need, Tests};
use test_support::hostile::ARGUMENT;
use test_support::program::gcwatch;
use test_support::scene::Scene;
use test_support::target::RunningProcess;

use crate::flooded::daemon;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); fifo_is_never_opened);
    add_tests!(tests, devices; device_is_never_opened);
    add_tests!(tests, root; file_of_another_user_is_not_read);
}

fn root() -> Need {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Missing::Ignored("this test needs root".to_owned()))
    }
}

fn devices() -> Need {
    root()?;
    let scene = Scene::begin();
    let Ok(device) = device(&scene) else {
        return Err(Missing::Ignored("creating a device is not permitted".to_owned()));
    };
    let opened = OpenedFiles::begin(scene.folder());
    drop(openat(CWD, device, OFlags::PATH, Mode::empty()).unwrap());
    if opened.names().is_empty() {
        Ok(())
    } else {
        Err(Missing::Ignored("inotify reports O_PATH before Linux 6.10".to_owned()))
    }
}

/// Creates a device file with the number of `/dev/null`, which no other program opens.
fn device(scene: &Scene) -> rustix::io::Result<PathBuf> {
    let path = scene.folder().join("device");
    mknodat(CWD, &path, FileType::CharacterDevice, Mode::RWXU, makedev(1, 3))?;
    Ok(path)
}

/// A recorder of the files in a folder that any program opens.
struct OpenedFiles(std::os::fd::OwnedFd);

impl OpenedFiles {
    fn begin(folder: &Path) -> Self {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, folder, WatchFlags::OPEN).unwrap();
        Self(watch)
    }

    fn names(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        let mut names = Vec::new();
        while let Ok(event) = events.next() {
            if event.events().contains(ReadFlags::OPEN) {
                names.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
            }
        }
        names
    }
}

/// A fake runtime: a copy of this program, named `dotnet`, whose command line names an assembly. The process exits when
/// its standard input ends.
struct NamedRuntime(RunningProcess);

impl NamedRuntime {
    /// Starts a process as the given user, or as the user of the test if `user` is `None`. The configuration of the
    /// process is a link to `config`.
    fn start(scene: &Scene, user: Option<u32>, name: &str, config: &Path) -> Self {
        let folder = scene.folder().join(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        symlink(config, folder.join("app.runtimeconfig.json")).unwrap();
        // The program is copied because other users can lack access to its original folder.
        let host = folder.join("dotnet");
        fs::copy(std::env::current_exe().unwrap(), &host).unwrap();
        fs::set_permissions(&host, Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(host);
        command
            .arg(ARGUMENT)
            .arg(folder.join("app.dll"))
            .args(["--with-stdin", "well-behaved"])
            .env("TMPDIR", &folder)
            .env(MARK, scene.mark())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "{name}: {line:?}");
        Self(RunningProcess(child))
    }

    fn pid(&self) -> u32 {
        self.0.0.id()
    }
}

fn is_attached(target: &Value) -> bool {
    target["state"] == "attached"
}

/// Runs every part of gcwatch that reads the configuration of a process.
fn look_at(scene: &Scene, process: &NamedRuntime) {
    let daemon = daemon(scene, "");
    daemon.await_target(process.pid(), "attached", is_attached);
    let pid = process.pid().to_string();
    let listed = gcwatch(["ps", "--format", "ndjson"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains(&format!("\"pid\":{pid},")), "{listed}");
    let _it_may_refuse = gcwatch(["heap", &pid, "--price"]);
    daemon.end();
}

/// Scenario: the configuration of a process is a link to a FIFO, whose writer waits for a reader. The daemon attaches
/// to the process, then `gcwatch ps` and `gcwatch heap --price` examine it.
/// Guarantee: gcwatch does not open the FIFO, and attaches to the process anyway.
fn fifo_is_never_opened() {
    let scene = Scene::begin();
    let fifo = scene.folder().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let mut writer = Command::new("sh");
    writer.args(["-c", "echo secret > \"$0\""]).arg(&fifo);
    let mut writer = RunningProcess(writer.stderr(Stdio::null()).spawn().unwrap());
    let waits = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", writer.0.id())).unwrap_or_default();
        stat.contains(" (sh) S ")
    };
    await_that("the writer waits", waits);
    let process = NamedRuntime::start(&scene, None, "app", &fifo);
    look_at(&scene, &process);
    assert!(writer.0.try_wait().unwrap().is_none(), "no reader opens the FIFO");
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    let reader = File::options().read(true).custom_flags(nonblocking).open(&fifo);
    drop(reader.unwrap());
}

/// Scenario: the configuration of a process is a link to a device, and the same parts of gcwatch examine the process.
/// Guarantee: gcwatch never opens the device, and attaches to the process anyway.
fn device_is_never_opened() {
    let scene = Scene::begin();
    let device = device(&scene).unwrap();
    let process = NamedRuntime::start(&scene, None, "app", &device);
    let opened = OpenedFiles::begin(scene.folder());
    look_at(&scene, &process);
    let opened = opened.names();
    assert!(!opened.iter().any(|name| name == "device"), "{opened:?}");
}

/// Scenario: two processes, one of root and one of another user, have a link to a configuration file of root with mode
/// 0600. This file sets a heap limit at which the heaps of both processes are full.
/// Guarantee: gcwatch does not attach to the process of root, because of the limit in the file. gcwatch attaches to the
/// other process, so the daemon does not use the file for this process.
fn file_of_another_user_is_not_read() {
    let scene = Scene::begin();
    fs::set_permissions(scene.folder(), Permissions::from_mode(0o711)).unwrap();
    let config = scene.folder().join("config");
    fs::write(&config, "{}").unwrap();
    fs::set_permissions(&config, Permissions::from_mode(0o600)).unwrap();
    let of_root = NamedRuntime::start(&scene, None, "root", &config);
    let of_other = NamedRuntime::start(&scene, Some(65_534), "other", &config);
    let anonymous = |process: &NamedRuntime| {
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    };
    let limit = anonymous(&of_root).min(anonymous(&of_other));
    let limit = format!("{{\"runtimeOptions\":{{\"configProperties\":{{\"System.GC.HeapHardLimit\":{limit}}}}}}}");
    fs::write(&config, limit).unwrap();
    let daemon = daemon(&scene, "");
    daemon.await_target(of_other.pid(), "attached", is_attached);
    let refused = daemon.await_target(of_root.pid(), "the heap is full", |target| {
        target["state"] == "unattachable"
    });
    assert_eq!(refused["reason"], "at-heap-limit", "{refused}");
    daemon.end();
}
