//! Answers to requests that cannot be served: what was asked, what is wrong with it, and what can be asked.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Json, Response};
use dotnet_diagnostics::text::shown;
use serde_json::json;

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

/// A path that there is not.
pub(super) fn no_path(path: &str) -> Response {
    let error = format!("there is no {path:?}");
    let body = json!({ "error": shown(&error), "remedy": "ask one of `paths`", "paths": PATHS });
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}
