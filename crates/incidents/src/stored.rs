//! Open incidents in the form in which they survive a restart of gcwatch: everything that receivers were notified of,
//! without the state of the engine.
//!
//! A restored incident keeps its number, labels and start, so that its end reaches the receivers that were notified of
//! its start. The rules of a restored incident are the rules in force. If a rule no longer exists, the stored texts are
//! used.

use std::sync::Arc;

use base::time::Wall;
use serde::{Deserialize, Serialize};

use super::{Findings, Incident, Member};
use rule_engine::alert::Alert;
use rule_engine::ledger::Ledger;
use rule_engine::record::owned;
use rule_engine::rule::{Evidence, Role, Rule, Severity};
use rule_engine::rule_set::RuleSet;

/// An open incident in the form in which it is written to a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredIncident {
    number: u64,
    #[serde(alias = "began_as")]
    symptom: StoredRule,
    group: Option<String>,
    labels: Vec<(String, String)>,
    severity: Severity,
    began_unix_ns: u64,
    /// Missing in files of older versions, like all following fields with a default.
    #[serde(default)]
    noticed_unix_ns: Option<u64>,
    process_ended_unix_ns: Option<u64>,
    members: Vec<StoredMember>,
    #[serde(default)]
    ledger: Option<Ledger>,
    #[serde(default)]
    black_box: Option<String>,
    #[serde(default)]
    is_recorded_before: bool,
    #[serde(default)]
    found: Option<Findings>,
}

/// Texts of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredRule {
    id: String,
    title: String,
    description: String,
    remedy: String,
    #[serde(default)]
    role: Option<Role>,
    severity: Severity,
    #[serde(default)]
    evidence: Vec<Evidence>,
}

/// A member of an incident and its newest alert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredMember {
    rule: StoredRule,
    group: Option<String>,
    count: u64,
    peak: Option<f64>,
    #[serde(default)]
    share: Option<f64>,
    since_unix_ns: u64,
    until_unix_ns: Option<u64>,
    severity: Severity,
    summary: String,
    annotations: Vec<(String, String)>,
    collection: Option<u32>,
    active_unix_ns: u64,
    started_unix_ns: u64,
    last_unix_ns: u64,
}

impl StoredIncident {
    /// Creates the stored form of an incident in its current state.
    pub fn from_incident(incident: &Incident, wall: Wall) -> Self {
        Self {
            number: incident.number,
            symptom: StoredRule::from_rule(&incident.symptom),
            group: incident.group.as_deref().map(str::to_owned),
            labels: owned(&incident.labels),
            severity: incident.severity,
            began_unix_ns: wall.unix_ns(incident.began),
            noticed_unix_ns: Some(wall.unix_ns(incident.noticed)),
            process_ended_unix_ns: incident.process_ended.map(|at| wall.unix_ns(at)),
            members: incident
                .members
                .iter()
                .map(|member| StoredMember::from_member(member, wall))
                .collect(),
            ledger: incident.ledger.as_deref().copied(),
            black_box: incident.black_box.as_deref().map(str::to_owned),
            is_recorded_before: incident.is_recorded_before,
            found: incident.found.as_deref().cloned(),
        }
    }

    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns the number of the incident in its process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the start of the incident, in Unix nanoseconds.
    pub fn began_unix_ns(&self) -> u64 {
        self.began_unix_ns
    }

    /// Restores the incident with the rules in force, or with the stored texts of removed rules.
    pub fn restore(&self, rules: &RuleSet, wall: Wall) -> Arc<Incident> {
        let members = self.members.iter().map(|member| member.restore(rules, wall));
        Arc::new(Incident {
            number: self.number,
            symptom: self.symptom.restore(rules),
            group: self.group.as_deref().map(Arc::from),
            labels: shared(&self.labels),
            severity: self.severity,
            began: wall.moment(self.began_unix_ns),
            noticed: wall.moment(self.noticed_unix_ns.unwrap_or(self.began_unix_ns)),
            ended: None,
            ending: None,
            process_ended: self.process_ended_unix_ns.map(|at| wall.moment(at)),
            members: members.collect(),
            ledger: self.ledger.map(Arc::new),
            stopped: None,
            black_box: self.black_box.as_deref().map(Arc::from),
            is_recorded_before: self.is_recorded_before,
            found: self.found.clone().map(Arc::new),
        })
    }
}

impl StoredRule {
    fn from_rule(rule: &Rule) -> Self {
        Self {
            id: rule.id.to_string(),
            title: rule.title.to_string(),
            description: rule.description.to_string(),
            remedy: rule.remedy.to_string(),
            role: rule.role,
            severity: rule.severity,
            evidence: rule.evidence.clone(),
        }
    }

    fn restore(&self, rules: &RuleSet) -> Arc<Rule> {
        if let Some(rule) = rules.rule(&self.id) {
            return Arc::clone(rule);
        }
        Arc::new(Rule {
            id: self.id.as_str().into(),
            title: self.title.as_str().into(),
            description: self.description.as_str().into(),
            remedy: self.remedy.as_str().into(),
            role: self.role,
            severity: self.severity,
            evidence: self.evidence.clone(),
            ..Rule::default()
        })
    }
}

impl StoredMember {
    fn from_member(member: &Member, wall: Wall) -> Self {
        let alert = &member.alert;
        Self {
            rule: StoredRule::from_rule(&alert.rule),
            group: member.group.as_deref().map(str::to_owned),
            count: member.count,
            peak: member.peak,
            share: member.share,
            since_unix_ns: wall.unix_ns(member.since),
            until_unix_ns: member.until.map(|at| wall.unix_ns(at)),
            severity: alert.severity,
            summary: alert.summary.to_string(),
            annotations: owned(&alert.annotations),
            collection: alert.collection,
            active_unix_ns: wall.unix_ns(alert.active),
            started_unix_ns: wall.unix_ns(alert.started),
            last_unix_ns: wall.unix_ns(alert.last),
        }
    }

    fn restore(&self, rules: &RuleSet, wall: Wall) -> Member {
        let rule = self.rule.restore(rules);
        let place = rules.rules.iter().position(|known| known.id == rule.id);
        let alert = Alert {
            rule,
            number: 0,
            active: wall.moment(self.active_unix_ns),
            started: wall.moment(self.started_unix_ns),
            last: wall.moment(self.last_unix_ns),
            ended: None,
            labels: Arc::default(),
            summary: self.summary.as_str().into(),
            annotations: shared(&self.annotations),
            values: Arc::default(),
            collection: self.collection,
            count: self.count,
            suppressed: 0,
            peak: self.peak,
            amount: None,
            severity: self.severity,
        };
        Member {
            alert: Arc::new(alert),
            count: self.count,
            peak: self.peak,
            share: self.share,
            group: self.group.as_deref().map(Arc::from),
            since: wall.moment(self.since_unix_ns),
            until: self.until_unix_ns.map(|at| wall.moment(at)),
            rank: place.unwrap_or(usize::MAX),
            before: 0,
        }
    }
}

fn shared(texts: &[(String, String)]) -> Arc<[(Arc<str>, Box<str>)]> {
    let texts = texts.iter();
    texts
        .map(|(name, text)| (Arc::from(name.as_str()), Box::from(text.as_str())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Incidents, sample};
    use super::*;

    /// Scenario: an incident is stored, and restored after its rules were removed.
    /// Guarantee: the stored form survives serialization unchanged, and the restored incident has the same stored form
    /// and summary. The restored incident is open, notifies receivers, and can be resumed.
    #[test]
    fn restored_incident_is_unchanged() {
        let wall = Wall::ahead(3_600_000_000_000);
        let changes = sample(wall.moment(1_800_000_000_000_000_000));
        let incident = changes[0].incident();
        let stored = StoredIncident::from_incident(incident, wall);
        let text = serde_json::to_string(&stored).unwrap();
        assert_eq!(serde_json::from_str::<StoredIncident>(&text).unwrap(), stored);
        let restored = stored.restore(&RuleSet::default(), wall);
        assert_eq!(StoredIncident::from_incident(&restored, wall), stored);
        assert_eq!(
            restored.head().unwrap().alert.summary,
            incident.head().unwrap().alert.summary
        );
        assert!(restored.notifies() && restored.is_open());
        let mut incidents = Incidents::default();
        incidents.resume(restored, base::time::Moment::NEVER);
        assert_eq!(incidents.open().count(), 1);
    }
}
