//! `gcwatch doctor`: one verdict with its reason and remedy for every process that looks like .NET or was expected.
//!
//! It queries processes and starts no session, so it can run beside the daemon at any time.

mod expected;
mod own;
mod verdict;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use dotnet_diagnostics::Error;
use dotnet_diagnostics::discovery::{Obstacle, Process, Reason, Scan, StaleSocket};
use dotnet_diagnostics::text::shown;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use self::expected::{does_not_respond, no_socket_in, unmet};
use self::verdict::{not_looked_at, verdict};
use crate::commands::cli::{DoctorArgs, Format};
use crate::commands::output::Output;
use crate::commands::ps::sudo;
use crate::commands::run::load;
use report::doctor::{Diagnosis, Report, StaleRecord};
use targets::options::TargetOptions;
use targets::standing::{Standing, names_something, standing};

/// Deadline for reading the files of one process. They may be on any file system, even one that the process provides.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// Deadline for listing directories of sockets.
const STALE_WITHIN: Duration = Duration::from_secs(20);
/// Limit of processes that are checked concurrently.
const AT_ONCE: usize = 64;

/// Runs the command. `false`: a process needs attention.
///
/// # Errors
///
/// When the configuration is invalid, `/proc` cannot be read, or standard output cannot be written.
pub fn run(args: &DoctorArgs) -> anyhow::Result<bool> {
    let Some(loaded) = load(&args.config)? else {
        return Ok(true);
    };
    let options = loaded.config.options.targets.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let examined = runtime.block_on(examine(args.pid.clone(), options));
    // A check that hangs in a file system must not delay the exit.
    runtime.shutdown_background();
    let mut report = examined?;
    report.sort();
    let mut output = Output::stdout(args.format);
    match output.format() {
        Format::Table => report.write(output.text(), sudo("gcwatch doctor"))?,
        Format::Ndjson => {
            output.record(&report.own)?;
            report
                .diagnoses
                .iter()
                .try_for_each(|diagnosis| output.record(diagnosis))?;
            report.stale.iter().try_for_each(|stale| output.record(stale))?;
        }
    }
    output.finish()?;
    Ok(report.is_ok())
}

/// A process with what discovery and the configuration know of it.
#[derive(Debug)]
struct Looked {
    process: Process,
    standing: Standing,
    /// Its architecture, if its program is for another machine.
    foreign: Option<String>,
}

async fn examine(asked: Vec<u32>, options: TargetOptions) -> anyhow::Result<Report> {
    let (scan, hung) = scan(&options).await?;
    let own = own::own(scan.credentials(), &options);
    let pids = if asked.is_empty() {
        all_pids().context("cannot read /proc; run where it is mounted")?
    } else {
        asked.iter().copied().collect()
    };
    let mut report = Report {
        own,
        diagnoses: Vec::new(),
        stale: Vec::new(),
    };
    let mut found = BTreeSet::new();
    let mut running = JoinSet::new();
    let mut waiting = pids.into_iter();
    loop {
        while running.len() < AT_ONCE
            && let Some(pid) = waiting.next()
        {
            running.spawn(diagnose(pid, scan.clone(), options.clone(), asked.contains(&pid)));
        }
        let Some(done) = running.join_next().await else { break };
        if let Some((diagnosis, meant_by)) = done? {
            report.diagnoses.push(diagnosis);
            found.extend(meant_by);
        }
    }
    if asked.is_empty() {
        report.diagnoses.extend(hung.iter().map(|path| does_not_respond(path)));
        named(&scan, &options, &hung, &mut report, &mut found).await?;
        report.diagnoses.extend(unmet(&options, &found));
        let listing = spawn_blocking(stale);
        if let Ok(listing) = timeout(STALE_WITHIN, listing).await {
            report.stale = listing?;
        }
    }
    Ok(report)
}

/// A scan with the sockets of the configuration, and the paths of those that do not respond.
async fn scan(options: &TargetOptions) -> anyhow::Result<(Scan, Vec<PathBuf>)> {
    let (mut sockets, mut hung) = (Vec::new(), Vec::new());
    for path in &options.sockets {
        let listing = spawn_blocking({
            let path = path.clone();
            move || Scan::sockets_at(&path)
        });
        match timeout(LOOK_WITHIN, listing).await {
            Ok(found) => sockets.extend(found?),
            Err(_) => hung.push(path.clone()),
        }
    }
    let scan = Scan::host().with_socket_directories([]).with_found_sockets(sockets);
    Ok((scan, hung))
}

/// Checks the processes behind sockets in `targets.sockets` that are not in our `/proc`.
async fn named(
    scan: &Scan,
    options: &TargetOptions,
    hung: &[PathBuf],
    report: &mut Report,
    found: &mut BTreeSet<usize>,
) -> anyhow::Result<()> {
    let processes = spawn_blocking({
        let scan = scan.clone();
        move || scan.list_named()
    });
    for process in processes.await? {
        let standing = spawn_blocking({
            let (process, options) = (process.clone(), options.clone());
            move || standing(&process, &options)
        });
        let looked = Looked {
            process,
            standing: standing.await?,
            foreign: None,
        };
        found.extend(&looked.standing.meant_by);
        report.diagnoses.push(verdict(looked, scan).await);
    }
    let diagnosed = &report.diagnoses;
    let has_one = |path: &PathBuf| {
        let path = path.display().to_string();
        diagnosed.iter().any(|diagnosis| {
            diagnosis
                .socket
                .as_ref()
                .is_some_and(|socket| socket.strip_prefix(&path).is_some())
        })
    };
    let empty: Vec<Diagnosis> = options
        .sockets
        .iter()
        .filter(|path| !has_one(path) && !hung.contains(path))
        .map(|path| no_socket_in(path))
        .collect();
    report.diagnoses.extend(empty);
    Ok(())
}

/// The verdict on a process, and the filters of the configuration that match it. `None`: it is not .NET and not
/// expected.
async fn diagnose(pid: u32, scan: Scan, options: TargetOptions, asked: bool) -> Option<(Diagnosis, Vec<usize>)> {
    let looking = spawn_blocking({
        let scan = scan.clone();
        move || look(pid, &scan, &options, asked)
    });
    let looked = match timeout(LOOK_WITHIN, looking).await {
        Ok(Ok(Ok(looked))) => looked?,
        Ok(Ok(Err(Error::NoProcess { .. }))) if !asked => return None,
        Ok(Ok(Err(error))) => return asked.then(|| (not_looked_at(pid, error.obstacle()), Vec::new())),
        Ok(Err(failed)) => {
            let obstacle = Obstacle::new(Reason::Failed, format!("the check failed: {failed}"), "");
            return Some((not_looked_at(pid, obstacle), Vec::new()));
        }
        Err(_) => {
            let detail = format!("reading its files took more than {LOOK_WITHIN:?}: a file system does not respond");
            let remedy = "check the file system of its TMPDIR: it may be mounted from a server that does not respond";
            return Some((
                not_looked_at(pid, Obstacle::new(Reason::Silent, detail, remedy)),
                Vec::new(),
            ));
        }
    };
    let meant_by = looked.standing.meant_by.clone();
    Some((verdict(looked, &scan).await, meant_by))
}

/// Inspects a process; blocking. `Ok(None)`: it is not .NET and not expected.
fn look(pid: u32, scan: &Scan, options: &TargetOptions, asked: bool) -> Result<Option<Looked>, Error> {
    let process = scan.inspect(pid)?;
    if process.evidence.is_none() && !asked && options.include.is_empty() {
        return Ok(None);
    }
    let standing = standing(&process, options);
    let named = |place: &usize| options.include.get(*place).is_some_and(names_something);
    let expected = asked || (standing.wanted && standing.meant_by.iter().any(named));
    if process.evidence.is_none() && !expected {
        return Ok(None);
    }
    let foreign = scan.program(pid).and_then(|program| program.foreign());
    Ok(Some(Looked {
        process,
        standing,
        foreign,
    }))
}

/// Sockets in `/tmp` and gcwatch's own `TMPDIR` that no process owns; blocking.
fn stale() -> Vec<StaleRecord> {
    let listing = Scan::host().list().unwrap_or_default();
    let record = |socket: &StaleSocket| StaleRecord {
        kind: "stale-socket",
        path: shown(&socket.path.display().to_string()),
        detail: shown(&socket.to_string()),
    };
    listing.stale.iter().map(record).collect()
}

fn all_pids() -> std::io::Result<BTreeSet<u32>> {
    let entries = std::fs::read_dir("/proc")?;
    // An entry that cannot be read is a process that has exited.
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}
