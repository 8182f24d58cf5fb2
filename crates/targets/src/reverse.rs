//! Accepts connections of runtimes whose environment contains `DOTNET_DiagnosticPorts=PATH`, with the path on which
//! gcwatch listens.
//!
//! A runtime whose port has `suspend`, which is the default, waits until it is resumed. Each arriving runtime therefore
//! gets a task that resumes it: as soon as its session has started, when it will have no session, after any failure,
//! and after [`HOLD_AT_MOST`] in any case. The task retries until it succeeds or the process has exited. A runtime that
//! is not suspended ignores the command.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::reverse::{AdvertisedRuntime, ReversePort};
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Error};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::backoff::backoff;
use processes::text::bounded;

/// Maximum time for which a suspended runtime waits for its session to start.
const HOLD_AT_MOST: Duration = Duration::from_secs(3);
/// Timeout for resuming all waiting runtimes at shutdown.
const RESUME_TIMEOUT: Duration = Duration::from_secs(2);

/// A runtime that has connected.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Pid of the process; `None` if the process is not visible to gcwatch, so that its run is unknown.
    pub(crate) pid: Option<u32>,
    /// Endpoint of the runtime.
    pub(crate) endpoint: Endpoint,
    /// Sender that resumes the runtime when it is used or dropped.
    pub(crate) begun: oneshot::Sender<()>,
}

/// The listening socket, if it is configured.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    wanted: Option<PathBuf>,
    port: Option<Arc<ReversePort>>,
    resuming: JoinSet<()>,
}

impl Listening {
    /// Listens on this path, or on no path if `path` is `None`. Runtimes that wait on the previous socket are resumed,
    /// and the previous socket is closed.
    pub(crate) fn listen(&mut self, path: Option<&Path>) {
        if self.wanted.as_deref() == path {
            return;
        }
        self.wanted = path.map(Path::to_path_buf);
        if let Some(old) = self.port.take() {
            self.resuming.spawn(async move { resume_all(&old).await });
        }
        let Some(path) = path else { return };
        match ReversePort::bind(path, Deadlines::default()) {
            Ok(port) => {
                log!(info: "listening for runtimes on {}", path.display());
                self.port = Some(Arc::new(port));
            }
            Err(error) => log!(error: "{error}; runtimes cannot connect to gcwatch"),
        }
    }

    /// Waits for the next runtime, or forever if there is no socket. This method is cancel safe.
    pub(crate) async fn arrived(&mut self) -> Arrival {
        let Some(port) = self.port.clone() else {
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                advertised = port.accept() => return self.welcome(&port, &advertised),
                // Removes finished tasks.
                Some(_) = self.resuming.join_next() => {}
            }
        }
    }

    fn welcome(&mut self, port: &Arc<ReversePort>, advertised: &AdvertisedRuntime) -> Arrival {
        let (begun, waiting) = oneshot::channel();
        let client = port.client(advertised);
        let (pid, held) = (advertised.pid, Arc::clone(port));
        self.resuming.spawn(async move {
            // Resume the runtime after a message, if the sender was dropped, and if the message is late.
            let _whichever = timeout(HOLD_AT_MOST, waiting).await;
            resume(&client, pid).await;
            // Keep the port open until then, so that the runtime can reconnect.
            drop(held);
        });
        Arrival {
            pid,
            endpoint: port.endpoint(advertised),
            begun,
        }
    }

    /// Closes the socket and resumes all waiting runtimes.
    pub(crate) async fn close(mut self) {
        if let Some(port) = self.port.take() {
            resume_all(&port).await;
        }
        self.resuming.shutdown().await;
    }
}

/// Resumes a runtime. Retries until it succeeds or the process has exited.
async fn resume(client: &Client, pid: Option<u32>) {
    let mut backoff = backoff();
    let mut reported = false;
    loop {
        let error = match client.resume_runtime().await {
            Ok(()) => return,
            Err(error) => error,
        };
        let gone = match pid {
            Some(pid) => {
                spawn_blocking(move || matches!(Scan::host().inspect(pid), Err(Error::NoProcess { .. }))).await
            }
            // The process is not visible. A runtime that closed its connection does not wait.
            None => Ok(matches!(error, Error::Silent { .. } | Error::Closed { .. })),
        };
        if gone.unwrap_or(true) || error.is_unknown_command() {
            return;
        }
        if !std::mem::replace(&mut reported, true) {
            let error = bounded(&error.to_string());
            log!(warn: pid, "cannot resume the runtime: {error}; retrying");
        }
        sleep(backoff.next(fastrand::f64())).await;
    }
}

async fn resume_all(port: &ReversePort) {
    if let Ok(failed) = timeout(RESUME_TIMEOUT, port.resume_all()).await {
        for (runtime, error) in failed {
            let error = bounded(&error.to_string());
            log!(warn: pid = runtime.pid, "cannot resume the runtime: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use dotnet_diagnostics::message::{Advertise, Cookie};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    use super::*;

    /// Connects a fake runtime.
    async fn connect(path: &Path) -> UnixStream {
        let mut stream = UnixStream::connect(path).await.unwrap();
        let advertise = Advertise {
            cookie: Cookie([7; 16]),
            pid: 1,
        };
        stream.write_all(&advertise.encode()).await.unwrap();
        stream
    }

    async fn command(stream: &mut UnixStream) -> [u8; 2] {
        let mut frame = [0; 20];
        stream.read_exact(&mut frame).await.unwrap();
        [frame[16], frame[17]]
    }

    /// Command set and number of ResumeRuntime.
    const RESUME: [u8; 2] = [0x04, 0x01];

    /// Scenario: a runtime arrives and gets no session; another runtime waits when the port is closed.
    /// Guarantee: the first runtime is resumed as soon as its arrival is dropped, and the second runtime is resumed at
    /// shutdown.
    #[tokio::test]
    async fn arriving_runtime_is_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("port");
        let mut listening = Listening::default();
        listening.listen(Some(&path));
        let mut runtime = connect(&path).await;
        let arrival = listening.arrived().await;
        assert_eq!(arrival.pid, Some(std::process::id()));
        drop(arrival);
        let resumed = tokio::select! {
            command = command(&mut runtime) => command,
            _ = listening.arrived() => panic!("one runtime"),
        };
        assert_eq!(resumed, RESUME);
        // The runtime reconnects, and the port is closed before its session starts.
        let mut again = connect(&path).await;
        while listening.port.as_ref().unwrap().waiting().is_empty() {
            tokio::task::yield_now().await;
        }
        let answered = async move { command(&mut again).await };
        let (resumed, ()) = tokio::join!(answered, listening.close());
        assert_eq!(resumed, RESUME);
        assert!(!path.exists());
    }
}
