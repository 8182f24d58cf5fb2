//! Requests in a recording of a web service on .NET 8 by `record --profile requests`.

use serde_json::Value;
use test_support::program::{gcwatch, records, select_kind, written};
use test_support::recordings;

fn build_arguments(format: &str) -> [String; 7] {
    let recording = recordings::file("requests/net8-shop");
    let words = ["analyze", "--format", format, "--no-rules", "--top", "1", &recording];
    words.map(str::to_owned)
}

/// Scenario: the recording covers 1.5 s of a service that answers, fails and collects on request.
/// Guarantee: every request has its ids. The stopped time of a request is at most its duration and equals the sum of
/// its pauses. Each pause is within its request and has the number of its collection.
#[test]
fn stopped_time_of_requests_equals_their_pauses() {
    let all = records(build_arguments("ndjson"));
    let requests = select_kind(&all, "request");
    let (mut hit, mut failed) = (0, 0);
    for request in &requests {
        assert_eq!(request["trace_id"].as_str().unwrap().len(), 32, "{request}");
        assert_eq!(request["span_id"].as_str().unwrap().len(), 16, "{request}");
        assert_eq!(
            request["sampled"], false,
            "no activity listener samples the request: {request}"
        );
        let ns = |record: &Value, field: &str| record[field].as_i64().unwrap();
        let pauses = request["pauses"].as_array().unwrap();
        let sum: i64 = pauses
            .iter()
            .map(|pause| ns(pause, "end_ns") - ns(pause, "start_ns"))
            .sum();
        assert_eq!(ns(request, "stopped_ns"), sum, "{request}");
        assert!(sum <= ns(request, "duration_ns"), "{request}");
        assert_eq!(ns(request, "stops"), pauses.len() as i64);
        for pause in pauses {
            assert!(ns(request, "start_ns") <= ns(pause, "start_ns"), "{request}");
            assert!(ns(pause, "end_ns") <= ns(request, "end_ns"), "{request}");
            assert!(!pause["gc_number"].is_null(), "{request}");
        }
        hit += u32::from(sum > 0);
        failed += u32::from(request["failed"] == true);
    }
    assert!(
        requests.len() > 100 && hit > 20 && failed > 5,
        "{} {hit} {failed}",
        requests.len()
    );
}

/// Scenario: the same recording is printed as a table.
/// Guarantee: the part of the table about requests matches the committed text, which a person has reviewed.
#[test]
fn requests_are_shown_as_bars() {
    let text = written(gcwatch(build_arguments("table")));
    let (_, requests) = text.split_once(" stopped").map_or(("", ""), |(before, _)| {
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        text.split_at(line)
    });
    test_support::golden::compare("tests/recordings/requests/net8-shop.txt", requests);
}
