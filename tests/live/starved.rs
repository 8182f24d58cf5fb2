//! A process that gets too little CPU time. The account of its stopped time contains the time for which its collections
//! waited for a CPU.

use std::process::{Child, Command, Stdio};

use serde_json::Value;
use test_support::add_tests;
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::NET_10;
use test_support::scene::Scene;
use test_support::target::Target;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; waits_for_cpu_are_accounted);
}

fn need() -> Need {
    NET_10.need()?;
    let missing = |what: &str| Missing::Ignored(format!("this kernel does not measure how long {what}"));
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = counts.split(' ').nth(1).and_then(|waited| waited.parse::<u64>().ok());
    waited.map(drop).ok_or_else(|| missing("threads wait for a CPU"))
}

/// Processes that use all CPUs for a limited time. Their priority is higher than the priority of the starved process,
/// but lower than the default priority of other tests, which run at the same time.
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
            // `timeout` forwards the signal to the shell.
            let pid = burner.id().to_string();
            let _ended = Command::new("kill").arg(pid).status();
            let _reaped = burner.wait();
        }
    }
}

/// Sets the lowest priority for all threads of a process.
fn renice(target: &Target) {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap();
    let tasks = tasks.map(|task| task.unwrap().file_name());
    // `renice` skips threads that have exited.
    let _some = Command::new("renice")
        .args(["-n", "19", "-p"])
        .args(tasks)
        .output()
        .unwrap();
}

/// Returns the part of the stopped time, in nanoseconds, for which threads waited for a CPU, or 0 if the account has no
/// such part.
fn no_cpu(account: &Value) -> i64 {
    let mut parts = account["parts"].as_array().into_iter().flatten();
    let part = parts.find(|part| part["cause"] == "no-cpu");
    part.and_then(|part| part["value"].as_i64()).unwrap_or(0)
}

/// Scenario: a daemon reads a process that allocates; then processes of higher priority use all CPUs, so that
/// collections take long.
/// Guarantee: the daemon attributes more than one fifth of the stopped time to waiting for a CPU, as an estimate. The
/// parts and the unexplained time add up to the total, and each part is positive.
fn waits_for_cpu_are_accounted() {
    let scene = Scene::begin();
    let target = scene.start(NET_10, "steady").spawn();
    let daemon = scene.daemon("");
    let total = |account: &Value| account["total"].as_i64().unwrap_or(0);
    daemon.await_process(target.pid(), "the process is stopped for collections", |record| {
        total(&record["account"]) > 0
    });
    renice(&target);
    let burners = Burners::start();
    let record = daemon.await_process(target.pid(), "the process has no CPU", |record| {
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
