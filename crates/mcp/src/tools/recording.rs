//! `recording`: a recording as analyzed by `gcwatch analyze`.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ListedTool, incidents, read, rows, schema};
use crate::page::{UNITS, list, pick, text, trimmed};
use crate::source::{Answer, Asker, Recording, Refusal, Source};

pub(super) const TOOL: ListedTool = ListedTool {
    name: "recording",
    title: "A recording",
    description: "A recording of a process (.nettrace), analyzed: stopped time and its parts, the longest collections, \
                  causes, incidents found by rules, and rules that need more time. Pass a `file`, or an `incident` to read its \
                  black box (the seconds before the incident). Without `file` and `incident`: the list of recordings. With \
                  `collection`: one of the longest collections in full.",
    arguments: schema::<Arguments>,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of a .nettrace file, which can be gzipped or zipped. Available only over stdio.
    file: Option<PathBuf>,
    /// Id of an incident that has a recording.
    incident: Option<String>,
    /// Number of the collection to show in full.
    collection: Option<u64>,
    /// Number of rows per list.
    #[serde(default = "rows::<5>")]
    limit: usize,
}

/// Maximum number of rows per list.
const MAX_ROWS: usize = 50;

pub(super) async fn answer<S: Source>(asker: &Asker<'_, S>, arguments: Map<String, Value>) -> Answer {
    let arguments: Arguments = read(arguments)?;
    let which = match (&arguments.file, &arguments.incident) {
        (Some(_), Some(_)) => {
            return Err(Refusal::new(
                "`file` and `incident` cannot be used together",
                "pass only one of them",
            ));
        }
        (Some(file), None) => Recording::File(named(asker.source.files(), file)?),
        (None, Some(id)) => Recording::Incident(black_box(&asker.record("/api/v1/overview").await?, id)?),
        (None, None) => return known(asker).await,
    };
    build_answer(&asker.source.recording(which).await?, &arguments)
}

/// Returns the file with this path or name among the files that were passed when the server started. If no files were
/// passed, returns any path unchanged.
pub(super) fn named(files: &[PathBuf], file: &Path) -> Result<PathBuf, Refusal> {
    let name = file.file_name();
    let found = files.iter().find(|known| *known == file || known.file_name() == name);
    match found {
        Some(known) => Ok(known.clone()),
        None if files.is_empty() => Ok(file.to_owned()),
        None => Err(Refusal::new(
            format!("{} is not among the recordings of this server", file.display()),
            "call `recording` without arguments to list the recordings",
        )),
    }
}

/// Returns the path under which the API serves the recording of an incident.
fn black_box(overview: &Value, id: &str) -> Result<String, Refusal> {
    let mut incidents = list(overview, "incidents").iter();
    let incident = incidents.find(|incident| text(incident, "id") == Some(id));
    let incident = incident.ok_or_else(|| Refusal::new(format!("no incident {id:?} is stored"), "call `incidents`"))?;
    let mut evidence = list(incident, "evidence").iter();
    let recorded = evidence.find(|evidence| text(evidence, "name") == Some("black-box"));
    let place = recorded.and_then(|evidence| text(evidence, "where"));
    place.map(str::to_owned).ok_or_else(|| {
        Refusal::new(
            "this incident has no recording",
            "set state.directory in gcwatch's configuration; `recording` without arguments lists all recordings",
        )
    })
}

/// Returns the available recordings: the files passed at startup, and the recordings of the daemon's incidents.
async fn known<S: Source>(asker: &Asker<'_, S>) -> Answer {
    let files: Vec<String> = asker
        .source
        .files()
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let of_incidents = match asker.record("/api/v1/evidence/").await {
        Ok(record) => json!(list(&record, "evidence").iter().take(MAX_ROWS).collect::<Vec<_>>()),
        // The caller has no access to the recordings, or no daemon answers.
        Err(refusal) => json!({ "unknown": refusal.error, "remedy": refusal.remedy }),
    };
    Ok(json!({ "files": files, "of_incidents": of_incidents, "units": UNITS }))
}

fn build_answer(record: &Value, arguments: &Arguments) -> Answer {
    let limit = arguments.limit.clamp(1, MAX_ROWS);
    let processes = list(record, "processes");
    if let Some(number) = arguments.collection {
        let is_it = |gc: &&Value| gc.get("number").and_then(Value::as_u64) == Some(number);
        let found = processes.iter().flat_map(|process| list(process, "full")).find(is_it);
        let remedy = format!("`gcwatch analyze --gc {number} FILE` prints any collection");
        let found = found.ok_or_else(|| {
            Refusal::new(
                format!("collection {number} is not among the longest of this recording"),
                remedy,
            )
        })?;
        return Ok(json!({ "collection": trimmed(found.clone(), MAX_ROWS), "units": UNITS }));
    }
    let processes: Vec<Value> = processes.iter().map(|process| one(process, limit)).collect();
    let mut answer = pick(record, &["file", "runtime", "started", "observed_ns"]);
    answer.insert("processes".to_owned(), trimmed(processes.into(), limit));
    if let Some(requests) = record.get("requests").filter(|requests| requests.is_object()) {
        let mut totals = pick(requests, &["count", "known", "hit", "lost_ns"]);
        totals.extend(
            trimmed(Value::Object(pick(requests, &["worst"])), limit)
                .as_object()
                .cloned()
                .unwrap_or_default(),
        );
        answer.insert("requests".to_owned(), Value::Object(totals));
    }
    answer.insert(
        "not_known".to_owned(),
        record.get("unseen").cloned().unwrap_or_default(),
    );
    answer.insert("units".to_owned(), UNITS.into());
    Ok(Value::Object(answer))
}

fn one(process: &Value, limit: usize) -> Value {
    let mut answer = pick(process, &["name", "collector", "mean_ns", "largest_heap", "induced"]);
    let figures = [
        "count",
        "incomplete",
        "lossy",
        "stopped_ns",
        "stopped_share",
        "lower_bounds",
        "p50_ns",
        "p99_ns",
        "max_ns",
        "allocated",
        "allocated_lower_bound",
        "account",
    ];
    let summary = process.get("summary").cloned().unwrap_or_default();
    answer.extend(pick(&summary, &figures));
    let lists = pick(process, &["causes", "longest", "judged?"]);
    answer.extend(lists);
    let incidents: Option<Vec<Value>> = process.get("incidents").and_then(Value::as_array).map(|all| {
        let rows = all.iter().map(|incident| {
            let mut row = incidents::row(incident);
            if let Some(fields) = row.as_object_mut() {
                fields.extend(pick(incident, &["remedy", "gc_number?"]));
            }
            row
        });
        rows.collect()
    });
    answer.insert("incidents".to_owned(), json!(incidents));
    trimmed(Value::Object(answer), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one server was started with two files, and another without files. The listed files are requested by
    /// path and by name, and other files by path.
    /// Guarantee: a server with files reads no other file, and a server without files accepts any path.
    #[test]
    fn only_listed_files_are_read() {
        let files = [PathBuf::from("/a/x.nettrace"), PathBuf::from("/a/y.nettrace")];
        assert_eq!(named(&files, Path::new("/a/x.nettrace")).unwrap(), files[0]);
        assert_eq!(named(&files, Path::new("y.nettrace")).unwrap(), files[1]);
        assert!(named(&files, Path::new("/etc/passwd")).is_err());
        assert_eq!(named(&[], Path::new("z")).unwrap(), Path::new("z"));
    }

    /// Scenario: one incident has a recording, another has no recording, and a third id is unknown.
    /// Guarantee: the result is the path of the recording, or the reason why it is missing.
    #[test]
    fn recording_of_incident_is_found() {
        let overview = json!({ "incidents": [
            { "id": "a", "evidence": [{ "name": "ledger", "where": "ledger" },
                                      { "name": "black-box", "where": "/api/v1/evidence/1.nettrace" }] },
            { "id": "b", "evidence": [] },
        ] });
        assert_eq!(black_box(&overview, "a").unwrap(), "/api/v1/evidence/1.nettrace");
        assert!(black_box(&overview, "b").unwrap_err().error.contains("no recording"));
        assert!(black_box(&overview, "c").unwrap_err().error.contains("\"c\""));
    }
}
