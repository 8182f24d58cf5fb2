//! A process without a CPU: what its collections waited for one is in the account of its stopped time.

use std::process::{Child, Command, Stdio};

use serde_json::Value;
use test_support::add_tests;
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::NET_10;
use test_support::scene::Scene;
use test_support::target::Target;

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

/// What of the account of its stopped time is without a CPU.
fn no_cpu(account: &Value) -> i64 {
    let mut parts = account["parts"].as_array().into_iter().flatten();
    let part = parts.find(|part| part["cause"] == "no-cpu");
    part.and_then(|part| part["value"].as_i64()).unwrap_or(0)
}

/// Scenario: a process that allocates, read by the daemon; then all CPUs get so much to do that is more important that
/// its collections take long.
/// Guarantee: a fifth and more of its stopped time is waiting for a CPU, as an estimate; all parts add up, and none is
/// negative.
fn waits_for_a_cpu_are_in_the_account() {
    let scene = Scene::begin();
    let target = scene.start(NET_10, "steady").spawn();
    let daemon = scene.daemon("");
    let total = |account: &Value| account["total"].as_i64().unwrap_or(0);
    daemon.await_process(target.pid(), "it is stopped for collections", |record| {
        total(&record["account"]) > 0
    });
    renice(&target);
    let burners = Burners::start();
    let record = daemon.await_process(target.pid(), "it has no CPU", |record| {
        let (account, no_cpu) = (&record["account"], no_cpu(&record["account"]));
        no_cpu > total(account) / 5 && no_cpu > 100_000_000
    });
    let account = &record["account"];
    drop(burners);
    let parts = account["parts"].as_array().unwrap();
    let value = |part: &Value| part["value"].as_i64().unwrap();
    assert!(parts.iter().all(|part| value(part) > 0), "{account}");
    let sum: i64 = parts.iter().map(value).sum();
    assert_eq!(
        sum + account["unexplained"].as_i64().unwrap(),
        total(account),
        "{account}"
    );
    let no_cpu = parts.iter().find(|part| part["cause"] == "no-cpu").unwrap();
    assert_eq!(no_cpu["kind"], "estimated", "{account}");
    println!("{account}");
}
