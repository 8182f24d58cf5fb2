//! A process without a CPU: what its collections waited for one is in the account of its stopped time.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use test_support::add_tests;
use test_support::daemon::{ANY, Daemon, MARK, command, marked};
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::NET_10;
use test_support::target::{PATIENCE, Start, Target};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; waits_for_a_cpu_are_in_the_account);
}

fn need() -> Need {
    NET_10.need()?;
    let missing = |what: &str| Missing::Ignored(format!("this kernel does not count for how long {what}"));
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = counts.split(' ').nth(1).and_then(|waited| waited.parse::<u64>().ok());
    waited.map(drop).ok_or_else(|| missing("threads wait for a CPU"))
}

/// Processes that use all CPUs, for a while at most. They come after everybody but the process that is to wait for
/// them: other tests run beside this one.
struct Burners(Vec<Child>);

impl Burners {
    fn start() -> Self {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let burner = |_| {
            let mut command = Command::new("nice");
            command
                .args(["-n", "15", "timeout", "60", "sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null());
            command.spawn().unwrap()
        };
        Self((0..2 * cpus).map(burner).collect())
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for burner in &mut self.0 {
            // `timeout` passes it on.
            let pid = burner.id().to_string();
            let _ended = Command::new("kill").arg(pid).status();
            let _reaped = burner.wait();
        }
    }
}

/// All of its threads come after everybody else's.
fn renice(target: &Target) {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap();
    let tasks = tasks.map(|task| task.unwrap().file_name());
    // One that ended meanwhile is none.
    let _some = Command::new("renice")
        .args(["-n", "19", "-p"])
        .args(tasks)
        .output()
        .unwrap();
}

/// The account of its stopped time, and what of it is without a CPU.
fn account(daemon: &Daemon, pid: u32) -> (Value, i64) {
    let (_, record) = daemon.get(&format!("/api/v1/processes/{pid}"));
    let record: Value = serde_json::from_str(&record).unwrap_or_default();
    let account = record["account"].clone();
    let parts = account["parts"].as_array().cloned().unwrap_or_default();
    let part = parts.iter().find(|part| part["cause"] == "no-cpu");
    let ns = part.and_then(|part| part["value"].as_i64()).unwrap_or(0);
    (account, ns)
}

/// Scenario: a process that allocates, read by the daemon; then all CPUs get so much to do that is more important that
/// its collections take long.
/// Guarantee: a fifth and more of its stopped time is waiting for a CPU, as an estimate; all parts add up, and none is
/// negative.
fn waits_for_a_cpu_are_in_the_account() {
    let mark = format!("starved-{}", std::process::id());
    let target = Start::new(NET_10, "steady").env(MARK, &mark).spawn();
    let folder = TempDir::new().unwrap();
    let gcwatch = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
    let daemon = Daemon::start(command(gcwatch, folder.path(), ANY, &marked(&mark)));
    let until = Instant::now() + PATIENCE;
    let await_that = |what: &str, is: &dyn Fn(&Value, i64) -> bool| {
        loop {
            let (account, no_cpu) = account(&daemon, target.pid());
            if is(&account, no_cpu) {
                return account;
            }
            assert!(Instant::now() < until, "{what}: {account}");
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    await_that("it is stopped for collections", &|account, _| {
        account["total"].as_i64() > Some(0)
    });
    renice(&target);
    let burners = Burners::start();
    let account = await_that("it has no CPU", &|account, no_cpu| {
        let total = account["total"].as_i64().unwrap_or(0);
        no_cpu > total / 5 && no_cpu > 100_000_000
    });
    drop(burners);
    let parts = account["parts"].as_array().unwrap();
    let value = |part: &Value| part["value"].as_i64().unwrap();
    assert!(parts.iter().all(|part| value(part) > 0), "{account}");
    let sum: i64 = parts.iter().map(value).sum();
    assert_eq!(
        sum + account["unexplained"].as_i64().unwrap(),
        account["total"].as_i64().unwrap(),
        "{account}"
    );
    let no_cpu = parts.iter().find(|part| part["cause"] == "no-cpu").unwrap();
    assert_eq!(no_cpu["kind"], "estimated", "{account}");
    println!("{account}");
}
