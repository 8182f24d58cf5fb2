//! Logs incidents in the daemon's own log. An incident gets a line when it starts, escalates, is explained or ends, and
//! when a burst or a census has a result for it.
//!
//! Over OTLP, an incident is already a log record of its process, so these lines go only to standard error (see
//! [`logging`](super::logging)).

use base::time::Wall;
use delivery::alerts::{IncidentNotice, subject};
use gc_telemetry::value::text;
use incidents::{IncidentChange, IncidentRecord};
use opentelemetry_proto::tonic::resource::v1::Resource;
use rule_engine::rule::{Evidence, Severity};
use tracing::{error, info, warn};

/// The target of these lines. `log.incidents` switches this target on and off, independent of `log.level`.
pub(crate) const TARGET: &str = "gcwatch::incidents";

/// Logs a change, unless it is only a refresh.
pub(crate) fn write(notice: &IncidentNotice, resource: &Resource, wall: Wall) {
    let what = match &notice.change {
        IncidentChange::Refreshed(_) => return,
        IncidentChange::Began(_) => "incident",
        IncidentChange::Worse(..) => "incident escalated",
        IncidentChange::Explained(_) => "cause of incident",
        IncidentChange::Gathered(_, Evidence::Allocations) => "code that allocates",
        IncidentChange::Gathered(_, Evidence::Stacks) => "thread activity",
        IncidentChange::Gathered(_, Evidence::Census) => "live objects",
        IncidentChange::Gathered(..) => "code that triggers collections",
        IncidentChange::Ended(_) => "incident resolved",
    };
    let record = IncidentRecord::new(
        notice.change.incident(),
        &subject(notice.run, &notice.process, resource),
        wall,
    );
    let pod = text(&resource.attributes, "k8s.pod.name");
    let service = record.service.as_deref().unwrap_or(&notice.process);
    let (pid, rule, severity) = (notice.run.pid, record.rule.as_str(), record.severity.name());
    let ended = matches!(notice.change, IncidentChange::Ended(_));
    let lasted = ended.then(|| lasted(notice)).flatten();
    let ending = record.ending.map(|ending| ending.name());
    // The remedy and the evidence are on the page of the process and in the record. The line only has to lead the
    // reader to them.
    let cause = record
        .causes
        .first()
        .filter(|_| !ended)
        .map(|cause| cause.title.as_str());
    let black_box = record.evidence_place(Evidence::BlackBox).filter(|_| !ended);
    let gathered = match &notice.change {
        IncidentChange::Gathered(_, evidence) => record.evidence_text(*evidence),
        _ => None,
    };
    // Many summaries start with the title.
    let title = if let Some(text) = gathered {
        format!("{what}: {text}")
    } else if record.summary.starts_with(&record.title) {
        format!("{what}: {}", record.summary)
    } else {
        format!("{what}: {}: {}", record.title, record.summary)
    };
    macro_rules! line {
        ($level:ident) => {
            $level!(
                target: TARGET,
                service, pod, pid, severity, rule, cause, black_box, lasted, ending, incident = record.id, "{title}"
            )
        };
    }
    match record.severity {
        _ if ended => line!(info),
        Severity::Info => line!(info),
        Severity::Warning => line!(warn),
        Severity::Error | Severity::Critical => line!(error),
    }
}

/// Returns the duration of an incident, for display, or `None` if the incident is open.
fn lasted(notice: &IncidentNotice) -> Option<String> {
    let incident = notice.change.incident();
    let ns = incident.lasted_ns(incident.ended?);
    let seconds = std::time::Duration::from_secs(ns / 1_000_000_000);
    Some(humantime(seconds))
}

/// Formats a duration like `4 min 5 s`.
fn humantime(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}
