//! gcwatch finds short-lived processes in other mount namespaces.

use std::process::{Command, Stdio};
use std::time::Duration;

use base::pattern::Pattern;
use targets::options::{Filter, TargetOptions};
use test_support::add_tests;
use test_support::daemon::MARK;
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::NET_10;
use test_support::scene::Scene;
use test_support::supervised::TestSupervisor;

use crate::is_full;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; processes_with_private_tmp_are_found);
}

/// Lifetime of the processes, in seconds.
const SECONDS: u32 = 3;
/// Maximum time until gcwatch reports a collection of a process that has started or exited.
const REPORTED_TIMEOUT: Duration = Duration::from_secs(5);

fn need() -> Need {
    NET_10.need()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::Ignored("this test needs root".to_owned()));
    }
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "--propagation", "private", "true"])
        .stderr(Stdio::null());
    let works = unshare.status().is_ok_and(|status| status.success());
    works
        .then_some(())
        .ok_or_else(|| Missing::Ignored("unshare (util-linux) is missing, or refused".to_owned()))
}

/// Returns options for the processes of a scene. gcwatch scans `/proc` only once per hour, so gcwatch must detect the
/// start of each process in another way.
pub(crate) fn options(scene: &Scene) -> TargetOptions {
    TargetOptions {
        include: vec![Filter {
            environment: vec![(MARK.to_owned(), Pattern(scene.mark().to_owned()))],
            ..Filter::default()
        }],
        lease_folder: scene.folder().join("leases"),
        scan_interval: Duration::from_secs(3600),
        ..TargetOptions::default()
    }
}

/// Scenario: after a first scan of `/proc`, processes start one after the other and run for three seconds. Each process
/// has a socket directory that only this process can see.
/// Guarantee: gcwatch attaches to each process and reports at least one collection of it.
#[tokio::main(flavor = "multi_thread")]
async fn processes_with_private_tmp_are_found() {
    let count = if is_full() { 40 } else { 6 };
    let scene = Scene::begin();
    let mut start = scene.start(NET_10, "steady");
    // The first scan has finished as soon as this process is attached to.
    let first = start.start();
    let supervised = TestSupervisor::start(options(&scene));
    supervised.until(first.pid(), "attached", |run| run.is_attached()).await;

    start.seconds = SECONDS;
    start.own_folder = true;
    let mut targets = Vec::new();
    for _ in 0..count {
        // The test waits until each process works, so that the starts do not delay each other.
        let one = start.clone();
        targets.push(tokio::task::spawn_blocking(move || one.start()).await.unwrap());
    }
    let mut missed = Vec::new();
    for target in &targets {
        let seen = |run: &test_support::supervised::Run| !run.collections.is_empty();
        if !supervised.within(REPORTED_TIMEOUT, target.pid(), seen).await {
            missed.push((target.pid(), supervised.run(target.pid()).map(|run| run.states)));
        }
    }
    assert!(
        missed.is_empty(),
        "{} of {count} processes were not found: {missed:?}",
        missed.len()
    );
    supervised.stop().await;
}
