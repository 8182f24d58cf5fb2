//! `gcwatch doctor`: one verdict with its reason and remedy for every process that is probably a .NET process or is
//! expected.
//!
//! The command queries processes and starts no session, so it can run alongside the daemon at any time.

mod expected;
mod own;
mod verdict;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use base::text::shown;
use dotnet_diagnostics::Error;
use dotnet_diagnostics::discovery::{Obstacle, Process, Scan, StaleSocket};
use tokio::task::spawn_blocking;

use self::expected::{does_not_respond, no_socket_in, unmet};
use self::verdict::{not_looked_at, verdict};
use crate::commands::cli::{DoctorArgs, Format};
use crate::commands::executor;
use crate::commands::look::{each, look};
use crate::commands::output::Output;
use crate::commands::ps::sudo;
use crate::commands::run::load;
use report::doctor::{Diagnosis, Report, StaleRecord};
use targets::eligibility::{Eligibility, eligibility, names_something};
use targets::options::TargetOptions;

/// Runs the command. Returns `false` if a process needs attention.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<bool> {
    let Some(loaded) = load(&args.config)? else {
        return Ok(true);
    };
    let options = loaded.config.options.targets.clone();
    let runtime = executor()?;
    let examined = runtime.block_on(examine(args.pid.clone(), options));
    // A check that hangs in a file system must not delay the exit.
    runtime.shutdown_background();
    let mut report = examined?;
    report.sort();
    let mut output = Output::stdout(args.format);
    match output.format {
        Format::Table => report.write(output.text(), sudo("gcwatch doctor"))?,
        Format::Ndjson => {
            output.record(&report.own)?;
            output.records(&report.diagnoses)?;
            output.records(&report.stale)?;
        }
    }
    output.finish()?;
    Ok(report.is_ok())
}

/// A process, with the results of discovery and configuration.
#[derive(Debug)]
struct ExaminedProcess {
    process: Process,
    eligibility: Eligibility,
    /// Note about the architecture of the program; `None` if the program is for this machine.
    foreign: Option<String>,
}

/// Result of the check of a process.
#[derive(Debug)]
struct DiagnosedProcess {
    diagnosis: Diagnosis,
    /// Indexes of the filters of the configuration that match the process.
    meant_by: Vec<usize>,
    /// Path of the socket; `None` if the process has no socket.
    socket: Option<PathBuf>,
}

impl DiagnosedProcess {
    fn without_a_look(pid: u32, obstacle: Obstacle) -> Self {
        Self {
            diagnosis: not_looked_at(pid, obstacle),
            meant_by: Vec::new(),
            socket: None,
        }
    }
}

async fn examine(asked: Vec<u32>, options: TargetOptions) -> anyhow::Result<Report> {
    let (scan, hung) = scan(&options).await;
    let own = own::own(scan.credentials(), &options);
    let pids = if asked.is_empty() { scan.pids()? } else { asked.clone() };
    let mut report = Report {
        own,
        diagnoses: Vec::new(),
        stale: Vec::new(),
    };
    let (mut found, mut used) = (BTreeSet::new(), HashSet::new());
    let diagnosed = each(pids, |pid| {
        diagnose(pid, scan.clone(), options.clone(), asked.contains(&pid))
    });
    for diagnosed in diagnosed.await?.into_iter().flatten() {
        report.diagnoses.push(diagnosed.diagnosis);
        found.extend(diagnosed.meant_by);
        used.extend(diagnosed.socket);
    }
    if asked.is_empty() {
        report.diagnoses.extend(hung.iter().map(|path| does_not_respond(path)));
        named(&scan, &options, &hung, &mut report, &mut found).await?;
        report.diagnoses.extend(unmet(&options, &found));
        report.stale = look(move || stale(&used)).await.unwrap_or_default();
    }
    Ok(report)
}

/// Returns a scan with the sockets of the configuration, and the paths of sockets that do not respond.
async fn scan(options: &TargetOptions) -> (Scan, Vec<PathBuf>) {
    let (mut sockets, mut hung) = (Vec::new(), Vec::new());
    for path in &options.sockets {
        let listing = look({
            let path = path.clone();
            move || Scan::sockets_at(&path)
        });
        match listing.await {
            Ok(found) => sockets.extend(found),
            Err(_) => hung.push(path.clone()),
        }
    }
    let scan = Scan::host().with_socket_directories([]).with_found_sockets(sockets);
    (scan, hung)
}

/// Checks the processes behind sockets in `targets.sockets` that are not in gcwatch's `/proc`.
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
        let eligibility = spawn_blocking({
            let (process, options) = (process.clone(), options.clone());
            move || eligibility(&process, &options)
        });
        let looked = ExaminedProcess {
            process,
            eligibility: eligibility.await?,
            foreign: None,
        };
        found.extend(&looked.eligibility.meant_by);
        report.diagnoses.push(verdict(looked, scan).await);
    }
    let diagnosed = &report.diagnoses;
    let has_one = |path: &PathBuf| {
        let path = path.display().to_string();
        let mut sockets = diagnosed.iter().filter_map(|diagnosis| diagnosis.socket.as_ref());
        sockets.any(|socket| socket.starts_with(&path))
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

/// Returns the verdict on a process, or `None` if it is neither .NET nor expected.
async fn diagnose(pid: u32, scan: Scan, options: TargetOptions, asked: bool) -> Option<DiagnosedProcess> {
    let looking = look({
        let scan = scan.clone();
        move || looked(pid, &scan, &options, asked)
    });
    let looked = match looking.await {
        Ok(Ok(looked)) => looked?,
        Ok(Err(error)) => return asked.then(|| DiagnosedProcess::without_a_look(pid, error.obstacle())),
        Err(obstacle) => return Some(DiagnosedProcess::without_a_look(pid, obstacle)),
    };
    let (meant_by, socket) = (looked.eligibility.meant_by.clone(), looked.process.socket.clone());
    Some(DiagnosedProcess {
        diagnosis: verdict(looked, &scan).await,
        meant_by,
        socket: socket.map(|socket| socket.host_path()),
    })
}

/// Inspects a process. Blocks the calling thread. Returns `Ok(None)` if it is neither .NET nor expected.
fn looked(pid: u32, scan: &Scan, options: &TargetOptions, asked: bool) -> Result<Option<ExaminedProcess>, Error> {
    let process = scan.inspect(pid)?;
    if process.evidence.is_none() && !asked && options.include.is_empty() {
        return Ok(None);
    }
    let eligibility = eligibility(&process, options);
    let named = |place: &usize| options.include.get(*place).is_some_and(names_something);
    let expected = asked || (eligibility.wanted && eligibility.meant_by.iter().any(named));
    if process.evidence.is_none() && !expected {
        return Ok(None);
    }
    let foreign = scan.program(pid).and_then(|program| program.foreign());
    Ok(Some(ExaminedProcess {
        process,
        eligibility,
        foreign,
    }))
}

/// Returns the sockets in `/tmp` and gcwatch's own `TMPDIR` that no process owns. Blocks the calling thread. `used`
/// contains the sockets of the processes.
fn stale(used: &HashSet<PathBuf>) -> Vec<StaleRecord> {
    let record = |socket: StaleSocket| StaleRecord {
        path: shown(&socket.path.display().to_string()),
        detail: shown(&socket.to_string()),
    };
    let all = Scan::host().stale(used).unwrap_or_default();
    all.into_iter().map(record).collect()
}
