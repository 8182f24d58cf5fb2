//! A real process in a container's control groups, as the daemon reports it: the container's id, limits and usage.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use test_support::add_tests;
use test_support::daemon::{ANY, Daemon, command, marked, until};
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::NET_10;
use test_support::target::{PATIENCE, Start};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; limits_and_usage_of_a_container_are_exported);
}

fn need() -> Need {
    NET_10.need()?;
    let groups = Groups::new(&format!("{:064x}", u64::from(std::process::id()) << 32));
    let missing = || Missing::Ignored("no control groups of version 1 can be made here".to_owned());
    groups.map(drop).ok_or_else(missing)
}

/// Groups of version 1 of this machine that are named as Docker's are, removed at the end.
struct Groups(Vec<PathBuf>);

impl Groups {
    /// `None`: this machine or this user cannot make them.
    fn new(id: &str) -> Option<Self> {
        let mut groups = Self(Vec::new());
        for (controller, file, value) in [
            ("memory", "memory.limit_in_bytes", "209715200"),
            ("cpu", "cpu.cfs_quota_us", "50000"),
        ] {
            let parent = PathBuf::from("/sys/fs/cgroup").join(controller).join("gcwatch-test");
            std::fs::create_dir_all(&parent).ok()?;
            let path = parent.join(format!("docker-{id}.scope"));
            std::fs::create_dir(&path).ok()?;
            groups.0.push(path.clone());
            std::fs::write(path.join(file), value).ok()?;
        }
        Some(groups)
    }

    fn take(&self, pid: u32) {
        for group in &self.0 {
            std::fs::write(group.join("cgroup.procs"), pid.to_string()).unwrap();
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in &self.0 {
            // A process that has just ended may still be in it.
            let until = Instant::now() + PATIENCE;
            while std::fs::remove_dir(group).is_err() && group.exists() && Instant::now() < until {
                std::thread::yield_now();
            }
            // The last test that is in it removes it.
            let _others = group.parent().map(std::fs::remove_dir);
        }
    }
}

/// Scenario: a process of .NET 10 in groups of version 1 with a memory limit and a CPU quota, which are named as a
/// container's.
/// Guarantee: the daemon exports the container's id, its limits and what it uses, below the limit.
fn limits_and_usage_of_a_container_are_exported() {
    let id = format!("{:064x}", std::process::id());
    let groups = Groups::new(&id).unwrap();
    let folder = tempfile::Builder::new().prefix("gcwatch-container").tempdir().unwrap();
    let mark = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    let target = Start::new(NET_10, "storm").env("GCWATCH_TEST_MARK", &mark).spawn();
    groups.take(target.pid());
    let gcwatch = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
    let daemon = Daemon::start(command(gcwatch, folder.path(), ANY, &marked(&mark)));
    let text = until("the limits of the container", || {
        let (_, text) = daemon.get("/metrics");
        text.contains("gcwatch_container_memory_limit_bytes{").then_some(text)
    });
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    assert_eq!(value("gcwatch_container_memory_limit_bytes"), 209_715_200.0);
    assert_eq!(value("gcwatch_container_cpu_limit"), 0.5);
    let (usage, working_set) = (
        value("gcwatch_container_memory_usage_bytes"),
        value("gcwatch_container_memory_working_set_bytes"),
    );
    assert!(
        working_set > 0.0 && working_set <= usage && usage <= 209_715_200.0,
        "{working_set} {usage}"
    );
    assert_eq!(value("gcwatch_container_memory_oom_kills_total"), 0.0);
    assert!(text.contains(&format!("container_id=\"{id}\"")), "{text}");
    drop(daemon);
    drop(target);
}
