//! A simulated runtime on a Unix socket. A script responds to each connection.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use dotnet_diagnostics::discovery::SocketAddress;
use dotnet_diagnostics::message::{Answer, Progress, Request, RuntimeError, SessionConfig, decode_frame};
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// The reaction of a simulated runtime to a request: the bytes that it writes, and the use of the connection
/// afterwards.
pub(crate) enum Reaction {
    /// Writes these bytes and closes the connection.
    Close(Vec<u8>),
    /// Writes these bytes one at a time and closes the connection.
    Drip(Vec<u8>),
    /// Writes these bytes and keeps the connection open indefinitely.
    Hang(Vec<u8>),
    /// Passes the connection to this function.
    Own(Box<dyn FnOnce(UnixStream) -> tokio::task::JoinHandle<()> + Send>),
}

/// A simulated runtime that runs until it is dropped.
pub(crate) struct Fake {
    directory: tempfile::TempDir,
    requests: Arc<Mutex<Vec<Request>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Fake {
    pub(crate) fn start(mut script: impl FnMut(Request) -> Reaction + Send + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some(request) = read_request(&mut stream).await else {
                    continue;
                };
                seen.lock().unwrap().push(request.clone());
                match script(request) {
                    Reaction::Close(bytes) => drop(stream.write_all(&bytes).await),
                    Reaction::Drip(bytes) => {
                        for byte in bytes {
                            let _ = stream.write_all(&[byte]).await;
                            tokio::task::yield_now().await;
                        }
                    }
                    Reaction::Hang(bytes) => {
                        let _ = stream.write_all(&bytes).await;
                        open.push(stream);
                    }
                    Reaction::Own(run) => drop(run(stream)),
                }
            }
        });
        Self {
            directory,
            requests,
            task,
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(Endpoint::socket(SocketAddress::chosen(self.path()), None))
    }

    /// Starts a session with the default client.
    pub(crate) async fn session(&self) -> Session {
        let config = SessionConfig::garbage_collection();
        self.client().collect_tracing(&config).await.unwrap()
    }

    pub(crate) fn client_with(&self, deadlines: Deadlines) -> Client {
        Client::with_deadlines(Endpoint::socket(SocketAddress::chosen(self.path()), None), deadlines)
    }

    /// Returns the names of the received commands, in order.
    pub(crate) fn commands(&self) -> Vec<&'static str> {
        self.requests
            .lock()
            .unwrap()
            .iter()
            .map(|request| request.command().name())
            .collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn read_request(stream: &mut UnixStream) -> Option<Request> {
    let mut buffer = Vec::new();
    loop {
        match decode_frame(&buffer).unwrap() {
            Progress::Complete { frame, .. } => return Some(Request::decode(frame).unwrap()),
            Progress::Incomplete { .. } => {
                if stream.read_buf(&mut buffer).await.ok()? == 0 {
                    return None;
                }
            }
        }
    }
}

pub(crate) fn ok(payload: &[u8]) -> Vec<u8> {
    Answer::Ok(payload).encode().unwrap()
}

pub(crate) fn refuse(error: RuntimeError) -> Vec<u8> {
    Answer::Error(error).encode().unwrap()
}
