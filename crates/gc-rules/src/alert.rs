//! Alerts and their transitions.

use std::sync::Arc;

use base::time::Moment;
use base::words;

use super::field::Scope;
use super::rule::{Rule, Severity};
use super::template::UNKNOWN;

/// An alert: a rule that fires for a process.
#[derive(Debug, Clone)]
pub struct Alert {
    pub rule: Arc<Rule>,
    /// Number of the alert, unique in the run of the process.
    pub number: u64,
    /// When the harm began, or else when the condition began to hold, by the time of the observed events.
    pub active: Moment,
    /// When it began to fire.
    pub started: Moment,
    /// The newest occurrence, or when the condition held last.
    pub last: Moment,
    /// When it ended; `None`: it fires.
    pub ended: Option<Moment>,
    /// The rule's labels at the beginning.
    pub labels: Arc<[(Arc<str>, Box<str>)]>,
    /// What happened, one sentence, with the figures of its newest rendering: at most a second old while it fires.
    pub summary: Arc<str>,
    /// The rule's annotations.
    pub annotations: Arc<[(Arc<str>, Box<str>)]>,
    /// The rule's windows at the newest rendering: name and value, if known.
    pub values: Arc<[(Arc<str>, Option<f64>)]>,
    /// Number of the collection that it began to fire on.
    pub collection: Option<u32>,
    /// How often the condition held: occurrences of a rule `on: gc`; 1 for others.
    pub count: u64,
    /// Alerts that the cooldown suppressed before this one.
    pub suppressed: u64,
    /// The highest value so far of the figure that its summary is about; `None`: it is about none, or unknown.
    pub peak: Option<f64>,
    /// How large the harm is, or how much of it this explains, in the rule's unit, at the newest rendering that knew it.
    pub amount: Option<f64>,
    /// Its severity: the highest so far.
    pub severity: Severity,
}

impl Alert {
    /// That of a rule at the time when it begins to hold. `collection`: the number of the one that it holds on.
    pub(crate) fn of(rule: &Arc<Rule>, scope: &Scope<'_>, active: Moment, collection: Option<u32>) -> Self {
        let labels = rule.labels.iter();
        let labels = labels.map(|(name, text)| (Arc::clone(name), text.render_label(scope).into()));
        let lasted = rule.lasting.as_ref().and_then(|lasting| lasting.number(scope));
        let lasted_ns = lasted.map_or(0, |seconds| (seconds.max(0.0) * 1e9) as u64);
        let active = active.min(scope.now.before(lasted_ns));
        let mut alert = Self {
            rule: Arc::clone(rule),
            number: 0,
            active,
            started: active,
            last: active,
            ended: None,
            labels: labels.collect(),
            summary: Arc::default(),
            annotations: Arc::default(),
            values: Arc::default(),
            collection,
            count: 1,
            suppressed: 0,
            peak: rule.summary.figure(scope),
            amount: None,
            severity: rule.severity_now(scope),
        };
        alert.render(rule, scope);
        alert
    }

    /// Its texts and values become what they are now, by its rule. Its labels identify it and stay.
    pub(crate) fn render(&mut self, rule: &Rule, scope: &Scope<'_>) {
        let annotations = rule.annotations.iter();
        let annotations = annotations.map(|(name, text)| (Arc::clone(name), text.render(scope).into()));
        let values = rule.windows.iter();
        let values = values.map(|(name, place)| (Arc::clone(name), scope.window(*place)));
        let summary = rule.summary.render(scope);
        // Of a figure that is unknown now, the last known one says more.
        if self.summary.is_empty() || !summary.contains(UNKNOWN) || self.summary.contains(UNKNOWN) {
            self.summary = summary.into();
        }
        self.amount = rule.amount_now(scope).or(self.amount);
        self.annotations = annotations.collect();
        self.values = values.collect();
    }
}

words! {
    /// Why an alert ended.
    pub enum Ending {
        /// The condition ended, or nothing came for as long as the alert is kept.
        Cleared = "cleared",
        /// A more severe one of its group fires instead.
        Superseded = "superseded",
        /// It is no longer known whether the condition holds.
        Unknown = "unknown",
        /// The process exited.
        ProcessEnded = "process-ended",
        /// The rule was removed or changed, or an exception applies now.
        RuleChanged = "rule-changed",
    }
}

/// A change of an alert.
#[derive(Debug, Clone)]
pub enum Transition {
    /// An alert began to fire.
    Fired(Arc<Alert>),
    Ended(Arc<Alert>, Ending),
}

impl Transition {
    pub fn alert(&self) -> &Arc<Alert> {
        match self {
            Self::Fired(alert) | Self::Ended(alert, _) => alert,
        }
    }
}

/// A rule that holds.
#[derive(Debug, Clone)]
pub struct Holding {
    /// Its alert as it is now.
    pub alert: Arc<Alert>,
    /// False: another rule of its group fires instead.
    pub firing: bool,
}

/// The result of the rules for one collection.
#[derive(Debug, Clone, Default)]
pub struct CollectionVerdict {
    /// Rules `on: gc` whose condition holds on this collection, including those that fire already or are inhibited. The
    /// collection is an anomaly if there is one.
    pub matched: Vec<Arc<Rule>>,
    /// Changes of alerts.
    pub transitions: Vec<Transition>,
}
