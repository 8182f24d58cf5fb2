//! Tests of `callers` and `allocations` with saved bursts of tests/workload/known, recorded on real runtimes.

use serde_json::Value;
use test_support::program::{gcwatch, records, select_kind, stderr, written};
use test_support::recordings;

fn recording(name: &str) -> String {
    recordings::file(&format!("evidence/{name}"))
}

/// Scenario: one burst is from .NET 8 with a full rundown, the other from .NET 10 with a filter and a small rundown.
/// Guarantee: both bursts contain the expected callers, each with the API that the caller called; the values of the
/// callers add up to the totals of the first record; only the burst with modules names the method of the program that
/// called a library.
#[test]
fn callers_of_recording_are_named() {
    for name in ["net8-callers", "net10-callers"] {
        let all = records(["callers", &recording(name), "--format", "ndjson"]);
        let (first, callers) = all.split_first().unwrap();
        assert_eq!((&first["kind"], &first["lost_events"]), (&"callers".into(), &0.into()));
        for field in ["triggers", "collections", "stopped_ns"] {
            let sum: i64 = callers.iter().map(|caller| caller[field].as_i64().unwrap()).sum();
            assert_eq!(first[field], sum, "{name}: {field}");
        }
        for site in [
            "Shop.Program.NightlyTrim",
            "Shop.Program.CheckoutAsync",
            "Shop.Program.StartTimer (lambda)",
            "Shop.Repository<int>.Reload (local function Purge)",
            "ThirdParty.Imaging.Codec<T>.Release",
            "Compiled (dynamic method)",
            "Shop.Leftover.Finalize",
            "Shop.LowLatency.Enter",
        ] {
            let of_site: Vec<_> = callers.iter().filter(|caller| caller["site"] == site).collect();
            assert!(!of_site.is_empty(), "{name}: {site}: {callers:#?}");
            for caller in of_site {
                let frames = |field: &str| caller[field].as_array().unwrap().len();
                assert_eq!(frames("frames"), frames("raw_frames"));
                assert!(!caller["api"].is_null(), "{name}: {caller}");
            }
        }
        // The rundown of .NET 8 lists the modules; the rundown of .NET 10 was restricted to methods.
        let library = |caller: &&Value| {
            caller["site"]
                .as_str()
                .is_some_and(|site| site.starts_with("ThirdParty."))
        };
        for caller in callers.iter().filter(library) {
            let called_by = caller["called_by"].as_str();
            let is_program = called_by.is_some_and(|program| program.starts_with("Shop.Program."));
            assert_eq!(is_program, name == "net8-callers", "{caller}");
        }
        let region = callers
            .iter()
            .find(|caller| caller["site"] == "Shop.LowLatency.Enter")
            .unwrap();
        assert_eq!(
            (&region["api"], &region["collections"]),
            (&"TryStartNoGCRegion".into(), &0.into())
        );
        assert_eq!(region["triggers"], region["without_collection"]);
        assert!(first["unasked_stops"].as_u64().unwrap() > 0);
    }
}

/// Scenario: a recording has stacks, but no rundown.
/// Guarantee: its requests for collections are counted, their frames are addresses, and no names are invented.
#[test]
fn requests_without_names_are_counted() {
    let file = recordings::file("net10-nogc");
    let all = records(["callers", &file, "--format", "ndjson"]);
    let triggers = all[0]["triggers"].as_u64().unwrap();
    assert!(triggers > 0 && all[0]["methods"] == 0 && all[0]["unknown_frames"].as_u64() > Some(0));
    let mut counted = 0;
    for caller in &all[1..] {
        counted += caller["triggers"].as_u64().unwrap();
        let is = |field: &str, fits: fn(&str) -> bool| {
            caller[field]
                .as_array()
                .unwrap()
                .iter()
                .all(|frame| fits(frame.as_str().unwrap()))
        };
        assert!(caller["site"].is_null(), "{caller}");
        assert!(is("frames", |frame| frame == "[unknown]"), "{caller}");
        assert!(is("raw_frames", |frame| frame.starts_with("0x")), "{caller}");
    }
    assert_eq!(counted, triggers);
}

/// Scenario: a burst of samples is printed in each format.
/// Guarantee: the total equals the sums over the types, the sites and the folded stacks, except for rounding. The
/// estimate of each type and site is in its interval. The flame graph contains a known method and is complete. The
/// profile is gzipped.
#[test]
fn allocations_are_printed_in_every_format() {
    let file = recording("net10-allocations");
    let all = records(["allocations", &file, "--format", "ndjson"]);
    let first = &all[0];
    assert_eq!(
        (&first["kind"], &first["method"]),
        (&"allocations".into(), &"sampled".into())
    );
    let number = |record: &Value, field: &str| record[field].as_i64().unwrap();
    for kind in ["allocation_type", "allocation_site"] {
        let of_kind = select_kind(&all, kind);
        let sum: i64 = of_kind.iter().map(|record| number(record, "estimate")).sum();
        // Each estimate is rounded.
        assert!(
            (sum - number(first, "estimate")).abs() <= of_kind.len() as i64,
            "{kind}"
        );
        for record in of_kind {
            assert!(number(record, "low") <= number(record, "estimate"), "{record}");
            assert!(number(record, "estimate") <= number(record, "high"), "{record}");
        }
    }
    let folded = written(gcwatch(["allocations", &file, "--format", "folded"]));
    let weights = folded
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap());
    assert!((weights.sum::<i64>() - number(first, "estimate")).abs() <= all.len() as i64 * 10);
    let svg = written(gcwatch(["allocations", &file, "--format", "svg"]));
    assert!(svg.contains("Shop.Memory.Orders.Parse") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
    let pprof = gcwatch(["allocations", &file, "--format", "pprof"]).stdout;
    assert_eq!(pprof[..2], [0x1f, 0x8b]);
}

/// Scenario: the removed command `allocations diff` is called with its former arguments.
/// Guarantee: the error names the command and its replacement.
#[test]
fn removed_comparison_names_its_replacement() {
    let output = gcwatch(["allocations", "diff", "a.ndjson", "b.ndjson", "--top", "3"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("`gcwatch allocations diff` was removed"), "{said}");
    assert!(said.contains("-diff_base"), "{said}");
}
