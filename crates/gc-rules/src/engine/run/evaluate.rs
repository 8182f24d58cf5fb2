//! Evaluation of a rule: on a collection, and on the process.

use super::{Active, Change, HELD_UNKNOWN_NS, Occurrence, Phase, Status};
use crate::alert::Ending;
use crate::expression::Expression;
use crate::field::Scope;
use crate::rule::Rule;
use crate::time::Moment;

impl Status {
    /// Unknown if the evaluation fails.
    fn holds(&mut self, condition: &Expression, scope: &Scope<'_>) -> Option<bool> {
        condition.holds(scope).unwrap_or_else(|error| {
            self.failed(error, scope.now);
            None
        })
    }

    fn is_excepted(&mut self, rule: &Rule, scope: &Scope<'_>) -> bool {
        let now = scope.stream.wall.unix_ns(scope.now);
        let mut exceptions = rule.exceptions.iter();
        exceptions.any(|exception| exception.is_in_force(now) && self.holds(&exception.when, scope) == Some(true))
    }

    /// Evaluates a rule `on: gc` on a collection at `time`.
    pub(in crate::engine) fn occurrence(&mut self, rule: &Rule, scope: &Scope<'_>, time: Moment) -> Occurrence {
        let nothing = |change| Occurrence { matched: false, change };
        self.evaluations = self.evaluations.saturating_add(1);
        let holds = self.holds(&rule.when, scope);
        if holds != Some(true) {
            if self.is_active() {
                let clear = rule.clear.as_ref();
                let cleared = clear.is_some_and(|clear| self.holds(clear, scope) == Some(true));
                return nothing(if cleared {
                    Change::End(Ending::Cleared, time)
                } else {
                    Change::None
                });
            }
            let phase = if holds.is_none() {
                Phase::Unknown
            } else {
                Phase::Inactive
            };
            self.enter(phase, time);
            return nothing(Change::None);
        }
        let excepted = self.is_excepted(rule, scope);
        if let Phase::Active(active) = &mut self.phase {
            if excepted {
                return nothing(Change::End(Ending::RuleChanged, time));
            }
            active.last = active.last.max(time);
            active.count = active.count.saturating_add(1);
            return Occurrence {
                matched: true,
                change: Change::None,
            };
        }
        if excepted {
            self.enter(Phase::Excepted, time);
            return nothing(Change::None);
        }
        self.enter(Phase::Inactive, time);
        let change = if time < self.cooling() {
            self.suppress();
            Change::None
        } else {
            Change::Begin { active: time }
        };
        Occurrence { matched: true, change }
    }

    /// Evaluates a rule `on: process`.
    pub(in crate::engine) fn condition(&mut self, rule: &Rule, scope: &Scope<'_>) -> Change {
        let now = scope.now;
        self.evaluations = self.evaluations.saturating_add(1);
        if self.is_active() {
            let holds = match &rule.clear {
                None => self.holds(&rule.when, scope),
                Some(clear) => self.holds(clear, scope).map(|cleared| !cleared),
            };
            let excepted = self.is_excepted(rule, scope);
            return match &mut self.phase {
                Phase::Active(_) if excepted => Change::End(Ending::RuleChanged, now),
                Phase::Active(active) => active.condition(holds, rule.keep_firing_ns, now),
                _ => Change::None,
            };
        }
        let holds = self.holds(&rule.when, scope);
        let excepted = holds == Some(true) && self.is_excepted(rule, scope);
        let active = match self.phase {
            Phase::Pending(active) | Phase::Cooling(active) => active,
            _ => now,
        };
        let phase = match holds {
            None => Phase::Unknown,
            Some(false) => Phase::Inactive,
            Some(true) if excepted => Phase::Excepted,
            Some(true) if now.since(active) < rule.hold_ns => Phase::Pending(active),
            Some(true) if now < self.cooling() => Phase::Cooling(active),
            Some(true) => return Change::Begin { active },
        };
        if matches!(self.phase, Phase::Cooling(_)) && !matches!(phase, Phase::Cooling(_)) {
            self.suppress();
        }
        self.enter(phase, now);
        Change::None
    }
}

impl Active {
    fn condition(&mut self, holds: Option<bool>, keep: u64, now: Moment) -> Change {
        match holds {
            Some(true) => {
                (self.cleared, self.unknown) = (None, None);
                self.last = now;
            }
            Some(false) => {
                self.unknown = None;
                self.cleared.get_or_insert(now);
            }
            None => {
                self.unknown.get_or_insert(now);
            }
        }
        if let Some(end) = self.cleared.map(|since| since.after(keep)).filter(|end| *end <= now) {
            return Change::End(Ending::Cleared, end);
        }
        let held = self.unknown.map(|since| since.after(HELD_UNKNOWN_NS));
        match held.filter(|end| *end <= now) {
            Some(end) => Change::End(Ending::Unknown, end),
            None => Change::None,
        }
    }
}
