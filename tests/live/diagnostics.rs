//! The crate `dotnet-diagnostics` with real runtimes.

use std::time::Duration;

use dotnet_diagnostics::discovery::{Evidence, Process, Reason, Scan};
use dotnet_diagnostics::message::{
    CollectVersion, Compromise, EventFilter, Provider, RUNTIME_PROVIDER, Rundown, SessionConfig, WhenFull,
};
use dotnet_diagnostics::reverse::ReversePort;
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Error, Session};
use rustix::process::Signal;
use test_support::harness::Tests;
use test_support::runtimes::{ALL, CORE_3_1, FETCHED, NET_10, Runtime, need};
use test_support::target::{Start, Target};
use test_support::{add_tests, add_tests_on};

/// Timeout for the start of a runtime. Only a failed start takes this long.
const START: Duration = Duration::from_secs(30);

pub(crate) fn tests(tests: &mut Tests) {
    let others = [
        "net3.1.3",
        "net8.0.33",
        "net9.0.22",
        "net10.0.14",
        "net11.0.0",
        "aot9.0.22",
        "aot11.0.0",
    ];
    let others = others.map(named);
    add_tests_on!(tests, FETCHED.into_iter().chain(others); every_runtime_is_recorded);
    let later = [NET_10]
        .into_iter()
        .chain(["net8.0.33", "net10.0.14", "net11.0.0", "aot9.0.22"].map(named));
    add_tests_on!(tests, later; suspended_runtime_connects_and_is_resumed);
    let newest = named("net10.0.14");
    add_tests_on!(tests, [CORE_3_1, newest]; missing_sockets_are_explained);
    add_tests_on!(tests, [newest]; removed_socket_is_explained);
    add_tests!(tests, need(&[NET_10]); stopped_and_killed_processes_are_recognized, waiting_runtime_is_resumed);
}

fn named(name: &str) -> Runtime {
    ALL.into_iter().find(|runtime| runtime.name == name).unwrap()
}

/// A process that collects garbage.
fn steady(runtime: Runtime) -> Start {
    Start::new(runtime, "steady")
}

/// Returns the scan result for a process. The result is final, because the program is already working.
fn found(target: &Target) -> Process {
    Scan::host().inspect(target.pid()).unwrap()
}

/// Reads a session until its stream is long enough to contain a collection, stops the session, and reads the rest.
/// Returns the complete stream.
async fn record(session: &mut Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < 4000 {
        let read = tokio::time::timeout(START, session.read(&mut buffer)).await;
        let count = read.expect("a byte arrives").unwrap();
        assert_ne!(count, 0, "the stream continues after {} bytes", bytes.len());
        bytes.extend_from_slice(&buffer[..count]);
    }
    session.drain(|piece| bytes.extend_from_slice(piece)).await.unwrap();
    session.stopped().await.unwrap();
    assert!(bytes.starts_with(b"Nettrace"), "{:?}", &bytes[..8]);
    assert_eq!(bytes.last(), Some(&1), "the end tag");
    bytes
}

/// Scenario: a process runs on each runtime.
/// Guarantee: the process is found, queried, recorded and stopped with each command version that its runtime supports.
#[tokio::main(flavor = "current_thread")]
async fn every_runtime_is_recorded(runtime: Runtime) {
    use CollectVersion::{V2, V3, V4, V5, V6};
    let version = runtime.version;
    let newest = match version.unwrap_or_default().split('.').next() {
        Some("11") => V6,
        Some("10") => V5,
        Some("9") => V4,
        _ => V2,
    };
    let target = steady(runtime).env("PROOF", "a=b").start();
    let process = found(&target);
    assert_eq!(
        (&process.evidence, &process.obstacle),
        (&Some(Evidence::Socket), &None),
        "{}",
        runtime.name
    );
    let client = Client::new(Endpoint::for_process(&process).unwrap());
    let info = client.probe().await.unwrap();
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
    assert_eq!(session.version(), newest.min(V3), "{}", runtime.name);
    let stacks = session.compromises().contains(&Compromise::StacksIncluded);
    assert_eq!(stacks, newest < V3, "{}", runtime.name);
    record(&mut session).await;

    // This session has all settings that only the newest command version can express: only the events GCStart and GCEnd
    // of the provider, an empty rundown, and a runtime that waits for its reader.
    let mut provider = Provider::new(RUNTIME_PROVIDER, 0x1, 4);
    provider.filter = Some(EventFilter::Only(vec![1, 2]));
    let config = SessionConfig {
        rundown: Rundown::Keyword(0x10),
        providers: vec![provider],
        when_full: WhenFull::Block,
        ..SessionConfig::default()
    };
    let mut session = client.collect_tracing(&config).await.unwrap();
    assert_eq!(session.version(), newest, "{}", runtime.name);
    record(&mut session).await;
    for form in [V2, V3, V4, V5, V6].into_iter().filter(|form| *form <= newest) {
        let plain = SessionConfig::garbage_collection();
        let mut session = client.collect_tracing_with(&plain, &[form]).await.unwrap();
        record(&mut session).await;
    }
    client
        .stop_tracing(4711)
        .await
        .expect("stopping an unknown session also succeeds");
}

/// Scenario: a process is suspended by a signal, continues, and is killed.
/// Guarantee: the process is silent while it is suspended, and answers afterwards. After the kill, its stream ends, its
/// socket refuses connections and is listed as stale, and the scan no longer finds the process.
#[tokio::main(flavor = "current_thread")]
async fn stopped_and_killed_processes_are_recognized() {
    let mut target = steady(NET_10).start();
    let process = found(&target);
    let endpoint = Endpoint::for_process(&process).unwrap();
    let patient = Client::new(endpoint.clone());
    patient.process_info().await.unwrap();
    target.freeze();
    let hasty = Client::with_deadlines(endpoint, Deadlines::uniform(Duration::from_millis(200)));
    let error = hasty.process_info().await.unwrap_err();
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
    target.kill();
    let error = patient.process_info().await.unwrap_err();
    assert_eq!(error.reason(), Reason::Refused);
    let directories = [target.tmp().to_path_buf()];
    let listing = Scan::host().with_socket_directories(directories).list().unwrap();
    assert_eq!(
        (listing.stale[0].name.pid, listing.stale[0].refused),
        (process.pid, true)
    );
    assert!(matches!(
        Scan::host().inspect(process.pid),
        Err(Error::NoProcess { .. })
    ));
}

/// Scenario: diagnostics of a process are switched off with one of the environment variables that its runtime supports.
/// Guarantee: the scan reports that diagnostics are off.
fn missing_sockets_are_explained(runtime: Runtime) {
    let variables: &[&str] = if runtime.is_core_3() {
        &["COMPlus_EnableDiagnostics"]
    } else {
        &["DOTNET_EnableDiagnostics", "DOTNET_EnableDiagnostics_IPC"]
    };
    for variable in variables {
        let target = steady(runtime).env(variable, "0").start();
        let process = found(&target);
        assert_eq!(process.obstacle.unwrap().reason, Reason::DiagnosticsOff, "{variable}");
    }
}

/// Scenario: the file of a socket that has answered is deleted.
/// Guarantee: the scan reports that the socket was removed.
#[tokio::main(flavor = "current_thread")]
async fn removed_socket_is_explained(runtime: Runtime) {
    let target = steady(runtime).start();
    let process = found(&target);
    Client::new(Endpoint::for_process(&process).unwrap())
        .process_info()
        .await
        .unwrap();
    std::fs::remove_file(process.socket.unwrap().host_path()).unwrap();
    let obstacle = found(&target).obstacle.unwrap();
    assert_eq!(obstacle.reason, Reason::SocketRemoved);
}

/// Scenario: a runtime starts suspended and connects to the reverse port.
/// Guarantee: the client queries the runtime, starts a session, resumes the runtime, and stops the session, each over a
/// separate connection.
#[tokio::main(flavor = "current_thread")]
async fn suspended_runtime_connects_and_is_resumed(runtime: Runtime) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("port");
    let port = ReversePort::bind(&path, Deadlines::default()).unwrap();
    let target = steady(runtime)
        .env("DOTNET_DiagnosticPorts", &format!("{},suspend", path.display()))
        .spawn();
    let connected = tokio::time::timeout(START, port.accept()).await.unwrap();
    assert_eq!(
        (connected.pid, connected.ns_pid),
        (Some(target.pid()), u64::from(target.pid()))
    );
    let client = port.client(&connected);
    let info = client.process_info().await.unwrap();
    assert_eq!(info.cookie, connected.cookie);
    let mut session = client
        .collect_tracing(&SessionConfig::garbage_collection())
        .await
        .unwrap();
    client.resume_runtime().await.unwrap();
    record(&mut session).await;
    assert_eq!(client.process_info().await.unwrap().cookie, connected.cookie);
}

/// Scenario: a runtime starts suspended and connects to a reverse port that resumes all waiting runtimes.
/// Guarantee: the process runs and can be recorded.
#[tokio::main(flavor = "current_thread")]
async fn waiting_runtime_is_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("port");
    let port = ReversePort::bind(&path, Deadlines::default()).unwrap();
    let target = steady(NET_10)
        .env("DOTNET_DiagnosticPorts", &format!("{},suspend", path.display()))
        .spawn();
    let connected = tokio::time::timeout(START, port.accept()).await.unwrap();
    assert_eq!(connected.pid, Some(target.pid()));
    assert!(port.resume_all().await.is_empty());
    let mut session = port
        .client(&connected)
        .collect_tracing(&SessionConfig::garbage_collection())
        .await
        .unwrap();
    record(&mut session).await;
}
