//! The supervisor of the daemon against real processes: found, attached to, read, let go.

use std::sync::Arc;
use std::time::Duration;

use base::pattern::Pattern;
use processes::RunState;
use rustix::process::Signal;
use targets::Unfinished;
use targets::options::{Filter, TargetOptions};

use test_support::daemon::MARK;
use test_support::harness::Tests;
use test_support::program::{gcwatch, written};
use test_support::runtimes::{ALL, CORE_3_1, FETCHED, Host, NET_10, Runtime, need};
use test_support::scene::Scene;
use test_support::supervised::{Run, Supervised};
use test_support::target::{PATIENCE, Start, Target};
use test_support::{add_tests, add_tests_on};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests_on!(tests, FETCHED; the_last_collection_before_a_silence_is_reported);
    add_tests!(tests, need(&FETCHED); processes_come_and_go, settings_are_read);
    add_tests!(
        tests, need(&[NET_10]);
        a_stopped_process_holds_up_nobody,
        options_are_followed,
        two_on_one_host_share,
        the_rest_waits_for_room,
        new_sockets_are_noticed_at_once,
        whoever_connects_is_resumed,
    );
}

/// Its processes have folders of their own: the slow scan finds them, made quick.
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

/// Collects so often; the numbers that the process counts afterwards, by generation.
fn collect(target: &mut Target, times: usize) {
    target.write_line(&format!("collect {times}"));
    target.await_line("collections", |line| line.starts_with("did "));
}

/// Event sessions of a process of .NET 10: it has a thread of that name for each, and one that answers commands.
fn sessions(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with(".NET EventPipe")).count() - 1
}

/// Waits until it has no session: the thread of one that was stopped exits in its own time.
async fn no_session(pid: u32) {
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while sessions(pid) > 0 {
        assert!(std::time::Instant::now() < until, "a session stays behind");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Scenario: processes of all runtimes that are there run at once; one is started while the supervisor runs, one is
/// killed, one ends in order; then the supervisor is asked to stop.
/// Guarantee: all are attached to and read with who they are; the end of one is reported once and disturbs none; no
/// session stays behind, and a later attach works.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn processes_come_and_go() {
    let scene = Scene::begin();
    let supervised = Supervised::start(options(&scene));
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
        // A self-contained 3.1 has its version nowhere.
        let version = run.attributes.get("process.runtime.version").map(String::as_str);
        let expected = runtime.version.or((*runtime == CORE_3_1).then_some("3.1.23"));
        assert_eq!(version, expected, "{}", runtime.name);
        assert_eq!(run.attributes["process.pid"], target.pid().to_string());
        // The entry assembly; of 3.1, which does not report it, and of a host that names itself, the .dll that it was
        // started with.
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
        // The time of a collection is now: within a minute, by the host's clock.
        let gc = run.collections.last().unwrap();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let at = Duration::from_nanos(run.bases[0].unix(targets::clocks().wall()).unix_ns(gc.start.unwrap()));
        assert!(at <= now && now - at < PATIENCE, "{at:?} {now:?}");
    }
    // Started while it runs.
    let late = scene.start(NET_10, "steady").start();
    supervised
        .until(late.pid(), "late", |run| !run.collections.is_empty())
        .await;
    // Killed.
    let (_, mut killed) = targets.remove(0);
    let pid = killed.pid();
    killed.kill();
    let run = supervised.until(pid, "killed", |run| run.ended).await;
    assert_eq!(run.state(), &RunState::Ended);
    // Ends in order.
    let pid = late.pid();
    late.stop();
    supervised.until(pid, "stopped", |run| run.ended).await;
    // The others go on.
    for (runtime, target) in &targets {
        let seen = supervised.run(target.pid()).unwrap().collections.len();
        let more = |run: &Run| run.is_attached() && run.collections.len() > seen;
        supervised.until(target.pid(), runtime.name, more).await;
    }
    let log = supervised.log.clone();
    assert_eq!(supervised.stop().await, Unfinished::default());
    for (runtime, target) in &targets {
        let run = log.run(target.pid()).unwrap();
        assert!(
            matches!(run.state(), RunState::Detached { .. }),
            "{}: {:?}",
            runtime.name,
            run.states
        );
        assert!(!run.ended, "{} lives", runtime.name);
        if *runtime == NET_10 {
            assert_eq!(sessions(target.pid()), 0);
        }
        let file = scene.path("later.nettrace");
        let pid = target.pid().to_string();
        let args = ["record", "--pid", &pid, "--duration", "500ms", "--force", "-o", &file];
        written(gcwatch(args));
    }
}

/// Scenario: a process that does not collect; it is asked to collect, once, and is silent again.
/// Guarantee: the collection is reported although nothing follows it.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_collection_before_a_silence_is_reported(runtime: Runtime) {
    let scene = Scene::begin();
    let mut target = scene.start(runtime, "idle").start();
    let supervised = Supervised::start(options(&scene));
    supervised.until(target.pid(), "attached", Run::is_attached).await;
    // The runtime switches its events on, one by one, after it has said that the session began: of a collection before
    // that it sends nothing. What is seen is reported in this time.
    let seen = |run: &Run| !run.collections.is_empty();
    let mut tries = 0;
    collect(&mut target, 1);
    while !supervised.within(Duration::from_secs(4), target.pid(), seen).await {
        tries += 1;
        assert!(tries < 5, "{runtime:?}: no collection is seen");
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

/// Scenario: one of two processes is stopped while it is read, another before it is attached to; later both go on.
/// Guarantee: the third is read all the time; the stopped ones are read when they go on, and nothing of them is
/// reported twice.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_process_holds_up_nobody() {
    let scene = Scene::begin();
    let [read, stopped, frozen] = ["steady"; 3].map(|mode| scene.start(NET_10, mode).start());
    frozen.freeze();
    let supervised = Supervised::start(options(&scene));
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
        .until(read.pid(), "goes on", |run| run.collections.len() > seen + 2)
        .await;
    assert!(
        supervised.run(stopped.pid()).unwrap().is_attached(),
        "it is silent, no more"
    );
    for target in [&stopped, &frozen] {
        target.signal(Signal::CONT);
        let seen = supervised.run(target.pid()).unwrap().collections.len();
        supervised
            .until(target.pid(), "goes on", |run| run.collections.len() > seen + 2)
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
    assert_eq!(supervised.stop().await, Unfinished::default());
}

/// Scenario: a process is left out; the options change so that it is wanted, and back.
/// Guarantee: it has no session while it is left out, and is never asked; what is wanted all the time keeps its
/// session.
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
    let supervised = Supervised::start(without.clone());
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
    assert_eq!(supervised.stop().await, Unfinished::default());
}

/// Scenario: two supervisors with one folder of leases; the first one ends.
/// Guarantee: a process has one session; the second says who holds it, and takes over when it is free.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn two_on_one_host_share() {
    let scene = Scene::begin();
    let target = scene.start(NET_10, "steady").start();
    let first = Supervised::start(options(&scene));
    first.until(target.pid(), "first", Run::is_attached).await;
    let second = Supervised::start(options(&scene));
    let held = |run: &Run| matches!(run.state(), RunState::HeldElsewhere { .. });
    let run = second.until(target.pid(), "second", held).await;
    let RunState::HeldElsewhere { holder } = run.state() else {
        panic!("{run:?}")
    };
    assert!(holder.contains(&std::process::id().to_string()), "{holder}");
    assert_eq!(sessions(target.pid()), 1);
    assert_eq!(first.stop().await, Unfinished::default());
    second
        .until(target.pid(), "takes over", |run| !run.collections.is_empty())
        .await;
    assert_eq!(sessions(target.pid()), 1);
    assert_eq!(second.stop().await, Unfinished::default());
    assert_eq!(
        std::fs::read_dir(scene.path("leases")).unwrap().count(),
        0,
        "no lease stays behind"
    );
}

/// Scenario: room for one process, and two of them; the one that is read ends.
/// Guarantee: the other one waits, and comes in.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn the_rest_waits_for_room() {
    let scene = Scene::begin();
    let first = scene.start(NET_10, "steady").start();
    let supervised = Supervised::start(TargetOptions {
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
    assert_eq!(supervised.stop().await, Unfinished::default());
}

/// Scenario: a second process makes its socket in a folder where one was found before; `/proc` is read once an hour.
/// Guarantee: it is found by the event.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn new_sockets_are_noticed_at_once() {
    let scene = Scene::begin();
    let first = scene.start(NET_10, "steady").start();
    let supervised = Supervised::start(TargetOptions {
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
    assert_eq!(supervised.stop().await, Unfinished::default());
}

/// Scenario: processes with knobs of the collector on each runtime that is there.
/// Guarantee: from 9 on (CoreCLR) the settings are reported as they are, by a session that is over; elsewhere none are
/// made up. No collection is induced.
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
    let supervised = Supervised::start(options(&scene));
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
            assert_eq!(sessions(target.pid()), 1, "the session for collections");
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
    assert_eq!(supervised.stop().await, Unfinished::default());
}

/// Scenario: processes whose port is ours: one that comes suspended, one that is left out, one for which there is no
/// room.
/// Guarantee: all of them run; the wanted one is read from its first collection on, once, although its own socket is
/// found too.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_connects_is_resumed() {
    let scene = Scene::begin();
    let port = scene.folder().join("port");
    let pointed = |start: Start| start.env("DOTNET_DiagnosticPorts", &format!("{},suspend", port.to_str().unwrap()));
    let supervised = Supervised::start(TargetOptions {
        listen: Some(port.clone()),
        max_targets: 1,
        scan_interval: Duration::from_secs(3600),
        ..options(&scene)
    });
    // Started while nothing listens, it would wait all the same.
    let read = pointed(scene.start(NET_10, "steady")).start();
    let run = supervised
        .until(read.pid(), "read", |run| run.collections.len() > 2)
        .await;
    assert_eq!((run.opened, run.is_attached()), (1, true));
    assert_eq!(run.collections[0].number, 1, "read from the first collection on");
    // `start` waits until the program works: it was resumed.
    let over = pointed(scene.start(NET_10, "steady")).start();
    supervised
        .until(over.pid(), "no room", |run| *run.state() == RunState::OverLimit)
        .await;
    let left_out = pointed(Start::new(NET_10, "steady")).start();
    supervised
        .until(left_out.pid(), "left out", |run| *run.state() == RunState::Excluded)
        .await;
    assert_eq!(supervised.stop().await, Unfinished::default());
    assert!(!port.exists());
}
