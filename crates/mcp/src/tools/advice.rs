//! `advice`: the memory that a process needs, and settings with their price, as computed by `gcwatch advise`.
//!
//! A recording is read at once. A pid needs a session in the process, so [`crate::bursts`] first returns the price.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::recording::named;
use super::{ListedTool, found, read, schema};
use crate::page::{list, pick};
use crate::source::{Answer, Asker, Refusal, Source};

pub(super) const TOOL: ListedTool = ListedTool {
    name: "advice",
    title: "Memory and settings",
    description: "The lower bound of a process's memory limit, the price of other limits, and GC settings with their price. \
                  Sets nothing. A refusal (null `setting`) is an answer: `because` has the reason. Pass a `file`, or a `pid`: \
                  a GC session of `seconds` in the process, only with `gcwatch mcp --allow-bursts`, after confirmation.",
    arguments: schema::<Arguments>,
};

/// Maximum number of limits whose price can be requested.
const MAX_LIMITS: usize = 8;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of a .nettrace file.
    file: Option<PathBuf>,
    /// Pid on this host.
    pid: Option<u32>,
    /// Memory limit of the container, if unknown in `file`.
    limit: Option<u64>,
    /// CPUs of the process, if unknown in `file`.
    cpus: Option<f64>,
    /// Limits to price.
    #[serde(default)]
    at: Vec<u64>,
    /// Duration for `pid`, at most 30; default: 30.
    seconds: Option<u32>,
    /// `confirm` of the answer with the price.
    confirm: Option<String>,
}

/// The observation of a process that a call requests.
#[derive(Debug)]
pub(crate) struct RequestedObservation {
    pub(crate) pid: u32,
    /// Duration in seconds; `None` if not requested.
    pub(crate) seconds: Option<u32>,
    /// Options of `gcwatch advise`, except the duration.
    pub(crate) options: Vec<String>,
    pub(crate) confirm: Option<String>,
}

/// Answers from a recording. Refuses a pid, because this function must not affect a process.
pub(super) async fn answer<S: Source>(asker: &Asker<'_, S>, arguments: Map<String, Value>) -> Answer {
    let arguments: Arguments = read(arguments)?;
    let Some(file) = arguments.file.as_deref().filter(|_| arguments.pid.is_none()) else {
        return Err(match arguments.pid {
            Some(_) if arguments.file.is_some() => both(),
            Some(pid) => Refusal::new(
                format!("process {pid} needs a GC session, and this server affects no process"),
                "call `process` with `parts: [\"sizing\"]` for its memory without a session; for all settings, start `gcwatch \
                 mcp --allow-bursts` on the host of the process, or pass a recording (`gcwatch record`) as `file`",
            ),
            None => Refusal::new("`file` and `pid` are missing", "pass one of them"),
        });
    };
    let file = named(asker.source.files(), file)?;
    let words = [vec!["advise".to_owned()], options(&arguments)?].concat();
    Ok(found(asker.source.command(words, Some(file)).await?))
}

/// Parses the arguments of a call with a pid.
pub(crate) fn observation(arguments: Map<String, Value>) -> Result<RequestedObservation, Refusal> {
    let arguments: Arguments = read(arguments)?;
    match (arguments.pid, &arguments.file) {
        (Some(pid), None) => Ok(RequestedObservation {
            pid,
            seconds: arguments.seconds,
            options: options(&arguments)?,
            confirm: arguments.confirm,
        }),
        _ => Err(both()),
    }
}

fn both() -> Refusal {
    Refusal::new("`file` and `pid` cannot be used together", "pass only one of them")
}

/// Returns the options of `gcwatch advise`, except the duration.
fn options(arguments: &Arguments) -> Result<Vec<String>, Refusal> {
    if arguments.at.len() > MAX_LIMITS {
        let error = format!("`at` has more than {MAX_LIMITS} limits");
        return Err(Refusal::new(error, "request the price of fewer limits"));
    }
    if let Some(cpus) = arguments.cpus.filter(|cpus| *cpus <= 0.0) {
        return Err(Refusal::new(
            format!("{cpus} CPUs are not a positive number"),
            "omit `cpus` if the number is unknown",
        ));
    }
    let mut options = vec!["--format".to_owned(), "ndjson".to_owned()];
    options.extend(arguments.limit.map(|bytes| format!("--limit={bytes}B")));
    options.extend(arguments.cpus.map(|cpus| format!("--cpus={cpus}")));
    options.extend(arguments.at.iter().map(|bytes| format!("--at={bytes}B")));
    Ok(options)
}

/// Returns a record of a command with fewer fields if the record is a sizing or advice: without the fields that all
/// records of a process repeat, and without intermediate figures. Returns other records unchanged.
pub(super) fn row(record: Value) -> Value {
    match record.get("kind").and_then(Value::as_str) {
        Some("sizing") => {
            let mut row = pick(
                &record,
                &[
                    "kind",
                    "service?",
                    "until?",
                    "process?",
                    "pid?",
                    "configuration",
                    "window",
                    "gaps",
                    "not_less_than",
                    "unknown_because?",
                    "live",
                    "young",
                    "committed",
                    "stopped_share",
                    "full_per_minute",
                ],
            );
            let curve = list(&record, "curve").iter();
            row.insert("curve".to_owned(), curve.map(point).collect());
            Value::Object(row)
        }
        Some("advice") => {
            let mut row = pick(&record, &["kind", "applies_to.pid", "advice", "setting"]);
            if !record.get("setting").is_none_or(Value::is_null) {
                row.extend(pick(
                    &record,
                    &["applies_to.runtimes", "now", "expected", "check", "unproven"],
                ));
            }
            let because = record.pointer("/because/text").cloned().unwrap_or_default();
            row.insert("because".to_owned(), because);
            Value::Object(row)
        }
        _ => record,
    }
}

fn point(point: &Value) -> Value {
    let fields = [
        "memory_limit",
        "heap_limit",
        "prospect",
        "full_per_minute_range",
        "stopped_share",
        "extrapolated",
    ];
    Value::Object(pick(point, &fields))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    /// Scenario: processes are requested with and without limits and CPUs, with a file, with too many limits, with
    /// negative and zero CPUs, with options in place of numbers, and with the option for predictions without proof.
    /// Guarantee: a call results in options that contain only its numbers, or in a refusal.
    #[test]
    fn arguments_become_options() {
        let options = |value| observation(arguments(value)).map(|observation| observation.options.join(" "));
        assert_eq!(options(json!({ "pid": 7 })).unwrap(), "--format ndjson");
        let full = json!({ "pid": 7, "limit": 536_870_912, "cpus": 1.5, "at": [1000, 2000], "seconds": 9 });
        assert_eq!(
            options(full).unwrap(),
            "--format ndjson --limit=536870912B --cpus=1.5 --at=1000B --at=2000B"
        );
        for refused in [
            json!({ "pid": 7, "file": "a.nettrace" }),
            json!({ "pid": 7, "at": [1, 2, 3, 4, 5, 6, 7, 8, 9] }),
            json!({ "pid": 7, "cpus": -1 }),
            json!({ "pid": 7, "cpus": 0 }),
            json!({ "pid": 7, "limit": "1GiB --unproven" }),
            json!({ "pid": 7, "unproven": true }),
        ] {
            assert!(options(refused.clone()).is_err(), "{refused}");
        }
    }

    /// Scenario: `gcwatch advise` printed a sizing, a refusal and a prediction; another command printed another record.
    /// Guarantee: the sizing has its bound, gaps and prices; the refusal has its reason and no expectation; the
    /// prediction has its setting, price and check; the other record is unchanged.
    #[test]
    fn records_are_shortened() {
        let sizing = json!({ "kind": "sizing", "pid": 7, "gaps": ["growing"], "not_less_than": null,
            "unknown_because": "no full collection", "full_ns": [1, 2],
            "curve": [{ "memory_limit": 9, "prospect": "works", "stopped_share_per_mib": 0.1 }] });
        let sizing = row(sizing);
        assert_eq!(
            (&sizing["gaps"][0], &sizing["not_less_than"], &sizing["unknown_because"]),
            (&json!("growing"), &Value::Null, &json!("no full collection"))
        );
        assert_eq!(sizing["curve"][0]["prospect"], "works");
        assert!(sizing.get("full_ns").is_none() && sizing["curve"][0].get("stopped_share_per_mib").is_none());
        let applies_to = json!({ "pid": 7, "configuration": { "cpus": 2 }, "runtimes": [] });
        let refusal = json!({ "kind": "advice", "hash": "0", "advice": "limit_raise", "setting": null, "expected": null,
            "applies_to": applies_to, "because": { "text": "the heap limit is unknown", "window": {} } });
        assert_eq!(
            row(refusal),
            json!({ "kind": "advice", "pid": 7, "advice": "limit_raise", "setting": null,
                "because": "the heap limit is unknown" })
        );
        let prediction = row(
            json!({ "kind": "advice", "advice": "gen0_size", "setting": { "yaml": "x" },
            "applies_to": applies_to, "now": { "cpu": 1 }, "expected": { "cpu": [1, 2] }, "check": { "text": "t" },
            "unproven": true, "because": { "text": "b" } }),
        );
        assert_eq!(
            (
                &prediction["expected"]["cpu"],
                &prediction["check"]["text"],
                &prediction["unproven"]
            ),
            (&json!([1, 2]), &json!("t"), &json!(true))
        );
        assert_eq!(
            row(json!({ "kind": "heap", "x": 1 })),
            json!({ "kind": "heap", "x": 1 })
        );
    }
}
