//! `gcwatch record` does not delete or overwrite files, and exits on request.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::process::{ChildStderr, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use test_support::add_tests;
use test_support::daemon::{await_bytes, await_that, until};
use test_support::harness::Tests;
use test_support::program::{self, gcwatch};
use test_support::scene::Scene;
use test_support::target::{RunningProcess, await_end};

use crate::flooded::Runtime;

/// Timeout for the exit after one Ctrl-C. The timeout is much longer than necessary: the command waits 2 s for an
/// output that accepts no bytes, and 3 s for the session.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(());
        existing_outputs_are_kept,
        refused_session_neither_leaves_nor_deletes_files,
        received_data_survives_kill,
        file_created_during_recording_is_not_overwritten,
        unopened_fifo_does_not_block_exit,
        unread_output_does_not_block_exit,
    );
}

fn record(runtime: &Runtime, output: &Path, more: &[&str]) -> Command {
    let mut command = program::command();
    command
        .args(["record", "--pid", &runtime.pid().to_string(), "-o"])
        .arg(output)
        .args(more)
        .stdin(Stdio::null());
    command
}

fn ended(mut command: Command) -> (Output, String) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

/// A running recording.
struct Recording {
    child: RunningProcess,
    stderr: BufReader<ChildStderr>,
}

impl Recording {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child: RunningProcess(child),
            stderr,
        }
    }

    /// Waits until the command reports that the recording has started.
    fn await_begin(&mut self) {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        assert!(line.contains("press Ctrl-C to stop"), "{line:?}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child.0), signal).unwrap();
    }

    /// Waits for the exit, at most [`STOP_TIMEOUT`]. Returns the status and the rest of the standard error.
    fn end(mut self) -> (ExitStatus, String) {
        let status = await_end(&mut self.child.0, STOP_TIMEOUT).expect("the recording exits");
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (status, said)
    }
}

fn is_readable(path: &Path) -> bool {
    gcwatch(["analyze".as_ref(), path]).status.success()
}

/// Scenario: the output is a file with content, a link to it, a directory, a FIFO, a device, a link to the device, and
/// a dangling link, each without and, except for the file and its link, with `--force`. Then the output is the link to
/// the file, with `--force`.
/// Guarantee: the command refuses each of these outputs with an error, and leaves the file, the device and the
/// directory listing unchanged. The last command replaces the content of the file, and the link still leads to the
/// file.
fn existing_outputs_are_kept() {
    let scene = Scene::begin();
    let folder = scene.folder();
    let runtime = Runtime::start(&scene, "well-behaved");
    let at = |name: &str| folder.join(name);
    std::fs::write(at("file"), "precious").unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for (link, to) in [
        ("to-file", at("file")),
        ("to-device", "/dev/null".into()),
        ("to-nothing", at("nothing")),
    ] {
        std::os::unix::fs::symlink(to, at(link)).unwrap();
    }
    let device = std::fs::metadata("/dev/null").unwrap();
    for (path, sentence) in [
        (at("file"), "exists; use another name, or --force"),
        (at("to-file"), "exists; use another name, or --force"),
        (at("directory"), "is a directory"),
        (at("fifo"), "is a FIFO; use --allow-fifo"),
        (at("to-device"), "is a device"),
        ("/dev/null".into(), "is a device"),
        (at("to-nothing"), "is a link that leads nowhere"),
    ] {
        for force in [&["--duration", "1s"][..], &["--duration", "1s", "--force"]] {
            if force.len() > 2 && sentence.contains("--force") {
                continue;
            }
            let (output, said) = ended(record(&runtime, &path, force));
            assert!(!output.status.success() && said.contains(sentence), "{path:?}: {said}");
        }
    }
    let now = std::fs::metadata("/dev/null").unwrap();
    assert!(now.file_type().is_char_device() && now.ino() == device.ino());
    assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "precious");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.retain(|name| !name.to_string_lossy().starts_with("dotnet-diagnostic-"));
    assert_eq!(names.len(), 6, "{names:?}");
    let (output, said) = ended(record(&runtime, &at("to-file"), &["--duration", "1s", "--force"]));
    assert!(output.status.success() && said.contains("wrote "), "{said}");
    assert!(std::fs::symlink_metadata(at("to-file")).unwrap().is_symlink());
    assert!(std::fs::metadata(at("file")).unwrap().len() > 1000 && is_readable(&at("file")));
}

/// Scenario: a runtime answers the request for a session with garbage, the session of another runtime ends at once, and
/// an older interrupted recording exists next to the output.
/// Guarantee: the command leaves no file and deletes no existing file.
fn refused_session_neither_leaves_nor_deletes_files() {
    let scene = Scene::begin();
    let folder = scene.folder();
    for mode in ["answers-garbage", "ends-at-once"] {
        let runtime = Runtime::start(&scene, mode);
        let file = folder.join("a.nettrace");
        let (output, said) = ended(record(&runtime, &file, &[]));
        assert!(!output.status.success(), "{mode}: {said}");
        assert!(!file.exists() && !folder.join("a.nettrace.partial").exists(), "{mode}");
        let partial = folder.join("b.nettrace.partial");
        std::fs::write(&partial, "older").unwrap();
        let (output, said) = ended(record(&runtime, &folder.join("b.nettrace"), &[]));
        assert!(!output.status.success(), "{mode}: {said}");
        assert_eq!(std::fs::read_to_string(&partial).unwrap(), "older", "{mode}: {said}");
    }
}

/// Scenario: gcwatch is killed during a recording; then a recording with the same name is started, without and with
/// `--force`.
/// Guarantee: the partial file contains the received data, and `gcwatch analyze` reads this file. After the kill, no
/// file has the name of a complete recording. The second recording overwrites the partial file only with `--force`.
fn received_data_survives_kill() {
    let scene = Scene::begin();
    let folder = scene.folder();
    let runtime = Runtime::start(&scene, "well-behaved");
    let (file, partial) = (folder.join("a.nettrace"), folder.join("a.nettrace.partial"));
    let mut recording = Recording::start(record(&runtime, &file, &[]));
    recording.await_begin();
    await_bytes(&partial, 10_000);
    recording.signal(Signal::KILL);
    recording.end();
    assert!(!file.exists() && is_readable(&partial));
    let length = std::fs::metadata(&partial).unwrap().len();
    let (output, said) = ended(record(&runtime, &file, &["--duration", "1s"]));
    assert!(
        !output.status.success() && said.contains("`gcwatch analyze` reads it"),
        "{said}"
    );
    assert_eq!(std::fs::metadata(&partial).unwrap().len(), length);
    let mut recording = Recording::start(record(&runtime, &file, &["--force"]));
    recording.await_begin();
    await_bytes(&partial, 10_000);
    recording.signal(Signal::INT);
    let (status, said) = recording.end();
    assert!(status.success() && said.contains("wrote "), "{said}");
    assert!(!partial.exists() && is_readable(&file));
}

/// Scenario: a file with the output's name appears during the recording.
/// Guarantee: this file is not overwritten. The complete recording stays under its partial name, and the command
/// reports this and fails.
fn file_created_during_recording_is_not_overwritten() {
    let scene = Scene::begin();
    let folder = scene.folder();
    let runtime = Runtime::start(&scene, "well-behaved");
    let (file, partial) = (folder.join("a.nettrace"), folder.join("a.nettrace.partial"));
    let mut recording = Recording::start(record(&runtime, &file, &[]));
    recording.await_begin();
    await_bytes(&partial, 10_000);
    std::fs::write(&file, "precious").unwrap();
    recording.signal(Signal::INT);
    let (status, said) = recording.end();
    assert!(
        !status.success() && said.contains("the complete recording is in"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert!(is_readable(&partial));
}

/// Scenario: no process opens the FIFO of a recording with `--allow-fifo`; then Ctrl-C is pressed.
/// Guarantee: the command exits with a failure, states that the FIFO had no reader, and leaves the FIFO in place.
fn unopened_fifo_does_not_block_exit() {
    let scene = Scene::begin();
    let folder = scene.folder();
    let runtime = Runtime::start(&scene, "well-behaved");
    let fifo = folder.join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let recording = Recording::start(record(&runtime, &fifo, &["--allow-fifo"]));
    // The command installs its signal handlers before it opens the FIFO; its mask of caught signals shows whether the
    // handlers are installed.
    let status = format!("/proc/{}/status", recording.child.0.id());
    until("the command catches signals", || {
        let status = std::fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        (caught & 0b10 != 0).then_some(())
    });
    recording.signal(Signal::INT);
    let (status, said) = recording.end();
    assert!(
        status.code().is_some() && !status.success() && said.contains("had a reader"),
        "{status} {said}"
    );
    assert!(std::fs::metadata(&fifo).unwrap().file_type().is_fifo());
}

/// Waits until the pipe is almost full.
fn await_full(pipe: impl std::os::fd::AsFd) {
    await_that("a full pipe", || rustix::io::ioctl_fionread(&pipe).unwrap() >= 60_000);
}

/// Scenario: a process floods a recording. The output is standard output or a FIFO, and its reader reads no bytes.
/// Ctrl-C is pressed once.
/// Guarantee: the command exits within 20 s with a failure, and states that the output accepted no data.
fn unread_output_does_not_block_exit() {
    let scene = Scene::begin();
    let folder = scene.folder();
    let runtime = Runtime::start(&scene, "flood");
    let mut command = record(&runtime, Path::new("-"), &[]);
    command.stdout(Stdio::piped());
    let mut recording = Recording::start(command);
    let unread = recording.child.0.stdout.take();
    recording.await_begin();
    await_full(unread.as_ref().unwrap());
    recording.signal(Signal::INT);
    let (status, said) = recording.end();
    assert!(!status.success() && said.contains("accepted no data"), "{said}");
    drop(unread);

    let fifo = folder.join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let recording = record(&runtime, &fifo, &["--allow-fifo"]);
    let mut recording = Recording::start(recording);
    // The open returns once both the command and this reader have opened the FIFO. The reader reads nothing.
    let unread = File::open(&fifo).unwrap();
    recording.await_begin();
    await_full(&unread);
    recording.signal(Signal::INT);
    let (status, said) = recording.end();
    assert!(!status.success() && said.contains("accepted no data"), "{said}");
    drop(unread);
}
