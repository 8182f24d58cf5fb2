//! Labelled runs: records live processes, and compares the shipped rules that fire with the rules that should fire.
//!
//! `tests/recordings/rules` has recordings of the same cases and describes their figures; `tests/rules` evaluates these
//! recordings. [`RUNS`] does not cover rules that evaluate several minutes, because a run takes at most 60 s.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use test_support::harness::Tests;
use test_support::program::{command, records};
use test_support::runtimes::{ALL, Runtime};
use test_support::target::{Start, TIMEOUT};

/// A row of [`RUNS`]: a workload, and the rules that must fire or can fire on it.
struct Run {
    mode: &'static str,
    knobs: &'static [(&'static str, &'static str)],
    env: &'static [(&'static str, &'static str)],
    seconds: u32,
    /// Whether the session is open before the work starts.
    from_start: bool,
    fits: fn(Runtime) -> bool,
    /// Rules of which at least one must fire; empty for a healthy process. The data that a runtime sends determines
    /// which of these rules fires.
    fires: &'static [&'static str],
    /// Returns whether the collections met the condition of the rules in `fires`. The check is necessary because the
    /// duration of a pause depends on the host. If the condition was not met, none of these rules may fire.
    provoked: fn(&[Value]) -> bool,
    /// Rules that can also fire, depending on the speed of the host. Apart from these rules and the rules in `fires`,
    /// no rule of severity warning or higher may fire.
    may: &'static [&'static str],
    /// Whether the run is executed even without `GCWATCH_MATRIX=full`.
    always: bool,
}

fn any(_: Runtime) -> bool {
    true
}

fn only_10(runtime: Runtime) -> bool {
    runtime.name.starts_with("net10")
}

fn after_3(runtime: Runtime) -> bool {
    !runtime.is_core_3()
}

const LIMIT: &[(&str, &str)] = &[("GCHeapHardLimit", "0x6000000")];
const LONG: &[&str] = &["time.long-pauses", "time.stopped"];

const NORMAL: Run = Run {
    mode: "steady",
    knobs: &[],
    env: &[],
    seconds: 4,
    from_start: false,
    fits: any,
    fires: &[],
    provoked: |_| true,
    may: &[],
    always: true,
};

const RUNS: &[Run] = &[
    NORMAL,
    Run {
        mode: "idle",
        seconds: 2,
        always: false,
        ..NORMAL
    },
    Run {
        mode: "startup",
        seconds: 6,
        from_start: true,
        always: false,
        ..NORMAL
    },
    Run {
        mode: "batch",
        seconds: 10,
        from_start: true,
        always: false,
        ..NORMAL
    },
    Run {
        knobs: &[("gcServer", "1")],
        always: false,
        ..NORMAL
    },
    Run {
        mode: "lohoos",
        knobs: LIMIT,
        from_start: true,
        fires: &["memory.exhausted"],
        may: &["memory.limit", "time.long-pauses", "time.stopped"],
        ..NORMAL
    },
    Run {
        mode: "sohoos",
        knobs: LIMIT,
        from_start: true,
        fits: after_3,
        fires: &["memory.exhausted"],
        may: &["memory.limit", "time.stopped"],
        always: false,
        ..NORMAL
    },
    Run {
        mode: "lowmemory",
        from_start: true,
        fits: only_10,
        fires: &["memory.low-memory"],
        ..NORMAL
    },
    Run {
        mode: "collect",
        seconds: 3,
        from_start: true,
        fires: &["induced.blocking"],
        ..NORMAL
    },
    Run {
        mode: "aggressive",
        from_start: true,
        fits: after_3,
        fires: &["induced.blocking"],
        always: false,
        ..NORMAL
    },
    Run {
        mode: "longpause",
        knobs: &[("GCgen0size", "0x8000000")],
        seconds: 8,
        from_start: true,
        fires: &["time.pause"],
        provoked: |gcs| gcs.iter().any(|gc| gc["pause_ns"].as_f64() > Some(200e6)),
        may: LONG,
        always: false,
        ..NORMAL
    },
    Run {
        mode: "native",
        from_start: true,
        seconds: 5,
        fits: only_10,
        fires: &["suspension.slow", "time.pause"],
        provoked: |gcs| gcs.iter().any(|gc| gc["suspend_ns"].as_f64() > Some(210e6)),
        may: LONG,
        always: false,
        ..NORMAL
    },
    Run {
        mode: "finslow",
        seconds: 35,
        from_start: true,
        fires: &["finalizers.behind"],
        may: LONG,
        always: false,
        ..NORMAL
    },
    Run {
        mode: "finone",
        seconds: 40,
        from_start: true,
        fires: &["finalizers.behind"],
        always: false,
        ..NORMAL
    },
    Run {
        mode: "fin",
        seconds: 35,
        from_start: true,
        may: LONG,
        always: false,
        ..NORMAL
    },
    Run {
        mode: "plateau",
        seconds: 60,
        from_start: true,
        may: LONG,
        always: false,
        ..NORMAL
    },
    Run {
        mode: "burst",
        seconds: 30,
        from_start: true,
        // In the first seconds, the program fills an index and allocates at full speed.
        may: LONG,
        always: false,
        ..NORMAL
    },
];

/// Records a live process. Returns the rules that fired, each with a flag for severity warning or higher, and the
/// collections.
fn judged(runtime: Runtime, run: &Run) -> (BTreeSet<(String, bool)>, Vec<Value>) {
    let mut start = Start::new(runtime, run.mode).knobs(run.knobs);
    if run.from_start {
        start = start.env("WWAIT", "1");
    }
    for (name, value) in run.env {
        start = start.env(name, value);
    }
    let mut target = start.start();
    let file = target.tmp().join("r.nettrace");
    let (pid, length) = (target.pid().to_string(), format!("{}s", run.seconds));
    let mut recorder = command()
        .args(["record", "--pid", &pid, "--duration", &length, "-o"])
        .arg(&file)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    if run.from_start {
        // The session is open as soon as the partial file has a header. `gcwatch record` renames the file when the
        // recording is complete.
        let partial = target.tmp().join("r.nettrace.partial");
        let since = Instant::now();
        while partial.metadata().map_or(0, |file| file.len()) == 0 {
            assert!(
                since.elapsed() < TIMEOUT,
                "{} {}: the session opens",
                runtime.name,
                run.mode
            );
            assert!(
                recorder.try_wait().unwrap().is_none(),
                "{} {}: gcwatch records until the session opens",
                runtime.name,
                run.mode
            );
            std::thread::yield_now();
        }
        target.write_line("go");
    }
    assert!(recorder.wait().unwrap().success(), "{} {}", runtime.name, run.mode);
    let mut analyzed = records(["analyze", "--format", "ndjson", file.to_str().unwrap()]);
    let fired = analyzed
        .iter()
        .filter(|record| record["kind"] == "anomaly")
        .map(|record| {
            (
                record["rule"].as_str().unwrap().to_owned(),
                record["severity"] != "info",
            )
        })
        .collect();
    target.stop();
    analyzed.retain(|record| record["kind"] == "gc");
    (fired, analyzed)
}

/// Scenario: gcwatch records a live process, which is faulty or healthy. Without GCWATCH_MATRIX=full, only a selection
/// of the runs is executed.
/// Guarantee: at least one rule in `fires` fires if and only if the collections met the condition of these rules. No
/// unexpected rule of severity warning or higher fires.
fn only_expected_rules_fire(runtime: Runtime, run: &Run) {
    let (fired, gcs) = judged(runtime, run);
    let mut severe = fired.iter().filter(|(_, is_severe)| *is_severe);
    let beyond = severe.any(|(rule, _)| !run.fires.contains(&rule.as_str()) && !run.may.contains(&rule.as_str()));
    assert!(!beyond, "only expected rules fire: {fired:?}");
    if !run.fires.is_empty() {
        let fires = fired.iter().any(|(rule, _)| run.fires.contains(&rule.as_str()));
        assert_eq!(
            fires,
            (run.provoked)(&gcs),
            "an expected rule fires (left) if and only if its condition was met (right): {fired:?}"
        );
    }
}

pub(crate) fn tests(tests: &mut Tests) {
    let full = crate::is_full();
    let managed = ALL.into_iter().filter(|runtime| !runtime.is_native_aot());
    for runtime in managed.filter(|runtime| full || runtime.is_always_there()) {
        for run in RUNS.iter().filter(|run| (full || run.always) && (run.fits)(runtime)) {
            let knobs: Vec<&str> = run.knobs.iter().map(|(name, _)| *name).collect();
            let name = [&[run.mode], &knobs[..]].concat().join(" ");
            tests.add(
                format!("{}::{}::{name}", module_path!(), runtime.name),
                move || runtime.need(),
                move || only_expected_rules_fire(runtime, run),
            );
        }
    }
}
