//! The commands on recordings: records, exit codes, and messages about invalid input.

use std::io::Write as _;
use std::process::Output;
use std::{fs, str};

use serde_json::Value;
use test_support::program::{gcwatch, records_of as records, select_kind as kinds, stderr, with_input, written};
use test_support::recordings::{bytes as unpacked, file as recording};

/// Scenario: `analyze` writes into a pipe.
/// Guarantee: the output has one record per collection in the order of GCStart, a summary, and the record of the stream
/// at the end. Every name of the contract is present, even if its value is unknown.
#[test]
fn records_have_all_names_of_contract() {
    let output = gcwatch(["analyze", &recording("net31-steady")]);
    assert!(output.status.success());
    let records = records(&output);
    let gcs = kinds(&records, "gc");
    assert_eq!(gcs.len(), 14);
    let names = "kind pid clr_instance number generation type became_blocking reason trigger start_offset_ns start \
                 duration_ns pause_ns suspend_ns pauses heap heap_before heap_after promoted pinned_objects sync_blocks \
                 gc_handles finalization_promoted_bytes finalization_promoted_count heap_count memory_load_percent \
                 pause_mode compacting condemned_reasons phases committed allocated_since_last missing complete lossy";
    for gc in &gcs {
        let object = gc.as_object().unwrap();
        for name in names.split(' ') {
            assert!(object.contains_key(name), "{name} is missing in {gc}");
        }
        // .NET Core 3.1 has no POH, no condemned reasons in its global history and no phase times.
        assert!(
            gc["heap"]["poh"]["after"].is_null() && gc["condemned_reasons"].is_null() && gc["phases"]["plan"].is_null()
        );
    }
    let starts: Vec<i64> = gcs.iter().filter_map(|gc| gc["start_offset_ns"].as_i64()).collect();
    assert!(starts.is_sorted() && starts.len() == 14);
    assert_eq!(kinds(&records, "summary").len(), 1);
    let last = records.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["gcs"], &last["lost_events"]),
        (&"stream".into(), &14.into(), &0.into())
    );
    assert_eq!((&last["clean_end"], &last["pointer_size"]), (&true.into(), &8.into()));
}

/// Scenario: one recording lasts a few seconds; another ends after a loss of events.
/// Guarantee: the output counts the rules that could not be evaluated, by reason; ndjson also contains their ids. Rules
/// without a long window are evaluated. An alert reports the loss, although the loss is only known at the end.
#[test]
fn rules_without_enough_data_are_counted() {
    let steady = recording("net10-steady");
    let output = gcwatch(["analyze", &steady]);
    let records = records(&output);
    let judged = kinds(&records, "rules_judged");
    let [judged] = judged.as_slice() else {
        panic!("{judged:?}")
    };
    let ids = |name: &str| -> Vec<&str> {
        let ids = judged[name].as_array().unwrap();
        ids.iter().map(|id| id.as_str().unwrap()).collect()
    };
    let (too_short, unknown) = (ids("too_short"), ids("unknown"));
    assert!(too_short.contains(&"time.stopped"), "{too_short:?}");
    assert!(unknown.contains(&"native.memory"), "{unknown:?}");
    for known in ["induced.blocking", "time.pause", "time.long-pauses"] {
        assert!(!too_short.contains(&known) && !unknown.contains(&known), "{known}");
    }
    let all = judged["rules"].as_u64().unwrap();
    let not = too_short.len() + unknown.len();
    assert_eq!(judged["judged"].as_u64(), Some(all - not as u64));
    let text = written(gcwatch(["analyze", "--format", "table", &steady]));
    let line = format!(
        "not judged: {not} of {all} rules; {} need a longer recording, {} need values, settings or limits that it does \
         not have\n",
        too_short.len(),
        unknown.len()
    );
    assert!(text.ends_with(&line), "{text}");

    let output = gcwatch(["analyze", &recording("net10b-loss")]);
    let records = self::records(&output);
    let lost = kinds(&records, "anomaly");
    let lost = lost.iter().filter(|alert| alert["rule"] == "watcher.events-lost");
    assert_eq!(lost.count(), 1);
}

/// Scenario: in recordings of three seconds, collections stop the process for half of the time; one process is at its
/// heap limit.
/// Guarantee: a rule that needs twenty seconds is reported as holding so far. The rule also counts as not evaluated,
/// although it was false at the start of the recording.
#[test]
fn rule_that_holds_so_far_is_reported() {
    let so_far = |name: &str| {
        let output = gcwatch(["analyze", &recording(name)]);
        let records = records(&output);
        let judged = kinds(&records, "rules_judged");
        let short = judged[0]["too_short"].as_array().unwrap();
        assert!(short.contains(&"time.stopped".into()), "{short:?}");
        judged[0]["so_far"].as_array().unwrap().clone()
    };
    let held = so_far("net10-threads-server");
    let [held] = held.as_slice() else { panic!("{held:?}") };
    assert_eq!(
        (&held["rule"], &held["severity"]),
        (&"time.stopped".into(), &"warning".into())
    );
    assert_eq!(
        held["summary"],
        "The GC stopped the process for 47.2 % of the last 3.19 s, in 56 collections"
    );
    assert_eq!(so_far("net10-lohoos")[0]["rule"], "time.stopped");

    let path = recording("net10-threads-server");
    let text = written(gcwatch(["analyze", "--format", "table", &path]));
    let said = "incidents: none\n\
        so far, in a recording too short to judge it\n\
        warning   GC pauses take a large share of the time  time.stopped\n          \
        The GC stopped the process for 47.2 % of the last 3.19 s, in 56 collections\n";
    assert!(text.contains(said), "{text}");
}

/// Scenario: the same recording is read gzipped, plain and zipped, and each of these from standard input.
/// Guarantee: the records are equal except for the file name.
#[test]
fn packaging_does_not_change_records() {
    let plain = unpacked("net10-steady");
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (plain_file, zip_file) = (named("a.nettrace"), named("a.zip"));
    fs::write(&plain_file, &plain).unwrap();
    let mut zip = zip::ZipWriter::new(fs::File::create(&zip_file).unwrap());
    zip.start_file("a.nettrace", zip::write::SimpleFileOptions::default())
        .unwrap();
    zip.write_all(&plain).unwrap();
    zip.finish().unwrap();
    let reported = |output: Output| {
        assert!(output.status.success(), "{}", stderr(&output));
        let mut records = records(&output);
        records.last_mut().unwrap()["file"] = Value::Null;
        records
    };
    let gz = recording("net10-steady");
    let expected = reported(gcwatch(["analyze", &gz]));
    assert!(expected.len() > 70);
    for file in [&gz, &plain_file, &zip_file] {
        assert_eq!(reported(gcwatch(["analyze", file])), expected, "{file}");
        assert_eq!(
            reported(with_input(["analyze", "-"], &fs::read(file).unwrap())),
            expected,
            "{file} piped"
        );
    }
}

/// Scenario: `analyze`, `events` and `diff` get files that are not recordings.
/// Guarantee: one line on standard error names the problem, the exit code is 1, and standard output is empty.
#[test]
fn bad_input_is_reported_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let v7 = [&b"Nettrace"[..], &[0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]].concat();
    let netperf = [&[20, 0, 0, 0][..], b"!FastSerialization.1"].concat();
    let cases = [
        (file("text", b"hello, this is not a recording"), "not a nettrace"),
        (file("perf", &netperf), "NetPerf"),
        (file("v7", &v7), "7"),
        (file("empty", b""), "empty"),
        (
            folder.path().join("nothing").to_str().unwrap().to_owned(),
            "No such file",
        ),
    ];
    for (path, what) in cases {
        for command in ["analyze", "events"] {
            let output = gcwatch([command, &path]);
            assert_eq!(output.status.code(), Some(1), "{command} {path}");
            let said = stderr(&output);
            assert!(
                said.contains(what) && said.starts_with("gcwatch: ") && said.lines().count() == 1,
                "{command} {path}: {said}"
            );
            assert!(
                output.stdout.is_empty(),
                "{command} {path}: {:?}",
                str::from_utf8(&output.stdout)
            );
        }
        assert_eq!(gcwatch(["diff", &path, &path]).status.code(), Some(1));
    }
    assert_eq!(gcwatch(["analyze"]).status.code(), Some(2));
    assert_eq!(gcwatch(["analyze", "--top", "many", "x"]).status.code(), Some(2));
}

/// Scenario: one directory contains recordings and another file; another directory contains no recording.
/// Guarantee: the recordings are reported in the order of their names; a directory without a recording is an error.
#[test]
fn directory_stands_for_its_recordings() {
    let folder = tempfile::tempdir().unwrap();
    for (name, of) in [("b.nettrace.gz", "net10-steady"), ("a.NETTRACE.GZ", "net31-steady")] {
        fs::copy(recording(of), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("notes.txt"), "none").unwrap();
    let path = folder.path().to_str().unwrap();
    let output = gcwatch(["analyze", path]);
    assert!(output.status.success(), "{}", stderr(&output));
    let records = records(&output);
    let files: Vec<&str> = kinds(&records, "stream")
        .iter()
        .map(|record| record["file"].as_str().unwrap())
        .collect();
    assert!(
        files.len() == 2 && files[0].ends_with("a.NETTRACE.GZ") && files[1].ends_with("b.nettrace.gz"),
        "{files:?}"
    );
    fs::create_dir(folder.path().join("none")).unwrap();
    let output = gcwatch(["analyze", folder.path().join("none").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("has no file named *.nettrace"),
        "{}",
        stderr(&output)
    );
}

/// Scenario: collections of all kinds of recordings are printed as CSV.
/// Guarantee: every line has as many cells as the header. The header has every field of the record except `kind` and
/// the fields that CSV flattens or omits. Known values match the record, and unknown values are empty.
#[test]
fn csv_matches_records() {
    for name in [
        "net10-steady",
        "net31-steady",
        "net10b-attach-in-bgc",
        "svc8-workstation",
    ] {
        let path = &recording(name);
        let text = written(gcwatch(["analyze", "--format", "csv", path]));
        let mut lines = text.strip_suffix("\r\n").unwrap().split("\r\n");
        let header: Vec<&str> = lines.next().unwrap().split(',').collect();
        let records = records(&gcwatch(["analyze", "--no-rules", path]));
        let gcs = kinds(&records, "gc");
        for name in gcs[0].as_object().unwrap().keys() {
            let nested = [
                "kind",
                "pauses",
                "account",
                "account_estimated",
                "account_ranges",
                "heap",
                "phases",
                "committed",
                "committed_total",
                "worst_request",
            ]
            .contains(&name.as_str());
            assert!(nested || header.contains(&name.as_str()), "{name} is missing");
        }
        let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), gcs.len());
        for (row, gc) in rows.iter().zip(&gcs) {
            assert_eq!(row.len(), header.len());
            let cell = |name: &str| row[header.iter().position(|column| *column == name).unwrap()];
            let known = |value: &Value| {
                if value.is_null() {
                    String::new()
                } else {
                    value.to_string()
                }
            };
            for name in [
                "number",
                "pause_ns",
                "generation",
                "heap_after",
                "complete",
                "memory_load_percent",
            ] {
                assert_eq!(cell(name), known(&gc[name]), "{name}");
            }
            assert_eq!(cell("gen0_before"), known(&gc["heap"]["gen0"]["before"]));
            assert_eq!(cell("phases_mark_roots"), known(&gc["phases"]["mark_roots"]));
        }
    }
}

/// Scenario: the user types command names of other tools, and a misspelled command.
/// Guarantee: the exit code is 2, and the error suggests the matching command.
#[test]
fn names_of_other_tools_get_suggestion() {
    for (word, command) in [
        ("counters", "top"),
        ("collect", "record"),
        ("gcdump", "heap"),
        ("gcstats", "analyze"),
        ("problems", "incidents"),
        ("recrod", "record"),
    ] {
        let output = gcwatch([word]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains(&format!("'{command}'")),
            "{word}: {}",
            stderr(&output)
        );
    }
}

/// Scenario: `events` gets a name in lower case, an unknown name, and a misspelled name.
/// Guarantee: the case does not matter; for the other names, the error lists or suggests existing names.
#[test]
fn events_are_found_by_name() {
    let path = &recording("net10-steady");
    let count = |name: &str| kinds(&records(&gcwatch(["events", path, "--name", name])), "event").len();
    assert!(count("gcstart") > 50 && count("gcstart") == count("GCStart"));
    let near = gcwatch(["events", path, "--name", "GCStrat"]);
    assert!(stderr(&near).contains("did you mean GCStart?"), "{}", stderr(&near));
    let none = gcwatch(["events", path, "--name", "nothing"]);
    assert!(stderr(&none).contains("no event is called nothing; it has") && stderr(&none).contains("GCHeapStats"));
    assert_eq!(kinds(&records(&none), "event").len(), 0);
}

/// Scenario: a recording is cut short, as by a killed process or a full disk.
/// Guarantee: the complete part of the recording is reported, `clean_end` is false, standard error has one line, and
/// the exit code is 0.
#[test]
fn truncated_recording_is_not_an_error() {
    let whole = unpacked("net10-steady");
    let output = with_input(["analyze", "-"], &whole[..whole.len() / 2]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    assert!(kinds(&records, "gc").len() > 20);
    assert_eq!(records.last().unwrap()["clean_end"], Value::Bool(false));
    assert!(
        stderr(&output).contains("is truncated") && stderr(&output).lines().count() == 1,
        "{}",
        stderr(&output)
    );
}

/// Scenario: a recording has a damaged block in the middle.
/// Guarantee: the part before the damage is reported, the error names the position, and the exit code is 1.
#[test]
fn damaged_recording_is_reported_up_to_damage() {
    let mut bytes = unpacked("net31-steady");
    let block = b"EventBlock";
    let places: Vec<usize> = bytes
        .windows(block.len())
        .enumerate()
        .filter(|(_, window)| window == block)
        .map(|(at, _)| at)
        .collect();
    let middle = places[places.len() / 2];
    bytes[middle + block.len()] = 0x77;
    let output = with_input(["analyze", "-"], &bytes);
    assert_eq!(output.status.code(), Some(1));
    assert!(!kinds(&records(&output), "gc").is_empty());
    assert!(stderr(&output).contains("byte"), "{}", stderr(&output));
}

/// Scenario: `events` reads a Verbose recording, a recording with rundown, and a recording with private events.
/// Guarantee: every event blob of the stream becomes a record with the fields of the manifest, or with its bytes in
/// hex.
#[test]
fn every_event_is_printed() {
    for name in [
        "net10-steady-verbose",
        "net8-threads-dotnettrace-default",
        "net10b-private",
    ] {
        let output = gcwatch(["events", &recording(name)]);
        assert!(output.status.success());
        let records = records(&output);
        let events = kinds(&records, "event");
        assert_eq!(
            events.len() as u64,
            records.last().unwrap()["events"].as_u64().unwrap(),
            "{name}"
        );
        assert!(
            events
                .iter()
                .all(|event| event["fields"].is_object() != event["undecoded"].is_string()),
            "{name}"
        );
        let offsets: Vec<i64> = events
            .iter()
            .map(|event| event["offset_ns"].as_i64().unwrap())
            .collect();
        assert!(offsets.is_sorted(), "{name}");
        let start = events.iter().find(|event| event["name"] == "GCStart").unwrap();
        for field in [
            "Count",
            "Depth",
            "Reason",
            "Type",
            "ClrInstanceID",
            "ClientSequenceNumber",
        ] {
            assert!(start["fields"][field].is_u64(), "{field}");
        }
    }
}

/// Scenario: one collection is printed in full, as text and as records.
/// Guarantee: the output has the stops, marks, phases, types and events of the collection. For an unknown number, the
/// error names the number.
#[test]
fn one_collection_is_printed_in_full() {
    let file = recording("net10-steady-verbose");
    let of = ["analyze", "--gc", "45", "--events", "--format", "table", &file];
    let text = written(gcwatch(of));
    for part in [
        "Stops",
        "Heap",
        "Phases",
        "Marked, by kind of root",
        "System.Byte[]",
        "Events",
        "GCRestartEEEnd",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let output = gcwatch(["analyze", "--gc", "45", &file]);
    let records = records(&output);
    assert_eq!(records[1]["kind"], "gc_detail");
    assert!(records[1]["allocated"][0]["bytes"].as_u64().unwrap() > 1_000_000);
    let piped = with_input(["analyze", "--gc", "45", "-"], &fs::read(&file).unwrap());
    assert_eq!(piped.stdout, output.stdout);
    let missing = gcwatch(["analyze", "--gc", "4500", &file]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        stderr(&missing).contains("no collection with the number 4500"),
        "{}",
        stderr(&missing)
    );
}

/// Scenario: collections are selected by time, sorted and limited.
/// Guarantee: the output has only the selected collections, in the requested order.
#[test]
fn collections_are_selected_and_sorted() {
    let file = recording("svc8-workstation");
    let part = ["--from", "1s", "--to", "3.5s", "--sort", "pause", "--top", "5", &file];
    let records = records(&gcwatch([&["analyze"], &part[..]].concat()));
    let gcs = kinds(&records, "gc");
    assert_eq!(gcs.len(), 5);
    let pauses: Vec<i64> = gcs.iter().map(|gc| gc["pause_ns"].as_i64().unwrap()).collect();
    assert!(pauses.is_sorted_by(|a, b| a >= b), "{pauses:?}");
    let within = |gc: &&Value| (1_000_000_000..3_500_000_000).contains(&gc["start_offset_ns"].as_i64().unwrap());
    assert!(gcs.iter().all(within));
}

/// Scenario: two recordings are compared.
/// Guarantee: the output has the figures of all collections and of each generation and type, for both recordings.
#[test]
fn two_recordings_are_compared() {
    let (a, b) = (
        recording("net10-threads-server"),
        recording("net10-threads-server-datas"),
    );
    let records = records(&gcwatch(["diff", &a, &b]));
    let all = &records[0];
    assert!(all["generation"].is_null());
    let mut figures = all["figures"].as_array().unwrap().iter();
    let figure = figures.find(|figure| figure["name"] == "collections").unwrap();
    assert!(figure["before"].as_f64().unwrap() > 50.0 && figure["after"].as_f64().unwrap() > 100.0);
    assert!(records.len() > 4);
    let table = written(gcwatch(["diff", "--format", "table", &a, &b]));
    assert!(table.contains("gen2 background"));
}

/// Scenario: a table is written to a pipe, without `--color` and with the option before or after the command.
/// Guarantee: the table has colours only if they were requested.
#[test]
fn colours_are_used_only_on_request() {
    let recording = recording("net10-steady");
    let is_coloured = |before: &[&str], after: &[&str]| {
        let analyze = ["analyze", "--format", "table", &recording];
        written(gcwatch([before, &analyze, after].concat())).contains('\u{1b}')
    };
    assert!(!is_coloured(&[], &[]));
    assert!(is_coloured(&["--color", "always"], &[]) && is_coloured(&[], &["--color=always"]));
    assert!(!is_coloured(&["--color", "never"], &[]));
}
