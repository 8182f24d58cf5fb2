//! Tests of reverse connect with a simulated runtime.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

#[allow(dead_code, reason = "the client's tests use the rest")]
mod fake;

use std::time::Duration;

use dotnet_diagnostics::message::{Advertise, Cookie, Request, SessionConfig};
use dotnet_diagnostics::reverse::ReversePort;
use dotnet_diagnostics::{Deadlines, Error, Stage};
use fake::{ok, read_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

const COOKIE: Cookie = Cookie([3; 16]);

fn port() -> (tempfile::TempDir, ReversePort) {
    let directory = tempfile::tempdir().unwrap();
    let port = ReversePort::bind(directory.path().join("port"), Deadlines::default()).unwrap();
    (directory, port)
}

async fn advertise(port: &ReversePort, cookie: Cookie) -> UnixStream {
    let mut stream = UnixStream::connect(port.path()).await.unwrap();
    stream.write_all(&Advertise { cookie, pid: 77 }.encode()).await.unwrap();
    stream
}

/// Scenario: a runtime connects and gets a session, reconnects, and gets the stop command on a later connection.
/// Guarantee: the runtime is returned once, each command uses the next connection, and no byte of the stream is lost.
#[tokio::test]
async fn command_uses_next_connection() {
    let (_directory, port) = port();
    let first = advertise(&port, COOKIE).await;
    let runtime = port.accept().await;
    assert_eq!(
        (runtime.cookie, runtime.ns_pid, runtime.pid),
        (COOKIE, 77, Some(std::process::id()))
    );
    assert_eq!(port.waiting(), [runtime]);

    let (commands, mut seen) = mpsc::unbounded_channel();
    let path = port.path().to_path_buf();
    let server = tokio::spawn(async move {
        let mut sessions = Vec::new();
        let mut stream = first;
        for _ in 0..3 {
            let request = read_request(&mut stream).await.unwrap();
            commands.send(request.command().name()).unwrap();
            match request {
                Request::CollectTracing { .. } => {
                    stream
                        .write_all(&[ok(&[5, 0, 0, 0, 0, 0, 0, 0]), b"Nettrace".to_vec()].concat())
                        .await
                        .unwrap();
                    sessions.push(stream);
                }
                Request::StopTracing { .. } => {
                    sessions.clear();
                    stream.write_all(&ok(&[5, 0, 0, 0, 0, 0, 0, 0])).await.unwrap();
                }
                _ => stream.write_all(&ok(&[])).await.unwrap(),
            }
            stream = UnixStream::connect(&path).await.unwrap();
            stream
                .write_all(
                    &Advertise {
                        cookie: COOKIE,
                        pid: 77,
                    }
                    .encode(),
                )
                .await
                .unwrap();
        }
        stream
    });
    let client = port.client(&runtime);
    let mut session = client
        .collect_tracing(&SessionConfig::garbage_collection())
        .await
        .unwrap();
    client.resume_runtime().await.unwrap();
    let mut bytes = Vec::new();
    session.drain(|piece| bytes.extend_from_slice(piece)).await.unwrap();
    session.stopped().await.unwrap();
    assert_eq!(bytes, b"Nettrace");
    let _last = server.await.unwrap();
    let mut names = Vec::new();
    while let Ok(name) = seen.try_recv() {
        names.push(name);
    }
    assert_eq!(names, ["CollectTracing3", "ResumeRuntime", "StopTracing"]);
    let other = tokio::time::timeout(Duration::from_millis(50), port.accept()).await;
    assert!(other.is_err(), "a runtime that reconnects is not new: {other:?}");
}

/// Scenario: a runtime closes its connection and does not reconnect.
/// Guarantee: a command waits for the next connection until the deadline, and returns an error that contains the port.
#[tokio::test]
async fn runtime_that_does_not_reconnect_is_silent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("port");
    let deadlines = Deadlines {
        advertise: Duration::from_millis(50),
        ..Deadlines::default()
    };
    let port = ReversePort::bind(&path, deadlines).unwrap();
    drop(advertise(&port, COOKIE).await);
    let runtime = port.accept().await;
    let error = port.client(&runtime).process_info().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Silent {
                stage: Stage::Advertise,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("reverse port"), "{error}");
    drop(port);
    assert!(!path.exists(), "the file is deleted with the port");
}

/// Scenario: connections send a different message, or no message.
/// Guarantee: the foreign connections are closed and not returned; a runtime that connects afterwards is returned.
#[tokio::test]
async fn foreign_connection_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let deadlines = Deadlines {
        advertise: Duration::from_millis(50),
        ..Deadlines::default()
    };
    let port = ReversePort::bind(directory.path().join("port"), deadlines).unwrap();
    let mut silent = UnixStream::connect(port.path()).await.unwrap();
    let mut foreign = UnixStream::connect(port.path()).await.unwrap();
    foreign.write_all(&[b'x'; 34]).await.unwrap();
    for stream in [&mut silent, &mut foreign] {
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "closed");
    }
    let _runtime = advertise(&port, Cookie([4; 16])).await;
    assert_eq!(port.accept().await.cookie, Cookie([4; 16]));
}

/// Scenario: two runtimes connect suspended; one is resumed, and the other sends an invalid response.
/// Guarantee: both receive the command, and the failure is returned with its runtime.
#[tokio::test]
async fn resume_all_resumes_every_runtime() {
    let (_directory, port) = port();
    let (resumed, was_resumed) = oneshot::channel();
    let mut good = advertise(&port, COOKIE).await;
    let mut bad = advertise(&port, Cookie([9; 16])).await;
    for _ in 0..2 {
        port.accept().await;
    }
    tokio::spawn(async move {
        let request = read_request(&mut good).await.unwrap();
        good.write_all(&ok(&[])).await.unwrap();
        resumed.send(request).unwrap();
    });
    tokio::spawn(async move {
        read_request(&mut bad).await.unwrap();
        bad.write_all(b"?").await.unwrap();
    });
    let failed = port.resume_all().await;
    let [(runtime, error)] = failed.as_slice() else {
        panic!("{failed:?}")
    };
    assert_eq!(runtime.cookie, Cookie([9; 16]));
    assert!(matches!(error, Error::Message { .. }), "{error}");
    assert_eq!(was_resumed.await.unwrap(), Request::ResumeRuntime);
}
