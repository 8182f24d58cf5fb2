//! `gcwatch mcp`: answers agents over standard input and output.

mod child;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use http::request::Parts;
use rmcp::ServiceExt as _;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::commands::analyze::reported;
use crate::commands::cli::McpArgs;
use crate::commands::listener::Listener;
use mcp::server::{Offer, Server};
use mcp::source::{Answer, CommandOutput, Recording, Refusal, Source as Records, record};
use recording::source::Source;

/// Maximum length of a line from a client. A longer line is dropped.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Runs the command until its standard input ends.
pub(crate) fn run(args: &McpArgs) -> anyhow::Result<bool> {
    let listener = args.files.is_empty();
    let listener = listener.then(|| Listener::new(args.connect.as_deref(), args.token_file.as_deref()));
    let records = Stdio {
        listener: listener.transpose()?,
        files: args.files.clone(),
        turn: Semaphore::new(1),
    };
    let offer = match (args.files.is_empty(), args.allow_bursts) {
        (false, _) => Offer::Recordings,
        (true, false) => Offer::Reading,
        (true, true) => Offer::Bursts,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start")?;
    let served = runtime.block_on(async {
        let transport = AsyncRwTransport::new(tokio::io::stdin(), tokio::io::stdout());
        let transport = transport.with_max_line_length(MAX_LINE_BYTES);
        let serving = Server::new(records, offer).serve(transport).await;
        let serving = serving.context("standard input is not from a client of the Model Context Protocol")?;
        serving.waiting().await.context("serving ended")
    });
    // Do not wait for the threads, because a thread can be blocked on standard input.
    runtime.shutdown_background();
    served.map(|_| true)
}

/// The data sources for answers over standard input and output.
struct Stdio {
    /// Client of the daemon; `None` if only recordings are served.
    listener: Option<Listener>,
    files: Vec<PathBuf>,
    /// Limits the work to one recording or command at a time.
    turn: Semaphore,
}

impl Stdio {
    /// Queries the listener.
    async fn get(&self, path: &str) -> Result<(u16, Vec<u8>), Refusal> {
        let Some(listener) = &self.listener else {
            return Err(Refusal::new(
                "this server was started with recordings and does not query a daemon",
                "use `recording`; `gcwatch mcp` without files queries the daemon",
            ));
        };
        listener.get(path).await.map_err(|why| {
            Refusal::new(
                format!("{}: {why}", listener.address),
                "start `gcwatch run`, or start `gcwatch mcp` with --connect URL; `recording` works without a daemon",
            )
        })
    }

    /// Runs slow work on another thread, one job at a time.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let _turn = self.turn.acquire().await;
        let done = spawn_blocking(work).await;
        done.unwrap_or_else(|_| Err(Refusal::new("the work ended early", "try again")))
    }
}

impl Records for Stdio {
    async fn record(&self, path: &str, _asked: Option<&Parts>) -> Answer {
        let (status, body) = self.get(path).await?;
        record(status, &body).map_err(|refusal| match status {
            401 | 403 => Refusal {
                remedy: Some("start `gcwatch mcp` with --token-file, or as root or the user of gcwatch".to_owned()),
                ..refusal
            },
            _ => refusal,
        })
    }

    fn files(&self) -> &[PathBuf] {
        &self.files
    }

    async fn recording(&self, which: Recording) -> Answer {
        let bytes = match &which {
            Recording::File(_) => Vec::new(),
            Recording::Incident(path) => match self.get(path).await? {
                (200, bytes) => bytes,
                (status, body) => return record(status, &body),
            },
        };
        self.blocking(move || {
            let source = match which {
                Recording::File(file) => open(&file)?,
                Recording::Incident(path) => {
                    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                    Source::from_reader(name, Box::new(Cursor::new(bytes))).map_err(unreadable)?
                }
            };
            let reported = reported(source).map_err(unreadable)?;
            serde_json::to_value(reported).map_err(unreadable)
        })
        .await
    }

    async fn command(&self, mut words: Vec<String>, file: Option<PathBuf>) -> Result<CommandOutput, Refusal> {
        self.blocking(move || {
            if let Some(file) = file {
                check(&file)?;
                // An absolute path is neither an option nor a pid.
                let path = std::path::absolute(&file).map_err(unreadable)?.into_os_string();
                let path = path.into_string();
                words.push(path.map_err(|_| unreadable(format!("the path of {} is not UTF-8", file.display())))?);
            }
            child::run(&words)
        })
        .await
    }
}

/// Opens a file of the caller.
fn open(file: &Path) -> Result<Source, Refusal> {
    check(file)?;
    Source::open(file).map_err(unreadable)
}

/// Checks that a file of the caller is a regular file. Pipes are refused, because they could block the server. Standard
/// input is refused, because it belongs to the client.
fn check(file: &Path) -> Result<(), Refusal> {
    match std::fs::metadata(file) {
        Ok(known) if known.is_file() => Ok(()),
        Ok(_) => Err(unreadable(format!("{} is not a regular file", file.display()))),
        Err(error) => Err(unreadable(format!("cannot open {}: {error}", file.display()))),
    }
}

fn unreadable(error: impl ToString) -> Refusal {
    Refusal::new(
        error.to_string(),
        "pass a .nettrace file, which can be gzipped or zipped",
    )
}
