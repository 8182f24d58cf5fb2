//! The id, limits and usage of a container, as the daemon reports them for a real process in control groups.

use test_support::add_tests;
use test_support::daemon::until;
use test_support::groups::{self, Group};
use test_support::harness::{Need, Tests};
use test_support::runtimes::NET_10;
use test_support::scene::Scene;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; limits_and_usage_of_container_are_exported);
}

fn need() -> Need {
    NET_10.need()?;
    groups::need("memory")?;
    groups::need("cpu")
}

/// Scenario: a process of .NET 10 runs in control groups of version 1 that have a memory limit, a CPU quota and the
/// name of a container.
/// Guarantee: the daemon exports the container's id, its limits, a usage of at most the memory limit, and no
/// out-of-memory kills.
fn limits_and_usage_of_container_are_exported() {
    let scene = Scene::begin();
    let [memory, cpu] = ["memory", "cpu"].map(|controller| Group::new(controller, scene.mark()).unwrap());
    memory.write("memory.limit_in_bytes", 209_715_200);
    cpu.write("cpu.cfs_quota_us", 50_000);
    let target = scene.start(NET_10, "storm").spawn();
    for group in [&memory, &cpu] {
        group.take(target.pid());
    }
    let daemon = scene.daemon("");
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
    assert!(text.contains(&format!("container_id=\"{}\"", memory.id)), "{text}");
    drop(daemon);
    drop(target);
}
