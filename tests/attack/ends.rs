//! Alerts about exiting processes, and about gcwatch itself after a stall.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use test_support::add_tests;
use test_support::daemon::{Daemon, until};
use test_support::harness::Tests;
use test_support::runtimes::{NET_10, need};
use test_support::scene::Scene;
use test_support::target::{TIMEOUT, Target};

use crate::serving;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(
        tests, need(&[NET_10]);
        crash_loop_is_one_alert,
        rollout_causes_no_alert,
        stall_is_attributed_to_gcwatch,
    );
}

/// The limit of the heap, 96 MB.
const LIMIT: &[(&str, &str)] = &[("GCHeapHardLimit", "0x6000000")];

/// Returns the rule and the pid of each firing alert.
fn alerts(daemon: &Daemon) -> BTreeSet<(String, u64)> {
    let alerts = daemon.list("/api/v1/alerts", "alerts").into_iter();
    let of = |alert: Value| {
        let rule = alert["rule"].as_str().unwrap().to_owned();
        (rule, alert["pid"].as_u64().unwrap())
    };
    alerts.map(of).collect()
}

/// Waits until the firing alerts satisfy `fits`. Returns these alerts.
fn await_alerts(
    daemon: &Daemon,
    what: &str,
    fits: impl Fn(&BTreeSet<(String, u64)>) -> bool,
) -> BTreeSet<(String, u64)> {
    until(what, || Some(alerts(daemon)).filter(&fits))
}

fn full(scene: &Scene) -> Target {
    scene.start(NET_10, "sohoos").knobs(LIMIT).start()
}

/// Waits until the rule `memory.exhausted` fires for the process.
fn await_emergency(daemon: &Daemon, pid: u32) {
    let severe = ["memory.exhausted"];
    await_alerts(daemon, "an emergency", |alerts| {
        let mut alerts = alerts.iter();
        alerts.any(|(rule, of)| *of == u64::from(pid) && severe.contains(&&**rule))
    });
}

fn await_gone(daemon: &Daemon, pid: u32) {
    daemon.await_target(pid, "the exit", Value::is_null);
}

/// Scenario: a program fills its heap to the limit and is killed (SIGKILL). This happens to four processes, one after
/// the other.
/// Guarantee: each of the first two kills causes only the note `service.died-in-emergency`. From the third kill on, one
/// alert about a crash loop fires, and no other alert about the service.
fn crash_loop_is_one_alert() {
    let scene = Scene::begin();
    let daemon = serving::start(&scene, "");
    for round in 1..=4 {
        let mut target = full(&scene);
        await_emergency(&daemon, target.pid());
        target.signal(Signal::KILL);
        assert!(target.await_exit(TIMEOUT).is_some());
        await_gone(&daemon, target.pid());
        let wanted = if round < 3 {
            "service.died-in-emergency"
        } else {
            "service.restart-loop"
        };
        let found = await_alerts(&daemon, wanted, |alerts| alerts.iter().any(|(rule, _)| rule == wanted));
        let is_harm = |rule: &str| rule.starts_with("service.") && rule != "service.died-in-emergency";
        let services: Vec<_> = found.iter().filter(|(rule, _)| is_harm(rule)).collect();
        let loops = (wanted.to_owned(), 0);
        assert_eq!(services, if round < 3 { vec![] } else { vec![&loops] }, "round {round}");
    }
}

/// Requests the exit of a process with the command `stop`, which also ends the sessions. SIGTERM would kill the process
/// at once, because the workload runs as a startup hook of another program.
fn ask_to_end(target: &mut Target) {
    target.write_line("stop");
}

/// Scenario: processes with full heaps are stopped one after the other, as in a rollout. Each is stopped after the next
/// process has started and filled its heap.
/// Guarantee: no alert about the service fires.
fn rollout_causes_no_alert() {
    let scene = Scene::begin();
    let daemon = serving::start(&scene, "");
    let mut before = full(&scene);
    await_emergency(&daemon, before.pid());
    for _ in 0..2 {
        let next = full(&scene);
        await_emergency(&daemon, next.pid());
        ask_to_end(&mut before);
        assert!(before.await_exit(TIMEOUT).is_some());
        await_gone(&daemon, before.pid());
        before = next;
    }
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        let found = alerts(&daemon);
        assert!(!found.iter().any(|(rule, _)| rule.starts_with("service.")), "{found:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    ask_to_end(&mut before);
    assert!(before.await_exit(TIMEOUT).is_some());
}

/// Returns the durations of the logged stalls, in seconds.
fn stalls_said(said: &str) -> Vec<f64> {
    let lengths = said.split("gcwatch itself stalled for ").skip(1);
    lengths
        .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
        .collect()
}

/// Scenario: four processes collect continuously; the daemon is suspended for longer than the guard's timeout and
/// continues.
/// Guarantee: the daemon reports one stall with its duration, as an alert about itself, a log line and two metrics. No
/// alert states that a process, which was not suspended, is stuck. On a busy host, the daemon can stall more often:
/// each stall has its own log line and count, and no other stall is as long as the suspension.
fn stall_is_attributed_to_gcwatch() {
    let stopped = Duration::from_secs(if crate::is_full() { 75 } else { 13 });
    let scene = Scene::begin();
    let daemon = serving::start(&scene, "");
    let start = || {
        let mut start = scene.start(NET_10, "pressure");
        start.seconds = 200;
        start.start()
    };
    let mut targets = [start(), start(), start(), start()];
    for target in &targets {
        daemon.await_target(target.pid(), "attached", |target| {
            target["state"] == "attached" && target["collections"].as_u64() > Some(3)
        });
    }
    let before = Instant::now();
    daemon.signal(Signal::STOP);
    std::thread::sleep(stopped);
    daemon.signal(Signal::CONT);
    // Ticks are one second apart, so the last tick before the suspension was up to one second old.
    let least = stopped.as_secs_f64() - 1.1;
    let of_stop = |said: &[f64]| {
        said.iter()
            .copied()
            .filter(|length| *length >= least)
            .collect::<Vec<_>>()
    };
    let length = until("a stall of the stop", || {
        of_stop(&stalls_said(&daemon.said())).first().copied()
    });
    // A stall that was in progress before the suspension is part of the same stall.
    assert!(length < before.elapsed().as_secs_f64() + 5.0, "{length}");
    let own = u64::from(daemon.pid());
    let watched = Instant::now() + Duration::from_secs(12);
    let mut about_itself = false;
    while Instant::now() < watched {
        for (rule, pid) in alerts(&daemon) {
            assert!(
                !rule.starts_with("time.stuck") && rule != "watcher.late",
                "{rule} of {pid}"
            );
            about_itself |= rule == "watcher.stalled" && pid == own;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(about_itself, "{}", daemon.said());
    // The log line of a stall follows the count within the same tick, and its duration is rounded to 0.1 s.
    let said = until("lines and metrics that agree", || {
        let said = stalls_said(&daemon.said());
        let count = daemon.metric("gcwatch_stalls_total")?;
        let seconds = daemon.metric("gcwatch_stall_duration_seconds_total")?;
        let sum: f64 = said.iter().sum();
        (count == said.len() as f64 && (seconds - sum).abs() < 0.06 * count).then_some(said)
    });
    assert_eq!(of_stop(&said).len(), 1, "{said:?}");
    assert_eq!(daemon.get("/livez").0, 200);
    daemon.end();
    for target in &mut targets {
        target.signal(Signal::TERM);
    }
}
