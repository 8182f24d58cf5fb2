//! `/api/v1`: the records of the pipeline as JSON. The names of their fields are a contract.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Json, Response};
use serde::Deserialize;
use serde_json::json;

use super::{MAX_COLLECTIONS, Site, answer};
use api::view::{NoCollection, OverviewRecord, ProcessRecord};
use delivery::clock::now_unix_ns;

/// What the overview is about, as a record.
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

pub(super) async fn overview(State(site): State<Site>) -> Response {
    Json(overview_record(&site, true)).into_response()
}

pub(super) async fn processes(State(site): State<Site>) -> Response {
    let incidents = site.views.incidents();
    Json(json!({ "processes": site.views.rows(&incidents, true) })).into_response()
}

/// A number in a path.
pub(super) fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Box<Response>> {
    let wrong = |_| {
        let error = format!("{text:?} is no {what}");
        Box::new(answer::bad(
            &error,
            "write it as an integer, as /api/v1/overview has it",
        ))
    };
    text.parse().map_err(wrong)
}

/// What is known of a process, with what only the site knows.
pub(super) fn process_record(site: &Site, pid: u32) -> Option<ProcessRecord> {
    let mut record = site.views.process(pid)?;
    record.grafana_url = site.grafana_url.as_deref().map(str::to_owned);
    Some(record)
}

fn no_process(pid: u32) -> Response {
    answer::not_found(
        &format!("no .NET process of pid {pid} is known: it may have exited, or never been .NET"),
        "GET /api/v1/overview lists those that are; `gcwatch doctor --pid PID` says what prevents one",
    )
}

pub(super) async fn process(State(site): State<Site>, Path(pid): Path<String>) -> Response {
    let pid = match number(&pid, "pid") {
        Ok(pid) => pid,
        Err(refusal) => return *refusal,
    };
    site.views.look_at_memory(pid).await;
    match process_record(&site, pid) {
        Some(record) => Json(record).into_response(),
        None => no_process(pid),
    }
}

pub(super) async fn collection(State(site): State<Site>, Path((pid, wanted)): Path<(String, String)>) -> Response {
    let numbers = number(&pid, "pid").and_then(|pid| Ok((pid, number(&wanted, "number of a collection")?)));
    let (pid, wanted): (u32, u64) = match numbers {
        Ok(numbers) => numbers,
        Err(refusal) => return *refusal,
    };
    match site.views.collection(pid, wanted) {
        Ok(mut record) => {
            record.trace_url = site.trace_url.as_deref().map(str::to_owned);
            Json(record).into_response()
        }
        Err(NoCollection::NoProcess) => no_process(pid),
        Err(NoCollection::NoNumber(None)) => answer::not_found(
            &format!("no collection of pid {pid} was seen yet"),
            "wait for one: an idle process does not collect",
        ),
        Err(NoCollection::NoNumber(Some((first, last)))) => answer::not_found(
            &format!("collection {wanted} of pid {pid} is not remembered"),
            &format!(
                "{first} to {last} are, as far as they were seen; older ones are in the receiver of spans, or in a \
                 recording (gcwatch record --pid {pid})"
            ),
        ),
    }
}

pub(super) async fn targets(State(site): State<Site>) -> Response {
    Json(json!({ "targets": site.views.targets() })).into_response()
}

/// The rules in force and their files; with a pid, as they are in that process.
pub(super) fn rules_record(site: &Site, pid: Option<u32>) -> serde_json::Value {
    let mut answer = site.rules.rule_files();
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("at_ms".to_owned(), json!(now_unix_ns() / 1_000_000));
        fields.insert("rules".to_owned(), json!(site.views.rule_views(pid)));
    }
    answer
}

pub(super) async fn rules(State(site): State<Site>, selection: Result<Query<Selection>, QueryRejection>) -> Response {
    match selection {
        Ok(Query(selection)) => Json(rules_record(&site, selection.pid)).into_response(),
        Err(wrong) => answer::bad(&wrong.body_text(), "the parameter is pid=PID, an integer"),
    }
}

pub(super) async fn alerts(State(site): State<Site>) -> Response {
    Json(json!({ "alerts": site.views.alerts() })).into_response()
}

pub(super) async fn incidents(State(site): State<Site>) -> Response {
    Json(json!({ "incidents": site.views.incidents() })).into_response()
}

pub(super) async fn watcher(State(site): State<Site>) -> Response {
    Json(site.watcher_record()).into_response()
}

#[derive(Debug, Deserialize)]
pub(super) struct Selection {
    pid: Option<u32>,
    limit: Option<usize>,
}

pub(super) async fn collections(
    State(site): State<Site>,
    selection: Result<Query<Selection>, QueryRejection>,
) -> Response {
    let Query(selection) = match selection {
        Ok(selection) => selection,
        Err(wrong) => {
            return answer::bad(
                &wrong.body_text(),
                "the parameters are pid=PID and limit=N, both integers",
            );
        }
    };
    let limit = selection.limit.unwrap_or(MAX_COLLECTIONS).min(MAX_COLLECTIONS);
    Json(json!({ "gcs": site.views.collections(selection.pid, limit) })).into_response()
}
