//! The crate against real runtimes, as `tests/runtimes/fetch` puts them into the cache. .NET Core 3.1 and .NET 10 are
//! always there (`GCWATCH_SKIP_LIVE` leaves them out by name); a runtime that only comes with a folder of packs is
//! named and left out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed step is a failed test"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use dotnet_diagnostics::discovery::{Evidence, Process, Reason, Scan, parse_stat};
use dotnet_diagnostics::message::{
    CollectVersion, Compromise, EventFilter, Provider, RUNTIME_PROVIDER, Rundown, SessionConfig,
};
use dotnet_diagnostics::reverse::ReversePort;
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Error, Session};
use rustix::process::{Pid, Signal, kill_process};

/// Bounds what a runtime takes to start; reached only when it does not.
const START: Duration = Duration::from_secs(30);

/// Fetched from the package registries.
const ALWAYS: [&str; 2] = ["core3.1.23", "net10.0.0"];

/// The cache of runtimes, filled once.
fn cache() -> &'static Path {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runtimes/fetch");
        let output = Command::new(script).output().unwrap();
        // What cannot be downloaded is printed; the tests of what is there run.
        print!("{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
}

/// A runtime with a program that collects garbage, in a directory for temporary files of its own.
struct Target {
    child: Child,
    tmpdir: tempfile::TempDir,
}

impl Target {
    fn start(pack: &str, variables: &[(&str, &str)]) -> Option<Self> {
        let skipped = std::env::var("GCWATCH_SKIP_LIVE").unwrap_or_default();
        if skipped.split(',').any(|name| name == "all" || name == pack) {
            println!("{pack} is skipped: GCWATCH_SKIP_LIVE");
            return None;
        }
        let directory = cache().join(pack);
        if !directory.join(".complete").exists() {
            assert!(
                !ALWAYS.contains(&pack),
                "{pack} is not in the cache: tests/runtimes/fetch says why"
            );
            println!("{pack} is left out: no folder of packs holds it");
            return None;
        }
        let tmpdir = tempfile::tempdir().unwrap();
        let workload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/workload/workload.dll");
        let mut command;
        match pack {
            "core3.1.23" => {
                let config = tmpdir.path().join("w.runtimeconfig.json");
                let framework =
                    r#"{"runtimeOptions":{"framework":{"name":"Microsoft.NETCore.App","version":"3.1.0"}}}"#;
                std::fs::write(&config, framework).unwrap();
                command = Command::new(directory.join("dotnet"));
                command.args(["exec", "--runtimeconfig"]).arg(config).arg(workload);
            }
            "net10.0.0" => {
                command = Command::new(directory.join("dosai"));
                command.arg("--help").env("DOTNET_STARTUP_HOOKS", workload);
            }
            native if native.starts_with("aot") => command = Command::new(directory.join("work-aot")),
            _ => {
                command = Command::new(directory.join("run"));
                command.arg(workload);
            }
        }
        command
            .env("TMPDIR", tmpdir.path())
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
        command
            .env("WMODE", "steady")
            .env("WSECS", "60")
            .envs(variables.iter().copied());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Some(Self { child, tmpdir })
    }

    /// What a scan says of it, as soon as that is what is waited for.
    fn found(&self, wanted: impl Fn(&Process) -> bool) -> Process {
        let started = Instant::now();
        loop {
            let process = Scan::host().inspect(self.child.id()).unwrap();
            if wanted(&process) {
                return process;
            }
            assert!(started.elapsed() < START, "still {process:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ready(&self) -> Process {
        self.found(|process| process.socket.is_some())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops every thread. The signal alone lets them run on for a moment, long enough to answer.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let started = Instant::now();
        let tasks = format!("/proc/{}/task", self.child.id());
        let stopped = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read(task.unwrap().path().join("stat")).unwrap();
            parse_stat(&stat).unwrap().state == 'T'
        };
        while !std::fs::read_dir(&tasks).unwrap().all(stopped) {
            assert!(started.elapsed() < START, "threads still run");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads until a collection must be in it, then to the end: the whole stream.
async fn record(session: &mut Session) -> Vec<u8> {
    session.set_idle_deadline(Some(START));
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < 4000 {
        let count = session.read(&mut buffer).await.unwrap();
        assert_ne!(count, 0, "ended by itself after {} bytes", bytes.len());
        bytes.extend_from_slice(&buffer[..count]);
    }
    session.drain(|piece| bytes.extend_from_slice(piece)).await.unwrap();
    session.stopped().await.unwrap();
    assert!(bytes.starts_with(b"Nettrace"), "{:?}", &bytes[..8]);
    assert_eq!(bytes.last(), Some(&1), "the end tag");
    bytes
}

/// Scenario: a process of each runtime.
/// Guarantee: found, asked, recorded and stopped, in the form of each command that the runtime knows.
#[tokio::test]
async fn every_runtime_is_recorded() {
    use CollectVersion::{V2, V3, V4, V5};
    for (pack, version, newest) in [
        ("core3.1.23", None, V2),
        ("net10.0.0", Some("10.0.0"), V5),
        ("net3.1.3", None, V2),
        ("net8.0.33", Some("8.0.33"), V2),
        ("net9.0.22", Some("9.0.22"), V4),
        ("net10.0.14", Some("10.0.14"), V5),
        ("aot9.0.22", Some("9.0.22"), V4),
    ] {
        let Some(target) = Target::start(pack, &[("PROOF", "a=b")]) else {
            continue;
        };
        let process = target.ready();
        assert_eq!(
            (&process.evidence, &process.obstacle),
            (&Some(Evidence::Socket), &None),
            "{pack}"
        );
        let client = Client::new(Endpoint::of(&process).unwrap());
        let info = client.probe().await.unwrap();
        println!("{pack}: {} {info:?}", process.name);
        let reported = info.as_ref().and_then(|info| info.runtime_version.as_deref());
        assert!(
            reported.is_none() == version.is_none()
                && reported.unwrap_or_default().starts_with(version.unwrap_or_default())
        );
        match client.environment().await {
            Ok(variables) => {
                let proof = variables.iter().find(|variable| variable.name == "PROOF").unwrap();
                assert_eq!(proof.value.as_deref(), Some("a=b"));
            }
            Err(error) => assert!(version.is_none() && error.is_unknown_command(), "{error}"),
        }

        let mut session = client
            .collect_tracing(&SessionConfig::garbage_collection())
            .await
            .unwrap();
        assert_eq!(session.version(), newest.min(V3), "{pack}");
        let stacks = session.compromises().contains(&Compromise::StacksIncluded);
        assert_eq!(stacks, newest < V3, "{pack}");
        record(&mut session).await;

        // Everything that only the newest form can express: this provider's GCStart and GCEnd, a rundown of nothing.
        let mut provider = Provider::new(RUNTIME_PROVIDER, 0x1, 4);
        provider.filter = Some(EventFilter::Only(vec![1, 2]));
        let config = SessionConfig {
            rundown: Rundown::Keyword(0x10),
            providers: vec![provider],
            ..SessionConfig::default()
        };
        let mut session = client.collect_tracing(&config).await.unwrap();
        assert_eq!(session.version(), newest, "{pack}");
        record(&mut session).await;
        for form in [V2, V3, V4, V5].into_iter().filter(|form| *form <= newest) {
            let plain = SessionConfig::garbage_collection();
            let mut session = client.collect_tracing_with(&plain, &[form]).await.unwrap();
            let bytes = record(&mut session).await;
            println!("{pack}: {form:?} {} bytes", bytes.len());
        }
        client
            .stop_tracing(4711)
            .await
            .expect("OK also for a session that does not exist");
    }
}

/// Scenario: a process is stopped by a signal, goes on, and is killed.
/// Guarantee: silent, then answering, then a stream that ends, a connection refused and a stale socket.
#[tokio::test]
async fn stopped_and_killed_processes_are_told() {
    let Some(mut target) = Target::start("net10.0.0", &[]) else {
        return;
    };
    let process = target.ready();
    let endpoint = Endpoint::of(&process).unwrap();
    let patient = Client::new(endpoint.clone());
    patient.process_info().await.unwrap();
    target.stop();
    let hasty = Client::with_deadlines(endpoint, Deadlines::uniform(Duration::from_millis(200)));
    let error = hasty.process_info().await.unwrap_err();
    println!("{error}");
    assert_eq!(error.reason(), Reason::Silent);
    target.signal(Signal::CONT);
    patient.process_info().await.unwrap();

    let mut session = patient
        .collect_tracing(&SessionConfig::garbage_collection())
        .await
        .unwrap();
    let mut buffer = [0; 4096];
    assert_ne!(session.read(&mut buffer).await.unwrap(), 0);
    target.signal(Signal::KILL);
    while session.read(&mut buffer).await.unwrap() != 0 {}
    target.child.wait().unwrap();
    let error = patient.process_info().await.unwrap_err();
    println!("{error}");
    assert_eq!(error.reason(), Reason::Refused);
    let directories = [target.tmpdir.path().to_path_buf()];
    let listing = Scan::host().with_socket_directories(directories).list().unwrap();
    println!("{}", listing.stale[0]);
    assert_eq!(
        (listing.stale[0].name.pid, listing.stale[0].refused),
        (process.pid, true)
    );
    assert!(matches!(
        Scan::host().inspect(process.pid),
        Err(Error::NoProcess { .. })
    ));
}

/// Scenario: diagnostics switched off, in each spelling that works; a socket whose file was deleted.
/// Guarantee: each is recognized by its name.
#[tokio::test]
async fn missing_sockets_are_explained() {
    for (pack, variable) in [
        ("core3.1.23", "COMPlus_EnableDiagnostics"),
        ("net10.0.14", "DOTNET_EnableDiagnostics"),
        ("net10.0.14", "DOTNET_EnableDiagnostics_IPC"),
    ] {
        let Some(target) = Target::start(pack, &[(variable, "0")]) else {
            continue;
        };
        let process = target.found(|process| process.evidence.is_some());
        println!("{pack}: {}", process.obstacle.as_ref().unwrap());
        assert_eq!(process.obstacle.unwrap().reason, Reason::DiagnosticsOff);
    }
    let Some(target) = Target::start("net10.0.14", &[]) else {
        return;
    };
    let process = target.ready();
    Client::new(Endpoint::of(&process).unwrap())
        .process_info()
        .await
        .unwrap();
    std::fs::remove_file(process.socket.unwrap().host_path()).unwrap();
    let obstacle = Scan::host().inspect(process.pid).unwrap().obstacle.unwrap();
    println!("{obstacle}");
    assert_eq!(obstacle.reason, Reason::SocketRemoved);
}

/// Scenario: a runtime that starts suspended and connects to us.
/// Guarantee: it is asked and recorded from before its first collection, resumed, and stopped, each on a connection of
/// its own.
#[tokio::test]
async fn a_suspended_runtime_connects_and_is_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("port");
    let port = ReversePort::bind(&path, Deadlines::default()).unwrap();
    let ports = format!("{},suspend", path.display());
    for pack in ["net10.0.0", "net8.0.33", "net10.0.14", "aot9.0.22"] {
        let Some(target) = Target::start(pack, &[("DOTNET_DiagnosticPorts", &ports)]) else {
            continue;
        };
        let runtime = tokio::time::timeout(START, port.accept()).await.unwrap();
        assert_eq!(
            (runtime.pid, runtime.ns_pid),
            (Some(target.child.id()), u64::from(target.child.id()))
        );
        let client = port.client(&runtime);
        let info = client.process_info().await.unwrap();
        assert_eq!(info.cookie, runtime.cookie);
        let mut session = client
            .collect_tracing(&SessionConfig::garbage_collection())
            .await
            .unwrap();
        client.resume_runtime().await.unwrap();
        let bytes = record(&mut session).await;
        println!("{pack}: {} bytes from the start", bytes.len());
        assert_eq!(client.process_info().await.unwrap().cookie, runtime.cookie);
    }
    let Some(target) = Target::start("net10.0.0", &[("DOTNET_DiagnosticPorts", &ports)]) else {
        return;
    };
    let runtime = tokio::time::timeout(START, port.accept()).await.unwrap();
    assert_eq!(runtime.pid, Some(target.child.id()));
    assert!(port.resume_all().await.is_empty());
    let mut session = port
        .client(&runtime)
        .collect_tracing(&SessionConfig::garbage_collection())
        .await
        .unwrap();
    record(&mut session).await;
}
