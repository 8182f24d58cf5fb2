//! Responses to requests that cannot be served: the request, the problem, and the available paths.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Json, Response};
use base::text::shown;
use hyper::body::Frame;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum time for a response about processes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of concurrent connections that serve all requests; also the maximum number of concurrent responses
/// about processes. Each response about processes occupies a thread until the response is ready, even if the client has
/// stopped waiting.
pub(super) const MAX_CONCURRENT: usize = 64;
static ANSWERS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_CONCURRENT)));

/// Paths of the API, listed in the response to an unknown path.
pub(super) const PATHS: [&str; 19] = [
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
    "/api/v1/changes",
    "/api/v1/sizing",
    "/api/v1/evidence/",
    "/api/v1/evidence/NAME",
    "/api/v1/evidence/requests/PID",
    "/api/v1/self",
    "/api/v1/events",
    "/api/v1/openapi.json",
    "/metrics",
];

/// Response with the reason for the refusal.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) Box<Response>);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        *self.0
    }
}

fn refusal(status: StatusCode, error: &str, remedy: &str) -> Refusal {
    let remedy = (!remedy.is_empty()).then_some(remedy);
    let body = Json(json!({ "error": shown(error), "remedy": remedy }));
    Refusal(Box::new((status, body).into_response()))
}

/// Returns a refusal with the status 404.
pub(super) fn not_found(error: &str, remedy: &str) -> Refusal {
    refusal(StatusCode::NOT_FOUND, error, remedy)
}

/// Returns a refusal with the status 400.
pub(super) fn bad(error: &str, remedy: &str) -> Refusal {
    refusal(StatusCode::BAD_REQUEST, error, remedy)
}

/// Returns a refusal with the status 503.
pub(super) fn busy(error: &str, remedy: &str) -> Refusal {
    refusal(StatusCode::SERVICE_UNAVAILABLE, error, remedy)
}

/// Returns a refusal with the status 503. The refusal requests a retry after ten seconds.
pub(super) fn busy_for_seconds(error: &str, remedy: &str) -> Refusal {
    let mut refusal = busy(error, remedy);
    let headers = refusal.0.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
    refusal
}

/// Returns the parameters of a request, or 400 with `remedy` if the parameters are invalid.
pub(super) fn asked<T>(query: Result<Query<T>, QueryRejection>, remedy: &str) -> Result<T, Refusal> {
    query
        .map(|Query(asked)| asked)
        .map_err(|wrong| bad(&wrong.body_text(), remedy))
}

/// Returns a body that sends the received parts in order.
pub(super) fn streamed(parts: mpsc::Receiver<Bytes>) -> Body {
    Body::new(StreamedBody(parts))
}

struct StreamedBody(mpsc::Receiver<Bytes>);

impl hyper::body::Body for StreamedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}

/// Middleware for responses about processes: returns 503 after [`ANSWER_TIMEOUT`], or if [`MAX_CONCURRENT`] responses
/// are in progress.
pub(super) async fn in_time(request: Request, next: Next) -> Response {
    within(next.run(request)).await
}

/// Runs a response on a separate thread, because the response can wait for the update of a process.
async fn within(answer: impl Future<Output = Response> + Send + 'static) -> Response {
    let Ok(place) = Arc::clone(&ANSWERS).try_acquire_owned() else {
        let error = format!("{MAX_CONCURRENT} responses are already in progress");
        return busy(&error, "retry in a few seconds").into_response();
    };
    let runtime = Handle::current();
    let answering = spawn_blocking(move || {
        let answer = runtime.block_on(answer);
        drop(place);
        answer
    });
    match timeout(ANSWER_TIMEOUT, answering).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_panicked)) => {
            let remedy = "see the reason in the log of gcwatch; report the problem";
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "the response failed", remedy).into_response()
        }
        Err(_late) => {
            let error = format!("the response was not ready within {} s", ANSWER_TIMEOUT.as_secs());
            let remedy = "retry; if the problem persists, gcwatch lacks CPU (see the lag in /api/v1/self)";
            busy(&error, remedy).into_response()
        }
    }
}

/// Returns 404 with the available paths.
pub(super) fn no_path(path: &str) -> Response {
    let error = format!("the path {path:?} does not exist");
    let body = json!({ "error": shown(&error), "remedy": "use a path of `paths`", "paths": PATHS });
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;

    /// Scenario: a response waits for a process that another thread holds; a second response starts; two seconds pass.
    /// Guarantee: the second response is immediate. The first response has the status 503. The place of its thread is
    /// occupied until the thread ends, and then free.
    #[tokio::test(start_paused = true)]
    async fn slow_response_is_refused() {
        let (end, held) = mpsc::channel::<()>();
        let first = tokio::spawn(within(async move {
            held.recv().unwrap_err();
            StatusCode::OK.into_response()
        }));
        // The first response waits.
        while ANSWERS.available_permits() == MAX_CONCURRENT {
            yield_now().await;
        }
        let second = within(async { StatusCode::OK.into_response() }).await;
        assert_eq!(second.status(), StatusCode::OK);
        advance(ANSWER_TIMEOUT).await;
        assert_eq!(first.await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ANSWERS.available_permits(), MAX_CONCURRENT - 1);
        drop(end);
        let all = u32::try_from(MAX_CONCURRENT).unwrap();
        drop(ANSWERS.acquire_many(all).await.unwrap());
    }
}
