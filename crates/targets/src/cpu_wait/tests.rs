//! Tests with fake files of `/proc`, and with readings and suspensions at given times.

use std::path::Path;

use clr_gc::gc::{Account, Cause, StopEdges};

use super::*;

const MS: i64 = 1_000_000;

fn between(over: i64, ran: i64, waited: i64) -> ThreadActivity {
    let ns = |ms: i64| u64::try_from(ms * MS).unwrap();
    ThreadActivity {
        over: ns(over),
        ran: ns(ran),
        waited: ns(waited),
        faults: Some(0),
        given: 0,
    }
}

/// Returns the milliseconds without a CPU in a suspension of this length.
fn wait_ms(length: i64, between: ThreadActivity) -> Option<u64> {
    let length = u64::try_from(length * MS).unwrap();
    between.wait_during(length).map(|waited| waited.ns / 1_000_000)
}

/// Scenario: a suspension of 100 ms lies within 500 ms. Within the 500 ms, the thread runs all the time, waits evenly
/// for 250 ms, waits for 450 ms, waits for 10 ms and mostly sleeps, only collects and waits for 40 ms, or is not
/// counted. Other suspensions take 300 ms within 500 ms, and 300 ms within 300 ms.
/// Guarantee: the estimate is at most the wait and at most the suspension, at least the part of the wait that does not
/// fit outside the suspension, and proportional in between; it is unknown without counters.
#[test]
fn estimate_is_within_bounds() {
    assert_eq!(wait_ms(100, between(500, 500, 0)), Some(0));
    assert_eq!(wait_ms(100, between(500, 250, 250)), Some(50));
    assert_eq!(wait_ms(100, between(500, 50, 450)), Some(90));
    assert_eq!(wait_ms(300, between(500, 150, 350)), Some(210));
    assert_eq!(wait_ms(100, between(500, 20, 10)), Some(10));
    assert_eq!(wait_ms(100, between(500, 60, 40)), Some(40));
    assert_eq!(wait_ms(100, between(500, 0, 0)), None);
    assert_eq!(wait_ms(300, between(300, 200, 100)), Some(100));
    // Time that was attributed to another suspension is not attributed again.
    let given = ThreadActivity {
        given: 240 * 1_000_000,
        ..between(500, 250, 250)
    };
    assert_eq!(wait_ms(100, given), Some(10));
}

/// Scenario: a thread is ready for 60 ms of a suspension of 100 ms; for the rest, it waits without a page fault, with 3
/// page faults, or with 100.
/// Guarantee: the paging time is at most the time that the pages can take, and at most the rest of the suspension.
#[test]
fn page_faults_are_bounded() {
    let paging = |faults| {
        let between = ThreadActivity {
            faults: Some(faults),
            ..between(500, 50, 10)
        };
        between
            .wait_during(100_000_000)
            .map(|waited| waited.paging_ns / 1_000_000)
    };
    assert_eq!([0, 3, 100].map(paging), [Some(0), Some(30), Some(40)]);
}

/// Scenario: the files of threads have arbitrary names, come from a kernel that does not count, or are invalid.
/// Guarantee: the figures after the name are parsed, and `0 0 0` is unknown.
#[test]
fn kernel_files_are_parsed() {
    assert_eq!(sched("1903834 562672 4\n"), Some((1_903_834, 562_672)));
    assert_eq!(["0 0 0\n", "", "5", "x y z"].map(sched), [None; 4]);
    let stat = "16 (.NET ) R (x) S 1 2 3 4 5 6 7 8 77 10 11 12 13 14 15 16 17 18 4242 20\n";
    assert_eq!(task_stat(stat), Some((77, 4242)));
    assert_eq!(task_stat("16 (.NET) S 1 2"), None);
}

/// Threads of a fake process.
struct Scene {
    folder: tempfile::TempDir,
    began: Instant,
    readings: Readings,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let readings = Readings::new(folder.path().to_path_buf(), began);
        Self {
            folder,
            began,
            readings,
        }
    }

    /// Adds a thread with an id in gcwatch's namespace (`folder`) and an id in its own namespace (`own`).
    fn thread(&self, folder: u64, own: u64, name: &str) {
        let path = self.folder.path().join(folder.to_string());
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("comm"), format!("{name}\n")).unwrap();
        std::fs::write(path.join("status"), format!("Name:\tx\nNSpid:\t{folder}\t{own}\n")).unwrap();
        self.count(folder, 1, 0);
    }

    /// Sets the milliseconds that the thread has run and waited.
    fn count(&self, folder: u64, ran: i64, waited: i64) {
        self.put(folder, &format!("{} {} 9\n", ran * MS, waited * MS), 500);
    }

    fn put(&self, folder: u64, schedstat: &str, started: u64) {
        let path = self.folder.path().join(folder.to_string());
        std::fs::write(path.join("schedstat"), schedstat).unwrap();
        let stat = format!("{folder} (x) S 1 2 3 4 5 6 7 8 0 10 11 12 13 14 15 16 17 18 {started} 20\n");
        std::fs::write(path.join("stat"), stat).unwrap();
    }

    fn now(&self, ms: i64) -> Instant {
        self.began + Duration::from_millis(ms.unsigned_abs())
    }

    fn read(&mut self, ms: i64) {
        let now = self.now(ms);
        self.readings.read(now, ms * MS, None);
    }

    /// Simulates a suspension by this thread that is reported at `heard`. Returns its account and the reason.
    fn stop(&mut self, thread: u64, kind: PauseKind, (from, to): (i64, i64), heard: i64) -> (Account, Option<CpuWait>) {
        let length = (to - from) * MS;
        let mut pauses = [Pause {
            edges: StopEdges {
                thread,
                ..StopEdges::default()
            },
            account: Account::from_parts([(Cause::Plan, length)], length),
            ..Pause::alone(from * MS, length, Some(0), kind)
        }];
        let now = self.now(heard);
        let why = self.readings.judge(&mut pauses, now, heard * MS, None);
        let account = pauses[0].account.unwrap();
        assert_eq!(account.total(), length);
        (account, why)
    }

    /// Returns the milliseconds without a CPU.
    fn no_cpu(&mut self, thread: u64, span: (i64, i64), heard: i64) -> Option<i64> {
        let (account, _) = self.stop(thread, PauseKind::Blocking, span, heard);
        account.get(Cause::NoCpu).map(|ns| ns / MS)
    }
}

/// Scenario: thread 7 of a process in a container has id 1007 in gcwatch's namespace. It suspends the others for about
/// 100 ms: for the first time, then with half of the time without a CPU, then twice between two readings, then without
/// any wait. Then its counters decrease because another thread has its id, and then the kernel stops counting.
/// Guarantee: the first suspension is unknown; then the estimate is returned, in total never more than the wait; a
/// suspension without a wait has a wait of 0; after the id was reused, the result is unknown again.
#[test]
fn thread_is_tracked_by_own_id() {
    let mut scene = Scene::new();
    scene.thread(1007, 7, "my thread");
    scene.thread(1008, 8, ".NET TP Worker");
    assert_eq!(scene.no_cpu(7, (0, 100), 200), None);
    scene.count(1007, 101, 100);
    assert_eq!(scene.no_cpu(7, (250, 350), 400), Some(50));
    scene.count(1007, 111, 200);
    assert_eq!(scene.no_cpu(7, (410, 500), 600), Some(81));
    // The other suspension between the same readings gets the rest of the wait.
    assert_eq!(scene.no_cpu(7, (500, 590), 600), Some(18));
    scene.count(1007, 250, 200);
    assert_eq!(scene.no_cpu(7, (610, 700), 800), Some(0));
    // Thread 8 has not suspended the others before.
    assert_eq!(scene.no_cpu(8, (810, 900), 1000), None);
    scene.put(1007, "5000000 0 1\n", 900);
    assert_eq!(scene.no_cpu(7, (1010, 1100), 1200), None);
    scene.put(1007, "0 0 0\n", 900);
    assert_eq!(scene.no_cpu(7, (1210, 1300), 1400), None);
}

/// Scenario: server GC has two heaps, and the thread of the second heap waits; then the thread of a background
/// collection waits in its last suspension; then a thread of the program and a thread of its pool cause blocking
/// suspensions.
/// Guarantee: the thread with the longest wait counts, among the threads that collect.
#[test]
fn longest_waiting_thread_counts() {
    let mut scene = Scene::new();
    for (thread, name) in [(20, SERVER), (21, SERVER), (30, BACKGROUND), (40, "main"), (50, WORKER)] {
        scene.thread(thread, thread, name);
    }
    scene.read(0);
    scene.count(20, 41, 5);
    scene.count(21, 11, 60);
    scene.count(30, 1, 70);
    assert_eq!(scene.no_cpu(20, (50, 150), 200), Some(60));
    scene.count(30, 11, 160);
    scene.count(20, 81, 5);
    scene.count(21, 81, 60);
    let (account, why) = scene.stop(20, PauseKind::Final, (250, 350), 400);
    assert_eq!(account.get(Cause::NoCpu), Some(90 * MS));
    assert_eq!(
        (account.get(Cause::Plan), account.kind(Cause::Plan)),
        (Some(10 * MS), clr_gc::gc::PartKind::Estimated)
    );
    let none = CpuWait {
        throttled_ns: None,
        page_faults: Some(0),
    };
    assert_eq!(why, Some(none));
    assert_eq!(scene.no_cpu(40, (410, 500), 600), None);
    // A thread of the pool is read before it has ever suspended the others, but without its page faults.
    scene.count(50, 91, 10);
    let (account, why) = scene.stop(50, PauseKind::Blocking, (610, 700), 800);
    assert_eq!(account.get(Cause::NoCpu), Some(9 * MS));
    assert_eq!(why.and_then(|why| why.page_faults), None);
}

/// Scenario: readings at 0 s and 10 s surround a suspension that began at 9 s; then the process exits.
/// Guarantee: the old reading is not used, and the suspension of the exited process is unknown.
#[test]
fn old_reading_is_ignored() {
    let mut scene = Scene::new();
    scene.thread(5, 5, "main");
    assert_eq!(scene.no_cpu(5, (-200, -100), 0), None);
    scene.count(5, 500, 500);
    assert_eq!(scene.no_cpu(5, (9_000, 9_100), 10_000), None);
    std::fs::remove_dir_all(scene.folder.path().join("5")).unwrap();
    assert_eq!(scene.no_cpu(5, (10_050, 10_100), 10_200), None);
    assert!(scene.readings.threads.is_empty());
    assert!(!Path::new(&scene.readings.tasks).join("5").exists());
}

/// Scenario: a limit throttles the group for 60 ms of CPU time within 200 ms, of which a suspension took 100 ms; then
/// the throttled time is longer than the elapsed time, because it is a sum over CPUs.
/// Guarantee: the suspension gets its share, and never more than its length.
#[test]
fn throttling_is_divided_by_time() {
    let ns = |ms: u64| ms * 1_000_000;
    assert_eq!(apportion_throttling(ns(60), ns(200), ns(100)), ns(30));
    assert_eq!(apportion_throttling(ns(900), ns(200), ns(100)), ns(100));
    assert_eq!(apportion_throttling(ns(0), ns(0), ns(0)), 0);
}

/// Scenario: a process has more heaps and more pool threads than are read; then other threads suspend the rest one
/// after another.
/// Guarantee: at most the maximum number of threads is read, including the heaps; the thread that was used last is
/// read.
#[test]
fn number_of_read_threads_is_bounded() {
    let mut scene = Scene::new();
    for thread in 100..120 {
        scene.thread(thread, thread, SERVER);
    }
    for thread in 200..250 {
        scene.thread(thread, thread, if thread < 230 { WORKER } else { "main" });
    }
    scene.read(0);
    assert_eq!(scene.readings.threads.len(), MAX_THREADS_READ);
    for thread in 220..250 {
        let heard = i64::try_from(thread).unwrap();
        let _unknown = scene.no_cpu(thread, (heard, heard), heard);
    }
    let threads = &scene.readings.threads;
    let servers = threads.iter().filter(|thread| thread.role == Role::Server).count();
    assert_eq!((threads.len(), servers), (MAX_THREADS_READ, MAX_SERVER));
    assert!(threads.iter().any(|thread| thread.number == 249));
}

/// Scenario: a process has suspensions of 10 ms: two within a second, then three within another second.
/// Guarantee: readings start only when the suspensions add up, continue for a while, and then stop.
#[test]
fn short_stops_cause_no_readings() {
    let mut waits = CpuWaits::new(None, Threads::default());
    let began = Instant::now();
    let later = |ms| began + Duration::from_millis(ms);
    assert!([0, 400].into_iter().all(|ms| !waits.is_worth_it(10 * MS, later(ms))));
    assert!(!waits.is_worth_it(10 * MS, later(1_000)));
    assert!(!waits.is_worth_it(10 * MS, later(1_300)));
    assert!(waits.is_worth_it(10 * MS, later(1_500)));
    waits.readings = Some(Box::new(Readings::new(PathBuf::from("/nowhere"), began)));
    waits.readings.as_mut().unwrap().until = later(500);
    waits.tick(later(400), Some(1));
    assert_eq!(waits.next(), Some(later(400) + READ_INTERVAL));
    waits.tick(later(600), Some(2));
    assert_eq!(waits.next(), None);
}

/// Scenario: the path of a process's control group leads through a file system that never responds; then the thread
/// that searches for the group exits without a result; the process has long suspensions for more than a minute.
/// Guarantee: no task waits for the thread, only one thread at a time searches, and the search is repeated after a
/// minute, because a process can get a limit while it runs.
#[test]
fn search_for_limit_is_repeated() {
    let (thread, asked) = oneshot::channel();
    let mut limit = Limit::new(Threads::default());
    let began = Instant::now();
    (limit.asked, limit.asked_at) = (Some(asked), Some(began));
    let run = RunKey { pid: 9, start_time: 1 };
    limit.ask(run, began + 2 * ASK_AGAIN);
    assert!(limit.known().is_none() && limit.asked.is_some());
    assert_eq!(limit.asked_at, Some(began), "the first search is still running");
    drop(thread);
    assert!(limit.known().is_none() && limit.asked.is_none());
    limit.ask(run, began + ASK_AGAIN / 2);
    assert!(limit.asked.is_none(), "a minute has not passed");
    limit.ask(run, began + ASK_AGAIN);
    assert!(limit.asked.is_some());
}
