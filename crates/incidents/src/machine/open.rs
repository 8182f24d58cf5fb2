//! An open incident: its members, head, causes and severity, and the time at which it ends.

use std::cmp::Reverse;
use std::sync::Arc;

use base::time::{Moment, Wall};

use crate::black_box::Recorder;
use crate::{AFTERMATH_NS, EXPLAINED_INTERVAL_NS, Incident, IncidentChange, IncidentEnding, LINGER_NS, Member};
use rule_engine::alert::Alert;
use rule_engine::ledger::Ledger;
use rule_engine::rule::{Evidence, Severity};
use rule_engine::rule_set::RuleSet;

/// An incident that has not ended.
#[derive(Debug)]
pub(super) struct OpenIncident {
    pub(super) incident: Arc<Incident>,
    /// Reason why the last member ended.
    pub(super) ending: IncidentEnding,
    /// Time at which the state was last passed on.
    pub(super) passed_on: Moment,
    /// Whether the state has changed since `passed_on`.
    pub(super) changed: bool,
    /// Time until which members can be inactive because the incident was resumed and the windows of its rules are
    /// filling.
    pub(super) resumes_until: Moment,
    /// The main cause of which receivers were last notified, and the time of the notification; `None` before the first
    /// notification.
    pub(super) explained: Option<(Arc<str>, Moment)>,
}

impl OpenIncident {
    /// Returns the groups of the members, by index in the set.
    pub(super) fn groups<'a>(&'a self, rules: &'a RuleSet) -> impl Iterator<Item = usize> + 'a {
        let members = self.incident.members.iter();
        members.filter_map(|member| rules.group_place(member.group.as_deref()?))
    }

    /// Adds a member, or updates its newest state.
    pub(super) fn put(&mut self, rules: &RuleSet, alert: &Arc<Alert>) {
        let mut known = self.incident.members.iter();
        if known.any(|member| is_of(member, alert) && Arc::ptr_eq(&member.alert, alert)) {
            return;
        }
        let incident = Arc::make_mut(&mut self.incident);
        self.changed = true;
        match incident
            .members
            .iter_mut()
            .find(|member| member.rule().id == alert.rule.id)
        {
            Some(known) => known.observe(alert),
            None => incident.members.push(member(rules, alert)),
        }
    }

    /// Stores the memory ledger if a rule of a member gathers it and the process is running.
    pub(super) fn gather(&mut self, ledger: Option<&Arc<Ledger>>) {
        let Some(ledger) = ledger else { return };
        let has_it = self
            .incident
            .ledger
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, ledger));
        if has_it || self.incident.process_ended.is_some() || !self.incident.gathers(Evidence::Ledger) {
            return;
        }
        Arc::make_mut(&mut self.incident).ledger = Some(Arc::clone(ledger));
        self.changed = true;
    }

    /// Adds an active cause as a member, with its share of the harm, if the incident has an active symptom that the
    /// cause explains. Does nothing after the exit of the process, because the harm has ended.
    pub(super) fn explain(&mut self, rules: &RuleSet, alert: &Arc<Alert>) {
        if self.incident.process_ended.is_some() {
            return;
        }
        let of = |member: &&Member| alert.rule.of.contains(&member.rule().id) && member.until.is_none();
        let Some(harm) = self.incident.harms().find(of).map(|member| member.alert.amount) else {
            return;
        };
        self.put(rules, alert);
        let share = alert.amount.zip(harm).filter(|(_, harm)| *harm > 0.0);
        let share = share.map(|(explained, harm)| (explained / harm).min(1.0));
        let known = self.incident.members.iter().position(|member| is_of(member, alert));
        let Some(known) = known.filter(|_| share.is_some()) else {
            return;
        };
        if let Some(member) = Arc::make_mut(&mut self.incident).members.get_mut(known) {
            member.share = share.map(|share| member.share.map_or(share, |known| known.max(share)));
        }
    }

    /// Returns whether receivers must be notified of the main cause now, and records the notification.
    pub(super) fn is_news(&mut self, now: Moment) -> bool {
        let Some(main) = self.incident.main_cause() else {
            return false;
        };
        let id = &main.rule().id;
        let notified = self.explained.as_ref();
        if notified.is_some_and(|(known, at)| known == id || now < at.after(EXPLAINED_INTERVAL_NS)) {
            return false;
        }
        self.explained = Some((Arc::clone(id), now));
        (self.changed, self.passed_on) = (false, now);
        true
    }

    /// Moves the head to the front and raises the severity.
    pub(super) fn settle(
        &mut self,
        rules: &RuleSet,
        recorder: Option<&mut Recorder>,
        (now, wall): (Moment, Wall),
        changes: &mut Vec<IncidentChange>,
    ) {
        let worst = self.incident.harms().map(|member| member.alert.severity).max();
        let best = (0..self.incident.members.len()).min_by_key(|&at| self.weight(rules, at, worst));
        let incident = Arc::make_mut(&mut self.incident);
        if let Some(best) = best.filter(|best| *best > 0 && *best < incident.members.len()) {
            let cause = incident.members.remove(best);
            incident.members.insert(0, cause);
        }
        let before = incident.severity;
        let worse = worst.filter(|worst| *worst > before);
        incident.severity = worse.unwrap_or(before);
        if let Some(recorder) = recorder {
            self.changed |= recorder.record(incident, now, wall);
        }
        if worse.is_some() {
            (self.changed, self.passed_on) = (false, now);
            changes.push(IncidentChange::Worse(Arc::clone(&self.incident), before));
        }
    }

    /// Returns the sort key of a member; the member with the lowest key is the head. A cause is never the head.
    /// Information is not the head if there is a more severe member. A symptom that joined as a consequence ranks
    /// behind the symptoms of the incident's own group. Then the number of other groups in the incident that the
    /// member's group follows counts, then the severity of symptoms, then the order of the files.
    fn weight(&self, rules: &RuleSet, at: usize, worst: Option<Severity>) -> impl Ord + use<> {
        let Some(member) = self.incident.members.get(at).filter(|member| member.is_harm()) else {
            return (true, true, usize::MAX, None, usize::MAX);
        };
        let explains = Some(member.alert.severity) == worst || member.alert.severity > Severity::Info;
        let group = member.group.as_deref().and_then(|group| rules.group_place(group));
        let followed = group.map_or(0, |group| {
            self.groups(rules).filter(|cause| rules.follows(group, *cause)).count()
        });
        let is_consequence = member.rule().role.is_some() && member.group != self.incident.group;
        let gravity = member.rule().role.map(|_| Reverse(member.alert.severity));
        (!explains, is_consequence, followed, gravity, member.rank)
    }

    /// Returns the time and the reason of the end, or `None` if the incident has not ended at `now`.
    pub(super) fn over(&self, now: Moment) -> Option<(Moment, IncidentEnding)> {
        if let Some(exited) = self.incident.process_ended {
            let until = match self.incident.severity {
                Severity::Info => exited,
                _ => exited.after(AFTERMATH_NS),
            };
            return (until <= now).then_some((until, IncidentEnding::ProcessEnded));
        }
        let over = self.incident.is_over() && self.incident.last_end().after(LINGER_NS) <= now;
        over.then(|| (self.incident.last_end(), self.ending))
    }
}

pub(super) fn member(rules: &RuleSet, alert: &Arc<Alert>) -> Member {
    let rank = rules.rules.iter().position(|rule| rule.id == alert.rule.id);
    Member {
        alert: Arc::clone(alert),
        count: alert.count,
        peak: alert.peak,
        share: None,
        group: rules.group_name(rules.group_of(alert)),
        since: alert.active,
        until: None,
        rank: rank.unwrap_or(usize::MAX),
        before: 0,
    }
}

pub(super) fn is_of(member: &Member, alert: &Alert) -> bool {
    member.rule().id == alert.rule.id
}

pub(super) fn finished(mut incident: Arc<Incident>, ending: IncidentEnding, at: Moment) -> Arc<Incident> {
    let ended = Arc::make_mut(&mut incident);
    let at = at.max(ended.began);
    ended.ended = Some(at);
    ended.ending = Some(ending);
    let members_until = ended.process_ended.unwrap_or(at);
    for member in &mut ended.members {
        member.until.get_or_insert(members_until);
    }
    incident
}
