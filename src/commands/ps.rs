//! `gcwatch ps`: every .NET process on the host, attachable, or the reason why not.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use dotnet_diagnostics::discovery::{Obstacle, Process, Reason, Scan, StaleSocket};
use dotnet_diagnostics::message::ProcessInfo;
use dotnet_diagnostics::text::shown;
use dotnet_diagnostics::{Client, Deadlines, Endpoint};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::commands::cli::{Format, PsArgs};
use crate::commands::output::Output;
use report::processes::{self, ProcessRecord};
use targets::heap_limit;
use targets::name_of;
use targets::options::TargetOptions;
use targets::standing::standing;

/// Deadline for a runtime's answer, so that a stopped one does not delay the list.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Runs the command.
///
/// # Errors
///
/// When `/proc` cannot be read or standard output cannot be written.
pub fn run(args: &PsArgs) -> anyhow::Result<bool> {
    let listing = Scan::host()
        .with_sockets(args.sockets.iter().map(PathBuf::as_path))
        .list()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let mut records = runtime.block_on(ask_all(listing.processes));
    records.extend(listing.stale.iter().map(stale));
    records.sort_by_key(|record| record.pid);
    let mut output = Output::stdout(args.format);
    match output.format() {
        Format::Table => processes::write(output.text(), &records, sudo("gcwatch ps"))?,
        Format::Ndjson => {
            for record in &records {
                output.record(record)?;
            }
        }
    }
    output.finish()?;
    Ok(true)
}

/// The command to repeat as root, where this is another user.
pub(crate) fn sudo(command: &'static str) -> Option<&'static str> {
    (!rustix::process::geteuid().is_root()).then_some(command)
}

/// Queries each process that has a socket, all concurrently.
async fn ask_all(processes: Vec<Process>) -> Vec<ProcessRecord> {
    let mut asked = JoinSet::new();
    for process in processes {
        asked.spawn(async move {
            let outcome = ask(&process).await;
            let info = outcome.as_ref().ok().cloned().flatten();
            let mut record = record(&process, outcome);
            record.name = name(process.clone(), info).await.or(record.name);
            if record.attachable
                && let Some(why) = at_limit(process).await
            {
                record.attachable = false;
                record.reason = Some(heap_limit::REASON);
                record.detail = Some(format!("{why}; {}", heap_limit::REMEDY));
            }
            record
        });
    }
    let mut records = Vec::new();
    while let Some(done) = asked.join_next().await {
        records.extend(done);
    }
    records
}

/// What it is called everywhere; `None`: its files do not respond.
pub(crate) async fn name(process: Process, info: Option<ProcessInfo>) -> Option<String> {
    let reading = spawn_blocking(move || name_of(&process, info.as_ref()));
    timeout(ANSWER_WITHIN, reading).await.ok()?.ok()
}

/// Why gcwatch would not attach to a process that responds, unless one reads it already.
async fn at_limit(process: Process) -> Option<String> {
    let looking = spawn_blocking(move || standing(&process, &TargetOptions::default()).at_limit);
    timeout(ANSWER_WITHIN, looking).await.ok()?.ok()?
}

async fn ask(process: &Process) -> Result<Option<ProcessInfo>, Obstacle> {
    let endpoint = Endpoint::of(process).map_err(|error| error.obstacle())?;
    let client = Client::with_deadlines(endpoint, Deadlines::uniform(ANSWER_WITHIN));
    client.probe().await.map_err(|error| error.obstacle())
}

fn record(process: &Process, outcome: Result<Option<ProcessInfo>, Obstacle>) -> ProcessRecord {
    let (info, obstacle) = match outcome {
        Ok(info) => (info, None),
        Err(obstacle) => (None, Some(obstacle)),
    };
    // The answer of a process is not trusted.
    let answered = info
        .and_then(|info| info.runtime_version)
        .map(|version| shown(&version));
    // .NET Core 3.x does not report its version; the directory of its library has it.
    let library = || {
        process
            .visible
            .then(Scan::host)?
            .runtime_library(process.pid)?
            .version()
            .map(str::to_owned)
    };
    let runtime = answered.or_else(library);
    ProcessRecord {
        kind: "process",
        pid: process.pid,
        ns_pid: process.ns_pid,
        name: Some(process.name.clone()),
        runtime,
        socket: process.socket.as_ref().map(ToString::to_string),
        attachable: obstacle.is_none(),
        reason: obstacle.as_ref().map(|obstacle| obstacle.reason.as_str()),
        detail: obstacle.map(|obstacle| obstacle.sentence()),
    }
}

fn stale(socket: &StaleSocket) -> ProcessRecord {
    ProcessRecord {
        kind: "process",
        pid: socket.name.pid,
        ns_pid: socket.name.pid,
        name: None,
        runtime: None,
        socket: Some(socket.path.display().to_string()),
        attachable: false,
        reason: Some(Reason::StaleSocket.as_str()),
        detail: Some(socket.to_string()),
    }
}
