//! JSON records of incidents: `kind: "incident"`. The names of the fields are a contract.

use std::collections::BTreeMap;

use base::run_key::RunKey;
use base::time::Wall;
use schemars::JsonSchema;
use serde::Serialize;

use super::remedy::{remedy_for_a_file, remedy_for_a_process};
use super::{Findings, FoundAllocations, FoundCallers, FoundCensus, FoundStacks, Incident, IncidentEnding, Member};
use rule_engine::account::AccountRecord;
use rule_engine::ledger::Ledger;
use rule_engine::record::owned;
use rule_engine::rule::{EvaluationTrigger, Evidence, Role, Severity};

/// Path under which recordings are served.
const BLACK_BOX: &str = "/api/v1/evidence/";

/// Facts about the process of an incident that a rule does not have.
#[derive(Debug, Clone, Default)]
pub struct IncidentSubject {
    /// Run of the process; `None` if the recording does not contain it.
    pub run: Option<RunKey>,
    /// Name of the process.
    pub process: Option<String>,
    /// `service.name` of the resource.
    pub service: Option<String>,
    /// Attributes of the resource, without command lines, which can contain secrets.
    pub resource: BTreeMap<String, String>,
}

/// Record of an incident. Unknown values are null.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IncidentRecord {
    kind: &'static str,
    /// Id of the incident, which does not change during the incident.
    pub id: String,
    /// `firing` or `ended`.
    pub state: &'static str,
    /// Reason why the incident ended; null while it is open.
    pub ending: Option<IncidentEnding>,
    /// Highest severity so far.
    pub severity: Severity,
    /// Id of the rule that names the incident: the `alertname` of receivers. The rule never changes.
    pub symptom: String,
    /// Same value as `symptom`.
    pub rule: String,
    /// Title of the most severe harm.
    pub title: String,
    /// One sentence that states what happened, with the newest figures of that harm.
    pub summary: String,
    /// Meaning of the harm.
    pub description: String,
    /// Advice for the main cause or, if it is unknown, for the most severe harm. Commands contain the pid of a running
    /// process. Sentences with commands whose answers are in `callers` and `allocations` are omitted.
    pub remedy: String,
    /// Next command to run; null for a recording, an ended incident, and a process that has exited.
    pub command: Option<String>,
    /// Time at which the harm started, RFC 3339.
    pub since: Option<String>,
    /// Time at which the harm was detected.
    pub noticed: Option<String>,
    /// Time at which the incident ended.
    pub until: Option<String>,
    /// Time at which the process exited.
    pub process_ended: Option<String>,
    /// Pid on the host; in a recording, the pid in the stream. `null` for an incident of a service.
    pub pid: Option<u32>,
    /// Name of the process.
    pub process: Option<String>,
    /// `service.name` of the resource.
    pub service: Option<String>,
    /// Attributes of the resource.
    pub resource: BTreeMap<String, String>,
    /// Labels of the alert that started the incident.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the most severe harm.
    pub annotations: BTreeMap<String, String>,
    /// Number of the collection on which the most severe harm started; null if it did not start at a collection.
    pub gc_number: Option<u32>,
    /// Account of the stopped time if the harm is stopped time; null for other harm, or if unknown.
    pub account: Option<AccountRecord>,
    /// Causes that explain at least 30 % of the harm, the largest share first; empty if there is no such cause.
    pub causes: Vec<CauseRecord>,
    /// Rules of the incident: the most severe harm first, then in the order in which they joined.
    pub members: Vec<MemberRecord>,
    /// Evidence gathered for the incident, and its location.
    pub evidence: Vec<EvidenceRecord>,
    /// Memory ledger of the process; null if no rule of the incident gathers it, or if unknown.
    pub ledger: Option<Ledger>,
    /// Callers that made the process collect; null if no rule of the incident gathers them, or if the result is
    /// pending.
    pub callers: Option<FoundCallers>,
    /// Allocations and their sites; null if no rule of the incident gathers them, or if the result is pending.
    pub allocations: Option<FoundAllocations>,
    /// Activity of the threads; null if no rule of the incident gathers it, or if the result is pending.
    pub stacks: Option<FoundStacks>,
    /// Live objects, their holders, and their growth; null if no rule of the incident gathers them, or if the result is
    /// pending.
    pub census: Option<FoundCensus>,
}

/// Evidence gathered for an incident.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EvidenceRecord {
    /// Name of the evidence in rules.
    pub name: Evidence,
    /// Location of the evidence: the name of a field of the same record, or the path of the evidence on the
    /// listener of gcwatch.
    #[serde(rename = "where")]
    pub place: String,
    /// Content of the evidence in one clause.
    pub text: String,
    /// Path of a report page on the listener of gcwatch; null if the evidence is not a recording.
    pub report: Option<String>,
    /// Address outside the host: of the recording, or of the record with this evidence. The object exists as soon as
    /// the store has accepted it. Null if evidence stays on the host (`evidence.store`).
    pub stored: Option<String>,
}

/// A cause of an incident.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CauseRecord {
    /// Id of the rule.
    pub rule: String,
    /// Title of the cause.
    pub title: String,
    /// Share of the harm, 0 to 1.
    pub share: Option<f64>,
    /// One sentence with figures.
    pub summary: String,
    /// Advice for the cause.
    pub remedy: String,
}

/// A rule that takes part in an incident.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemberRecord {
    /// Id of the rule.
    pub rule: String,
    /// Role of the rule; null for a rule without a role, which is harm.
    pub role: Option<Role>,
    /// Title of the rule.
    pub title: String,
    /// Severity of the rule's newest alert.
    pub severity: Severity,
    /// Number of times that the condition was true.
    pub count: u64,
    /// Maximum value of the summary's main figure.
    pub peak: Option<f64>,
    /// Time at which the condition became true, RFC 3339.
    pub since: Option<String>,
    /// Time at which the member ended; null while it is active.
    pub until: Option<String>,
}

impl IncidentRecord {
    /// Creates the record of an incident.
    pub fn new(incident: &Incident, subject: &IncidentSubject, wall: Wall) -> Self {
        let head = incident.head();
        let rule = head.map_or(&incident.symptom, Member::rule);
        let alert = head.map(|head| &head.alert);
        // The process of a recording cannot be queried.
        let is_live = subject.process.is_some();
        let run = subject.run.filter(|_| incident.process_ended.is_none());
        let advice = |remedy: &str| match is_live {
            true => remedy_for_a_process(remedy, incident.found.as_deref(), run),
            false => remedy_for_a_file(remedy),
        };
        let causes = incident.causes().into_iter();
        let causes: Vec<_> = causes.map(|cause| CauseRecord::new(cause, advice)).collect();
        let remedy = causes
            .first()
            .map_or_else(|| advice(&rule.remedy), |cause| cause.remedy.clone());
        let found = incident.found.as_deref().cloned().unwrap_or_default();
        Self {
            kind: "incident",
            id: id_of(incident, subject.run),
            state: if incident.is_open() { "firing" } else { "ended" },
            ending: incident.ending,
            severity: incident.severity,
            symptom: incident.symptom.id.to_string(),
            rule: incident.symptom.id.to_string(),
            title: rule.title.to_string(),
            summary: alert.map_or_else(String::new, |alert| alert.summary.to_string()),
            description: rule.description.to_string(),
            remedy,
            command: command(incident, subject.run).filter(|_| is_live),
            since: wall.rfc3339(incident.began),
            noticed: wall.rfc3339(incident.noticed),
            until: incident.ended.and_then(|at| wall.rfc3339(at)),
            process_ended: incident.process_ended.and_then(|at| wall.rfc3339(at)),
            pid: subject.run.map(|run| run.pid).filter(|pid| *pid != 0),
            process: subject.process.clone(),
            service: subject.service.clone(),
            resource: subject.resource.clone(),
            labels: owned(&incident.labels),
            annotations: alert.map(|alert| owned(&alert.annotations)).unwrap_or_default(),
            gc_number: alert.and_then(|alert| alert.collection),
            account: incident.stopped.as_deref().map(|(since, until, stopped)| {
                let over = i64::try_from(until.since(*since)).ok();
                AccountRecord::from_stopped_time(stopped, over)
            }),
            causes,
            members: incident
                .members
                .iter()
                .map(|member| MemberRecord::new(member, wall))
                .collect(),
            evidence: evidence(incident),
            ledger: incident.ledger.as_deref().copied(),
            callers: found.callers,
            allocations: found.allocations,
            stacks: found.stacks,
            census: found.census,
        }
    }

    /// Adds the addresses of evidence outside the host. `base` is the address of this host's objects, or `None` if
    /// evidence stays on the host.
    #[must_use]
    pub fn in_store(mut self, base: Option<&str>) -> Self {
        let Some(base) = base else { return self };
        let own = key_of_record(&self.id);
        for evidence in &mut self.evidence {
            let recording = evidence.place.strip_prefix(BLACK_BOX);
            evidence.stored = Some(format!("{base}/{}", recording.unwrap_or(&own)));
        }
        self
    }

    /// Returns the address of one kind of evidence outside the host, or `None` if the evidence does not exist or stays
    /// on the host.
    pub fn evidence_stored(&self, name: Evidence) -> Option<&str> {
        self.evidence_of(name).and_then(|evidence| evidence.stored.as_deref())
    }

    /// Returns the location of one kind of evidence, or `None` if the evidence does not exist.
    pub fn evidence_place(&self, name: Evidence) -> Option<&str> {
        self.evidence_of(name).map(|evidence| &*evidence.place)
    }

    /// Returns the content of one kind of evidence in one clause, or `None` if the evidence does not exist.
    pub fn evidence_text(&self, name: Evidence) -> Option<&str> {
        self.evidence_of(name).map(|evidence| &*evidence.text)
    }

    fn evidence_of(&self, name: Evidence) -> Option<&EvidenceRecord> {
        self.evidence.iter().find(|evidence| evidence.name == name)
    }
}

/// Returns the key of the record of an incident in a store, below the address of the host.
pub fn key_of_record(id: &str) -> String {
    format!("{id}/incident.json")
}

fn evidence(incident: &Incident) -> Vec<EvidenceRecord> {
    // The evidence is in the field of the same name.
    let own = |name: Evidence, text: Option<String>| {
        text.map(|text| EvidenceRecord {
            name,
            place: name.name().to_owned(),
            text,
            report: None,
            stored: None,
        })
    };
    let black_box = incident.black_box.as_deref().map(|id| EvidenceRecord {
        name: Evidence::BlackBox,
        place: format!("{BLACK_BOX}{id}.nettrace"),
        text: if incident.is_recorded_before {
            format!("recording {id}.nettrace, of an earlier incident: a rule of a service is recorded once in 10 min")
        } else {
            format!("recording {id}.nettrace, up to 30 s before and 10 s after")
        },
        report: Some(format!("{BLACK_BOX}{id}.html")),
        stored: None,
    });
    let nothing = Findings::default();
    let found = incident.found.as_deref().unwrap_or(&nothing);
    let all = [
        own(
            Evidence::Ledger,
            incident.ledger.as_ref().and_then(|ledger| ledger.clause()),
        ),
        black_box,
        own(Evidence::Callers, found.callers.as_ref().map(FoundCallers::clause)),
        own(
            Evidence::Allocations,
            found.allocations.as_ref().map(FoundAllocations::clause),
        ),
        own(Evidence::Stacks, found.stacks.as_ref().map(FoundStacks::clause)),
        own(Evidence::Census, found.census.as_ref().map(FoundCensus::clause)),
    ];
    all.into_iter().flatten().collect()
}

impl CauseRecord {
    fn new(member: &Member, advice: impl Fn(&str) -> String) -> Self {
        Self {
            rule: member.rule().id.to_string(),
            title: member.rule().title.to_string(),
            share: member.share,
            summary: member.alert.summary.to_string(),
            remedy: advice(&member.rule().remedy),
        }
    }

    /// Returns `Old objects refer to young objects (62 %)`.
    pub fn line(&self) -> String {
        match self.share {
            Some(share) => format!("{} ({:.0} %)", self.title, share * 100.0),
            None => self.title.clone(),
        }
    }
}

impl MemberRecord {
    /// Returns `time.pause (info, 3 times)`: the rule and the number of times that its condition was true.
    pub fn line(&self) -> String {
        let times = if self.count == 1 {
            "once".to_owned()
        } else {
            format!("{} times", self.count)
        };
        format!("{} ({}, {times})", self.rule, self.severity.name())
    }

    fn new(member: &Member, wall: Wall) -> Self {
        Self {
            rule: member.rule().id.to_string(),
            role: member.rule().role,
            title: member.rule().title.to_string(),
            severity: member.alert.severity,
            count: member.count,
            peak: member.peak,
            since: wall.rfc3339(member.since),
            until: member.until.and_then(|at| wall.rfc3339(at)),
        }
    }
}

/// Returns the next command to run, which records the process, or `None` if the incident or the process has ended, or
/// if the subject is not a .NET process.
fn command(incident: &Incident, run: Option<RunKey>) -> Option<String> {
    let is_late = incident.process_ended.is_some() || !incident.is_open();
    // The pid of a service is 0, and gcwatch itself is not a .NET process.
    let is_own = incident.symptom.on == EvaluationTrigger::Watcher;
    let pid = run.filter(|run| !is_late && !is_own && run.pid > 0)?.pid;
    Some(format!(
        "gcwatch record --pid {pid} --duration 60s -o {pid}.nettrace && gcwatch analyze {pid}.nettrace"
    ))
}

/// Returns the FNV-1a hash of the process and the incident. The hash is the same in all states of the incident and for
/// all receivers.
pub fn id_of(incident: &Incident, run: Option<RunKey>) -> String {
    let run = run.unwrap_or(RunKey { pid: 0, start_time: 0 });
    let group = incident.group.as_deref().unwrap_or(&incident.symptom.id);
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let numbers = [u64::from(run.pid), run.start_time, incident.number];
    let bytes = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .chain(group.bytes());
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}
