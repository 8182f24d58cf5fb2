//! Evaluation of the rules, and the resulting transitions.

use std::sync::Arc;

use super::Engine;
use super::groups::winner;
use super::run::Change;
use crate::alert::{Alert, CollectionVerdict, Ending, Transition};
use crate::expression::Expression;
use crate::field::{GcFacts, NoWindows, ProcessFacts, Scope, StreamFacts};
use crate::rule::{On, Rule};
use crate::time::Moment;
use crate::window::{Asked, Key};

/// The current collection, if conditions are evaluated on one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Current<'a> {
    pub(super) gc: Option<GcFacts<'a>>,
    pub(super) key: Option<Key>,
}

impl Engine {
    /// Ends alerts of rules `on: gc` that had no occurrence for `keep_firing_for`.
    pub(super) fn expire(&mut self, now: Moment, transitions: &mut Vec<Transition>) {
        let expired = self.on_gc.awake(&self.rules);
        let expired = expired.filter_map(|place| Some((place, self.runs.get(place)?.expired(now)?)));
        for (place, at) in expired.collect::<Vec<_>>() {
            self.end_run(place, Ending::Cleared, at, transitions);
        }
    }

    pub(super) fn judge_gc(&mut self, current: Current<'_>, time: Moment, verdict: &mut CollectionVerdict) {
        let values = self.windows.values(current.key, self.asked());
        let scope = Scope {
            windows: &values,
            ..scope(&self.facts, &self.stream, self.now, current.gc)
        };
        let mut changes = Vec::new();
        self.on_gc.evaluate(&self.rules, &mut self.runs, &scope, |place, run| {
            let occurrence = run.status.occurrence(&run.rule, &scope, time);
            if occurrence.matched {
                verdict.matched.push(Arc::clone(&run.rule));
                run.refresh(&scope);
            }
            if occurrence.change != Change::None {
                changes.push((place, occurrence.change));
            }
        });
        self.apply(changes, current, &mut verdict.transitions);
    }

    pub(super) fn judge_process(&mut self, current: Current<'_>, transitions: &mut Vec<Transition>) {
        let values = self.windows.values(current.key, self.asked());
        // Their conditions do not use a collection: at a tick there is none.
        let scope = Scope {
            windows: &values,
            ..scope(&self.facts, &self.stream, self.now, None)
        };
        let mut changes = Vec::new();
        self.on_process
            .evaluate(&self.rules, &mut self.runs, &scope, |place, run| {
                let change = run.status.condition(&run.rule, &scope);
                if change != Change::None {
                    changes.push((place, change));
                }
            });
        self.apply(changes, current, transitions);
    }

    /// Renders alerts of rules `on: process` anew. Those `on: gc` are at each occurrence: their texts are about it.
    pub(super) fn refresh(&mut self) {
        let values = self.windows.values(None, self.asked());
        let scope = Scope {
            windows: &values,
            ..scope(&self.facts, &self.stream, self.now, None)
        };
        let active = self.runs.iter_mut().filter(|run| run.status.is_active());
        active
            .filter(|run| run.rule.on != On::Gc)
            .for_each(|run| run.refresh(&scope));
    }

    fn apply(&mut self, changes: Vec<(usize, Change)>, current: Current<'_>, transitions: &mut Vec<Transition>) {
        for (place, change) in changes {
            match change {
                Change::None => {}
                Change::End(ending, at) => self.end_run(place, ending, at, transitions),
                Change::Begin { active } => self.begin(place, active, current, transitions),
            }
        }
    }

    fn begin(&mut self, place: usize, active: Moment, current: Current<'_>, transitions: &mut Vec<Transition>) {
        let values = self.windows.values(current.key, self.asked());
        let Some(run) = self.runs.get_mut(place) else { return };
        let on_gc = run.rule.on == On::Gc;
        let scope = Scope {
            windows: &values,
            ..scope(&self.facts, &self.stream, self.now, current.gc.filter(|_| on_gc))
        };
        let alert = Alert::of(&run.rule, &scope, active, current.gc.map(|gc| gc.collection.number));
        let round = if on_gc { &mut self.on_gc } else { &mut self.on_process };
        round.wake_one(&self.rules, place, run);
        run.status.begin(alert, if on_gc { active } else { self.now });
        match run.rule.group {
            Some(group) => self.groups.touch(group),
            None => self.fire(place, transitions),
        }
    }

    fn asked(&self) -> Asked {
        Asked {
            now: self.now,
            watched: self.watched(),
            so_far: false,
        }
    }

    /// What a rule would report if the process had been watched for as long as its windows require, and all of that
    /// time were like what was seen; without `for`. `None`: it would not fire, or is unknown all the same.
    pub(crate) fn so_far(&self, rule: &Rule) -> Option<String> {
        let at = Asked {
            so_far: true,
            ..self.asked()
        };
        let values = self.windows.values(None, at);
        let scope = Scope {
            windows: &values,
            ..scope(&self.facts, &self.stream, self.now, None)
        };
        let holds = |condition: &Expression| condition.holds(&scope) == Ok(Some(true));
        holds(&rule.when).then(|| rule.summary.render(&scope))
    }

    /// Fires the alert of a rule that holds.
    pub(super) fn fire(&mut self, place: usize, transitions: &mut Vec<Transition>) {
        let now = self.now;
        if let Some(alert) = self
            .runs
            .get_mut(place)
            .and_then(|run| run.status.fire(self.next_number, now))
        {
            self.next_number += 1;
            transitions.push(Transition::Fired(alert));
        }
    }

    pub(super) fn end_run(&mut self, place: usize, ending: Ending, at: Moment, transitions: &mut Vec<Transition>) {
        let Some(run) = self.runs.get_mut(place).filter(|run| run.status.is_active()) else {
            return;
        };
        if let Some(alert) = run.end(ending, at) {
            transitions.push(Transition::Ended(ended(alert, at), ending));
        }
        if let Some(group) = run.rule.group {
            self.groups.touch(group);
        }
    }

    pub(super) fn settle_groups(&mut self, transitions: &mut Vec<Transition>) {
        while let Some(group) = self.groups.next_touched() {
            let members = self.rules.turns.members(group);
            let Some(winner) = winner(members, &self.runs) else {
                continue;
            };
            let others = members.iter().map(|place| *place as usize);
            for place in others.filter(|place| *place != winner) {
                let Some(run) = self.runs.get_mut(place) else { continue };
                if let Some(alert) = run.status.inhibit(self.now) {
                    transitions.push(Transition::Ended(ended(alert, self.now), Ending::Superseded));
                }
            }
            self.fire(winner, transitions);
        }
    }
}

pub(super) fn scope<'a>(
    process: &'a ProcessFacts,
    stream: &'a StreamFacts,
    now: Moment,
    gc: Option<GcFacts<'a>>,
) -> Scope<'a> {
    Scope {
        gc,
        suspension: None,
        process,
        stream,
        windows: &NoWindows,
        now,
    }
}

pub(super) fn ended(mut alert: Arc<Alert>, at: Moment) -> Arc<Alert> {
    let ended = Arc::make_mut(&mut alert);
    ended.ended = Some(at.max(ended.started));
    alert
}
