//! Recordings of incidents have few places: who makes many loses their own.

use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::{Daemon, await_that, until};
use test_support::harness::Tests;
use test_support::scene::Scene;

use crate::flooded::{self, Runtime};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); a_crash_loop_pushes_out_nobodys_recording);
}

/// How many recordings there may be.
const PLACES: usize = 4;

/// The recordings that are complete.
fn recordings(daemon: &Daemon) -> Vec<Value> {
    daemon.list("/api/v1/evidence/", "evidence")
}

/// What the incident of a process says of its recording, as soon as it has one.
fn recorded(daemon: &Daemon, pid: u32) -> (String, String) {
    until("an incident with a recording", || {
        let incidents = daemon.json("/api/v1/incidents");
        let incident = incidents["incidents"]
            .as_array()?
            .iter()
            .find(|one| one["pid"] == pid)?
            .clone();
        let evidence = incident["evidence"]
            .as_array()?
            .iter()
            .find(|one| one["name"] == "black-box")?
            .clone();
        let text = |name: &str| evidence[name].as_str().map(str::to_owned);
        text("where").zip(text("text"))
    })
}

/// Scenario: a process of one service has an incident that is recorded; then one of another service begins again and
/// again, has the same incident each time and is killed, more often than there are places.
/// Guarantee: the loop has one recording, which its later incidents name as what it is; that of the first service
/// stays.
fn a_crash_loop_pushes_out_nobodys_recording() {
    let scene = Scene::begin();
    let rule = scene.any(false, "severity: error");
    let places = format!("evidence: {{black_box: {{max_files: {PLACES}}}}}\n");
    let daemon = flooded::daemon(&scene, &format!("{rule}{places}{}", scene.state()));
    let honest = Runtime::start(&scene, "well-behaved");
    let (of_honest, _) = recorded(&daemon, honest.pid());
    await_that("the recording of the honest one", || recordings(&daemon).len() == 1);
    let mut named = Vec::new();
    for _ in 0..2 * PLACES {
        let looping = Runtime::start(&scene, "burst");
        named.push(recorded(&daemon, looping.pid()));
    }
    let urls = || -> Vec<String> {
        let all = recordings(&daemon);
        all.iter().map(|one| one["url"].as_str().unwrap().to_owned()).collect()
    };
    let (first, _) = named[0].clone();
    await_that("the recording of the loop", || urls().contains(&first));
    assert!(urls().contains(&of_honest), "{:?}", urls());
    assert_eq!(urls().len(), 2, "{:?}", urls());
    for (place, text) in &named[1..] {
        assert_eq!(*place, first);
        assert!(text.contains("of an earlier one"), "{text}");
    }
}
