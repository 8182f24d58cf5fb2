//! Runtimes that connect to us: `DOTNET_DiagnosticPorts=PATH` of the target, PATH being what we listen on.
//!
//! A runtime whose port has `suspend`, which is the default, waits until it is resumed. So whoever arrives is given a
//! task that resumes it: as soon as its session has begun, when it will have none, when anything fails, and after
//! [`HOLD_AT_MOST`] in any case; again and again until it worked or the process is gone. A runtime that was not
//! suspended ignores it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::reverse::{Advertised, ReversePort};
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Error};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::backoff::backoff;
use processes::text::bounded;

/// How long a suspended runtime may be held for its session to begin.
const HOLD_AT_MOST: Duration = Duration::from_secs(3);
/// How long all that wait are resumed for at the end.
const RESUME_WITHIN: Duration = Duration::from_secs(2);

/// A runtime that came.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Its process; `None`: not visible to us, so that its run is unknown.
    pub(crate) pid: Option<u32>,
    /// Where it is reached.
    pub(crate) endpoint: Endpoint,
    /// Sent, or dropped: it is resumed.
    pub(crate) begun: oneshot::Sender<()>,
}

/// The socket that we listen on, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    wanted: Option<PathBuf>,
    port: Option<Arc<ReversePort>>,
    resuming: JoinSet<()>,
}

impl Listening {
    /// Listens on this path from now on. What waits on another one is resumed, and that one closed.
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

    /// Waits for the next runtime. Cancel safe; for ever, when nothing is listened on.
    pub(crate) async fn arrived(&mut self) -> Arrival {
        let Some(port) = self.port.clone() else {
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                advertised = port.accept() => return self.welcome(&port, &advertised),
                // Those that are done are let go.
                Some(_) = self.resuming.join_next() => {}
            }
        }
    }

    fn welcome(&mut self, port: &Arc<ReversePort>, advertised: &Advertised) -> Arrival {
        let (begun, waiting) = oneshot::channel();
        let client = port.client(advertised);
        let (pid, held) = (advertised.pid, Arc::clone(port));
        self.resuming.spawn(async move {
            // Sent, dropped or late: it goes on.
            let _whichever = timeout(HOLD_AT_MOST, waiting).await;
            resume(&client, pid).await;
            // Until it is resumed, its port is there for it to reconnect to.
            drop(held);
        });
        Arrival {
            pid,
            endpoint: port.endpoint(advertised),
            begun,
        }
    }

    /// All is ended: whoever still waits is resumed.
    pub(crate) async fn close(mut self) {
        if let Some(port) = self.port.take() {
            resume_all(&port).await;
        }
        self.resuming.shutdown().await;
    }
}

/// Resumes a runtime, again and again until it worked or its process is gone.
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
            // Whether it is there is unknown: one that closed its connection does not wait.
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
    if let Ok(failed) = timeout(RESUME_WITHIN, port.resume_all()).await {
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

    /// A runtime that connects, and the command that it is given: set and number.
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

    /// ResumeRuntime.
    const RESUME: [u8; 2] = [0x04, 0x01];

    /// Scenario: a runtime arrives and nothing is begun with it; another one waits when the port is closed.
    /// Guarantee: the first is resumed as soon as it is dropped, the second at the end.
    #[tokio::test]
    async fn whoever_arrives_is_resumed() {
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
        // It comes back, and the port is closed while its session is not yet begun.
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
