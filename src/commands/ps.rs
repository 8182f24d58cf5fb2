//! `gcwatch ps`: lists every .NET process on the host, with the reason if it is not attachable.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use dotnet_diagnostics::discovery::{Obstacle, Process, Reason, Scan, SocketAddress, StaleSocket};
use dotnet_diagnostics::message::ProcessInfo;

use crate::commands::cli::{Format, PsArgs};
use crate::commands::executor;
use crate::commands::look::{ask, each, look, runtime_version};
use crate::commands::output::Output;
use report::processes::{self, ProcessRecord};
use targets::eligibility::eligibility;
use targets::heap_limit;
use targets::name_of;
use targets::options::TargetOptions;

/// Timeout for the answer of a runtime, so that a stopped runtime does not delay the list.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &PsArgs) -> anyhow::Result<bool> {
    let scan = Scan::host().with_sockets(args.sockets.iter().map(PathBuf::as_path));
    let runtime = executor()?;
    let listed = runtime.block_on(list(scan));
    // A check that hangs in a file system must not delay the exit.
    runtime.shutdown_background();
    let mut records = listed?;
    records.sort_by_key(|record| record.pid);
    let mut output = Output::stdout(args.format);
    match output.format {
        Format::Table => processes::write(output.text(), &records, sudo("gcwatch ps"))?,
        Format::Ndjson => output.records(&records)?,
    }
    output.finish()?;
    Ok(true)
}

/// Returns the command to repeat as root, or `None` if the current user is root.
pub(crate) fn sudo(command: &'static str) -> Option<&'static str> {
    (!rustix::process::geteuid().is_root()).then_some(command)
}

/// Inspects each process, and queries the processes that have a socket.
async fn list(scan: Scan) -> anyhow::Result<Vec<ProcessRecord>> {
    let (mut records, mut used) = (Vec::new(), HashSet::new());
    for (record, socket) in each(scan.pids()?, |pid| listed(pid, scan.clone()))
        .await?
        .into_iter()
        .flatten()
    {
        records.push(record);
        used.extend(socket);
    }
    let named = look({
        let scan = scan.clone();
        move || scan.list_named()
    });
    for process in named.await.unwrap_or_default() {
        used.extend(process.socket.as_ref().map(SocketAddress::host_path));
        records.push(asked(process).await);
    }
    let stale_ones = look(move || scan.stale(&used)).await;
    let stale_ones = stale_ones.ok().and_then(Result::ok).unwrap_or_default();
    records.extend(stale_ones.iter().map(stale));
    Ok(records)
}

/// Returns a process and the path of its socket, or `None` if it is not a .NET process or has exited.
async fn listed(pid: u32, scan: Scan) -> Option<(ProcessRecord, Option<PathBuf>)> {
    let process = match look(move || scan.inspect(pid)).await {
        Ok(inspected) => inspected.ok().filter(|process| process.evidence.is_some())?,
        // It is unknown whether the process is a .NET process.
        Err(obstacle) => return Some((unseen(pid, &obstacle), None)),
    };
    let socket = process.socket.as_ref().map(SocketAddress::host_path);
    Some((asked(process).await, socket))
}

/// Queries a process.
async fn asked(process: Process) -> ProcessRecord {
    let outcome = ask(&process, ANSWER_TIMEOUT).await;
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
}

/// Returns the name that gcwatch uses for the process everywhere, or `None` if its files do not respond.
pub(crate) async fn name(process: Process, info: Option<ProcessInfo>) -> Option<String> {
    look(move || name_of(&process, info.as_ref())).await.ok()
}

/// Returns the reason why gcwatch would not attach to a process that responds. Returns `None` if gcwatch would attach,
/// or if the process is already read.
async fn at_limit(process: Process) -> Option<String> {
    look(move || eligibility(&process, &TargetOptions::default()).at_limit)
        .await
        .ok()?
}

fn record(process: &Process, outcome: Result<Option<ProcessInfo>, Obstacle>) -> ProcessRecord {
    let (info, obstacle) = match outcome {
        Ok(info) => (info, None),
        Err(obstacle) => (None, Some(obstacle)),
    };
    ProcessRecord {
        pid: process.pid,
        ns_pid: process.ns_pid,
        name: Some(process.name.clone()),
        runtime: runtime_version(process, info),
        socket: process.socket.as_ref().map(ToString::to_string),
        attachable: obstacle.is_none(),
        reason: obstacle.as_ref().map(|obstacle| obstacle.reason.as_str()),
        detail: obstacle.map(|obstacle| obstacle.sentence()),
    }
}

/// Returns the record of a process whose files do not respond.
fn unseen(pid: u32, obstacle: &Obstacle) -> ProcessRecord {
    ProcessRecord {
        pid,
        ns_pid: pid,
        reason: Some(obstacle.reason.as_str()),
        detail: Some(obstacle.sentence()),
        ..ProcessRecord::default()
    }
}

fn stale(socket: &StaleSocket) -> ProcessRecord {
    ProcessRecord {
        pid: socket.name.pid,
        ns_pid: socket.name.pid,
        socket: Some(socket.path.display().to_string()),
        reason: Some(Reason::StaleSocket.as_str()),
        detail: Some(socket.to_string()),
        ..ProcessRecord::default()
    }
}
