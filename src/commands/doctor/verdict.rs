//! The verdict on one process: excluded, attached, attachable, or the obstacle with its remedy.

use std::time::Duration;

use dotnet_diagnostics::discovery::{Obstacle, Process, Reason, Scan};
use tokio::task::spawn_blocking;

use super::ExaminedProcess;
use crate::commands::look::{ask, major, runtime_version};
use report::doctor::Diagnosis;
use targets::exporting::{exports_runtime, hint};
use targets::facts::Facts;
use targets::heap_limit;
use targets::silence::why_silent;

/// Timeout for the answer of a runtime.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Queries the process and returns the verdict.
pub(super) async fn verdict(looked: ExaminedProcess, scan: &Scan) -> Diagnosis {
    let ExaminedProcess {
        process,
        eligibility,
        foreign,
    } = looked;
    let mut diagnosis = Diagnosis {
        pid: Some(process.pid),
        ns_pid: Some(process.ns_pid),
        name: eligibility.name,
        uid: process.uid,
        runtime: None,
        socket: process.socket.as_ref().map(ToString::to_string),
        verdict: "attachable",
        ok: true,
        detail: foreign,
        remedy: None,
    };
    if !eligibility.wanted && process.evidence.is_some() {
        diagnosis.verdict = "excluded";
        diagnosis.detail = Some("excluded by configuration (targets.include, targets.exclude)".to_owned());
        return diagnosis;
    }
    match ask(&process, ANSWER_TIMEOUT).await {
        Ok(info) => {
            diagnosis.runtime = runtime_version(&process, info);
            if let Some(holder) = eligibility.holder {
                diagnosis.verdict = "attached";
                diagnosis.detail = Some(format!("read by {holder}"));
            } else if let Some(why) = eligibility.at_limit {
                diagnosis.ok = false;
                diagnosis.verdict = heap_limit::REASON;
                diagnosis.detail = Some(why);
                diagnosis.remedy = Some(heap_limit::REMEDY.to_owned());
            }
            if let Some(exports) = exports(&process, diagnosis.runtime.as_deref()).await {
                let detail = diagnosis.detail.take().map_or_else(String::new, |detail| detail + "; ");
                diagnosis.detail = Some(detail + &exports);
            }
        }
        Err(mut obstacle) => {
            diagnosis.runtime = runtime_version(&process, None);
            if obstacle.reason == Reason::Silent
                && let Some((why, remedy)) =
                    silent(&process, eligibility.own_connections, diagnosis.runtime.as_deref()).await
            {
                obstacle.detail = format!("{}; {why}", obstacle.detail);
                obstacle.remedy = remedy;
            }
            diagnosis.ok = false;
            diagnosis.verdict = obstacle.reason.as_str();
            let remedy = match (obstacle.reason, process.visible) {
                // The remedy of a refused connection does not consider gcwatch's own rights, which are known here.
                (Reason::Permission, true) => scan.credentials().remedy(process.uid),
                _ if obstacle.remedy.is_empty() => remedy(obstacle.reason).to_owned(),
                _ => obstacle.remedy,
            };
            let note = diagnosis.detail.take();
            let note = note.filter(|_| obstacle.reason != Reason::OtherArchitecture);
            let note = note.map_or_else(String::new, |note| format!("; {note}"));
            diagnosis.detail = Some(obstacle.detail + &note);
            diagnosis.remedy = Some(remedy).filter(|remedy| !remedy.is_empty());
        }
    }
    diagnosis
}

/// Returns a note if the process certainly or possibly exports the metrics of its runtime itself, and `None` otherwise.
async fn exports(process: &Process, version: Option<&str>) -> Option<String> {
    let major = version.and_then(major);
    let process = process.clone();
    let read = move || {
        let facts = Facts::for_process(&process);
        let sign = process.visible.then(|| exports_runtime(process.pid, major)).flatten();
        sign.map(|sign| {
            format!("exports its runtime's dotnet.gc.* metrics itself ({sign} is loaded), so gcwatch does not")
        })
        .or_else(|| {
            let name = hint(&facts, major)?;
            Some(format!(
                "may export its runtime's dotnet.gc.* metrics itself ({name} is set): if it does, set \
                     metrics.runtime_metrics: off, or sums count twice"
            ))
        })
    };
    spawn_blocking(read).await.ok()?
}

/// Returns the reason and remedy for a process that does not respond, or `None` if the reason is unknown.
async fn silent(process: &Process, own: usize, version: Option<&str>) -> Option<(String, String)> {
    let major = version.and_then(major);
    let process = process.clone();
    spawn_blocking(move || why_silent(&process, own, major)).await.ok()?
}

/// Returns the general remedy for an obstacle without a specific remedy, or an empty string if there is no general
/// remedy.
fn remedy(reason: Reason) -> &'static str {
    match reason {
        Reason::Refused => "if the process is running, its runtime has stopped listening: restart it",
        Reason::Protocol => "check which program listens on its socket: it is not a .NET runtime",
        Reason::Rejected => {
            "see the runtime's error; a process that a diagnostics port suspends at startup is resumed by the listener"
        }
        Reason::Exited => {
            "none: it is exiting or has exited; if it is running, check whether it accepts commands (dotnet-counters ps)"
        }
        Reason::Failed => "see the system's error",
        _ => "",
    }
}

/// Returns the verdict on a process that could not be inspected.
pub(super) fn not_looked_at(pid: u32, obstacle: Obstacle) -> Diagnosis {
    let remedy = match obstacle.reason {
        Reason::Exited => "look up the pid where gcwatch runs (gcwatch ps): pids differ in containers".to_owned(),
        _ => obstacle.remedy,
    };
    Diagnosis {
        pid: Some(pid),
        name: "-".to_owned(),
        verdict: obstacle.reason.as_str(),
        detail: Some(obstacle.detail),
        remedy: Some(remedy).filter(|remedy| !remedy.is_empty()),
        ..Diagnosis::default()
    }
}

/// Returns the verdict on an expected object that is missing. `name` is the setting that expects the object.
pub(super) fn nothing_there(name: String, detail: String, remedy: &str) -> Diagnosis {
    Diagnosis {
        name,
        verdict: "not-found",
        detail: Some(detail),
        remedy: Some(remedy.to_owned()),
        ..Diagnosis::default()
    }
}
