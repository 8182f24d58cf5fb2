//! Tests of the client with a simulated runtime.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed step is a failed test"
)]

mod fake;

use std::time::Duration;

use dotnet_diagnostics::discovery::{Reason, SocketAddress};
use dotnet_diagnostics::message::{
    CollectVersion, Command, Compromise, Cookie, EnvironmentVariable, InfoVersion, MessageError, ProcessInfo, Request,
    Rundown, RuntimeError, SessionConfig, encode_environment,
};
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Error, Stage};
use fake::{Fake, Reaction, ok, read_request, refuse};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

/// Short deadline for tests of unresponsive peers. No other behaviour depends on it.
const SHORT: Duration = Duration::from_millis(50);
/// Timeout for tests that would otherwise wait indefinitely.
const LONG: Duration = Duration::from_secs(10);

/// Payload with the id of the session.
const SESSION: [u8; 8] = [5, 0, 0, 0, 0, 0, 0, 0];

/// Asserts that a deadline passed at the expected stage.
fn assert_silent<T: std::fmt::Debug>(result: Result<T, Error>, expected: Stage) -> Error {
    let error = result.unwrap_err();
    assert!(
        matches!(&error, Error::Silent { stage, .. } if *stage == expected),
        "{error}"
    );
    error
}

fn info(version: InfoVersion) -> Vec<u8> {
    // Process id, cookie, empty command line, os and arch, and the fields of newer variants.
    let fields = [[7, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[9; 16], &[0; 12]].concat();
    match version {
        InfoVersion::V1 => fields,
        InfoVersion::V2 => [fields, vec![0; 8]].concat(),
        InfoVersion::V3 => [vec![1, 0, 0, 0], fields, vec![0; 12]].concat(),
    }
}

/// Scenario: runtimes support ProcessInfo3, only 2, only 1, or none of them.
/// Guarantee: the newest supported variant is used, each on a separate connection; `probe` returns `None` if no variant
/// is supported; the second call uses the supported variant immediately.
#[tokio::test]
async fn process_info_falls_back() {
    for (known, forms) in [
        (3, vec!["ProcessInfo3"]),
        (2, vec!["ProcessInfo3", "ProcessInfo2"]),
        (1, vec!["ProcessInfo3", "ProcessInfo2", "ProcessInfo"]),
    ] {
        let fake = Fake::start(move |request| {
            let Request::ProcessInfo(version) = request else {
                panic!("{request:?}")
            };
            let number = match version {
                InfoVersion::V1 => 1,
                InfoVersion::V2 => 2,
                InfoVersion::V3 => 3,
            };
            Reaction::Close(if number <= known {
                ok(&info(version))
            } else {
                refuse(RuntimeError::UnknownCommand)
            })
        });
        let client = fake.client();
        let info = client.process_info().await.unwrap();
        assert_eq!((info.pid, info.cookie), (7, Cookie([9; 16])));
        assert_eq!(fake.commands(), forms);
        client.process_info().await.unwrap();
        assert_eq!(
            fake.commands().len(),
            forms.len() + 1,
            "an unsupported variant is not tried again"
        );
    }
    let fake = Fake::start(|_| Reaction::Close(refuse(RuntimeError::UnknownCommand)));
    let client = fake.client();
    assert_eq!(client.probe().await.unwrap(), None);
    let error = client.process_info().await.unwrap_err();
    assert!(error.is_unknown_command(), "{error}");
}

/// Scenario: a response arrives one byte at a time.
/// Guarantee: the response is decoded.
#[tokio::test]
async fn partial_response_is_reassembled() {
    let fake = Fake::start(|_| Reaction::Drip(ok(&info(InfoVersion::V3))));
    let info: ProcessInfo = fake.client().process_info().await.unwrap();
    assert_eq!(info.version, InfoVersion::V3);
}

/// Scenario: the response is a foreign protocol, a frame of impossible size, a command, a payload that is too short, or
/// a connection that is closed in the middle or immediately.
/// Guarantee: each has a specific error, which contains the socket and the command.
#[tokio::test]
async fn invalid_response_has_specific_error() {
    async fn error(answer: Vec<u8>) -> Error {
        let fake = Fake::start(move |_| Reaction::Close(answer.clone()));
        let error = fake.client().process_info().await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("ProcessInfo3") && text.contains(&*fake.path().to_string_lossy()),
            "{text}"
        );
        error
    }
    let wrong = |error: Error| match error {
        Error::Message { source, .. } => source,
        other => panic!("{other}"),
    };
    assert!(matches!(
        wrong(error(b"HTTP/1.1 400\r\n".to_vec()).await),
        MessageError::Magic { offset: 0, .. }
    ));
    let mut small = ok(&[]);
    small[14] = 3;
    assert_eq!(wrong(error(small).await), MessageError::FrameSize { size: 3 });
    let command = Request::ProcessEnvironment.encode().unwrap();
    assert!(matches!(
        wrong(error(command).await),
        MessageError::UnexpectedCommand { set: 4, id: 2, .. }
    ));
    assert!(matches!(wrong(error(ok(&[1, 2])).await), MessageError::Short { .. }));
    let cut = ok(&info(InfoVersion::V3))[..25].to_vec();
    assert!(matches!(error(cut).await, Error::Closed { received: 25, .. }));
    assert!(matches!(error(vec![]).await, Error::Closed { received: 0, .. }));
}

/// Scenario: the runtime refuses a command for a reason other than an unknown command.
/// Guarantee: no older variant is tried, and the runtime's error is returned.
#[tokio::test]
async fn refusal_is_final() {
    let fake = Fake::start(|_| Reaction::Close(refuse(RuntimeError::Fail)));
    let error = fake
        .client()
        .collect_tracing(&SessionConfig::garbage_collection())
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        Error::Runtime {
            error: RuntimeError::Fail,
            ..
        }
    ));
    assert!(error.to_string().contains("0x80004005"), "{error}");
    assert_eq!(fake.commands(), ["CollectTracing3"]);
    assert_eq!(error.reason(), Reason::Rejected);
}

/// Scenario: a runtime accepts and never responds, stops in the middle of its response, or accepts no connection while
/// its queue is full.
/// Guarantee: the error is `Silent` with the stage at which the runtime did not respond.
#[tokio::test]
async fn unresponsive_runtime_is_reported_with_stage() {
    let fake = Fake::start(|_| Reaction::Hang(vec![]));
    let client = fake.client_with(Deadlines::uniform(SHORT));
    let error = assert_silent(client.process_info().await, Stage::Answer);
    assert_eq!(error.obstacle().reason.as_str(), "silent");

    let fake = Fake::start(|_| Reaction::Hang(ok(&[0; 8])[..22].to_vec()));
    let client = fake.client_with(Deadlines::uniform(SHORT));
    assert_silent(client.resume_runtime().await, Stage::Answer);

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let mut queue = Vec::new();
    loop {
        match tokio::net::UnixStream::connect(&path).await {
            Ok(stream) => queue.push(stream),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    let endpoint = Endpoint::socket(SocketAddress::chosen(&path), None);
    let client = Client::with_deadlines(endpoint, Deadlines::uniform(SHORT));
    assert_silent(client.process_info().await, Stage::Connect);
}

/// Scenario: the path does not exist, is a file, a stale socket, or a socket on which an unexpected process listens.
/// Guarantee: each of these paths has a specific error.
#[tokio::test]
async fn obstacle_has_specific_error() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let error = async |name: &str, pid| {
        let client = Client::new(Endpoint::socket(SocketAddress::chosen(at(name)), pid));
        client.process_info().await.unwrap_err()
    };
    assert!(matches!(error("none", None).await, Error::NoSocket { .. }));
    std::fs::write(at("file"), b"").unwrap();
    assert!(matches!(error("file", None).await, Error::NotASocket { .. }));
    drop(UnixListener::bind(at("stale")).unwrap());
    let refused = error("stale", Some(4321)).await;
    assert!(matches!(refused, Error::Refused { .. }));
    assert!(refused.to_string().contains("process 4321"), "{refused}");
    let _listener = UnixListener::bind(at("live")).unwrap();
    let own = std::process::id();
    match error("live", Some(1)).await {
        Error::WrongPeer { found, .. } => assert_eq!(found, own),
        other => panic!("{other}"),
    }
}

/// Scenario: a path is much longer than the maximum length of a socket address.
/// Guarantee: the client connects to the socket.
#[tokio::test]
async fn long_path_is_reachable() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    // A short name for the same directory, for binding the socket.
    std::os::unix::fs::symlink(&deep, directory.path().join("s")).unwrap();
    let listener = UnixListener::bind(directory.path().join("s/socket")).unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        stream.write_all(&ok(&[])).await.unwrap();
    });
    let endpoint = Endpoint::socket(
        SocketAddress::found(None, deep.join("socket")),
        Some(std::process::id()),
    );
    Client::new(endpoint).resume_runtime().await.unwrap();
    server.await.unwrap();
}

/// Scenario: an environment arrives in two chunks, and another is shorter than announced.
/// Guarantee: the first environment is read, and the second call returns an error for a closed connection.
#[tokio::test]
async fn environment_is_read_after_its_response() {
    let variables: Vec<_> = (0..5000)
        .map(|index| EnvironmentVariable {
            name: format!("NAME{index}"),
            value: Some("=value".repeat(3)),
        })
        .collect();
    let bytes = encode_environment(&variables).unwrap();
    let cut = bytes[..bytes.len() - 1].to_vec();
    let fake = Fake::start(move |_| Reaction::Close(bytes.clone()));
    assert_eq!(fake.client().environment().await.unwrap(), variables);
    let fake = Fake::start(move |_| Reaction::Close(cut.clone()));
    assert!(matches!(fake.client().environment().await, Err(Error::Closed { .. })));
}

/// Scenario: sessions are started on runtimes of several versions, and with keywords that induce collections.
/// Guarantee: the newest required variant is tried first, older variants follow after a refusal, and lost settings are
/// listed. The next session uses the supported variant immediately. A session that would induce collections is refused
/// without a command.
#[tokio::test]
async fn session_falls_back_to_older_variant() {
    let runtime = |newest: CollectVersion| {
        Fake::start(move |request| match request {
            Request::CollectTracing { version, .. } if version <= newest => Reaction::Hang(ok(&SESSION)),
            Request::StopTracing { .. } => Reaction::Close(ok(&[0; 8])),
            _ => Reaction::Close(refuse(RuntimeError::UnknownCommand)),
        })
    };
    let plain = SessionConfig::garbage_collection();
    let old = runtime(CollectVersion::V2);
    let client = old.client();
    let session = client.collect_tracing(&plain).await.unwrap();
    assert_eq!((session.id(), session.version()), (5, CollectVersion::V2));
    assert_eq!(session.compromises(), [Compromise::StacksIncluded]);
    let again = client.collect_tracing(&plain).await.unwrap();
    assert_eq!(
        old.commands(),
        ["CollectTracing3", "CollectTracing2", "CollectTracing2"]
    );
    drop((session, again));

    let new = runtime(CollectVersion::V4);
    let config = SessionConfig {
        rundown: Rundown::Keyword(0x10),
        ..plain.clone()
    };
    let session = new.client().collect_tracing(&config).await.unwrap();
    assert_eq!(
        (session.version(), session.compromises()),
        (CollectVersion::V4, [].as_slice())
    );

    let none = Fake::start(|_| Reaction::Close(refuse(RuntimeError::UnknownCommand)));
    let error = none.client().collect_tracing(&config).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Runtime {
                command: Command::CollectTracing(CollectVersion::V2),
                ..
            }
        ),
        "{error}"
    );

    let mut inducing = plain;
    inducing.providers[0].keywords |= 0x80_0000;
    let error = none.client().collect_tracing(&inducing).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Request {
                source: MessageError::InducingKeywords { .. },
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        none.commands(),
        ["CollectTracing4", "CollectTracing3", "CollectTracing2"],
        "no further command was sent"
    );
}

/// Starts a runtime that sends its response and the start of the stream in one write, and responds to StopTracing only
/// after the client has read a final chunk of the stream that is larger than the socket buffer.
fn streaming() -> Fake {
    let (stop, mut stopped) = mpsc::channel::<oneshot::Sender<()>>(1);
    let mut stopped = Some(move || async move { stopped.recv().await });
    Fake::start(move |request| match request {
        Request::CollectTracing { .. } => {
            let stopped = stopped.take().unwrap();
            Reaction::Own(Box::new(move |mut stream| {
                tokio::spawn(async move {
                    stream
                        .write_all(&[ok(&SESSION), b"Nettrace".to_vec()].concat())
                        .await
                        .unwrap();
                    let done = stopped().await.unwrap();
                    stream.write_all(&vec![b'x'; 4 << 20]).await.unwrap();
                    drop(stream);
                    done.send(()).unwrap();
                })
            }))
        }
        Request::StopTracing { session_id: 5 } => {
            let stop = stop.clone();
            Reaction::Own(Box::new(move |mut stream| {
                tokio::spawn(async move {
                    let (done, drained) = oneshot::channel();
                    stop.send(done).await.unwrap();
                    drained.await.unwrap();
                    stream.write_all(&ok(&SESSION)).await.unwrap();
                })
            }))
        }
        other => panic!("{other:?}"),
    })
}

/// Scenario: a runtime responds to StopTracing only after the stream was drained.
/// Guarantee: one task reads and stops without a deadlock, and the stream contains every byte after the response.
#[tokio::test]
async fn drain_stops_session_without_deadlock() {
    let fake = streaming();
    let mut session = fake.session().await;
    let mut bytes = Vec::new();
    let drained = session.drain(|piece| bytes.extend_from_slice(piece)).await.unwrap();
    assert_eq!(drained, 8 + (4 << 20));
    assert!(bytes.starts_with(b"Nettracex"));
    session.stopped().await.unwrap();
    assert_eq!(fake.commands(), ["CollectTracing3", "StopTracing"]);
}

/// Scenario: two sessions are polled concurrently with one buffer, and one of them never sends a byte.
/// Guarantee: the buffer is free while a session waits, and the other session uses it for its bytes.
#[tokio::test]
async fn sessions_share_one_buffer() {
    let config = SessionConfig::garbage_collection();
    let silent = Fake::start(|request| match request {
        Request::StopTracing { .. } => Reaction::Close(ok(&SESSION)),
        _ => Reaction::Hang(ok(&SESSION)),
    });
    let busy = streaming();
    let mut waiting = silent.client().collect_tracing(&config).await.unwrap();
    let mut session = busy.client().collect_tracing(&config).await.unwrap();
    let buffer = std::sync::Mutex::new([0; 1024]);
    let never = std::future::poll_fn(|cx| waiting.poll_read(cx, &mut *buffer.try_lock().unwrap()));
    let mut bytes = Vec::new();
    let begins = std::future::poll_fn(|cx| {
        let mut buffer = buffer.try_lock().unwrap();
        let count = std::task::ready!(session.poll_read(cx, &mut *buffer))?;
        bytes.extend_from_slice(&buffer[..count]);
        std::task::Poll::Ready(Ok::<_, Error>(count))
    });
    tokio::select! {
        biased;
        read = never => panic!("{read:?}"),
        read = begins => assert_eq!(read.unwrap(), 8),
    }
    assert_eq!(bytes, b"Nettrace");
}

/// Scenario: the owner of a session drops it.
/// Guarantee: the client sends StopTracing.
#[tokio::test]
async fn dropped_session_is_stopped() {
    let (seen, mut stops) = mpsc::unbounded_channel();
    let fake = Fake::start(move |request| match request {
        Request::StopTracing { session_id } => {
            seen.send(session_id).unwrap();
            Reaction::Close(ok(&SESSION))
        }
        _ => Reaction::Hang(ok(&SESSION)),
    });
    drop(fake.session().await);
    let stop = tokio::time::timeout(LONG, stops.recv()).await.expect("a stop is sent");
    assert_eq!(stop, Some(5));
}

/// Scenario: a stream never ends; one runtime refuses to stop, and another does not respond.
/// Guarantee: reading ends at the deadline with the error of StopTracing, or with `Silent`.
#[tokio::test]
async fn endless_stream_is_abandoned() {
    let fake = Fake::start(|request| match request {
        Request::StopTracing { .. } => Reaction::Close(refuse(RuntimeError::Fail)),
        _ => Reaction::Own(Box::new(|mut stream| {
            tokio::spawn(async move {
                stream.write_all(&ok(&SESSION)).await.unwrap();
                while stream.write_all(&[1; 1024]).await.is_ok() {}
            })
        })),
    });
    let stop_within = |stop| Deadlines {
        stop,
        ..Deadlines::default()
    };
    let config = SessionConfig::garbage_collection();
    // The same deadline limits the wait for the refusal, which a busy host can delay by more than `SHORT`.
    let client = fake.client_with(stop_within(Duration::from_secs(2)));
    let mut session = client.collect_tracing(&config).await.unwrap();
    session.request_stop();
    // A reader that yields between its reads never runs out of bytes or budget, so only the deadline stops it.
    let reading = async {
        let mut buffer = [0; 1024];
        loop {
            if let Err(error) = session.read(&mut buffer).await {
                return error;
            }
            tokio::task::yield_now().await;
        }
    };
    let error = tokio::time::timeout(LONG, reading)
        .await
        .expect("the stream is abandoned at its deadline");
    assert!(
        matches!(
            error,
            Error::Runtime {
                command: Command::StopTracing,
                error: RuntimeError::Fail,
                ..
            }
        ),
        "{error}"
    );

    let fake = Fake::start(|_| Reaction::Hang(ok(&SESSION)));
    let client = fake.client_with(stop_within(SHORT));
    let mut session = client.collect_tracing(&config).await.unwrap();
    assert_silent(session.drain(|_| {}).await, Stage::Stream);
}

/// Scenario: the process is killed while a session runs.
/// Guarantee: the stream ends regularly with the bytes that were sent.
#[tokio::test]
async fn stream_ends_when_process_is_killed() {
    let fake = Fake::start(|request| match request {
        Request::StopTracing { .. } => Reaction::Close(vec![]),
        _ => Reaction::Close([ok(&SESSION), b"Nett".to_vec()].concat()),
    });
    let mut session = fake.session().await;
    session.request_stop();
    let mut bytes = Vec::new();
    assert_eq!(session.drain(|piece| bytes.extend_from_slice(piece)).await.unwrap(), 4);
    assert_eq!(bytes, b"Nett");
    assert!(matches!(session.stopped().await, Err(Error::Closed { .. })));
}

/// Scenario: `recompute_levels` runs a session with a runtime that ends the stream when it is stopped, and with a
/// runtime that never ends it.
/// Guarantee: the session is a regular session that is stopped and drained; the second call returns at its deadline.
/// Every connection counts as open until it is closed, and no connection remains open.
#[tokio::test]
async fn short_session_recomputes_levels() {
    for ends in [true, false] {
        let mut stream_end = None;
        let fake = Fake::start(move |request| match request {
            Request::CollectTracing { config, .. } => {
                assert_eq!(config.providers, SessionConfig::garbage_collection().providers);
                let (end, ended) = oneshot::channel::<()>();
                stream_end = Some(end);
                Reaction::Own(Box::new(move |mut stream| {
                    tokio::spawn(async move {
                        stream.write_all(&ok(&7_u64.to_le_bytes())).await.unwrap();
                        drop(ended.await);
                        stream.write_all(b"Nettrace").await.unwrap();
                    })
                }))
            }
            Request::StopTracing { session_id: 7 } => {
                if ends {
                    stream_end.take().unwrap().send(()).unwrap();
                }
                Reaction::Close(ok(&7_u64.to_le_bytes()))
            }
            other => panic!("{other:?}"),
        });
        let client = fake.client();
        let connections = client.endpoint().connections();
        let within = if ends { LONG } else { 10 * SHORT };
        let recomputed = client.recompute_levels(within).await;
        match recomputed {
            Ok(()) => assert!(ends),
            Err(error) => assert!(!ends && matches!(error, Error::Silent { .. }), "{error}"),
        }
        while !connections.now().numbers.is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(fake.commands(), ["CollectTracing3", "StopTracing"]);
        assert_eq!(
            connections.now().generation,
            4,
            "two connections were opened and closed"
        );
    }
}
