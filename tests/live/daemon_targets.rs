//! The daemon's supervisor with real processes: it finds them, attaches to them, reads them and releases them.

use std::sync::Arc;
use std::time::Duration;

use base::pattern::Pattern;
use processes::RunState;
use rustix::process::Signal;
use targets::UnfinishedSessions;
use targets::options::{Filter, TargetOptions};

use test_support::daemon::MARK;
use test_support::harness::Tests;
use test_support::program::{gcwatch, written};
use test_support::runtimes::{ALL, CORE_3_1, FETCHED, Host, NET_10, Runtime, need};
use test_support::scene::Scene;
use test_support::supervised::{Run, TestSupervisor};
use test_support::target::{Start, TIMEOUT, Target};
use test_support::{add_tests, add_tests_on};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests_on!(tests, FETCHED; last_collection_before_silence_is_reported);
    add_tests!(tests, need(&FETCHED); processes_are_followed_from_start_to_exit, settings_are_read);
    add_tests!(
        tests, need(&[NET_10]);
        stopped_process_does_not_block_others,
        options_are_followed,
        two_supervisors_on_one_host_share,
        process_over_limit_waits,
        new_socket_is_noticed_at_once,
        connecting_runtime_is_resumed,
    );
}

/// Options of a supervisor with a short scan interval, because only this scan finds processes with separate folders.
fn options(scene: &Scene) -> TargetOptions {
    TargetOptions {
        include: vec![Filter {
            environment: vec![(MARK.to_owned(), Pattern(scene.mark().to_owned()))],
            ..Filter::default()
        }],
        scan_interval: Duration::from_millis(300),
        lease_folder: scene.folder().join("leases"),
        ..TargetOptions::default()
    }
}

/// Triggers `times` collections and waits until the process confirms them.
fn collect(target: &mut Target, times: usize) {
    target.write_line(&format!("collect {times}"));
    target.await_line("collections", |line| line.starts_with("did "));
}

/// Returns the number of event sessions of a .NET 10 process. Such a process has one `.NET EventPipe` thread for each
/// session, and one for commands.
fn sessions(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with(".NET EventPipe")).count() - 1
}

/// Waits until the process has no session. The wait is necessary because the thread of a stopped session exits only
/// later.
async fn no_session(pid: u32) {
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while sessions(pid) > 0 {
        assert!(std::time::Instant::now() < until, "no session remains");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Scenario: processes of all available runtimes run at the same time. Another process starts while the supervisor
/// runs, one process is killed, and one is stopped. Then the supervisor is stopped.
/// Guarantee: the supervisor attaches to all processes, identifies and reads them. The supervisor reports the exit of a
/// process, and continues to read the others. After its stop, no session remains (checked for .NET 10), and each
/// process can be recorded.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn processes_are_followed_from_start_to_exit() {
    let scene = Scene::begin();
    let supervised = TestSupervisor::start(options(&scene));
    let runtimes = ALL.into_iter().filter(|runtime| runtime.is_there());
    let mut targets: Vec<_> = runtimes
        .map(|runtime| (runtime, scene.start(runtime, "steady").start()))
        .collect();
    for (runtime, target) in &targets {
        let run = supervised
            .until(target.pid(), runtime.name, |run| {
                run.is_attached() && run.collections.len() > 3
            })
            .await;
        assert_eq!(run.opened, 1, "{}", runtime.name);
        // A self-contained .NET Core 3.1 process does not expose its version.
        let version = run.attributes.get("process.runtime.version").map(String::as_str);
        let expected = runtime.version.or((*runtime == CORE_3_1).then_some("3.1.23"));
        assert_eq!(version, expected, "{}", runtime.name);
        assert_eq!(run.attributes["process.pid"], target.pid().to_string());
        // The name is the entry assembly, or the .dll on the command line for 3.1, which does not report the entry
        // assembly, and for a host that reports its own name.
        let expected = match runtime.host {
            Host::StartupHook => "Dosai",
            Host::Run | Host::Dotnet => "workload",
            Host::NativeAot => "work",
        };
        assert!(
            run.attributes["service.name"].starts_with(expected),
            "{:?}",
            run.attributes
        );
        let complete = run.collections.iter().filter(|gc| gc.missing.is_empty()).count();
        assert!(complete + 1 >= run.collections.len(), "{}", runtime.name);
        // The time of a collection is within one minute of the host's clock.
        let gc = run.collections.last().unwrap();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let at = Duration::from_nanos(run.bases[0].unix(targets::clocks().wall()).unix_ns(gc.start.unwrap()));
        assert!(at <= now && now - at < TIMEOUT, "{at:?} {now:?}");
    }
    // Start a process while the supervisor runs.
    let late = scene.start(NET_10, "steady").start();
    supervised
        .until(late.pid(), "late", |run| !run.collections.is_empty())
        .await;
    // Kill a process.
    let (_, mut killed) = targets.remove(0);
    let pid = killed.pid();
    killed.kill();
    let run = supervised.until(pid, "killed", |run| run.ended).await;
    assert_eq!(run.state(), &RunState::Ended);
    // Stop a process.
    let pid = late.pid();
    late.stop();
    supervised.until(pid, "stopped", |run| run.ended).await;
    // The other processes continue.
    for (runtime, target) in &targets {
        let seen = supervised.run(target.pid()).unwrap().collections.len();
        let more = |run: &Run| run.is_attached() && run.collections.len() > seen;
        supervised.until(target.pid(), runtime.name, more).await;
    }
    let log = supervised.log.clone();
    assert_eq!(supervised.stop().await, UnfinishedSessions::default());
    for (runtime, target) in &targets {
        let run = log.run(target.pid()).unwrap();
        assert!(
            matches!(run.state(), RunState::Detached { .. }),
            "{}: {:?}",
            runtime.name,
            run.states
        );
        assert!(!run.ended, "{} still runs", runtime.name);
        if *runtime == NET_10 {
            assert_eq!(sessions(target.pid()), 0);
        }
        let file = scene.path("later.nettrace");
        let pid = target.pid().to_string();
        let args = ["record", "--pid", &pid, "--duration", "500ms", "--force", "-o", &file];
        written(gcwatch(args));
    }
}

/// Scenario: an idle process collects once on request, and is idle again.
/// Guarantee: the collection is reported although no further event follows.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn last_collection_before_silence_is_reported(runtime: Runtime) {
    let scene = Scene::begin();
    let mut target = scene.start(runtime, "idle").start();
    let supervised = TestSupervisor::start(options(&scene));
    supervised.until(target.pid(), "attached", Run::is_attached).await;
    // The runtime enables its events one by one after it has reported the start of the session, and sends nothing about
    // earlier collections. If the runtime sends a collection, the supervisor reports this collection within four
    // seconds.
    let seen = |run: &Run| !run.collections.is_empty();
    let mut tries = 0;
    collect(&mut target, 1);
    while !supervised.within(Duration::from_secs(4), target.pid(), seen).await {
        tries += 1;
        assert!(tries < 5, "{runtime:?}: a collection is reported");
        collect(&mut target, 1);
    }
    for n in 2..=4 {
        collect(&mut target, 1);
        let run = supervised
            .until(target.pid(), "reported", |run| run.collections.len() >= n)
            .await;
        assert_eq!(run.collections.len(), n);
        let gc = run.collections.last().unwrap();
        assert!(gc.missing.is_empty() && !gc.lossy, "{gc:?}");
    }
    supervised.stop().await;
}

/// Scenario: one of three processes is suspended while the supervisor reads it, and one is suspended before the
/// supervisor attaches to it. Later, both continue.
/// Guarantee: the supervisor reads the third process while the others are suspended, and reads the suspended processes
/// after they continue. No collection is reported twice.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_process_does_not_block_others() {
    let scene = Scene::begin();
    let [read, stopped, frozen] = ["steady"; 3].map(|mode| scene.start(NET_10, mode).start());
    frozen.freeze();
    let supervised = TestSupervisor::start(options(&scene));
    for target in [&read, &stopped] {
        supervised
            .until(target.pid(), "read", |run| run.collections.len() > 2)
            .await;
    }
    stopped.freeze();
    let silent = |run: &Run| matches!(run.state(), RunState::Unattachable { reason, .. } if reason == "silent");
    supervised.until(frozen.pid(), "silent", silent).await;
    let seen = supervised.run(read.pid()).unwrap().collections.len();
    supervised
        .until(read.pid(), "the process is still read", |run| {
            run.collections.len() > seen + 2
        })
        .await;
    assert!(
        supervised.run(stopped.pid()).unwrap().is_attached(),
        "a silent process stays attached"
    );
    for target in [&stopped, &frozen] {
        target.signal(Signal::CONT);
        let seen = supervised.run(target.pid()).unwrap().collections.len();
        supervised
            .until(target.pid(), "the process is still read", |run| {
                run.collections.len() > seen + 2
            })
            .await;
    }
    for target in [&read, &stopped, &frozen] {
        let run = supervised.run(target.pid()).unwrap();
        let mut numbers: Vec<_> = run.collections.iter().map(|gc| gc.number).collect();
        let reported = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), reported);
    }
    assert_eq!(supervised.stop().await, UnfinishedSessions::default());
}

/// Scenario: a process is excluded; the options change so that it is included, and back.
/// Guarantee: an excluded process has no session. A process that stays included keeps its session.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn options_are_followed() {
    let scene = Scene::begin();
    let kept = scene.start(NET_10, "steady").start();
    let chosen = scene.start(NET_10, "steady").env("ROLE", "chosen").start();
    let without = TargetOptions {
        exclude: vec![Filter {
            environment: vec![("ROLE".to_owned(), Pattern("cho*".to_owned()))],
            ..Filter::default()
        }],
        ..options(&scene)
    };
    let supervised = TestSupervisor::start(without.clone());
    supervised.until(kept.pid(), "kept", Run::is_attached).await;
    let run = supervised
        .until(chosen.pid(), "left out", |run| *run.state() == RunState::Excluded)
        .await;
    assert_eq!((run.opened, sessions(chosen.pid())), (0, 0));
    supervised.options.send_replace(Arc::new(options(&scene)));
    supervised.until(chosen.pid(), "wanted", Run::is_attached).await;
    supervised.options.send_replace(Arc::new(without));
    supervised
        .until(chosen.pid(), "left out again", |run| *run.state() == RunState::Excluded)
        .await;
    no_session(chosen.pid()).await;
    let run = supervised.run(kept.pid()).unwrap();
    let attached = run.states.iter().filter(|state| **state == RunState::Attached).count();
    assert_eq!((attached, run.is_attached()), (1, true), "{:?}", run.states);
    assert_eq!(supervised.stop().await, UnfinishedSessions::default());
}

/// Scenario: two supervisors use the same folder of leases; the first supervisor stops.
/// Guarantee: the process has one session. The second supervisor reports the holder of the lease, and takes over when
/// the lease is released. In the end, no lease remains.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn two_supervisors_on_one_host_share() {
    let scene = Scene::begin();
    let target = scene.start(NET_10, "steady").start();
    let first = TestSupervisor::start(options(&scene));
    first.until(target.pid(), "first", Run::is_attached).await;
    let second = TestSupervisor::start(options(&scene));
    let held = |run: &Run| matches!(run.state(), RunState::HeldElsewhere { .. });
    let run = second.until(target.pid(), "second", held).await;
    let RunState::HeldElsewhere { holder } = run.state() else {
        panic!("{run:?}")
    };
    assert!(holder.contains(&std::process::id().to_string()), "{holder}");
    assert_eq!(sessions(target.pid()), 1);
    assert_eq!(first.stop().await, UnfinishedSessions::default());
    second
        .until(target.pid(), "takes over", |run| !run.collections.is_empty())
        .await;
    assert_eq!(sessions(target.pid()), 1);
    assert_eq!(second.stop().await, UnfinishedSessions::default());
    assert_eq!(
        std::fs::read_dir(scene.path("leases")).unwrap().count(),
        0,
        "no lease remains"
    );
}

/// Scenario: two processes run, and the supervisor's limit is one process. The process that the supervisor reads exits.
/// Guarantee: the other process is over the limit until the exit; then the supervisor attaches to it.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn process_over_limit_waits() {
    let scene = Scene::begin();
    let first = scene.start(NET_10, "steady").start();
    let supervised = TestSupervisor::start(TargetOptions {
        max_targets: 1,
        ..options(&scene)
    });
    supervised.until(first.pid(), "first", Run::is_attached).await;
    let second = scene.start(NET_10, "steady").start();
    supervised
        .until(second.pid(), "over", |run| *run.state() == RunState::OverLimit)
        .await;
    first.stop();
    supervised.until(second.pid(), "comes in", Run::is_attached).await;
    assert_eq!(supervised.stop().await, UnfinishedSessions::default());
}

/// Scenario: a second process creates its socket in a folder in which a socket was found before; the scan interval of
/// `/proc` is one hour.
/// Guarantee: the supervisor reads the second process without a scan of `/proc`, because a file system event reveals
/// the process.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn new_socket_is_noticed_at_once() {
    let scene = Scene::begin();
    let first = scene.start(NET_10, "steady").start();
    let supervised = TestSupervisor::start(TargetOptions {
        scan_interval: Duration::from_secs(3600),
        ..options(&scene)
    });
    supervised.until(first.pid(), "first", Run::is_attached).await;
    let folder = first.tmp().to_str().unwrap().to_owned();
    let second = scene.start(NET_10, "steady").env("TMPDIR", &folder).start();
    supervised
        .until(second.pid(), "second", |run| !run.collections.is_empty())
        .await;
    let pid = second.pid();
    second.stop();
    supervised.until(pid, "ended", |run| run.ended).await;
    assert_eq!(supervised.stop().await, UnfinishedSessions::default());
}

/// Scenario: processes on each available runtime have settings of the collector.
/// Guarantee: for .NET 9 and later (CoreCLR), the supervisor reports the settings, and closes the session that read
/// them (checked for .NET 10). For other runtimes, the supervisor reports no settings. No collection is induced.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_read() {
    let scene = Scene::begin();
    let knobs = [
        ("gcConcurrent", "0"),
        ("GCHeapHardLimit", "0xC000000"),
        ("GCHighMemPercent", "0x50"),
    ];
    let runtimes = ALL.into_iter().filter(|runtime| runtime.is_there());
    let mut targets: Vec<_> = runtimes
        .map(|runtime| (runtime, scene.start(runtime, "idle").knobs(&knobs).start()))
        .collect();
    let supervised = TestSupervisor::start(options(&scene));
    let reports = |runtime: Runtime| {
        let version = runtime.version.unwrap_or_default();
        !runtime.is_native_aot() && ["9.", "10.", "11."].iter().any(|major| version.starts_with(major))
    };
    for (runtime, target) in &mut targets {
        supervised.until(target.pid(), runtime.name, Run::is_attached).await;
        if !reports(*runtime) {
            continue;
        }
        let reported = |run: &Run| run.attributes.contains_key("gcwatch.gc.settings.server");
        let run = supervised.until(target.pid(), runtime.name, reported).await;
        let is = |key: &str, value: &str| assert_eq!(run.attributes[key], value, "{} {key}", runtime.name);
        is("gcwatch.gc.settings.server", "false");
        is("gcwatch.gc.settings.concurrent", "false");
        is("gcwatch.gc.settings.hard_limit", "201326592");
        is("gcwatch.gc.settings.high_memory_percent", "80");
        is("gcwatch.gc.settings.loh_threshold", "85000");
        assert!(
            !run.attributes.contains_key("gcwatch.gc.settings.physical_memory"),
            "{:?}",
            run.attributes
        );
        if *runtime == NET_10 {
            assert_eq!(sessions(target.pid()), 1, "only the session for collections remains");
        }
        target.write_line("count");
        let counts = target.await_line("count", |line| line.starts_with("did "));
        assert_eq!(run.collections.len(), 0, "{}: {counts}", runtime.name);
    }
    for (runtime, target) in &targets {
        let run = supervised.run(target.pid()).unwrap();
        let any = run.attributes.keys().any(|key| key.starts_with("gcwatch.gc.settings."));
        assert_eq!(any, reports(*runtime), "{}: {:?}", runtime.name, run.attributes);
    }
    assert_eq!(supervised.stop().await, UnfinishedSessions::default());
}

/// Scenario: three processes use gcwatch's reverse port: one starts suspended, one is excluded, and one exceeds the
/// limit.
/// Guarantee: all three processes run. The supervisor reads the included process from its first collection, in one
/// session, although the supervisor also finds the socket of this process.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_runtime_is_resumed() {
    let scene = Scene::begin();
    let port = scene.folder().join("port");
    let pointed = |start: Start| start.env("DOTNET_DiagnosticPorts", &format!("{},suspend", port.to_str().unwrap()));
    let supervised = TestSupervisor::start(TargetOptions {
        listen: Some(port.clone()),
        max_targets: 1,
        scan_interval: Duration::from_secs(3600),
        ..options(&scene)
    });
    // The supervisor is started first, because a process without a listener would wait at its start.
    let read = pointed(scene.start(NET_10, "steady")).start();
    let run = supervised
        .until(read.pid(), "read", |run| run.collections.len() > 2)
        .await;
    assert_eq!((run.opened, run.is_attached()), (1, true));
    assert_eq!(run.collections[0].number, 1, "the first collection is read");
    // `start` waits until the program works, so this process was resumed.
    let over = pointed(scene.start(NET_10, "steady")).start();
    supervised
        .until(over.pid(), "no room", |run| *run.state() == RunState::OverLimit)
        .await;
    let left_out = pointed(Start::new(NET_10, "steady")).start();
    supervised
        .until(left_out.pid(), "left out", |run| *run.state() == RunState::Excluded)
        .await;
    assert_eq!(supervised.stop().await, UnfinishedSessions::default());
    assert!(!port.exists());
}
