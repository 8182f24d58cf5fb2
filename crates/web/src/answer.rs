//! Answers to requests that cannot be served: what was asked, what is wrong with it, and what can be asked.

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

/// An answer that says why there is no other.
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

/// 404.
pub(super) fn not_found(error: &str, remedy: &str) -> Refusal {
    refusal(StatusCode::NOT_FOUND, error, remedy)
}

/// 400.
pub(super) fn bad(error: &str, remedy: &str) -> Refusal {
    refusal(StatusCode::BAD_REQUEST, error, remedy)
}

/// 503.
pub(super) fn busy(error: &str, remedy: &str) -> Refusal {
    refusal(StatusCode::SERVICE_UNAVAILABLE, error, remedy)
}

/// 503, to be asked again in ten seconds.
pub(super) fn busy_for_seconds(error: &str, remedy: &str) -> Refusal {
    let mut refusal = busy(error, remedy);
    let headers = refusal.0.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
    refusal
}

/// The parameters of a request.
pub(super) fn asked<T>(query: Result<Query<T>, QueryRejection>, remedy: &str) -> Result<T, Refusal> {
    query
        .map(|Query(asked)| asked)
        .map_err(|wrong| bad(&wrong.body_text(), remedy))
}

/// A body: what is sent, in order.
pub(super) fn streamed(parts: mpsc::Receiver<Bytes>) -> Body {
    Body::new(Streamed(parts))
}

struct Streamed(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}

/// An answer that looks at processes: within [`WITHIN`], else 503.
pub(super) async fn in_time(request: Request, next: Next) -> Response {
    within(next.run(request)).await
}

/// It may wait for a process that is being stepped, so it has a thread to itself.
async fn within(answer: impl Future<Output = Response> + Send + 'static) -> Response {
    let Ok(place) = Arc::clone(&ANSWERS).try_acquire_owned() else {
        let error = format!("{AT_ONCE} answers are being made already");
        return busy(&error, "ask again in a moment").into_response();
    };
    let runtime = Handle::current();
    let answering = spawn_blocking(move || {
        let answer = runtime.block_on(answer);
        drop(place);
        answer
    });
    match timeout(WITHIN, answering).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_panicked)) => {
            let remedy = "the log of gcwatch has the reason; please report it";
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "the answer failed", remedy).into_response()
        }
        Err(_late) => {
            let error = format!("there was no answer within {} s", WITHIN.as_secs());
            let remedy = "ask again; if it stays so, the host has no CPU for gcwatch (/api/v1/self has its lag)";
            busy(&error, remedy).into_response()
        }
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
