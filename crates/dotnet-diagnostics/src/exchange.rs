//! Sends one command and receives its response, on a separate connection and with deadlines.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::deadlines::Deadlines;
use crate::endpoint::{CommandConnection, Endpoint};
use crate::error::{Error, Stage};
use crate::message::{Answer, Command, HEADER_BYTES, MessageError, Progress, Request, decode_frame};

/// Sends a command. Returns the connection and the payload of the OK response. No bytes after the response are read.
pub(crate) async fn exchange(
    endpoint: &Endpoint,
    deadlines: &Deadlines,
    request: &Request,
    answer_within: Duration,
) -> Result<(CommandConnection, Vec<u8>), Error> {
    let (connected, payload, ()) = exchange_on(endpoint, deadlines, request, answer_within, |_| ()).await?;
    Ok((connected, payload))
}

/// Like [`exchange`], but calls `see` with the connection before anything is sent.
pub(crate) async fn exchange_on<T>(
    endpoint: &Endpoint,
    deadlines: &Deadlines,
    request: &Request,
    answer_within: Duration,
    see: impl FnOnce(&UnixStream) -> T,
) -> Result<(CommandConnection, Vec<u8>, T), Error> {
    let command = request.command();
    let bytes = request.encode().map_err(|source| Error::Request { command, source })?;
    let mut connected = endpoint.connect(command, deadlines).await?;
    let seen = see(&connected.stream);
    let stream = &mut connected.stream;
    match timeout(deadlines.write, stream.write_all(&bytes)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(broken(endpoint, command, Stage::Write, 0, error)),
        Err(_) => return Err(endpoint.silent(command, Stage::Write, deadlines.write)),
    }
    match timeout(answer_within, read_answer(endpoint, command, stream)).await {
        Ok(payload) => Ok((connected, payload?, seen)),
        Err(_) => Err(endpoint.silent(command, Stage::Answer, answer_within)),
    }
}

/// Stops a session by its id. The stream of the session must be drained at the same time.
pub(crate) async fn stop_tracing(endpoint: &Endpoint, deadlines: &Deadlines, session_id: u64) -> Result<(), Error> {
    let request = Request::StopTracing { session_id };
    exchange(endpoint, deadlines, &request, deadlines.stop)
        .await
        .map(|_| ())
}

/// Returns the error for a response that violates the protocol.
pub(crate) fn invalid(endpoint: &Endpoint, command: Command, source: MessageError) -> Error {
    Error::Message {
        peer: endpoint.peer(),
        command,
        source,
    }
}

/// Returns the error for a broken connection: [`Error::Closed`] if the peer closed the connection because its process
/// is exiting, or [`Error::Io`] for any other error of the system.
pub(crate) fn broken(
    endpoint: &Endpoint,
    command: Command,
    stage: Stage,
    received: usize,
    error: std::io::Error,
) -> Error {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match error.kind() {
        BrokenPipe | ConnectionReset | UnexpectedEof => Error::Closed {
            peer: endpoint.peer(),
            command,
            received,
        },
        _ => endpoint.io(stage, error),
    }
}

async fn read_answer(endpoint: &Endpoint, command: Command, stream: &mut UnixStream) -> Result<Vec<u8>, Error> {
    let mut buffer = Vec::with_capacity(HEADER_BYTES);
    loop {
        let needed = match decode_frame(&buffer).map_err(|source| invalid(endpoint, command, source))? {
            Progress::Incomplete { needed } => needed,
            Progress::Complete { frame, .. } => {
                return match Answer::decode(frame).map_err(|source| invalid(endpoint, command, source))? {
                    Answer::Ok(payload) => Ok(payload.to_vec()),
                    Answer::Error(error) => Err(Error::Runtime {
                        peer: endpoint.peer(),
                        command,
                        error,
                    }),
                };
            }
        };
        // Read exactly the missing bytes: bytes after the response belong to the event stream.
        let missing = needed - buffer.len();
        let read = (&mut *stream).take(missing as u64).read_buf(&mut buffer).await;
        match read {
            Ok(0) => {
                return Err(Error::Closed {
                    peer: endpoint.peer(),
                    command,
                    received: buffer.len(),
                });
            }
            Ok(_) => {}
            Err(error) => return Err(broken(endpoint, command, Stage::Answer, buffer.len(), error)),
        }
    }
}
