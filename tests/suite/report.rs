//! Pages of recordings: `gcwatch analyze --html`, and the subprocess that renders recordings of incidents.

use std::fs;
use std::io::{Seek as _, Write as _};
use std::process::{Output, Stdio};

use api::gc::Subject;
use base::time::UnixBase;
use clr_gc::stream::Scope;
use gcwatch::view;
use recording::source::Source;
use recording::{ProcessHistory, Recording};
use serde_json::Value;
use test_support::program::{self, gcwatch, select_kind, stderr, written};
use test_support::recordings::{self, file as recording};

fn analyze(arguments: &[&str]) -> Output {
    gcwatch([&["analyze"], arguments].concat())
}

/// Returns the recordings in a page.
fn records(page: &str) -> Vec<Value> {
    let (_, rest) = page.split_once("id=\"record\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    let mut record: Value = serde_json::from_str(json).unwrap();
    serde_json::from_value(record["recordings"].take()).unwrap()
}

/// Returns the only recording in a page.
fn record(page: &str) -> Value {
    let mut all = records(page);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// Returns the page of a recording.
fn page_of(recording: &Recording, base: UnixBase) -> String {
    let one = view::recorded(recording, base, None, false, 1);
    web::report::page(&view::page(vec![one])).unwrap()
}

/// Runs the subprocess that renders the recording of an incident, with `bytes` as its standard input.
fn rendered(bytes: &[u8]) -> Output {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(bytes).unwrap();
    input.rewind().unwrap();
    program::command()
        .args(["recording-page", "20261123T114742Z-shop-1-0f.nettrace"])
        .env_clear()
        .stdin(input)
        .output()
        .unwrap()
}

/// Scenario: the process that renders recordings of incidents gets a complete recording, a truncated one, and bytes
/// that are not a recording.
/// Guarantee: each recording becomes a page with the name of the recording and with the incidents of the shipped rules.
/// Invalid bytes produce no output, and an error message with the name of the recording.
#[test]
fn incident_recording_is_rendered() {
    let plain = recordings::bytes("net10-lohoos");
    for bytes in [&plain[..], &plain[..plain.len() / 2]] {
        let record = record(&written(rendered(bytes)));
        assert_eq!(record["file"], "20261123T114742Z-shop-1-0f.nettrace");
        assert!(
            !record["processes"][0]["incidents"].is_null(),
            "the shipped rules are evaluated"
        );
    }
    for bytes in [&b"no stream at all"[..], b"", &plain[..4]] {
        let made = rendered(bytes);
        assert!(!made.status.success() && made.stdout.is_empty());
        let text = String::from_utf8_lossy(&made.stderr);
        assert!(text.contains("20261123T114742Z-shop-1-0f.nettrace"), "{text}");
    }
}

/// Scenario: the rendering process waits for its input.
/// Guarantee: the memory and the CPU time of the process are limited before the process reads a byte.
#[test]
fn rendering_process_is_limited() {
    let mut waiting = program::command()
        .args(["recording-page", "a.nettrace"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let limits = format!("/proc/{}/limits", waiting.id());
    let bounded = test_support::daemon::until("the limits of the process", || {
        let text = fs::read_to_string(&limits).ok()?;
        let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let cpu = of("Max cpu time")?;
        cpu.contains("20").then_some(of("Max address space")?)
    });
    assert!(!bounded.contains("unlimited"), "{bounded}");
    // The process exits when its input ends.
    drop(waiting.stdin.take());
    assert!(!waiting.wait().unwrap().success());
}

/// Scenario: a recording is written as a page and as records.
/// Guarantee: the figures of the page match the records. The page contains every collection, and the charts add up to
/// the totals. The page loads no resource, and lists the facts that a recording does not contain.
#[test]
fn page_has_figures_of_records() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let source = recording("net10-lohoos");
    written(analyze(&[&source, "--html", file.to_str().unwrap()]));
    let page = fs::read_to_string(&file).unwrap();
    let record = record(&page);
    let lines = program::records(["analyze", &source, "--format", "ndjson"]);
    let process = &record["processes"][0];
    assert_eq!(&process["summary"], select_kind(&lines, "summary")[0]);
    let pauses: Vec<&Value> = process["pauses"]["pause_ns"].as_array().unwrap().iter().collect();
    let expected: Vec<&Value> = select_kind(&lines, "gc").iter().map(|gc| &gc["pause_ns"]).collect();
    assert_eq!(pauses, expected);
    let sum = |values: &Value| values.as_array().unwrap().iter().filter_map(Value::as_i64).sum::<i64>();
    let history = &process["history"];
    assert_eq!(
        sum(&history["allocated"]),
        process["summary"]["allocated"].as_i64().unwrap()
    );
    let collections = history["collections"].as_object().unwrap();
    let all: i64 = collections
        .iter()
        .filter(|(name, _)| *name != "induced")
        .map(|(_, counts)| sum(counts))
        .sum();
    assert_eq!(all, process["summary"]["count"].as_i64().unwrap());
    // The charts do not include the time before the session started.
    let stopped = process["summary"]["stopped_ns"].as_i64().unwrap();
    assert!(
        stopped - sum(&history["stopped_ns"]) < 100_000_000,
        "{}",
        sum(&history["stopped_ns"])
    );
    assert_eq!(
        process["incidents"].as_array().unwrap().len(),
        select_kind(&lines, "incident").len()
    );
    assert!(!record["unseen"].as_array().unwrap().is_empty());
    // The URL of the SVG namespace is only a name, and browsers do not load it.
    let fetched = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!fetched.contains("http://") && !fetched.contains("src=") && !fetched.contains("@import"));
    let links = page.matches("https://").count();
    assert_eq!(
        links,
        page.matches("\"runbook_url\":\"https://").count(),
        "only rules have links"
    );
}

/// Scenario: the file of the page already exists or is a directory, or more than 32 recordings are given. Then the page
/// is overwritten without rules.
/// Guarantee: an existing file is overwritten only with --force, and each refusal states the reason. A symbolic link
/// with the name of the temporary file is not followed. Without rules, the page has no incidents.
#[test]
fn page_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    fs::write(&file, "mine").unwrap();
    let (source, to) = (recording("net10-steady"), file.to_str().unwrap());
    let refused = |arguments: &[&str], sentence: &str| {
        let made = analyze(arguments);
        let said = String::from_utf8(made.stderr).unwrap();
        assert!(!made.status.success() && said.contains(sentence), "{said}");
    };
    refused(&[&source, "--html", to], "exists; --force overwrites it");
    refused(
        &[&source, "--html", folder.path().to_str().unwrap(), "--force"],
        "is not a regular file",
    );
    let many = [&source[..]; 33];
    refused(
        &[&many[..], &["--html", to, "--force"]].concat(),
        "at most 32 recordings; 33 were given",
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    // A symbolic link with the name of the temporary file points to a different file.
    let (link, theirs) = (folder.path().join(".report.html.new"), folder.path().join("theirs"));
    fs::write(&theirs, "theirs").unwrap();
    std::os::unix::fs::symlink(&theirs, &link).unwrap();
    written(analyze(&[&source, "--html", to, "--force", "--no-rules"]));
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    assert_eq!(
        record(&fs::read_to_string(&file).unwrap())["processes"][0]["incidents"],
        Value::Null
    );
}

/// Scenario: a page is requested for three files, and the second file is not a recording.
/// Guarantee: the page contains the two recordings in the given order, each with its own figures. The command fails,
/// and its message names the file that is not a recording.
#[test]
fn several_recordings_share_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let (file, none) = (folder.path().join("report.html"), folder.path().join("none.nettrace"));
    fs::write(&none, "no recording").unwrap();
    let (first, second) = (recording("net10-steady"), recording("net10-lohoos"));
    let [none, file] = [none, file].map(|path| path.to_str().unwrap().to_owned());
    let made = analyze(&[&first, &none, &second, "--html", &file]);
    let said = stderr(&made);
    assert_eq!(made.status.code(), Some(1), "{said}");
    assert!(said.contains("none.nettrace"), "{said}");
    let recordings = records(&fs::read_to_string(&file).unwrap());
    let files: Vec<&Value> = recordings.iter().map(|one| &one["file"]).collect();
    assert_eq!(files, ["net10-steady.nettrace.gz", "net10-lohoos.nettrace.gz"]);
    for (source, one) in [&first, &second].into_iter().zip(&recordings) {
        let lines = program::records(["analyze", source, "--format", "ndjson"]);
        assert_eq!(&one["processes"][0]["summary"], select_kind(&lines, "summary")[0]);
    }
}

/// Scenario: a recording contains 4,000 processes of one machine. The collections of all processes have the same
/// numbers.
/// Guarantee: the page contains the processes with the longest stopped time, states how many processes are omitted, and
/// stays within its maximum size.
#[test]
fn page_of_whole_machine_is_bounded() {
    let mut source = Source::open(recording("net10-lohoos").as_ref()).unwrap();
    let mut whole = Recording::read(&mut source, Scope::Collections, |_| ());
    let (subject, history) = whole.processes.pop().unwrap();
    let few: Vec<_> = history.collections.into_iter().skip(100).take(3).collect();
    for pid in 1..=4000 {
        let mut process = ProcessHistory {
            collections: few.clone(),
            ..ProcessHistory::default()
        };
        process.collections.iter().for_each(|one| process.totals.add(one));
        // The last process has the longest stopped time.
        process.totals.stopped_ns += pid;
        let subject = Subject {
            pid: Some(pid.unsigned_abs()),
            ..subject
        };
        whole.processes.push((subject, process));
    }
    let page = page_of(&whole, UnixBase::at(0));
    assert!(page.len() <= 10_000_000, "{}", page.len());
    let record = record(&page);
    let processes = record["processes"].as_array().unwrap();
    assert!(processes.len() <= 100);
    assert!(
        processes[0]["name"].as_str().unwrap().contains("pid 4000"),
        "{}",
        processes[0]["name"]
    );
    let left_out = format!("{} more processes", 4000 - processes.len());
    let unseen = record["unseen"].as_array().unwrap();
    assert!(unseen.iter().any(|one| one["what"] == left_out.as_str()), "{unseen:?}");
}

/// Scenario: a recording contains the command line of its process, and is written as a page with and without
/// `--with-command-line`.
/// Guarantee: both pages contain the process name; only the page with the option contains the arguments.
#[test]
fn arguments_are_shown_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let (source, to) = (recording("net10-lohoos"), file.to_str().unwrap());
    let page = |more: &[&str]| {
        written(analyze(&[&[&source[..], "--html", to, "--force"], more].concat()));
        fs::read_to_string(&file).unwrap()
    };
    let without = page(&[]);
    let name = record(&without)["processes"][0]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("Dosai-linux-amd64, pid "), "{name}");
    assert!(!without.contains("--help"), "the page contains no argument");
    assert_eq!(record(&without)["command_line"], Value::Null);
    let with = record(&page(&["--with-command-line"]));
    assert!(with["command_line"].as_str().unwrap().ends_with(" --help"));
}

/// Scenario: a recording has 100,000 collections. A few hundred collections are repeated with different pauses.
/// Guarantee: the page contains every collection in at most 10 MB. The heap chart has fewer points than collections,
/// and the page states the number of collections that the points represent.
#[test]
fn page_holds_100_000_collections() {
    let mut source = Source::open(recording("net10-lohoos").as_ref()).unwrap();
    let mut long = Recording::read(&mut source, Scope::Collections, |_| ());
    let (_, history) = &mut long.processes[0];
    let (once, length) = (history.collections.clone(), long.observed_ns);
    for round in 1.. {
        let later = round * length;
        for collection in &once {
            let mut again = collection.clone();
            again.pause_ns = again.pause_ns.map(|ns| ns + (later / 7919) % 1_000_003);
            again.number = history.collections.len() as u32;
            again.start = again.start.map(|at| at + later);
            again.end = again.end.map(|at| at + later);
            again.last_event += later;
            for pause in &mut again.pauses {
                pause
                    .spans
                    .iter_mut()
                    .for_each(|(from, to)| (*from, *to) = (*from + later, *to + later));
            }
            history.totals.add(&again);
            history.collections.push(again);
        }
        if history.collections.len() >= 100_000 {
            long.observed_ns = later + length;
            break;
        }
    }
    let page = page_of(&long, UnixBase::at(1_700_000_000_000_000_000));
    if let Some(to) = std::env::var_os("GCWATCH_REPORT_TO") {
        // Keep the file, so that the rendering time can be measured in a browser.
        fs::write(to, &page).unwrap();
    }
    assert!(page.len() <= 10_000_000, "{}", page.len());
    let process = &record(&page)["processes"][0];
    let places = |column: &Value| column.as_array().unwrap().len();
    let numbers = places(&process["pauses"]["number"]);
    assert!(numbers >= 100_000, "{numbers}");
    assert_eq!(process["summary"]["count"], numbers);
    let points = places(&process["heap"]["at_ms"]);
    assert!((1_000..=3_000).contains(&points), "{points}");
    assert!(process["heap"]["of"].as_u64().unwrap() >= 100_000 * 9 / 10);
}
