//! State machine that turns transitions of alerts into incidents of one process. Time is a value.

mod open;

use std::sync::Arc;

use base::run_key::RunKey;
use base::time::{Moment, Wall};
use clr_gc::gc::StoppedTime;

use self::open::{OpenIncident, finished, is_of, member};
use super::black_box::{QuotaOwner, Recorder, Recordings};
use super::{Finding, Incident, IncidentChange, IncidentEnding, Member, REFRESH_NS};
use rule_engine::alert::{Alert, Ending, HoldingRule, Transition};
use rule_engine::ledger::Ledger;
use rule_engine::rule::{Evidence, HarmUnit, Role};
use rule_engine::rule_set::RuleSet;

/// The incidents of one process.
#[derive(Debug, Default)]
pub struct Incidents {
    open: Vec<OpenIncident>,
    /// Number of the newest incident.
    number: u64,
    /// Newest memory ledger of the process, for new incidents.
    ledger: Option<Arc<Ledger>>,
    /// Stopped time of the last minutes, and the start of that period; `None` before it is set.
    recently_stopped: Option<(Moment, StoppedTime)>,
    /// Id of the recording of the service's process that died most recently; `None` if there is no such recording.
    of_dead: Option<Arc<str>>,
    /// Recorder of the process; `None` if its events are not retained.
    recorder: Option<Recorder>,
}

impl Incidents {
    /// Returns the open incidents in the order in which they started.
    pub fn open(&self) -> impl Iterator<Item = &Arc<Incident>> {
        self.open.iter().map(|open| &open.incident)
    }

    /// Returns whether there is no open incident.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Continues an incident from before a restart of gcwatch. The members of the incident can be inactive until
    /// `until`.
    pub fn resume(&mut self, incident: Arc<Incident>, until: Moment) {
        self.number = self.number.max(incident.number);
        self.open.push(OpenIncident {
            passed_on: incident.began,
            incident,
            ending: IncidentEnding::Unknown,
            changed: false,
            resumes_until: until,
            explained: None,
        });
    }

    /// Sets the memory ledger. Incidents that gather ledgers hold the newest ledger until the process exits.
    pub fn set_ledger(&mut self, ledger: Arc<Ledger>) {
        for open in &mut self.open {
            open.gather(Some(&ledger));
        }
        self.ledger = Some(ledger);
    }

    /// Sets the stopped time of the last minutes and the start of that period. Incidents of stopped time hold the
    /// newest values until the process exits.
    pub fn set_stopped_time(&mut self, since: Moment, stopped: StoppedTime) {
        self.recently_stopped = Some((since, stopped));
    }

    /// Starts to record severe incidents because the events of the process are retained, unless `recordings` contains a
    /// recording of the same rule and service.
    pub fn keep_events(&mut self, run: RunKey, process: Arc<str>, share: QuotaOwner, recordings: Arc<dyn Recordings>) {
        self.recorder
            .get_or_insert_with(|| Recorder::new(run, process, share, recordings));
    }

    /// Updates the owner of the process.
    pub fn set_share(&mut self, share: QuotaOwner) {
        if let Some(recorder) = &mut self.recorder {
            recorder.belongs(share);
        }
    }

    /// Returns whether an open incident gathers this evidence.
    pub fn gather(&self, evidence: Evidence) -> bool {
        let mut open = self.open.iter();
        open.any(|open| open.incident.process_ended.is_none() && open.incident.gathers(evidence))
    }

    /// Sets the recording that contains the end of the most recent process of the service that died; `None` if there is
    /// no recording. Incidents without their own recording refer to this recording.
    pub fn set_recording(&mut self, id: Option<Arc<str>>) {
        if self.of_dead == id {
            return;
        }
        for open in &mut self.open {
            if open.incident.black_box.is_none() && id.is_some() {
                Arc::make_mut(&mut open.incident).black_box.clone_from(&id);
                open.changed = true;
            }
        }
        self.of_dead = id;
    }

    /// Records the result of a burst for the incident with this number. Returns `None` if the incident has ended, or if
    /// there was no burst; the reason is then part of the next change.
    pub fn record_finding(&mut self, number: u64, finding: Finding) -> Option<IncidentChange> {
        let mut open = self.open.iter_mut();
        let open = open.find(|open| open.incident.number == number)?;
        let (evidence, is_none) = (finding.evidence(), finding.is_none());
        let incident = Arc::make_mut(&mut open.incident);
        let found = Arc::make_mut(incident.found.get_or_insert_default());
        found.take(finding);
        // Receivers of the newest state get the finding with the next refresh.
        open.changed = true;
        (!is_none).then(|| IncidentChange::Gathered(Arc::clone(&open.incident), evidence))
    }

    /// Records that the process exited. Active members remain unchanged until a successor is healthy or 15 minutes have
    /// passed.
    pub fn process_ended(&mut self, now: Moment) {
        for open in &mut self.open {
            if !open.incident.is_over() && open.incident.process_ended.is_none() {
                Arc::make_mut(&mut open.incident).process_ended = Some(now);
            }
        }
    }

    /// Applies the transitions since the last call in their order, and the rules that are active now. `wall` dates the
    /// ids of recordings.
    pub fn observe(
        &mut self,
        rules: &RuleSet,
        transitions: &[Transition],
        holding: &[HoldingRule],
        (now, wall): (Moment, Wall),
    ) -> Vec<IncidentChange> {
        let mut changes = Vec::new();
        for transition in transitions {
            match transition {
                // Causes are taken from the active rules, after the harm is known.
                Transition::Fired(alert) if !alert.rule.is_harm() => {}
                Transition::Fired(alert) => {
                    self.expire(alert.started, &mut changes);
                    self.join(rules, alert, wall, &mut changes);
                }
                Transition::Ended(alert, ending) => self.ended(alert, *ending, &mut changes),
            }
        }
        self.hold(rules, holding, (now, wall), &mut changes);
        self.divide(now);
        self.explain(rules, holding, (now, wall), &mut changes);
        self.expire(now, &mut changes);
        self.refresh(now, &mut changes);
        self.as_one(changes)
    }

    /// Merges the changes of an incident that started in this evaluation into one message: its start, in its state
    /// after the evaluation. Incidents that started and were merged in the same evaluation are omitted.
    fn as_one(&self, changes: Vec<IncidentChange>) -> Vec<IncidentChange> {
        let began = changes
            .iter()
            .filter(|change| matches!(change, IncidentChange::Began(_)));
        let began: Vec<u64> = began.map(|change| change.incident().number).collect();
        if began.is_empty() {
            return changes;
        }
        let merged = |number: u64| {
            changes.iter().any(|change| {
                matches!(change, IncidentChange::Ended(incident)
                    if incident.number == number && incident.ending == Some(IncidentEnding::Merged))
            })
        };
        let nobody_knows: Vec<u64> = began.iter().copied().filter(|number| merged(*number)).collect();
        let one = |change: IncidentChange| {
            let number = change.incident().number;
            if nobody_knows.contains(&number) {
                return None;
            }
            let newest = || self.open().find(|incident| incident.number == number);
            match change {
                IncidentChange::Began(incident) => Some(IncidentChange::Began(newest().map_or(incident, Arc::clone))),
                IncidentChange::Worse(..) | IncidentChange::Explained(_) | IncidentChange::Refreshed(_)
                    if began.contains(&number) =>
                {
                    None
                }
                other => Some(other),
            }
        };
        changes.into_iter().filter_map(one).collect()
    }

    /// Advances the time without alerts, after the process exited.
    pub fn advance(&mut self, now: Moment) -> Vec<IncidentChange> {
        let mut changes = Vec::new();
        self.expire(now, &mut changes);
        changes
    }

    /// Closes all incidents.
    pub fn end(&mut self, ending: IncidentEnding, now: Moment) -> Vec<IncidentChange> {
        let all = std::mem::take(&mut self.open);
        let end = |open: OpenIncident| IncidentChange::Ended(finished(open.incident, ending, now));
        all.into_iter().map(end).collect()
    }

    /// Adds an alert that started to fire to an open incident, or starts an incident.
    fn join(&mut self, rules: &RuleSet, alert: &Arc<Alert>, wall: Wall, changes: &mut Vec<IncidentChange>) {
        let group = rules.group_of(alert);
        let Some(home) = self.home(rules, alert, group) else {
            self.number += 1;
            let gathers = alert.rule.evidence.contains(&Evidence::Ledger);
            let mut incident = Incident {
                number: self.number,
                symptom: Arc::clone(&alert.rule),
                group: rules.group_name(group),
                labels: Arc::clone(&alert.labels),
                severity: alert.severity,
                began: alert.active,
                noticed: alert.started,
                ended: None,
                ending: None,
                process_ended: None,
                members: vec![member(rules, alert)],
                ledger: self.ledger.clone().filter(|_| gathers),
                stopped: None,
                black_box: self.of_dead.clone(),
                is_recorded_before: false,
                found: None,
            };
            if let Some(recorder) = &mut self.recorder {
                recorder.record(&mut incident, alert.started, wall);
            }
            let incident = Arc::new(incident);
            changes.push(IncidentChange::Began(Arc::clone(&incident)));
            self.open.push(OpenIncident {
                incident,
                ending: IncidentEnding::Cleared,
                passed_on: alert.started,
                changed: false,
                resumes_until: Moment::FIRST,
                explained: None,
            });
            return;
        };
        self.merge(rules, home, group, alert.started, changes);
        if let Some(open) = self.open.get_mut(home) {
            open.put(rules, alert);
            open.gather(self.ledger.as_ref());
            open.settle(rules, self.recorder.as_mut(), (alert.started, wall), changes);
        }
    }

    /// Returns the open incident that an alert belongs to: the incident of its rule or group, or an incident of which
    /// the alert is a consequence, or an incident that is a consequence of the alert. Returns `None` if there is no
    /// such incident.
    fn home(&self, rules: &RuleSet, alert: &Alert, group: Option<usize>) -> Option<usize> {
        let of_rule = |open: &OpenIncident| {
            let mut members = open.incident.members.iter();
            members.any(|member| member.rule().id == alert.rule.id)
        };
        let find = |is: &dyn Fn(usize) -> bool| self.open.iter().position(|open| open.groups(rules).any(is));
        let of_group = |group: usize| {
            find(&|known| known == group)
                .or_else(|| find(&|cause| rules.follows(group, cause)))
                .or_else(|| find(&|known| rules.follows(known, group)))
        };
        let home = self.open.iter().position(of_rule);
        home.or_else(|| group.and_then(of_group))
    }

    /// Merges other incidents into the incident at `home` if all their groups follow `group`.
    fn merge(
        &mut self,
        rules: &RuleSet,
        home: usize,
        group: Option<usize>,
        now: Moment,
        changes: &mut Vec<IncidentChange>,
    ) {
        let Some(group) = group else { return };
        let is_consequence = |open: &OpenIncident| {
            open.incident.group.is_some() && open.groups(rules).all(|known| rules.follows(known, group))
        };
        let merged: Vec<usize> = (0..self.open.len())
            .filter(|&at| at != home && self.open.get(at).is_some_and(is_consequence))
            .collect();
        let mut home = home;
        for at in merged.into_iter().rev() {
            home = self.fold(at, home, now, changes);
        }
    }

    /// Merges the incident at `at` into the incident at `home`, and returns the place of the latter afterwards.
    fn fold(&mut self, at: usize, home: usize, now: Moment, changes: &mut Vec<IncidentChange>) -> usize {
        let other = self.open.remove(at);
        let home = if at < home { home - 1 } else { home };
        if let Some(open) = self.open.get_mut(home) {
            let incident = Arc::make_mut(&mut open.incident);
            incident.members.extend(other.incident.members.iter().cloned());
            open.changed = true;
        }
        let ended = finished(other.incident, IncidentEnding::Merged, now);
        changes.push(IncidentChange::Ended(ended));
        home
    }

    /// Assigns causes to the open incidents, and merges incidents that are consequences of other incidents.
    fn explain(
        &mut self,
        rules: &RuleSet,
        holding: &[HoldingRule],
        (now, wall): (Moment, Wall),
        changes: &mut Vec<IncidentChange>,
    ) {
        for held in holding.iter().filter(|held| held.alert.rule.role == Some(Role::Cause)) {
            for open in &mut self.open {
                open.explain(rules, &held.alert);
            }
        }
        for number in self.open().map(|incident| incident.number).collect::<Vec<_>>() {
            let Some(at) = self.open.iter().position(|open| open.incident.number == number) else {
                continue;
            };
            let Some(home) = self.consequence(at) else { continue };
            let home = self.fold(at, home, now, changes);
            if let Some(open) = self.open.get_mut(home) {
                open.settle(rules, self.recorder.as_mut(), (now, wall), changes);
            }
        }
        for open in &mut self.open {
            if open.is_news(now) {
                changes.push(IncidentChange::Explained(Arc::clone(&open.incident)));
            }
        }
    }

    /// Updates the stopped time of the incidents of stopped time.
    fn divide(&mut self, now: Moment) {
        let Some((since, stopped)) = &self.recently_stopped else {
            return;
        };
        let wants = |open: &&mut OpenIncident| {
            open.incident.symptom.unit == Some(HarmUnit::Nanoseconds) && open.incident.process_ended.is_none()
        };
        for open in self.open.iter_mut().filter(wants) {
            if open.incident.stopped.as_ref().is_none_or(|known| known.2 != *stopped) {
                Arc::make_mut(&mut open.incident).stopped = Some(Arc::new((*since, now, *stopped)));
            }
        }
    }

    /// Returns the incident of which the incident at `at` is a consequence, according to a cause that explains enough
    /// of it. Returns `None` if there is no such incident.
    fn consequence(&self, at: usize) -> Option<usize> {
        let causes = self.open.get(at)?.incident.causes();
        let is_of = |open: &OpenIncident| {
            let mut of = causes.iter().flat_map(|cause| &cause.rule().consequence_of);
            of.any(|symptom| open.incident.harms().any(|member| member.rule().id == *symptom))
        };
        let mut others = self.open.iter().enumerate();
        let other = others.find(|(other, open)| *other != at && is_of(open) && !open.incident.is_over());
        other.map(|(place, _)| place)
    }

    fn ended(&mut self, alert: &Arc<Alert>, ending: Ending, changes: &mut Vec<IncidentChange>) {
        let at = alert.ended.unwrap_or(alert.last);
        let why = match ending {
            // The condition of the rule is still true.
            Ending::Superseded => return,
            Ending::Cleared => IncidentEnding::Cleared,
            Ending::Unknown => IncidentEnding::Unknown,
            Ending::ProcessEnded => IncidentEnding::ProcessEnded,
            Ending::RuleChanged => IncidentEnding::RuleChanged,
        };
        let of = |open: &OpenIncident| open.incident.members.iter().any(|member| is_of(member, alert));
        let Some(home) = self.open.iter().position(of) else {
            return;
        };
        let Some(open) = self.open.get_mut(home) else { return };
        open.ending = why;
        open.changed = true;
        let incident = Arc::make_mut(&mut open.incident);
        if let Some(member) = incident.members.iter_mut().find(|member| is_of(member, alert)) {
            member.observe(alert);
            if why != IncidentEnding::ProcessEnded {
                member.until = Some(at);
            }
        }
        if why == IncidentEnding::ProcessEnded {
            incident.process_ended = Some(at);
        }
        if why == IncidentEnding::RuleChanged && incident.is_over() {
            let open = self.open.remove(home);
            changes.push(IncidentChange::Ended(finished(open.incident, why, at)));
        }
    }

    /// Updates members from the active rules: figures, and rules that their group inhibits.
    fn hold(
        &mut self,
        rules: &RuleSet,
        holding: &[HoldingRule],
        (now, wall): (Moment, Wall),
        changes: &mut Vec<IncidentChange>,
    ) {
        for held in holding.iter().filter(|held| held.alert.rule.is_harm()) {
            let alert = &held.alert;
            let group = rules.group_of(alert);
            let known = |open: &OpenIncident| open.incident.members.iter().any(|member| is_of(member, alert));
            let same_group =
                |open: &OpenIncident| group.is_some() && open.groups(rules).any(|known| Some(known) == group);
            let home = self.open.iter().position(known);
            let Some(home) = home.or_else(|| self.open.iter().position(same_group)) else {
                continue;
            };
            if let Some(open) = self.open.get_mut(home) {
                open.put(rules, alert);
                open.gather(self.ledger.as_ref());
                open.settle(rules, self.recorder.as_mut(), (now, wall), changes);
            }
        }
        for open in &mut self.open {
            if open.incident.process_ended.is_some() || now < open.resumes_until {
                continue;
            }
            let gone =
                |member: &Member| member.until.is_none() && !holding.iter().any(|held| is_of(member, &held.alert));
            if open.incident.members.iter().any(gone) {
                open.changed = true;
                let incident = Arc::make_mut(&mut open.incident);
                for member in incident.members.iter_mut().filter(|member| gone(member)) {
                    member.until = Some(now);
                }
            }
        }
    }

    /// Closes the incidents that have ended at `now`.
    fn expire(&mut self, now: Moment, changes: &mut Vec<IncidentChange>) {
        self.open.retain_mut(|open| {
            let Some((at, ending)) = open.over(now) else {
                return true;
            };
            changes.push(IncidentChange::Ended(finished(Arc::clone(&open.incident), ending, at)));
            false
        });
    }

    fn refresh(&mut self, now: Moment, changes: &mut Vec<IncidentChange>) {
        for open in &mut self.open {
            if open.changed && now >= open.passed_on.after(REFRESH_NS) {
                (open.changed, open.passed_on) = (false, now);
                changes.push(IncidentChange::Refreshed(Arc::clone(&open.incident)));
            }
        }
    }
}
