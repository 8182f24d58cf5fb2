//! A real process in a container's control groups, as the daemon reports it: the container's id, limits and usage.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use test_support::add_tests;
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

/// The daemon, killed at the end.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
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
    let config = folder.path().join("gcwatch.yaml");
    let leases = folder.path().join("leases");
    let text = format!(
        "targets: {{include: [{{environment: {{GCWATCH_TEST_MARK: '{mark}'}}}}], lease_folder: {}, scan_interval: 1s}}\notlp: {{enabled: false}}\n\
         listen: 127.0.0.1:0\n",
        leases.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_gcwatch"));
    daemon
        .arg("run")
        .arg("--config")
        .arg(&config)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut daemon = Daemon(daemon.spawn().unwrap());
    let mut lines = BufReader::new(daemon.0.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let line = lines.find(|line| line.contains("listening at http://")).unwrap();
    let address = line
        .split("http://")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    // What it says later must not fill the pipe.
    let reader = std::thread::spawn(move || lines.for_each(drop));

    let until = Instant::now() + PATIENCE;
    let text = loop {
        let text = metrics(&address);
        if text.contains("gcwatch_container_memory_limit_bytes{") {
            break text;
        }
        assert!(Instant::now() < until, "{text}");
        std::thread::sleep(Duration::from_millis(200));
    };
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
    reader.join().unwrap();
    drop(target);
}
