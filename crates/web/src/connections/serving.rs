//! Serving of one connection with a place: requests and responses, until the connection is too old, idle or slow.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::connections::stream::FlushNotifier;
use crate::connections::{Deadlines, Shared, places};
use crate::events;
use crate::evidence;
use crate::health::is_health;
use crate::mcp;
use crate::peer::Ends;
use crate::viewers::Link;
use crate::wire::wire;

/// Maximum time of a connection on a reserved place for its only request and the response.
const RESERVED_FOR: Duration = Duration::from_secs(2);

/// Maximum size of a request's head and of data read in advance, bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum size of all responses that are written, bytes. A single response can be larger, for example the metrics of
/// thousands of processes.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// Deadline for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Place of a connection, released on drop.
pub(super) struct ConnectionPlace {
    shared: Shared,
    id: u64,
}

impl ConnectionPlace {
    pub(super) fn new(shared: &Shared, id: u64) -> Self {
        let shared = Arc::clone(shared);
        Self { shared, id }
    }

    /// Returns the response if its size is within the limit of all responses, otherwise 503. Ends slow connections
    /// first if the limit would be exceeded.
    ///
    /// A stream of events has a separate place among the viewers, so the connection releases this place.
    fn admit(&self, answer: Response<Body>) -> Response<Body> {
        if events::is_stream(&answer) {
            places(&self.shared).leave(self.id);
            return answer;
        }
        let bytes = answer.body().size_hint().exact();
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
        let (admitted, slow) = places(&self.shared).answer(self.id, bytes, MAX_ANSWER_BYTES, Instant::now());
        slow.iter().for_each(AbortHandle::abort);
        if admitted {
            return answer;
        }
        let text = "too many responses are in progress; retry\n";
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        places(&self.shared).leave(self.id);
    }
}

/// Serves one connection. Errors of the connection are caused by the client and are not reported.
///
/// At most one response of all connections runs at a time, except health responses and responses that wait for a disk.
/// Other tasks run between two responses. This order limits the delay of other tasks: a client can send hundreds of
/// requests at the same time, and the metrics of a thousand processes take milliseconds.
pub(super) async fn answer(
    (stream, ends): (TcpStream, Ends),
    tls: Option<TlsAcceptor>,
    router: Router,
    place: ConnectionPlace,
    turns: Arc<Semaphore>,
    mut ended: watch::Receiver<bool>,
    deadlines: Deadlines,
) {
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT.min(deadlines.head), wire(stream, tls)).await else {
        return;
    };
    let place = Arc::new(place);
    let slow = Arc::new(Notify::new());
    let router = TowerToHyperService::new(router.into_service::<Body>());
    let service = service_fn({
        let place = Arc::clone(&place);
        let link = Link {
            slow: Arc::clone(&slow),
            ended: ended.clone(),
            ends,
        };
        move |mut request: Request<Incoming>| {
            places(&place.shared).asked(place.id, Instant::now());
            request.extensions_mut().insert(link.clone());
            let (router, place, turns) = (router.clone(), Arc::clone(&place), Arc::clone(&turns));
            async move {
                // The body is read before the response waits for its predecessors, because a body can arrive slowly.
                let request = match mcp::whole(request.map(Body::new)).await {
                    Ok(request) => request,
                    Err(refusal) => return Ok(place.admit(*refusal)),
                };
                let mut _turn = None;
                let path = request.uri().path();
                if !is_health(path) && !evidence::waits_for_disk(path) {
                    // The semaphore is never closed.
                    _turn = turns.acquire().await.ok();
                    yield_now().await;
                }
                router.call(request).await.map(|answer| place.admit(answer))
            }
        }
    });
    let stream = FlushNotifier::new(stream, move || places(&place.shared).flushed(place.id, Instant::now()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines.head)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _over = connection.as_mut() => return,
        () = slow.notified() => return,
        _ended = ended.wait_for(|ended| *ended) => {}
        () = sleep(deadlines.lifetime) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _cut_off = timeout(deadlines.last_answer, connection).await;
}

/// Serves one request of a connection with a reserved place.
pub(super) async fn answer_once(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router, place: ConnectionPlace) {
    let service = TowerToHyperService::new(router.into_service::<Incoming>());
    let serving = async {
        let Ok(stream) = wire(stream, tls).await else {
            return;
        };
        // Errors are errors of the client.
        let _over = http1::Builder::new()
            .keep_alive(false)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    };
    let _late_or_over = timeout(RESERVED_FOR, serving).await;
    drop(place);
}
