//! A simulated runtime of the test process: a socket with the name that a runtime of this process would use.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dotnet_diagnostics::discovery::{SocketName, parse_stat};
use dotnet_diagnostics::message::{Answer, Progress, Request, RuntimeError, decode_frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, MutexGuard, watch};

/// A process has one socket, so only one simulation runs at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// The bytes that a session sends, and the end of the session.
pub(crate) enum Stream {
    /// Sends these bytes; then the session ends.
    Whole(Vec<u8>),
    /// Sends these bytes; then the session stays open until it is stopped.
    Open(Vec<u8>),
    /// Sends these bytes; then the session stays open and ignores a stop command.
    Stubborn(Vec<u8>),
}

/// A simulated runtime, which ends when it is dropped.
pub(crate) struct Fake {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
    stops: Arc<AtomicUsize>,
    _turn: MutexGuard<'static, ()>,
}

impl Fake {
    /// Starts a runtime. `script` returns the stream of the nth session. The runtime knows only the commands
    /// CollectTracing and StopTracing, like .NET Core 3.
    pub(crate) async fn start(mut script: impl FnMut(usize) -> Stream + Send + 'static) -> Self {
        let turn = TURN.lock().await;
        let stat = parse_stat(&fs::read("/proc/self/stat").unwrap()).unwrap();
        let name = SocketName {
            pid: std::process::id(),
            key: stat.start_time,
        };
        let path = std::env::temp_dir().join(name.to_string());
        let listener = UnixListener::bind(&path).unwrap();
        let stops = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&stops);
        let task = tokio::spawn(async move {
            let stopping = watch::Sender::new(0);
            let mut nth = 0;
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                let answer = |answer: Answer<'_>| answer.encode().unwrap();
                match read_request(&mut connection).await {
                    Some(Request::CollectTracing { .. }) => {
                        let id = (nth as u64).to_le_bytes();
                        let _gone = connection.write_all(&answer(Answer::Ok(&id))).await;
                        tokio::spawn(send(connection, script(nth), stopping.subscribe()));
                        nth += 1;
                    }
                    Some(Request::StopTracing { session_id }) => {
                        counted.fetch_add(1, Ordering::SeqCst);
                        stopping.send_modify(|times| *times += 1);
                        let _gone = connection
                            .write_all(&answer(Answer::Ok(&session_id.to_le_bytes())))
                            .await;
                    }
                    Some(_) => {
                        let unknown = answer(Answer::Error(RuntimeError::UnknownCommand));
                        let _gone = connection.write_all(&unknown).await;
                    }
                    None => {}
                }
            }
        });
        Self {
            path,
            task,
            stops,
            _turn: turn,
        }
    }

    /// Returns the number of stop commands that the runtime received.
    pub(crate) fn stopped(&self) -> usize {
        self.stops.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
        let _gone = fs::remove_file(&self.path);
    }
}

async fn send(mut connection: UnixStream, stream: Stream, mut stopping: watch::Receiver<usize>) {
    let (Stream::Whole(bytes) | Stream::Open(bytes) | Stream::Stubborn(bytes)) = &stream;
    let _gone = connection.write_all(bytes).await;
    match stream {
        Stream::Whole(_) => {}
        Stream::Open(_) => drop(stopping.changed().await),
        Stream::Stubborn(_) => {
            // Wait until the peer has disconnected.
            let _gone = connection.read(&mut [0; 1]).await;
        }
    }
}

async fn read_request(connection: &mut UnixStream) -> Option<Request> {
    let mut buffer = Vec::new();
    loop {
        match decode_frame(&buffer).unwrap() {
            Progress::Complete { frame, .. } => return Some(Request::decode(frame).unwrap()),
            Progress::Incomplete { .. } => {
                if connection.read_buf(&mut buffer).await.ok()? == 0 {
                    return None;
                }
            }
        }
    }
}
