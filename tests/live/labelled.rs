//! Labelled runs: real processes, and which of the rules that ship fire on each.
//!
//! What each run is a case of, with its figures, is in tests/recordings/rules; these recordings are judged in
//! tests/rules. Here the processes are live. Rules that look at minutes are not in this table: a run takes seconds.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use test_support::harness::Tests;
use test_support::program::{command, records};
use test_support::runtimes::{ALL, Runtime};
use test_support::target::{PATIENCE, Start};

/// One row.
struct Run {
    mode: &'static str,
    knobs: &'static [(&'static str, &'static str)],
    env: &'static [(&'static str, &'static str)],
    seconds: u32,
    /// The session is there before the work begins.
    from_start: bool,
    fits: fn(Runtime) -> bool,
    /// One of these fires; which one of a group depends on what the runtime sends. None: nothing fires.
    fires: &'static [&'static str],
    /// Whether it came to what they are about, by the records of its collections: how long a pause is depends on the
    /// host. If not, none of them fires.
    provoked: fn(&[Value]) -> bool,
    /// May fire, by the speed of the host; everything else must not.
    may: &'static [&'static str],
    /// Also without `GCWATCH_MATRIX=full`.
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
        // While it reads, it allocates as fast as it can.
        may: LONG,
        always: false,
        ..NORMAL
    },
];

/// The rules that fire on a live process, with whether it is a warning or worse, and its collections.
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
        // The session is open when the file, which has its name only when it is complete, has its header.
        let partial = target.tmp().join("r.nettrace.partial");
        let since = Instant::now();
        while partial.metadata().map_or(0, |file| file.len()) == 0 {
            assert!(since.elapsed() < PATIENCE, "{} {}: no session", runtime.name, run.mode);
            assert!(
                recorder.try_wait().unwrap().is_none(),
                "{} {}: no session",
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

/// Scenario: a sick or healthy process on a runtime, recorded live; without GCWATCH_MATRIX=full a selection of them.
/// Guarantee: the rules of the row fire, no other one from a warning on does, and on healthy ones none.
fn rules_fire_on_what_they_should_and_on_nothing_else(runtime: Runtime, run: &Run) {
    let (fired, gcs) = judged(runtime, run);
    let mut severe = fired.iter().filter(|(_, is_severe)| *is_severe);
    let beyond = severe.any(|(rule, _)| !run.fires.contains(&rule.as_str()) && !run.may.contains(&rule.as_str()));
    assert!(!beyond, "others fire: {fired:?}");
    if !run.fires.is_empty() {
        let fires = fired.iter().any(|(rule, _)| run.fires.contains(&rule.as_str()));
        assert_eq!(
            fires,
            (run.provoked)(&gcs),
            "left: fires, right: was provoked; {fired:?}"
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
                move || rules_fire_on_what_they_should_and_on_nothing_else(runtime, run),
            );
        }
    }
}
