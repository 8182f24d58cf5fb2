//! Answers to requests that cannot be served: what was asked, what is wrong with it, and what can be asked.

use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Json, Response};
use dotnet_diagnostics::text::shown;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How long an answer about processes may take.
const WITHIN: Duration = Duration::from_secs(2);

/// The paths of the API, as they are listed where another one was asked.
pub(super) const PATHS: [&str; 17] = [
    "/api/v1/overview",
    "/api/v1/processes",
    "/api/v1/processes/PID",
    "/api/v1/processes/PID/collections/NUMBER",
    "/api/v1/processes/PID/history",
    "/api/v1/targets",
    "/api/v1/gcs",
    "/api/v1/rules",
    "/api/v1/alerts",
    "/api/v1/incidents",
    "/api/v1/evidence/",
    "/api/v1/evidence/NAME",
    "/api/v1/evidence/requests/PID",
    "/api/v1/self",
    "/api/v1/events",
    "/api/v1/openapi.json",
    "/metrics",
];

fn refusal(status: StatusCode, error: &str, remedy: &str) -> Response {
    let remedy = (!remedy.is_empty()).then_some(remedy);
    (status, Json(json!({ "error": shown(error), "remedy": remedy }))).into_response()
}

/// 404.
pub(super) fn not_found(error: &str, remedy: &str) -> Response {
    refusal(StatusCode::NOT_FOUND, error, remedy)
}

/// 400.
pub(super) fn bad(error: &str, remedy: &str) -> Response {
    refusal(StatusCode::BAD_REQUEST, error, remedy)
}

/// 503.
pub(super) fn busy(error: &str, remedy: &str) -> Response {
    refusal(StatusCode::SERVICE_UNAVAILABLE, error, remedy)
}

/// An answer that looks at processes. It may wait for one that is being stepped, so it has a thread to itself; after
/// [`WITHIN`], 503.
pub(super) async fn in_time(request: Request, next: Next) -> Response {
    let runtime = Handle::current();
    let answering = spawn_blocking(move || runtime.block_on(next.run(request)));
    match timeout(WITHIN, answering).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_panicked)) => refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the answer failed",
            "the log of gcwatch has the reason; please report it",
        ),
        Err(_late) => busy(
            &format!("there was no answer within {} s", WITHIN.as_secs()),
            "ask again; if it stays so, the host has no CPU for gcwatch (/api/v1/self has its lag)",
        ),
    }
}

/// A path that there is not.
pub(super) fn no_path(path: &str) -> Response {
    let error = format!("there is no {path:?}");
    let body = json!({ "error": shown(&error), "remedy": "ask one of `paths`", "paths": PATHS });
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}
