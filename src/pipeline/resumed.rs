//! Incidents of before gcwatch was restarted.
//!
//! ```text
//! file -> waiting -- its process is attached to ------> the incidents of the run: go on without a message, or end
//!              '---- its process is not there --------> aftermath: as if it had exited now
//!              '---- nothing for a quarter of an hour -> ended, unknown
//! ```
//!
//! Receivers know an incident by its labels and its process, so that the end of a restored one reaches them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use delivery::alerts::{IncidentNotice, Notices, subject};
use gc_rules::incident::{
    Incident, IncidentChange, IncidentEnding, IncidentRecord, Incidents, RESUME_NS, StoredIncident,
};
use gc_rules::rule::RuleSet;
use gc_rules::time::{Moment, Wall};
use gc_telemetry::origin::Origin;
use gc_telemetry::value::key_value;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::pipeline::aftermath::Changes;
use crate::pipeline::registry::Pipeline;
use crate::pipeline::settings::Clock;
use processes::RunKey;

/// Most incidents that are stored; of more, the most severe and oldest.
pub(crate) const MOST_STORED: usize = 1000;

/// The start time by which gcwatch itself is known.
const OWN_START: u64 = 0;

/// An open incident and whose it is, for a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredState {
    pid: u32,
    start_time: u64,
    process: String,
    /// Attributes of its resource: texts, integers, booleans.
    resource: BTreeMap<String, Json>,
    incident: StoredIncident,
}

/// One incident that waits for its process.
#[derive(Debug)]
struct Waiting {
    process: Arc<str>,
    resource: Arc<Origin>,
    incidents: Incidents,
}

/// Incidents of before, by their run.
#[derive(Debug, Default)]
pub(crate) struct Resumed {
    waiting: BTreeMap<RunKey, Waiting>,
    until: Moment,
}

impl Resumed {
    /// The incidents of a run that is observed again.
    pub(crate) fn take(&mut self, run: RunKey) -> Option<Incidents> {
        self.waiting.remove(&run).map(|waiting| waiting.incidents)
    }

    fn records(&self, wall: Wall) -> impl Iterator<Item = IncidentRecord> + '_ {
        self.waiting.iter().flat_map(move |(run, waiting)| {
            let subject = subject(*run, &waiting.process, &waiting.resource);
            let open = waiting.incidents.open();
            open.map(|incident| IncidentRecord::new(incident, &subject, wall))
                .collect::<Vec<_>>()
        })
    }

    fn put(&mut self, run: RunKey, process: &str, resource: &Arc<Origin>, incident: Arc<Incident>) {
        let until = self.until;
        let waiting = self.waiting.entry(run).or_insert_with(|| Waiting {
            process: process.into(),
            resource: Arc::clone(resource),
            incidents: Incidents::default(),
        });
        waiting.incidents.resume(incident, until);
    }
}

fn notice(run: RunKey, process: &Arc<str>, change: IncidentChange) -> IncidentNotice {
    IncidentNotice {
        run,
        process: Arc::clone(process),
        change,
        span: None,
    }
}

fn of_incidents(incidents: Vec<IncidentNotice>) -> Notices {
    Notices {
        incidents,
        ..Notices::default()
    }
}

impl Pipeline {
    /// Continues the incidents that were open before gcwatch was restarted. `same_boot`: pids and start times mean the
    /// same processes as then; otherwise all of them end.
    pub fn resume(&self, stored: &[StoredState], same_boot: bool, now: Moment) {
        let (rules, wall) = (self.rules(), self.wall());
        let mut ended = Vec::new();
        {
            let mut resumed = self.shared().resumed();
            resumed.until = now.after(RESUME_NS);
            for state in stored {
                let Some((run, resource, incident)) = state.restore(&rules, wall) else {
                    continue;
                };
                let process: Arc<str> = state.process.as_str().into();
                let known = notice(run, &process, IncidentChange::Refreshed(Arc::clone(&incident)));
                self.shared().outlet().resumed(&resource, vec![known], wall);
                let is_gone = rules.rule(&incident.symptom.id).is_none();
                // That of gcwatch itself began with the daemon that was.
                if same_boot && run.start_time != OWN_START && !is_gone {
                    resumed.put(run, &process, &resource, incident);
                    continue;
                }
                if is_gone {
                    tracing::info!(
                        rule = &*incident.symptom.id,
                        pid = run.pid,
                        "an incident of before the restart ends: there is no such rule any more (CHANGELOG.md says which one \
                         replaces those of earlier versions)"
                    );
                }
                let ending = if is_gone {
                    IncidentEnding::RuleChanged
                } else {
                    IncidentEnding::ProcessEnded
                };
                let mut incidents = Incidents::default();
                incidents.resume(incident, now);
                let changes = incidents.end(ending, now);
                let notices = changes
                    .into_iter()
                    .map(|change| notice(run, &process, change))
                    .collect();
                ended.push((resource, of_incidents(notices)));
            }
        }
        ended.into_iter().for_each(|changes| self.shared().notify(changes));
    }

    /// What is open now and receivers know of, for [`resume`](Self::resume) of the next daemon.
    pub fn open_incidents(&self) -> Vec<StoredState> {
        let (mut open, wall) = (Vec::new(), self.wall());
        for run in self.runs().iter().filter(|run| run.clock() == Clock::Live) {
            let parts = run.parts();
            let Some(rules) = &parts.rules else { continue };
            let (who, resource) = (parts.identity.who(), parts.identity.resource());
            open.extend(
                rules
                    .incidents()
                    .map(|incident| StoredState::of(run.key(), &who.name, resource, incident, wall)),
            );
        }
        self.shared().aftermath().each(|run, process, resource, incident| {
            open.push(StoredState::of(run, process, resource, incident, wall));
        });
        self.shared()
            .services()
            .judged
            .each(|run, process, resource, incident| {
                open.push(StoredState::of(run, process, resource, incident, wall));
            });
        for (run, waiting) in &self.shared().resumed().waiting {
            let incidents = waiting.incidents.open();
            open.extend(
                incidents.map(|incident| StoredState::of(*run, &waiting.process, &waiting.resource, incident, wall)),
            );
        }
        open.sort_by_key(|state| (Reverse(state.incident.severity()), state.incident.began_unix_ns()));
        open.truncate(MOST_STORED);
        open
    }

    /// A second passed for what waits: what has no process goes to the aftermath, what waited too long ends.
    pub(crate) fn tick_resumed(&self, now: Moment) -> Vec<Changes> {
        let is_scanned = *self.shared().scanned.borrow();
        if !is_scanned || self.shared().resumed().waiting.is_empty() {
            return Vec::new();
        }
        let known: Vec<RunKey> = {
            let processes = self.shared().processes();
            processes.runs.keys().chain(processes.noted.keys()).copied().collect()
        };
        let (mut late, mut gone) = (Vec::new(), Vec::new());
        {
            let mut resumed = self.shared().resumed();
            let is_late = now >= resumed.until;
            for (run, mut waiting) in std::mem::take(&mut resumed.waiting) {
                if is_late {
                    let changes = waiting.incidents.end(IncidentEnding::Unknown, now);
                    let notices = changes
                        .into_iter()
                        .map(|change| notice(run, &waiting.process, change))
                        .collect();
                    late.push((waiting.resource, of_incidents(notices)));
                } else if run.pid == 0 || known.contains(&run) {
                    resumed.waiting.insert(run, waiting);
                } else {
                    waiting.incidents.process_ended(now);
                    gone.push((run, waiting));
                }
            }
        }
        for (
            run,
            Waiting {
                process,
                resource,
                incidents,
            },
        ) in gone
        {
            let ended = self.shared().aftermath().put(run, process, resource, incidents, now);
            late.extend(ended);
        }
        late
    }

    /// Ends all open incidents: nobody watches any more, and nothing of them outlives this daemon.
    pub fn unwatch_all(&self, now: Moment) {
        let mut changes = Vec::new();
        for run in self.runs().iter().filter(|run| run.clock() == Clock::Live) {
            let mut parts = run.parts();
            let resource = Arc::clone(parts.identity.resource());
            if let Some(rules) = parts.rules.as_mut().filter(|rules| rules.is_any_open()) {
                changes.push((resource, rules.unwatch(now)));
            }
        }
        changes.extend(self.shared().aftermath().end(IncidentEnding::Unwatched, now));
        changes.extend(self.shared().services().judged.unwatch(now));
        let waiting = std::mem::take(&mut self.shared().resumed().waiting);
        for (run, mut waiting) in waiting {
            let ended = waiting.incidents.end(IncidentEnding::Unwatched, now);
            let notices = ended
                .into_iter()
                .map(|change| notice(run, &waiting.process, change))
                .collect();
            changes.push((waiting.resource, of_incidents(notices)));
        }
        changes.into_iter().for_each(|changes| self.shared().notify(changes));
    }

    /// The records of what waits.
    pub(crate) fn waiting_incidents(&self) -> Vec<IncidentRecord> {
        self.shared().resumed().records(self.wall()).collect()
    }
}

impl StoredState {
    fn of(run: RunKey, process: &str, resource: &Origin, incident: &Incident, wall: Wall) -> Self {
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
            incident: StoredIncident::of(incident, wall),
        }
    }

    fn restore(&self, rules: &RuleSet, wall: Wall) -> Option<(RunKey, Arc<Origin>, Arc<Incident>)> {
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
        Some((run, Arc::new(resource), self.incident.restore(rules, wall)?))
    }
}
