//! Recordings of incidents, of real processes: what the daemon writes is a recording as any other.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::add_tests;
use test_support::harness::{Need, Tests};
use test_support::runtimes::{ALL, NET_10, Runtime};
use test_support::target::{PATIENCE, Start, Target};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; an_incident_is_recorded, a_killed_process_leaves_a_recording);
}

fn need() -> Need {
    NET_10.need()
}

/// .NET 10 is always there; .NET 8 where it is.
fn runtimes() -> impl Iterator<Item = Runtime> {
    let others = ALL
        .into_iter()
        .filter(|runtime| runtime.name == "net8.0.33" && runtime.is_there());
    others.chain([NET_10])
}

/// The daemon with the shipped rules and a state directory, killed at the end.
pub(crate) struct Daemon {
    process: Child,
    address: String,
    folder: PathBuf,
}

impl Daemon {
    fn start(mark: &str, folder: &Path) -> Self {
        Self::start_with(mark, folder, "")
    }

    /// With more lines of configuration.
    pub(crate) fn start_with(mark: &str, folder: &Path, more: &str) -> Self {
        let config = folder.join("gcwatch.yaml");
        let otlp = if more.contains("otlp:") {
            ""
        } else {
            "otlp: {enabled: false}\n"
        };
        let text = format!(
            "targets: {{include: [{{environment: {{GCWATCH_TEST_MARK: '{mark}'}}}}], lease_folder: {}, \
             scan_interval: 1s}}\n{otlp}listen: 127.0.0.1:0\nstate: {{directory: {}}}\n{more}",
            folder.join("leases").display(),
            folder.join("state").display()
        );
        fs::write(&config, text).unwrap();
        let mut daemon = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
        daemon.arg("run").arg("--config").arg(&config);
        let mut process = daemon.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let line = lines.find(|line| line.contains("listening at http://")).unwrap();
        let address = line
            .split("http://")
            .nth(1)
            .unwrap()
            .split('/')
            .next()
            .unwrap()
            .to_owned();
        let folder = folder.to_owned();
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(|line| println!("{line}")));
        Self {
            process,
            address,
            folder,
        }
    }

    /// The status and the body of an answer.
    pub(crate) fn get(&self, path: &str) -> (u16, Vec<u8>) {
        let address = &self.address;
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let body = answer.split_off(head + 4);
        let status = std::str::from_utf8(&answer).unwrap().split(' ').nth(1).unwrap();
        (status.parse().unwrap(), body)
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.get(path).1).unwrap()
    }

    /// The first incident of a process that is recorded, as soon as there is one.
    fn incident(&self, pid: u32) -> Value {
        let is = |incident: &Value| incident["pid"] == pid && place(incident).is_some();
        let find = || {
            let incidents = self.json("/api/v1/incidents");
            incidents["incidents"]
                .as_array()
                .unwrap()
                .iter()
                .find(|one| is(one))
                .cloned()
        };
        until("an incident with a recording", find)
    }

    /// The recording at a path, as soon as it is written.
    fn recording(&self, place: &str) -> PathBuf {
        let bytes = until("a recording", || {
            let (status, body) = self.get(place);
            assert!([200, 503].contains(&status), "{}", String::from_utf8_lossy(&body));
            (status == 200).then_some(body)
        });
        let path = self.folder.join("fetched.nettrace");
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _ended = self.process.wait();
    }
}

pub(crate) fn until<T>(what: &str, find: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < until, "{what} is missing");
        sleep(Duration::from_millis(200));
    }
}

/// Where the recording of an incident is.
fn place(incident: &Value) -> Option<&str> {
    let mut evidence = incident["evidence"].as_array()?.iter();
    evidence.find(|one| one["name"] == "black-box")?["where"].as_str()
}

/// The records of `gcwatch analyze`.
fn analyzed(file: &Path) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
    let output = command
        .args(["analyze", "--format", "ndjson"])
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// The recording is whole, nothing is lost in it, and it has the collection of the incident. Returns the numbers of its
/// collections.
fn check(what: &str, incident: &Value, records: &[Value]) -> Vec<u64> {
    let stream = records.last().unwrap();
    assert_eq!(
        (&stream["kind"], &stream["clean_end"]),
        (&Value::from("stream"), &Value::from(true)),
        "{what}"
    );
    assert_eq!(stream["lost_events"], 0, "{what}");
    let collections = records.iter().filter(|record| record["kind"] == "gc");
    let numbers: Vec<u64> = collections
        .clone()
        .filter_map(|record| record["number"].as_u64())
        .collect();
    let number = incident["gc_number"].as_u64().unwrap();
    assert!(numbers.contains(&number), "{what}: {number} is not in {numbers:?}");
    for record in collections.clone().skip(1) {
        assert_eq!(record["lossy"], false, "{what}: {record}");
    }
    // In the middle every collection is whole.
    let incomplete = collections.filter(|record| record["complete"] == false);
    assert!(incomplete.count() <= 3, "{what}");
    numbers
}

pub(crate) fn mark(folder: &Path) -> String {
    folder.file_name().unwrap().to_str().unwrap().to_owned()
}

/// A process that has no space for a large object after a moment, and goes on so.
fn out_of_space(runtime: Runtime, mark: &str) -> Target {
    Start::new(runtime, "lohoos")
        .knobs(&[("GCHeapHardLimit", "0x8000000")])
        .env("GCWATCH_TEST_MARK", mark)
        .start()
}

/// Scenario: a process that has no space for a large object, for which a shipped rule of severity critical fires.
/// Guarantee: the incident names a recording, which is served when it is written; it is a complete stream in which
/// nothing was lost, with the collections around the incident. The file is for its user alone, and listed with how much
/// is in it.
fn an_incident_is_recorded() {
    for runtime in runtimes() {
        let folder = tempfile::Builder::new().prefix("gcwatch-black-box").tempdir().unwrap();
        let target = out_of_space(runtime, &mark(folder.path()));
        let daemon = Daemon::start(&mark(folder.path()), folder.path());
        let incident = daemon.incident(target.pid());
        let place = place(&incident).unwrap();
        let numbers = check(runtime.name, &incident, &analyzed(&daemon.recording(place)));
        let number = incident["gc_number"].as_u64().unwrap();
        assert!(numbers.last().is_some_and(|last| *last > number + 5), "{numbers:?}");
        let list = daemon.json("/api/v1/evidence/");
        let record = &list["evidence"][0];
        assert_eq!(
            (record["url"].as_str(), &record["incident"]),
            (Some(place), &incident["id"])
        );
        assert_eq!(record["pid"], target.pid());
        assert!(
            (8..=12).contains(&record["seconds_after"].as_u64().unwrap()),
            "{record}"
        );
        let file = folder
            .path()
            .join("state/black-box")
            .join(record["file"].as_str().unwrap());
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(daemon.get("/api/v1/evidence/..%2Flock").0, 404);
        assert_eq!(daemon.get("/api/v1/evidence/other.nettrace").0, 404);
    }
}

/// Scenario: the same process is killed as soon as it has the incident.
/// Guarantee: its recording is complete within moments, with all that was sent up to the kill.
fn a_killed_process_leaves_a_recording() {
    for runtime in runtimes() {
        let folder = tempfile::Builder::new().prefix("gcwatch-black-box").tempdir().unwrap();
        let mut target = out_of_space(runtime, &mark(folder.path()));
        let daemon = Daemon::start(&mark(folder.path()), folder.path());
        let incident = daemon.incident(target.pid());
        let killed = Instant::now();
        target.kill();
        let recording = daemon.recording(place(&incident).unwrap());
        assert!(
            killed.elapsed() < Duration::from_secs(9),
            "it did not wait for more to come"
        );
        check(runtime.name, &incident, &analyzed(&recording));
    }
}
