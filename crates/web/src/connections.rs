//! Connections of the listener, limited in number, age and memory: in a pod, every client with network access to its
//! address can connect.
//!
//! ```text
//! accept -- a place is free, or a client was slow for 1 s ----> 64 places: all requests
//!        '- no place ---------------------------------> 16 places (TLS: 128): health, otherwise 503; one request,
//!                                                                      two seconds, the oldest is replaced
//! ```
//!
//! A connection that follows events ([`super::events`]) leaves its place: these connections have 16 separate places.
//!
//! Health requests are always answered, even if other clients hold connections open, send a request byte by byte, or
//! read a response slowly. The memory of all responses is also limited.

mod places;
mod serving;
mod stream;

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;

use self::places::ConnectionSlots;
use self::serving::{ConnectionPlace, answer, answer_once};
use super::answer::MAX_CONCURRENT;
use super::peer::Ends;

/// Number of additional places for health requests.
const RESERVED: usize = 16;
/// Number of additional places for health requests with TLS. The handshake takes a round trip and a signature, so that
/// each connection needs its place for longer. At 20,000 connections per second, the oldest place is six milliseconds
/// old when it is reassigned.
const RESERVED_TLS: usize = 128;
/// Time after which an idle connection, or a connection that reads its response slowly, can be replaced.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum size of the kernel's send buffer per connection, bytes; the kernel doubles the value. By default, the kernel
/// buffers at most 4 MiB for a client that does not read, and charges this memory to the control group of gcwatch.
const SEND_BUFFER_BYTES: usize = 128 << 10;
/// Deadline for the head of a request, from the start of the connection or the end of the previous request; also the
/// idle timeout.
const HEAD_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum age of a connection. A scraper then opens a new connection.
const LIFETIME: Duration = Duration::from_secs(600);
/// Deadline for the last response of a connection that is closing.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before the next accept after an error of the system, for example if no file descriptor is free.
const PAUSE: Duration = Duration::from_millis(500);

/// Deadlines of a connection; tests use shorter deadlines.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    head: Duration,
    lifetime: Duration,
    last_answer: Duration,
}

const DEADLINES: Deadlines = Deadlines {
    head: HEAD_TIMEOUT,
    lifetime: LIFETIME,
    last_answer: LAST_ANSWER_TIMEOUT,
};

/// Routers of the two kinds of places.
#[derive(Debug, Clone)]
pub(super) struct Routers {
    /// Router of all requests.
    pub(super) all: Router,
    /// Router of health requests; all other requests receive the response that no place is free.
    pub(super) health: Router,
}

/// Numbers of places.
#[derive(Debug, Clone, Copy)]
struct ConnectionLimits {
    at_once: usize,
    reserved: usize,
    grace: Duration,
}

const ROOM: ConnectionLimits = ConnectionLimits {
    at_once: MAX_CONCURRENT,
    reserved: RESERVED,
    grace: GRACE,
};

/// Serves requests until `end` completes, then finishes the requests in progress.
///
/// # Errors
///
/// Never returns an error: after an error of the listener, the function waits for [`PAUSE`] and accepts again.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    routers: Routers,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let room = ConnectionLimits {
        reserved: if tls.is_some() { RESERVED_TLS } else { RESERVED },
        ..ROOM
    };
    serve_within(listener, tls, routers, end, room, DEADLINES).await
}

/// Places shared by the connections of one kind.
type Shared = Arc<Mutex<ConnectionSlots<AbortHandle>>>;

fn places(shared: &Shared) -> MutexGuard<'_, ConnectionSlots<AbortHandle>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve_within(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    routers: Routers,
    end: impl Future<Output = ()>,
    room: ConnectionLimits,
    deadlines: Deadlines,
) -> io::Result<()> {
    let general: Shared = Arc::new(Mutex::new(ConnectionSlots::new(room.at_once, room.grace)));
    let reserved: Shared = Arc::new(Mutex::new(ConnectionSlots::new(room.reserved, Duration::ZERO)));
    let turns = Arc::new(Semaphore::new(1));
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut end = pin!(end);
    loop {
        let accepted = tokio::select! {
            () = &mut end => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // If the size cannot be set, the kernel's default remains.
                let _set = set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
                let now = Instant::now();
                // The results are bound to names, so that the first lock is released before the second lock is taken.
                let in_general = places(&general).take(now);
                let in_reserved = match in_general {
                    Ok(_) => Err(places::NoFreeSlot),
                    Err(places::NoFreeSlot) => places(&reserved).take(now),
                };
                let slow = match (in_general, in_reserved) {
                    (Ok((id, slow)), _) => {
                        let place = ConnectionPlace::new(&general, id);
                        let own = stream.local_addr().unwrap_or(peer);
                        let serving = answer(
                            (stream, Ends { peer, own }),
                            tls.clone(),
                            routers.all.clone(),
                            place,
                            Arc::clone(&turns),
                            ended.clone(),
                            deadlines,
                        );
                        let handle = connections.spawn(serving);
                        places(&general).set(id, handle);
                        slow
                    }
                    (Err(places::NoFreeSlot), Ok((id, oldest))) => {
                        let place = ConnectionPlace::new(&reserved, id);
                        let handle = connections.spawn(answer_once(stream, tls.clone(), routers.health.clone(), place));
                        places(&reserved).set(id, handle);
                        oldest
                    }
                    (Err(places::NoFreeSlot), Err(places::NoFreeSlot)) => None,
                };
                if let Some(slow) = slow {
                    slow.abort();
                }
                // The yield lets an earlier client receive its response before the next connection takes its place.
                yield_now().await;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(target: "gcwatch::web", "cannot accept connections: {error}; retrying");
                tokio::select! {
                    () = &mut end => break,
                    () = sleep(PAUSE) => {}
                }
            }
        }
    }
    drop(listener);
    ending.send_replace(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// Returns `true` if the client closed the connection before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    use super::*;

    async fn connect(address: std::net::SocketAddr) -> TcpStream {
        TcpStream::connect(address).await.unwrap()
    }

    async fn ask(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = vec![0; 512];
        let count = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..count]).into_owned()
    }

    /// Waits until the connection is closed.
    async fn closed(stream: &mut TcpStream) {
        let mut rest = Vec::new();
        let _reset_or_end = stream.read_to_end(&mut rest).await;
    }

    async fn served(
        at_once: usize,
        grace: Duration,
        deadlines: Deadlines,
        test: impl AsyncFnOnce(std::net::SocketAddr),
    ) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routers = Routers {
            all: Router::new().route("/", get(async || "here")),
            health: Router::new().fallback(async || (StatusCode::SERVICE_UNAVAILABLE, "no place")),
        };
        let room = ConnectionLimits {
            at_once,
            reserved: 2,
            grace,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let end = async {
            let _dropped = stopped.await;
        };
        let server = tokio::spawn(serve_within(listener, None, routers, end, room, deadlines));
        test(address).await;
        drop(stop);
        server.await.unwrap().unwrap();
    }

    /// Scenario: all permitted connections are open and silent: one connection after a response, the other in the head
    /// of a request; another client sends a request.
    /// Guarantee: the silent connections lose their places after the deadline for a request's head, and the other
    /// client receives a response.
    #[tokio::test]
    async fn silent_connections_lose_their_places() {
        let deadlines = Deadlines {
            head: Duration::from_millis(50),
            ..DEADLINES
        };
        served(2, Duration::ZERO, deadlines, async |address| {
            let mut silent = [connect(address).await, connect(address).await];
            assert!(ask(&mut silent[0]).await.ends_with("here"));
            silent[1].write_all(b"GET / HT").await.unwrap();
            let mut other = connect(address).await;
            assert!(ask(&mut other).await.ends_with("here"));
            for stream in &mut silent {
                closed(stream).await;
            }
        })
        .await;
    }

    /// Scenario: new connections hold all places, and silent connections hold all reserved places. Other clients
    /// connect; one client has already sent its request, another client sends it late.
    /// Guarantee: both clients receive the response that no place is free. The connection of the early client is then
    /// closed. The first connection keeps its place.
    #[tokio::test]
    async fn oldest_reserved_place_is_reassigned() {
        served(1, GRACE * 3600, DEADLINES, async |address| {
            let mut first = connect(address).await;
            assert!(ask(&mut first).await.ends_with("here"));
            let _silent = [connect(address).await, connect(address).await];
            let mut early = connect(address).await;
            assert!(ask(&mut early).await.starts_with("HTTP/1.1 503"));
            closed(&mut early).await;
            let (mut late, _silent) = (connect(address).await, connect(address).await);
            assert!(ask(&mut late).await.starts_with("HTTP/1.1 503"));
            assert!(ask(&mut first).await.ends_with("here"));
        })
        .await;
    }

    /// Scenario: a connection receives a response and stays open for longer than the maximum age; then another client
    /// connects.
    /// Guarantee: the old connection is closed after its complete response, and the other client is served.
    #[tokio::test]
    async fn old_connections_end_between_responses() {
        let deadlines = Deadlines {
            lifetime: Duration::from_millis(20),
            ..DEADLINES
        };
        served(1, Duration::ZERO, deadlines, async |address| {
            let mut stream = connect(address).await;
            assert!(ask(&mut stream).await.ends_with("here"));
            closed(&mut stream).await;
            let mut next = connect(address).await;
            assert!(ask(&mut next).await.ends_with("here"));
        })
        .await;
    }

    /// Scenario: the daemon shuts down while a scraper holds its idle connection.
    /// Guarantee: the connection is closed and the listener stops.
    #[tokio::test]
    async fn idle_connections_do_not_delay_shutdown() {
        let mut kept = None;
        served(8, GRACE, DEADLINES, async |address| {
            let mut stream = connect(address).await;
            assert!(ask(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
            kept = Some(stream);
        })
        .await;
        closed(&mut kept.unwrap()).await;
    }
}
