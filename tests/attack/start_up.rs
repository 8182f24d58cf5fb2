//! Processes that live for seconds are seen, in whatever namespaces they are.

use std::process::{Command, Stdio};
use std::time::Duration;

use base::pattern::Pattern;
use targets::options::{Filter, TargetOptions};
use test_support::add_tests;
use test_support::daemon::MARK;
use test_support::harness::{Missing, Need, Tests};
use test_support::runtimes::NET_10;
use test_support::scene::Scene;
use test_support::supervised::Supervised;

use crate::is_full;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; processes_with_a_tmp_of_their_own_are_seen);
}

/// How long they live.
const SECONDS: u32 = 3;
/// How long what was read of one may take to be reported after it ended.
const REPORTED_WITHIN: Duration = Duration::from_secs(5);

fn need() -> Need {
    NET_10.need()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::Ignored("it needs root".to_owned()));
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

/// Options for the processes of a scene, which nothing but their start makes known: `/proc` is looked through once an
/// hour.
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

/// Scenario: after a first look through `/proc`, processes start one after the other, each with a directory of sockets
/// that only it sees, and live for three seconds.
/// Guarantee: each is attached to, and collections of each are reported.
#[tokio::main(flavor = "multi_thread")]
async fn processes_with_a_tmp_of_their_own_are_seen() {
    let count = if is_full() { 40 } else { 6 };
    let scene = Scene::begin();
    let mut start = scene.start(NET_10, "steady");
    // The first look is over when this one is attached to.
    let first = start.start();
    let supervised = Supervised::start(options(&scene));
    supervised.until(first.pid(), "attached", |run| run.is_attached()).await;

    start.seconds = SECONDS;
    start.own_folder = true;
    let mut targets = Vec::new();
    for _ in 0..count {
        // Each is waited for until it works, so that they do not keep each other from starting.
        let one = start.clone();
        targets.push(tokio::task::spawn_blocking(move || one.start()).await.unwrap());
    }
    let mut missed = Vec::new();
    for target in &targets {
        let seen = |run: &test_support::supervised::Run| !run.collections.is_empty();
        if !supervised.within(REPORTED_WITHIN, target.pid(), seen).await {
            missed.push((target.pid(), supervised.run(target.pid()).map(|run| run.states)));
        }
    }
    assert!(
        missed.is_empty(),
        "{} of {count} were not seen: {missed:?}",
        missed.len()
    );
    supervised.stop().await;
}
