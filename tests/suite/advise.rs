//! Tests of `gcwatch advise` on recordings: the bound of the memory limit, the price curve, and refusals with their
//! reasons.

use serde_json::Value;
use test_support::program::{gcwatch, records, select_kind, stderr, written};
use test_support::recordings::{self, file as recording};

const KINDS: [&str; 6] = [
    "limit_raise",
    "limit_lower",
    "collector",
    "gen0_size",
    "large_objects",
    "conserve_memory",
];

/// Scenario: `gcwatch advise` reads every recording of the tests, including damaged ones, without and with
/// `--unproven`.
/// Guarantee: the output has one record per kind for each sizing record. The bound is null exactly if a reason states
/// why. The expected stopped share never falls if the limit falls. Every record has a reason, a hash and no verdict. A
/// refusal has neither a setting nor an expectation nor a check. Without `--unproven`, every record is a refusal. With
/// `--unproven`, some recordings have predictions, and these predictions are marked as unproven.
#[test]
fn each_process_has_one_record_per_kind() {
    let paths = recordings::paths_in(&["", "rules"]);
    assert!(paths.len() >= 85, "recordings are missing");
    let found = recordings::on_all_cores(&paths, |path| {
        let path = path.to_str().unwrap();
        let records = |arguments: &[&str]| -> Vec<Value> {
            let output = gcwatch(["advise", path].iter().chain(arguments));
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let plain = records(&[]);
        let shown = records(&["--unproven", "--limit", "1GiB", "--cpus", "2"]);
        (path.to_owned(), plain, shown)
    });
    let mut predictions = 0;
    for (path, plain, shown) in &found {
        for records in [plain, shown] {
            let sizing = select_kind(records, "sizing");
            let advice = select_kind(records, "advice");
            assert_eq!(advice.len(), sizing.len() * KINDS.len(), "{path}");
            for record in sizing {
                let is_known = !record["not_less_than"].is_null();
                assert_eq!(is_known, record["unknown_because"].is_null(), "{path}: {record}");
                let shares = record["curve"].as_array().unwrap().iter();
                let shares: Vec<f64> = shares.filter_map(|point| point["stopped_share"][1].as_f64()).collect();
                assert!(shares.is_sorted(), "{path}: {shares:?}");
            }
            for record in advice {
                let is_refusal = record["setting"].is_null();
                assert_eq!(is_refusal, record["expected"].is_null(), "{path}: {record}");
                assert_eq!(is_refusal, record["check"].is_null(), "{path}: {record}");
                assert!(
                    record["because"]["text"].as_str().is_some_and(|text| text.len() > 10),
                    "{path}: {record}"
                );
                assert!(record["verdict"].is_null() && record["hash"].as_str().unwrap().len() == 64);
                assert!(KINDS.contains(&record["advice"].as_str().unwrap()));
            }
        }
        assert!(
            select_kind(plain, "advice")
                .iter()
                .all(|record| record["setting"].is_null()),
            "{path}"
        );
        let of_shown = select_kind(shown, "advice");
        let unproven = of_shown.iter().filter(|record| !record["setting"].is_null());
        predictions += unproven.clone().count();
        assert!(unproven.into_iter().all(|record| record["unproven"] == true), "{path}");
    }
    assert!(predictions > 0, "no recording has a prediction");
}

/// Scenario: `gcwatch advise` reads a recording with lost events.
/// Guarantee: every kind is refused because of the lost events, and the sizing record lists them as a gap.
#[test]
fn lossy_recording_is_refused() {
    let records = records(["advise", &recording("net10b-loss")]);
    for record in select_kind(&records, "advice") {
        let text = record["because"]["text"].as_str().unwrap();
        assert!(text.ends_with("events were lost"), "{text}");
    }
    let sizing = select_kind(&records, "sizing");
    assert!(sizing[0]["gaps"].as_array().unwrap().contains(&"lost_events".into()));
}

/// Scenario: `--at` requests the price of two limits for a recording that does not contain its limit.
/// Guarantee: the curve contains only these limits, in descending order, and each heap limit is three quarters of its
/// limit.
#[test]
fn requested_limits_are_priced() {
    let records = records(["advise", &recording("net10-steady"), "--at", "100MiB", "--at", "200MiB"]);
    let sizing = select_kind(&records, "sizing");
    let curve = sizing[0]["curve"].as_array().unwrap();
    let limits = curve
        .iter()
        .map(|point| (point["memory_limit"].as_u64(), point["heap_limit"].as_u64()));
    let expected = [(Some(200 << 20), Some(150 << 20)), (Some(100 << 20), Some(75 << 20))];
    assert_eq!(limits.collect::<Vec<_>>(), expected);
}

/// Scenario: `gcwatch advise` reads a recording as a table, a file that is not a recording, and pid 0.
/// Guarantee: the table contains the memory limit, the facts that were not seen, and the refusals; the other two calls
/// exit with code 1, and the error for pid 0 names the pid.
#[test]
fn table_states_refusals() {
    let text = written(gcwatch(["advise", "--format", "table", &recording("net10-steady")]));
    for words in ["memory limit: ", "not seen: no deployment", "no advice"] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    let output = gcwatch(["advise", "Cargo.toml"]);
    assert_eq!(output.status.code(), Some(1));
    let output = gcwatch(["advise", "0"]);
    assert!(output.status.code() == Some(1) && stderr(&output).contains("pid 0"));
}
