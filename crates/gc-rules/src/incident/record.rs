//! Incidents as JSON: `kind: "incident"`. The names of the fields are a contract.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::remedy::{remedy_for_a_file, remedy_for_a_process};
use super::{Found, FoundAllocations, FoundCallers, FoundCensus, FoundStacks, Incident, IncidentEnding, Member};
use crate::account::AccountRecord;
use crate::alert::RunKey;
use crate::ledger::Ledger;
use crate::record::owned;
use crate::rule::{Evidence, On, Role, Severity};
use crate::time::Wall;

/// Where recordings are served.
const BLACK_BOX: &str = "/api/v1/evidence/";

/// What a rule does not know: whose incident it is.
#[derive(Debug, Clone, Default)]
pub struct IncidentSubject {
    /// The run of the process; `None`: the recording does not name it.
    pub run: Option<RunKey>,
    /// The name of the process.
    pub process: Option<String>,
    /// `service.name` of its resource.
    pub service: Option<String>,
    /// Attributes of its resource, without command lines: they may hold secrets.
    pub resource: BTreeMap<String, String>,
}

/// The record of an incident. Unknown values are null.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IncidentRecord {
    kind: &'static str,
    /// The same while it lasts.
    pub id: String,
    /// `firing` or `ended`.
    pub state: &'static str,
    /// Why it ended; null while it is open.
    pub ending: Option<IncidentEnding>,
    /// The highest severity so far.
    pub severity: Severity,
    /// The rule that it is named by: the `alertname` of receivers. It never changes.
    pub symptom: String,
    /// The same.
    pub rule: String,
    /// Title of its gravest harm.
    pub title: String,
    /// What happened, one sentence, with the newest figures of that harm.
    pub summary: String,
    /// What it means.
    pub description: String,
    /// What to do: of its main cause, or else of its gravest harm. Its commands have the pid of a process that lives;
    /// what `callers` and `allocations` answer is not asked for.
    pub remedy: String,
    /// The next command to type; null of a recording, an ended incident and a process that exited.
    pub command: Option<String>,
    /// When the harm began, RFC 3339.
    pub since: Option<String>,
    /// When it was noticed.
    pub noticed: Option<String>,
    /// When it ended.
    pub until: Option<String>,
    /// When its process exited.
    pub process_ended: Option<String>,
    /// Pid on the host; in a recording, the pid in the stream. `null` for an incident of a service.
    pub pid: Option<u32>,
    /// Name of the process.
    pub process: Option<String>,
    /// `service.name` of its resource.
    pub service: Option<String>,
    /// Attributes of its resource.
    pub resource: BTreeMap<String, String>,
    /// Labels of the alert that it began with.
    pub labels: BTreeMap<String, String>,
    /// Annotations of its gravest harm.
    pub annotations: BTreeMap<String, String>,
    /// Number of the collection on which that harm began.
    pub gc_number: Option<u32>,
    /// What the process was stopped for, of a harm by stopped time; null: it is another harm, or nothing is known yet.
    pub account: Option<AccountRecord>,
    /// What explains at least 30 % of the harm, the largest share first; empty: nothing does.
    pub causes: Vec<CauseRecord>,
    /// Its rules: the gravest harm first, then in the order in which they joined.
    pub members: Vec<MemberRecord>,
    /// What was gathered for it, and where that is.
    pub evidence: Vec<EvidenceRecord>,
    /// Where the memory of the process was; null: no rule of it has that gathered, or nothing is known.
    pub ledger: Option<Ledger>,
    /// Who made the process collect; null: no rule of it has that gathered, or not yet.
    pub callers: Option<FoundCallers>,
    /// What was allocated, and where; null: no rule of it has that gathered, or not yet.
    pub allocations: Option<FoundAllocations>,
    /// What its threads did; null: no rule of it has that gathered, or not yet.
    pub stacks: Option<FoundStacks>,
    /// What lives, what holds it, and what grew; null: no rule of it has that gathered, or not yet.
    pub census: Option<FoundCensus>,
}

/// Something that was gathered for an incident.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EvidenceRecord {
    /// What it is, as rules name it.
    pub name: Evidence,
    /// Where it is: the name of a field of the same record, or the path under which gcwatch serves it.
    #[serde(rename = "where")]
    pub place: String,
    /// What it says, one clause.
    pub text: String,
    /// The path under which gcwatch serves a report of it, a page; null: it is no recording.
    pub report: Option<String>,
    /// Address outside of the host: of the recording, or of the record that has this evidence. The object is there as
    /// soon as the store has accepted it. Null if evidence stays on the host (`evidence.store`).
    pub stored: Option<String>,
}

/// What explains an incident.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CauseRecord {
    /// Id of the rule.
    pub rule: String,
    /// What explains it, a few words.
    pub title: String,
    /// The share of the harm, 0 to 1.
    pub share: Option<f64>,
    /// One sentence with figures.
    pub summary: String,
    /// What to do.
    pub remedy: String,
}

/// A rule of an incident.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemberRecord {
    /// Id of the rule.
    pub rule: String,
    /// What it is for; null: it has no role, and is harm.
    pub role: Option<Role>,
    /// Title of the rule.
    pub title: String,
    /// Severity of the rule.
    pub severity: Severity,
    /// How often its condition held.
    pub count: u64,
    /// The highest value of the figure that its summary is about.
    pub peak: Option<f64>,
    /// When its condition began to hold, RFC 3339.
    pub since: Option<String>,
    /// When it ended; null: it holds.
    pub until: Option<String>,
}

impl IncidentRecord {
    /// The record of an incident.
    pub fn new(incident: &Incident, subject: &IncidentSubject, wall: Wall) -> Self {
        let head = incident.head();
        let rule = head.map_or(&incident.symptom, Member::rule);
        let alert = head.map(|head| &head.alert);
        // The process of a recording is nowhere to be asked.
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
                AccountRecord::of_stopped_time(stopped, over)
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

    /// Adds the addresses of evidence outside of the host. `base` is the address of this host's objects, or `None` if
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

    /// Returns the address of one kind of evidence outside of the host.
    pub fn evidence_stored(&self, name: Evidence) -> Option<&str> {
        self.evidence_of(name).and_then(|evidence| evidence.stored.as_deref())
    }

    /// Where one kind of evidence is.
    pub fn evidence_place(&self, name: Evidence) -> Option<&str> {
        self.evidence_of(name).map(|evidence| &*evidence.place)
    }

    /// What one kind of evidence says, one clause.
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
    // In the field of its own name.
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
            format!("recording {id}.nettrace, of an earlier one: each rule of a service has one in 10 min")
        } else {
            format!("recording {id}.nettrace, up to 30 s before and 10 s after")
        },
        report: Some(format!("{BLACK_BOX}{id}.html")),
        stored: None,
    });
    let nothing = Found::default();
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

    /// `Old objects refer to young ones (62 %)`.
    pub fn line(&self) -> String {
        match self.share {
            Some(share) => format!("{} ({:.0} %)", self.title, share * 100.0),
            None => self.title.clone(),
        }
    }
}

impl MemberRecord {
    /// `time.pause (info, 3 times)`: the rule and how often it held.
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

/// What to type next: what a person at the host does first, record the process while it is sick.
fn command(incident: &Incident, run: Option<RunKey>) -> Option<String> {
    let is_late = incident.process_ended.is_some() || !incident.is_open();
    // That of a service is 0, and gcwatch itself is no .NET process.
    let is_own = incident.symptom.on == On::Watcher;
    let pid = run.filter(|run| !is_late && !is_own && run.pid > 0)?.pid;
    Some(format!(
        "gcwatch record --pid {pid} --duration 60s -o {pid}.nettrace && gcwatch analyze {pid}.nettrace"
    ))
}

/// FNV-1a of whose it is and which: the same in every state of it, and in every receiver.
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
