//! Answers to requests that cannot be served: what was asked, what is wrong with it, and what can be asked.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Json, Response};
use dotnet_diagnostics::text::shown;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How long an answer about processes may take.
const WITHIN: Duration = Duration::from_secs(2);

/// Concurrent connections that may ask anything, and as many answers about processes at the same time, each with a
/// thread, those included for which nobody waits any more.
pub(super) const AT_ONCE: usize = 64;
static ANSWERS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(AT_ONCE)));

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

/// An answer that looks at processes: within [`WITHIN`], else 503.
pub(super) async fn in_time(request: Request, next: Next) -> Response {
    within(next.run(request)).await
}

/// It may wait for a process that is being stepped, so it has a thread to itself.
async fn within(answer: impl Future<Output = Response> + Send + 'static) -> Response {
    let Ok(place) = Arc::clone(&ANSWERS).try_acquire_owned() else {
        return busy(
            &format!("{AT_ONCE} answers are being made already"),
            "ask again in a moment",
        );
    };
    let runtime = Handle::current();
    let answering = spawn_blocking(move || {
        let answer = runtime.block_on(answer);
        drop(place);
        answer
    });
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;

    /// Scenario: an answer that waits for a process which somebody holds, and another one meanwhile; two seconds pass.
    /// Guarantee: the second is there at once, the first is a 503 that says what to do. Its thread has its place until it
    /// ends, and no longer.
    #[tokio::test(start_paused = true)]
    async fn who_waits_for_long_is_refused() {
        let (end, held) = mpsc::channel::<()>();
        let first = tokio::spawn(within(async move {
            held.recv().unwrap_err();
            StatusCode::OK.into_response()
        }));
        // It has begun to wait.
        while ANSWERS.available_permits() == AT_ONCE {
            yield_now().await;
        }
        let second = within(async { StatusCode::OK.into_response() }).await;
        assert_eq!(second.status(), StatusCode::OK);
        advance(WITHIN).await;
        assert_eq!(first.await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ANSWERS.available_permits(), AT_ONCE - 1);
        drop(end);
        let all = u32::try_from(AT_ONCE).unwrap();
        drop(ANSWERS.acquire_many(all).await.unwrap());
    }
}
