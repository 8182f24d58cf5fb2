//! A limited number of recordings of incidents: a service with many incidents does not displace the recordings of other
//! services.

use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::{Daemon, await_that, until};
use test_support::harness::Tests;
use test_support::scene::Scene;

use crate::flooded::{self, Runtime};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); crash_loop_does_not_displace_other_recordings);
}

/// Maximum number of recordings.
const PLACES: usize = 4;

/// Returns the complete recordings.
fn recordings(daemon: &Daemon) -> Vec<Value> {
    daemon.list("/api/v1/evidence/", "evidence")
}

/// Waits for the recording in the incident of a process. Returns the URL of the recording and its text in the incident.
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

/// Scenario: an incident of one service is recorded; then a process of another service repeatedly starts, has the same
/// incident and is killed, more often than the maximum number of recordings.
/// Guarantee: the crash loop has one recording, and its later incidents refer to this recording as the recording of an
/// earlier incident. The recording of the first service stays.
fn crash_loop_does_not_displace_other_recordings() {
    let scene = Scene::begin();
    let rule = scene.any(false, "severity: error");
    let places = format!("evidence: {{black_box: {{max_files: {PLACES}}}}}\n");
    let daemon = flooded::daemon(&scene, &format!("{rule}{places}{}", scene.state()));
    let honest = Runtime::start(&scene, "well-behaved");
    let (of_honest, _) = recorded(&daemon, honest.pid());
    await_that("the recording of the first service", || recordings(&daemon).len() == 1);
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
        assert!(text.contains("of an earlier incident"), "{text}");
    }
}
