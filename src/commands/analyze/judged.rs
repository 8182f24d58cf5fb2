//! Evaluates the rules on recordings: alerts and incidents of each process.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::commands::cli::AnalyzeArgs;
use crate::commands::output::say;
use api::gc::Subject;
use api::view::RuleFindings;
use base::run_key::RunKey;
use base::time::{TimeBase, Wall};
use config::rule_files;
use incidents::review::Review;
use incidents::{Incident, IncidentRecord, IncidentSubject};
use recording::{ProcessHistory, Recording};
use report::anomalies::JudgedRecord;
use rule_engine::field::ProcessFacts;
use rule_engine::rule_set::RuleSet;
use rule_language::load::{load, shipped};

/// Returns the shipped rules with the rules of the arguments, or `Some(None)` with `--no-rules` or `--gc`. Returns
/// `None` if the rules are invalid. Reports the problems of invalid rules, and of rules that are left out.
pub(super) fn rules(args: &AnalyzeArgs) -> Option<Option<Arc<RuleSet>>> {
    if args.no_rules || args.gc.is_some() {
        return Some(None);
    }
    let mut files = shipped();
    let read = rule_files::read(&args.rules).map(|more| files.extend(more));
    match read.and_then(|()| load(&files)) {
        Ok(loaded) => {
            loaded.left_out.iter().for_each(say);
            Some(Some(Arc::new(loaded.rules)))
        }
        Err(problems) => {
            problems.iter().for_each(say);
            None
        }
    }
}

/// Evaluates the rules on one process of a recording.
fn review(rules: &Arc<RuleSet>, recording: &Recording, subject: Subject, history: &ProcessHistory) -> Review {
    let pid = subject.pid.and_then(|pid| u32::try_from(pid).ok());
    let facts = ProcessFacts::new(pid, None, recording.stream.runtime.as_deref(), []);
    let base = time_base(recording);
    // The losses of a stream with several processes cannot be attributed to one process.
    let lost = recording.stream.lost_events.filter(|_| recording.processes.len() == 1);
    Review::for_recording(
        Arc::clone(rules),
        facts,
        base,
        history.history(),
        recording.observed_ns,
        lost,
    )
}

/// Evaluates the rules on each process. Returns `None` if there are no rules.
pub(super) fn reviews(rules: Option<&Arc<RuleSet>>, recording: &Recording) -> Option<Vec<Review>> {
    rules.map(|rules| {
        let processes = recording.processes.iter();
        processes
            .map(|(subject, history)| review(rules, recording, *subject, history))
            .collect()
    })
}

/// Returns the findings for each process: its incidents, most severe first, and a record of the rules for which the
/// recording was sufficient.
pub(super) fn found(reviews: &[Review], recording: &Recording) -> Vec<RuleFindings> {
    let each = reviews.iter().zip(&recording.processes);
    each.map(|(review, (of, _))| {
        let subject = incident_subject(recording, *of);
        let mut incidents: Vec<&Arc<Incident>> = review.incidents().collect();
        incidents.sort_by_key(|incident| (Reverse(incident.severity), incident.number));
        let record = |incident: &Arc<Incident>| IncidentRecord::new(incident, &subject, Wall::UNIX);
        let judged = JudgedRecord::new(*of, review, recording.observed_ns);
        RuleFindings {
            incidents: incidents.into_iter().map(record).collect(),
            judged: serde_json::to_value(judged).unwrap_or_default(),
        }
    })
    .collect()
}

/// Returns the subject of the incidents. A recording identifies a process by its pid at most.
pub(super) fn incident_subject(recording: &Recording, subject: Subject) -> IncidentSubject {
    let start_time = time_base(recording).moment(0).ns();
    let pid = subject.pid.and_then(|pid| u32::try_from(pid).ok());
    IncidentSubject {
        run: pid.map(|pid| RunKey { pid, start_time }),
        ..IncidentSubject::default()
    }
}

pub(super) fn time_base(recording: &Recording) -> TimeBase {
    let header = recording.header.as_ref();
    TimeBase::at(header.and_then(|header| header.unix_ns_of_offset(0)).unwrap_or(0))
}

/// Returns whether every alert about harm is less severe than `--fail-on`. Causes and notes never fail the check.
pub(super) fn passes(args: &AnalyzeArgs, review: &Review) -> bool {
    let mut harms = review.alerts().filter(|reviewed| reviewed.alert.rule.is_harm());
    let below = |least| harms.all(|reviewed| reviewed.alert.severity < least);
    args.fail_on.is_none_or(below)
}
