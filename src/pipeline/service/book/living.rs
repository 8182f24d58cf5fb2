//! A living process: the rules that fire on it, and the times since which it is healthy or its memory is in an
//! emergency.

use std::sync::Arc;

use base::time::Moment;
use rule_engine::alert::{Ending, Transition};
use rule_engine::rule::{Rule, Severity};

use processes::container::ContainerIdentity;

/// Maximum number of firing rules remembered per process.
const MAX_FIRING: usize = 128;

/// Rule families whose alerts are about memory.
const OF_MEMORY: [&str; 1] = ["memory."];

/// A living process.
#[derive(Debug)]
pub(super) struct LivingProcess {
    /// Time at which the process started.
    pub(super) began: Moment,
    pub(super) container: ContainerIdentity,
    /// Version of the service; `None` if unknown.
    pub(super) version: Option<Arc<str>>,
    /// Human-readable name of the process.
    pub(super) place: Arc<str>,
    /// Firing rules.
    pub(super) firing: Vec<FiringRule>,
    /// Time at which the last severe memory rule stopped firing; [`Moment::NEVER`] while such a rule fires; `None` if
    /// none has fired.
    pub(super) emergency: Option<Moment>,
    /// Time since which no severe rule fires; [`Moment::NEVER`] while a severe rule fires.
    pub(super) well_since: Moment,
}

/// A firing rule.
#[derive(Debug)]
pub(super) struct FiringRule {
    pub(super) rule: Arc<str>,
    /// Whether the severity is error or critical.
    pub(super) is_severe: bool,
}

impl LivingProcess {
    pub(super) fn observe(&mut self, transition: &Transition, now: Moment) {
        let alert = transition.alert();
        let rule: &Arc<Rule> = &alert.rule;
        let is_severe = alert.severity >= Severity::Error;
        match transition {
            Transition::Fired(_) => {
                if self.firing.len() < MAX_FIRING {
                    let rule = Arc::clone(&rule.id);
                    self.firing.push(FiringRule { rule, is_severe });
                }
            }
            // The alert fired until the process ended.
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

    /// Records that a firing rule now has severity error or critical.
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

    /// Returns the firing rules of severity error or critical.
    pub(super) fn severe(&self) -> impl Iterator<Item = &str> {
        let severe = self.firing.iter().filter(|firing| firing.is_severe);
        severe.map(|firing| &*firing.rule)
    }
}
