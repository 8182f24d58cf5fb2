//! `/api/v1`: the records of the pipeline as JSON. The field names are a contract.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Json;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Refusal, asked, bad, not_found};
use super::{MAX_COLLECTIONS, Site};
use api::view::{CollectionLookupError, CollectionRecord, OverviewRecord, ProcessRecord, WatcherRecord};
use base::clock::now_unix_ns;

/// Returns the record of the overview.
pub(super) fn overview_record(site: &Site, sparks: bool) -> OverviewRecord {
    let incidents = site.views.incidents();
    OverviewRecord {
        at_ms: now_unix_ns() / 1_000_000,
        version: env!("CARGO_PKG_VERSION"),
        host: site.watcher.host(),
        grafana_url: site.grafana_url.as_deref().map(str::to_owned),
        ready: site.ready.load(std::sync::atomic::Ordering::Acquire),
        processes: site.views.rows(&incidents, sparks),
        exited: site.views.exited_rows(&incidents),
        states: site.views.states(),
        incidents,
    }
}

pub(super) async fn overview(State(site): State<Site>) -> Json<OverviewRecord> {
    Json(overview_record(&site, true))
}

pub(super) async fn processes(State(site): State<Site>) -> Json<Value> {
    let incidents = site.views.incidents();
    Json(json!({ "processes": site.views.rows(&incidents, true) }))
}

/// Parses a number in a path. If the text is not a number, returns 400 with a text that contains `what`, the meaning of
/// the number.
pub(super) fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Refusal> {
    let error = || format!("{text:?} is not a valid {what}");
    let number = text.parse();
    number.map_err(|_| bad(&error(), "use an integer from /api/v1/overview"))
}

/// Returns the record of a process with the dashboard URL of the site, or `None` if no process with this pid is known.
pub(super) fn process_record(site: &Site, pid: u32) -> Option<ProcessRecord> {
    let mut record = site.views.process(pid)?;
    record.grafana_url = site.grafana_url.as_deref().map(str::to_owned);
    Some(record)
}

fn no_process(pid: u32) -> Refusal {
    not_found(
        &format!("no .NET process with pid {pid} is known: the process exited or is not a .NET process"),
        "GET /api/v1/overview lists the known processes; `gcwatch doctor --pid PID` shows why a process is missing",
    )
}

pub(super) async fn process(State(site): State<Site>, Path(pid): Path<String>) -> Result<Json<ProcessRecord>, Refusal> {
    let pid = number(&pid, "pid")?;
    site.views.look_at_memory(pid).await;
    process_record(&site, pid).map(Json).ok_or_else(|| no_process(pid))
}

pub(super) async fn collection(
    State(site): State<Site>,
    Path((pid, wanted)): Path<(String, String)>,
) -> Result<Json<CollectionRecord>, Refusal> {
    let (pid, wanted) = (number(&pid, "pid")?, number(&wanted, "number of a collection")?);
    let found = site.views.collection(pid, wanted);
    let mut record = found.map_err(|missing| match missing {
        CollectionLookupError::NoProcess => no_process(pid),
        CollectionLookupError::NoNumber(None) => not_found(
            &format!("no collection of pid {pid} was observed yet"),
            "wait for a collection; an idle process does not collect",
        ),
        CollectionLookupError::NoNumber(Some((first, last))) => not_found(
            &format!("collection {wanted} of pid {pid} is not available"),
            &format!(
                "{first} to {last} are available if they were observed; older collections are in the receiver of \
                 spans or in a recording (gcwatch record --pid {pid})"
            ),
        ),
    })?;
    record.trace_url = site.trace_url.as_deref().map(str::to_owned);
    Ok(Json(record))
}

pub(super) async fn targets(State(site): State<Site>) -> Json<Value> {
    Json(json!({ "targets": site.views.targets() }))
}

/// Returns the rule files and the active rules with their states in all processes, or only in the process with this
/// pid.
pub(super) fn rules_record(site: &Site, pid: Option<u32>) -> Value {
    let mut answer = site.watcher.rule_files();
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("at_ms".to_owned(), json!(now_unix_ns() / 1_000_000));
        fields.insert("rules".to_owned(), json!(site.views.rule_views(pid)));
    }
    answer
}

pub(super) async fn rules(
    State(site): State<Site>,
    selection: Result<Query<Selection>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let selection = asked(selection, "use the parameter pid=PID, an integer")?;
    Ok(Json(rules_record(&site, selection.pid)))
}

pub(super) async fn alerts(State(site): State<Site>) -> Json<Value> {
    Json(json!({ "alerts": site.views.alerts() }))
}

pub(super) async fn incidents(State(site): State<Site>) -> Json<Value> {
    Json(json!({ "incidents": site.views.incidents() }))
}

pub(super) async fn changes(
    State(site): State<Site>,
    selection: Result<Query<Selection>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let selection = asked(selection, "use the parameter pid=PID, an integer")?;
    Ok(Json(json!({ "changes": site.views.changes(selection.pid) })))
}

pub(super) async fn sizing(
    State(site): State<Site>,
    selection: Result<Query<Selection>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let selection = asked(selection, "use the parameter pid=PID, an integer")?;
    Ok(Json(json!({ "sizing": site.views.sizing(selection.pid) })))
}

pub(super) async fn watcher(State(site): State<Site>) -> Json<WatcherRecord> {
    Json(site.watcher_record())
}

#[derive(Debug, Deserialize)]
pub(super) struct Selection {
    pid: Option<u32>,
    limit: Option<usize>,
}

pub(super) async fn collections(
    State(site): State<Site>,
    selection: Result<Query<Selection>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let selection = asked(selection, "use the parameters pid=PID and limit=N, both integers")?;
    let limit = selection.limit.unwrap_or(MAX_COLLECTIONS).min(MAX_COLLECTIONS);
    Ok(Json(json!({ "gcs": site.views.collections(selection.pid, limit) })))
}
