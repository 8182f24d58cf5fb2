//! Web services on ASP.NET Core, and their clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::daemon::MARK;
use crate::runtimes::{KNOWN, Runtime, SERVICE};
use crate::scene::Scene;
use crate::target::{RunningProcess, TIMEOUT, await_listening, service_port};

/// A listening service with its own scene.
pub struct Service {
    process: RunningProcess,
    pub pid: u32,
    pub address: String,
    pub scene: Scene,
}

impl Service {
    /// Starts the service of [`SERVICE`].
    pub fn start(seconds: u32, env: &[(&str, &str)]) -> Self {
        Self::begin(Scene::begin(), Command::new(SERVICE.folder().join("svc")), seconds, env)
    }

    /// Starts the service that logs its own figures in the file `log` of its scene (`known/shop` in the folder of
    /// packs).
    pub fn shop(runtime: Runtime, seconds: u32, env: &[(&str, &str)]) -> Self {
        let scene = Scene::begin();
        let mut command = Command::new(runtime.folder().join("run"));
        command.arg(KNOWN.folder().join("shop/shop.dll"));
        command.env("SLOG", scene.path("log"));
        Self::begin(scene, command, seconds, env)
    }

    fn begin(scene: Scene, mut command: Command, seconds: u32, env: &[(&str, &str)]) -> Self {
        let port = service_port();
        let mut process = command
            .env("TMPDIR", scene.folder())
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            .env("DOTNET_gcServer", "0")
            .env(MARK, scene.mark())
            .env("SPORT", port.to_string())
            .env("SSECS", seconds.to_string())
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut process = RunningProcess(process);
        let is_ready = said.any(|line| line.unwrap().starts_with("ready"));
        assert!(is_ready, "the service starts");
        std::thread::spawn(move || said.for_each(drop));
        await_listening(&mut process.0, port);
        Self {
            pid: process.0.id(),
            process,
            address: format!("127.0.0.1:{port}"),
            scene,
        }
    }

    /// Stops the service; afterwards, its log is complete.
    pub fn end(&mut self) {
        kill_process(Pid::from_child(&self.process.0), Signal::TERM).unwrap();
        self.process.0.wait().unwrap();
    }

    /// Returns the body of an answer.
    pub fn get(&self, path: &str) -> String {
        self.ask(path, None).1
    }

    /// Returns the head and the body of the answer to a request, with an optional header.
    pub fn ask(&self, path: &str, header: Option<(&str, &str)>) -> (String, String) {
        ask(&self.address, path, header)
    }
}

fn ask(address: &str, path: &str, header: Option<(&str, &str)>) -> (String, String) {
    let header = header
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .unwrap_or_default();
    // A busy service can refuse a connection.
    let since = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => assert!(since.elapsed() < TIMEOUT, "{address}: {error}"),
        }
        std::thread::yield_now();
    };
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\n{header}Connection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Clients of a service. Each client requests its paths in turn until it is stopped.
pub struct Clients {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Clients {
    /// Starts one client for each list of paths. Each client pauses after each answer, so that its requests are spread
    /// over the test and leave CPU for other tests.
    pub fn start(service: &Service, each: impl IntoIterator<Item = Vec<&'static str>>, pause: Duration) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let client = |paths: Vec<&'static str>| {
            let (end, address) = (Arc::clone(&end), service.address.clone());
            std::thread::spawn(move || {
                let mut answered = 0;
                for path in paths.iter().cycle() {
                    if end.load(Ordering::Relaxed) {
                        break;
                    }
                    let (head, body) = ask(&address, path, None);
                    assert!(head.starts_with("HTTP/1.1 200") && !body.is_empty(), "{path}: {head}");
                    answered += 1;
                    std::thread::sleep(pause);
                }
                answered
            })
        };
        let threads = each.into_iter().map(client).collect();
        Self { end, threads }
    }

    /// Stops the clients and returns the number of answered requests.
    pub fn stop(self) -> u64 {
        self.end.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|client| client.join().unwrap()).sum()
    }
}

/// Returns the paths, rotated so that the path at the index `first` comes first.
pub fn from(paths: &[&'static str], first: usize) -> Vec<&'static str> {
    let (before, after) = paths.split_at(first);
    [after, before].concat()
}
