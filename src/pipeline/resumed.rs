//! Incidents of before gcwatch was restarted.
//!
//! ```text
//! file -> waiting -- its process is attached to ------> the incidents of the run: go on without a message, or end
//!              '---- its process is not there --------> exited: as if it had exited now
//!              '---- nothing for a quarter of an hour -> ended, unknown
//! ```
//!
//! Receivers know an incident by its labels and its process, so that the end of a restored one reaches them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use delivery::alerts::IncidentNotice;
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

use crate::pipeline::incident_owner::{Changes, Left};
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

/// Incidents of before, by their run.
#[derive(Debug, Default)]
pub(crate) struct Resumed {
    waiting: BTreeMap<RunKey, Left>,
    until: Moment,
}

impl Resumed {
    /// The incidents of a run that is observed again.
    pub(crate) fn take(&mut self, run: RunKey) -> Option<Incidents> {
        self.waiting.remove(&run).map(|left| left.incidents)
    }

    /// The incidents that wait.
    pub(crate) fn records(&self, wall: Wall) -> impl Iterator<Item = IncidentRecord> + '_ {
        self.waiting
            .iter()
            .flat_map(move |(run, left)| left.records(*run, wall))
    }

    /// Each of them, with its run, the process and its resource.
    pub(crate) fn each(&self, take: &mut impl FnMut(RunKey, &str, &Origin, &Incident)) {
        self.waiting.iter().for_each(|(run, left)| left.each(*run, take));
    }

    /// Ends all of them.
    pub(crate) fn end(&mut self, ending: IncidentEnding, now: Moment) -> Vec<Changes> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        waiting.map(|(run, left)| left.end(run, ending, now)).collect()
    }

    /// A second passed: those that waited too long end, and those without a process are given back, as if it had exited
    /// now.
    pub(crate) fn tick(&mut self, known: &[RunKey], now: Moment) -> (Vec<Changes>, Vec<(RunKey, Left)>) {
        if now >= self.until {
            return (self.end(IncidentEnding::Unknown, now), Vec::new());
        }
        // Those of services and of gcwatch itself have no process.
        let is_gone = |(run, _): &(RunKey, Left)| run.pid != 0 && !known.contains(run);
        let (mut gone, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting).into_iter().partition(is_gone);
        self.waiting.extend(waiting);
        gone.iter_mut().for_each(|(_, left)| left.incidents.process_ended(now));
        (Vec::new(), gone)
    }

    fn put(&mut self, run: RunKey, process: &Arc<str>, resource: &Arc<Origin>, incident: Arc<Incident>) {
        let until = self.until;
        let left = self.waiting.entry(run).or_insert_with(|| Left {
            process: Arc::clone(process),
            resource: Arc::clone(resource),
            incidents: Incidents::default(),
        });
        left.incidents.resume(incident, until);
    }
}

impl Pipeline {
    /// Continues the incidents that were open before gcwatch was restarted. `same_boot`: pids and start times mean the
    /// same processes as then; otherwise all of them end.
    pub fn resume(&self, stored: &[StoredState], same_boot: bool, now: Moment) {
        let (rules, wall, shared) = (self.rules(), self.wall(), self.shared());
        let mut owner = shared.incidents();
        owner.waiting.until = now.after(RESUME_NS);
        for state in stored {
            let Some((run, resource, incident)) = state.restore(&rules, wall) else {
                continue;
            };
            let process: Arc<str> = state.process.as_str().into();
            let known = IncidentNotice {
                run,
                process: Arc::clone(&process),
                change: IncidentChange::Refreshed(Arc::clone(&incident)),
                span: None,
            };
            shared.outlet().resumed(&resource, vec![known], wall);
            let is_gone = rules.rule(&incident.symptom.id).is_none();
            // That of gcwatch itself began with the daemon that was.
            if same_boot && run.start_time != OWN_START && !is_gone {
                owner.waiting.put(run, &process, &resource, incident);
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
            let left = Left {
                process,
                resource,
                incidents,
            };
            shared.tell(&mut owner, left.end(run, ending, now));
        }
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
        self.shared().incidents().each(|run, process, resource, incident| {
            open.push(StoredState::of(run, process, resource, incident, wall));
        });
        // One whose process exited meanwhile was met twice.
        let mut met = BTreeSet::new();
        open.retain(|state| met.insert((state.pid, state.start_time, state.incident.number())));
        open.sort_by_key(|state| (Reverse(state.incident.severity()), state.incident.began_unix_ns()));
        open.truncate(MOST_STORED);
        open
    }

    /// Ends all open incidents: nobody watches any more, and nothing of them outlives this daemon.
    pub fn unwatch_all(&self, now: Moment) {
        for run in self.runs().iter().filter(|run| run.clock() == Clock::Live) {
            let mut parts = run.parts();
            let rules = parts.rules.as_mut().filter(|rules| rules.is_any_open());
            if let Some(notices) = rules.map(|rules| rules.unwatch(now)) {
                self.shared().tell_of(&parts, notices);
            }
        }
        let mut owner = self.shared().incidents();
        let changes = owner.unwatch(now);
        self.shared().tell_all(&mut owner, changes);
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
