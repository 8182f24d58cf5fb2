//! The windows of one process: sampled at once, evaluated when a condition asks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::rules::expression::{EvaluationError, Expression, Node};
use crate::rules::field::{Root, Scope};
use crate::rules::rule::{By, On, Rule, RuleSet, Window};
use crate::rules::window::{Key, Live, Moment, most_memory};

use super::run::Failure;

/// The samples of every window that an enabled rule uses, and the values that were asked for in this step.
#[derive(Debug)]
pub(super) struct Windows {
    rules: Arc<RuleSet>,
    live: Vec<Live>,
    values: Vec<Option<f64>>,
    /// The step in which each value was made.
    made: Vec<u64>,
    step: u64,
    gc: Box<[usize]>,
    keyed: Box<[usize]>,
    suspension: Box<[usize]>,
    tick: Box<[usize]>,
}

impl Windows {
    /// Those of a rule set, without samples.
    pub(super) fn new(rules: &Arc<RuleSet>) -> Self {
        Self::with(rules, HashMap::new(), 0)
    }

    /// Those of another rule set, with the samples of windows that both have and use.
    pub(super) fn adopt(self, rules: &Arc<RuleSet>, now: u64) -> Self {
        let used = self
            .gc
            .iter()
            .chain(&self.keyed)
            .chain(&self.suspension)
            .chain(&self.tick);
        let used: HashSet<usize> = used.copied().collect();
        let samples = self.rules.window_meanings.iter().copied().zip(self.live);
        let kept = samples.enumerate().filter(|(place, _)| used.contains(place));
        Self::with(rules, kept.map(|(_, samples)| samples).collect(), now)
    }

    fn with(rules: &Arc<RuleSet>, mut kept: HashMap<u64, Live>, began: u64) -> Self {
        let count = rules.windows.len();
        let mut live: Vec<Live> = std::iter::repeat_with(|| Live::new(began)).take(count).collect();
        for (live, meaning) in live.iter_mut().zip(&rules.window_meanings) {
            if let Some(kept) = kept.remove(meaning) {
                *live = kept;
            }
        }
        let mut used = vec![false; count];
        for (_, place) in rules
            .rules
            .iter()
            .filter(|rule| rule.enabled)
            .flat_map(|rule| &rule.windows)
        {
            if let Some(used) = used.get_mut(*place) {
                *used = true;
            }
        }
        let places = |fits: fn(&Window) -> bool| {
            let windows = rules.windows.iter().zip(&used).enumerate();
            windows
                .filter(|(_, (window, used))| **used && fits(window))
                .map(|(place, _)| place)
                .collect()
        };
        Self {
            live,
            values: vec![None; count],
            made: vec![0; count],
            step: 1,
            gc: places(|window| window.sampled == Root::Gc && window.by == By::Nothing),
            keyed: places(|window| window.sampled == Root::Gc && window.by == By::GenerationAndType),
            suspension: places(|window| window.sampled == Root::Suspension),
            tick: places(|window| matches!(window.sampled, Root::Process | Root::Stream)),
            rules: Arc::clone(rules),
        }
    }

    /// Something was observed or time passed: values are made anew.
    pub(super) fn step(&mut self) {
        self.step += 1;
    }

    pub(super) fn has_ticks(&self) -> bool {
        !self.tick.is_empty()
    }

    pub(super) fn sample_gc(&mut self, scope: &Scope<'_>, time: u64) {
        sample(&self.rules.windows, &mut self.live, &self.gc, None, scope, time);
    }

    /// After the conditions: a collection is compared with those before it.
    pub(super) fn sample_keyed(&mut self, key: Option<Key>, scope: &Scope<'_>, time: u64) {
        sample(&self.rules.windows, &mut self.live, &self.keyed, key, scope, time);
    }

    pub(super) fn sample_suspension(&mut self, scope: &Scope<'_>, time: u64) {
        sample(&self.rules.windows, &mut self.live, &self.suspension, None, scope, time);
    }

    pub(super) fn sample_tick(&mut self, scope: &Scope<'_>) {
        let time = scope.now_unix_ns;
        sample(&self.rules.windows, &mut self.live, &self.tick, None, scope, time);
    }

    /// To evaluate expressions of a rule. Beside it: [`windows_may_wait`].
    pub(super) fn ask<'a>(
        &'a mut self,
        run: (&'a Rule, bool),
        scope: &'a Scope<'a>,
        key: Option<Key>,
        watched: u64,
    ) -> Ask<'a> {
        let at = Moment {
            now: scope.now_unix_ns,
            watched,
        };
        Ask {
            windows: self,
            rule: run.0,
            windows_may_wait: run.1,
            scope,
            key,
            at,
        }
    }

    fn make(&mut self, place: usize, key: Option<Key>, at: Moment) {
        let (Some(window), Some(live)) = (self.rules.windows.get(place), self.live.get_mut(place)) else {
            return;
        };
        let (Some(value), Some(made)) = (self.values.get_mut(place), self.made.get_mut(place)) else {
            return;
        };
        if *made != self.step {
            *made = self.step;
            *value = live.value(window, key, at);
        }
    }

    /// Samples of the windows of `rule` that could not be evaluated.
    pub(super) fn failures(&self, rule: &Rule) -> (u64, Option<Failure>) {
        let live = rule.windows.iter().filter_map(|(_, place)| self.live.get(*place));
        let newest = live
            .clone()
            .filter_map(|live| live.last_failure)
            .max_by_key(|(_, at)| *at);
        let failure = newest.map(|(error, at_unix_ns)| Failure { error, at_unix_ns });
        (live.map(|live| live.failures).sum(), failure)
    }

    pub(super) fn memory(&self) -> usize {
        self.live.iter().map(Live::memory).sum()
    }

    pub(super) fn most_memory(rules: &RuleSet) -> usize {
        let one = |window: &Window| {
            size_of::<Window>() + size_of::<Live>() + size_of::<(Option<f64>, u64, usize)>() + most_memory(window)
        };
        rules.windows.iter().map(one).sum()
    }
}

fn sample(windows: &[Window], live: &mut [Live], places: &[usize], key: Option<Key>, scope: &Scope<'_>, time: u64) {
    for &place in places {
        if let (Some(window), Some(live)) = (windows.get(place), live.get_mut(place)) {
            live.sample(window, key, scope, time);
        }
    }
}

/// Evaluates expressions of one rule at one moment.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    windows: &'a mut Windows,
    pub(super) rule: &'a Rule,
    windows_may_wait: bool,
    scope: &'a Scope<'a>,
    key: Option<Key>,
    at: Moment,
}

impl<'r> Ask<'r> {
    /// The time of the evaluation.
    pub(super) fn now(&self) -> u64 {
        self.at.now
    }

    /// Whether a condition holds. Where [`windows_may_wait`], they are left out at first: what is decided without them, most often that a
    /// collection is nothing special, needs no median.
    pub(super) fn holds(&mut self, expression: &Expression) -> Result<Option<bool>, EvaluationError> {
        if self.windows_may_wait {
            let decided = expression.holds(self.scope);
            if let Ok(Some(truth)) = decided {
                return Ok(Some(truth));
            }
        }
        expression.holds(&self.whole())
    }

    /// The scope with all windows of the rule.
    pub(super) fn whole(&mut self) -> Scope<'_> {
        for (_, place) in &self.rule.windows {
            self.windows.make(*place, self.key, self.at);
        }
        Scope {
            windows: &self.windows.values,
            ..*self.scope
        }
    }
}

/// Whether conditions of the rule may be asked without its windows first. What is decided without them stays so when more is known, unless
/// something asks whether a window is known: leaving it out would answer. Conditions on the process seldom say anything without them.
pub(super) fn windows_may_wait(rule: &Rule) -> bool {
    let conditions = [Some(&rule.when), rule.clear.as_ref()];
    let exceptions = rule.exceptions.iter().map(|exception| &exception.when);
    let asks = |node: &Node| match node {
        Node::Has(what) => what.any(&|node| matches!(node, Node::Window(_))),
        _ => false,
    };
    let mut all = conditions.into_iter().flatten().chain(exceptions);
    rule.on == On::Gc && !rule.windows.is_empty() && !all.any(|condition| condition.node.any(&asks))
}
