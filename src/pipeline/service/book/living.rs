//! One process that lives: which rules fire on it, and since when it is well or its memory is in an emergency.

use std::sync::Arc;

use base::time::Moment;
use gc_rules::alert::{Ending, Transition};
use gc_rules::rule::{Rule, Severity};

use processes::container::ContainerIdentity;

/// Limit of rules that are remembered of a process at once.
const MAX_FIRING: usize = 128;

/// The families whose alerts are about memory.
const OF_MEMORY: [&str; 1] = ["memory."];

/// A process that lives.
#[derive(Debug)]
pub(super) struct Living {
    /// When the process began.
    pub(super) began: Moment,
    pub(super) container: ContainerIdentity,
    /// The version of its service.
    pub(super) version: Option<Arc<str>>,
    /// Which process it is, for people.
    pub(super) place: Arc<str>,
    /// The rules that fire.
    pub(super) firing: Vec<Firing>,
    /// When one of them that is about memory fired last; [`Moment::NEVER`]: it fires now.
    pub(super) emergency: Option<Moment>,
    /// Since when none of them fires.
    pub(super) well_since: Moment,
}

/// A rule that fires.
#[derive(Debug)]
pub(super) struct Firing {
    pub(super) rule: Arc<str>,
    /// Of severity error or critical.
    pub(super) is_severe: bool,
}

impl Living {
    pub(super) fn observe(&mut self, transition: &Transition, now: Moment) {
        let alert = transition.alert();
        let rule: &Arc<Rule> = &alert.rule;
        let is_severe = alert.severity >= Severity::Error;
        match transition {
            Transition::Fired(_) => {
                if self.firing.len() < MAX_FIRING {
                    let rule = Arc::clone(&rule.id);
                    self.firing.push(Firing { rule, is_severe });
                }
            }
            // It fired until the end.
            Transition::Ended(_, Ending::ProcessEnded) => return,
            Transition::Ended(..) => {
                if let Some(place) = self.firing.iter().position(|firing| firing.rule == rule.id) {
                    self.firing.swap_remove(place);
                }
            }
        }
        if is_severe {
            self.severe_changed(&rule.id, now);
        }
    }

    /// A rule that fires is of severity error or critical now.
    pub(super) fn rose(&mut self, rule: &Arc<str>, now: Moment) {
        let mut firing = self.firing.iter_mut();
        let Some(firing) = firing.find(|firing| firing.rule == *rule && !firing.is_severe) else {
            return;
        };
        firing.is_severe = true;
        self.severe_changed(rule, now);
    }

    fn severe_changed(&mut self, rule: &str, now: Moment) {
        let is_of_memory = |id: &str| OF_MEMORY.iter().any(|family| id.starts_with(family));
        if is_of_memory(rule) {
            let fires = self.severe().any(is_of_memory);
            self.emergency = Some(if fires { Moment::NEVER } else { now });
        }
        let is_well = self.severe().next().is_none();
        self.well_since = if is_well { now } else { Moment::NEVER };
    }

    /// The rules of severity error or critical that fire.
    pub(super) fn severe(&self) -> impl Iterator<Item = &str> {
        let severe = self.firing.iter().filter(|firing| firing.is_severe);
        severe.map(|firing| &*firing.rule)
    }
}
