//! Incidents from before a restart of gcwatch.
//!
//! ```text
//! file -> waiting -- gcwatch attaches to the process --> the incidents of the run: continue without a message, or end
//!              '---- the process does not exist --------> the exited processes: as if the process had exited now
//!              '---- no result for 15 minutes ----------> ended, unknown
//! ```
//!
//! gcwatch also sends the end of a restored incident. Receivers identify an incident by its labels and its process, so
//! they can match this end with the start that was sent before the restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::run_key::RunKey;
use base::time::{Moment, Wall};
use gc_telemetry::origin::Origin;
use gc_telemetry::value::key_value;
use incidents::{Incident, IncidentEnding, Incidents, QuotaOwner, StoredIncident};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use rule_engine::rule_set::RuleSet;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::pipeline::subject_incidents::{Changes, SubjectIncidents};

/// An open incident and its subject, as stored in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredState {
    pub(crate) pid: u32,
    pub(crate) start_time: u64,
    pub(crate) process: String,
    /// Attributes of the resource that are strings, integers or booleans. Other attributes are not stored.
    resource: BTreeMap<String, Json>,
    /// Tenant and service whose quota of messages the incident uses; empty in files of earlier versions.
    #[serde(default)]
    tenant: String,
    #[serde(default)]
    service: String,
    pub(crate) incident: StoredIncident,
}

/// Incidents from before the restart, by run.
#[derive(Debug, Default)]
pub(crate) struct ResumedIncidents {
    pub(crate) waiting: BTreeMap<RunKey, SubjectIncidents>,
    pub(crate) until: Moment,
}

impl ResumedIncidents {
    /// Removes and returns the incidents of a run, or `None` if no incident of the run waits.
    pub(crate) fn take(&mut self, run: RunKey) -> Option<Incidents> {
        self.waiting.remove(&run).map(|left| left.incidents)
    }

    /// Closes all incidents.
    pub(crate) fn end(&mut self, ending: IncidentEnding, now: Moment) -> Vec<Changes> {
        let waiting = std::mem::take(&mut self.waiting).into_values();
        waiting.map(|mut left| left.end(ending, now)).collect()
    }

    /// Closes all waiting incidents if they have waited too long, and returns the changes. Otherwise, removes and
    /// returns the incidents whose process is not in `known`, as if the process had exited now. Called once per second.
    pub(crate) fn tick(&mut self, known: &[RunKey], now: Moment) -> (Vec<Changes>, Vec<SubjectIncidents>) {
        if now >= self.until {
            return (self.end(IncidentEnding::Unknown, now), Vec::new());
        }
        // Incidents of services and of gcwatch itself have no process, so they keep waiting.
        let is_gone = |(run, _): &(RunKey, SubjectIncidents)| run.pid != 0 && !known.contains(run);
        let (gone, waiting): (BTreeMap<_, _>, _) = std::mem::take(&mut self.waiting).into_iter().partition(is_gone);
        self.waiting = waiting;
        let mut gone: Vec<_> = gone.into_values().collect();
        gone.iter_mut().for_each(|left| left.incidents.process_ended(now));
        (Vec::new(), gone)
    }

    /// Adds an incident that waits for its process.
    pub(crate) fn put(&mut self, left: SubjectIncidents, incident: Arc<Incident>) {
        let left = self.waiting.entry(left.run).or_insert(left);
        left.incidents.resume(incident, self.until);
    }
}

impl StoredState {
    /// Creates the stored state of an incident.
    pub(crate) fn new(
        run: RunKey,
        process: &str,
        resource: &Origin,
        share: &QuotaOwner,
        incident: &Incident,
        wall: Wall,
    ) -> Self {
        let attributes = resource.attributes.iter();
        let plain = attributes.filter_map(|attribute| {
            let value = match attribute.value.as_ref()?.value.as_ref()? {
                Value::StringValue(text) => json!(text),
                Value::IntValue(number) => json!(number),
                Value::BoolValue(truth) => json!(truth),
                _ => return None,
            };
            Some((attribute.key.clone(), value))
        });
        Self {
            pid: run.pid,
            start_time: run.start_time,
            process: process.to_owned(),
            resource: plain.collect(),
            tenant: share.tenant.to_string(),
            service: share.service.to_string(),
            incident: StoredIncident::from_incident(incident, wall),
        }
    }

    /// Returns the subject, without incidents, and the restored incident.
    pub(crate) fn restore(&self, rules: &RuleSet, wall: Wall) -> (SubjectIncidents, Arc<Incident>) {
        let run = RunKey {
            pid: self.pid,
            start_time: self.start_time,
        };
        let attribute = |(key, value): (&String, &Json)| {
            let value = match value {
                Json::String(text) => Value::StringValue(text.clone()),
                Json::Number(number) => Value::IntValue(number.as_i64()?),
                Json::Bool(truth) => Value::BoolValue(*truth),
                _ => return None,
            };
            Some(key_value(key, value))
        };
        let resource = Origin::new(self.resource.iter().filter_map(attribute).collect());
        let whose = SubjectIncidents {
            run,
            process: self.process.as_str().into(),
            resource: Arc::new(resource),
            share: QuotaOwner {
                tenant: self.tenant.as_str().into(),
                service: self.service.as_str().into(),
            },
            incidents: Incidents::default(),
        };
        (whose, self.incident.restore(rules, wall))
    }
}
