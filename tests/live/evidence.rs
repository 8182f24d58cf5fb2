//! Bursts of programs with known results.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};

use clr_evidence::site::place;
use serde_json::Value;

use test_support::add_tests_on;
use test_support::daemon::await_bytes;
use test_support::harness::Tests;
use test_support::program::{command, gcwatch, records, stderr};
use test_support::runtimes::{ALL, Host, MUSL, Runtime};
use test_support::scene::Scene;
use test_support::target::{RunningProcess, Start, TIMEOUT, Target};

pub(crate) fn tests(tests: &mut Tests) {
    let known = || {
        let of_8_and_later = |runtime: &Runtime| runtime.host == Host::Run && !runtime.is_core_3();
        ALL.into_iter().filter(of_8_and_later)
    };
    add_tests_on!(
        tests, known();
        every_caller_is_named, every_caller_is_named_with_server_gc, every_caller_is_named_in_optimized_code,
        forms_of_methods_are_named, library_is_named_with_its_caller, interrupted_burst_is_reported,
        process_killed_during_burst_is_reported
    );
    add_tests_on!(tests, [MUSL[1]]; every_caller_is_named);
    add_tests_on!(tests, known().filter(samples); allocating_sites_are_named);
    add_tests_on!(tests, known().filter(samples); allocating_library_is_named_with_its_caller);
    add_tests_on!(tests, known().filter(|runtime| major(runtime) >= 11); runtime_async_is_named);
    add_tests_on!(tests, known().filter(|runtime| !samples(runtime)); tick_sessions_leave_pauses_unchanged);
}

/// Returns whether the runtime samples allocations randomly.
fn samples(runtime: &Runtime) -> bool {
    major(runtime) >= 10
}

/// Returns the major version of a runtime.
fn major(runtime: &Runtime) -> u32 {
    let version = runtime.version.unwrap_or("3");
    version.split('.').next().unwrap().parse().unwrap()
}

/// A program of tests/workload/known, which writes its own log.
struct KnownProgram {
    target: Target,
    scene: Scene,
}

impl KnownProgram {
    fn start(runtime: Runtime, program: &'static str, seconds: u32, knobs: &[(&'static str, &'static str)]) -> Self {
        let scene = Scene::begin();
        let start = Start::known(runtime, program, &[&seconds.to_string()]).knobs(knobs);
        let target = start.env("KLOG", &scene.path("log")).start();
        Self { target, scene }
    }

    fn path(&self, name: &str) -> String {
        self.scene.path(name)
    }

    /// Runs a command on the process and returns the records. The command uses a separate burst lock, because other
    /// tests also run bursts.
    fn ask(&self, command: &str, args: &[&str]) -> Vec<Value> {
        let (pid, leases) = (self.target.pid().to_string(), self.path("leases"));
        let mut all = vec![command, &pid, "--format", "ndjson", "--lease-folder", &leases];
        all.extend_from_slice(args);
        records(&all)
    }

    /// Waits until the program exits. Returns two counts for each site in its log: the count of the lines that are
    /// entirely within the window of the burst, and the count of the lines that are at least partly within.
    fn log(&mut self, first: &Value) -> BTreeMap<String, (u64, u64)> {
        let window = (first["start_ns"].as_i64().unwrap(), first["end_ns"].as_i64().unwrap());
        assert!(self.target.await_exit(TIMEOUT).is_some(), "the program exits");
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for line in std::fs::read_to_string(self.path("log")).unwrap().lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let (begin, end): (i64, i64) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
            let count: u64 = fields[4].parse().unwrap();
            let (whole, part) = sums.entry(fields[2].to_owned()).or_default();
            *whole += if window.0 + ENABLING_NS <= begin && end <= window.1 {
                count
            } else {
                0
            };
            *part += if begin <= window.1 && window.0 <= end { count } else { 0 };
        }
        sums
    }
}

/// The start of a session precedes the time at which the runtime enables its events. Events between the two times can
/// be missing.
const ENABLING_NS: i64 = 50_000_000;

/// Sites of `callers.dll`: the name in the program's log, the start of the name in gcwatch, and the call.
const CALLERS: [(&str, &str, &str); 12] = [
    ("Shop.Program.NightlyTrim", "Shop.Program.NightlyTrim", "GC.Collect"),
    (
        "ThirdParty.Imaging.Codec`1.Release",
        "ThirdParty.Imaging.Codec<T>.Release",
        "GC.Collect",
    ),
    (
        "Shop.Program.CheckoutAsync_(async)",
        "Shop.Program.CheckoutAsync",
        "GC.Collect",
    ),
    (
        "Shop.Program.StartTimer_(lambda)",
        "Shop.Program.StartTimer (lambda)",
        "GC.Collect",
    ),
    (
        "Shop.Repository`1.Reload_(local_function_Purge)",
        "Shop.Repository<int>.Reload (local function Purge)",
        "GC.Collect",
    ),
    (
        "ThirdParty.Imaging.NativeBitmap..ctor",
        "ThirdParty.Imaging.NativeBitmap..ctor",
        "AddMemoryPressure",
    ),
    ("Shop.LowLatency.Enter", "Shop.LowLatency.Enter", "TryStartNoGCRegion"),
    ("Shop.Program.ByReflection", "Shop.Program.ByReflection", "GC.Collect"),
    ("Shop.Leftover.Drop", "Shop.Leftover.Drop", "GC.Collect"),
    ("Shop.Leftover.Finalize", "Shop.Leftover.Finalize", "GC.Collect"),
    (
        "Shop.Compiled_(dynamic_method)",
        "Compiled (dynamic method)",
        "GC.Collect",
    ),
    ("Shop.Report.Render", "Shop.Report.", "allocation"),
];

fn callers(runtime: Runtime, knobs: &[(&'static str, &'static str)]) {
    let mut known = KnownProgram::start(runtime, "callers.dll", 6, knobs);
    let kept = known.path("kept.nettrace");
    let all = known.ask("callers", &["--for", "3s", "--keep", &kept]);
    let first = &all[0];
    assert_eq!(first["kind"], "callers");
    assert_eq!(first["lost_events"], 0, "{first}");
    let log = known.log(first);
    let context = format!("{} {knobs:?}", runtime.name);
    let number = |record: &Value, field: &str| record[field].as_u64().unwrap();
    let mut named = 0;
    for (site, name, api) in CALLERS {
        let of_site = all[1..]
            .iter()
            .filter(|caller| caller["site"].as_str().is_some_and(|site| site.starts_with(name)));
        let of_site: Vec<&Value> = of_site.collect();
        let triggers: u64 = of_site.iter().map(|caller| number(caller, "triggers")).sum();
        let (least, most) = log.get(site).copied().unwrap_or_default();
        // The program counts a no-GC region as a collection, so each request for such a region is part of the program's
        // count.
        assert!(
            (least..=most).contains(&triggers),
            "{context}: {site}: {triggers} of {least} to {most}"
        );
        for caller in &of_site {
            let called = &caller["api"];
            assert!(called.is_null() || called == api, "{context}: {caller}");
            // gcwatch names the calling method only for sites in a library.
            let called_by = caller["called_by"].as_str();
            assert_eq!(
                called_by.is_some_and(|program| program.starts_with("Shop.Program.")),
                name.starts_with("ThirdParty."),
                "{context}: {caller}"
            );
            assert_eq!(
                called_by.is_some(),
                name.starts_with("ThirdParty."),
                "{context}: {caller}"
            );
            assert_eq!(
                number(caller, "triggers"),
                number(caller, "collections") + number(caller, "without_collection"),
                "{context}: {caller}"
            );
        }
        named += triggers;
    }
    assert_eq!(
        number(first, "triggers"),
        named,
        "{context}: every request has a known caller: {all:#?}"
    );
    assert!(
        number(first, "unasked_stops") > 0,
        "{context}: memory limits are refreshed"
    );
    // The saved recording has the same result.
    let again = records(["callers", &kept, "--format", "ndjson"]);
    assert!(number(&again[0], "triggers") >= number(first, "triggers"), "{context}");
    // The recording includes the rest of the session with its frames.
    assert!(
        number(&again[0], "unknown_frames") >= number(first, "unknown_frames"),
        "{context}"
    );
}

/// Scenario: a program makes the runtime collect at the sites in [`CALLERS`], and logs the count of each site.
/// Guarantee: each site is named as a developer would write it, with the call, and has the program's count for the same
/// time. Every request has a known site. The saved recording contains at least the same requests.
fn every_caller_is_named(runtime: Runtime) {
    callers(runtime, &[]);
}

/// Scenario: the same program runs with server GC, where the trigger and the stop are on different threads.
/// Guarantee: the result is the same.
fn every_caller_is_named_with_server_gc(runtime: Runtime) {
    callers(runtime, &[("gcServer", "1")]);
}

/// Scenario: all code of the same program is optimized at once, including the framework. Calls of the collector are
/// inlined, on .NET 11 into a local function.
/// Guarantee: the result is the same. The call is named as in [`CALLERS`], or unknown if it has no frame.
fn every_caller_is_named_in_optimized_code(runtime: Runtime) {
    callers(runtime, &[("TieredCompilation", "0"), ("ReadyToRun", "0")]);
}

/// Returns the site of a record, with its caller, as in a displayed row.
fn row(record: &Value) -> String {
    place(record["called_by"].as_str(), record["site"].as_str())
}

/// Scenario: a library whose name starts like the framework collects on behalf of a method of the program; the program
/// also collects by itself.
/// Guarantee: the row of the library names the calling method of the program, and its count differs from the program's
/// count by at most one. Each site has one row, also in the table.
fn library_is_named_with_its_caller(runtime: Runtime) {
    let mut known = KnownProgram::start(runtime, "layers.dll", 6, &[]);
    let kept = known.path("kept.nettrace");
    let all = known.ask("callers", &["--for", "3s", "--keep", &kept]);
    let log = known.log(&all[0]);
    let mut compared = 0;
    for (name, (least, most)) in log {
        let name = name.replace('_', " ");
        let of_row: Vec<&Value> = all[1..]
            .iter()
            .filter(|caller| caller["api"] == "GC.Collect" && row(caller) == name)
            .collect();
        // A library that allocates also has collections.
        let Some(caller) = of_row.first() else {
            assert!(
                !name.contains("Program.Learn") && !name.contains("Clean"),
                "{}: {name} of {all:#?}",
                runtime.name
            );
            continue;
        };
        assert_eq!(of_row.len(), 1, "{}: {all:#?}", runtime.name);
        let collections = caller["collections"].as_u64().unwrap();
        // One collection can be cut off by an edge of the burst.
        assert!(
            (least.saturating_sub(1)..=most).contains(&collections),
            "{}: {caller}, {least} to {most}",
            runtime.name
        );
        compared += 1;
    }
    assert_eq!(compared, 2, "{}: {all:#?}", runtime.name);
    let table = gcwatch(["callers", &kept, "--format", "table"]);
    let table = String::from_utf8(table.stdout).unwrap();
    let learns = "Shop.Layers.Program.Learn -> Microsoft.Acme.Learning.Trainer.Trim -> GC.Collect: ";
    assert_eq!(table.matches(learns).count(), 1, "{}: {table}", runtime.name);
}

/// Scenario: the same library allocates for the program, also in code compiled for a value type of the program; the
/// framework allocates, too; a method calls itself recursively.
/// Guarantee: each site has one row with 60 to 160 % of the bytes that the program counted, and these rows cover more
/// than 95 % of all bytes.
fn allocating_library_is_named_with_its_caller(runtime: Runtime) {
    let mut known = KnownProgram::start(runtime, "layers.dll", 8, &[]);
    let all = known.ask("allocations", &["--for", "4s"]);
    let log = known.log(&all[0]);
    let sites: Vec<&Value> = all
        .iter()
        .filter(|record| record["kind"] == "allocation_site")
        .collect();
    let bytes = |record: &Value| record["estimate"].as_f64().unwrap();
    let mut named = 0.0;
    for (name, (whole, part)) in log
        .into_iter()
        .filter(|(name, _)| !name.contains("Clean") && !name.contains("Program.Learn"))
    {
        let name = name.replace('_', " ");
        let of_row: Vec<_> = sites.iter().filter(|site| row(site) == name).collect();
        assert_eq!(of_row.len(), 1, "{}: {name} of {sites:#?}", runtime.name);
        let ratio = bytes(of_row[0]) * 2.0 / (whole + part) as f64;
        assert!((0.6..1.6).contains(&ratio), "{}: {name}: {ratio}", runtime.name);
        named += bytes(of_row[0]);
    }
    assert!(named > 0.95 * bytes(&all[0]), "{}: {sites:#?}", runtime.name);
}

/// Scenario: a program compiled with runtime-async collects and allocates after awaits, in many methods that wait for
/// each other.
/// Guarantee: its sites have the program's counts, the objects that hold waiting state are named, and all allocated
/// bytes have a type.
fn runtime_async_is_named(runtime: Runtime) {
    let mut known = KnownProgram::start(runtime, "async11.dll", 8, &[]);
    let all = known.ask("callers", &["--for", "3s"]);
    let log = known.log(&all[0]);
    assert_eq!(log.len(), 4, "{log:?}");
    for (site, (least, most)) in log {
        let site = site.replace('_', " ").replace("`1", "<T>");
        let of_site = all[1..].iter().filter(|caller| caller["site"] == site.as_str());
        let of_site: Vec<&Value> = of_site.filter(|caller| caller["reason"] == "Induced").collect();
        let collections: u64 = of_site
            .iter()
            .map(|caller| caller["collections"].as_u64().unwrap())
            .sum();
        assert!(
            (least..=most).contains(&collections),
            "{site}: {collections}, {least} to {most}"
        );
        assert!(
            least > 10 && of_site.iter().all(|caller| caller["api"] == "GC.Collect"),
            "{of_site:?}"
        );
    }
    let known = KnownProgram::start(runtime, "async11.dll", 8, &[]);
    let all = known.ask("allocations", &["--for", "4s"]);
    let types: Vec<&Value> = all
        .iter()
        .filter(|record| record["kind"] == "allocation_type")
        .collect();
    assert!(types.iter().all(|one| one["type"].is_string()), "{types:#?}");
    let states: Vec<_> = types
        .iter()
        .filter(|one| one["name"] == "async state (runtime-async)")
        .collect();
    assert_eq!(states.len(), 1, "{types:#?}");
    let share = states[0]["estimate"].as_f64().unwrap() / all[0]["estimate"].as_f64().unwrap();
    assert!((0.01..0.25).contains(&share), "{share}: {types:#?}");
}

/// Scenario: a program has sixty forms of methods to which the C# compiler and the runtime give special names: lambdas,
/// nested local functions, asynchronous ones and iterators, explicit implementations, operators, nested generics,
/// file-local types, funclets, finalizers, dynamic methods, and a recursion deeper than a stack walk.
/// Guarantee: each form is one site with the name that a developer would give it, and has the program's number of
/// collections.
fn forms_of_methods_are_named(runtime: Runtime) {
    let mut known = KnownProgram::start(runtime, "shapes.dll", 6, &[]);
    let all = known.ask("callers", &["--for", "3s"]);
    let first = &all[0];
    assert_eq!(first["lost_events"], 0, "{first}");
    let log = known.log(first);
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for caller in &all[1..] {
        let site = caller["site"].as_str().unwrap_or_default().replace(' ', "_");
        *found.entry(site).or_default() += caller["collections"].as_u64().unwrap();
    }
    let wrong = log.iter().filter(|(site, (least, most))| {
        let count = found.get(*site).copied().unwrap_or(0);
        !(least..=most).contains(&&count)
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}: {wrong:?} of {found:#?}", runtime.name);
    let seen = log.iter().filter(|(_, (least, _))| *least > 0);
    assert!(seen.count() > 50, "{log:?}");
    let others: Vec<_> = found.keys().filter(|site| !log.contains_key(*site)).collect();
    assert!(others.is_empty(), "{}: {others:?}", runtime.name);
}

/// Starts a burst of one minute and waits until the burst has received events. Returns the program and the burst.
fn long_burst(runtime: Runtime) -> (KnownProgram, Child) {
    let known = KnownProgram::start(runtime, "callers.dll", 60, &[]);
    let (kept, leases, pid) = (known.path("kept.nettrace"), known.path("leases"), known.target.pid());
    let burst = command()
        .args(["callers", &pid.to_string(), "--for", "60s", "--format", "ndjson"])
        .args(["--keep", &kept, "--lease-folder", &leases])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The file gets its final name when it is complete.
    await_bytes(known.path(".kept.nettrace.new"), 128 << 10);
    (known, burst)
}

/// Waits until a burst exits, and asserts its success. Returns the first record and the standard error.
fn first_record(burst: Child) -> (Value, String) {
    let output = burst.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let line = output.stdout.split(|byte| *byte == b'\n').next().unwrap();
    (serde_json::from_slice(line).unwrap(), stderr(&output))
}

/// Scenario: Ctrl-C is pressed during a burst.
/// Guarantee: the burst ends cleanly, states the signal as the reason, and reports the data so far with the names of
/// methods.
fn interrupted_burst_is_reported(runtime: Runtime) {
    let (known, burst) = long_burst(runtime);
    let pid = rustix::process::Pid::from_child(&burst);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (first, _) = first_record(burst);
    assert_eq!(first["stopped_by"], "signal", "{first}");
    assert!(first["triggers"].as_u64().unwrap() > 0, "{first}");
    assert!(first["methods"].as_u64().unwrap() > 100, "{first}");
    assert_eq!(first["clean_end"], true, "{first}");
    drop(known);
}

/// Scenario: the process is killed during a burst.
/// Guarantee: the burst succeeds, and reports the data so far and the exit of the process.
fn process_killed_during_burst_is_reported(runtime: Runtime) {
    let (mut known, burst) = long_burst(runtime);
    known.target.kill();
    let (first, said) = first_record(burst);
    assert_eq!(first["stopped_by"], "exit", "{first}");
    assert!(first["triggers"].as_u64().unwrap() > 0, "{first}");
    assert!(said.contains("exited"), "{said}");
}

/// Scenario: the sites of a program allocate known bytes, which are sampled for three seconds.
/// Guarantee: the total, and the bytes of each site with a hundred samples, match the program's own counts within
/// bounds that are exceeded by chance once in a million runs. Sites and types are named, and all output formats can be
/// written.
fn allocating_sites_are_named(runtime: Runtime) {
    let mut known = KnownProgram::start(runtime, "allocations.dll", 7, &[]);
    let kept = known.path("kept.nettrace");
    let all = known.ask("allocations", &["--for", "3s", "--keep", &kept]);
    let first = &all[0];
    assert_eq!(
        (&first["kind"], &first["method"]),
        (&"allocations".into(), &"sampled".into())
    );
    let log = known.log(first);
    let bytes = |record: &Value| record["estimate"].as_f64().unwrap();
    let truth: f64 = log.values().map(|(whole, part)| (whole + part) as f64 / 2.0).sum();
    let ratio = bytes(first) / truth;
    assert!((0.8..1.25).contains(&ratio), "{ratio} of {truth}: {first}");
    let mut compared = 0;
    for (site, (whole, part)) in log {
        let has_site = |record: &&Value| {
            let frames = record["raw_frames"].as_array();
            let is_site = |frame: &Value| {
                let frame = frame.as_str().unwrap_or_default();
                frame.replace("[System.Int64]", "") == site
            };
            frames.is_some_and(|frames| frames.iter().any(is_site))
        };
        let of_site: Vec<&Value> = all.iter().filter(has_site).collect();
        let samples: u64 = of_site.iter().map(|record| record["samples"].as_u64().unwrap()).sum();
        if samples < 100 {
            continue;
        }
        compared += 1;
        let ratio = of_site.iter().map(|record| bytes(record)).sum::<f64>() * 2.0 / (whole + part) as f64;
        assert!((0.6..1.6).contains(&ratio), "{site}: {ratio}, {samples} samples");
    }
    assert!(compared >= 4, "{all:#?}");
    assert!(
        all.iter()
            .any(|record| record["kind"] == "allocation_type" && record["type"] == "System.Byte[]")
    );
    for (format, begins) in [("svg", "<?xml"), ("folded", ""), ("pprof", "\u{1f}"), ("table", "")] {
        let file = known.path(format);
        let output = gcwatch(["allocations", &kept, "--format", format, "-o", &file]);
        assert!(output.status.success(), "{format}: {}", stderr(&output));
        let written = std::fs::read(file).unwrap();
        assert!(
            written.len() > 100 && written.starts_with(begins.as_bytes()),
            "{format}"
        );
    }
}

/// Scenario: a process has many pinned objects, so a Verbose session makes its collections long; a plain session stays
/// open. The test requests three bursts: one without `--tick`, one with `--tick`, and one with `--tick --force`.
/// Guarantee: the first burst is refused with a reference to `--tick`, the second burst is refused because of the
/// pinned objects, and the forced burst succeeds. After the second and the third burst, pauses are at most three times
/// as long as before.
fn tick_sessions_leave_pauses_unchanged(runtime: Runtime) {
    let mut target = Start::pins(runtime, 60_000).spawn();
    target.await_socket();
    target.lines_from_now(5);
    let scene = Scene::begin();
    let pid = target.pid().to_string();
    // A plain session stays open during the test.
    let plain = command()
        .args(["record", "--pid", &pid, "-o", &scene.path("plain.nettrace")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _plain = RunningProcess(plain);
    let before = target.shortest_pause(9);
    let leases = scene.path("leases");
    let ask = |more: &[&str]| {
        let mut args = vec!["allocations", &pid, "--for", "2s", "--lease-folder", &leases];
        args.extend_from_slice(more);
        gcwatch(&args)
    };
    let without = ask(&[]);
    assert!(
        !without.status.success() && stderr(&without).contains("--tick"),
        "{}",
        stderr(&without)
    );
    let refused = ask(&["--tick"]);
    assert!(!refused.status.success(), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("pinned objects"), "{}", stderr(&refused));
    let after_refused = target.shortest_pause(9);
    let forced = ask(&["--tick", "--force"]);
    assert!(forced.status.success(), "{}", stderr(&forced));
    let after_forced = target.shortest_pause(9);
    // Without healing, pauses are at least seven times as long.
    let bound = before * 3;
    assert!(
        after_refused <= bound && after_forced <= bound,
        "{}: {before} us before, {after_refused} after a refused burst, {after_forced} after a forced burst",
        runtime.name
    );
}
