//! Heap dumps of processes whose streams do not end, or whose files do not respond. The dump ends anyway, and does not
//! block the next dump.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::await_that;
use test_support::harness::{Need, Tests};
use test_support::program;
use test_support::runtimes::{ALL, Runtime as Dotnet};
use test_support::scene::Scene;
use test_support::target::{RunningProcess, Start, TIMEOUT, Target, await_end};

use crate::directories::{Hung, alone, need_hung};
use crate::flooded::Runtime;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); second_interrupt_closes_session, endless_stream_is_closed);
    add_tests!(tests, need; command_does_not_wait_for_hung_assembly, next_dump_does_not_wait_for_hung_assembly);
}

/// Returns a runtime that runs a program by its path.
fn dotnet() -> Dotnet {
    ALL.into_iter().find(|runtime| runtime.name == "net10.0.14").unwrap()
}

fn need() -> Need {
    dotnet().need()?;
    need_hung()
}

/// Returns a `gcwatch heap` command for a process, with its own dump lock.
fn heap(scene: &Scene, pid: u32) -> Command {
    let mut command = program::command();
    command.args(["heap", &pid.to_string(), "--force", "--format", "ndjson"]);
    command.args(["--lease-folder", &scene.path("leases")]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Reads lines until one contains the given words.
fn await_words(lines: &mut BufReader<ChildStderr>, words: &str) {
    let mut said = String::new();
    loop {
        let before = said.len();
        let read = lines.read_line(&mut said).unwrap();
        assert!(read > 0, "the command reports {words:?} before it exits: {said}");
        if said[before..].contains(words) {
            return;
        }
    }
}

/// Scenario: `gcwatch heap` reads a stream that never ends; Ctrl-C is pressed twice.
/// Guarantee: after the first Ctrl-C, the command continues to read and states the reason. After the second Ctrl-C, the
/// command reports that it closed the session before its end, and exits with a failure.
fn second_interrupt_closes_session() {
    let scene = Scene::begin();
    let endless = Runtime::start(&scene, "stays-open");
    let kept = scene.folder().join("kept");
    fs::create_dir(&kept).unwrap();
    let mut command = heap(&scene, endless.pid());
    command.arg("--keep").arg(kept.join("dump.nettrace"));
    let mut command = RunningProcess(command.spawn().unwrap());
    let mut said = BufReader::new(command.0.stderr.take().unwrap());
    let has_bytes = |file: std::io::Result<fs::DirEntry>| file.unwrap().metadata().is_ok_and(|file| file.len() > 0);
    await_that("bytes of the stream", || fs::read_dir(&kept).unwrap().any(has_bytes));
    let interrupt = |command: &RunningProcess| kill_process(Pid::from_child(&command.0), Signal::INT).unwrap();
    interrupt(&command);
    await_words(&mut said, "again to close the session");
    assert!(command.0.try_wait().unwrap().is_none());
    interrupt(&command);
    await_words(&mut said, "closed the session before its end");
    let status = await_end(&mut command.0, TIMEOUT).expect("the command exits");
    assert_eq!(status.code(), Some(1));
}

/// Scenario: `gcwatch heap` reads a stream that is an endless flood.
/// Guarantee: the command exits by itself with a failure, and states that the stream is too large for a dump.
fn endless_stream_is_closed() {
    let scene = Scene::begin();
    let endless = Runtime::start(&scene, "never-stops");
    let mut command = heap(&scene, endless.pid());
    let ended = command.stdout(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("too large for a dump of"), "{said}");
}

/// Starts a program that leaks into `Cache.entries`, from a copy in the folder of the scene. Returns the process and
/// the path of the copied assembly.
fn leaks(scene: &Scene, name: &str) -> (Target, PathBuf) {
    let folder = scene.folder().join(name);
    fs::create_dir(&folder).unwrap();
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workload/known");
    for file in fs::read_dir(known).unwrap() {
        let file = file.unwrap();
        if file.file_name().to_string_lossy().starts_with("heap.") {
            fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
    }
    let assembly = folder.join("heap.dll");
    let program: &'static str = assembly.to_str().unwrap().to_owned().leak();
    let start = scene.marked(Start::known(dotnet(), program, &["300"]));
    let start = start.env("OTEL_SERVICE_NAME", name);
    let start = start.env("HLIST", "1000").env("HLEAK", "20000");
    let target = start.env("HTRUTH", &scene.path(&format!("{name}-truth"))).start();
    (target, assembly)
}

/// Scenario: the assembly of a process is on a file system that never answers; `gcwatch heap` dumps the process.
/// Guarantee: the command succeeds, prints the leaked type, and states that the files of the process did not respond in
/// time.
fn command_does_not_wait_for_hung_assembly() {
    let _alone = alone();
    let scene = Scene::begin();
    let (target, assembly) = leaks(&scene, "hung");
    let hung = Hung::over(assembly).unwrap();
    let mut command = RunningProcess(heap(&scene, target.pid()).spawn().unwrap());
    let mut output = command.0.stdout.take().unwrap();
    let reads = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    });
    let said = command.0.stderr.take().unwrap();
    let status = await_end(&mut command.0, TIMEOUT).expect("the command exits");
    let mut said_all = String::new();
    BufReader::new(said).read_to_string(&mut said_all).unwrap();
    assert!(status.success(), "{said_all}");
    assert!(said_all.contains("did not respond in time"), "{said_all}");
    let records = reads.join().unwrap();
    assert!(records.contains("Leaked"), "{records}");
    drop(hung);
}

/// Scenario: two processes leak. The assembly of the first is on a file system that never answers. The daemon dumps
/// both processes for their incidents.
/// Guarantee: both incidents list the leaked type with a static field as root. The incident of the second process also
/// contains the class of the field. The log states that files did not respond in time, and the daemon exits cleanly.
fn next_dump_does_not_wait_for_hung_assembly() {
    let _alone = alone();
    let scene = Scene::begin();
    let (of_hung, assembly) = leaks(&scene, "hung");
    let (of_other, _) = leaks(&scene, "other");
    let rule = scene.any(true, "severity: info, evidence: [ledger, census]");
    let census = "evidence: {census: on, census_apart: 3s, census_max_stop: 1m, census_room: 1}\n";
    let mut daemon = scene.daemon(&format!("{}{rule}{census}", scene.state()));
    for target in [&of_hung, &of_other] {
        daemon.await_target(target.pid(), "attached", |target| target["state"] == "attached");
    }
    let hung = Hung::over(assembly).unwrap();
    daemon.await_line("did not respond in time");
    for (target, root) in [(&of_hung, "static"), (&of_other, "static Cache.entries")] {
        let types = |one: &Value| one["census"]["types"].as_array().map_or(0, Vec::len);
        let has = |one: &Value| one["symptom"] == "test.any" && types(one) > 0;
        let incident = daemon.incident(target.pid(), "a census", has);
        let types = incident["census"]["types"].as_array().unwrap();
        let is_leaked = |one: &&Value| one["type"].as_str().unwrap().contains("Leaked") && one["root"].is_string();
        let leaked = types.iter().find(is_leaked);
        let leaked = leaked.unwrap_or_else(|| panic!("{incident:#}"));
        assert!(leaked["root"].as_str().unwrap().starts_with(root), "{leaked}");
    }
    let hung = hung;
    daemon.end();
    drop(hung);
}
