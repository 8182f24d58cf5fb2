//! Heap dumps of a program that knows the objects on its heap.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use test_support::add_tests_on;
use test_support::daemon::until;
use test_support::harness::Tests;
use test_support::program::{gcwatch, records, records_of, select_kind, stderr};
use test_support::runtimes::{ALL, Host, MUSL, Runtime};
use test_support::scene::Scene;
use test_support::target::{Start, Target};

pub(crate) fn tests(tests: &mut Tests) {
    let known = || ALL.into_iter().filter(|runtime| runtime.host == Host::Run);
    add_tests_on!(
        tests, known();
        every_type_is_counted, every_type_is_counted_with_server_gc, leak_is_found_with_its_holder
    );
    add_tests_on!(tests, [MUSL[1]]; every_type_is_counted, leak_is_found_with_its_holder);
    let newest = |name: &'static str| known().filter(move |runtime| runtime.name.starts_with(name));
    add_tests_on!(tests, newest("net10"); histogram_needs_no_graph, other_formats_are_written);
    add_tests_on!(tests, newest("net10"); concurrent_dump_is_refused);
    add_tests_on!(tests, newest("net11"); small_buffer_is_sufficient);
    add_tests_on!(tests, ALL.into_iter().filter(|runtime| runtime.is_native_aot()); native_aot_is_refused);
}

/// A running `heap.dll` with a list of 20,000 nodes. The scene contains the description that the program writes of its
/// own heap.
struct KnownProgram {
    target: Target,
    scene: Scene,
}

impl KnownProgram {
    fn start(runtime: Runtime, knobs: &[(&'static str, &'static str)], leak: u32) -> Self {
        let scene = Scene::begin();
        let start = Start::known(runtime, "heap.dll", &["300"]).knobs(knobs);
        let start = start.env("HLIST", "20000").env("HLEAK", &leak.to_string());
        let target = start.env("HTRUTH", &scene.path("truth")).start();
        Self { target, scene }
    }

    fn truth(&self) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.path("truth")).unwrap()).unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.scene.path(name)
    }

    /// Runs `gcwatch heap` on the process and returns the records. The command uses a separate lock, because other
    /// tests also take dumps.
    fn ask(&self, args: &[&str]) -> Vec<Value> {
        let (pid, leases) = (self.target.pid().to_string(), self.path("leases"));
        let mut all = vec!["heap", &pid, "--lease-folder", &leases, "--force"];
        all.extend_from_slice(args);
        records(&all)
    }
}

/// Returns the number of objects and bytes of each type. The keys are the runtime's type names, which omit the outer
/// type of a nested type.
fn by_type(records: &[Value]) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in select_kind(records, "heap_type") {
        let name = row["raw_type"].as_str().unwrap().to_owned();
        let (objects, bytes) = sums.entry(name).or_default();
        *objects += row["objects"].as_u64().unwrap();
        *bytes += row["bytes"].as_u64().unwrap();
    }
    sums
}

/// Checks every type of every case against the program's description.
fn check_types(truth: &Value, found: &BTreeMap<String, (u64, u64)>) {
    let cases = truth["cases"].as_array().unwrap();
    assert!(cases.len() > 25, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        for (name, sums) in case["types"].as_object().unwrap() {
            let name = name.rsplit_once('+').map_or(name.as_str(), |(_, nested)| nested);
            let expected = (sums[0].as_u64().unwrap(), sums[1].as_u64().unwrap());
            let got = found.get(name).copied().unwrap_or_default();
            if got != expected {
                wrong.push(format!("{}: {name}: {got:?} in place of {expected:?}", case["case"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn type_row<'a>(records: &'a [Value], name: &str) -> &'a Value {
    select_kind(records, "heap_type")
        .into_iter()
        .find(|row| row["raw_type"] == name)
        .unwrap()
}

fn count_types(runtime: Runtime, knobs: &[(&'static str, &'static str)]) {
    let known = KnownProgram::start(runtime, knobs, 0);
    let first = known.ask(&[]);
    let truth = known.truth();
    check_types(&truth, &by_type(&first));
    let heap = &first[0];
    assert_eq!(
        (heap["kind"].as_str(), heap["method"].as_str()),
        (Some("heap"), Some("graph"))
    );
    assert_eq!(
        (heap["complete"].as_bool(), heap["unnamed_types"].as_u64()),
        (Some(true), Some(0))
    );
    // A dump of .NET Core 3.1 sometimes ends its session before it reports that threads run again.
    assert!(
        runtime.is_core_3() || !heap["stopped_ns"].as_array().unwrap().is_empty(),
        "{heap}"
    );
    // Retained bytes match the description, for types that have no other holders.
    let retained = |name: &str| type_row(&first, name)["retained"].as_u64().unwrap();
    let stated = |case: &str| {
        let cases = truth["cases"].as_array().unwrap().iter();
        let of = |one: &&Value| one["case"] == case;
        cases.clone().find(of).unwrap()["retained"].as_u64().unwrap()
    };
    assert_eq!(retained("Held.ListNode"), stated("linked list"));
    assert_eq!(retained("Held.TreeNode"), stated("tree"));
    assert_eq!(retained("Held.HolderA"), stated("shared by two holders"));
    assert_eq!(retained("Held.StringHolder"), stated("strings"));
    assert_eq!(retained("Held.InCycleA"), stated("cycle"));
    // Each key keeps a value that has no other holder.
    assert_eq!(retained("Held.CwtKey"), 3_000 * (24 + 56));
    // The paths end at the described holders.
    let holders = |name: &str| -> Vec<&str> {
        let of_type = select_kind(&first, "heap_path")
            .into_iter()
            .filter(|row| row["type"] == name);
        of_type.map(|row| row["root"].as_str().unwrap()).collect()
    };
    assert_eq!(holders("InDict"), ["static S.dictionary"]);
    assert_eq!(holders("ListNode"), ["static S.list"]);
    assert_eq!(holders("ByHandle"), ["strong handles"]);
    assert!(
        holders("OnStack")
            .iter()
            .any(|root| root.starts_with("stack of Program.HoldOnStack")),
        "{:?}",
        holders("OnStack")
    );
    assert!(
        holders("Finalizing").contains(&"finalizer queue"),
        "{:?}",
        holders("Finalizing")
    );
    // The second and third dumps also have names, although the process has already sent the names in the first dump.
    for _ in 0..2 {
        let again = known.ask(&["--histogram"]);
        assert_eq!(again[0]["unnamed_types"], 0, "{}", again[0]);
        check_types(&truth, &by_type(&again));
    }
}

/// Scenario: a program holds memory in thirty ways and describes the live objects of each type. Three dumps of the
/// program are taken.
/// Guarantee: the numbers of objects and bytes of every type are exact, and retained bytes match the description. Paths
/// end at the field, handle, stack or queue that holds the objects. Each dump names its types.
fn every_type_is_counted(runtime: Runtime) {
    count_types(runtime, &[]);
}

/// Scenario: the same program runs with the server collector.
/// Guarantee: numbers, retained bytes, paths and names are right, as with the workstation collector.
fn every_type_is_counted_with_server_gc(runtime: Runtime) {
    count_types(runtime, &[("gcServer", "1")]);
}

/// Scenario: a program leaks 2,000 objects per second into a static list; the records of two dumps are compared.
/// Guarantee: the comparison names the growing type, with more objects and the matching number of bytes, and the static
/// field that holds the objects.
fn leak_is_found_with_its_holder(runtime: Runtime) {
    let known = KnownProgram::start(runtime, &[], 2_000);
    let files = [known.path("a.ndjson"), known.path("b.ndjson")];
    let made = || -> u64 {
        let text = std::fs::read_to_string(known.path("truth.leak")).unwrap_or_default();
        text.split(' ').next().and_then(|made| made.parse().ok()).unwrap_or(0)
    };
    let mut counts = Vec::new();
    for file in &files {
        // Wait until the program has leaked more than before.
        let least = counts.last().copied().unwrap_or(0) + 2_000;
        counts.push(until("a leak", || Some(made()).filter(|made| *made >= least)));
        known.ask(&["-o", file]);
    }
    let grown = records(["heap", "diff", &files[0], &files[1]]);
    let of = |key: &str, name: &str| {
        grown
            .iter()
            .find(|row| row[key] == name)
            .unwrap_or_else(|| panic!("{grown:#?}"))
    };
    let leaked = of("type", "Leaked");
    // The second dump was taken after the second count, the first dump after the first count.
    assert!(leaked["objects"].as_i64().unwrap() > 0, "{leaked}");
    assert_eq!(
        leaked["bytes"].as_i64().unwrap(),
        leaked["objects"].as_i64().unwrap() * 32
    );
    let held = of("root", "static Cache.entries");
    // The stack of `Main` can hold the list, too. In this case, neither holder retains the list.
    assert!(held["bytes"].as_i64() >= leaked["retained"].as_i64(), "{held} {leaked}");
    let after = std::fs::read_to_string(&files[1]).unwrap();
    let path = after.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let path = path.filter(|row| row["kind"] == "heap_path" && row["type"] == "Leaked");
    let roots: Vec<Value> = path.map(|row| row["root"].clone()).collect();
    assert_eq!(roots, ["static Cache.entries"]);
}

/// Scenario: a histogram is requested from a runtime that can omit references.
/// Guarantee: the types are exact, and no holders are reported.
fn histogram_needs_no_graph(runtime: Runtime) {
    let known = KnownProgram::start(runtime, &[], 0);
    let found = known.ask(&["--histogram"]);
    check_types(&known.truth(), &by_type(&found));
    assert_eq!(found[0]["method"], "histogram");
    assert_eq!(
        select_kind(&found, "heap_root").len() + select_kind(&found, "heap_path").len(),
        0
    );
}

/// Scenario: dumps are written in the formats of other programs, together with their recordings. One recording is read
/// again, with the default memory limit and with a limit into which the graph does not fit.
/// Guarantee: each file has its format. The recording has the exact types. Without enough memory, the result is a
/// histogram with exact types and the reason.
fn other_formats_are_written(runtime: Runtime) {
    let known = KnownProgram::start(runtime, &[], 0);
    for name in ["heap.pb.gz", "heap.heapsnapshot", "heap.svg", "heap.txt"] {
        let (file, kept) = (known.path(name), known.path(&format!("{name}.nettrace")));
        known.ask(&["-o", &file, "--keep", &kept]);
        let bytes = std::fs::read(&file).unwrap();
        match Path::new(name).extension().and_then(|extension| extension.to_str()) {
            Some("gz") => assert_eq!(bytes[..2], [0x1f, 0x8b]),
            Some("heapsnapshot") => {
                let json: Value = serde_json::from_slice(&bytes).unwrap();
                assert!(json["snapshot"]["node_count"].as_u64() > Some(20_000));
            }
            Some("svg") => assert!(bytes.starts_with(b"<svg") || bytes.starts_with(b"<?xml")),
            _ => assert!(String::from_utf8(bytes).unwrap().contains("ListNode")),
        }
    }
    let kept = known.path("heap.txt.nettrace");
    check_types(&known.truth(), &by_type(&records(["heap", &kept])));
    let without_room = records(["heap", &kept, "--memory", "1"]);
    assert_eq!(without_room[0]["method"], "histogram");
    assert!(
        without_room[0]["reason"].as_str().unwrap().contains("objects needs"),
        "{}",
        without_room[0]
    );
    check_types(&known.truth(), &by_type(&without_room));
}

/// Scenario: the price of a dump is requested. Then a dump is requested while the test holds the burst lock of the
/// host.
/// Guarantee: the price is printed without a dump. The dump is refused, because another burst is running.
fn concurrent_dump_is_refused(runtime: Runtime) {
    let known = KnownProgram::start(runtime, &[], 0);
    let (pid, leases) = (known.target.pid().to_string(), known.path("leases"));
    let output = gcwatch(["heap", &pid, "--lease-folder", &leases, "--price"]);
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{}",
        stderr(&output)
    );
    let price = stderr(&output);
    assert!(
        price.contains("stops all threads for about") && price.contains("in addition to the heap"),
        "{price}"
    );
    std::fs::create_dir(&leases).unwrap();
    let lock = std::fs::File::create(Path::new(&leases).join("burst.lease")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let output = gcwatch(["heap", &pid, "--lease-folder", &leases]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no dump taken: another burst is running on this host"),
        "{}",
        stderr(&output)
    );
}

/// Scenario: a process on .NET 11 is dumped with `--small-buffer`: the runtime has a buffer of 16 MB and waits for its
/// reader.
/// Guarantee: the dump is complete and exact.
fn small_buffer_is_sufficient(runtime: Runtime) {
    let known = KnownProgram::start(runtime, &[], 0);
    let (pid, leases) = (known.target.pid().to_string(), known.path("leases"));
    let ask = || gcwatch(["heap", &pid, "--lease-folder", &leases, "--force", "--small-buffer"]);
    // gcwatch abandons the dump if gcwatch gets too little CPU time, so that the process is not blocked.
    let answer = (0..10).map(|_| ask()).find(|output| {
        assert!(
            output.status.success() || stderr(output).contains("was abandoned"),
            "{}",
            stderr(output)
        );
        output.status.success()
    });
    let answer = answer.expect("one of ten dumps is read fast enough");
    check_types(&known.truth(), &by_type(&records_of(&answer)));
}

/// Scenario: the process is compiled ahead of time.
/// Guarantee: the dump is refused, even with `--force`.
fn native_aot_is_refused(runtime: Runtime) {
    let target = Start::new(runtime, "steady").start();
    let output = gcwatch(["heap", &target.pid().to_string(), "--force"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("NativeAOT"), "{}", stderr(&output));
}
