//! Which rules a history is enough for.
//!
//! "No anomaly" means little where the rules had nothing to judge: a window over minutes is unknown in a recording of
//! seconds, and a recording says nothing of settings and containers.

use std::sync::Arc;

use crate::engine::{Engine, State};
use crate::rule::{Rule, Window};

/// After this many collections, a rule that was never known is not looked at again until the end: the reasons that make
/// it unknown are there from the beginning, and looking costs as much as judging.
const MOST_LOOKS: u32 = 2048;

/// Enabled rules that were unknown, or not selected, from the beginning to the end.
#[derive(Debug, Clone, Default)]
pub struct NotJudged {
    /// The process was observed for less time than a window of the rule requires.
    pub too_short: Vec<Arc<Rule>>,
    /// Values, settings or limits that the rule needs were never known, or there were too few samples.
    pub unknown: Vec<Arc<Rule>>,
}

impl NotJudged {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.too_short.len() + self.unknown.len()
    }
}

/// Whether each rule was ever known.
#[derive(Debug, Default)]
pub(super) struct Judged {
    known: Vec<bool>,
    looks: u32,
}

impl Judged {
    /// After a collection.
    pub(super) fn at_collection(&mut self, engine: &Engine) {
        if self.looks < MOST_LOOKS {
            self.looks += 1;
            self.look(engine);
        }
    }

    /// At any other time.
    pub(super) fn look(&mut self, engine: &Engine) {
        let states = engine.states();
        self.known.resize(states.len(), false);
        for (known, state) in self.known.iter_mut().zip(states) {
            *known |= !matches!(state.state, State::Unknown | State::NotSelected);
        }
    }

    /// The others, of a process that was observed for `watched_ns`.
    pub(super) fn others(&self, engine: &Engine, watched_ns: u64) -> NotJudged {
        let rules = engine.rules();
        let is_too_short = |rule: &Rule, state: State| {
            let windows = rule.windows.iter().filter_map(|(_, place)| rules.windows.get(*place));
            state == State::Unknown && windows.map(Window::least_watched_ns).max() > Some(watched_ns)
        };
        let mut others = NotJudged::default();
        let states = engine.states().into_iter().map(|state| state.state);
        for ((rule, known), state) in rules.rules.iter().zip(&self.known).zip(states) {
            match (rule.enabled && !known, is_too_short(rule, state)) {
                (false, _) => {}
                (true, true) => others.too_short.push(Arc::clone(rule)),
                (true, false) => others.unknown.push(Arc::clone(rule)),
            }
        }
        others
    }
}
