//! `gcwatch doctor`: for every process that looks like .NET or was expected to be there one verdict, its reason, and what to do.
//!
//! It asks processes who they are and begins no session, so that it can be run beside the daemon at any time.

mod own;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use dotnet_diagnostics::discovery::{Obstacle, Process, Reason, Scan, StaleSocket};
use dotnet_diagnostics::message::ProcessInfo;
use dotnet_diagnostics::text::shown;
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Error};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::commands::cli::{DoctorArgs, Format};
use crate::commands::output::Output;
use crate::commands::run::load;
use crate::report::doctor::{Diagnosis, Report, StaleRecord};
use crate::targets::options::{Filter, TargetOptions};
use crate::targets::standing::{Standing, names_something, scan, standing};

/// How long a runtime may take to say who it is.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How long the files of one process may take. They may be on any file system, one in its own hands included.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// How long the look at directories of sockets that nobody owns may take.
const STALE_WITHIN: Duration = Duration::from_secs(20);
/// Processes that are looked at or asked at a time.
const AT_ONCE: usize = 64;

/// Runs the command. False: something is to be done.
///
/// # Errors
///
/// When the configuration is wrong, `/proc` cannot be read, or standard output cannot be written.
pub fn run(args: &DoctorArgs) -> anyhow::Result<bool> {
    let Some(loaded) = load(&args.config)? else {
        return Ok(true);
    };
    let options = loaded.config.targets().clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let examined = runtime.block_on(examine(args.pid.clone(), options));
    // A look that hangs in a dead file system must not hold up the end.
    runtime.shutdown_background();
    let mut report = examined?;
    report.sort();
    let mut output = Output::stdout(args.format);
    match output.format() {
        Format::Table => report.write(output.text())?,
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
    Ok(report.is_well())
}

/// A process, looked at.
#[derive(Debug)]
struct Looked {
    process: Process,
    standing: Standing,
    /// Its program is one of another machine.
    foreign: Option<String>,
}

async fn examine(asked: Vec<u32>, options: TargetOptions) -> anyhow::Result<Report> {
    let scan = spawn_blocking({
        let options = options.clone();
        move || scan(&options)
    });
    // Its directories may hang as any others.
    let scan = timeout(STALE_WITHIN, scan)
        .await
        .context("the directories of targets.sockets do not answer")??;
    let own = own::own(scan.credentials());
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
        named(&scan, &options, &mut report, &mut found).await?;
        report.diagnoses.extend(unmet(&options, &found));
        let listing = spawn_blocking(stale);
        if let Ok(listing) = timeout(STALE_WITHIN, listing).await {
            report.stale = listing?;
        }
    }
    Ok(report)
}

/// The processes behind sockets that the configuration names and that are not in our `/proc`.
async fn named(
    scan: &Scan,
    options: &TargetOptions,
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
        .filter(|path| !has_one(path))
        .map(|path| no_socket_in(path))
        .collect();
    report.diagnoses.extend(empty);
    Ok(())
}

/// The verdict on a process. `None`: it is not .NET, and nobody expected it to be. Also the filters of the configuration that mean it.
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
            let obstacle = Obstacle::new(Reason::Failed, format!("looking at it failed: {failed}"), "");
            return Some((not_looked_at(pid, obstacle), Vec::new()));
        }
        Err(_) => {
            let detail = format!("looking at its files took more than {LOOK_WITHIN:?}: a file system does not answer");
            let remedy =
                "see which file system its TMPDIR is on, and whether that is mounted from a server that is gone";
            return Some((
                not_looked_at(pid, Obstacle::new(Reason::Silent, detail, remedy)),
                Vec::new(),
            ));
        }
    };
    let meant_by = looked.standing.meant_by.clone();
    Some((verdict(looked, &scan).await, meant_by))
}

/// Looks at a process; blocking. `Ok(None)`: it is not .NET, and nobody expected it to be.
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

async fn verdict(looked: Looked, scan: &Scan) -> Diagnosis {
    let Looked {
        process,
        standing,
        foreign,
    } = looked;
    let mut diagnosis = Diagnosis {
        kind: "diagnosis",
        pid: Some(process.pid),
        ns_pid: Some(process.ns_pid),
        name: process.name.clone(),
        uid: process.uid,
        runtime: None,
        socket: process.socket.as_ref().map(ToString::to_string),
        verdict: "attachable",
        ok: true,
        detail: foreign,
        remedy: None,
    };
    let version = || process.visible.then(|| scan.runtime_library(process.pid)).flatten();
    if !standing.wanted && process.evidence.is_some() {
        diagnosis.verdict = "excluded";
        diagnosis.detail =
            Some("the filters of the configuration leave it out (targets.include, targets.exclude)".to_owned());
        return diagnosis;
    }
    match ask(&process).await {
        Ok(info) => {
            // What a process says of itself may be anything.
            let said = info
                .and_then(|info| info.runtime_version)
                .map(|version| shown(&version));
            diagnosis.runtime = said.or_else(|| version()?.version().map(str::to_owned));
            if let Some(holder) = standing.holder {
                diagnosis.verdict = "attached";
                diagnosis.detail = Some(format!("{holder} reads it"));
            }
        }
        Err(obstacle) => {
            diagnosis.runtime = version().and_then(|library| Some(library.version()?.to_owned()));
            diagnosis.ok = false;
            diagnosis.verdict = obstacle.reason.as_str();
            let remedy = match (obstacle.reason, process.visible) {
                // Our own rights are known here, which a refused connection does not tell.
                (Reason::Permission, true) => scan.credentials().remedy(process.uid),
                _ if obstacle.remedy.is_empty() => remedy(obstacle.reason).to_owned(),
                _ => obstacle.remedy,
            };
            let notes = [diagnosis
                .detail
                .take()
                .filter(|_| obstacle.reason != Reason::OtherArchitecture)];
            let detail = notes
                .into_iter()
                .flatten()
                .fold(obstacle.detail, |detail, note| format!("{detail}; {note}"));
            diagnosis.detail = Some(detail);
            diagnosis.remedy = Some(remedy).filter(|remedy| !remedy.is_empty());
        }
    }
    diagnosis
}

async fn ask(process: &Process) -> Result<Option<ProcessInfo>, Obstacle> {
    let endpoint = Endpoint::of(process).map_err(|error| error.obstacle())?;
    let client = Client::with_deadlines(endpoint, Deadlines::uniform(ANSWER_WITHIN));
    client.probe().await.map_err(|error| error.obstacle())
}

/// What to do where what was found says nothing of it.
fn remedy(reason: Reason) -> &'static str {
    match reason {
        Reason::Refused => "if the process lives, its runtime has stopped listening: restart it",
        Reason::Protocol => "find out what listens on its socket: no .NET runtime answers so",
        Reason::Rejected => {
            "see the runtime's answer; a reverse port that suspends at start is let go on by what listens on it"
        }
        Reason::Exited => {
            "nothing: it is ending, or has ended; if it runs, see whether it accepts commands (dotnet-counters ps)"
        }
        Reason::Failed => "see what the system says",
        _ => "",
    }
}

fn not_looked_at(pid: u32, obstacle: Obstacle) -> Diagnosis {
    let remedy = match obstacle.reason {
        Reason::Exited => {
            "look the pid up where gcwatch runs (gcwatch ps): in a container it is another one".to_owned()
        }
        _ => obstacle.remedy,
    };
    Diagnosis {
        kind: "diagnosis",
        pid: Some(pid),
        ns_pid: None,
        name: "-".to_owned(),
        uid: None,
        runtime: None,
        socket: None,
        verdict: obstacle.reason.as_str(),
        ok: false,
        detail: Some(obstacle.detail),
        remedy: Some(remedy).filter(|remedy| !remedy.is_empty()),
    }
}

fn nothing_there(name: String, detail: String, remedy: &str) -> Diagnosis {
    Diagnosis {
        kind: "diagnosis",
        pid: None,
        ns_pid: None,
        name,
        uid: None,
        runtime: None,
        socket: None,
        verdict: "not-found",
        ok: false,
        detail: Some(detail),
        remedy: Some(remedy.to_owned()),
    }
}

fn no_socket_in(path: &Path) -> Diagnosis {
    nothing_there(
        "targets.sockets".to_owned(),
        format!("no runtime's socket is in {}", shown(&path.display().to_string())),
        "share the directory that is the application's /tmp or TMPDIR with gcwatch (Kubernetes: one emptyDir, mounted in both), \
         readable for gcwatch's user",
    )
}

/// Filters of `include` that mean no process at all.
fn unmet(options: &TargetOptions, found: &BTreeSet<usize>) -> Vec<Diagnosis> {
    let unmet = (0..).zip(&options.include).filter(|(place, _)| !found.contains(place));
    unmet
        .map(|(place, filter)| {
            nothing_there(
                format!("targets.include[{place}]"),
                format!("no process that gcwatch sees fits {}", described(filter)),
                "see whether it runs on this host, and under which name (gcwatch ps); patterns fit the whole name",
            )
        })
        .collect()
}

fn described(filter: &Filter) -> String {
    let text = |name: &str, value: Option<&String>| Some(format!("{name} {}", shown(value?)));
    let mut conditions: Vec<String> = [
        text("name", filter.name.as_ref().map(|pattern| &pattern.0)),
        text("command_line", filter.command_line.as_ref().map(|pattern| &pattern.0)),
        text("user", filter.user.as_ref()),
    ]
    .into_iter()
    .flatten()
    .collect();
    conditions.extend(
        filter
            .environment
            .iter()
            .map(|(name, pattern)| format!("{}={}", shown(name), shown(&pattern.0))),
    );
    conditions.join(", ")
}

/// Sockets in `/tmp` and our own `TMPDIR` that no process owns; blocking.
fn stale() -> Vec<StaleRecord> {
    let listing = Scan::host().list().unwrap_or_default();
    let told = |socket: &StaleSocket| StaleRecord {
        kind: "stale-socket",
        path: shown(&socket.path.display().to_string()),
        detail: shown(&socket.to_string()),
    };
    listing.stale.iter().map(told).collect()
}

fn all_pids() -> std::io::Result<BTreeSet<u32>> {
    let entries = std::fs::read_dir("/proc")?;
    // An entry that cannot be read is a process that has gone.
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: filters with one condition and with several, one with an escape sequence.
    /// Guarantee: the filter is told as the operator wrote it, safe to show.
    #[test]
    fn filters_are_told() {
        use strict_yaml::pattern::Pattern;
        let filter = Filter {
            name: Some(Pattern("Shop\x1b*".to_owned())),
            environment: vec![("ROLE".to_owned(), Pattern("web".to_owned()))],
            ..Filter::default()
        };
        assert_eq!(described(&filter), "name Shop\u{fffd}*, ROLE=web");
        let options = TargetOptions {
            include: vec![Filter::default(), filter],
            ..TargetOptions::default()
        };
        assert_eq!(unmet(&options, &BTreeSet::from([0])).len(), 1);
    }
}
