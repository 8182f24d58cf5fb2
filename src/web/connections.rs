//! The connections of the listener, limited in number and age: in a pod anybody who reaches its address may connect.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Limit of concurrent connections. Further ones wait to be accepted.
const AT_ONCE: usize = 64;
/// Deadline for a request's head, from the start of the connection or the end of the previous request, which makes it
/// the idle timeout too.
const HEAD_WITHIN: Duration = Duration::from_secs(90);
/// Limit of a connection's age, so that a slow client does not keep its place. A scraper opens another one.
const LIFETIME: Duration = Duration::from_secs(600);
/// Deadline for the last answer of a connection that is being closed.
const LAST_ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Pause before the next accept when the system has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(500);

/// Deadlines of a connection; tests use shorter ones.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    head: Duration,
    lifetime: Duration,
    last_answer: Duration,
}

const DEADLINES: Deadlines = Deadlines {
    head: HEAD_WITHIN,
    lifetime: LIFETIME,
    last_answer: LAST_ANSWER_WITHIN,
};

/// Serves requests until `end` completes, then finishes those in progress.
///
/// # Errors
///
/// When the listener fails.
pub(super) async fn serve(listener: TcpListener, router: Router, end: impl Future<Output = ()>) -> io::Result<()> {
    serve_within(listener, router, end, AT_ONCE, DEADLINES).await
}

async fn serve_within(
    listener: TcpListener,
    router: Router,
    end: impl Future<Output = ()>,
    at_once: usize,
    deadlines: Deadlines,
) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(at_once));
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut end = pin!(end);
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = &mut end => break,
            Some(_) = connections.join_next() => continue,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (router, ended) = (router.clone(), ended.clone());
                connections.spawn(async move {
                    answer(stream, router, ended, deadlines).await;
                    drop(place);
                });
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(target: "gcwatch::web", "cannot accept connections for the moment: {error}");
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

/// The client closed the connection before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// Serves one connection. Its errors are the client's and are not reported.
async fn answer(stream: TcpStream, router: Router, mut ended: watch::Receiver<bool>, deadlines: Deadlines) {
    let service = TowerToHyperService::new(router.into_service::<Incoming>());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines.head)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _over = connection.as_mut() => return,
        _ended = ended.wait_for(|ended| *ended) => {}
        () = sleep(deadlines.lifetime) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _cut_off = timeout(deadlines.last_answer, connection).await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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

    /// Nothing more comes on it.
    async fn closed(stream: &mut TcpStream) {
        let mut rest = Vec::new();
        let _reset_or_end = stream.read_to_end(&mut rest).await;
    }

    async fn served(at_once: usize, deadlines: Deadlines, test: impl AsyncFnOnce(std::net::SocketAddr)) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "here"));
        let (stop, stopped) = oneshot::channel::<()>();
        let end = async {
            let _dropped = stopped.await;
        };
        let server = tokio::spawn(serve_within(listener, router, end, at_once, deadlines));
        test(address).await;
        drop(stop);
        server.await.unwrap().unwrap();
    }

    /// Scenario: as many connections as may be are open and say nothing, one of them after an answer; another one asks.
    /// Guarantee: the silent ones lose their places after the time that a head may take, and the other one is answered.
    #[tokio::test]
    async fn silent_connections_lose_their_places() {
        let deadlines = Deadlines {
            head: Duration::from_millis(50),
            ..DEADLINES
        };
        served(2, deadlines, async |address| {
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

    /// Scenario: a connection that asks again and again, longer than one may live.
    /// Guarantee: it is closed after an answer, not in the middle of one.
    #[tokio::test]
    async fn old_connections_end_between_answers() {
        let deadlines = Deadlines {
            lifetime: Duration::from_millis(20),
            ..DEADLINES
        };
        served(1, deadlines, async |address| {
            let mut stream = connect(address).await;
            assert!(ask(&mut stream).await.ends_with("here"));
            closed(&mut stream).await;
            let mut next = connect(address).await;
            assert!(ask(&mut next).await.ends_with("here"));
        })
        .await;
    }

    /// Scenario: the daemon ends while a scraper keeps its idle connection.
    /// Guarantee: the connection is closed and the listener done.
    #[tokio::test]
    async fn idle_connections_do_not_hold_up_the_end() {
        let mut kept = None;
        served(8, DEADLINES, async |address| {
            let mut stream = connect(address).await;
            assert!(ask(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
            kept = Some(stream);
        })
        .await;
        closed(&mut kept.unwrap()).await;
    }
}
